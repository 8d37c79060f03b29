//! The C interface of libpmix (versions 2 to 5, soname `libpmix.so.2`), loaded at run time.
//!
//! The declarations are our own, in the layout of the PMIx standard, so PMIx is not needed to
//! build. The interface of this file is safe: owned values, and callbacks that end in an
//! [`Operation`] or in the list of failed processes.

// Foreign functions, their structures, and values that they allocate.
#![allow(unsafe_code)]

mod asked;
mod jobs;

use super::event::{self, Operation, Peer};
use super::value::{Datum, ERR_NOT_FOUND, LoadError, SUCCESS, Status};
use asked::Asked;
use dl::Shared;
pub(super) use jobs::Started;
use jobs::{Lookup, Publish, Spawn, Unpublish};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

const ERR_BAD_PARAM: Status = -27;
/// A non-blocking operation has already ended, and its callback will not be called.
const OPERATION_SUCCEEDED: Status = -157;
const EVENT_ACTION_COMPLETE: Status = -334;

/// Stands for the whole job, instead of a rank.
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: values for all processes.
const SCOPE_GLOBAL: u8 = 3;

const NAME_LEN: usize = 256;
const KEY_LEN: usize = 512;
/// Longest key in bytes, without the terminating zero.
pub(super) const MAX_KEY: usize = KEY_LEN - 1;

/// Types of values (`pmix_data_type_t`).
mod kind {
    pub(super) const BOOL: u16 = 1;
    pub(super) const STRING: u16 = 3;
    pub(super) const SIZE: u16 = 4;
    pub(super) const INT: u16 = 6;
    pub(super) const INT8: u16 = 7;
    pub(super) const INT16: u16 = 8;
    pub(super) const INT32: u16 = 9;
    pub(super) const INT64: u16 = 10;
    pub(super) const UINT: u16 = 11;
    pub(super) const UINT8: u16 = 12;
    pub(super) const UINT16: u16 = 13;
    pub(super) const UINT32: u16 = 14;
    pub(super) const UINT64: u16 = 15;
    pub(super) const PROC: u16 = 22;
    pub(super) const BYTE_OBJECT: u16 = 27;
    pub(super) const DATA_ARRAY: u16 = 39;
    pub(super) const PROC_RANK: u16 = 40;
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    namespace: [c_char; NAME_LEN],
    rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    bytes: *mut c_char,
    size: usize,
}

#[repr(C)]
struct DataArray {
    kind: u16,
    size: usize,
    array: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    string: *mut c_char,
    size: usize,
    int8: i8,
    int16: i16,
    int32: i32,
    int64: i64,
    uint8: u8,
    uint16: u16,
    uint32: u32,
    uint64: u64,
    bytes: ByteObject,
    proc: *const Proc,
    array: *const DataArray,
    /// Gives the union the size of its largest member in C.
    words: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: [c_char; KEY_LEN],
    flags: u32,
    value: Value,
}

// The sizes in libpmix 4.2 and 5.0 on 64-bit systems.
const _: () = assert!(size_of::<Proc>() == 260 && align_of::<Proc>() == 4);
const _: () = assert!(size_of::<Value>() == 32 && std::mem::offset_of!(Value, data) == 8);
const _: () = assert!(size_of::<Info>() == 552 && std::mem::offset_of!(Info, value) == 520);
const _: () = assert!(size_of::<ByteObject>() == 16 && size_of::<DataArray>() == 24);

type OpCallback = unsafe extern "C" fn(Status, *mut c_void);
type RegisteredCallback = unsafe extern "C" fn(Status, usize, *mut c_void);
type EventDone = unsafe extern "C" fn(Status, *mut Info, usize, Option<OpCallback>, *mut c_void, *mut c_void);
type EventHandler = unsafe extern "C" fn(
    usize,
    Status,
    *const Proc,
    *const Info,
    usize,
    *mut Info,
    usize,
    Option<EventDone>,
    *mut c_void,
);

type Init = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> Status;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Proc, usize) -> Status;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
type Commit = unsafe extern "C" fn() -> Status;
type FenceNb =
    unsafe extern "C" fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> Status;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
type ValueCallback = unsafe extern "C" fn(Status, *mut Value, *mut c_void);
type GetNb = unsafe extern "C" fn(
    *const Proc,
    *const c_char,
    *const Info,
    usize,
    ValueCallback,
    *mut c_void,
) -> Status;
// It returns nothing in version 3 and a status since 4; the callback gets that status, too.
type RegisterHandler = unsafe extern "C" fn(
    *const Status,
    usize,
    *const Info,
    usize,
    EventHandler,
    RegisteredCallback,
    *mut c_void,
);
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

/// The functions of libpmix.
pub(super) struct Library {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence_nb: FenceNb,
    get: Get,
    get_nb: GetNb,
    register_handler: RegisterHandler,
    publish: Publish,
    lookup: Lookup,
    unpublish: Unpublish,
    spawn: Spawn,
    error_string: ErrorString,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    /// Loads the library by a name for the dynamic loader, or by its path.
    ///
    /// # Errors
    ///
    /// Fails if the library is not found, or lacks a function.
    pub(super) fn load(name: &str) -> Result<Library, LoadError> {
        let library = Shared::open(Path::new(name))?;
        // SAFETY: each type is that of the function of this name in the PMIx standard. The pointers
        // stay valid, since the library stays loaded.
        unsafe {
            Ok(Library {
                init: symbol(library, c"PMIx_Init")?,
                finalize: symbol(library, c"PMIx_Finalize")?,
                abort: symbol(library, c"PMIx_Abort")?,
                put: symbol(library, c"PMIx_Put")?,
                commit: symbol(library, c"PMIx_Commit")?,
                fence_nb: symbol(library, c"PMIx_Fence_nb")?,
                get: symbol(library, c"PMIx_Get")?,
                get_nb: symbol(library, c"PMIx_Get_nb")?,
                register_handler: symbol(library, c"PMIx_Register_event_handler")?,
                publish: symbol(library, c"PMIx_Publish")?,
                lookup: symbol(library, c"PMIx_Lookup")?,
                unpublish: symbol(library, c"PMIx_Unpublish")?,
                spawn: symbol(library, c"PMIx_Spawn")?,
                error_string: symbol(library, c"PMIx_Error_string")?,
            })
        }
    }

    /// Connects to the launcher; returns the namespace, which names the job, and the rank.
    pub(super) fn init(&self) -> Result<(String, u32), Status> {
        let mut me = Proc { namespace: [0; NAME_LEN], rank: 0 };
        // SAFETY: `me` is a pmix_proc_t to be filled; no attributes are given.
        check(unsafe { (self.init)(&mut me, ptr::null(), 0) })?;
        Ok((text_of(&me.namespace), me.rank))
    }

    /// Disconnects.
    pub(super) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: no attributes are given.
        check(unsafe { (self.finalize)(ptr::null(), 0) })
    }

    /// Requests the end of the whole job; may wait for the launcher's reply.
    pub(super) fn abort(&self, code: c_int, message: &CStr) -> Result<(), Status> {
        // SAFETY: the message ends with a zero; no processes given means all of the job.
        check(unsafe { (self.abort)(code, message.as_ptr(), ptr::null(), 0) })
    }

    /// Stores bytes; others see them after a commit and a fence.
    pub(super) fn put(&self, key: &CStr, bytes: &[u8]) -> Result<(), Status> {
        let object = ByteObject { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        let mut value = Value { kind: kind::BYTE_OBJECT, data: Data { words: [0; 3] } };
        value.data.bytes = object;
        debug_assert!(key.to_bytes().len() <= MAX_KEY);
        // SAFETY: the key ends with a zero; the value is of the type it states; PMIx_Put copies it
        // and only reads the bytes.
        check(unsafe { (self.put)(SCOPE_GLOBAL, key.as_ptr(), &mut value) })
    }

    /// Passes the stored values to the server.
    pub(super) fn commit(&self) -> Result<(), Status> {
        // SAFETY: no arguments.
        check(unsafe { (self.commit)() })
    }

    /// Starts a fence of all processes of a job that exchanges their data.
    ///
    /// It ends in [`Operation::finish`] on libpmix's thread.
    pub(super) fn fence_begin(&self, namespace: &str, operation: &Arc<Operation>) -> Result<(), Status> {
        let all = proc_of(namespace, RANK_WILDCARD)?;
        let asked = Asked::new(operation, all, CString::default(), flag(c"pmix.collect"));
        // SAFETY: it is libpmix's function.
        unsafe { asked.fence(self.fence_nb) }
    }

    /// Looks up a key of a rank (or of the whole job, [`RANK_WILDCARD`]) without waiting for its
    /// put.
    ///
    /// Searches in this process and, unless `local`, at the launcher's server.
    pub(super) fn get(&self, namespace: &str, rank: u32, key: &CStr, local: bool) -> Result<Datum, Status> {
        let proc = proc_of(namespace, rank)?;
        let how = flag(if local { c"pmix.optional" } else { c"pmix.immediate" });
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: process, key and attribute are valid for the call; on success `value` is set to a
        // value that is ours to free.
        check(unsafe { (self.get)(&proc, key.as_ptr(), &how, 1, &mut value) })?;
        if value.is_null() {
            return Err(ERR_NOT_FOUND);
        }
        // SAFETY: libpmix has allocated the value with malloc and completed it, and nobody else has
        // it.
        Ok(unsafe { take(value) })
    }

    /// Starts a lookup of a rank's key at the launcher's server, as [`get`](Self::get) does.
    ///
    /// It ends in [`Operation::finish_lookup`] on libpmix's thread.
    ///
    /// # Errors
    ///
    /// Fails if it does not start; then it does not end either.
    pub(super) fn get_begin(
        &self,
        namespace: &str,
        rank: u32,
        key: &CStr,
        operation: &Arc<Operation>,
    ) -> Result<(), Status> {
        let proc = proc_of(namespace, rank)?;
        let asked = Asked::new(operation, proc, key.into(), flag(c"pmix.immediate"));
        // SAFETY: it is libpmix's function.
        unsafe { asked.lookup(self.get_nb) }
    }

    /// Starts recording failures of processes; see [`event`].
    pub(super) fn watch_failures(&self) {
        // SAFETY: no codes means all events. Both functions may be called on any thread at any
        // time, which is why the library is never unloaded.
        unsafe {
            (self.register_handler)(ptr::null(), 0, ptr::null(), 0, on_event, on_registered, ptr::null_mut());
        }
    }

    /// Returns a status as text.
    pub(super) fn describe(&self, status: Status) -> String {
        // SAFETY: any number is a valid argument; the text is static.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: it is a C string, and not null.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{} ({status})", text.to_string_lossy())
    }
}

/// Returns a function of the library.
///
/// # Safety
///
/// `T` must be the type of a pointer to that function.
unsafe fn symbol<T: Copy>(library: Shared, name: &CStr) -> Result<T, LoadError> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>(), "a pointer to a function") };
    let missing = || LoadError::Missing(name.to_string_lossy().into_owned());
    let found = library.symbol(name, c"").ok_or_else(missing)?;
    // SAFETY: `T` is a pointer to that function, as the caller promises, and as wide as this one.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

fn check(status: Status) -> Result<(), Status> {
    if status == SUCCESS || status == OPERATION_SUCCEEDED { Ok(()) } else { Err(status) }
}

/// Copies a text to a zeroed array; false if it does not fit beside a terminating zero.
fn copy(text: &[u8], to: &mut [c_char]) -> bool {
    if text.len() >= to.len() {
        return false;
    }
    for (to, from) in to.iter_mut().zip(text) {
        *to = *from as c_char;
    }
    true
}

fn proc_of(namespace: &str, rank: u32) -> Result<Proc, Status> {
    let mut proc = Proc { namespace: [0; NAME_LEN], rank };
    if copy(namespace.as_bytes(), &mut proc.namespace) { Ok(proc) } else { Err(ERR_BAD_PARAM) }
}

/// Returns an attribute that is true.
fn flag(key: &CStr) -> Info {
    let mut data = Data { words: [0; 3] };
    data.flag = true;
    let mut info = Info { key: [0; KEY_LEN], flags: 0, value: Value { kind: kind::BOOL, data } };
    let fits = copy(key.to_bytes(), &mut info.key);
    debug_assert!(fits, "the keys of attributes are short");
    info
}

fn text_of(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Copies a value out and frees it.
///
/// # Safety
///
/// `value` must be a complete pmix_value_t that malloc has allocated, with what it points to, and
/// that nobody else uses.
unsafe fn take(value: *mut Value) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let datum = take_from(*value);
        libc::free(value.cast());
        datum
    }
}

/// Copies a value out and frees what it points to.
///
/// # Safety
///
/// `value` must be a complete pmix_value_t that points to memory of malloc, which nobody else uses.
unsafe fn take_from(value: Value) -> Datum {
    // SAFETY: the caller's promise; the type tells which member of the union is valid.
    unsafe {
        let Value { kind, data } = value;
        match kind {
            kind::STRING if data.string.is_null() => Datum::Text(String::new()),
            kind::STRING => {
                let text = CStr::from_ptr(data.string).to_string_lossy().into_owned();
                libc::free(data.string.cast());
                Datum::Text(text)
            }
            kind::BYTE_OBJECT if data.bytes.bytes.is_null() => Datum::Bytes(Vec::new()),
            kind::BYTE_OBJECT => {
                let ByteObject { bytes, size } = data.bytes;
                let copied = std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec();
                libc::free(bytes.cast());
                Datum::Bytes(copied)
            }
            // Other types may point to a few bytes, which leak: freeing them would need each
            // layout.
            _ => number(kind, &data).map_or(Datum::Other(kind), Datum::Number),
        }
    }
}

/// Copies a value that libpmix keeps; `None` if there is none.
///
/// # Safety
///
/// `value` must be null or a complete pmix_value_t that nobody changes meanwhile.
unsafe fn copy_of(value: *const Value) -> Option<Datum> {
    // SAFETY: the caller's promise; the type tells which member of the union is valid.
    unsafe {
        let Value { kind, data } = *value.as_ref()?;
        Some(match kind {
            kind::BYTE_OBJECT if data.bytes.bytes.is_null() => Datum::Bytes(Vec::new()),
            kind::BYTE_OBJECT => {
                let ByteObject { bytes, size } = data.bytes;
                Datum::Bytes(std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec())
            }
            _ => number(kind, &data).map_or(Datum::Other(kind), Datum::Number),
        })
    }
}

/// Returns a number of any type: launchers differ in the type for the same key.
///
/// # Safety
///
/// `data` must be the union of a value of type `kind`.
unsafe fn number(kind: u16, data: &Data) -> Option<i128> {
    // SAFETY: the member that is read is that of the type.
    unsafe {
        Some(match kind {
            kind::BOOL => i128::from(data.uint8 != 0),
            kind::SIZE => data.size as i128,
            kind::INT | kind::INT32 => i128::from(data.int32),
            kind::INT8 => i128::from(data.int8),
            kind::INT16 => i128::from(data.int16),
            kind::INT64 => i128::from(data.int64),
            kind::UINT | kind::UINT32 | kind::PROC_RANK => i128::from(data.uint32),
            kind::UINT8 => i128::from(data.uint8),
            kind::UINT16 => i128::from(data.uint16),
            kind::UINT64 => i128::from(data.uint64),
            _ => return None,
        })
    }
}

unsafe extern "C" fn on_registered(status: Status, _id: usize, _data: *mut c_void) {
    event::registered(status);
}

unsafe extern "C" fn on_event(
    _id: usize,
    status: Status,
    source: *const Proc,
    info: *const Info,
    count: usize,
    _results: *mut Info,
    _result_count: usize,
    done: Option<EventDone>,
    data: *mut c_void,
) {
    // SAFETY: libpmix gives the source (or null) and `count` attributes that are valid during the
    // call, and waits for one call of `done` with its data.
    unsafe {
        let source = source.as_ref().map(peer_of);
        let infos = if info.is_null() { &[][..] } else { std::slice::from_raw_parts(info, count) };
        let mut affected = Vec::new();
        for info in infos {
            let data = &info.value.data;
            match (text_of(&info.key).as_str(), info.value.kind) {
                ("pmix.evproc", kind::PROC) => affected.extend(data.proc.as_ref().map(peer_of)),
                ("pmix.evaffected", kind::DATA_ARRAY) => {
                    if let Some(array) = data.array.as_ref()
                        && array.kind == kind::PROC
                        && !array.array.is_null()
                    {
                        let procs =
                            std::slice::from_raw_parts(array.array.cast_const().cast::<Proc>(), array.size);
                        affected.extend(procs.iter().map(peer_of));
                    }
                }
                _ => {}
            }
        }
        event::happened(status, source, affected);
        if let Some(done) = done {
            done(EVENT_ACTION_COMPLETE, ptr::null_mut(), 0, None, ptr::null_mut(), data);
        }
    }
}

fn peer_of(proc: &Proc) -> Peer {
    Peer { namespace: text_of(&proc.namespace), rank: proc.rank }
}

/// Returns a key as a C string; `None` if it has a zero inside, or is too long.
pub(super) fn key(text: &str) -> Option<CString> {
    CString::new(text).ok().filter(|key| key.to_bytes().len() <= MAX_KEY)
}

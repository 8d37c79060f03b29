//! Calls that concern other jobs: texts that are published, and programs to start.

use super::{
    Data, Datum, ERR_BAD_PARAM, ERR_NOT_FOUND, Info, KEY_LEN, Library, NAME_LEN, Proc, Status, Value, check,
    copy, kind, take_from, text_of,
};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

/// `pmix_pdata_t`: a published value, and who has published it.
#[repr(C)]
pub(super) struct Published {
    by: Proc,
    key: [c_char; KEY_LEN],
    value: Value,
}

/// `pmix_app_t`: a program to start.
#[repr(C)]
pub(super) struct App {
    command: *mut c_char,
    arguments: *mut *mut c_char,
    variables: *mut *mut c_char,
    folder: *mut c_char,
    processes: c_int,
    info: *mut Info,
    infos: usize,
}

// The sizes in libpmix 4.2 and 5.0 on 64-bit systems.
const _: () = assert!(size_of::<Published>() == 808 && std::mem::offset_of!(Published, value) == 776);
const _: () = assert!(size_of::<App>() == 56 && std::mem::offset_of!(App, info) == 40);

pub(super) type Publish = unsafe extern "C" fn(*const Info, usize) -> Status;
pub(super) type Lookup = unsafe extern "C" fn(*mut Published, usize, *const Info, usize) -> Status;
pub(super) type Unpublish = unsafe extern "C" fn(*mut *mut c_char, *const Info, usize) -> Status;
pub(super) type Spawn = unsafe extern "C" fn(*const Info, usize, *const App, usize, *mut c_char) -> Status;

/// A program to start, as libpmix takes it.
#[derive(Debug)]
pub(in crate::pmix) struct Started {
    /// The program, and its arguments behind it.
    pub(in crate::pmix) arguments: Vec<CString>,
    /// Variables for its processes, each `NAME=VALUE`.
    pub(in crate::pmix) variables: Vec<CString>,
    pub(in crate::pmix) folder: CString,
    pub(in crate::pmix) processes: c_int,
    /// Attributes that are texts.
    pub(in crate::pmix) attributes: Vec<(CString, CString)>,
}

impl Library {
    /// Publishes a text for all jobs of the launcher; waits for its reply.
    pub(in crate::pmix) fn publish(&self, name: &CStr, text: &CStr) -> Result<(), Status> {
        let info = text_info(name, text)?;
        // SAFETY: the attribute and its text are valid for the call, which copies them.
        check(unsafe { (self.publish)(&info, 1) })
    }

    /// Looks a published text up; waits for the launcher's reply, not for the text.
    pub(in crate::pmix) fn lookup(&self, name: &CStr) -> Result<Datum, Status> {
        let value = Value { kind: 0, data: Data { words: [0; 3] } };
        let by = Proc { namespace: [0; NAME_LEN], rank: 0 };
        let mut found = Published { by, key: [0; KEY_LEN], value };
        if !copy(name.to_bytes(), &mut found.key) {
            return Err(ERR_BAD_PARAM);
        }
        // SAFETY: `found` is a pmix_pdata_t with a key and no value yet, which is filled.
        check(unsafe { (self.lookup)(&mut found, 1, ptr::null(), 0) })?;
        if found.value.kind == 0 {
            return Err(ERR_NOT_FOUND);
        }
        // SAFETY: libpmix has completed the value, whose memory is of malloc and ours.
        Ok(unsafe { take_from(found.value) })
    }

    /// Takes a published text back; waits for the launcher's reply.
    pub(in crate::pmix) fn unpublish(&self, name: &CStr) -> Result<(), Status> {
        let mut names = [name.as_ptr().cast_mut(), ptr::null_mut()];
        // SAFETY: a list of one name that a null pointer ends; it is only read.
        check(unsafe { (self.unpublish)(names.as_mut_ptr(), ptr::null(), 0) })
    }

    /// Starts programs as a job; waits until they run, or until the launcher says why not. Returns
    /// the namespace of the job.
    pub(in crate::pmix) fn spawn(&self, programs: &[Started]) -> Result<String, Status> {
        /// The pointers to texts, with a null pointer behind them.
        fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
            texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
        }
        let mut lists = Vec::with_capacity(programs.len());
        for program in programs {
            let infos = program.attributes.iter().map(|(key, value)| text_info(key, value));
            let infos = infos.collect::<Result<Vec<_>, _>>()?;
            lists.push((pointers(&program.arguments), pointers(&program.variables), infos));
        }
        let apps = programs.iter().zip(&mut lists).map(|(program, (arguments, variables, infos))| App {
            command: program.arguments.first().map_or(ptr::null_mut(), |first| first.as_ptr().cast_mut()),
            arguments: arguments.as_mut_ptr(),
            variables: variables.as_mut_ptr(),
            folder: program.folder.as_ptr().cast_mut(),
            processes: program.processes,
            info: if infos.is_empty() { ptr::null_mut() } else { infos.as_mut_ptr() },
            infos: infos.len(),
        });
        let apps: Vec<App> = apps.collect();
        let mut namespace = [0; NAME_LEN];
        // SAFETY: the programs and all that they point to live until the end of the call, and are
        // only read; the namespace has the length that the standard gives it.
        check(unsafe { (self.spawn)(ptr::null(), 0, apps.as_ptr(), apps.len(), namespace.as_mut_ptr()) })?;
        Ok(text_of(&namespace))
    }
}

/// Returns an attribute that is a text, which lives elsewhere.
fn text_info(key: &CStr, text: &CStr) -> Result<Info, Status> {
    let mut data = Data { words: [0; 3] };
    data.string = text.as_ptr().cast_mut();
    let mut info = Info { key: [0; KEY_LEN], flags: 0, value: Value { kind: kind::STRING, data } };
    if copy(key.to_bytes(), &mut info.key) { Ok(info) } else { Err(ERR_BAD_PARAM) }
}

//! Events and their sources.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use netmod_mpi::Class;
use netmod_mpi::handle::Datatype;
use netmod_mpi::tool::events::{DroppedFunction, ELEMENTS, EventFunction, KINDS, SAFETIES, TICKS};
use netmod_mpi::tool::{Answer, INT, enums};

use super::{
    NO_OBJECT, code, enumeration, give, handle, index, name, put, put_count, put_text, running, tool,
};
use crate::Abi;
use crate::calls::ANYTIME;
use crate::convert::{Function, OutCount};

/// Bytes of an element, and of all.
const ELEMENT: usize = size_of::<c_int>();

/// Level of safety with which functions are called: none is demanded.
const DEMANDED: c_int = 0;
/// The order of a source whose events come in that of their times (`MPI_T_SOURCE_ORDERED`).
const ORDERED: c_int = 0;

type AnyFn = unsafe extern "C-unwind" fn();
type EventFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, c_int, *mut c_void);
type FreeFn = unsafe extern "C-unwind" fn(*mut c_void, c_int, *mut c_void);
type DroppedFn = unsafe extern "C-unwind" fn(i64, *mut c_void, c_int, c_int, *mut c_void);

/// A function of the program with the address that it gets.
struct Told {
    function: EventFn,
    user_data: usize,
}

impl EventFunction for Told {
    fn data(&self) -> usize {
        self.user_data
    }

    fn event(&self, instance: usize, registration: usize) {
        let data = core::ptr::with_exposed_provenance_mut(self.user_data);
        // SAFETY: the program gave this function and its address for events.
        unsafe { (self.function)(handle(instance), handle(registration), DEMANDED, data) }
    }
}

/// A function of the program for events that were dropped.
struct ToldOfDropped(DroppedFn);

impl DroppedFunction for ToldOfDropped {
    fn dropped(&self, count: u64, registration: usize, data: usize) {
        let data = core::ptr::with_exposed_provenance_mut(data);
        // SAFETY: the program gave this function for events that were dropped.
        unsafe { (self.0)(count as i64, handle(registration), 0, DEMANDED, data) }
    }
}

pub unsafe fn t_event_get_num(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|_| unsafe { put_count(number, KINDS.len()) }))
}

pub unsafe fn t_event_get_index(text: *const c_char, result: *mut c_int) -> c_int {
    // SAFETY: the caller's string and memory.
    code(unsafe {
        let found = name(text).and_then(|name| tool().event_index(name));
        found.and_then(|found| put_count(result, found))
    })
}

/// Writes a new info without hints.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn put_info(at: *mut c_int) -> Answer<()> {
    if at.is_null() {
        return Ok(());
    }
    let info = ANYTIME.info_create().map_err(|_| Class::T_MEMORY)?;
    // SAFETY: as the caller promises.
    unsafe { put(at, info.0 as c_int) }
}

#[expect(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn t_event_get_info<A: Abi>(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatypes: *mut A::Handle,
    displacements: *mut isize,
    elements: *mut c_int,
    enumtype: *mut *mut c_void,
    info: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    code(index(event_index).and_then(|index| tool().event(index)).and_then(|kind| {
        // SAFETY: the caller's memory; the arrays have as many places as it says.
        unsafe {
            put_text(name, name_len, kind.name);
            put_text(desc, desc_len, kind.meaning);
            give(verbosity, netmod_mpi::tool::Verbosity::UserDetail as c_int);
            if !elements.is_null() {
                let room = usize::try_from(elements.read()).unwrap_or(0);
                for at in 0..ELEMENTS.min(room) {
                    if !datatypes.is_null() {
                        datatypes.add(at).write(A::datatype(Datatype(INT)));
                    }
                    if !displacements.is_null() {
                        displacements.add(at).write((at * ELEMENT) as isize);
                    }
                }
                elements.write(ELEMENTS as c_int);
            }
            give(enumtype, enumeration(Some(enums::ELEMENTS)));
            give(bind, NO_OBJECT);
            put_info(info)
        }
    }))
}

pub unsafe fn t_event_handle_alloc(
    event_index: c_int,
    _object: *mut c_void,
    _info: c_int,
    result: *mut *mut c_void,
) -> c_int {
    if result.is_null() {
        return Class::T_INVALID.0;
    }
    let made = index(event_index).and_then(|index| tool().event_alloc(running(), index));
    // SAFETY: the caller's memory.
    code(made.and_then(|made| unsafe { put(result, handle(made)) }))
}

pub unsafe fn t_event_handle_free(at: *mut c_void, user_data: *mut c_void, function: Function) -> c_int {
    let freed = tool().event_free(at.addr());
    if let (Ok(()), Some(function)) = (freed, function) {
        // SAFETY: the program gave this function and its address for the end of a handle.
        unsafe { core::mem::transmute::<AnyFn, FreeFn>(function)(at, DEMANDED, user_data) }
    }
    code(freed)
}

pub fn t_event_handle_set_info(at: *mut c_void, _info: c_int) -> c_int {
    code(tool().event_check(at.addr()))
}

pub unsafe fn t_event_handle_get_info(at: *mut c_void, info: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().event_check(at.addr()).and_then(|()| unsafe { put_info(info) }))
}

fn safety(level: c_int) -> Answer<usize> {
    usize::try_from(level).ok().filter(|level| *level < SAFETIES).ok_or(Class::T_INVALID)
}

pub unsafe fn t_event_register_callback(
    at: *mut c_void,
    cb_safety: c_int,
    _info: c_int,
    user_data: *mut c_void,
    function: Function,
) -> c_int {
    let function = function.map(|function| -> Arc<dyn EventFunction> {
        // SAFETY: the program passes a function of this type, as the standard wants it.
        let function = unsafe { core::mem::transmute::<AnyFn, EventFn>(function) };
        Arc::new(Told { function, user_data: user_data.expose_provenance() })
    });
    code(safety(cb_safety).and_then(|level| tool().event_register(at.addr(), level, function)))
}

/// Checks that a handle has a function at a level of safety.
fn has_function(at: *mut c_void, cb_safety: c_int) -> Answer<()> {
    let has = safety(cb_safety).and_then(|level| tool().event_has_function(at.addr(), level))?;
    if has { Ok(()) } else { Err(Class::T_INVALID) }
}

pub fn t_event_callback_set_info(at: *mut c_void, cb_safety: c_int, _info: c_int) -> c_int {
    code(has_function(at, cb_safety))
}

pub unsafe fn t_event_callback_get_info(at: *mut c_void, cb_safety: c_int, info: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(has_function(at, cb_safety).and_then(|()| unsafe { put_info(info) }))
}

pub unsafe fn t_event_set_dropped_handler(at: *mut c_void, function: Function) -> c_int {
    let function = function.map(|function| -> Arc<dyn DroppedFunction> {
        // SAFETY: the program passes a function of this type, as the standard wants it.
        let function = unsafe { core::mem::transmute::<AnyFn, DroppedFn>(function) };
        Arc::new(ToldOfDropped(function))
    });
    code(tool().event_set_dropped(at.addr(), function))
}

pub unsafe fn t_event_read(at: *mut c_void, element: c_int, buffer: *mut c_void) -> c_int {
    code(tool().event_read(at.addr()).and_then(|(elements, _)| {
        let value = index(element).ok().and_then(|at| elements.get(at)).ok_or(Class::T_INVALID_INDEX)?;
        // SAFETY: the caller's memory, which has room for an element.
        unsafe { put(buffer.cast(), *value) }
    }))
}

pub unsafe fn t_event_copy(at: *mut c_void, buffer: *mut c_void) -> c_int {
    // SAFETY: the caller's memory, which has room for all elements.
    code(tool().event_read(at.addr()).and_then(|(elements, _)| unsafe { put(buffer.cast(), elements) }))
}

pub unsafe fn t_event_get_source(at: *mut c_void, source: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().event_read(at.addr()).and_then(|_| unsafe { put(source, 0) }))
}

/// Writes a time.
///
/// # Safety
/// The place is NULL or the caller's.
unsafe fn put_time(at: OutCount, time: u64) -> Answer<()> {
    // SAFETY: as the caller promises.
    unsafe { at.put(time as i64) }.map_err(|_| Class::T_INVALID)
}

pub unsafe fn t_event_get_timestamp(at: *mut c_void, result: OutCount) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().event_read(at.addr()).and_then(|(_, time)| unsafe { put_time(result, time) }))
}

pub unsafe fn t_source_get_num(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|_| unsafe { put_count(number, 1) }))
}

#[expect(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn t_source_get_info(
    source_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    ordering: *mut c_int,
    ticks_per_second: OutCount,
    max_ticks: OutCount,
    info: *mut c_int,
) -> c_int {
    code(index(source_index).and_then(|index| tool().source(index)).and_then(|(own_name, meaning)| {
        // SAFETY: the caller's memory.
        unsafe {
            put_text(name, name_len, own_name);
            put_text(desc, desc_len, meaning);
            give(ordering, ORDERED);
            let _ = ticks_per_second.put(TICKS);
            let _ = max_ticks.put(i64::MAX);
            put_info(info)
        }
    }))
}

pub unsafe fn t_source_get_timestamp(source_index: c_int, result: OutCount) -> c_int {
    let time = index(source_index).and_then(|index| tool().source_timestamp(index));
    // SAFETY: the caller's memory.
    code(time.and_then(|time| unsafe { put_time(result, time) }))
}

//! Operations of the program that go on when the library calls a function: generalized requests
//! with a function to poll or to wait, and asynchronous things.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netmod_mpi::handle::{Request, Stream};
use netmod_mpi::{Class, Mpi, MpiError, PollFunction, Polled, Result};

use super::super::request::{Greq, returned};
use crate::Abi;
use crate::convert::{Function, put};

type AnyFn = unsafe extern "C-unwind" fn();
type PollFn<S> = unsafe extern "C-unwind" fn(*mut c_void, *mut S) -> c_int;
type WaitFn<S> = unsafe extern "C-unwind" fn(c_int, *mut *mut c_void, f64, *mut S) -> c_int;
type AsyncFn = unsafe extern "C-unwind" fn(*mut Thing) -> c_int;

/// `MPIX_ASYNC_DONE`.
const DONE: c_int = 1;

/// Begins a request. Waits call the function to poll if there is one, and otherwise that to wait.
///
/// # Safety
/// The functions are of their types in `mpi.h`, or NULL.
unsafe fn start<A: Abi>(mpi: &Mpi, greq: Greq<A>, poll_fn: Function, wait_fn: Function) -> Result<Request> {
    let greq = Arc::new(greq);
    let own = Arc::clone(&greq);
    if let Some(function) = poll_fn {
        // SAFETY: as the caller promises.
        let function = unsafe { core::mem::transmute::<AnyFn, PollFn<A::Status>>(function) };
        return mpi.grequest_start_polled(greq, move || {
            let mut status = A::EMPTY_STATUS;
            // SAFETY: the program gave this function with this address; the status is of here.
            returned::<A>(unsafe { function(own.state(), &raw mut status) }, "poll")
        });
    }
    let Some(function) = wait_fn else { return mpi.grequest_start(greq) };
    // SAFETY: as the caller promises.
    let function = unsafe { core::mem::transmute::<AnyFn, WaitFn<A::Status>>(function) };
    let waiter = move |seconds: f64| {
        let (mut status, mut states) = (A::EMPTY_STATUS, [own.state()]);
        // SAFETY: the program gave this function with this address; the others are of this frame.
        let code = unsafe { function(1, states.as_mut_ptr(), seconds, &raw mut status) };
        returned::<A>(code, "wait")
    };
    mpi.grequest_start_waited(greq, Box::new(waiter))
}

pub unsafe fn grequest_start<A: Abi>(
    mpi: &Mpi,
    query: Function,
    free: Function,
    cancel: Function,
    poll: Function,
    wait: Function,
    extra_state: *mut c_void,
    request: *mut c_int,
) -> Result<()> {
    // SAFETY: the program passes functions of these types; the caller's memory.
    unsafe {
        let greq = Greq::<A>::new(query, free, cancel, extra_state)?;
        put(request, start(mpi, greq, poll, wait)?)
    }
}

/// The functions of a class of generalized requests.
#[derive(Clone, Copy)]
struct Functions {
    query: Function,
    free: Function,
    cancel: Function,
    poll: Function,
    wait: Function,
}

/// The classes of generalized requests, which stay until the process ends.
static CLASSES: Mutex<Vec<Functions>> = Mutex::new(Vec::new());
/// The number of the first one; the others follow.
const FIRST: c_int = 1;

fn classes() -> MutexGuard<'static, Vec<Functions>> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub unsafe fn grequest_class_create<A: Abi>(
    _mpi: &Mpi,
    query: Function,
    free: Function,
    cancel: Function,
    poll: Function,
    wait: Function,
    class: *mut c_int,
) -> Result<()> {
    // SAFETY: the program passes functions of these types.
    unsafe { Greq::<A>::new(query, free, cancel, core::ptr::null_mut())? };
    let mut classes = classes();
    let number = c_int::try_from(classes.len()).ok().and_then(|n| n.checked_add(FIRST));
    let number =
        number.ok_or_else(|| MpiError::new(Class::NO_MEM, "too many classes of generalized requests"))?;
    classes.push(Functions { query, free, cancel, poll, wait });
    // SAFETY: the caller's memory.
    unsafe { put(class, number) }
}

pub unsafe fn grequest_class_allocate<A: Abi>(
    mpi: &Mpi,
    class: c_int,
    extra_state: *mut c_void,
    request: *mut c_int,
) -> Result<()> {
    let functions = class
        .checked_sub(FIRST)
        .and_then(|n| classes().get(usize::try_from(n).ok()?).copied())
        .ok_or_else(|| {
        let text =
            format!("{class} is no class of generalized requests: MPIX_Grequest_class_create makes them");
        MpiError::new(Class::ARG, text)
    })?;
    let Functions { query, free, cancel, poll, wait } = functions;
    // SAFETY: the program gave these functions for the class; the caller's memory.
    unsafe { grequest_start::<A>(mpi, query, free, cancel, poll, wait, extra_state, request) }
}

/// The argument of an asynchronous function: `MPIX_Async_thing` points to it.
pub struct Thing {
    extra_state: usize,
    /// Operations that the function begins while it is called.
    new: Vec<Box<dyn PollFunction>>,
}

/// A thing with its function.
struct Started {
    function: AsyncFn,
    thing: Thing,
}

impl PollFunction for Started {
    fn poll(&mut self, new: &mut Vec<Box<dyn PollFunction>>) -> Polled {
        // SAFETY: the program gave this function for this thing, which lives as long as the call.
        let state = unsafe { (self.function)(&raw mut self.thing) };
        new.append(&mut self.thing.new);
        if state == DONE { Polled::Over } else { Polled::Pending }
    }
}

/// Returns what is to be polled.
///
/// # Safety
/// The function is of its type in `mpi.h`, or NULL.
unsafe fn started(
    mpi: &Mpi,

    function: Function,
    extra_state: *mut c_void,
    stream: c_int,
) -> Result<Box<dyn PollFunction>> {
    let Some(function) = function else {
        return Err(MpiError::new(Class::ARG, "the function of the asynchronous thing is NULL"));
    };
    mpi.stream_check(Stream(stream as u32))?;
    // SAFETY: as the caller promises.
    let function = unsafe { core::mem::transmute::<AnyFn, AsyncFn>(function) };
    let thing = Thing { extra_state: extra_state.expose_provenance(), new: Vec::new() };
    Ok(Box::new(Started { function, thing }))
}

pub unsafe fn async_start(
    mpi: &Mpi,
    poll_fn: Function,
    extra_state: *mut c_void,
    stream: c_int,
) -> Result<()> {
    // SAFETY: the program passes a function of this type.
    mpi.async_start(unsafe { started(mpi, poll_fn, extra_state, stream)? })
}

/// The new thing is polled when the function that begins it has returned.
pub unsafe fn async_spawn(
    mpi: &Mpi,
    thing: *mut c_void,
    poll_fn: Function,
    extra_state: *mut c_void,
    stream: c_int,
) -> Result<()> {
    if thing.is_null() {
        let text = "the asynchronous thing is NULL: it is the argument of the function that is called for it";
        return Err(MpiError::new(Class::ARG, text));
    }
    // SAFETY: the program passes a function of this type, and the argument of the one that is being
    // called, which nobody else accesses meanwhile.
    unsafe { (*thing.cast::<Thing>()).new.push(started(mpi, poll_fn, extra_state, stream)?) };
    Ok(())
}

/// Returns the address that the program gave with a thing.
///
/// # Safety
/// The function of the thing is being called, or it is NULL.
pub unsafe fn async_get_state(thing: *mut c_void) -> *mut c_void {
    if thing.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: as the caller promises.
    core::ptr::with_exposed_provenance_mut(unsafe { (*thing.cast::<Thing>()).extra_state })
}

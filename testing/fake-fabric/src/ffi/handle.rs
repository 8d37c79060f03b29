//! Objects as the application sees them: a C structure that begins with a `fid`, and behind it what it stands for.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use super::worlds::Shared;
use crate::model::{Id, State};
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr};

/// Of a domain: who is within a call.
#[derive(Debug)]
pub(super) struct Guard {
    /// One thread at a time was promised.
    single: bool,
    busy: AtomicBool,
}

impl Guard {
    /// `single`: the application has promised `FI_THREAD_DOMAIN`.
    pub(super) fn new(single: bool) -> Guard {
        Guard { single, busy: AtomicBool::new(false) }
    }
}

/// An object.
#[repr(C)]
pub(super) struct Handle<F> {
    pub(super) face: F,
    pub(super) world: Arc<Shared>,
    pub(super) guard: Option<Arc<Guard>>,
    pub(super) id: Id,
}

/// A C structure that begins with a `fid`.
///
/// # Safety
/// It does, and all objects of that type that applications get from this library are a [`Handle`] of it.
pub(super) unsafe trait Face {}

macro_rules! faces {
    ($($face:ty: $($first:ident).+,)*) => {$(
        const _: () = assert!(offset_of!($face, $($first).+) == 0 && offset_of!(Handle<$face>, face) == 0);
        // SAFETY: the line above; objects are made by `Handle::make` alone.
        unsafe impl Face for $face {}
    )*};
}

faces! {
    fid_fabric: fid,
    fid_domain: fid,
    fid_av: fid,
    fid_cq: fid,
    fid_mr: fid,
    fid_ep: fid,
}

impl<F: Face> Handle<F> {
    /// Makes an object. It lives until it is buried, and its world has ended.
    pub(super) fn make(face: F, world: &Arc<Shared>, guard: Option<&Arc<Guard>>, id: Id) -> *mut F {
        let handle = Handle { face, world: world.clone(), guard: guard.cloned(), id };
        Box::into_raw(Box::new(handle)).cast()
    }

    /// # Safety
    /// The object is one of this library's and its world has not ended since it was closed.
    pub(super) unsafe fn of<'a>(face: *mut F) -> &'a Handle<F> {
        // SAFETY: such objects are handles (contract of `Face`), which are not freed before that.
        unsafe { &*face.cast::<Handle<F>>() }
    }

    /// Begins a call: locks the world, and looks whether another thread is where it promised not to be.
    pub(super) fn enter(&self, call: &'static str) -> Entered<'_> {
        let mine = self.guard.as_deref().filter(|guard| guard.single);
        let crowded = mine.is_some_and(|guard| guard.busy.swap(true, Ordering::SeqCst));
        let mut state = self.world.lock();
        if crowded {
            let object = state.describe(self.id);
            state.violation(format!("threads: {call} on {object} while another thread is in its domain"));
        }
        Entered { state, guard: mine.filter(|_| !crowded) }
    }

    /// As [`Handle::enter`], and the object must not have been closed.
    pub(super) fn enter_live(&self, call: &'static str) -> Result<Entered<'_>, i32> {
        let mut entered = self.enter(call);
        entered.state.live(self.id, call)?;
        Ok(entered)
    }
}

/// Within a call.
pub(super) struct Entered<'a> {
    pub(super) state: MutexGuard<'a, State>,
    guard: Option<&'a Guard>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard {
            guard.busy.store(false, Ordering::SeqCst);
        }
    }
}

/// A closed object that is freed when this is dropped.
pub(super) struct Grave {
    object: *mut c_void,
    free: unsafe fn(*mut c_void),
}

// SAFETY: a closed object is touched by its grave alone, apart from applications' errors, which are no less so in another thread.
unsafe impl Send for Grave {}

impl Drop for Grave {
    fn drop(&mut self) {
        // SAFETY: `free` is the function for the object's type, and is called once.
        unsafe { (self.free)(self.object) }
    }
}

/// # Safety
/// The object was made by `Handle::<F>::make`, and nobody uses it any more.
unsafe fn free<F: Face>(object: *mut c_void) {
    // SAFETY: it came out of a box of this type.
    drop(unsafe { Box::from_raw(object.cast::<Handle<F>>()) });
}

/// `fi_close` of any object.
///
/// # Safety
/// As of [`Handle::of`], and the object is an `F`.
pub(super) unsafe extern "C" fn close<F: Face>(object: *mut fid) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { Handle::<F>::of(object.cast()) };
    let world = handle.world.clone();
    let closed = {
        let mut entered = handle.enter("fi_close");
        let id = handle.id;
        entered.state.close(id)
    };
    match closed {
        Ok(()) => {
            world.bury(Grave { object: object.cast(), free: free::<F> });
            0
        }
        Err(error) => -error,
    }
}

/// What the application gets for an answer of the model.
pub(super) fn code(result: Result<(), i32>) -> c_int {
    result.map_or_else(|error| -error, |()| 0)
}

/// The same for calls that return `ssize_t`.
pub(super) fn long(result: Result<(), i32>) -> isize {
    code(result) as isize
}

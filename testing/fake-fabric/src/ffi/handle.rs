//! Objects as the application sees them: a C structure that begins with a `fid`, followed by the
//! model's identifier.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use super::closed::ClosedObject;
use super::worlds::Shared;
use crate::model::{Id, State};
use libfabric_sys::consts::{
    FI_CLASS_AV, FI_CLASS_CQ, FI_CLASS_EP, FI_CLASS_RX_CTX, FI_CLASS_SEP, FI_CLASS_TX_CTX,
};
use libfabric_sys::fid::{fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr};

/// Detects concurrent calls within a domain.
#[derive(Debug)]
pub(super) struct Guard {
    /// True if the application has promised one thread at a time.
    single: bool,
    busy: AtomicBool,
}

impl Guard {
    /// Makes a guard. `single`: the application has promised `FI_THREAD_DOMAIN`.
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
/// It does, and all objects of that type that applications get from this library are a [`Handle`]
/// of it.
pub(super) unsafe trait FidStruct {}

macro_rules! faces {
    ($($face:ty: $($first:ident).+,)*) => {$(
        const _: () = assert!(offset_of!($face, $($first).+) == 0 && offset_of!(Handle<$face>, face) == 0);
        // SAFETY: the line above; objects are made by `Handle::make` alone.
        unsafe impl FidStruct for $face {}
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

impl<F: FidStruct> Handle<F> {
    /// Makes an object. It lives until it is retired and its world has ended.
    pub(super) fn make(face: F, world: &Arc<Shared>, guard: Option<&Arc<Guard>>, id: Id) -> *mut F {
        let handle = Handle { face, world: world.clone(), guard: guard.cloned(), id };
        Box::into_raw(Box::new(handle)).cast()
    }

    /// Returns the handle of an object.
    ///
    /// # Safety
    /// The object is this library's, and its world has not ended since it was closed.
    pub(super) unsafe fn of<'a>(face: *mut F) -> &'a Handle<F> {
        // SAFETY: such objects are handles (contract of `Face`), which are not freed before that.
        unsafe { &*face.cast::<Handle<F>>() }
    }

    /// Begins a call: locks the world, and checks for a promise of single-threaded use that another
    /// thread breaks.
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

    /// Begins a call that requires an open object.
    pub(super) fn enter_live(&self, call: &'static str) -> Result<Entered<'_>, i32> {
        let mut entered = self.enter(call);
        entered.state.live(self.id, call)?;
        Ok(entered)
    }
}

/// Returns the identifier of an object that others can be bound to or that can be waited for.
///
/// # Safety
/// The object is this library's.
pub(super) unsafe fn id_of(object: *mut fid) -> Option<Id> {
    // SAFETY: the caller's promise; the class says which type it is.
    unsafe {
        Some(match object.as_ref()?.fclass {
            FI_CLASS_AV => Handle::<fid_av>::of(object.cast()).id,
            FI_CLASS_CQ => Handle::<fid_cq>::of(object.cast()).id,
            FI_CLASS_EP | FI_CLASS_SEP | FI_CLASS_TX_CTX | FI_CLASS_RX_CTX => {
                Handle::<fid_ep>::of(object.cast()).id
            }
            _ => return None,
        })
    }
}

/// A call in progress.
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

/// Frees an object.
///
/// # Safety
/// The object was made by `Handle::<F>::make`, and nobody uses it any more.
unsafe fn free<F: FidStruct>(object: *mut c_void) {
    // SAFETY: it came out of a box of this type.
    drop(unsafe { Box::from_raw(object.cast::<Handle<F>>()) });
}

/// Implements `fi_close` for any object.
///
/// # Safety
/// As of [`Handle::of`], and the object is an `F`.
pub(super) unsafe extern "C" fn close<F: FidStruct>(object: *mut fid) -> c_int {
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
            // SAFETY: it is this type's function, and nobody uses the object after it is closed.
            world.retire(unsafe { ClosedObject::new(object.cast(), free::<F>) });
            0
        }
        Err(error) => -error,
    }
}

/// Converts a result of the model to a return value.
pub(super) fn code(result: Result<(), i32>) -> c_int {
    result.map_or_else(|error| -error, |()| 0)
}

/// Converts a result for calls that return `ssize_t`.
pub(super) fn long(result: Result<(), i32>) -> isize {
    code(result) as isize
}

/// Returns the pointer to a table of functions for objects; nobody writes to it.
pub(super) const fn table<T>(table: &'static T) -> *mut T {
    core::ptr::from_ref(table).cast_mut()
}

macro_rules! fid_ops {
    ($face:ty, $bind:expr, $control:expr) => {
        fi_ops {
            size: size_of::<fi_ops>(),
            close: Some(close::<$face>),
            bind: $bind,
            control: $control,
            ops_open: None,
            tostr: None,
            ops_set: None,
        }
    };
}
pub(super) use fid_ops;

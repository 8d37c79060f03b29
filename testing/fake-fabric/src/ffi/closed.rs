//! Objects that were closed, and are freed when their world ends.

#![allow(unsafe_code)]

use core::ffi::c_void;

/// A closed object, freed when this is dropped.
pub(super) struct ClosedObject {
    object: *mut c_void,
    free: unsafe fn(*mut c_void),
}

impl ClosedObject {
    /// Takes a closed object, and the function that frees it.
    ///
    /// # Safety
    /// `free` is the function for the object's type, and nobody else frees or uses the object.
    pub(super) unsafe fn new(object: *mut c_void, free: unsafe fn(*mut c_void)) -> ClosedObject {
        ClosedObject { object, free }
    }
}

// SAFETY: only this value accesses the closed object, apart from errors of the application, which
// are as likely in any thread.
unsafe impl Send for ClosedObject {}

impl Drop for ClosedObject {
    fn drop(&mut self) {
        // SAFETY: `free` is the function for the object's type, and is called once.
        unsafe { (self.free)(self.object) }
    }
}

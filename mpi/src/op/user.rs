//! Operations of the program, which are given memory by its address.

#![allow(unsafe_code)]

use std::any::Any;

use crate::handle::Datatype;

/// An operation of the program.
pub trait UserOp: Any + Send + Sync {
    /// Sets each of `count` elements of `inout` to `input op inout`.
    ///
    /// # Safety
    /// Both must be memory of so many elements of the type, without overlap.
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype);
}

//! Descriptions of operations.

#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::mem::Lent;
use crate::model::post::Posting;
use libfabric_sys::attr::fi_addr_t;

/// Length of the longest context that a provider may require (`struct fi_context2`).
const CONTEXT: usize = 64;

/// Describes an operation with one piece of local memory.
///
/// # Safety
/// Objects are this library's; pointers are as the man page of the function requires. Operations
/// lend memory as `mem` describes.
pub(super) unsafe fn one(
    call: &'static str,
    base: *const c_void,
    len: usize,
    desc: *mut c_void,
    peer: fi_addr_t,
    context: *mut c_void,
) -> Posting {
    // SAFETY: by contract.
    let piece = unsafe { Lent::new(base, len) };
    // SAFETY: by contract; a context is only touched where the provider's mode demands one.
    let storage = (!context.is_null()).then(|| unsafe { Lent::new(context, CONTEXT) });
    Posting {
        call,
        pieces: vec![piece],
        descs: vec![desc.addr()],
        peer,
        context: context.expose_provenance(),
        storage,
        ..Posting::default()
    }
}

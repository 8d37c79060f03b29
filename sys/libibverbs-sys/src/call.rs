//! The functions that the header defines inline: calls through a context's tables.
//!
//! # Safety
//! All functions have the same contract. Objects are live and came from the library. Pointers
//! satisfy the man page of the C function, for as long as it demands. Lists of work requests end.
//! Memory that a work request names, unless it is sent inline, stays valid and registered until its
//! completion. Any thread may call them.

#![allow(clippy::missing_safety_doc, missing_docs)]

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;

use core::ffi::c_int;
use core::mem::offset_of;

use libc::EOPNOTSUPP;

use crate::attr::*;
use crate::object::*;
use crate::work::*;

/// Calls a function of a context's table, which every driver fills.
macro_rules! data {
    ($context:expr, $field:ident, ($($arg:expr),*)) => {{
        // SAFETY: the contract of this module: the object and the context that it names are live;
        // the rest is the contract of the C function.
        unsafe {
            match (*$context).ops.$field {
                Some(function) => function($($arg),*),
                None => EOPNOTSUPP,
            }
        }
    }};
}

/// Returns a function of the table around a context, if there is a table, it is large enough, and
/// the driver has the function.
macro_rules! later {
    ($context:expr, $field:ident) => {{
        // SAFETY: the contract of this module: the context is live; the offset is that of the
        // field.
        unsafe { entry($context, offset_of!(verbs_context, $field), |table: &verbs_context| &table.$field) }
    }};
}

/// Reads a function of the table around a context: `offset` is its offset, `_field` gives its type.
///
/// # Safety
/// The context is live and came from the library; the offset is that of the field.
unsafe fn entry<F: Copy>(
    context: *const ibv_context,
    offset: usize,
    _field: impl Fn(&verbs_context) -> &Option<F>,
) -> Option<F> {
    let field_at = |offset: usize| context.wrapping_byte_sub(offset_of!(verbs_context, context) - offset);
    // SAFETY: a context with the mark is the last field of a `verbs_context`, just behind its size
    // in bytes. The size counts from the end, since the table grows in front. So a field within the
    // size exists.
    unsafe {
        if (*context).abi_compat.addr() != usize::MAX
            || field_at(offset_of!(verbs_context, sz)).cast::<usize>().read()
                < size_of::<verbs_context>() - offset
        {
            return None;
        }
        field_at(offset).cast::<Option<F>>().read()
    }
}

/// Returns the object, or the error number.
fn made<T>(object: *mut T) -> Result<*mut T, c_int> {
    if object.is_null() {
        let number = std::io::Error::last_os_error().raw_os_error();
        Err(number.filter(|n| *n != 0).unwrap_or(libc::EIO))
    } else {
        Ok(object)
    }
}

/// Takes completions. Returns their number, or a negative error.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the contract of this module.
    unsafe {
        match (*(*cq).context).ops.poll_cq {
            Some(function) => function(cq, count, wc),
            None => -EOPNOTSUPP,
        }
    }
}

/// Requests one event at the next completion, or at the next message sent with
/// `IBV_SEND_SOLICITED`.
#[inline]
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    data!((*cq).context, req_notify_cq, (cq, solicited_only))
}

#[inline]
pub unsafe fn ibv_post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int {
    data!((*qp).context, post_send, (qp, wr, bad_wr))
}

#[inline]
pub unsafe fn ibv_post_recv(qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int {
    data!((*qp).context, post_recv, (qp, wr, bad_wr))
}

#[inline]
pub unsafe fn ibv_post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    data!((*srq).context, post_srq_recv, (srq, wr, bad_wr))
}

/// Calls `query_port` of the table around the context. Returns `None` if the driver has none;
/// [`crate::Library::query_port`] has a fallback.
pub(crate) unsafe fn later_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> Option<c_int> {
    // SAFETY: the contract of this module; at most the given length is written.
    later!(context, query_port)
        .map(|function| unsafe { function(context, port, attr, size_of::<ibv_port_attr>()) })
}

/// Calls `query_device_ex` of the table around the context, for
/// [`crate::Library::query_device_ex`].
pub(crate) unsafe fn later_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
) -> Option<c_int> {
    later!(context, query_device_ex)
        // SAFETY: the contract of this module; a null input asks for nothing special; at most the
        // given length is written.
        .map(|function| unsafe {
            function(context, core::ptr::null(), attr, size_of::<ibv_device_attr_ex>())
        })
}

/// Opens an XRC domain. This call is the only proof that a device has XRC; the capability bit is
/// unreliable.
pub unsafe fn ibv_open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> Result<*mut ibv_xrcd, c_int> {
    let function = later!(context, open_xrcd).ok_or(EOPNOTSUPP)?;
    // SAFETY: the contract of this module.
    made(unsafe { function(context, attr) })
}

pub unsafe fn ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: the contract of this module.
    let context = unsafe { (*xrcd).context };
    match later!(context, close_xrcd) {
        // SAFETY: the contract of this module.
        Some(function) => unsafe { function(xrcd) },
        None => EOPNOTSUPP,
    }
}

/// Makes a shared receive queue of an XRC domain. [`crate::Library::ibv_create_srq`] makes all
/// others.
pub unsafe fn ibv_create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> Result<*mut ibv_srq, c_int> {
    let function = later!(context, create_srq_ex).ok_or(EOPNOTSUPP)?;
    // SAFETY: the contract of this module.
    made(unsafe { function(context, attr) })
}

/// Returns the number by which XRC senders name a shared receive queue.
pub unsafe fn ibv_get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: the contract of this module.
    let context = unsafe { (*srq).context };
    match later!(context, get_srq_num) {
        // SAFETY: the contract of this module.
        Some(function) => unsafe { function(srq, number) },
        None => EOPNOTSUPP,
    }
}

/// Makes a queue pair of XRC. [`crate::Library::ibv_create_qp`] makes all others.
pub unsafe fn ibv_create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, c_int> {
    let function = later!(context, create_qp_ex).ok_or(EOPNOTSUPP)?;
    // SAFETY: the contract of this module.
    made(unsafe { function(context, attr) })
}

/// Opens a receive queue pair that another process of the XRC domain has made.
pub unsafe fn ibv_open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> Result<*mut ibv_qp, c_int> {
    let function = later!(context, open_qp).ok_or(EOPNOTSUPP)?;
    // SAFETY: the contract of this module.
    made(unsafe { function(context, attr) })
}

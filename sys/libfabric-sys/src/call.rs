//! The functions that the headers define inline: calls through an object's tables.
//!
//! # Safety
//! All functions have the same contract. Objects are live, were made by the provider, and are of
//! the class that the function's name says. One thread at a time uses them, unless the domain's
//! threading model allows more. Pointers satisfy the man page of the C function, for as long as it
//! demands. A function that the provider lacks returns `-FI_ENOSYS`.

#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, missing_docs)]

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;

use libc::iovec;

use crate::attr::*;
use crate::consts::{FI_ENABLE, FI_ENOSYS};
use crate::fid::*;

/// Calls a function of a table, if the provider has the table, the table is long enough, and the
/// entry is not null.
macro_rules! through {
    ($ops:expr, $table:ty, $field:ident, $none:expr, ($($arg:expr),*)) => {{
        // SAFETY: the contract of this module: the object and its tables are live, and each table
        // begins with its size; the rest is the contract of the C function.
        unsafe {
            let ops = $ops;
            if ops.is_null() || (*ops).size <= offset_of!($table, $field) {
                $none
            } else {
                match (*ops).$field {
                    Some(function) => function($($arg),*),
                    None => $none,
                }
            }
        }
    }};
}

const NONE: c_int = -FI_ENOSYS;
const NONE_LONG: isize = -(FI_ENOSYS as isize);

pub unsafe fn fi_close(fid: *mut fid) -> c_int {
    through!((*fid).ops, fi_ops, close, NONE, (fid))
}

pub unsafe fn fi_bind(fid: *mut fid, to: *mut fid, flags: u64) -> c_int {
    through!((*fid).ops, fi_ops, bind, NONE, (fid, to, flags))
}

pub unsafe fn fi_control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    through!((*fid).ops, fi_ops, control, NONE, (fid, command, arg))
}

pub unsafe fn fi_enable(fid: *mut fid) -> c_int {
    // SAFETY: the contract of this module.
    unsafe { fi_control(fid, FI_ENABLE, core::ptr::null_mut()) }
}

pub unsafe fn fi_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    through!((*fabric).ops, fi_ops_fabric, domain, NONE, (fabric, info, domain, context))
}

pub unsafe fn fi_trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    through!((*fabric).ops, fi_ops_fabric, trywait, NONE, (fabric, fids, count))
}

pub unsafe fn fi_av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    through!((*domain).ops, fi_ops_domain, av_open, NONE, (domain, attr, av, context))
}

pub unsafe fn fi_cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    through!((*domain).ops, fi_ops_domain, cq_open, NONE, (domain, attr, cq, context))
}

pub unsafe fn fi_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    through!((*domain).ops, fi_ops_domain, endpoint, NONE, (domain, info, ep, context))
}

pub unsafe fn fi_scalable_ep(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    through!((*domain).ops, fi_ops_domain, scalable_ep, NONE, (domain, info, ep, context))
}

pub unsafe fn fi_tx_context(
    ep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_tx_attr,
    tx: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    through!((*ep).ops, fi_ops_ep, tx_ctx, NONE, (ep, index, attr, tx, context))
}

pub unsafe fn fi_rx_context(
    ep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_rx_attr,
    rx: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    through!((*ep).ops, fi_ops_ep, rx_ctx, NONE, (ep, index, attr, rx, context))
}

pub unsafe fn fi_setopt(
    ep: *mut fid_ep,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    through!((*ep).ops, fi_ops_ep, setopt, NONE, (ep.cast(), level, name, value, len))
}

pub unsafe fn fi_cancel(ep: *mut fid_ep, context: *mut c_void) -> isize {
    through!((*ep).ops, fi_ops_ep, cancel, NONE_LONG, (ep.cast(), context))
}

pub unsafe fn fi_getname(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int {
    through!((*ep).cm, fi_ops_cm, getname, NONE, (ep.cast(), addr, len))
}

pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    through!(
        (*domain).mr,
        fi_ops_mr,
        reg,
        NONE,
        (domain.cast(), buf, len, access, offset, requested_key, flags, mr, context)
    )
}

pub unsafe fn fi_av_insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    through!((*av).ops, fi_ops_av, insert, NONE, (av, addr, count, fi_addr, flags, context))
}

pub unsafe fn fi_av_remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int {
    through!((*av).ops, fi_ops_av, remove, NONE, (av, fi_addr, count, flags))
}

/// Returns an address as text; null if the provider has no text form.
pub unsafe fn fi_av_straddr(
    av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    through!((*av).ops, fi_ops_av, straddr, core::ptr::null(), (av, addr, buf, len))
}

#[inline]
pub unsafe fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    through!((*cq).ops, fi_ops_cq, read, NONE_LONG, (cq, buf, count))
}

pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, flags: u64) -> isize {
    through!((*cq).ops, fi_ops_cq, readerr, NONE_LONG, (cq, entry, flags))
}

pub unsafe fn fi_cq_sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout_ms: c_int,
) -> isize {
    through!((*cq).ops, fi_ops_cq, sread, NONE_LONG, (cq, buf, count, cond, timeout_ms))
}

/// Returns the meaning of a provider's own error number; null if it has none.
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    through!((*cq).ops, fi_ops_cq, strerror, core::ptr::null(), (cq, prov_errno, err_data, buf, len))
}

#[inline]
pub unsafe fn fi_recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src: fi_addr_t,
    context: *mut c_void,
) -> isize {
    through!((*ep).msg, fi_ops_msg, recv, NONE_LONG, (ep, buf, len, desc, src, context))
}

#[inline]
pub unsafe fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    through!((*ep).msg, fi_ops_msg, recvmsg, NONE_LONG, (ep, msg, flags))
}

#[inline]
pub unsafe fn fi_send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    through!((*ep).msg, fi_ops_msg, send, NONE_LONG, (ep, buf, len, desc, dest, context))
}

#[inline]
pub unsafe fn fi_sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    through!((*ep).msg, fi_ops_msg, sendv, NONE_LONG, (ep, iov, desc, count, dest, context))
}

#[inline]
pub unsafe fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    through!((*ep).msg, fi_ops_msg, sendmsg, NONE_LONG, (ep, msg, flags))
}

#[inline]
pub unsafe fn fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest: fi_addr_t) -> isize {
    through!((*ep).msg, fi_ops_msg, inject, NONE_LONG, (ep, buf, len, dest))
}

#[inline]
pub unsafe fn fi_read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    through!((*ep).rma, fi_ops_rma, read, NONE_LONG, (ep, buf, len, desc, src, addr, key, context))
}

#[inline]
pub unsafe fn fi_write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    through!((*ep).rma, fi_ops_rma, write, NONE_LONG, (ep, buf, len, desc, dest, addr, key, context))
}

#[inline]
pub unsafe fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    through!((*ep).rma, fi_ops_rma, writemsg, NONE_LONG, (ep, msg, flags))
}

#[inline]
pub unsafe fn fi_atomicmsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    through!((*ep).atomic, fi_ops_atomic, writemsg, NONE_LONG, (ep, msg, flags))
}

#[inline]
pub unsafe fn fi_fetch_atomic(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    through!(
        (*ep).atomic,
        fi_ops_atomic,
        readwrite,
        NONE_LONG,
        (ep, buf, count, desc, result, result_desc, dest, addr, key, datatype, op, context)
    )
}

#[inline]
pub unsafe fn fi_compare_atomic(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    compare: *const c_void,
    compare_desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    through!(
        (*ep).atomic,
        fi_ops_atomic,
        compwrite,
        NONE_LONG,
        (
            ep,
            buf,
            count,
            desc,
            compare,
            compare_desc,
            result,
            result_desc,
            dest_addr,
            addr,
            key,
            datatype,
            op,
            context
        )
    )
}

/// Returns 0 if [`fi_atomicmsg`] has the operation; stores the most words of one call.
pub unsafe fn fi_atomicvalid(ep: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    through!((*ep).atomic, fi_ops_atomic, writevalid, NONE, (ep, datatype, op, count))
}

/// Returns 0 if [`fi_fetch_atomic`] has the operation; stores the most words of one call.
pub unsafe fn fi_fetch_atomicvalid(ep: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    through!((*ep).atomic, fi_ops_atomic, readwritevalid, NONE, (ep, datatype, op, count))
}

/// Returns 0 if [`fi_compare_atomic`] has the operation; stores the most words of one call.
pub unsafe fn fi_compare_atomicvalid(
    ep: *mut fid_ep,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    through!((*ep).atomic, fi_ops_atomic, compwritevalid, NONE, (ep, datatype, op, count))
}

/// Returns the address of a receive context, as `fi_rx_addr` of the header does.
pub const fn fi_rx_addr(addr: fi_addr_t, index: u32, rx_ctx_bits: u32) -> fi_addr_t {
    if rx_ctx_bits == 0 { addr } else { (index as u64) << (64 - rx_ctx_bits) | addr }
}

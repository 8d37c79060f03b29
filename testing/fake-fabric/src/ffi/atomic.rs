//! Atomic operations of endpoints.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::handle::{Handle, long};
use super::posting::one;
use crate::errno::{FI_EINVAL, FI_EOPNOTSUPP};
use crate::mem::Lent;
use crate::model::region::Remote;
use crate::model::word::{Atomic, is_valid, number, size_of_word};
use libfabric_sys::attr::{fi_addr_t, fi_msg_atomic};
use libfabric_sys::fid::{fi_ops_atomic, fid_ep};

pub(super) static ATOMIC_OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: None,
    writev: None,
    writemsg: Some(writemsg),
    inject: None,
    readwrite: Some(readwrite),
    readwritev: None,
    readwritemsg: None,
    compwrite: Some(compwrite),
    compwritev: None,
    compwritemsg: None,
    writevalid: Some(valid),
    readwritevalid: Some(valid),
    compwritevalid: Some(compare_valid),
};

// In all functions below: SAFETY: objects are this library's; pointers are as the man page of the
// function requires. Functions are called only through the tables of such objects.

/// The arguments that all forms have.
struct Call {
    call: &'static str,
    count: usize,
    peer: fi_addr_t,
    remote: (u64, u64),
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
    flags: Option<u64>,
}

/// Posts an operation. Local words come with their descriptors: the result, the operand, the
/// comparand.
///
/// # Safety
/// See above.
unsafe fn post(endpoint: *mut fid_ep, call: &Call, words: [Option<(*mut c_void, *mut c_void)>; 3]) -> isize {
    let size = size_of_word(call.datatype).unwrap_or(8);
    if call.count != 1 {
        return -(FI_EINVAL as isize);
    }
    // SAFETY: see above: words of this length.
    unsafe {
        let lent = |word: Option<(*mut c_void, *mut c_void)>| word.map(|(at, _)| Lent::new(at, size));
        let value = |word| lent(word).map_or(0, |word| number(&word.read(0, size)));
        let [result, operand, comparand] = words;
        let atomic = Atomic {
            op: call.op,
            datatype: call.datatype,
            operand: value(operand),
            comparand: value(comparand),
            fetches: result.is_some(),
        };
        let (addr, key) = call.remote;
        let mut posting =
            one(call.call, core::ptr::null(), 0, core::ptr::null_mut(), call.peer, call.context);
        posting.pieces = words.into_iter().filter_map(lent).collect();
        posting.descs = words.into_iter().flatten().map(|(_, desc)| desc.addr()).collect();
        posting.flags = call.flags;
        let handle = Handle::of(endpoint);
        let remote = Remote { addr, len: size, key };
        long(
            handle
                .enter_live(call.call)
                .and_then(|mut entered| entered.state.atomic(handle.id, posting, atomic, remote)),
        )
    }
}

unsafe extern "C" fn writemsg(endpoint: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe {
        let msg = &*msg;
        if msg.iov_count != 1 || msg.rma_iov_count != 1 || (*msg.rma_iov).count != 1 {
            return -(FI_EINVAL as isize);
        }
        let (word, there) = (&*msg.msg_iov, &*msg.rma_iov);
        let desc = if msg.desc.is_null() { core::ptr::null_mut() } else { *msg.desc };
        let call = Call {
            call: "fi_atomicmsg",
            count: word.count,
            peer: msg.addr,
            remote: (there.addr, there.key),
            datatype: msg.datatype,
            op: msg.op,
            context: msg.context,
            flags: Some(flags),
        };
        post(endpoint, &call, [None, Some((word.addr, desc)), None])
    }
}

unsafe extern "C" fn readwrite(
    endpoint: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    peer: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let remote = (addr, key);
    let call = Call { call: "fi_fetch_atomic", count, peer, remote, datatype, op, context, flags: None };
    // SAFETY: see above.
    unsafe { post(endpoint, &call, [Some((result, result_desc)), Some((buf.cast_mut(), desc)), None]) }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    compare: *const c_void,
    compare_desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let (peer, remote) = (to, (addr, key));
    let call = Call { call: "fi_compare_atomic", count, peer, remote, datatype, op, context, flags: None };
    let words = [(result, result_desc), (buf.cast_mut(), desc), (compare.cast_mut(), compare_desc)];
    // SAFETY: see above.
    unsafe { post(endpoint, &call, words.map(Some)) }
}

/// Answers whether there is an operation.
///
/// # Safety
/// See above.
unsafe fn answer(datatype: c_int, op: c_int, count: *mut usize, compares: bool) -> c_int {
    if !is_valid(datatype, op, compares) {
        return -FI_EOPNOTSUPP;
    }
    // SAFETY: see above: room for a number.
    unsafe { *count = 1 };
    0
}

unsafe extern "C" fn valid(_: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: see above.
    unsafe { answer(datatype, op, count, false) }
}

unsafe extern "C" fn compare_valid(_: *mut fid_ep, datatype: c_int, op: c_int, count: *mut usize) -> c_int {
    // SAFETY: see above.
    unsafe { answer(datatype, op, count, true) }
}

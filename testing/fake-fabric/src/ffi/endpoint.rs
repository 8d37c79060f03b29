//! Endpoints and their contexts: opening, binding, and all operations.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::iovec;

use super::atomic::ATOMIC_OPS;
use super::handle::{Handle, code, fid_ops, id_of, long, table};
use super::info;
use super::posting::one;
use crate::errno::{FI_EINVAL, FI_ENOPROTOOPT, FI_ENOSYS, FI_ETOOSMALL};
use crate::ffi::handle::close;
use crate::mem::Lent;
use crate::model::object::EndpointRequest;
use crate::model::post::Posting;
use crate::model::region::Remote;
use crate::request::Operation;
use libfabric_sys::attr::{fi_addr_t, fi_info, fi_msg, fi_msg_rma, fi_rx_attr, fi_tx_attr};
use libfabric_sys::consts::{
    FI_CLASS_EP, FI_CLASS_RX_CTX, FI_CLASS_SEP, FI_CLASS_TX_CTX, FI_ENABLE, FI_OPT_ENDPOINT,
    FI_OPT_MIN_MULTI_RECV,
};
use libfabric_sys::fid::{fi_ops, fi_ops_cm, fi_ops_ep, fi_ops_msg, fi_ops_rma, fid, fid_domain, fid_ep};

static ENDPOINT: fi_ops = fid_ops!(fid_ep, Some(bind), Some(control));

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: None,
    setopt: Some(setopt),
    tx_ctx: Some(tx_context),
    rx_ctx: Some(rx_context),
    rx_size_left: None,
    tx_size_left: None,
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: None,
    getname: Some(getname),
    getpeer: None,
    connect: None,
    listen: None,
    accept: None,
    reject: None,
    shutdown: None,
    join: None,
};

static MSG_OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv: Some(recv),
    recvv: None,
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: None,
    injectdata: None,
};

static RMA_OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: None,
    readmsg: Some(readmsg),
    write: Some(write),
    writev: None,
    writemsg: Some(writemsg),
    inject: None,
    writedata: None,
    injectdata: None,
};

// In all functions below: SAFETY: objects and each `fi_info` are this library's; pointers are as
// the man page of the function requires. Functions are called only through the tables of such
// objects. Operations lend memory as `mem` describes.

fn face(class: usize, context: *mut c_void) -> fid_ep {
    fid_ep {
        fid: fid { fclass: class, context, ops: table(&ENDPOINT) },
        ops: table(&EP_OPS),
        cm: table(&CM_OPS),
        msg: table(&MSG_OPS),
        rma: table(&RMA_OPS),
        tagged: core::ptr::null_mut(),
        atomic: table(&ATOMIC_OPS),
        collective: core::ptr::null_mut(),
    }
}

/// Opens an endpoint.
///
/// # Safety
/// See above.
unsafe fn open(
    domain: *mut fid_domain,
    request: *mut fi_info,
    made: *mut *mut fid_ep,
    context: *mut c_void,
    scalable: bool,
) -> c_int {
    // SAFETY: see above.
    let (handle, request) =
        unsafe { (Handle::of(domain), request.as_ref().map(|request| info::read(request))) };
    let Some(request) = request else { return -FI_EINVAL };
    let opened = handle.enter_live("fi_endpoint").and_then(|mut entered| {
        if entered.state.offer(Some(&request)).is_none() {
            entered.state.violation(format!("fi_endpoint with what was not offered: {request:?}"));
            return Err(FI_EINVAL);
        }
        let request = EndpointRequest {
            caps: request.caps,
            tx_flags: request.tx.op_flags,
            rx_flags: request.rx.op_flags,
            tx_size: request.tx.size,
            rx_size: request.rx.size,
            tx_contexts: request.tx_ctx_cnt,
            rx_contexts: request.rx_ctx_cnt,
        };
        entered.state.open_endpoint(handle.id, request, scalable)
    });
    match opened {
        Err(error) => -error,
        Ok(id) => {
            let face = face(if scalable { FI_CLASS_SEP } else { FI_CLASS_EP }, context);
            // SAFETY: see above.
            unsafe { *made = Handle::make(face, &handle.world, handle.guard.as_ref(), id) };
            0
        }
    }
}

pub(super) unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    request: *mut fi_info,
    made: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { open(domain, request, made, context, false) }
}

pub(super) unsafe extern "C" fn scalable(
    domain: *mut fid_domain,
    request: *mut fi_info,
    made: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { open(domain, request, made, context, true) }
}

/// Opens a context of a scalable endpoint.
///
/// # Safety
/// See above.
unsafe fn open_context(
    endpoint: *mut fid_ep,
    index: c_int,
    made: *mut *mut fid_ep,
    context: *mut c_void,
    tx: bool,
) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(endpoint) };
    let opened = handle.enter_live("fi_tx_context or fi_rx_context").and_then(|mut entered| {
        entered.state.open_context(handle.id, usize::try_from(index).map_err(|_| FI_EINVAL)?, tx)
    });
    match opened {
        Err(error) => -error,
        Ok(id) => {
            let face = face(if tx { FI_CLASS_TX_CTX } else { FI_CLASS_RX_CTX }, context);
            // SAFETY: see above.
            unsafe { *made = Handle::make(face, &handle.world, handle.guard.as_ref(), id) };
            0
        }
    }
}

unsafe extern "C" fn tx_context(
    endpoint: *mut fid_ep,
    index: c_int,
    _attr: *mut fi_tx_attr,
    made: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { open_context(endpoint, index, made, context, true) }
}

unsafe extern "C" fn rx_context(
    endpoint: *mut fid_ep,
    index: c_int,
    _attr: *mut fi_rx_attr,
    made: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { open_context(endpoint, index, made, context, false) }
}

unsafe extern "C" fn bind(endpoint: *mut fid, to: *mut fid, flags: u64) -> c_int {
    // SAFETY: see above.
    let (handle, to) = unsafe { (Handle::<fid_ep>::of(endpoint.cast()), id_of(to)) };
    let bound = handle
        .enter_live("fi_ep_bind")
        .and_then(|mut entered| entered.state.bind_endpoint(handle.id, to.ok_or(FI_EINVAL)?, flags));
    code(bound)
}

unsafe extern "C" fn control(endpoint: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::<fid_ep>::of(endpoint.cast()) };
    let done = handle.enter_live("fi_enable").and_then(|mut entered| match command {
        FI_ENABLE => entered.state.enable_endpoint(handle.id),
        _ => Err(FI_ENOSYS),
    });
    code(done)
}

unsafe extern "C" fn setopt(
    endpoint: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    if level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV {
        return -FI_ENOPROTOOPT;
    }
    if len != size_of::<usize>() {
        return -FI_EINVAL;
    }
    // SAFETY: see above: a `size_t`.
    let (handle, bytes) =
        unsafe { (Handle::<fid_ep>::of(endpoint.cast()), value.cast::<usize>().read_unaligned()) };
    let set = handle
        .enter_live("fi_setopt")
        .and_then(|mut entered| entered.state.set_min_multi_recv(handle.id, bytes));
    code(set)
}

unsafe extern "C" fn getname(endpoint: *mut fid, to: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: see above.
    let handle = unsafe { Handle::<fid_ep>::of(endpoint.cast()) };
    let name = handle.enter_live("fi_getname").and_then(|mut entered| entered.state.name_of(handle.id));
    match name {
        Err(error) => -error,
        // SAFETY: see above: a place of `len` bytes.
        Ok(name) => unsafe {
            let room = std::mem::replace(&mut *len, name.len());
            if room < name.len() {
                return -FI_ETOOSMALL;
            }
            core::ptr::copy_nonoverlapping(name.as_ptr(), to.cast(), name.len());
            0
        },
    }
}

unsafe extern "C" fn cancel(endpoint: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::<fid_ep>::of(endpoint.cast()) };
    let done = handle
        .enter_live("fi_cancel")
        .and_then(|mut entered| entered.state.cancel(handle.id, context.expose_provenance()));
    long(done)
}

/// Describes an operation with an array of pieces.
///
/// # Safety
/// See above.
unsafe fn many(
    call: &'static str,
    iov: *const iovec,
    descs: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    context: *mut c_void,
) -> Posting {
    // SAFETY: see above: arrays of `count`; the descriptors may be missing.
    unsafe {
        let pieces = if count == 0 { &[][..] } else { core::slice::from_raw_parts(iov, count) };
        let mut arrays = Vec::new();
        if count > 1 {
            arrays.push(Lent::new(iov.cast(), count * size_of::<iovec>()));
        }
        let mut found = Vec::new();
        if !descs.is_null() && count != 0 {
            found = core::slice::from_raw_parts(descs, count).iter().map(|desc| desc.addr()).collect();
            if count > 1 {
                arrays.push(Lent::new(descs.cast(), count * size_of::<*mut c_void>()));
            }
        }
        Posting {
            pieces: pieces.iter().map(|piece| Lent::new(piece.iov_base, piece.iov_len)).collect(),
            descs: found,
            arrays,
            ..one(call, core::ptr::null(), 0, core::ptr::null_mut(), peer, context)
        }
    }
}

/// Describes a message operation.
///
/// # Safety
/// See above.
unsafe fn message(call: &'static str, message: *const fi_msg, flags: u64) -> Posting {
    // SAFETY: see above.
    unsafe {
        let message = &*message;
        Posting {
            flags: Some(flags),
            ..many(call, message.msg_iov, message.desc, message.iov_count, message.addr, message.context)
        }
    }
}

/// Posts a send.
///
/// # Safety
/// See above.
unsafe fn post_send(endpoint: *mut fid_ep, posting: Posting) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(endpoint) };
    long(handle.enter_live(posting.call).and_then(|mut entered| entered.state.send(handle.id, posting)))
}

/// Posts a receive.
///
/// # Safety
/// See above.
unsafe fn post_recv(endpoint: *mut fid_ep, posting: Posting) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(endpoint) };
    long(handle.enter_live(posting.call).and_then(|mut entered| entered.state.recv(handle.id, posting)))
}

/// Posts a read or write.
///
/// # Safety
/// See above.
unsafe fn post_rma(endpoint: *mut fid_ep, posting: Posting, kind: Operation, remote: Vec<Remote>) -> isize {
    // SAFETY: see above.
    let handle = unsafe { Handle::of(endpoint) };
    long(
        handle
            .enter_live(posting.call)
            .and_then(|mut entered| entered.state.rma(handle.id, posting, kind, remote)),
    )
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    base: *mut c_void,
    len: usize,
    desc: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    unsafe { post_recv(endpoint, one("fi_recv", base, len, desc, from, context)) }
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, request: *const fi_msg, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe { post_recv(endpoint, message("fi_recvmsg", request, flags)) }
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    base: *const c_void,
    len: usize,
    desc: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    unsafe { post_send(endpoint, one("fi_send", base, len, desc, to, context)) }
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    iov: *const iovec,
    descs: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    unsafe { post_send(endpoint, many("fi_sendv", iov, descs, count, to, context)) }
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, request: *const fi_msg, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe { post_send(endpoint, message("fi_sendmsg", request, flags)) }
}

unsafe extern "C" fn inject(endpoint: *mut fid_ep, base: *const c_void, len: usize, to: fi_addr_t) -> isize {
    // SAFETY: see above.
    unsafe {
        let posting = one("fi_inject", base, len, core::ptr::null_mut(), to, core::ptr::null_mut());
        post_send(endpoint, Posting { inject: true, ..posting })
    }
}

unsafe extern "C" fn read(
    endpoint: *mut fid_ep,
    base: *mut c_void,
    len: usize,
    desc: *mut c_void,
    from: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    unsafe {
        let posting = one("fi_read", base, len, desc, from, context);
        post_rma(endpoint, posting, Operation::Read, vec![Remote { addr, len, key }])
    }
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    base: *const c_void,
    len: usize,
    desc: *mut c_void,
    to: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    unsafe {
        let posting = one("fi_write", base, len, desc, to, context);
        post_rma(endpoint, posting, Operation::Write, vec![Remote { addr, len, key }])
    }
}

/// Describes a read or write operation.
///
/// # Safety
/// See above.
unsafe fn rma_message(
    endpoint: *mut fid_ep,
    call: &'static str,
    request: *const fi_msg_rma,
    flags: u64,
    kind: Operation,
) -> isize {
    // SAFETY: see above: arrays of the lengths beside them.
    unsafe {
        let request = &*request;
        let pieces = if request.rma_iov_count == 0 {
            &[][..]
        } else {
            core::slice::from_raw_parts(request.rma_iov, request.rma_iov_count)
        };
        let remote = pieces.iter().map(|piece| Remote { addr: piece.addr, len: piece.len, key: piece.key });
        let mut posting =
            many(call, request.msg_iov, request.desc, request.iov_count, request.addr, request.context);
        posting.flags = Some(flags);
        if pieces.len() > 1 {
            posting.arrays.push(Lent::new(request.rma_iov.cast(), size_of_val(pieces)));
        }
        post_rma(endpoint, posting, kind, remote.collect())
    }
}

unsafe extern "C" fn readmsg(endpoint: *mut fid_ep, request: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe { rma_message(endpoint, "fi_readmsg", request, flags, Operation::Read) }
}

unsafe extern "C" fn writemsg(endpoint: *mut fid_ep, request: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: see above.
    unsafe { rma_message(endpoint, "fi_writemsg", request, flags, Operation::Write) }
}

//! Objects and their tables of functions, as of version 1.17.
//!
//! Functions that are not called are untyped ([`Unused`]). A provider's table may be shorter than
//! declared here; its `size` tells.

pub mod attr;

use core::ffi::{c_char, c_int, c_void};

use libc::iovec;

use self::attr::{
    fi_addr_t, fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_info, fi_msg, fi_msg_atomic, fi_msg_rma,
    fi_rx_attr, fi_tx_attr,
};

/// A function that is not called here.
pub type Unused = Option<unsafe extern "C" fn()>;

/// The header of every object.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

/// Functions of every object.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
    pub ops_open: Unused,
    pub tostr: Unused,
    pub ops_set: Unused,
}

/// A fabric.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

/// Functions of a fabric.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
    >,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int>,
    pub domain2: Unused,
}

/// A domain, for example a network card.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

/// Functions of a domain.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<
        unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
    >,
    pub cq_open: Option<
        unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
    >,
    pub endpoint:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub scalable_ep:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub cntr_open: Unused,
    pub poll_open: Unused,
    pub stx_ctx: Unused,
    pub srx_ctx: Unused,
    pub query_atomic: Unused,
    pub query_collective: Unused,
    pub endpoint2: Unused,
}

/// Functions of a domain that register memory.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: Option<
        unsafe extern "C" fn(
            *mut fid,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut fid_mr,
            *mut c_void,
        ) -> c_int,
    >,
    pub regv: Unused,
    pub regattr: Unused,
}

/// Registered memory.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

/// An address vector.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

/// Functions of an address vector.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: Option<
        unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int,
    >,
    pub insertsvc: Unused,
    pub insertsym: Unused,
    pub remove: Option<unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int>,
    pub lookup: Unused,
    pub straddr:
        Option<unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char>,
    pub av_set: Unused,
}

/// A completion queue.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

/// Functions of a completion queue.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize>,
    pub readfrom: Unused,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize>,
    pub sread: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> isize>,
    pub sreadfrom: Unused,
    pub signal: Unused,
    pub strerror:
        Option<unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char>,
}

/// A wait set; not used.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut c_void,
}

/// An endpoint, or one of its contexts.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut c_void,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut c_void,
}

/// Functions of an endpoint.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: Option<unsafe extern "C" fn(*mut fid, *mut c_void) -> isize>,
    pub getopt: Unused,
    pub setopt: Option<unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int>,
    pub tx_ctx: Option<
        unsafe extern "C" fn(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int,
    >,
    pub rx_ctx: Option<
        unsafe extern "C" fn(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int,
    >,
    pub rx_size_left: Unused,
    pub tx_size_left: Unused,
}

/// Functions of an endpoint for its name and connections.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Unused,
    pub getname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int>,
    pub getpeer: Unused,
    pub connect: Unused,
    pub listen: Unused,
    pub accept: Unused,
    pub reject: Unused,
    pub shutdown: Unused,
    pub join: Unused,
}

/// Functions for messages.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
    >,
    pub recvv: Unused,
    pub recvmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize>,
    pub send: Option<
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
    >,
    pub sendv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const iovec,
            *mut *mut c_void,
            usize,
            fi_addr_t,
            *mut c_void,
        ) -> isize,
    >,
    pub sendmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize>,
    pub inject: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize>,
    pub senddata: Unused,
    pub injectdata: Unused,
}

/// Functions for remote memory access.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *mut c_void,
            usize,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub readv: Unused,
    pub readmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub write: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub writev: Unused,
    pub writemsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub inject: Unused,
    pub writedata: Unused,
    pub injectdata: Unused,
}

/// A function that tells whether there is an atomic operation, and for how many words at once.
pub type AtomicValid = unsafe extern "C" fn(*mut fid_ep, c_int, c_int, *mut usize) -> c_int;

/// Functions for atomic operations.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, clippy::type_complexity)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: Unused,
    pub writev: Unused,
    pub writemsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> isize>,
    pub inject: Unused,
    pub readwrite: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            fi_addr_t,
            u64,
            u64,
            c_int,
            c_int,
            *mut c_void,
        ) -> isize,
    >,
    pub readwritev: Unused,
    pub readwritemsg: Unused,
    pub compwrite: Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            expected: *const c_void,
            expected_desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            dest: fi_addr_t,
            addr: u64,
            rkey: u64,
            datatype: c_int,
            op: c_int,
            context: *mut c_void,
        ) -> isize,
    >,
    pub compwritev: Unused,
    pub compwritemsg: Unused,
    pub writevalid: Option<AtomicValid>,
    pub readwritevalid: Option<AtomicValid>,
    pub compwritevalid: Option<AtomicValid>,
}

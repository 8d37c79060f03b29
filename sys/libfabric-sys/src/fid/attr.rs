//! Attributes of providers and objects: `fi_info` and its parts, and completions.
//!
//! Newer versions append fields to [`fi_domain_attr`]: it is never constructed or copied here.

use core::ffi::{c_char, c_int, c_void};

use super::{fid, fid_domain, fid_fabric, fid_wait};

/// Address of a peer in an address vector.
pub type fi_addr_t = u64;

/// Capabilities that a provider offers, or that a caller requests; `fi_getinfo(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}

/// Attributes of sending; `fi_endpoint(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

/// Attributes of receiving; `fi_endpoint(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

/// Attributes of endpoints; `fi_endpoint(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_ep_attr {
    pub type_: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

/// Attributes of domains; `fi_domain(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

/// Attributes of fabrics; `fi_fabric(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

/// A network card; `fi_nic(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut c_void,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}

/// A card's names; `fi_nic(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_device_attr {
    pub name: *mut c_char,
    pub device_id: *mut c_char,
    pub device_version: *mut c_char,
    pub vendor_id: *mut c_char,
    pub driver: *mut c_char,
    pub firmware: *mut c_char,
}

/// A card's link; `fi_nic(3)`. The speed is in bits per second.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_link_attr {
    pub address: *mut c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: c_int,
    pub network_type: *mut c_char,
}

/// Attributes of address vectors; `fi_av(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_av_attr {
    pub type_: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// Attributes of completion queues; `fi_cq(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut fid_wait,
}

/// A completion with `FI_CQ_FORMAT_MSG`; `fi_cq(3)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

/// A completion with `FI_CQ_FORMAT_DATA`; `fi_cq(3)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_cq_data_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

/// A completion with an error; `fi_cq(3)`. Must be zeroed before each use. `src_addr` exists since
/// 1.20.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    pub src_addr: fi_addr_t,
}

impl fi_cq_err_entry {
    /// All zero.
    pub const ZERO: fi_cq_err_entry = fi_cq_err_entry {
        op_context: core::ptr::null_mut(),
        flags: 0,
        len: 0,
        buf: core::ptr::null_mut(),
        data: 0,
        tag: 0,
        olen: 0,
        err: 0,
        prov_errno: 0,
        err_data: core::ptr::null_mut(),
        err_data_size: 0,
        src_addr: 0,
    };
}

/// A message for `fi_sendmsg` and `fi_recvmsg`; `fi_msg(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_msg {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}

/// A part of a peer's memory; `fi_rma(3)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// A transfer for `fi_readmsg` and `fi_writemsg`; `fi_rma(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_msg_rma {
    pub msg_iov: *const libc::iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// Words of this side's memory; `fi_atomic(3)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

/// Words of a peer's memory; `fi_atomic(3)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_rma_ioc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

/// An operation for `fi_atomicmsg`; `fi_atomic(3)`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct fi_msg_atomic {
    pub msg_iov: *const fi_ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_ioc,
    pub rma_iov_count: usize,
    pub datatype: i32,
    pub op: i32,
    pub context: *mut c_void,
    pub data: u64,
}

/// Storage that an operation lends to the provider until its completion, with `FI_CONTEXT` or
/// `FI_CONTEXT2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

impl fi_context2 {
    /// All zero.
    pub const ZERO: fi_context2 = fi_context2 { internal: [core::ptr::null_mut(); 8] };
}

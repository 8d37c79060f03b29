//! Work requests, completions and asynchronous events.

#![allow(missing_docs)]

use core::ffi::{c_int, c_void};

use super::{ibv_ah, ibv_cq, ibv_mr, ibv_qp, ibv_srq};

/// A scatter-gather element: a piece of local memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// Remote memory of a read or write.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Remote memory and operands of an atomic operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// Destination of a datagram.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// Opcode-specific part of a send request. The opcode and the queue pair's type select the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_wr {
    pub rdma: ibv_wr_rdma,
    pub atomic: ibv_wr_atomic,
    pub ud: ibv_wr_ud,
}

/// Destination queue of an XRC message.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_wr_xrc {
    pub remote_srqn: u32,
}

/// Memory that a memory window is bound to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: u32,
}

/// Binding of a memory window. Not used; it gives the union its size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wr_bind_mw {
    pub mw: *mut c_void,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// A send request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: u32,
    pub send_flags: u32,
    /// Immediate data, big-endian; valid for opcodes with immediate data.
    pub imm_data: u32,
    pub wr: ibv_wr,
    pub qp_type: ibv_wr_xrc,
    pub bind_mw: ibv_wr_bind_mw,
}

/// A receive request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

/// A completion. Unless its status is success, only `wr_id`, `status`, `qp_num` and `vendor_err`
/// are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data, big-endian; valid if the flags say so.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// The object that an asynchronous event concerns; the event's type selects the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_event_element {
    pub cq: *mut ibv_cq,
    pub qp: *mut ibv_qp,
    pub srq: *mut ibv_srq,
    pub wq: *mut c_void,
    pub port_num: c_int,
}

/// An asynchronous event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_async_event {
    pub element: ibv_event_element,
    pub event_type: u32,
}

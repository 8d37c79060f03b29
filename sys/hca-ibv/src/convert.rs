//! Converts requests, completions and attributes to and from the structs of libibverbs. Pure
//! functions.

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::null_mut;

use hca::{
    Access, AhAttr, AltPath, AtomicCap, Completed, Completion, Data, DeviceAttr, Errno, LinkLayer, ModifyQp,
    Mtu, PathMigState, PortAttr, PortState, QpCap, QpKindOf, QpState, RecvWr, SendOp, SendWr, Sge, Status,
    To, errno,
};
use libibverbs_sys::attr::*;
use libibverbs_sys::consts::*;
use libibverbs_sys::object::ibv_ah;
use libibverbs_sys::work::*;

// Slices of elements are passed to the library without conversion.
const _: () = {
    assert!(size_of::<Sge>() == size_of::<ibv_sge>() && align_of::<Sge>() == align_of::<ibv_sge>());
    assert!(offset_of!(Sge, addr) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Sge, len) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(ibv_sge, lkey));
};

const NO_WINDOW: ibv_wr_bind_mw = ibv_wr_bind_mw {
    mw: null_mut(),
    rkey: 0,
    bind_info: ibv_mw_bind_info { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 },
};

/// Converts a send request for a queue pair of this kind. `handle` is a datagram's address handle,
/// if it is of the same device.
#[inline]
pub(crate) fn send<Ah>(
    wr: &SendWr<'_, Ah>,
    kind: QpKindOf,
    handle: impl FnOnce(&Ah) -> Option<*mut ibv_ah>,
) -> Result<ibv_send_wr, Errno> {
    let rdma = |remote_addr, rkey| ibv_wr { rdma: ibv_wr_rdma { remote_addr, rkey } };
    let atomic = |remote_addr, compare_add, swap, rkey| ibv_wr {
        atomic: ibv_wr_atomic { remote_addr, compare_add, swap, rkey },
    };
    // `outgoing`: the data goes to the peer, as inline data must.
    let (opcode, imm, mut operation, outgoing) = match wr.op {
        SendOp::Send => (IBV_WR_SEND, 0, rdma(0, 0), true),
        SendOp::SendImm(imm) => (IBV_WR_SEND_WITH_IMM, imm, rdma(0, 0), true),
        SendOp::RdmaWrite { addr, rkey } => (IBV_WR_RDMA_WRITE, 0, rdma(addr, rkey), true),
        SendOp::RdmaWriteImm { addr, rkey, imm } => (IBV_WR_RDMA_WRITE_WITH_IMM, imm, rdma(addr, rkey), true),
        SendOp::RdmaRead { addr, rkey } => (IBV_WR_RDMA_READ, 0, rdma(addr, rkey), false),
        SendOp::FetchAdd { addr, rkey, add } => {
            (IBV_WR_ATOMIC_FETCH_AND_ADD, 0, atomic(addr, add, 0, rkey), false)
        }
        SendOp::CompareSwap { addr, rkey, compare, swap } => {
            (IBV_WR_ATOMIC_CMP_AND_SWP, 0, atomic(addr, compare, swap, rkey), false)
        }
    };
    let mut remote_srqn = 0;
    match (kind, wr.to) {
        (QpKindOf::Rc, To::Peer) => {}
        (QpKindOf::XrcIni, To::Srq(number)) => remote_srqn = number.0,
        (QpKindOf::Ud, To::Datagram { ah, qp, qkey })
            if matches!(wr.op, SendOp::Send | SendOp::SendImm(_)) =>
        {
            let ah = handle(ah).ok_or(errno::EINVAL)?;
            operation = ibv_wr { ud: ibv_wr_ud { ah, remote_qpn: qp.0, remote_qkey: qkey } };
        }
        _ => return Err(errno::EINVAL),
    }
    let (pieces, count, inline) = match wr.data {
        Data::Registered(pieces) => (pieces.as_ptr().cast_mut().cast(), pieces.len(), 0),
        Data::Inline(pieces) if outgoing => {
            (pieces.as_ptr().cast_mut().cast(), pieces.len(), IBV_SEND_INLINE)
        }
        Data::Inline(_) => return Err(errno::EINVAL),
    };
    let flag = |is: bool, flag| if is { flag } else { 0 };
    Ok(ibv_send_wr {
        wr_id: wr.wr_id,
        next: null_mut(),
        sg_list: pieces,
        num_sge: c_int::try_from(count).map_err(|_| errno::EINVAL)?,
        opcode,
        send_flags: inline
            | flag(wr.flags.signaled, IBV_SEND_SIGNALED)
            | flag(wr.flags.solicited, IBV_SEND_SOLICITED)
            | flag(wr.flags.fence, IBV_SEND_FENCE),
        imm_data: imm.to_be(),
        wr: operation,
        qp_type: ibv_wr_xrc { remote_srqn },
        bind_mw: NO_WINDOW,
    })
}

/// Converts a receive request.
#[inline]
pub(crate) fn receive(wr: &RecvWr<'_>) -> Result<ibv_recv_wr, Errno> {
    Ok(ibv_recv_wr {
        wr_id: wr.wr_id,
        next: null_mut(),
        sg_list: wr.sges.as_ptr().cast_mut().cast(),
        num_sge: c_int::try_from(wr.sges.len()).map_err(|_| errno::EINVAL)?,
    })
}

/// Converts a completion.
#[inline]
pub(crate) fn completion(wc: &ibv_wc) -> Completion {
    let status = Status::of_code(wc.status);
    let op = match wc.opcode {
        IBV_WC_RDMA_WRITE => Completed::RdmaWrite,
        IBV_WC_RDMA_READ => Completed::RdmaRead,
        IBV_WC_COMP_SWAP => Completed::CompareSwap,
        IBV_WC_FETCH_ADD => Completed::FetchAdd,
        IBV_WC_RECV_RDMA_WITH_IMM => Completed::RecvRdmaWithImm,
        opcode if opcode & IBV_WC_RECV != 0 => Completed::Recv,
        _ => Completed::Send,
    };
    let has = |flag| status.is_success() && wc.wc_flags & flag != 0;
    Completion {
        wr_id: wc.wr_id,
        status,
        op,
        grh: has(IBV_WC_GRH),
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm: has(IBV_WC_WITH_IMM).then(|| u32::from_be(wc.imm_data)),
        qp_num: wc.qp_num,
        src_qp: wc.src_qp,
    }
}

/// Converts access rights.
pub(crate) fn access(access: Access) -> u32 {
    let flag = |is: bool, flag| if is { flag } else { 0 };
    flag(access.local_write, IBV_ACCESS_LOCAL_WRITE)
        | flag(access.remote_write, IBV_ACCESS_REMOTE_WRITE)
        | flag(access.remote_read, IBV_ACCESS_REMOTE_READ)
        | flag(access.remote_atomic, IBV_ACCESS_REMOTE_ATOMIC)
}

/// Converts a route to a port.
pub(crate) fn ah_attr(ah: &AhAttr) -> ibv_ah_attr {
    let grh = ah.grh.map(|grh| ibv_global_route {
        dgid: ibv_gid { raw: grh.dgid.0 },
        flow_label: grh.flow_label,
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
    });
    ibv_ah_attr {
        is_global: grh.is_some().into(),
        grh: grh.unwrap_or_default(),
        dlid: ah.dlid,
        sl: ah.sl,
        src_path_bits: ah.src_path_bits,
        static_rate: 0,
        port_num: ah.port,
    }
}

/// Fills in an alternate path and a state of path migration. Returns the mask of the attributes
/// that are set.
fn paths(attr: &mut ibv_qp_attr, alt: Option<AltPath>, state: Option<PathMigState>) -> c_int {
    let mut mask = 0;
    if let Some(alt) = alt {
        attr.alt_ah_attr = ah_attr(&alt.ah);
        (attr.alt_port_num, attr.alt_pkey_index) = (alt.ah.port, alt.pkey_index);
        attr.alt_timeout = alt.timeout;
        mask |= IBV_QP_ALT_PATH;
    }
    if let Some(state) = state {
        attr.path_mig_state = state as u32;
        mask |= IBV_QP_PATH_MIG_STATE;
    }
    mask
}

/// Converts a state transition to attributes and their mask. Returns `None` if a queue pair of this
/// kind has no such transition.
pub(crate) fn step(step: &ModifyQp, kind: QpKindOf) -> Option<(ibv_qp_attr, c_int)> {
    use QpKindOf::{Rc, Ud, XrcIni, XrcTgt};
    let mut attr = ibv_qp_attr::default();
    let (state, mask) = match (*step, kind) {
        (ModifyQp::Reset, _) => (IBV_QPS_RESET, 0),
        (ModifyQp::Err, _) => (IBV_QPS_ERR, 0),
        (ModifyQp::Init { port, pkey_index, access: who }, Rc | XrcIni | XrcTgt) => {
            (attr.port_num, attr.pkey_index) = (port, pkey_index);
            attr.qp_access_flags = access(Access { local_write: false, ..who });
            (IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS)
        }
        (ModifyQp::InitUd { port, pkey_index, qkey }, Ud) => {
            (attr.port_num, attr.pkey_index, attr.qkey) = (port, pkey_index, qkey);
            (IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY)
        }
        (ModifyQp::Rtr(to), Rc | XrcIni | XrcTgt) => {
            (attr.path_mtu, attr.dest_qp_num, attr.rq_psn) = (to.path_mtu as u32, to.dest_qp.0, to.rq_psn);
            attr.ah_attr = ah_attr(&to.ah);
            let mut mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            if kind != XrcIni {
                (attr.max_dest_rd_atomic, attr.min_rnr_timer) = (to.max_dest_rd_atomic, to.min_rnr_timer);
                mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            }
            (IBV_QPS_RTR, mask | paths(&mut attr, to.alt, None))
        }
        (ModifyQp::RtrUd, Ud) => (IBV_QPS_RTR, 0),
        (ModifyQp::Rts(to), Rc | XrcIni | XrcTgt) => {
            (attr.sq_psn, attr.timeout) = (to.sq_psn, to.timeout);
            let mut mask = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
            if kind != XrcTgt {
                (attr.retry_cnt, attr.rnr_retry) = (to.retry_cnt, to.rnr_retry);
                attr.max_rd_atomic = to.max_rd_atomic;
                mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            }
            (IBV_QPS_RTS, mask | paths(&mut attr, to.alt, to.path_mig_state))
        }
        (ModifyQp::Paths { alt, path_mig_state }, Rc | XrcIni | XrcTgt) => {
            (IBV_QPS_RTS, paths(&mut attr, alt, path_mig_state))
        }
        (ModifyQp::RtsUd { sq_psn }, Ud) => {
            attr.sq_psn = sq_psn;
            (IBV_QPS_RTS, IBV_QP_SQ_PSN)
        }
        _ => return None,
    };
    attr.qp_state = state;
    Some((attr, mask | IBV_QP_STATE))
}

/// Converts a queue pair's state.
pub(crate) fn state(code: u32) -> Option<QpState> {
    Some(match code {
        IBV_QPS_RESET => QpState::Reset,
        IBV_QPS_INIT => QpState::Init,
        IBV_QPS_RTR => QpState::Rtr,
        IBV_QPS_RTS => QpState::Rts,
        IBV_QPS_SQD => QpState::Sqd,
        IBV_QPS_SQE => QpState::Sqe,
        IBV_QPS_ERR => QpState::Err,
        _ => return None,
    })
}

/// Converts a requested capacity.
pub(crate) fn size(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline,
    }
}

/// Converts a capacity that the device has given.
pub(crate) fn given(cap: &ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
    }
}

/// Converts a device's attributes.
pub(crate) fn device(attr: &ibv_device_attr) -> DeviceAttr {
    let count = |n: c_int| u32::try_from(n).unwrap_or(0);
    let byte = |n: c_int| count(n).min(u8::MAX.into()) as u8;
    DeviceAttr {
        node_guid: u64::from_be(attr.node_guid),
        ports: attr.phys_port_cnt,
        max_qp: count(attr.max_qp),
        max_qp_wr: count(attr.max_qp_wr),
        max_sge: count(attr.max_sge),
        max_sge_rd: count(attr.max_sge_rd),
        max_cq: count(attr.max_cq),
        max_cqe: count(attr.max_cqe),
        max_mr: count(attr.max_mr),
        max_mr_size: attr.max_mr_size,
        max_ah: count(attr.max_ah),
        max_srq: count(attr.max_srq),
        max_srq_wr: count(attr.max_srq_wr),
        max_srq_sge: count(attr.max_srq_sge),
        max_qp_rd_atom: byte(attr.max_qp_rd_atom),
        max_qp_init_rd_atom: byte(attr.max_qp_init_rd_atom),
        atomics: match attr.atomic_cap {
            IBV_ATOMIC_HCA => AtomicCap::Device,
            IBV_ATOMIC_GLOB => AtomicCap::Global,
            // A capability that is unknown cannot be relied on.
            _ => AtomicCap::None,
        },
        path_migration: attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG != 0,
        xrc_claimed: attr.device_cap_flags & IBV_DEVICE_XRC != 0,
    }
}

/// Converts a port's attributes.
pub(crate) fn port(attr: &ibv_port_attr) -> PortAttr {
    // A port without a link may have no MTU code, and a future device an unknown one.
    let mtu = |code: u32| Mtu::of_code(code.clamp(1, 5)).unwrap_or(Mtu::B256);
    PortAttr {
        state: match attr.state {
            IBV_PORT_DOWN => PortState::Down,
            IBV_PORT_INIT => PortState::Init,
            IBV_PORT_ARMED => PortState::Armed,
            IBV_PORT_ACTIVE => PortState::Active,
            IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
            _ => PortState::Nop,
        },
        max_mtu: mtu(attr.max_mtu),
        active_mtu: mtu(attr.active_mtu),
        lid: attr.lid,
        link_layer: match attr.link_layer {
            IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unspecified,
        },
        gid_table_len: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
        pkey_table_len: attr.pkey_tbl_len,
        max_msg_size: attr.max_msg_sz,
        speed: lanes(attr.active_width) * lane(attr.active_speed),
    }
}

/// Returns the number of lanes for a code of link width (ibv_query_port(3)).
fn lanes(code: u8) -> u32 {
    match code {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    }
}

/// Returns the speed of a lane in Mb/s for a code of link speed (ibv_query_port(3)).
fn lane(code: u8) -> u32 {
    match code {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;

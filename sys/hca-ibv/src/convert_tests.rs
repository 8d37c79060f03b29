//! Tests of the conversions against the numbers of the C header.

#![allow(unsafe_code)]

use hca::{Gid, GlobalRoute, Piece, QpNum, SendFlags, SrqNum, ToRtr, ToRts};

use super::*;

/// A datagram's address handle; true if it is of the queue pair's device.
type Handle = (*mut ibv_ah, bool);

fn to_c(wr: &SendWr<'_, Handle>, kind: QpKindOf) -> Result<ibv_send_wr, Errno> {
    send(wr, kind, |(ah, ours)| ours.then_some(*ah))
}

fn wr(op: SendOp) -> SendWr<'static, Handle> {
    SendWr { wr_id: 4711, op, data: Data::EMPTY, flags: SendFlags::NONE, to: To::Peer }
}

const WRITE: SendOp = SendOp::RdmaWrite { addr: 0x1000, rkey: 7 };
const READ: SendOp = SendOp::RdmaRead { addr: 0x3000, rkey: 9 };
const ADD: SendOp = SendOp::FetchAdd { addr: 0x4000, rkey: 10, add: 11 };
const SWAP: SendOp = SendOp::CompareSwap { addr: 0x5000, rkey: 12, compare: 13, swap: 14 };

#[test]
fn each_operation_has_its_opcode_and_fields() {
    let write_imm = SendOp::RdmaWriteImm { addr: 0x2000, rkey: 8, imm: 0x0102_0304 };
    let expected = [
        (SendOp::Send, IBV_WR_SEND, 0),
        (SendOp::SendImm(0x0506_0708), IBV_WR_SEND_WITH_IMM, 0x0506_0708_u32.to_be()),
        (WRITE, IBV_WR_RDMA_WRITE, 0),
        (write_imm, IBV_WR_RDMA_WRITE_WITH_IMM, 0x0102_0304_u32.to_be()),
        (READ, IBV_WR_RDMA_READ, 0),
        (ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, 0),
        (SWAP, IBV_WR_ATOMIC_CMP_AND_SWP, 0),
    ];
    for (op, opcode, imm) in expected {
        let c = to_c(&wr(op), QpKindOf::Rc).expect("it is valid");
        assert_eq!((c.wr_id, c.opcode, c.imm_data, c.send_flags), (4711, opcode, imm, 0), "{op:?}");
        assert!(c.next.is_null() && c.num_sge == 0);
        // SAFETY: the member of the opcode was written, and all members are numbers.
        unsafe {
            match op {
                SendOp::RdmaWrite { addr, rkey }
                | SendOp::RdmaRead { addr, rkey }
                | SendOp::RdmaWriteImm { addr, rkey, .. } => {
                    assert_eq!((c.wr.rdma.remote_addr, c.wr.rdma.rkey), (addr, rkey), "{op:?}");
                }
                SendOp::FetchAdd { addr, rkey, add } => {
                    let atomic = c.wr.atomic;
                    assert_eq!((atomic.remote_addr, atomic.rkey, atomic.compare_add), (addr, rkey, add));
                }
                SendOp::CompareSwap { addr, rkey, compare, swap } => {
                    let atomic = c.wr.atomic;
                    assert_eq!((atomic.remote_addr, atomic.rkey), (addr, rkey));
                    assert_eq!((atomic.compare_add, atomic.swap), (compare, swap));
                }
                SendOp::Send | SendOp::SendImm(_) => {}
            }
        }
    }
}

#[test]
fn flags_and_pieces_go_as_they_are() {
    let flags = [
        (SendFlags::NONE, 0),
        (SendFlags::SIGNALED, IBV_SEND_SIGNALED),
        (SendFlags { solicited: true, ..SendFlags::NONE }, IBV_SEND_SOLICITED),
        (SendFlags { fence: true, ..SendFlags::NONE }, IBV_SEND_FENCE),
        (
            SendFlags { signaled: true, solicited: true, fence: true },
            IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE,
        ),
    ];
    let pieces = [Sge { addr: 1, len: 2, lkey: 3 }, Sge { addr: 4, len: 5, lkey: 6 }];
    let bytes = [Piece::new(b"inline"), Piece::new(b"data"), Piece::new(b"")];
    for (flags, expected) in flags {
        let registered = SendWr { flags, data: Data::Registered(&pieces), ..wr(WRITE) };
        let c = to_c(&registered, QpKindOf::Rc).expect("it is valid");
        assert_eq!((c.send_flags, c.num_sge), (expected, 2));
        // SAFETY: the list has two elements, which are live.
        let second = unsafe { *c.sg_list.add(1) };
        assert_eq!(second, ibv_sge { addr: 4, length: 5, lkey: 6 });
        let inline = SendWr { flags, data: Data::Inline(&bytes), ..wr(SendOp::Send) };
        let c = to_c(&inline, QpKindOf::Rc).expect("it is valid");
        assert_eq!((c.send_flags, c.num_sge), (expected | IBV_SEND_INLINE, 3));
        // SAFETY: the list has three elements, which are live.
        let second = unsafe { *c.sg_list.add(1) };
        assert_eq!((second.addr, second.length), (bytes[1].sge().addr, 4));
    }
    let c = receive(&RecvWr { wr_id: 17, sges: &pieces }).expect("it is valid");
    assert_eq!((c.wr_id, c.num_sge, c.next.is_null()), (17, 2, true));
    assert_eq!(c.sg_list.addr(), pieces.as_ptr().addr());
}

#[test]
fn what_is_read_cannot_be_inline() {
    let bytes = [Piece::new(b"12345678")];
    for op in [READ, ADD, SWAP] {
        let inline = SendWr { data: Data::Inline(&bytes), ..wr(op) };
        assert_eq!(to_c(&inline, QpKindOf::Rc).err(), Some(errno::EINVAL), "{op:?}");
    }
    for op in [SendOp::Send, SendOp::SendImm(1), WRITE] {
        assert!(to_c(&SendWr { data: Data::Inline(&bytes), ..wr(op) }, QpKindOf::Rc).is_ok(), "{op:?}");
    }
}

#[test]
fn a_request_goes_to_whom_its_queue_pair_can_reach() {
    let mut handle = 0_u64;
    let ah: *mut ibv_ah = (&raw mut handle).cast();
    let (ours, foreign) = ((ah, true), (ah, false));
    let datagram = |ah| To::Datagram { ah, qp: QpNum(21), qkey: 22 };
    let c = to_c(&SendWr { to: datagram(&ours), ..wr(SendOp::SendImm(1)) }, QpKindOf::Ud).expect("valid");
    // SAFETY: a datagram has this member.
    let ud = unsafe { c.wr.ud };
    assert_eq!((ud.ah, ud.remote_qpn, ud.remote_qkey), (ah, 21, 22));
    let srq = To::Srq(SrqNum(23));
    let c = to_c(&SendWr { to: srq, ..wr(WRITE) }, QpKindOf::XrcIni).expect("valid");
    assert_eq!(c.qp_type.remote_srqn, 23);

    let refused = [
        (To::Peer, SendOp::Send, QpKindOf::Ud),
        (To::Peer, SendOp::Send, QpKindOf::XrcIni),
        (To::Peer, SendOp::Send, QpKindOf::XrcTgt),
        (srq, SendOp::Send, QpKindOf::Rc),
        (srq, SendOp::Send, QpKindOf::XrcTgt),
        (datagram(&ours), SendOp::Send, QpKindOf::Rc),
        // The union holds the handle where a write has its address.
        (datagram(&ours), WRITE, QpKindOf::Ud),
        (datagram(&foreign), SendOp::Send, QpKindOf::Ud),
    ];
    for (to, op, kind) in refused {
        assert_eq!(
            to_c(&SendWr { to, ..wr(op) }, kind).err(),
            Some(errno::EINVAL),
            "{to:?}, {op:?}, {kind:?}"
        );
    }
}

#[test]
fn completions_are_converted_from_c() {
    let opcodes = [
        (IBV_WC_SEND, Completed::Send),
        (IBV_WC_RDMA_WRITE, Completed::RdmaWrite),
        (IBV_WC_RDMA_READ, Completed::RdmaRead),
        (IBV_WC_COMP_SWAP, Completed::CompareSwap),
        (IBV_WC_FETCH_ADD, Completed::FetchAdd),
        (IBV_WC_RECV, Completed::Recv),
        (IBV_WC_RECV_RDMA_WITH_IMM, Completed::RecvRdmaWithImm),
    ];
    for (opcode, op) in opcodes {
        let wc = ibv_wc { wr_id: 1, opcode, byte_len: 3, qp_num: 4, src_qp: 5, ..Default::default() };
        let expected = Completion {
            wr_id: 1,
            status: Status::Success,
            op,
            grh: false,
            vendor_err: 0,
            byte_len: 3,
            imm: None,
            qp_num: 4,
            src_qp: 5,
        };
        assert_eq!(completion(&wc), expected);
    }
    let imm_data = 0x0102_0304_u32.to_be();
    let converted = |wc_flags, status| {
        let c = completion(&ibv_wc { opcode: IBV_WC_RECV, imm_data, wc_flags, status, ..Default::default() });
        (c.imm, c.grh)
    };
    assert_eq!(converted(0, IBV_WC_SUCCESS), (None, false));
    assert_eq!(converted(IBV_WC_WITH_IMM, IBV_WC_SUCCESS), (Some(0x0102_0304), false));
    assert_eq!(converted(IBV_WC_GRH, IBV_WC_SUCCESS), (None, true));
    // The flags of a failed completion are not valid.
    assert_eq!(converted(IBV_WC_WITH_IMM | IBV_WC_GRH, IBV_WC_WR_FLUSH_ERR), (None, false));
    let statuses = [
        (IBV_WC_LOC_LEN_ERR, Status::LocLenErr),
        (IBV_WC_LOC_QP_OP_ERR, Status::LocQpOpErr),
        (IBV_WC_LOC_PROT_ERR, Status::LocProtErr),
        (IBV_WC_WR_FLUSH_ERR, Status::WrFlushErr),
        (IBV_WC_BAD_RESP_ERR, Status::BadRespErr),
        (IBV_WC_LOC_ACCESS_ERR, Status::LocAccessErr),
        (IBV_WC_REM_INV_REQ_ERR, Status::RemInvReqErr),
        (IBV_WC_REM_ACCESS_ERR, Status::RemAccessErr),
        (IBV_WC_REM_OP_ERR, Status::RemOpErr),
        (IBV_WC_RETRY_EXC_ERR, Status::RetryExcErr),
        (IBV_WC_RNR_RETRY_EXC_ERR, Status::RnrRetryExcErr),
        (IBV_WC_REM_ABORT_ERR, Status::RemAbortErr),
        (IBV_WC_FATAL_ERR, Status::FatalErr),
        (IBV_WC_RESP_TIMEOUT_ERR, Status::RespTimeoutErr),
        (IBV_WC_GENERAL_ERR, Status::GeneralErr),
    ];
    for (code, status) in statuses {
        let wc = ibv_wc { status: code, vendor_err: 99, ..Default::default() };
        assert_eq!((completion(&wc).status, completion(&wc).vendor_err), (status, 99));
    }
}

#[test]
fn access_and_ways_go_flag_by_flag() {
    let no = Access::READ;
    let expected = [
        (no, 0),
        (Access { local_write: true, ..no }, IBV_ACCESS_LOCAL_WRITE),
        (Access { remote_write: true, ..no }, IBV_ACCESS_REMOTE_WRITE),
        (Access { remote_read: true, ..no }, IBV_ACCESS_REMOTE_READ),
        (Access { remote_atomic: true, ..no }, IBV_ACCESS_REMOTE_ATOMIC),
        (Access::ALL, 15),
    ];
    for (asked, flags) in expected {
        assert_eq!(access(asked), flags);
    }
    let c = ah_attr(&AH);
    assert_eq!((c.port_num, c.dlid, c.sl, c.src_path_bits, c.is_global), (2, 3, 4, 5, 1));
    assert_eq!((c.grh.dgid.raw, c.grh.sgid_index, c.grh.hop_limit), ([6; 16], 7, 8));
    assert_eq!((c.grh.traffic_class, c.grh.flow_label), (9, 10));
    assert_eq!(ah_attr(&AhAttr { grh: None, ..AH }).is_global, 0);
}

const AH: AhAttr = AhAttr {
    port: 2,
    dlid: 3,
    sl: 4,
    src_path_bits: 5,
    grh: Some(GlobalRoute {
        dgid: Gid([6; 16]),
        sgid_index: 7,
        hop_limit: 8,
        traffic_class: 9,
        flow_label: 10,
    }),
};

const RTR: ToRtr = ToRtr {
    path_mtu: Mtu::B1024,
    dest_qp: QpNum(4),
    rq_psn: 5,
    max_dest_rd_atomic: 6,
    min_rnr_timer: 7,
    ah: AH,
    alt: None,
};

const RTS: ToRts = ToRts {
    sq_psn: 8,
    timeout: 9,
    retry_cnt: 1,
    rnr_retry: 2,
    max_rd_atomic: 3,
    alt: None,
    path_mig_state: None,
};

#[test]
fn steps_name_what_their_kind_must_have() {
    use QpKindOf::{Rc, Ud, XrcIni, XrcTgt};
    let init = ModifyQp::Init { port: 1, pkey_index: 2, access: Access::ALL };
    let init_ud = ModifyQp::InitUd { port: 1, pkey_index: 2, qkey: 3 };
    let (rtr, rts) = (ModifyQp::Rtr(RTR), ModifyQp::Rts(RTS));
    let rts_ud = ModifyQp::RtsUd { sq_psn: 8 };
    // From ibv_modify_qp(3), and for XRC from the kernel's table of transitions.
    let to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    let to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
    let tgt = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    let ini = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    let expected = [
        (init, [Some(to_init | IBV_QP_ACCESS_FLAGS); 3], None),
        (init_ud, [None; 3], Some(to_init | IBV_QP_QKEY)),
        (rtr, [Some(to_rtr | tgt), Some(to_rtr), Some(to_rtr | tgt)], None),
        (ModifyQp::RtrUd, [None; 3], Some(IBV_QP_STATE)),
        (rts, [Some(to_rts | ini), Some(to_rts | ini), Some(to_rts | IBV_QP_TIMEOUT)], None),
        (rts_ud, [None; 3], Some(to_rts)),
        (ModifyQp::Reset, [Some(IBV_QP_STATE); 3], Some(IBV_QP_STATE)),
        (ModifyQp::Err, [Some(IBV_QP_STATE); 3], Some(IBV_QP_STATE)),
    ];
    for (what, connected, ud) in expected {
        let mask = |kind| step(&what, kind).map(|(_, mask)| mask);
        assert_eq!(([Rc, XrcIni, XrcTgt].map(mask), mask(Ud)), (connected, ud), "{what:?}");
    }
    let attr = |what: &ModifyQp, kind| step(what, kind).expect("a step").0;
    let c = attr(&init, Rc);
    assert_eq!((c.qp_state, c.port_num, c.pkey_index), (IBV_QPS_INIT, 1, 2));
    // Local write access does not apply to queue pairs.
    assert_eq!(c.qp_access_flags, 14);
    assert_eq!((attr(&init_ud, Ud).qkey, attr(&init_ud, Ud).qp_state), (3, IBV_QPS_INIT));
    let c = attr(&rtr, Rc);
    assert_eq!((c.qp_state, c.path_mtu, c.dest_qp_num, c.rq_psn), (IBV_QPS_RTR, IBV_MTU_1024, 4, 5));
    assert_eq!((c.max_dest_rd_atomic, c.min_rnr_timer, c.ah_attr.dlid), (6, 7, 3));
    let c = attr(&rts, Rc);
    assert_eq!((c.qp_state, c.sq_psn, c.timeout), (IBV_QPS_RTS, 8, 9));
    assert_eq!((c.retry_cnt, c.rnr_retry, c.max_rd_atomic), (1, 2, 3));
    assert_eq!((attr(&rts_ud, Ud).qp_state, attr(&rts_ud, Ud).sq_psn), (IBV_QPS_RTS, 8));
    assert_eq!(attr(&ModifyQp::RtrUd, Ud).qp_state, IBV_QPS_RTR);
    assert_eq!(attr(&ModifyQp::Err, Rc).qp_state, IBV_QPS_ERR);
    assert_eq!(attr(&ModifyQp::Reset, Rc).qp_state, IBV_QPS_RESET);
}

#[test]
fn paths_are_given_where_the_table_of_steps_has_them() {
    use QpKindOf::{Rc, Ud, XrcIni, XrcTgt};
    let alt = AltPath { ah: AhAttr { port: 2, dlid: 11, ..AH }, pkey_index: 12, timeout: 13 };
    let rearm = Some(PathMigState::Rearm);
    let both = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
    for kind in [Rc, XrcIni, XrcTgt] {
        let mask = |what: ModifyQp| step(&what, kind).expect("a step").1;
        let given = |with: ModifyQp, plain: ModifyQp| mask(with) & !mask(plain);
        let rtr = ModifyQp::Rtr(ToRtr { alt: Some(alt), ..RTR });
        assert_eq!(given(rtr, ModifyQp::Rtr(RTR)), IBV_QP_ALT_PATH);
        let rts = ModifyQp::Rts(ToRts { alt: Some(alt), path_mig_state: rearm, ..RTS });
        assert_eq!(given(rts, ModifyQp::Rts(RTS)), both);
        for (alt, path_mig_state, more) in [
            (Some(alt), rearm, both),
            (Some(alt), None, IBV_QP_ALT_PATH),
            (None, rearm, IBV_QP_PATH_MIG_STATE),
        ] {
            assert_eq!(mask(ModifyQp::Paths { alt, path_mig_state }), IBV_QP_STATE | more);
        }
        for what in [rtr, rts, ModifyQp::Paths { alt: Some(alt), path_mig_state: rearm }] {
            let c = step(&what, kind).expect("a step").0;
            assert_eq!((c.alt_ah_attr.dlid, c.alt_ah_attr.port_num, c.alt_port_num), (11, 2, 2));
            assert_eq!((c.alt_ah_attr.grh.dgid.raw, c.alt_ah_attr.is_global), ([6; 16], 1));
            assert_eq!((c.alt_pkey_index, c.alt_timeout), (12, 13));
        }
    }
    // Datagrams have no alternate path.
    let paths = ModifyQp::Paths { alt: Some(alt), path_mig_state: rearm };
    assert!(step(&paths, Ud).is_none());
    let c = step(&paths, Rc).expect("a step").0;
    assert_eq!((c.qp_state, c.path_mig_state), (IBV_QPS_RTS, IBV_MIG_REARM));
    for (code, state) in [
        (IBV_MIG_MIGRATED, PathMigState::Migrated),
        (IBV_MIG_REARM, PathMigState::Rearm),
        (IBV_MIG_ARMED, PathMigState::Armed),
    ] {
        assert_eq!((PathMigState::of_code(code), state as u32), (Some(state), code));
    }
    assert_eq!(PathMigState::of_code(3), None);
}

#[test]
fn states_and_sizes_go_both_ways() {
    let states = [
        (IBV_QPS_RESET, QpState::Reset),
        (IBV_QPS_INIT, QpState::Init),
        (IBV_QPS_RTR, QpState::Rtr),
        (IBV_QPS_RTS, QpState::Rts),
        (IBV_QPS_SQD, QpState::Sqd),
        (IBV_QPS_SQE, QpState::Sqe),
        (IBV_QPS_ERR, QpState::Err),
    ];
    for (code, expected) in states {
        assert_eq!(state(code), Some(expected));
    }
    assert_eq!(state(7), None);
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 2, max_send_sge: 3, max_recv_sge: 4, max_inline: 5 };
    let c = size(&cap);
    assert_eq!((c.max_send_wr, c.max_recv_wr, c.max_inline_data), (1, 2, 5));
    assert_eq!((c.max_send_sge, c.max_recv_sge), (3, 4));
    assert_eq!(given(&c), cap);
}

#[test]
fn ports_are_read_by_the_header() {
    let attr = ibv_port_attr {
        state: IBV_PORT_ACTIVE,
        max_mtu: IBV_MTU_4096,
        active_mtu: IBV_MTU_1024,
        gid_tbl_len: 16,
        pkey_tbl_len: 2,
        lid: 3,
        max_msg_sz: 1 << 30,
        active_width: 2,
        active_speed: 32,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        ..Default::default()
    };
    let expected = PortAttr {
        state: PortState::Active,
        max_mtu: Mtu::B4096,
        active_mtu: Mtu::B1024,
        lid: 3,
        link_layer: LinkLayer::Ethernet,
        gid_table_len: 16,
        pkey_table_len: 2,
        max_msg_size: 1 << 30,
        speed: 100_000,
    };
    assert_eq!(port(&attr), expected);
    let states = [
        (IBV_PORT_NOP, PortState::Nop),
        (IBV_PORT_DOWN, PortState::Down),
        (IBV_PORT_INIT, PortState::Init),
        (IBV_PORT_ARMED, PortState::Armed),
        (IBV_PORT_ACTIVE_DEFER, PortState::ActiveDefer),
        (4711, PortState::Nop),
    ];
    for (state, expected) in states {
        assert_eq!(port(&ibv_port_attr { state, ..attr }).state, expected);
    }
    // Unknown codes do not make a port unusable.
    let odd = port(&ibv_port_attr { max_mtu: 7, active_mtu: 0, active_width: 3, link_layer: 9, ..attr });
    assert_eq!((odd.max_mtu, odd.active_mtu, odd.speed), (Mtu::B4096, Mtu::B256, 0));
    assert_eq!(odd.link_layer, LinkLayer::Unspecified);
}

#[test]
fn limits_of_a_device_are_not_confused() {
    // SAFETY: zeros are valid in it.
    let mut attr: ibv_device_attr = unsafe { core::mem::zeroed() };
    attr.node_guid = 0x0102_0304_0506_0708_u64.to_be();
    (attr.phys_port_cnt, attr.max_mr_size, attr.max_qp, attr.max_qp_wr) = (2, 1 << 40, 3, 4);
    (attr.max_sge, attr.max_sge_rd, attr.max_cq, attr.max_cqe, attr.max_mr) = (5, 6, 7, 8, 9);
    (attr.max_ah, attr.max_srq, attr.max_srq_wr, attr.max_srq_sge) = (10, 11, 12, 13);
    (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom) = (14, 1000);
    (attr.atomic_cap, attr.device_cap_flags) = (IBV_ATOMIC_HCA, IBV_DEVICE_XRC | IBV_DEVICE_AUTO_PATH_MIG);
    let expected = DeviceAttr {
        node_guid: 0x0102_0304_0506_0708,
        ports: 2,
        max_qp: 3,
        max_qp_wr: 4,
        max_sge: 5,
        max_sge_rd: 6,
        max_cq: 7,
        max_cqe: 8,
        max_mr: 9,
        max_mr_size: 1 << 40,
        max_ah: 10,
        max_srq: 11,
        max_srq_wr: 12,
        max_srq_sge: 13,
        max_qp_rd_atom: 14,
        max_qp_init_rd_atom: 255,
        atomics: AtomicCap::Device,
        path_migration: true,
        xrc_claimed: true,
    };
    assert_eq!(device(&attr), expected);
    (attr.atomic_cap, attr.device_cap_flags, attr.max_ah) =
        (IBV_ATOMIC_NONE, !(IBV_DEVICE_XRC | IBV_DEVICE_AUTO_PATH_MIG), -1);
    let other = device(&attr);
    assert_eq!((other.atomics, other.xrc_claimed, other.max_ah), (AtomicCap::None, false, 0));
    assert!(!other.path_migration);
    for (code, expected) in [(IBV_ATOMIC_GLOB, AtomicCap::Global), (7, AtomicCap::None)] {
        attr.atomic_cap = code;
        assert_eq!(device(&attr).atomics, expected, "{code}");
    }
}

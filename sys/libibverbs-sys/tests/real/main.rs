//! Tests the real stack through these bindings, on the machine's first RDMA device, whose port has
//! an IPv4 address.
//!
//! The virtual machine of `cargo xtask vm-test` has such a device; elsewhere these tests are
//! ignored.

#![allow(unsafe_code)]

mod processes;
mod side;

use netmod_libibverbs_sys::attr::*;
use netmod_libibverbs_sys::call::*;
use netmod_libibverbs_sys::consts::*;
use netmod_libibverbs_sys::object::*;
use netmod_libibverbs_sys::sysfs;
use netmod_libibverbs_sys::work::*;
use side::*;

/// Returns two connected sides.
fn pair(device: &Device) -> (Side<'_>, Side<'_>) {
    let (a, b) = (Side::new(device, IBV_QPT_RC), Side::new(device, IBV_QPT_RC));
    a.connect(&b.address(), PATIENT);
    b.connect(&a.address(), PATIENT);
    (a, b)
}

/// Returns bytes that differ by position and seed.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 7 + (i >> 8)) % 251) as u8).collect()
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_device_says_what_it_is() {
    let device = Device::open();
    let (library, limits) = (&device.library, &device.attr.orig_attr);
    println!(
        "{}: {} queue pairs, {} shared receive queues, {} reads under way, flags {:#x}",
        device.name, limits.max_qp, limits.max_srq, limits.max_qp_rd_atom, limits.device_cap_flags
    );
    assert!(limits.max_qp > 0 && limits.max_srq > 0 && limits.max_mr > 0 && limits.max_qp_rd_atom > 0);
    let mut old: ibv_device_attr_ex = device.attr;
    // SAFETY: the context is live, and results have room.
    unsafe {
        old.orig_attr = core::mem::zeroed();
        assert_eq!((library.ibv_query_device)(device.context, &raw mut old.orig_attr), 0);
        assert_eq!(
            (old.orig_attr.max_qp, old.orig_attr.phys_port_cnt),
            (limits.max_qp, limits.phys_port_cnt)
        );
        let mut key = 0;
        assert_eq!((library.ibv_query_pkey)(device.context, PORT, 0, &raw mut key), 0);
        assert_eq!(u16::from_be(key), 0xffff);
        // All three calls give the same type for each GID.
        let mut types = Vec::new();
        for index in 0..device.port.gid_tbl_len as u32 {
            let (mut gid, mut entry) = (ibv_gid::default(), ibv_gid_entry::default());
            if library.query_gid_ex(device.context, PORT, index, &raw mut entry) != 0 {
                continue;
            }
            assert_eq!((library.ibv_query_gid)(device.context, PORT, index as i32, &raw mut gid), 0);
            assert_eq!((entry.gid, entry.gid_index, entry.port_num), (gid, index, PORT.into()));
            let from_sysfs =
                sysfs::gid_type(&device.folder, PORT, index, device.port.link_layer).expect("a type");
            assert_eq!(from_sysfs, entry.gid_type, "GID {index}");
            types.push(from_sysfs);
        }
        assert!(types.contains(&IBV_GID_TYPE_ROCE_V2) && types.len() < device.port.gid_tbl_len as usize);
    }
    assert_eq!((device.port.state, device.port.link_layer), (IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET));
    assert!(library.port_state(device.port.state).to_lowercase().contains("active"));
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn messages_go_inline_and_with_immediate_data_into_a_shared_receive_queue() {
    let device = Device::open();
    let (a, b) = pair(&device);
    b.receive(0..4);
    // Sent from memory that is not registered and is freed at once.
    let short = pattern(INLINE, 1);
    let gone = short.clone();
    a.post(IBV_WR_SEND, IBV_SEND_INLINE, SEND_AT, INLINE, |wr| {
        // SAFETY: the element is the caller's, who lends it.
        unsafe {
            *wr.sg_list = ibv_sge { addr: gone.as_ptr().addr() as u64, length: INLINE as u32, lkey: 0 }
        };
    });
    drop(gone);
    let long = pattern(SLOT, 2);
    a.put(0, &long);
    a.post(IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, 0, SLOT, |wr| wr.imm_data = 0xdead_beef_u32.to_be());
    let first = b.done(IBV_WC_RECV);
    assert_eq!((first.byte_len as usize, first.wc_flags & IBV_WC_WITH_IMM), (INLINE, 0));
    assert_eq!(b.get(SLOTS_AT + first.wr_id as usize * SLOT, INLINE), short);
    let second = b.done(IBV_WC_RECV);
    assert_eq!((second.byte_len as usize, second.wc_flags & IBV_WC_WITH_IMM), (SLOT, IBV_WC_WITH_IMM));
    assert_eq!(u32::from_be(second.imm_data), 0xdead_beef);
    assert_eq!(b.get(SLOTS_AT + second.wr_id as usize * SLOT, SLOT), long);
    assert_eq!([first.wr_id, second.wr_id], [0, 1]);
    // SAFETY: the queue pair is live.
    assert_eq!(second.qp_num, unsafe { (*b.qp).qp_num });
    // Only one of the two sends has requested a completion.
    assert_eq!(a.done(IBV_WC_SEND).wr_id, 100 + u64::from(IBV_WR_SEND_WITH_IMM));
    assert!(a.is_quiet() && b.is_quiet());
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_mebibyte_is_written_and_read_and_a_number_is_added_to() {
    let device = Device::open();
    let (a, b) = pair(&device);
    let to = b.address();
    let bytes = pattern(DATA, 3);
    a.put(0, &bytes);
    a.post(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, DATA, |wr| {
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr, to.rkey);
    });
    a.done(IBV_WC_RDMA_WRITE);
    assert_eq!(b.get(0, DATA), bytes);
    // Immediate data uses a receive, but not its memory.
    b.receive(0..1);
    a.put(0, &pattern(100, 4));
    a.post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 100, |wr| {
        wr.imm_data = 17_u32.to_be();
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr + 1000, to.rkey);
    });
    let received = b.done(IBV_WC_RECV_RDMA_WITH_IMM);
    assert_eq!((u32::from_be(received.imm_data), received.byte_len), (17, 100));
    assert_eq!(b.get(1000, 100), pattern(100, 4));
    assert_eq!(b.get(SLOTS_AT, SLOT), vec![0; SLOT]);

    let bytes = pattern(DATA, 5);
    b.put(0, &bytes);
    a.post(IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, DATA, |wr| {
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr, to.rkey);
    });
    a.done(IBV_WC_RDMA_READ);
    assert_eq!(a.get(0, DATA), bytes);

    b.put(NUMBER_AT, &4711_u64.to_ne_bytes());
    let atomic = |opcode, compare_add, swap, expected: u64| {
        a.post(opcode, IBV_SEND_SIGNALED | IBV_SEND_FENCE, NUMBER_AT, 8, |wr| {
            wr.wr.atomic =
                ibv_wr_atomic { remote_addr: to.addr + NUMBER_AT as u64, compare_add, swap, rkey: to.rkey };
        });
        a.done(if opcode == IBV_WR_ATOMIC_FETCH_AND_ADD { IBV_WC_FETCH_ADD } else { IBV_WC_COMP_SWAP });
        assert_eq!(a.get(NUMBER_AT, 8), 4711_u64.to_ne_bytes());
        assert_eq!(b.get(NUMBER_AT, 8), expected.to_ne_bytes());
    };
    assert!(device.attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE);
    atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 289, 0, 5000);
    b.put(NUMBER_AT, &4711_u64.to_ne_bytes());
    atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 4711, 3, 3);
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_shared_receive_queue_tells_once_that_it_runs_low() {
    let device = Device::open();
    let (a, b) = pair(&device);
    let library = &device.library;
    b.receive(0..4);
    let mut attr = ibv_srq_attr { srq_limit: 3, ..Default::default() };
    // SAFETY: the queue is live, and records are valid.
    let limit = || unsafe {
        let mut attr = ibv_srq_attr::default();
        assert_eq!((library.ibv_query_srq)(b.srq, &raw mut attr), 0);
        assert!(attr.max_wr >= SLOTS as u32);
        attr.srq_limit
    };
    // SAFETY: as above.
    assert_eq!(unsafe { (library.ibv_modify_srq)(b.srq, &raw mut attr, IBV_SRQ_LIMIT) }, 0);
    assert_eq!(limit(), 3);
    for _ in 0..3 {
        a.post(IBV_WR_SEND, IBV_SEND_INLINE, SEND_AT, 8, |_| ());
    }
    for _ in 0..3 {
        b.done(IBV_WC_RECV);
    }
    let event = device.event();
    assert_eq!(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED, "{}", library.event(event.event_type));
    // SAFETY: events of this type have a shared receive queue.
    assert_eq!(unsafe { event.element.srq }, b.srq);
    device.ack(event);
    assert_eq!(limit(), 0);
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_write_without_leave_fails_and_flushes_what_follows() {
    let device = Device::open();
    let (a, b) = pair(&device);
    let to = b.address();
    let before = b.get(0, 64);
    a.put(0, &[9; 64]);
    for (opcode, rkey) in [(IBV_WR_RDMA_WRITE, to.rkey ^ 0x00f0_0f0f), (IBV_WR_RDMA_WRITE, to.rkey)] {
        a.post(opcode, IBV_SEND_SIGNALED, 0, 64, |wr| {
            (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr, rkey);
        });
    }
    let statuses = [a.next().status, a.next().status];
    assert_eq!(statuses, [IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR]);
    assert!(device.library.status(statuses[0]).contains("access"));
    assert_eq!((a.state(), b.get(0, 64)), (IBV_QPS_ERR, before));
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_message_that_meets_no_receive_fails_when_patience_ends() {
    let device = Device::open();
    let (a, b) = (Side::new(&device, IBV_QPT_RC), Side::new(&device, IBV_QPT_RC));
    a.connect(&b.address(), Patience { rnr_retry: 2, ..PATIENT });
    b.connect(&a.address(), PATIENT);
    a.post(IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 8, |_| ());
    assert_eq!(a.next().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_message_waits_for_its_receive_if_it_has_patience() {
    let device = Device::open();
    let (a, b) = pair(&device);
    a.post(IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 8, |_| ());
    assert!(a.is_quiet() && b.is_quiet());
    b.receive(5..6);
    assert_eq!(b.done(IBV_WC_RECV).wr_id, 5);
    a.done(IBV_WC_SEND);
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn datagrams_find_their_way_by_an_address_handle() {
    let device = Device::open();
    let (a, b) = (Side::new(&device, IBV_QPT_UD), Side::new(&device, IBV_QPT_UD));
    for side in [&a, &b] {
        side.modify(ibv_qp_attr { qp_state: IBV_QPS_RTR, ..Default::default() }, IBV_QP_STATE);
        side.modify(
            ibv_qp_attr { qp_state: IBV_QPS_RTS, ..Default::default() },
            IBV_QP_STATE | IBV_QP_SQ_PSN,
        );
    }
    b.receive(0..1);
    let to = b.address();
    let mut route = a.route(&to);
    // SAFETY: domain and record are live.
    let ah = unsafe { (device.library.ibv_create_ah)(a.pd, &raw mut route) };
    assert!(!ah.is_null(), "{}", errno());
    a.put(SEND_AT, &pattern(40, 6));
    a.post(IBV_WR_SEND, IBV_SEND_SIGNALED, SEND_AT, 40, |wr| {
        wr.wr.ud = ibv_wr_ud { ah, remote_qpn: to.qpn, remote_qkey: QKEY };
    });
    let wc = b.done(IBV_WC_RECV);
    let header = size_of::<ibv_grh>();
    assert_eq!((wc.byte_len as usize, wc.src_qp), (header + 40, a.address().qpn));
    assert_eq!(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
    assert_eq!(b.get(SLOTS_AT + header, 40), pattern(40, 6));
    a.done(IBV_WC_SEND);
    // SAFETY: the handle is live, and nothing uses it any more.
    assert_eq!(unsafe { (device.library.ibv_destroy_ah)(ah) }, 0);
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_completion_queue_grows() {
    let device = Device::open();
    let side = Side::new(&device, IBV_QPT_RC);
    // SAFETY: the queue is live.
    let (done, holds) = unsafe { ((device.library.ibv_resize_cq)(side.cq, 1000), (*side.cq).cqe) };
    assert!(done == 0 && holds >= 1000, "{done}, {holds}");
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_port_that_goes_down_and_up_is_reported() {
    const INTERFACE: &str = "dummy0";
    let device = Device::open();
    let index = std::fs::read_to_string(format!("/sys/class/net/{INTERFACE}/ifindex")).unwrap_or_default();
    if index.trim().parse() != Ok(device.gid.ndev_ifindex) {
        // Only the virtual machine's own interface may be taken down.
        println!("the device's port is not that of {INTERFACE}, which the virtual machine has");
        return;
    }
    for (state, expected) in [("down", IBV_EVENT_PORT_ERR), ("up", IBV_EVENT_PORT_ACTIVE)] {
        let set = std::process::Command::new("/usr/bin/ip").args(["link", "set", INTERFACE, state]).status();
        assert!(set.is_ok_and(|s| s.success()));
        loop {
            let event = device.event();
            device.ack(event);
            // GIDs change with the interface's addresses.
            if event.event_type == IBV_EVENT_GID_CHANGE {
                continue;
            }
            assert_eq!(event.event_type, expected, "{}", device.library.event(event.event_type));
            // SAFETY: events of this type have a port.
            assert_eq!(unsafe { event.element.port_num }, PORT.into());
            break;
        }
    }
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn xrc_is_there_or_refused_in_each_call() {
    let device = Device::open();
    let side = Side::new(&device, IBV_QPT_RC);
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        fd: -1,
        oflags: libc::O_CREAT,
    };
    // SAFETY: objects and records are live; each object is destroyed once.
    unsafe {
        let opened = ibv_open_xrcd(device.context, &raw mut attr);
        println!("ibv_open_xrcd: {opened:?}, capability bit: {}", {
            device.attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC != 0
        });
        if let Ok(domain) = opened {
            assert!(!device.name.starts_with("rxe"), "rxe has no XRC");
            assert_eq!((*domain).context, device.context);
            assert_eq!(ibv_close_xrcd(domain), 0);
            return;
        }
        assert_eq!(opened, Err(libc::EOPNOTSUPP));
        // Without a domain the other calls cannot succeed, whatever the driver supports; they must
        // not crash either.
        let mut number = 0;
        assert_ne!(ibv_get_srq_num(side.srq, &raw mut number), 0);
        let mut attr = ibv_qp_open_attr {
            comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            qp_num: 1,
            xrcd: core::ptr::null_mut::<ibv_xrcd>(),
            qp_context: core::ptr::null_mut(),
            qp_type: IBV_QPT_XRC_RECV,
        };
        assert!(ibv_open_qp(device.context, &raw mut attr).is_err());
        let mut attr: ibv_qp_init_attr_ex = core::mem::zeroed();
        (attr.send_cq, attr.recv_cq, attr.qp_type) = (side.cq, side.cq, IBV_QPT_XRC_SEND);
        (attr.comp_mask, attr.pd) = (IBV_QP_INIT_ATTR_PD, side.pd);
        (attr.cap.max_send_wr, attr.cap.max_send_sge) = (1, 1);
        assert!(ibv_create_qp_ex(device.context, &raw mut attr).is_err());
    }
}

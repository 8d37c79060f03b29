//! Test helpers: processes with a completion queue and registered memory, joined by queue pairs.

#![allow(dead_code, unsafe_code)]

use core::time::Duration;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use hca::{
    Access, AhAttr, AsyncEvent, Completion, Cq, Data, Hca, ModifyQp, Mr, Mtu, Piece, Qp, QpCap, QpInit,
    QpKind, QpKindOf, QpNum, RecvWr, SendFlags, SendOp, SendWr, Sge, SrqNum, Status, To, ToRtr, ToRts,
};
use netmod_core::Time;
use netmod_sim_hca::{
    DeviceId, DeviceSettings, Fabric, Faults, Settings, SimAh, SimCq, SimHca, SimMr, SimQp, SimSrq,
};

/// Length of each process's memory in bytes.
pub const MEMORY: usize = 64 << 10;

/// Memory at a fixed address.
pub struct Block {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: the block is memory that the value owns.
unsafe impl Send for Block {}

impl Block {
    pub fn new(len: usize) -> Block {
        let layout = Layout::from_size_align(len, 4096).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        Block { base, layout }
    }

    pub fn base(&self) -> *mut u8 {
        self.base
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.layout.size());
        // SAFETY: within the block; tests access no memory of requests in flight, except on
        // purpose, and everything is in one thread or behind the fabric's lock.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
    }

    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.layout.size());
        let mut bytes = vec![0; len];
        // SAFETY: as for `write`.
        unsafe { core::ptr::copy_nonoverlapping(self.base.add(at), bytes.as_mut_ptr(), len) };
        bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// A process. Its objects are dropped before its memory is freed.
pub struct Node {
    pub mr: SimMr,
    pub cq: SimCq,
    pub hca: SimHca,
    pub mem: Block,
}

pub fn register(hca: &SimHca, mem: &Block, access: Access) -> Result<SimMr, hca::Error> {
    // SAFETY: the caller keeps the block longer than the registration.
    unsafe { hca.register(mem.base(), mem.layout.size(), access) }
}

impl Node {
    pub fn new(fabric: &Fabric, device: DeviceId) -> Node {
        let hca = fabric.open(device).unwrap();
        let mem = Block::new(MEMORY);
        let mr = register(&hca, &mem, Access::ALL).unwrap();
        let cq = hca.create_cq(256, 7, None).unwrap();
        Node { mr, cq, hca, mem }
    }

    pub fn rc(&self, cap: QpCap, srq: Option<&SimSrq>) -> SimQp {
        let kind = QpKind::Rc { send_cq: &self.cq, recv_cq: &self.cq, srq };
        self.hca.create_qp(&QpInit { kind, cap, signal_all: false }).unwrap()
    }

    pub fn sge(&self, at: usize, len: usize) -> Sge {
        self.mr.sge(at, len as u32)
    }

    /// Posts a receive.
    pub fn recv(&self, qp: &SimQp, wr_id: u64, at: usize, len: usize) {
        qp.post_recv(&[RecvWr { wr_id, sges: &[self.sge(at, len)] }]).unwrap();
    }

    /// Takes all completions.
    pub fn poll(&self) -> Vec<Completion> {
        poll(&self.cq)
    }

    /// Takes all completions, and returns requests and statuses.
    pub fn statuses(&self) -> Vec<(u64, Status)> {
        self.poll().iter().map(|c| (c.wr_id, c.status)).collect()
    }

    pub fn events(&self) -> Vec<AsyncEvent> {
        core::iter::from_fn(|| self.hca.async_event().unwrap()).collect()
    }

    pub fn addr(&self, at: usize) -> u64 {
        self.mr.addr() + at as u64
    }
}

pub fn poll(cq: &SimCq) -> Vec<Completion> {
    let mut all = Vec::new();
    let mut room = [Completion::EMPTY; 3];
    while let n @ 1.. = cq.poll(&mut room).unwrap() {
        all.extend_from_slice(&room[..n]);
    }
    all
}

pub const CAP: QpCap =
    QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 4, max_recv_sge: 4, max_inline: 64 };

/// Makes a send with a completion.
pub fn send(wr_id: u64, op: SendOp, sges: &[Sge]) -> SendWr<'_, SimAh> {
    SendWr { wr_id, op, data: Data::Registered(sges), flags: SendFlags::SIGNALED, to: To::Peer }
}

/// Makes a send without a completion.
pub fn quiet(wr_id: u64, op: SendOp, sges: &[Sge]) -> SendWr<'_, SimAh> {
    SendWr { flags: SendFlags::NONE, ..send(wr_id, op, sges) }
}

/// Makes a send of inline data with a completion.
pub fn inline<'a>(wr_id: u64, op: SendOp, pieces: &'a [Piece<'a>]) -> SendWr<'a, SimAh> {
    SendWr { wr_id, op, data: Data::Inline(pieces), flags: SendFlags::SIGNALED, to: To::Peer }
}

/// Returns the route to an InfiniBand port.
pub fn route(to: &SimHca) -> AhAttr {
    let lid = to.port(1).unwrap().lid;
    AhAttr { port: 1, dlid: lid, sl: 0, src_path_bits: 0, grh: None }
}

pub fn init() -> ModifyQp {
    ModifyQp::Init { port: 1, pkey_index: 0, access: Access::ALL }
}

pub fn rtr(to: &SimHca, dest_qp: QpNum, rq_psn: u32) -> ToRtr {
    let (max_dest_rd_atomic, min_rnr_timer) = (4, 1);
    ToRtr {
        path_mtu: Mtu::B1024,
        dest_qp,
        rq_psn,
        max_dest_rd_atomic,
        min_rnr_timer,
        ah: route(to),
        alt: None,
    }
}

pub fn rts(sq_psn: u32) -> ToRts {
    let (alt, path_mig_state) = (None, None);
    ToRts { sq_psn, timeout: 5, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4, alt, path_mig_state }
}

/// Connects a queue pair, up to ready to send.
pub fn connect(qp: &SimQp, to: &SimHca, dest: QpNum, rq_psn: u32, sending: ToRts) {
    qp.modify(&init()).unwrap();
    qp.modify(&ModifyQp::Rtr(rtr(to, dest, rq_psn))).unwrap();
    qp.modify(&ModifyQp::Rts(sending)).unwrap();
}

/// Two processes on two devices, connected with each other.
pub struct Pair {
    pub fabric: Fabric,
    pub devices: [DeviceId; 2],
    pub qa: SimQp,
    pub qb: SimQp,
    pub a: Node,
    pub b: Node,
}

impl Pair {
    pub fn new(seed: u64) -> Pair {
        Pair::with(Settings { seed, ..Settings::default() }, rts(0x00ff_fffe), CAP)
    }

    pub fn with(settings: Settings, sending: ToRts, cap: QpCap) -> Pair {
        let fabric = Fabric::new(settings);
        let devices = ["sim_a", "sim_b"].map(|name| fabric.device(DeviceSettings::new(name)));
        let [a, b] = devices.map(|device| Node::new(&fabric, device));
        let (qa, qb) = (a.rc(cap, None), b.rc(cap, None));
        let back = ToRts { sq_psn: 5, ..sending };
        connect(&qa, &b.hca, qb.number(), back.sq_psn, sending);
        connect(&qb, &a.hca, qa.number(), sending.sq_psn, back);
        Pair { fabric, devices, qa, qb, a, b }
    }

    /// Lets everything happen within ten seconds; returns true if nothing is left.
    pub fn settle(&self) -> bool {
        settle(&self.fabric)
    }

    pub fn faults(&self, faults: Faults) {
        self.fabric.set_faults(faults);
    }

    /// Checks that there are no violations or leaks.
    pub fn clean(self) {
        let fabric = self.fabric.clone();
        assert_eq!(fabric.violations(), Vec::<String>::new());
        drop(self);
        assert_eq!(fabric.violations(), Vec::<String>::new());
        assert_eq!(fabric.leaks(), Default::default());
    }

    /// Checks that there is exactly one violation, containing these words.
    pub fn punished(&self, words: &str) {
        let found = self.fabric.violations();
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
    }
}

pub fn settle(fabric: &Fabric) -> bool {
    fabric.settle(fabric.now() + Duration::from_secs(10))
}

pub fn after(fabric: &Fabric, wait: Duration) {
    fabric.advance(fabric.now() + wait);
}

pub fn at(time: Time) -> u64 {
    time.0
}

/// Makes an XRC request to a shared receive queue.
pub fn to_srq<'a>(wr: SendWr<'a, SimAh>, srq: SrqNum) -> SendWr<'a, SimAh> {
    SendWr { to: To::Srq(srq), ..wr }
}

pub fn is_tgt(qp: &SimQp) -> bool {
    qp.kind() == QpKindOf::XrcTgt
}

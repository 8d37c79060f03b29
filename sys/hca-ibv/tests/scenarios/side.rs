//! One side of a connection: a device opened separately, with memory, queues and a queue pair.

use core::cell::RefCell;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::os::fd::{AsRawFd, BorrowedFd};

use hca::{
    Access, AhAttr, Channel, Completed, Completion, Cq, Data, GlobalRoute, Hca, LinkLayer, ModifyQp, Mr, Qp,
    QpCap, QpInit, QpKind, QpNum, RecvWr, SendFlags, SendOp, SendWr, Sge, Srq, SrqAttr, Status, To, ToRtr,
    ToRts,
};

/// An environment that scenarios run in.
pub trait World {
    type H: Hca;

    /// Opens the device once more, as another process would.
    fn open(&self) -> Self::H;

    /// Waits until a descriptor is readable.
    fn wait(&self, fd: BorrowedFd<'_>, what: &str);

    /// Takes the port's link down or up. Returns false if this world cannot do that.
    fn set_port(&self, up: bool) -> bool;

    /// Lets time pass.
    fn pass(&self, time: core::time::Duration);

    /// Runs `work` while a previously forked child lives.
    fn beside_a_child(&self, work: impl FnOnce()) {
        work();
    }

    /// Returns the device's count of messages that found no receive, if it has one.
    fn not_ready(&self) -> Option<u64> {
        None
    }
}

/// Returns true if a descriptor is readable, or becomes so within `patience` ms.
pub fn readable(fd: BorrowedFd<'_>, patience: i32) -> bool {
    let mut wanted = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one record, which is valid.
    let ready = unsafe { libc::poll(&raw mut wanted, 1, patience) };
    assert!(ready >= 0, "{}", std::io::Error::last_os_error());
    ready == 1
}

pub const PORT: u8 = 1;
pub const QKEY: u32 = 0x1234_5678;
const PSN: u32 = 0x00ff_fff0;
/// Maximum length of inline data, in bytes.
pub const INLINE: usize = 64;

/// Length of a receive slot in bytes. A side's memory has the slots first, then data.
pub const SLOT: usize = 4096;
pub const SLOTS: usize = 64;
pub const DATA_AT: usize = SLOT * SLOTS;
pub const DATA: usize = 256 << 10;
pub const ALL: usize = DATA_AT + DATA;

/// Memory that is lent to a device.
pub struct Block(*mut u8);

impl Block {
    fn layout() -> Layout {
        Layout::from_size_align(ALL, 4096).expect("a layout")
    }

    pub fn new() -> Block {
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Block::layout()) };
        assert!(!base.is_null());
        Block(base)
    }

    /// Registers all of it.
    pub fn register<H: Hca>(&self, hca: &H, access: Access) -> H::Mr {
        // SAFETY: scenarios drop registrations before the block, and access only bytes that no
        // outstanding request uses.
        unsafe { hca.register(self.0, ALL, access) }.expect("registration")
    }

    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= ALL);
        // SAFETY: within the block, and no outstanding request uses these bytes.
        unsafe { self.0.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    pub fn get(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= ALL);
        let mut bytes = vec![0; len];
        // SAFETY: as above.
        unsafe { self.0.add(at).copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and registrations are dropped before.
        unsafe { dealloc(self.0, Block::layout()) }
    }
}

/// One side of a connection. The memory is the last field, so it is dropped last.
pub struct Side<'w, W: World> {
    pub qp: <W::H as Hca>::Qp,
    pub srq: <W::H as Hca>::Srq,
    pub cq: <W::H as Hca>::Cq,
    pub channel: <W::H as Hca>::Channel,
    pub mr: <W::H as Hca>::Mr,
    pub hca: W::H,
    pub mem: Block,
    pub world: &'w W,
    /// Completions that arrived before the expected ones.
    early: RefCell<Vec<Completion>>,
}

pub type Wr<'a, W> = SendWr<'a, <<W as World>::H as Hca>::Ah>;

impl<'w, W: World> Side<'w, W> {
    pub fn new(world: &'w W, datagrams: bool) -> Side<'w, W> {
        let hca = world.open();
        let mem = Block::new();
        let mr = mem.register(&hca, Access::ALL);
        let channel = hca.create_channel().expect("a channel");
        let cq = hca.create_cq(256, 1, Some(&channel)).expect("a completion queue");
        assert!(cq.entries() >= 256);
        let srq = hca.create_srq(SrqAttr { max_wr: SLOTS as u32, max_sge: 1 }, 2).expect("a receive queue");
        assert!(srq.max_wr() >= SLOTS as u32 && srq.number().is_none());
        let kind = match datagrams {
            true => QpKind::Ud { send_cq: &cq, recv_cq: &cq, srq: Some(&srq) },
            false => QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: Some(&srq) },
        };
        let qp = queue_pair(&hca, kind);
        assert!(
            qp.cap().max_send_wr >= 64 && qp.cap().max_inline >= INLINE as u32 && qp.kind() == kind.kind()
        );
        Side { qp, srq, cq, channel, mr, hca, mem, world, early: RefCell::default() }
    }

    /// Returns the route to the other side.
    pub fn route(&self, to: &Side<'_, W>) -> AhAttr {
        route(&to.hca)
    }

    /// Posts slots to the shared receive queue, as one list.
    pub fn receive(&self, slots: core::ops::Range<usize>) {
        let pieces: Vec<Sge> = slots.clone().map(|slot| self.mr.sge(slot * SLOT, SLOT as u32)).collect();
        let list: Vec<RecvWr<'_>> = slots
            .zip(&pieces)
            .map(|(slot, piece)| RecvWr { wr_id: slot as u64, sges: core::slice::from_ref(piece) })
            .collect();
        self.srq.post_recv(&list).expect("there is room");
    }

    /// Returns a part of the data area.
    pub fn data(&self, at: usize, len: usize) -> [Sge; 1] {
        [self.mr.sge(DATA_AT + at, len as u32)]
    }

    /// Returns address and key of the data, for the other side.
    pub fn remote(&self, at: usize) -> (u64, u32) {
        (self.mr.addr() + (DATA_AT + at) as u64, self.mr.rkey())
    }

    pub fn post(&self, list: &[Wr<'_, W>]) {
        self.qp.post_send(list).expect("there is room");
    }

    pub fn poll(&self) -> Option<Completion> {
        let mut room = [Completion::EMPTY];
        let got = self.cq.poll(&mut room).expect("the device works");
        (got == 1).then_some(room[0])
    }

    /// Returns the next completion; waits on the channel.
    pub fn next(&self) -> Completion {
        loop {
            if let Some(found) = self.poll() {
                return found;
            }
            self.cq.arm(false).expect("the device works");
            // Completions from before the arming cause no event.
            if let Some(found) = self.poll() {
                return found;
            }
            self.world.wait(self.channel.fd(), "a completion");
            assert!(self.channel.drain().expect("the channel works") > 0);
        }
    }

    /// Returns the next completion of this operation, which must be successful. Sends and receives
    /// complete in any order.
    #[track_caller]
    pub fn done(&self, op: Completed) -> Completion {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(|c| c.op == op) {
            return early.remove(at);
        }
        loop {
            let found = self.next();
            assert_eq!(found.status, Status::Success, "{found:?}");
            if found.op == op {
                return found;
            }
            early.push(found);
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.early.borrow().is_empty() && self.poll().is_none()
    }
}

pub fn queue_pair<H: Hca>(hca: &H, kind: QpKind<'_, H>) -> H::Qp {
    let cap = QpCap {
        max_send_wr: 64,
        max_recv_wr: 0,
        max_send_sge: 2,
        max_recv_sge: 0,
        max_inline: INLINE as u32,
    };
    hca.create_qp(&QpInit { kind, cap, signal_all: false }).expect("a queue pair")
}

/// Returns the route to a device's port.
pub fn route<H: Hca>(to: &H) -> AhAttr {
    let port = to.port(PORT).expect("a port");
    let here = AhAttr { port: PORT, dlid: port.lid, sl: 0, src_path_bits: 0, grh: None };
    if port.link_layer != LinkLayer::Ethernet {
        return here;
    }
    let gids = to.gids(PORT).expect("a table");
    let ours = gids.iter().find(|entry| entry.gid.0[..10] == [0; 10]).expect("the port has an IPv4 address");
    let grh = GlobalRoute {
        dgid: ours.gid,
        sgid_index: ours.index,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    AhAttr { grh: Some(grh), ..here }
}

pub const INIT: ModifyQp = ModifyQp::Init { port: PORT, pkey_index: 0, access: Access::ALL };

/// Connects a queue pair with another, up to ready to send.
pub fn connect<Q: Qp>(qp: &Q, hca: &impl Hca, to: QpNum) {
    qp.modify(&INIT).expect("init");
    ready(qp, hca, to);
}

/// Connects a queue pair that is in the init state already.
pub fn ready<Q: Qp>(qp: &Q, hca: &impl Hca, to: QpNum) {
    let path_mtu = hca.port(PORT).expect("a port").active_mtu;
    let ah = route(hca);
    let (dest_qp, rq_psn, max_dest_rd_atomic, min_rnr_timer) = (to, PSN, 4, 1);
    let rtr = ToRtr { path_mtu, dest_qp, rq_psn, max_dest_rd_atomic, min_rnr_timer, ah, alt: None };
    qp.modify(&ModifyQp::Rtr(rtr)).expect("ready to receive");
    // Long timeouts: 4.096 us times 2 to the power of 18, seven times.
    let (alt, path_mig_state) = (None, None);
    let rts =
        ToRts { sq_psn: PSN, timeout: 18, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4, alt, path_mig_state };
    qp.modify(&ModifyQp::Rts(rts)).expect("ready to send");
}

/// Returns two connected sides.
pub fn pair<W: World>(world: &W) -> (Side<'_, W>, Side<'_, W>) {
    let (a, b) = (Side::new(world, false), Side::new(world, false));
    connect(&a.qp, &a.hca, b.qp.number());
    connect(&b.qp, &b.hca, a.qp.number());
    (a, b)
}

/// Returns a request with a completion.
pub fn wr<'a, Ah>(wr_id: u64, op: SendOp, data: Data<'a>) -> SendWr<'a, Ah> {
    SendWr { wr_id, op, data, flags: SendFlags::SIGNALED, to: To::Peer }
}

/// Returns bytes that differ by position and seed.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 7 + (i >> 8)) % 251) as u8).collect()
}

//! A device, and one side of a connection on it.

use core::ffi::{CStr, c_int, c_void};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::path::PathBuf;

use netmod_libibverbs_sys::Library;
use netmod_libibverbs_sys::attr::*;
use netmod_libibverbs_sys::call::*;
use netmod_libibverbs_sys::consts::*;
use netmod_libibverbs_sys::object::*;
use netmod_libibverbs_sys::work::*;

/// Length of the data area in bytes. A side's memory has data, receive slots, a send area and a
/// number.
pub const DATA: usize = 1 << 20;
pub const SLOT: usize = 4096;
pub const SLOTS: usize = 16;
pub const SLOTS_AT: usize = DATA;
pub const SEND_AT: usize = SLOTS_AT + SLOTS * SLOT;
pub const NUMBER_AT: usize = SEND_AT + SLOT;
const ALL: usize = NUMBER_AT + SLOT;
/// Maximum length of inline data, in bytes.
pub const INLINE: usize = 64;
/// Timeout of a wait in ms. An emulated machine on a busy host is slow.
const PATIENCE: c_int = 60_000;

/// Returns the error of the last call that returned null.
pub fn errno() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// An opened device with an active port.
pub struct Device {
    pub library: Library,
    pub context: *mut ibv_context,
    pub name: String,
    pub folder: PathBuf,
    pub attr: ibv_device_attr_ex,
    pub port: ibv_port_attr,
    pub gid: ibv_gid_entry,
}

pub const PORT: u8 = 1;

impl Device {
    pub fn open() -> Device {
        let library = Library::load(None).unwrap_or_else(|e| panic!("{e}"));
        let mut count = 0;
        // SAFETY: records are valid, the list is freed once, and names are C strings.
        unsafe {
            assert_eq!((library.ibv_fork_init)(), 0);
            let list = (library.ibv_get_device_list)(&raw mut count);
            assert!(
                !list.is_null() && count > 0,
                "there is no RDMA device here (cargo xtask vm-test has one)"
            );
            let device = list.read();
            let text = |text| CStr::from_ptr(text).to_str().expect("ASCII").to_owned();
            let name = text((library.ibv_get_device_name)(device));
            let folder = text((&raw const (*device).ibdev_path).cast());
            assert_eq!(text((&raw const (*device).name).cast()), name);
            let guid = (library.ibv_get_device_guid)(device);
            let context = (library.ibv_open_device)(device);
            assert!(!context.is_null(), "{name}: {}", errno());
            assert_eq!((*context).device, device);
            (library.ibv_free_device_list)(list);
            let mut attr: ibv_device_attr_ex = core::mem::zeroed();
            assert_eq!(library.query_device_ex(context, &raw mut attr), 0);
            assert_eq!(attr.orig_attr.node_guid, guid);
            let mut port = ibv_port_attr::default();
            assert_eq!(library.query_port(context, PORT, &raw mut port), 0);
            let gid = (0..port.gid_tbl_len as u32).find_map(|index| {
                let mut entry = ibv_gid_entry::default();
                let done = library.query_gid_ex(context, PORT, index, &raw mut entry);
                (done == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.gid.raw[..10] == [0; 10])
                    .then_some(entry)
            });
            let gid = gid.expect("the port has an IPv4 address");
            Device { library, context, name, folder: folder.into(), attr, port, gid }
        }
    }

    /// Returns the next asynchronous event.
    pub fn event(&self) -> ibv_async_event {
        // SAFETY: the context is live, the event has room, and zeros are valid in it.
        unsafe {
            readable((*self.context).async_fd, "an asynchronous event");
            let mut event: ibv_async_event = core::mem::zeroed();
            assert_eq!((self.library.ibv_get_async_event)(self.context, &raw mut event), 0);
            event
        }
    }

    pub fn ack(&self, mut event: ibv_async_event) {
        // SAFETY: the event came from the library, and is acknowledged once.
        unsafe { (self.library.ibv_ack_async_event)(&raw mut event) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the context is live, and closed once.
        let closed = unsafe { (self.library.ibv_close_device)(self.context) };
        assert!(closed == 0 || std::thread::panicking(), "close: {closed}");
    }
}

/// Waits until a descriptor is readable.
fn readable(fd: c_int, what: &str) {
    let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one record, which is valid.
    let ready = unsafe { libc::poll(&raw mut wanted, 1, PATIENCE) };
    assert_eq!(ready, 1, "{what} did not come within {} s: {}", PATIENCE / 1000, errno());
}

/// Connection data of one side, for the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub qpn: u32,
    pub psn: u32,
    pub gid: ibv_gid,
    pub addr: u64,
    pub rkey: u32,
}

/// Timeouts and retries of a queue pair.
#[derive(Clone, Copy)]
pub struct Patience {
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}

/// Practically no timeout: 4.096 us times 2 to the power of 18, seven times.
pub const PATIENT: Patience = Patience { timeout: 18, retry_cnt: 7, rnr_retry: 7 };

/// One side: domain, memory, completion queue with its channel, shared receive queue and queue
/// pair.
pub struct Side<'a> {
    pub device: &'a Device,
    pub pd: *mut ibv_pd,
    pub channel: *mut ibv_comp_channel,
    pub cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub qp: *mut ibv_qp,
    pub mr: *mut ibv_mr,
    memory: *mut u8,
    psn: u32,
    /// Completions that arrived before the expected ones.
    early: RefCell<Vec<ibv_wc>>,
}

impl<'a> Side<'a> {
    pub fn new(device: &'a Device, qp_type: u32) -> Side<'a> {
        let library = &device.library;
        let layout = Layout::from_size_align(ALL, 4096).expect("a layout");
        // SAFETY: all objects were just made and are live; records are valid; the memory outlives
        // its registration.
        unsafe {
            let memory = alloc_zeroed(layout);
            assert!(!memory.is_null());
            let pd = (library.ibv_alloc_pd)(device.context);
            assert!(!pd.is_null(), "domain: {}", errno());
            let access = IBV_ACCESS_LOCAL_WRITE
                | IBV_ACCESS_REMOTE_WRITE
                | IBV_ACCESS_REMOTE_READ
                | IBV_ACCESS_REMOTE_ATOMIC
                | IBV_ACCESS_RELAXED_ORDERING;
            let mr = library.reg_mr(pd, memory.cast(), ALL, access);
            assert!(!mr.is_null(), "register: {}", errno());
            assert_eq!(((*mr).pd, (*mr).addr, (*mr).length), (pd, memory.cast(), ALL));
            let channel = (library.ibv_create_comp_channel)(device.context);
            assert!(!channel.is_null(), "channel: {}", errno());
            let cq = (library.ibv_create_cq)(device.context, 64, core::ptr::null_mut(), channel, 0);
            assert!(!cq.is_null() && (*cq).cqe >= 64 && (*cq).channel == channel, "queue: {}", errno());
            let mut attr = ibv_srq_init_attr {
                srq_context: core::ptr::null_mut(),
                attr: ibv_srq_attr { max_wr: SLOTS as u32, max_sge: 1, srq_limit: 0 },
            };
            let srq = (library.ibv_create_srq)(pd, &raw mut attr);
            assert!(!srq.is_null(), "shared receive queue: {}", errno());
            let mut attr = ibv_qp_init_attr {
                qp_context: core::ptr::null_mut(),
                send_cq: cq,
                recv_cq: cq,
                srq,
                cap: ibv_qp_cap {
                    max_send_wr: 32,
                    max_send_sge: 1,
                    max_inline_data: INLINE as u32,
                    ..Default::default()
                },
                qp_type,
                sq_sig_all: 0,
            };
            let qp = (library.ibv_create_qp)(pd, &raw mut attr);
            assert!(!qp.is_null(), "queue pair: {}", errno());
            assert!(
                attr.cap.max_inline_data >= INLINE as u32 && (*qp).qp_type == qp_type && (*qp).srq == srq
            );
            let psn = (*qp).qp_num.wrapping_mul(4711) & 0xff_ffff;
            let side = Side { device, pd, channel, cq, srq, qp, mr, memory, psn, early: RefCell::default() };
            side.modify(
                ibv_qp_attr {
                    qp_state: IBV_QPS_INIT,
                    port_num: PORT,
                    qkey: QKEY,
                    qp_access_flags: IBV_ACCESS_REMOTE_WRITE
                        | IBV_ACCESS_REMOTE_READ
                        | IBV_ACCESS_REMOTE_ATOMIC,
                    ..Default::default()
                },
                IBV_QP_STATE
                    | IBV_QP_PKEY_INDEX
                    | IBV_QP_PORT
                    | if qp_type == IBV_QPT_UD { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS },
            );
            side
        }
    }

    pub fn modify(&self, mut attr: ibv_qp_attr, mask: c_int) {
        // SAFETY: the queue pair is live, and the record is valid.
        let done = unsafe { (self.device.library.ibv_modify_qp)(self.qp, &raw mut attr, mask) };
        assert_eq!(done, 0, "state {}", attr.qp_state);
    }

    /// Returns the queue pair's state.
    pub fn state(&self) -> u32 {
        let mut attr = ibv_qp_attr::default();
        // SAFETY: the queue pair is live, records are valid, and zeros are valid in them.
        unsafe {
            let mut init: ibv_qp_init_attr = core::mem::zeroed();
            let done =
                (self.device.library.ibv_query_qp)(self.qp, &raw mut attr, IBV_QP_STATE, &raw mut init);
            assert_eq!((done, init.srq), (0, self.srq));
        }
        attr.qp_state
    }

    pub fn address(&self) -> Address {
        // SAFETY: the objects are live.
        let (qpn, rkey) = unsafe { ((*self.qp).qp_num, (*self.mr).rkey) };
        Address { qpn, psn: self.psn, gid: self.device.gid.gid, addr: self.memory.addr() as u64, rkey }
    }

    /// Returns the route to the other side.
    pub fn route(&self, to: &Address) -> ibv_ah_attr {
        let grh = ibv_global_route {
            dgid: to.gid,
            sgid_index: self.device.gid.gid_index as u8,
            hop_limit: 64,
            ..Default::default()
        };
        ibv_ah_attr { grh, is_global: 1, port_num: PORT, ..Default::default() }
    }

    pub fn connect(&self, to: &Address, patience: Patience) {
        self.modify(
            ibv_qp_attr {
                qp_state: IBV_QPS_RTR,
                ah_attr: self.route(to),
                path_mtu: self.device.port.active_mtu.min(IBV_MTU_4096),
                dest_qp_num: to.qpn,
                rq_psn: to.psn,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 1,
                ..Default::default()
            },
            IBV_QP_STATE
                | IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        );
        let Patience { timeout, retry_cnt, rnr_retry } = patience;
        self.modify(
            ibv_qp_attr {
                qp_state: IBV_QPS_RTS,
                sq_psn: self.psn,
                max_rd_atomic: 4,
                timeout,
                retry_cnt,
                rnr_retry,
                ..Default::default()
            },
            IBV_QP_STATE
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC,
        );
        assert_eq!(self.state(), IBV_QPS_RTS);
    }

    /// Writes bytes into the memory.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= ALL);
        // SAFETY: within the memory, which nobody else accesses: no outstanding operation uses
        // these bytes.
        unsafe { self.memory.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// Reads bytes of the memory.
    pub fn get(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= ALL);
        let mut bytes = vec![0; len];
        // SAFETY: as above.
        unsafe { self.memory.add(at).copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        bytes
    }

    fn piece(&self, at: usize, len: usize) -> ibv_sge {
        // SAFETY: the registration is live.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.memory.addr() as u64 + at as u64, length: len as u32, lkey }
    }

    /// Posts slots to the shared receive queue, as one list.
    pub fn receive(&self, slots: core::ops::Range<usize>) {
        let mut pieces: Vec<ibv_sge> = slots.clone().map(|s| self.piece(SLOTS_AT + s * SLOT, SLOT)).collect();
        let mut list: Vec<ibv_recv_wr> = slots
            .zip(&mut pieces)
            .map(|(slot, piece)| ibv_recv_wr {
                wr_id: slot as u64,
                next: core::ptr::null_mut(),
                sg_list: &raw mut *piece,
                num_sge: 1,
            })
            .collect();
        let first = list.as_mut_ptr();
        for i in 1..list.len() {
            // SAFETY: both elements are in the list.
            unsafe { (*first.add(i - 1)).next = first.add(i) };
        }
        let mut bad = core::ptr::null_mut();
        // SAFETY: the list ends; the list and its elements live during the call, and the slots as
        // long as the registration.
        assert_eq!(unsafe { ibv_post_srq_recv(self.srq, first, &raw mut bad) }, 0);
    }

    /// Posts one work request. The caller fills in the operation and its destination.
    pub fn post(&self, opcode: u32, flags: u32, at: usize, len: usize, fill: impl FnOnce(&mut ibv_send_wr)) {
        let mut piece = self.piece(at, len);
        // SAFETY: zeros are valid in the record. It and its element live during the call, the
        // memory as long as the registration.
        unsafe {
            let mut wr: ibv_send_wr = core::mem::zeroed();
            (wr.wr_id, wr.opcode, wr.send_flags) = (u64::from(opcode) + 100, opcode, flags);
            (wr.sg_list, wr.num_sge) = (&raw mut piece, 1);
            fill(&mut wr);
            let mut bad = core::ptr::null_mut();
            assert_eq!(ibv_post_send(self.qp, &raw mut wr, &raw mut bad), 0);
        }
    }

    /// Returns the next completion, if there is one now.
    fn poll(&self) -> Option<ibv_wc> {
        let mut wc = ibv_wc::default();
        // SAFETY: the queue is live, and there is room for one.
        let count = unsafe { ibv_poll_cq(self.cq, 1, &raw mut wc) };
        assert!((0..=1).contains(&count), "poll: {count}");
        (count == 1).then_some(wc)
    }

    /// Returns the next completion; waits on the channel.
    pub fn next(&self) -> ibv_wc {
        loop {
            if let Some(wc) = self.poll() {
                return wc;
            }
            // SAFETY: the objects are live, records are valid, and each event is acknowledged once.
            unsafe {
                assert_eq!(ibv_req_notify_cq(self.cq, 0), 0);
                // Completions from before the arming cause no event.
                if let Some(wc) = self.poll() {
                    return wc;
                }
                readable((*self.channel).fd, "a completion");
                let (mut cq, mut context): (*mut ibv_cq, *mut c_void) =
                    (core::ptr::null_mut(), core::ptr::null_mut());
                let library = &self.device.library;
                assert_eq!((library.ibv_get_cq_event)(self.channel, &raw mut cq, &raw mut context), 0);
                assert_eq!(cq, self.cq);
                (library.ibv_ack_cq_events)(cq, 1);
            }
        }
    }

    /// Returns the next completion of this operation, which must be successful. Sends and receives
    /// complete in any order: a peer's answer may arrive before the acknowledgement of the message
    /// that it answers.
    #[track_caller]
    pub fn done(&self, opcode: u32) -> ibv_wc {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(|wc| wc.opcode == opcode) {
            return early.remove(at);
        }
        loop {
            let wc = self.next();
            assert_eq!(wc.status, IBV_WC_SUCCESS, "{}: {wc:?}", self.device.library.status(wc.status));
            if wc.opcode == opcode {
                return wc;
            }
            early.push(wc);
        }
    }

    /// Returns true if no unexpected completion has arrived.
    pub fn is_quiet(&self) -> bool {
        self.early.borrow().is_empty() && self.poll().is_none()
    }
}

/// Queue key of datagrams.
pub const QKEY: u32 = 0x1234_5678;

impl Drop for Side<'_> {
    fn drop(&mut self) {
        let library = &self.device.library;
        // SAFETY: the objects are live and destroyed once, dependent objects first.
        let ended = unsafe {
            [
                (library.ibv_destroy_qp)(self.qp),
                (library.ibv_destroy_srq)(self.srq),
                (library.ibv_destroy_cq)(self.cq),
                (library.ibv_destroy_comp_channel)(self.channel),
                (library.ibv_dereg_mr)(self.mr),
                (library.ibv_dealloc_pd)(self.pd),
            ]
        };
        if ended == [0; 6] {
            // SAFETY: it was allocated with this layout, and nothing is registered any more.
            unsafe { dealloc(self.memory, Layout::from_size_align_unchecked(ALL, 4096)) };
        } else {
            assert!(std::thread::panicking(), "ends of the objects: {ended:?}");
        }
    }
}

//! A port: an endpoint with its buffers and operations, safe to use.
//!
//! Frames go out of buffers of the port's own, or are injected; they come into receive buffers that hold many, from where they are lent
//! to the engine. A receive buffer is posted again when the provider has no more use for it and nothing in it is lent.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::collections::VecDeque;
use std::os::fd::RawFd;

use libfabric_sys::Library;
use libfabric_sys::attr::{fi_addr_t, fi_cq_data_entry, fi_info};
use libfabric_sys::consts::{FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MULTI_RECV, FI_RECV, FI_SEND};
use netmod_core::{IoVec, RxBuf, RxBytes, VcId};

use super::Refused;
use super::endpoint::{Endpoint, Traits};
use super::info::Offer;
use super::memory::Block;
use super::ops::{OpIndex, Ops};
use super::region::Registration;
use super::shared::Wish;

/// Buffers for frames that go out.
const TX_BUFFERS: usize = 128;
/// Receive buffers that take several frames.
const RX_BUFFERS: usize = 4;
/// One-sided transfers under way at once.
const TRANSFERS: usize = 256;
/// Completions that are taken in one call.
const BATCH: usize = 32;
/// Error entries that are taken in one poll: a broken provider has them without end.
const ERRORS: usize = 16;
/// How often closing looks for the completions of what was cancelled.
const REAP: usize = 10_000;

/// How large a port's buffers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Longest frame in bytes.
    pub(crate) frame: usize,
    /// Bytes of receive buffers.
    pub(crate) rx_memory: usize,
}

/// With whom a port shares its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Ports that do; 1: it has a plain endpoint of its own.
    pub(crate) contexts: usize,
    /// Only ports of the same process do.
    pub(crate) process: u32,
}

/// What an operation under way is.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A frame in a buffer of the port's.
    Send { buffer: u32, vc: VcId, to: fi_addr_t },
    /// A posted receive buffer.
    Recv { buffer: u32 },
    /// A one-sided transfer: the caller's number.
    Transfer { number: u64 },
}

/// What a poll has found.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    /// A frame came. It is lent until [`Port::release`].
    Frame {
        /// Where.
        buffer: u32,
        /// From which byte of the buffer on.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// A frame of the VC has left; its buffer is free.
    Sent {
        /// The VC.
        vc: VcId,
    },
    /// A frame of the VC has not left, and never will.
    SendFailed {
        /// The VC.
        vc: VcId,
        /// What the provider says.
        why: String,
    },
    /// A one-sided transfer has ended.
    Transfer {
        /// The caller's number.
        number: u64,
        /// What the provider says, if it failed.
        result: Result<(), String>,
    },
}

/// A receive buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Receive {
    /// The provider has it.
    posted: bool,
    /// Frames in it that are lent, or wait to be.
    lent: u32,
}

/// Counts of what should not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// Completions of no operation under way.
    pub(crate) unknown: u64,
    /// Receives that failed.
    pub(crate) receives: u64,
    /// Messages that are no frame.
    pub(crate) no_frames: u64,
}

/// See the module.
pub(crate) struct Port {
    endpoint: Endpoint,
    ops: Ops<What>,
    tx: Block,
    tx_free: Vec<u32>,
    tx_registered: Option<Registration>,
    rx: Block,
    receives: Vec<Receive>,
    rx_registered: Option<Registration>,
    /// Receive buffers that the provider would not take yet.
    unposted: usize,
    entries: Box<[fi_cq_data_entry; BATCH]>,
    /// One-sided transfers under way.
    transfers: usize,
    /// Operations that failed, to be reported.
    failures: VecDeque<Done>,
    pub(crate) oddities: Oddities,
}

// SAFETY: the pointers in `entries` are the provider's words, looked at and never followed.
unsafe impl Send for Port {}

impl core::fmt::Debug for Port {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Port")
            .field("ops", &self.ops)
            .field("oddities", &self.oddities)
            .finish_non_exhaustive()
    }
}

impl Port {
    /// Opens the domain of an info, and posts receive buffers.
    ///
    /// # Errors
    /// Which call failed and why; nothing stays open.
    ///
    /// # Safety
    /// The info is the library's, and live.
    unsafe fn open(lib: Library, info: *const fi_info, sizes: Sizes, share: Share) -> Result<Port, String> {
        let Share { contexts, process } = share;
        let wish = Wish { min_multi_recv: sizes.frame, contexts, process };
        // SAFETY: by contract.
        let endpoint = unsafe { Endpoint::open(lib, info, &wish)? };
        let traits = endpoint.traits();
        let (rx_each, rx_count) = if traits.multi_recv {
            let count = RX_BUFFERS.min(traits.rx).max(2);
            ((sizes.rx_memory / count).max(4 * sizes.frame), count)
        } else {
            (sizes.frame, (sizes.rx_memory / sizes.frame).clamp(2, traits.rx.max(2)))
        };
        let rx = Block::new(rx_each, rx_count)?;
        let tx = Block::new(sizes.frame, TX_BUFFERS)?;
        const EMPTY: fi_cq_data_entry =
            fi_cq_data_entry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0 };
        let mut port = Port {
            endpoint,
            ops: Ops::new(TX_BUFFERS + rx_count + TRANSFERS),
            tx_free: (0..TX_BUFFERS as u32).rev().collect(),
            tx,
            tx_registered: None,
            receives: vec![Receive::default(); rx_count],
            unposted: rx_count,
            rx,
            rx_registered: None,
            entries: Box::new([EMPTY; BATCH]),
            transfers: 0,
            failures: VecDeque::new(),
            oddities: Oddities::default(),
        };
        if port.traits().wants(FI_MR_LOCAL) {
            let register = |port: &Port, block: &Block, access| {
                let chosen = !port.traits().wants(FI_MR_PROV_KEY);
                let key = if chosen { port.endpoint.take_key(1..=u64::from(u8::MAX)) } else { Some(0) };
                let no_key = || Refused::Failed("no key is free for a registration".into());
                let key = key.ok_or_else(no_key)?;
                // SAFETY: the block lives as long as the port, which closes the registration first.
                unsafe { Registration::new(&port.endpoint, block.base(), block.len(), access, key) }
            };
            let all = register(&port, &port.tx, FI_SEND);
            port.tx_registered = Some(all.map_err(failure)?);
            let all = register(&port, &port.rx, FI_RECV);
            port.rx_registered = Some(all.map_err(failure)?);
        }
        port.post()?;
        Ok(port)
    }

    /// Opens the domain of an offer.
    ///
    /// # Errors
    /// Which call failed and why; nothing stays open.
    pub(crate) fn of(lib: Library, offer: &Offer, sizes: Sizes, share: Share) -> Result<Port, String> {
        // SAFETY: the offer's info is the library's, and lives as long as the offer.
        unsafe { Port::open(lib, offer.info(), sizes, share) }
    }

    /// What of the provider's attributes matters.
    pub(crate) fn traits(&self) -> &Traits {
        self.endpoint.traits()
    }

    /// The endpoint, for registrations.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Posts what is not.
    ///
    /// # Errors
    /// If the provider will not have a buffer, ever.
    fn post(&mut self) -> Result<(), String> {
        for i in 0..self.receives.len() {
            if self.unposted == 0 {
                break;
            }
            let state = self.receives[i];
            if state.posted || state.lent > 0 {
                continue;
            }
            let Some(op) = self.ops.begin(What::Recv { buffer: i as u32 }) else { break };
            let desc = self.rx_registered.as_ref().map_or(null_mut(), Registration::desc);
            let (at, len, context) = (self.rx.at(i), self.rx.each(), self.ops.context(op));
            // SAFETY: nothing in the buffer is lent, so it is the provider's until its completion; the context is the operation's.
            match unsafe { self.endpoint.recv(at, len, desc, context) } {
                Ok(()) => {
                    self.receives[i].posted = true;
                    self.unposted -= 1;
                }
                Err(refused) => {
                    self.ops.end(op);
                    match refused {
                        Refused::Again => break,
                        Refused::Failed(why) => return Err(why),
                    }
                }
            }
        }
        Ok(())
    }

    /// Most frames of one VC that may be on their way out of buffers: a peer that takes nothing must not have all that the port, or the
    /// provider, has room for.
    #[inline]
    pub(crate) fn share(&self) -> u32 {
        (self.endpoint.traits().tx.min(TX_BUFFERS) / 5).max(1) as u32
    }

    /// Whether a frame of the connections' manager may go to an address: it has little more room than what one VC may have on its way, since
    /// what is sent to a process that has died may never end, and must leave room for others.
    pub(crate) fn has_room_for(&self, to: fi_addr_t) -> bool {
        let there = |what: &What| matches!(what, What::Send { to: other, .. } if *other == to);
        let most = self.share() + self.share() / 8;
        self.ops.iter().filter(|(_, what)| there(what)).count() < most as usize
    }

    /// Longest frame that can be injected.
    #[inline]
    pub(crate) fn inject_max(&self) -> usize {
        self.endpoint.traits().inject
    }

    /// Sends a short frame at once.
    ///
    /// # Errors
    /// If it does not go.
    #[inline]
    pub(crate) fn inject(&mut self, frame: &[u8], to: fi_addr_t) -> Result<(), Refused> {
        self.endpoint.inject(frame, to)
    }

    /// Sends the first bytes of a buffer that was taken at once; it stays the caller's.
    ///
    /// # Errors
    /// If it does not go.
    #[inline]
    pub(crate) fn inject_buffer(&mut self, buffer: u32, len: usize, to: fi_addr_t) -> Result<(), Refused> {
        // SAFETY: whoever has taken the buffer has not sent it, so no operation uses it.
        let frame = unsafe { self.tx.slice_mut(buffer as usize) };
        self.endpoint.inject(&frame[..len], to)
    }

    /// A buffer for a frame, if one is free. It must be sent or given back.
    #[inline]
    pub(crate) fn take_buffer(&mut self) -> Option<u32> {
        self.tx_free.pop()
    }

    /// Gives a buffer back that was not sent.
    pub(crate) fn give_back(&mut self, buffer: u32) {
        self.tx_free.push(buffer);
    }

    /// A buffer that was taken, to be filled.
    #[inline]
    pub(crate) fn buffer(&mut self, buffer: u32) -> &mut [u8] {
        // SAFETY: whoever has taken the buffer has not sent it yet, so no operation uses it.
        unsafe { self.tx.slice_mut(buffer as usize) }
    }

    /// Sends the first bytes of a buffer that was taken; it is free after [`Done::Sent`].
    ///
    /// # Errors
    /// If it does not go; the buffer is still the caller's.
    #[inline]
    pub(crate) fn send(&mut self, buffer: u32, len: usize, to: fi_addr_t, vc: VcId) -> Result<(), Refused> {
        let Some(op) = self.ops.begin(What::Send { buffer, vc, to }) else { return Err(Refused::Again) };
        let desc = self.tx_registered.as_ref().map_or(null_mut(), Registration::desc);
        let (at, context) = (self.tx.at(buffer as usize), self.ops.context(op));
        let len = len.min(self.tx.each());
        // SAFETY: the buffer is the operation's until its completion, as is the context.
        let sent = unsafe { self.endpoint.send(at, len, desc, to, context) };
        if sent.is_err() {
            self.ops.end(op);
        }
        sent
    }

    /// Starts to read into memory that is lent until [`Done::Transfer`] with this number.
    ///
    /// # Errors
    /// If nothing was started.
    ///
    /// # Safety
    /// The memory is writable and used by nobody else until then; it is registered with `desc` where the provider demands
    /// that.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn read(
        &mut self,
        mem: IoVec,
        desc: *mut c_void,
        from: fi_addr_t,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        self.transfer(number, |endpoint, context| {
            // SAFETY: by contract; the context is the operation's.
            unsafe { endpoint.read(mem.base, mem.len, desc, from, remote, key, context) }
        })
    }

    /// Starts to write from memory that is lent until [`Done::Transfer`] with this number: then the data is in the peer's.
    ///
    /// # Errors
    /// If nothing was started.
    ///
    /// # Safety
    /// The memory is readable and unwritten until then; it is registered with `desc` where the provider demands that.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn write(
        &mut self,
        mem: IoVec,
        desc: *mut c_void,
        to: fi_addr_t,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        self.transfer(number, |endpoint, context| {
            // SAFETY: by contract; the context is the operation's.
            unsafe { endpoint.write(mem.base, mem.len, desc, to, remote, key, context) }
        })
    }

    fn transfer(
        &mut self,
        number: u64,
        start: impl FnOnce(&Endpoint, *mut c_void) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if self.transfers == TRANSFERS {
            return Err(Refused::Again);
        }
        let Some(op) = self.ops.begin(What::Transfer { number }) else { return Err(Refused::Again) };
        let started = start(&self.endpoint, self.ops.context(op));
        match started {
            Ok(()) => self.transfers += 1,
            Err(_) => drop(self.ops.end(op)),
        }
        started
    }

    /// Asks the provider to give up the transfer with this number. What it says comes as its end.
    pub(crate) fn cancel_transfer(&self, number: u64) {
        let mut all = self.ops.iter();
        let found = all.find(|(_, w)| matches!(w, What::Transfer { number: n } if *n == number));
        if let Some((op, _)) = found {
            self.endpoint.cancel(false, self.ops.context(op));
        }
    }

    /// Makes progress, and takes up to `most` completions; how many. See [`Port::completion`].
    #[inline]
    pub(crate) fn poll(&mut self, most: usize) -> usize {
        if self.unposted > 0
            && let Err(why) = self.post()
        {
            tracing::warn!(why, "a receive buffer cannot be posted");
        }
        let n = most.clamp(1, BATCH);
        match self.endpoint.poll(&mut self.entries[..n]) {
            Ok(n) => n,
            Err(_) => {
                self.errors();
                0
            }
        }
    }

    /// What one of the completions of the last [`Port::poll`] says. Each is to be asked for once.
    #[inline]
    pub(crate) fn completion(&mut self, i: usize) -> Option<Done> {
        let entry = self.entries[i];
        self.completed(&entry)
    }

    /// The next operation that was found to have failed.
    #[inline]
    pub(crate) fn next_failure(&mut self) -> Option<Done> {
        if self.failures.is_empty() { None } else { self.failures.pop_front() }
    }

    #[inline]
    fn completed(&mut self, entry: &fi_cq_data_entry) -> Option<Done> {
        let Some(op) = self.ops.find(entry.op_context) else {
            self.oddities.unknown += 1;
            return None;
        };
        match *self.ops.get(op)? {
            What::Send { buffer, vc, .. } => {
                self.ops.end(op);
                self.tx_free.push(buffer);
                Some(Done::Sent { vc })
            }
            What::Recv { buffer } => self.received(op, buffer, entry),
            What::Transfer { number } => {
                self.ops.end(op);
                self.transfers -= 1;
                Some(Done::Transfer { number, result: Ok(()) })
            }
        }
    }

    #[inline]
    fn received(&mut self, op: OpIndex, buffer: u32, entry: &fi_cq_data_entry) -> Option<Done> {
        let multi = self.endpoint.traits().multi_recv;
        let each = self.rx.each();
        let base = self.rx.at(buffer as usize) as usize;
        let at = if multi { (entry.buf as usize).wrapping_sub(base) } else { 0 };
        let inside = at.checked_add(entry.len).is_some_and(|end| end <= each);
        let is_frame = inside && entry.len >= crate::wire::FRAME_HEADER;
        if is_frame {
            self.receives[buffer as usize].lent += 1;
        } else if entry.len > 0 {
            self.oddities.no_frames += 1;
        }
        if !multi || entry.flags & FI_MULTI_RECV != 0 {
            self.retire(op, buffer);
        }
        is_frame.then_some(Done::Frame { buffer, at: at as u32, len: entry.len as u32 })
    }

    /// The provider has no more use for a receive buffer.
    fn retire(&mut self, op: OpIndex, buffer: u32) {
        self.ops.end(op);
        self.receives[buffer as usize].posted = false;
        self.unposted += 1;
    }

    #[cold]
    fn errors(&mut self) {
        for _ in 0..ERRORS {
            let Some(failed) = self.endpoint.error() else { return };
            let Some(op) = self.ops.find(failed.context) else {
                self.oddities.unknown += 1;
                tracing::debug!(why = failed.text, "libfabric reports an error of no operation under way");
                continue;
            };
            let Some(what) = self.ops.get(op).copied() else { continue };
            let failure = match what {
                What::Send { buffer, vc, .. } => {
                    self.ops.end(op);
                    self.tx_free.push(buffer);
                    Some(Done::SendFailed { vc, why: failed.text })
                }
                What::Recv { buffer } => {
                    if !failed.cancelled {
                        self.oddities.receives += 1;
                        tracing::warn!(why = failed.text, truncated = failed.truncated, "a receive failed");
                    }
                    let multi = self.endpoint.traits().multi_recv;
                    if failed.cancelled || !multi || failed.flags & FI_MULTI_RECV != 0 {
                        self.retire(op, buffer);
                    }
                    None
                }
                What::Transfer { number } => {
                    self.ops.end(op);
                    self.transfers -= 1;
                    Some(Done::Transfer { number, result: Err(failed.text) })
                }
            };
            self.failures.extend(failure);
        }
    }

    /// A frame that was reported, to be looked at.
    #[inline]
    pub(crate) fn frame(&self, buffer: u32, at: u32, len: u32) -> RxBytes<'_> {
        let (at, len) = (at as usize, len as usize);
        debug_assert!(at + len <= self.rx.each());
        // SAFETY: within the buffer, as was checked when the frame came; the provider is through with these bytes, and they stay while
        // the port is borrowed.
        unsafe {
            let first = self.rx.at(buffer as usize).add(at);
            RxBytes::from_raw(NonNull::new_unchecked(first), len)
        }
    }

    /// A part of a frame that was reported, to be lent to the engine, which gives it back by [`Port::release`].
    #[inline]
    pub(crate) fn lend(&self, buffer: u32, at: u32, len: u32, token: u64) -> RxBuf {
        let (at, len) = (at as usize, len as usize);
        debug_assert!(at + len <= self.rx.each());
        // SAFETY: as for `frame`; a buffer of which something is lent is not posted, and the port outlives what it has lent: the engine
        // gives everything back before it polls again.
        unsafe { RxBuf::new(NonNull::new_unchecked(self.rx.at(buffer as usize).add(at)), len, token) }
    }

    /// A frame of the buffer is of no use any more.
    #[inline]
    pub(crate) fn release(&mut self, buffer: u32) {
        let Some(state) = self.receives.get_mut(buffer as usize) else { return };
        state.lent = state.lent.saturating_sub(1);
        if state.lent == 0
            && !state.posted
            && let Err(why) = self.post()
        {
            tracing::warn!(why, "a receive buffer cannot be posted");
        }
    }

    /// Closes the endpoint for good: the provider lets go of all memory, and nothing is sent or received any more.
    pub(crate) fn shut(&mut self) {
        self.endpoint.shut();
    }

    /// Frames on their way out.
    pub(crate) fn sends_under_way(&self) -> usize {
        self.tx.count() - self.tx_free.len()
    }

    /// One-sided transfers under way.
    pub(crate) fn transfers_under_way(&self) -> usize {
        self.transfers
    }

    /// What to wait on, if the provider has something.
    pub(crate) fn wait_fd(&self) -> Option<RawFd> {
        self.endpoint.wait_fd()
    }

    /// Whether one may block on [`Port::wait_fd`] now.
    pub(crate) fn may_wait(&self) -> bool {
        self.endpoint.may_wait()
    }
}

fn failure(refused: Refused) -> String {
    match refused {
        Refused::Again => "fi_mr_reg: the provider is out of resources".into(),
        Refused::Failed(why) => why,
    }
}

impl Drop for Port {
    /// Cancels what is under way and waits for it, then closes registrations and endpoint in the order that the provider wants. What
    /// other engines share stays; but nothing of it has memory of this port's any more.
    fn drop(&mut self) {
        for (op, what) in self.ops.iter() {
            self.endpoint.cancel(matches!(what, What::Recv { .. }), self.ops.context(op));
        }
        for looks in 0..REAP {
            if self.ops.under_way() == 0 {
                break;
            }
            self.unposted = 0;
            for i in 0..self.poll(BATCH) {
                let _ = self.completion(i);
            }
            self.failures.clear();
            if looks > 64 {
                std::thread::yield_now();
            }
        }
        if self.ops.under_way() > 0 && !self.traits().wants(FI_MR_ENDPOINT) {
            self.endpoint.shut();
        }
        for registered in [&mut self.tx_registered, &mut self.rx_registered] {
            if let Some(Err(why)) = registered.as_mut().map(|r| r.close(&self.endpoint)) {
                tracing::warn!(?why, "libfabric does not close a registration");
            }
        }
        if self.ops.under_way() > 0 {
            self.endpoint.shut();
        }
    }
}

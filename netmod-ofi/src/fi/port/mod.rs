//! A port: an endpoint with its buffers and operations, with a safe interface.
//!
//! Outgoing frames are sent from the port's buffers, or injected. Incoming frames arrive in receive
//! buffers that hold many, and are lent to the engine from there. A receive buffer is posted again
//! when the provider has finished with it and nothing in it is lent.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::null_mut;
use std::collections::VecDeque;

use libfabric_sys::Library;
use libfabric_sys::attr::{fi_cq_data_entry, fi_info};
use libfabric_sys::consts::{FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MULTI_RECV, FI_RECV, FI_SEND};
use netmod_core::VcId;
use netmod_framed::device::{Done, Oddities, Port as _};
use netmod_framed::memory::Block;
use netmod_framed::wire::FRAME_HEADER;

use super::endpoint::Endpoint;
use super::info::Offer;
use super::ops::Ops;
use super::region::Registration;
use super::shared::DomainOptions;
use super::traits::Traits;
use crate::error::{FabricError, Refused};
use receives::Receives;

mod errors;
mod frames;
mod receives;

/// Number of buffers for outgoing frames.
const TX_BUFFERS: usize = 128;
/// Number of multi-receive buffers.
const RX_BUFFERS: usize = 4;
/// Total length of the receive buffers, in bytes.
const RX_MEMORY: usize = 4 << 20;
/// The same where the sender's and receiver's cores do all the copying. Buffers are used in turn,
/// so each message goes to the least recently used one. That buffer should still be in the
/// second-level cache, which has at least 512 KiB.
const RX_MEMORY_COPIED: usize = 256 << 10;
/// Maximum number of one-sided transfers in flight.
const TRANSFERS: usize = 256;
/// Completions taken per call.
const BATCH: usize = 32;
/// Polls for the completions of cancelled operations before a port is closed.
const REAP: usize = 10_000;

/// Parameters for opening a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Maximum frame length in bytes.
    pub(crate) frame: usize,
    /// Total length of the receive buffers in bytes; `None` for the best size for the provider.
    pub(crate) rx_memory: Option<usize>,
    /// True if there shall be a descriptor to wait on.
    pub(crate) descriptor: bool,
}

/// Sharing of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Number of ports that share it; 1 for a plain endpoint.
    pub(crate) contexts: usize,
    /// Identifies the process; only ports of the same process share an endpoint.
    pub(crate) process: u32,
}

/// An operation in flight other than a receive.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A frame in one of the port's buffers.
    Send { buffer: u32, vc: VcId, to: u64 },
    /// A one-sided transfer, with the caller's number.
    Transfer { number: u64 },
}

/// An endpoint with its buffers and operations.
pub struct Port {
    endpoint: Endpoint,
    ops: Ops<What>,
    tx: Block,
    tx_free: Vec<u32>,
    tx_registered: Option<Registration>,
    rx: Block,
    receives: Receives,
    rx_registered: Option<Registration>,
    /// True since the provider has refused a receive buffer, until it takes one; limits the
    /// warnings to one.
    refused_warned: bool,
    entries: Box<[fi_cq_data_entry; BATCH]>,
    /// Number of one-sided transfers in flight.
    transfers: usize,
    /// Start of the search for a short key.
    next_key: u64,
    /// Number of receives that have failed without identification.
    nameless: usize,
    /// While receives are being counted: the maximum number of missing ones, and the number of
    /// polls left.
    stock: Option<(usize, u32)>,
    /// Failed operations to be reported.
    failures: VecDeque<Done>,
    oddities: Oddities,
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
    /// The call that failed, and its cause; nothing stays open.
    ///
    /// # Safety
    /// The info is the library's, and live.
    unsafe fn open(
        lib: Library,
        info: *const fi_info,
        options: Options,
        share: Share,
    ) -> Result<Port, FabricError> {
        let Share { contexts, process } = share;
        let Options { frame, rx_memory, descriptor } = options;
        let options = DomainOptions { frame, contexts, descriptor, process };
        // SAFETY: by contract.
        let endpoint = unsafe { Endpoint::open(lib, info, &options)? };
        let traits = endpoint.traits();
        let frame = traits.frame(frame);
        let rx_memory = rx_memory.unwrap_or(if traits.shares_lines { RX_MEMORY_COPIED } else { RX_MEMORY });
        let (rx_each, rx_count) = if traits.multi_recv {
            let count = RX_BUFFERS.min(traits.rx).max(2);
            ((rx_memory / count).max(4 * frame), count)
        } else {
            (frame, (rx_memory / frame).clamp(2, traits.rx.max(2)))
        };
        let rx = Block::new(rx_each, rx_count)?;
        let tx = Block::new(frame, TX_BUFFERS)?;
        const EMPTY: fi_cq_data_entry =
            fi_cq_data_entry { op_context: null_mut(), flags: 0, len: 0, buf: null_mut(), data: 0 };
        let mut port = Port {
            endpoint,
            ops: Ops::new(TX_BUFFERS + TRANSFERS),
            tx_free: (0..TX_BUFFERS as u32).rev().collect(),
            tx,
            tx_registered: None,
            receives: Receives::new(rx_count),
            refused_warned: false,
            rx,
            rx_registered: None,
            entries: Box::new([EMPTY; BATCH]),
            transfers: 0,
            next_key: 0,
            nameless: 0,
            stock: None,
            failures: VecDeque::new(),
            oddities: Oddities::default(),
        };
        if port.traits().wants(FI_MR_LOCAL) {
            let register = |port: &Port, block: &Block, access| {
                let chosen = !port.traits().wants(FI_MR_PROV_KEY);
                let key = if chosen { port.endpoint.take_key(1..=u64::from(u8::MAX)) } else { Some(0) };
                let key = key.ok_or(Refused::Failed(FabricError::NoKey))?;
                // SAFETY: the block lives as long as the port, which closes the registration first.
                unsafe { Registration::new(&port.endpoint, block.base(), block.bytes(), access, key) }
            };
            let all = register(&port, &port.tx, FI_SEND);
            port.tx_registered = Some(all.map_err(|refused| FabricError::of("fi_mr_reg", refused))?);
            let all = register(&port, &port.rx, FI_RECV);
            port.rx_registered = Some(all.map_err(|refused| FabricError::of("fi_mr_reg", refused))?);
        }
        port.post()?;
        Ok(port)
    }

    /// Opens the domain of an offer.
    ///
    /// # Errors
    /// The call that failed, and its cause; nothing stays open.
    pub(crate) fn of(
        lib: Library,
        offer: &Offer,
        options: Options,
        share: Share,
    ) -> Result<Port, FabricError> {
        // SAFETY: the offer's info is the library's, and lives as long as the offer.
        unsafe { Port::open(lib, offer.info(), options, share) }
    }

    /// Returns the maximum frame length.
    pub(crate) fn longest_frame(&self) -> usize {
        self.tx.each()
    }

    /// Returns the provider's properties.
    pub(crate) fn traits(&self) -> &Traits {
        self.endpoint.traits()
    }

    /// Returns the endpoint, for registrations.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Posts idle receive buffers.
    ///
    /// # Errors
    /// If the provider refuses a buffer permanently.
    fn post(&mut self) -> Result<(), FabricError> {
        let desc = self.rx_registered.as_ref().map_or(null_mut(), Registration::desc);
        while let Some(buffer) = self.receives.idle() {
            let (at, len, context) =
                (self.rx.at(buffer as usize), self.rx.each(), self.receives.context(buffer));
            // SAFETY: nothing in the buffer is lent, so the provider owns it until its completion,
            // and its context, too.
            match unsafe { self.endpoint.recv(at, len, desc, context) } {
                Ok(takes) => {
                    self.receives.posted(takes);
                    self.refused_warned = false;
                }
                Err(Refused::Again) => break,
                Err(Refused::Failed(why)) => return Err(why),
            }
        }
        Ok(())
    }

    /// Posts idle receive buffers as [`Port::post`] does, but only warns about errors.
    #[cold]
    #[inline(never)]
    fn post_again(&mut self) {
        if let Err(why) = self.post()
            && !std::mem::replace(&mut self.refused_warned, true)
        {
            tracing::warn!(%why, "a receive buffer cannot be posted; each poll retries");
        }
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

    #[inline(always)]
    fn completed(&mut self, entry: &fi_cq_data_entry) -> Option<Done> {
        match self.receives.find(entry.op_context) {
            Some(buffer) => self.received(buffer, entry),
            None => self.ended(entry),
        }
    }

    /// Handles the completion of an operation other than a receive.
    #[inline]
    fn ended(&mut self, entry: &fi_cq_data_entry) -> Option<Done> {
        let Some(op) = self.ops.find(entry.op_context) else {
            self.oddities.unknown += 1;
            return None;
        };
        match self.ops.end(op)? {
            What::Send { buffer, vc, .. } => {
                self.tx_free.push(buffer);
                Some(Done::Sent { vc })
            }
            What::Transfer { number } => {
                self.transfers -= 1;
                Some(Done::Transfer { number })
            }
        }
    }

    #[inline(always)]
    fn received(&mut self, buffer: u32, entry: &fi_cq_data_entry) -> Option<Done> {
        let mut at = 0;
        let mut is_last = true;
        if self.endpoint.traits().multi_recv && !self.receives.is_alone(buffer) {
            at = (entry.buf as usize).wrapping_sub(self.rx.at(buffer as usize) as usize);
            is_last = entry.flags & FI_MULTI_RECV != 0;
        }
        let inside = at.checked_add(entry.len).is_some_and(|end| end <= self.rx.each());
        let is_frame = inside && entry.len >= FRAME_HEADER;
        if !is_frame && entry.len > 0 {
            self.oddities.no_frames += 1;
        }
        self.receives.came(buffer, is_frame, is_last);
        is_frame.then_some(Done::Frame { buffer, at: at as u32, len: entry.len as u32 })
    }
}

impl Port {
    /// Returns true if the provider has any of this port's operations.
    fn is_under_way(&self) -> bool {
        self.ops.under_way() > 0 || self.receives.under_way().next().is_some()
    }

    /// Takes completions.
    #[inline]
    fn look(&mut self, most: usize) -> usize {
        match self.endpoint.poll(&mut self.entries[..most.clamp(1, BATCH)]) {
            Ok(n) => n,
            Err(_) => {
                self.errors();
                0
            }
        }
    }

    /// Cancels the operations in flight and waits for them. Operations that do not end are ended by
    /// closing the endpoint, unless the provider requires registrations to be closed first.
    pub(super) fn give_up(&mut self) {
        for (op, _) in self.ops.iter() {
            self.endpoint.cancel(false, self.ops.context(op));
        }
        for buffer in self.receives.under_way() {
            self.endpoint.cancel(true, self.receives.context(buffer));
        }
        for looks in 0..REAP {
            if !self.is_under_way() {
                return;
            }
            for i in 0..self.look(BATCH) {
                let _ = self.completion(i);
            }
            self.failures.clear();
            if looks > 64 {
                std::thread::yield_now();
            }
        }
        if !self.traits().wants(FI_MR_ENDPOINT) {
            self.endpoint.shut();
        }
    }
}

impl Drop for Port {
    /// Closes registrations and endpoint in the order that the provider requires, after all
    /// operations have ended. Objects shared with other engines stay, without any memory of this
    /// port.
    fn drop(&mut self) {
        self.give_up();
        for registered in [&mut self.tx_registered, &mut self.rx_registered] {
            if let Some(Err(why)) = registered.as_mut().map(|r| r.close(&self.endpoint)) {
                tracing::warn!(?why, "libfabric does not close a registration");
            }
        }
        if self.is_under_way() {
            self.endpoint.shut();
        }
    }
}

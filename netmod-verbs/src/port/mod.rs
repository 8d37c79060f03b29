//! An opened port of a device: queues, buffers and connections, with a safe interface.
//!
//! All connections of a port share one receive queue and one completion queue. A received frame
//! uses a whole buffer of the receive queue. Buffers are posted again in batches, or at once when
//! the device reports that few are left. Handshakes are datagrams, sent through a queue pair with
//! its own buffers.
//!
//! The completion queue has room for everything that is posted: requests beyond that are refused
//! before they are posted, so the queue never overruns.

#![allow(unsafe_code)]

mod completions;
mod control;
pub(crate) mod datagrams;
mod endpoint;
mod frames;
mod health;
mod join;
mod receives;
mod repost;
pub(crate) mod send_qp;
mod shared;
mod site;
mod targets;
mod xrc_state;

use core::fmt;
use std::collections::VecDeque;

use hca::{Access, AsyncEvent, Completion, Cq as _, Error, Hca, Mr as _, SrqAttr, XrcdOpen, errno};
use netmod_core::{PeerName, VcId};
use netmod_framed::device::{Done, Oddities, ResetFrame};
use netmod_framed::memory::Block;

use crate::domain::{Member, path_of};
use crate::error::{PortError, Refused};
use crate::resources::{completions, fixed_completions, receive_buffers, receives_beside};
use crate::sizes::{DEPTH, TX_BUFFERS};
use crate::wire::PortLocation;
use datagrams::Datagrams;
use endpoint::{Endpoints, Results};
use receives::Receives;
use site::{Health, Site, Xrc};

/// Completions taken per call.
const BATCH: usize = 32;
/// Polls between checks for asynchronous events.
const EVENTS_EVERY: u32 = 256;

/// Parameters for opening a port.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of the device's port, from 1 on.
    pub port: u8,
    /// Index of the source GID in the port's table.
    pub gid_index: u8,
    /// Index of the partition key in the port's table.
    pub pkey_index: u16,
    /// Maximum frame length in bytes.
    pub frame: usize,
    /// Total length of receive buffers in bytes.
    pub rx_memory: usize,
    /// This process's name in the job, if the job's XRC domain is to be used.
    pub xrc: Option<PeerName>,
}

/// Contents of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Inline bytes.
    Inline,
    /// A frame in one of the port's buffers.
    Send { buffer: u32, vc: VcId },
    /// A one-sided transfer, with the caller's number.
    Transfer { number: u64 },
}

/// Subject of a completion, encoded in the 64-bit identifier of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A receive of the shared queue, into this buffer.
    Receive(u32),
    /// A receive of a datagram, into this buffer.
    Datagram(u32),
    /// A sent datagram.
    Sent(u32),
    /// A request of a send QP: slot of the QP, and number of the request.
    SendQp(u32, u32),
    /// A receive of the reliable connections' queue beside XRC's.
    Plain(u32),
}

impl Of {
    #[inline]
    fn wr_id(self) -> u64 {
        let (kind, slot, number) = match self {
            Of::Receive(buffer) => (1, 0, buffer),
            Of::Datagram(buffer) => (2, 0, buffer),
            Of::Sent(buffer) => (3, 0, buffer),
            Of::SendQp(slot, number) => (4, slot, number),
            Of::Plain(buffer) => (5, 0, buffer),
        };
        kind << 56 | u64::from(slot) << 32 | u64::from(number)
    }

    #[inline]
    fn parse(wr_id: u64) -> Option<Of> {
        let (slot, number) = ((wr_id >> 32) as u32 & 0x00ff_ffff, wr_id as u32);
        Some(match wr_id >> 56 {
            1 => Of::Receive(number),
            2 => Of::Datagram(number),
            3 => Of::Sent(number),
            4 => Of::SendQp(slot, number),
            5 => Of::Plain(number),
            _ => return None,
        })
    }
}

/// Owner of a datagram.
#[derive(Debug)]
struct Owner {
    vc: VcId,
    /// The last frame of a connection.
    reset: Option<Box<ResetFrame>>,
}

/// The buffers of outgoing frames.
struct SendBuffers {
    /// Their memory; `None` when the port is being dropped.
    block: Option<Block>,
    /// Unused buffers.
    free: Vec<u32>,
    /// Number of buffers reserved for control messages.
    reserved: usize,
    /// Owners of datagrams, by buffer.
    owners: Vec<Owner>,
}

impl SendBuffers {
    fn new(block: Block, reserved: usize) -> SendBuffers {
        SendBuffers {
            block: Some(block),
            free: (0..TX_BUFFERS as u32).rev().collect(),
            reserved,
            owners: (0..TX_BUFFERS).map(|_| Owner { vc: VcId::from_wire(0), reset: None }).collect(),
        }
    }
}

/// The device's registrations of a port's own memory.
struct Registered<H: Hca> {
    tx: Option<H::Mr>,
    rx: Option<H::Mr>,
    datagrams: Option<H::Mr>,
    plain: Option<H::Mr>,
}

/// An opened port. Fields are in order of destruction: objects before the memory that they use.
pub struct Port<H: Hca> {
    endpoints: Endpoints<H>,
    datagrams: Datagrams<H>,
    /// Receive queue of XRC if that is in use, else of reliable connections.
    receives: Receives<H>,
    /// Receive queue of reliable connections beside XRC, once there is one.
    plain: Option<Receives<H>>,
    registered: Registered<H>,
    site: Site<H>,
    tx: SendBuffers,
    entries: Box<[Completion; BATCH]>,
    /// Completions that were already taken.
    ahead: usize,
    polls: u32,
    found: VecDeque<Done>,
    oddities: Oddities,
    /// Reason why XRC is not used although it was requested.
    without: Option<String>,
    /// Reason why the device is unusable.
    dead: Option<Box<str>>,
}

impl<H: Hca> fmt::Debug for Port<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("device", &self.site.hca.name())
            .field("options", &self.site.options)
            .field("endpoints", &self.endpoints)
            .field("oddities", &self.oddities)
            .finish_non_exhaustive()
    }
}

fn refused(e: &Error) -> Refused {
    if e.errno == errno::EAGAIN { Refused::Again } else { Refused::Failed(e.clone().into()) }
}

/// Opens the XRC domain of a job on this node. Only this shows whether a device has XRC.
fn open_domain<H: Hca>(hca: &H, me: PeerName, port: u8) -> Result<Xrc<H>, PortError> {
    let member = Member::join(path_of(me, hca.name(), port))?;
    let xrcd = hca.open_xrcd(XrcdOpen::Shared(member.fd()))?;
    Ok(Xrc { xrcd, member })
}

impl<H: Hca> Port<H> {
    /// Opens a port of a device.
    ///
    /// # Errors
    /// The part that cannot be opened, and its cause.
    pub fn open(hca: H, options: Options) -> Result<Port<H>, PortError> {
        let attr = hca.port(options.port)?;
        let gid = hca.gids(options.port)?;
        let gid = gid.into_iter().find(|g| g.index == options.gid_index);
        let gid = gid.ok_or_else(|| PortError::NoGid {
            port: format!("{}:{}", hca.name(), options.port),
            index: options.gid_index,
        })?;
        let ethernet = attr.link_layer == hca::LinkLayer::Ethernet;
        let location = PortLocation { ethernet, lid: attr.lid, gid: gid.gid };
        let health = Health { kind: gid.kind, gid_gone: false };
        let device = *hca.device();

        let count = receive_buffers(options.rx_memory, options.frame, device.max_srq_wr);
        let rx = Block::new(options.frame, count)?;
        let tx = Block::new(options.frame, TX_BUFFERS)?;
        let mut datagrams = Datagrams::<H>::memory(attr.active_mtu)?;

        let channel = hca.create_channel()?;
        // Reserves room for the receives of reliable connections beside XRC.
        let receives = count as u32 + options.xrc.map_or(0, |_| receives_beside(count) as u32);
        let fixed = fixed_completions(receives);
        let cq = hca.create_cq(completions(receives, device.max_cqe), 0, Some(&channel))?;
        let room = cq.entries().saturating_sub(fixed);
        if room < DEPTH {
            return Err(PortError::FewCompletions {
                device: hca.name().to_owned(),
                entries: cq.entries(),
                receives: count,
                fixed,
            });
        }
        let attr_of_srq = SrqAttr { max_wr: count as u32, max_sge: 1 };
        let shared = options.xrc.map(|me| {
            let xrc = open_domain(&hca, me, options.port)?;
            let srq = hca.create_xrc_srq(attr_of_srq, 0, &xrc.xrcd, &cq)?;
            Ok::<_, PortError>((srq, xrc))
        });
        let (srq, xrc, without) = match shared {
            Some(Ok((srq, xrc))) => (srq, Some(xrc), None),
            other => {
                let srq = hca.create_srq(attr_of_srq, 0)?;
                (srq, None, other.and_then(Result::err).map(|e| e.to_string()))
            }
        };
        let ud = datagrams.open(&hca, &cq, &options)?;
        // SAFETY: the blocks outlive their registrations: `drop` closes those first, and keeps the
        // memory where the device refuses. The device owns buffers from post to completion, which
        // is tracked.
        let mr = |block: &Block, access| unsafe { hca.register(block.base(), block.bytes(), access) };
        let tx_mr = mr(&tx, Access::READ)?;
        let rx_mr = mr(&rx, Access::LOCAL)?;
        let datagrams_mr = mr(datagrams.block(), Access::LOCAL)?;

        let datagrams = datagrams.with(ud, datagrams_mr.lkey());
        let own = datagrams.address(location, xrc.is_some());
        let reserved = if xrc.is_some() { control::RESERVED } else { 0 };
        let mut port = Port {
            endpoints: Endpoints::new(own, room),
            receives: Receives::new(srq, rx, rx_mr.lkey(), Of::Receive),
            plain: None,
            datagrams,
            registered: Registered {
                tx: Some(tx_mr),
                rx: Some(rx_mr),
                datagrams: Some(datagrams_mr),
                plain: None,
            },
            site: Site { xrc, cq, channel: Some(channel), hca, options, attr, location, health },
            tx: SendBuffers::new(tx, reserved),
            entries: Box::new([Completion::EMPTY; BATCH]),
            ahead: 0,
            polls: 0,
            found: VecDeque::new(),
            oddities: Oddities::default(),
            without,
            dead: None,
        };
        port.receives.post()?;
        port.receives.limit()?;
        port.datagrams.post()?;
        Ok(port)
    }

    /// Returns the destination of handshakes.
    #[must_use]
    pub fn address(&self) -> Box<[u8]> {
        self.endpoints.own.to_bytes()
    }

    /// Returns true if XRC is in use, false if it was not requested.
    ///
    /// # Errors
    /// The reason if it was requested and is not in use.
    pub fn xrc(&self) -> Result<bool, &str> {
        self.without.as_deref().map_or(Ok(self.site.xrc.is_some()), Err)
    }

    /// Returns the receive queue of a buffer, and the buffer's number there; `None` for a datagram
    /// buffer.
    #[inline]
    fn queue_of(&self, buffer: u32) -> Option<(&Receives<H>, u32)> {
        if buffer < self.receives.count() {
            return Some((&self.receives, buffer));
        }
        let plain = self.plain.as_ref()?;
        let at = buffer.checked_sub(self.first_plain())?;
        (at < plain.count()).then_some((plain, at))
    }

    /// Returns the first buffer of the reliable connections' receive queue beside XRC.
    fn first_plain(&self) -> u32 {
        self.receives.count() + self.datagrams.count()
    }

    /// Releases a receive buffer.
    #[inline]
    fn give_receive_back(&mut self, buffer: u32) {
        let first_plain = self.first_plain();
        match (buffer.checked_sub(self.receives.count()), &mut self.plain) {
            (None, _) => self.receives.give_back(buffer),
            (Some(_), Some(plain)) if buffer >= first_plain => plain.give_back(buffer - first_plain),
            (Some(datagram), _) => self.datagrams.give_back(datagram),
        }
    }

    /// Makes the reliable connections' receive queue beside XRC's.
    #[cold]
    fn open_plain(&mut self) -> Result<(), PortError> {
        let block = Block::new(self.receives.each(), receives_beside(self.receives.count() as usize))?;
        let attr = SrqAttr { max_wr: block.count() as u32, max_sge: 1 };
        let srq = self.site.hca.create_srq(attr, 1)?;
        // SAFETY: as of the other blocks, in `open`.
        let mr = unsafe { self.site.hca.register(block.base(), block.bytes(), Access::LOCAL) }?;
        let plain = self.plain.insert(Receives::new(srq, block, mr.lkey(), Of::Plain));
        self.registered.plain = Some(mr);
        plain.post()?;
        Ok(plain.limit()?)
    }

    /// Checks that the device is usable.
    ///
    /// # Errors
    /// If the device has failed.
    fn alive(&self) -> Result<(), Refused> {
        self.dead.clone().map_or(Ok(()), |why| Err(Refused::Failed(PortError::Broken(why))))
    }

    fn block(&mut self) -> &mut Block {
        self.tx.block.as_mut().expect("there until the port is dropped")
    }

    fn tx_lkey(&self) -> u32 {
        self.registered.tx.as_ref().map_or(0, hca::Mr::lkey)
    }

    /// Handles asynchronous events.
    #[cold]
    fn events(&mut self) {
        loop {
            match self.site.hca.async_event() {
                Ok(None) => return,
                Ok(Some(event)) => self.event(event),
                Err(e) => return self.died(&e.to_string()),
            }
        }
    }

    fn event(&mut self, event: AsyncEvent) {
        let device = self.site.hca.name().to_owned();
        match event {
            AsyncEvent::SrqLimitReached(0) => self.receives.low = true,
            AsyncEvent::SrqLimitReached(_) => self.plain.iter_mut().for_each(|plain| plain.low = true),
            AsyncEvent::QpFatal(qp) | AsyncEvent::QpRequestError(qp) | AsyncEvent::QpAccessError(qp)
                if self.datagrams.is(qp) =>
            {
                tracing::warn!(device, ?event, "the queue pair of datagrams has failed, and begins anew");
                self.datagrams.failed();
            }
            AsyncEvent::QpFatal(qp) | AsyncEvent::QpRequestError(qp) | AsyncEvent::QpAccessError(qp) => {
                let why = format!("{device}: {event:?}");
                let results = &mut Results { found: &mut self.found, free: &mut self.tx.free };
                self.endpoints.broken(qp, &why, results);
            }
            AsyncEvent::PortError(port) if port == self.site.options.port => {
                tracing::warn!(
                    device,
                    port,
                    "the port's link is gone; connections wait for it, and fail if it stays away"
                );
            }
            AsyncEvent::PortActive(port) if port == self.site.options.port => {
                tracing::info!(device, port, "the port's link is there again");
                self.look_for_gid();
            }
            AsyncEvent::GidChange(port) if port == self.site.options.port => self.look_for_gid(),
            AsyncEvent::CqError(_) => self.died("the completion queue has failed"),
            AsyncEvent::SrqError(_) => self.died("the shared receive queue has failed"),
            AsyncEvent::DeviceFatal => self.died("the device has failed, or was removed"),
            other => tracing::debug!(device, ?other, "an event of the device"),
        }
    }

    /// Fails the port because the device is unusable.
    #[cold]
    fn died(&mut self, why: &str) {
        if self.dead.is_some() {
            return;
        }
        let why = format!("{}: {why}", self.site.hca.name());
        tracing::error!(why, "a port of verbs is of no more use");
        let results = &mut Results { found: &mut self.found, free: &mut self.tx.free };
        self.endpoints.all_broken(&why, results);
        self.dead = Some(why.into());
    }
}

impl<H: Hca> Drop for Port<H> {
    /// Closes objects before the memory that they use. Memory that a device does not release is
    /// leaked.
    fn drop(&mut self) {
        self.endpoints.clear();
        self.datagrams.close();
        self.receives.close();
        self.plain.iter_mut().for_each(Receives::close);
        // A receiving QP of XRC outlives this port. Its completions are taken before the queue
        // closes: each stands for a buffer.
        while self.site.cq.poll(&mut self.entries[..]).is_ok_and(|n| n > 0) {}
        let keep = |mr: Option<H::Mr>, block: Option<Block>| {
            if let Some(Err((mr, why))) = mr.map(hca::Mr::deregister) {
                tracing::error!(%why, "a device does not let go of memory, which is lost");
                core::mem::forget((mr, block));
            }
        };
        keep(self.registered.tx.take(), self.tx.block.take());
        keep(self.registered.rx.take(), self.receives.take_memory());
        keep(self.registered.datagrams.take(), self.datagrams.take_memory());
        if let Some(plain) = &mut self.plain {
            keep(self.registered.plain.take(), plain.take_memory());
        }
    }
}

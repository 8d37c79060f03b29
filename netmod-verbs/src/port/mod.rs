//! A port of a device, opened: queues, buffers and connections, safe to use.
//!
//! All connections of a port share one receive queue and one completion queue. A frame that came takes a whole buffer of the
//! receive queue; buffers are posted again in batches, or at once when the device says that few are left. Handshakes go by
//! datagrams, through a queue pair with buffers of its own.
//!
//! The completion queue has room for everything that is posted: what does not fit is refused before it is posted, so the queue
//! never overruns.

#![allow(unsafe_code)]

mod completions;
mod datagrams;
mod end;
mod frames;
mod receives;

use core::fmt;
use std::collections::VecDeque;

use netmod_core::VcId;
use netmod_frames::device::{Done, Oddities, Refused};
use netmod_frames::memory::Block;
use netmod_hca::{
    Access, AsyncEvent, Completion, Cq as _, Error, Hca, Mr as _, Mtu, PortAttr, SrqAttr, errno,
};

use crate::resources::{completions, fixed_completions, receive_buffers};
use crate::words::Place;
use datagrams::Datagrams;
pub(crate) use datagrams::{DEPTH as DATAGRAMS, bytes as datagram_bytes};
use end::Ends;
use receives::Receives;

/// Buffers for frames that go out.
pub(crate) const TX_BUFFERS: usize = 128;
/// Requests in the send queue of a connection.
pub(crate) const DEPTH: u32 = 64;
/// Bytes that are sent inline at most, if the device can.
pub(crate) const INLINE: u32 = 256;
/// Completions that are taken in one call.
const BATCH: usize = 32;
/// Requests of all connections that may be under way, if the completion queue can have so many entries.
pub(crate) const UNDER_WAY: u32 = 4096;
/// In every so many polls asynchronous events are looked at.
const EVENTS_EVERY: u32 = 256;

/// What is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The device's port, from 1 on.
    pub port: u8,
    /// Place of the GID in the port's table that packets come from.
    pub gid_index: u8,
    /// Place of the partition key in the port's table.
    pub pkey_index: u16,
    /// Longest frame in bytes.
    pub frame: usize,
    /// Bytes of receive buffers.
    pub rx_memory: usize,
}

/// A request of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Bytes that were copied.
    Inline,
    /// A frame in a buffer of the port's.
    Send { buffer: u32, vc: VcId },
    /// A one-sided transfer: the caller's number.
    Transfer { number: u64 },
}

/// What a completion is of, in the 64 bits that are given with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A receive of the shared queue, into this buffer.
    Receive(u32),
    /// A receive of a datagram, into this buffer.
    Datagram(u32),
    /// A datagram that was sent.
    Sent(u32),
    /// A request of an end: its place, and its number.
    End(u32, u32),
}

impl Of {
    #[inline]
    fn wr_id(self) -> u64 {
        let (kind, place, number) = match self {
            Of::Receive(buffer) => (1, 0, buffer),
            Of::Datagram(buffer) => (2, 0, buffer),
            Of::Sent(buffer) => (3, 0, buffer),
            Of::End(place, number) => (4, place, number),
        };
        kind << 56 | u64::from(place) << 32 | u64::from(number)
    }

    #[inline]
    fn parse(wr_id: u64) -> Option<Of> {
        let (place, number) = ((wr_id >> 32) as u32 & 0x00ff_ffff, wr_id as u32);
        Some(match wr_id >> 56 {
            1 => Of::Receive(number),
            2 => Of::Datagram(number),
            3 => Of::Sent(number),
            4 => Of::End(place, number),
            _ => return None,
        })
    }
}

/// The device's registrations of a port's own memory.
struct Registered<H: Hca> {
    tx: Option<H::Mr>,
    rx: Option<H::Mr>,
    datagrams: Option<H::Mr>,
}

/// See the module. Objects go before the memory that they use.
pub struct Port<H: Hca> {
    ends: Ends<H>,
    datagrams: Datagrams<H>,
    receives: Receives<H>,
    cq: H::Cq,
    channel: Option<H::Channel>,
    registered: Registered<H>,
    hca: H,
    tx: Option<Block>,
    tx_free: Vec<u32>,
    /// Whose frame is in a buffer that goes as a datagram.
    owners: Vec<VcId>,
    options: Options,
    attr: PortAttr,
    place: Place,
    /// Completions that may still come, beside those of receives and datagrams, before the queue is full.
    room: u32,
    entries: Box<[Completion; BATCH]>,
    /// Completions that were taken already.
    ahead: usize,
    polls: u32,
    found: VecDeque<Done>,
    oddities: Oddities,
    /// The device is of no more use.
    dead: Option<String>,
}

impl<H: Hca> fmt::Debug for Port<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("device", &self.hca.name())
            .field("options", &self.options)
            .field("ends", &self.ends)
            .field("oddities", &self.oddities)
            .finish_non_exhaustive()
    }
}

fn text(e: &Error) -> String {
    e.to_string()
}

fn refused(e: &Error) -> Refused {
    if e.errno == errno::EAGAIN { Refused::Again } else { Refused::Failed(e.to_string()) }
}

impl<H: Hca> Port<H> {
    /// Opens a port of a device.
    ///
    /// # Errors
    /// What cannot be, and why, for people.
    pub fn open(hca: H, options: Options) -> Result<Port<H>, String> {
        let attr = hca.port(options.port).map_err(|e| text(&e))?;
        let gid = hca.gids(options.port).map_err(|e| text(&e))?;
        let gid = gid.iter().find(|g| g.index == options.gid_index).map(|g| g.gid).unwrap_or_default();
        let ethernet = attr.link_layer == netmod_hca::LinkLayer::Ethernet;
        let place = Place { ethernet, lid: attr.lid, gid };
        let device = *hca.device();

        let count = receive_buffers(options.rx_memory, options.frame, device.max_srq_wr);
        let rx = Block::new(options.frame, count)?;
        let tx = Block::new(options.frame, TX_BUFFERS)?;
        let mut datagrams = Datagrams::<H>::memory(attr.active_mtu)?;

        let channel = hca.create_channel().map_err(|e| text(&e))?;
        let fixed = fixed_completions(count as u32);
        let cq = hca
            .create_cq(completions(count as u32, device.max_cqe), 0, Some(&channel))
            .map_err(|e| text(&e))?;
        let room = cq.entries().saturating_sub(fixed);
        if room < DEPTH {
            return Err(format!(
                "{}: a completion queue has {} entries, and {} receive buffers need {fixed}; set NETMOD_VERBS_RX_MEMORY lower",
                hca.name(),
                cq.entries(),
                count
            ));
        }
        let attr_of_srq = SrqAttr { max_wr: count as u32, max_sge: 1 };
        let srq = hca.create_srq(attr_of_srq, 0).map_err(|e| text(&e))?;
        let ud = datagrams.open(&hca, &cq, &options).map_err(|e| text(&e))?;
        // SAFETY: the blocks outlive their registrations: `drop` closes those first, and keeps the memory where the device refuses. Buffers
        // are the device's from post to completion, which is kept track of.
        let mr = |block: &Block, access| unsafe { hca.register(block.base(), block.bytes(), access) };
        let tx_mr = mr(&tx, Access::READ).map_err(|e| text(&e))?;
        let rx_mr = mr(&rx, Access::LOCAL).map_err(|e| text(&e))?;
        let datagrams_mr = mr(datagrams.block(), Access::LOCAL).map_err(|e| text(&e))?;

        let mut port = Port {
            ends: Ends::default(),
            receives: Receives::new(srq, rx, rx_mr.lkey()),
            datagrams: datagrams.with(ud, datagrams_mr.lkey()),
            cq,
            channel: Some(channel),
            registered: Registered { tx: Some(tx_mr), rx: Some(rx_mr), datagrams: Some(datagrams_mr) },
            hca,
            tx: Some(tx),
            tx_free: (0..TX_BUFFERS as u32).rev().collect(),
            owners: vec![VcId::from_wire(0); TX_BUFFERS],
            options,
            attr,
            place,
            room,
            entries: Box::new([Completion::EMPTY; BATCH]),
            ahead: 0,
            polls: 0,
            found: VecDeque::new(),
            oddities: Oddities::default(),
            dead: None,
        };
        port.receives.post()?;
        port.receives.limit()?;
        port.datagrams.post()?;
        Ok(port)
    }

    /// Where handshakes are sent to.
    #[must_use]
    pub fn address(&self) -> Box<[u8]> {
        self.datagrams.address(self.place).to_bytes()
    }

    fn mtu(&self) -> Mtu {
        self.attr.active_mtu
    }

    fn way(&self, to: &Place) -> Result<netmod_hca::AhAttr, String> {
        to.way(&self.place, self.options.port, self.options.gid_index)
    }

    /// # Errors
    /// If the device has failed.
    fn alive(&self) -> Result<(), Refused> {
        self.dead.clone().map_or(Ok(()), |why| Err(Refused::Failed(why)))
    }

    fn block(&mut self) -> &mut Block {
        self.tx.as_mut().expect("there until the port is dropped")
    }

    fn tx_lkey(&self) -> u32 {
        self.registered.tx.as_ref().map_or(0, netmod_hca::Mr::lkey)
    }

    /// Looks at what the device has to say without being asked.
    #[cold]
    fn events(&mut self) {
        loop {
            match self.hca.async_event() {
                Ok(None) => return,
                Ok(Some(event)) => self.event(event),
                Err(e) => return self.died(&e.to_string()),
            }
        }
    }

    fn event(&mut self, event: AsyncEvent) {
        let device = self.hca.name();
        match event {
            AsyncEvent::SrqLimitReached(_) => self.receives.low = true,
            AsyncEvent::QpFatal(qp) | AsyncEvent::QpRequestError(qp) | AsyncEvent::QpAccessError(qp) => {
                let why = format!("{device}: {event:?}");
                self.found.extend(self.ends.broken(qp, &why));
            }
            AsyncEvent::PortError(port) if port == self.options.port => {
                tracing::warn!(
                    device,
                    port,
                    "the port's link is gone; connections wait for it, and fail if it stays away"
                );
            }
            AsyncEvent::PortActive(port) if port == self.options.port => {
                tracing::info!(device, port, "the port's link is there again");
            }
            AsyncEvent::CqError(_) => self.died("the completion queue has failed"),
            AsyncEvent::SrqError(_) => self.died("the shared receive queue has failed"),
            AsyncEvent::DeviceFatal => self.died("the device has failed, or was removed"),
            other => tracing::debug!(device, ?other, "an event of the device"),
        }
    }

    /// Nothing goes any more.
    #[cold]
    fn died(&mut self, why: &str) {
        if self.dead.is_some() {
            return;
        }
        let why = format!("{}: {why}", self.hca.name());
        tracing::error!(why, "a port of verbs is of no more use");
        self.found.extend(self.ends.all_broken(&why));
        self.dead = Some(why);
    }
}

impl<H: Hca> Drop for Port<H> {
    /// Closes what uses memory before the memory goes; what a device does not let go of is kept for ever.
    fn drop(&mut self) {
        self.ends.clear();
        self.datagrams.close();
        self.receives.close();
        let keep = |mr: Option<H::Mr>, block: Option<Block>| {
            if let Some(Err((mr, why))) = mr.map(netmod_hca::Mr::deregister) {
                tracing::error!(%why, "a device does not let go of memory, which is lost");
                core::mem::forget((mr, block));
            }
        };
        keep(self.registered.tx.take(), self.tx.take());
        keep(self.registered.rx.take(), self.receives.take_memory());
        keep(self.registered.datagrams.take(), self.datagrams.take_memory());
    }
}

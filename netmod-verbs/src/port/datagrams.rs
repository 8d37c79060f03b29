//! The datagram queue pair, which carries handshakes.
//!
//! Datagrams may be lost; handshakes are retransmitted until they are answered.
//!
//! A datagram that cannot be sent fails the whole queue pair (on some devices if the port is down,
//! or if a GID is gone). Peers know its number from this process's card, so it is not replaced. It
//! is reset once all its requests have been returned.

use core::ptr::NonNull;
use std::collections::HashMap;

use hca::{
    Data, Error, Hca, ModifyQp, Mtu, Qp as _, QpCap, QpInit, QpKind, QpNum, RecvWr, SendFlags, SendOp,
    SendWr, Sge, To,
};
use netmod_framed::memory::Block;

use super::{Of, Options};
use crate::error::{PortError, Refused};
use crate::wire::{Address, PortLocation};

/// Number of receive buffers, and capacity of the send queue.
pub(crate) const DEPTH: u32 = 64;
/// Length of the global header in front of a received datagram.
pub(super) const GRH: usize = 40;

/// Returns the length of a buffer for a datagram.
fn each(mtu: Mtu) -> usize {
    (GRH + mtu.bytes() as usize).next_multiple_of(64)
}

/// Returns the total length of the buffers.
pub(crate) fn bytes(mtu: Mtu) -> usize {
    each(mtu) * DEPTH as usize
}

/// A peer's datagram queue pair.
#[derive(Debug)]
struct Peer<Ah> {
    ah: Ah,
    address: Address,
}

/// The datagram queue pair with its buffers.
#[derive(Debug)]
pub(super) struct Datagrams<H: Hca> {
    qp: Option<H::Qp>,
    qkey: u32,
    mtu: Mtu,
    memory: Option<Block>,
    base: NonNull<u8>,
    each: usize,
    lkey: u32,
    /// Capacity of each of its queues.
    depth: u32,
    free: Vec<u32>,
    under_way: u32,
    peers: Vec<Option<Peer<H::Ah>>>,
    /// Address handles of control messages in flight, by buffer.
    control: HashMap<u32, H::Ah>,
    /// Port number and index of the partition key.
    at: (u8, u16),
    /// True if the queue pair has failed and waits for its requests to be returned.
    failing: bool,
    /// True if routes to peers must be made again.
    stale: bool,
}

// SAFETY: the pointer is that of the block, which is plain memory of this value.
unsafe impl<H: Hca> Send for Datagrams<H> {}

impl<H: Hca> Datagrams<H> {
    /// Allocates the memory for a port's datagrams.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn memory(mtu: Mtu) -> Result<Datagrams<H>, PortError> {
        let each = each(mtu);
        let memory = Block::new(each, DEPTH as usize)?;
        Ok(Datagrams {
            qp: None,
            qkey: 0,
            mtu,
            base: NonNull::new(memory.base()).unwrap_or(NonNull::dangling()),
            each,
            memory: Some(memory),
            lkey: 0,
            depth: DEPTH,
            free: (0..DEPTH).rev().collect(),
            under_way: 0,
            peers: Vec::new(),
            control: HashMap::new(),
            at: (0, 0),
            failing: false,
            stale: false,
        })
    }

    pub(super) fn block(&self) -> &Block {
        self.memory.as_ref().expect("there until the port is dropped")
    }

    /// Makes the queue pair.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn open(&mut self, hca: &H, cq: &H::Cq, options: &Options) -> Result<H::Qp, Error> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|_| Error::new("getrandom", "a key of datagrams", hca::errno::EIO))?;
        let random = u32::from_le_bytes(random);
        // The highest bit would select the queue pair's own key (ibv_post_send(3)).
        self.qkey = random & 0x7fff_ffff;
        self.depth = DEPTH.min(hca.device().max_qp_wr);
        self.free.truncate(self.depth as usize);
        let cap = QpCap {
            max_send_wr: self.depth,
            max_recv_wr: self.depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let kind = QpKind::Ud { send_cq: cq, recv_cq: cq, srq: None };
        let qp = hca.create_qp(&QpInit { kind, cap, signal_all: true })?;
        self.at = (options.port, options.pkey_index);
        self.ready(&qp)?;
        Ok(qp)
    }

    /// Takes the queue pair from reset to ready to send. Packet sequence numbers of datagrams have
    /// no meaning.
    fn ready(&self, qp: &H::Qp) -> Result<(), Error> {
        let (port, pkey_index) = self.at;
        qp.modify(&ModifyQp::InitUd { port, pkey_index, qkey: self.qkey })?;
        qp.modify(&ModifyQp::RtrUd)?;
        qp.modify(&ModifyQp::RtsUd { sq_psn: 0 })
    }

    /// Records that a request, and so the queue pair, has failed.
    #[cold]
    pub(super) fn failed(&mut self) {
        let Some(qp) = self.qp.as_ref().filter(|_| !self.failing) else { return };
        self.failing = true;
        if let Err(why) = qp.modify(&ModifyQp::Err) {
            tracing::warn!(%why, "the queue pair of datagrams has failed, and cannot be given up");
        }
    }

    /// Returns true if this is the datagram queue pair's number.
    pub(super) fn is(&self, qp: QpNum) -> bool {
        self.qp.as_ref().is_some_and(|own| own.number() == qp)
    }

    /// Resets the queue pair if it has failed and all its requests have been returned.
    fn restart(&mut self) -> Result<(), PortError> {
        let Some(qp) =
            self.qp.as_ref().filter(|_| self.under_way == 0 && self.free.len() == self.depth as usize)
        else {
            return Ok(());
        };
        qp.modify(&ModifyQp::Reset).and_then(|()| self.ready(qp))?;
        self.failing = false;
        Ok(())
    }

    /// Records that the port's table of GIDs has changed, so existing routes may be invalid.
    pub(super) fn outdated(&mut self) {
        self.stale = true;
    }

    /// Returns true if [`Datagrams::maintain`] has work.
    #[inline]
    pub(super) fn needs_maintenance(&self) -> bool {
        self.failing || self.stale || !self.free.is_empty()
    }

    /// Posts receives, resets a failed queue pair, and makes stale routes again with `route`.
    ///
    /// # Errors
    /// The device's error, if the queue pair is unusable.
    #[cold]
    pub(super) fn maintain(
        &mut self,
        route: impl Fn(&Address) -> Result<H::Ah, PortError>,
    ) -> Result<(), PortError> {
        if self.failing {
            self.restart()?;
        }
        // Requests in flight use the address handles.
        if self.stale && self.under_way == 0 {
            self.stale = false;
            for peer in self.peers.iter_mut().flatten() {
                match route(&peer.address) {
                    Ok(ah) => peer.ah = ah,
                    Err(why) => tracing::debug!(%why, "no route to a peer"),
                }
            }
        }
        if self.failing { Ok(()) } else { self.post() }
    }

    pub(super) fn with(mut self, qp: H::Qp, lkey: u32) -> Datagrams<H> {
        (self.qp, self.lkey) = (Some(qp), lkey);
        self
    }

    /// Returns the destination for peers.
    pub(super) fn address(&self, location: PortLocation, xrc: bool) -> Address {
        Address {
            location,
            qp: self.qp.as_ref().map(H::Qp::number).unwrap_or_default(),
            qkey: self.qkey,
            xrc,
        }
    }

    /// Returns the maximum frame length.
    pub(super) fn longest(&self) -> usize {
        self.mtu.bytes() as usize
    }

    /// Returns the number of receive buffers.
    pub(super) fn count(&self) -> u32 {
        DEPTH
    }

    /// Returns the address of a buffer.
    pub(super) fn at(&self, buffer: u32) -> NonNull<u8> {
        assert!(buffer < DEPTH);
        // SAFETY: within the block, by the check.
        unsafe { self.base.add(buffer as usize * self.each) }
    }

    /// Returns the length of a buffer.
    pub(super) fn each(&self) -> usize {
        self.each
    }

    pub(super) fn give_back(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Posts all free buffers.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn post(&mut self) -> Result<(), PortError> {
        while let Some(buffer) = self.free.last().copied() {
            let Some(qp) = &self.qp else { return Ok(()) };
            let addr = self.at(buffer).addr().get() as u64;
            let sge = [Sge { addr, len: self.each as u32, lkey: self.lkey }];
            qp.post_recv(&[RecvWr { wr_id: Of::Datagram(buffer).wr_id(), sges: &sge }])
                .map_err(|e| PortError::DatagramReceive(e.errno))?;
            self.free.pop();
        }
        Ok(())
    }

    /// Adds a peer.
    pub(super) fn insert(&mut self, ah: H::Ah, address: Address) -> u64 {
        let peer = Some(Peer { ah, address });
        match self.peers.iter().position(Option::is_none) {
            Some(at) => {
                self.peers[at] = peer;
                at as u64
            }
            None => {
                self.peers.push(peer);
                self.peers.len() as u64 - 1
            }
        }
    }

    pub(super) fn remove(&mut self, to: u64) {
        if let Some(peer) = usize::try_from(to).ok().and_then(|at| self.peers.get_mut(at)) {
            *peer = None;
        }
    }

    /// Sends the first bytes of a buffer.
    ///
    /// # Errors
    /// If it cannot be sent now.
    pub(super) fn send(&mut self, sge: Sge, buffer: u32, to: u64) -> Result<(), Refused> {
        let peer = usize::try_from(to).ok().and_then(|at| self.peers.get(at)).and_then(Option::as_ref);
        let Some(peer) = peer else {
            return Err(Refused::Failed(PortError::AddressUnknown));
        };
        if sge.len as usize > self.longest() {
            let (len, most) = (sge.len, self.longest());
            return Err(Refused::Failed(PortError::LongDatagram { len, most }));
        }
        self.post_send(sge, buffer, &peer.ah, &peer.address)?;
        self.under_way += 1;
        Ok(())
    }

    /// Sends the first bytes of a buffer to a port that is not a known peer.
    ///
    /// # Errors
    /// If it cannot be sent now.
    pub(super) fn send_control(
        &mut self,
        sge: Sge,
        buffer: u32,
        ah: H::Ah,
        address: &Address,
    ) -> Result<(), Refused> {
        self.post_send(sge, buffer, &ah, address)?;
        self.under_way += 1;
        self.control.insert(buffer, ah);
        Ok(())
    }

    fn post_send(&self, sge: Sge, buffer: u32, ah: &H::Ah, address: &Address) -> Result<(), Refused> {
        let Some(qp) = &self.qp else { return Err(Refused::Failed(PortError::Closed)) };
        if self.under_way == self.depth || self.failing {
            return Err(Refused::Again);
        }
        let Address { qp: number, qkey, .. } = *address;
        let wr = SendWr {
            wr_id: Of::Sent(buffer).wr_id(),
            op: SendOp::Send,
            data: Data::Registered(core::slice::from_ref(&sge)),
            flags: SendFlags::SIGNALED,
            to: To::Datagram { ah, qp: number, qkey },
        };
        qp.post_send(&[wr]).map_err(|e| Refused::Failed(PortError::Datagram(e.errno)))
    }

    /// Records that a buffer's datagram was sent. Returns true if it was a control message.
    pub(super) fn sent(&mut self, buffer: u32) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.control.remove(&buffer).is_some()
    }

    pub(super) fn close(&mut self) {
        self.qp = None;
        self.peers.clear();
        self.control.clear();
    }

    pub(super) fn take_memory(&mut self) -> Option<Block> {
        self.memory.take()
    }
}

//! The queue pair of datagrams, by which handshakes go.
//!
//! Datagrams may be lost; a handshake's frames are said again while no answer comes.
//!
//! A datagram that cannot leave takes the queue pair with it (a port that is down, on some devices; a GID that is gone). Peers know its
//! number from this process's card, so it is not replaced: when everything in its queues has come back, it begins anew.

use core::ptr::NonNull;
use std::collections::HashMap;

use hca::{
    Data, Error, Hca, ModifyQp, Mtu, Qp as _, QpCap, QpInit, QpKind, QpNum, RecvWr, SendFlags, SendOp,
    SendWr, Sge, To,
};
use netmod_framed::device::Refused;
use netmod_framed::memory::Block;

use super::{Of, Options};
use crate::words::{Address, Place};

/// Receive buffers, and requests in the send queue.
pub(crate) const DEPTH: u32 = 64;
/// Bytes in front of a datagram that came.
pub(super) const GRH: usize = 40;

/// Bytes of a buffer for a datagram.
fn each(mtu: Mtu) -> usize {
    (GRH + mtu.bytes() as usize).next_multiple_of(64)
}

/// Bytes of all of them.
pub(crate) fn bytes(mtu: Mtu) -> usize {
    each(mtu) * DEPTH as usize
}

/// A peer's queue pair of datagrams.
#[derive(Debug)]
struct Peer<Ah> {
    ah: Ah,
    address: Address,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Datagrams<H: Hca> {
    qp: Option<H::Qp>,
    qkey: u32,
    mtu: Mtu,
    memory: Option<Block>,
    base: NonNull<u8>,
    each: usize,
    lkey: u32,
    /// Requests in each of its queues.
    depth: u32,
    free: Vec<u32>,
    under_way: u32,
    peers: Vec<Option<Peer<H::Ah>>>,
    /// Ways of notes under way, by the buffers that they are in.
    notes: HashMap<u32, H::Ah>,
    /// Port, and place of the partition key.
    at: (u8, u16),
    /// The queue pair has failed, and waits for what is in its queues.
    failing: bool,
    /// Ways to peers are to be looked for again.
    stale: bool,
}

// SAFETY: the pointer is that of the block, which is plain memory of this value.
unsafe impl<H: Hca> Send for Datagrams<H> {}

impl<H: Hca> Datagrams<H> {
    /// Memory for datagrams of a port.
    ///
    /// # Errors
    /// If it cannot be.
    pub(super) fn memory(mtu: Mtu) -> Result<Datagrams<H>, String> {
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
            notes: HashMap::new(),
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
    /// What the device says.
    pub(super) fn open(&mut self, hca: &H, cq: &H::Cq, options: &Options) -> Result<H::Qp, Error> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|_| Error::new("getrandom", "a key of datagrams", hca::errno::EIO))?;
        let random = u32::from_le_bytes(random);
        // The highest bit would mean the queue pair's own key (ibv_post_send(3)).
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

    /// Takes the queue pair from reset to where it sends. The numbers of its packets mean nothing.
    fn ready(&self, qp: &H::Qp) -> Result<(), Error> {
        let (port, pkey_index) = self.at;
        qp.modify(&ModifyQp::InitUd { port, pkey_index, qkey: self.qkey })?;
        qp.modify(&ModifyQp::RtrUd)?;
        qp.modify(&ModifyQp::RtsUd { sq_psn: 0 })
    }

    /// Something in its queues has failed, and with it all.
    #[cold]
    pub(super) fn failed(&mut self) {
        let Some(qp) = self.qp.as_ref().filter(|_| !self.failing) else { return };
        self.failing = true;
        if let Err(why) = qp.modify(&ModifyQp::Err) {
            tracing::warn!(%why, "the queue pair of datagrams has failed, and cannot be given up");
        }
    }

    /// Whether a queue pair is the one of datagrams.
    pub(super) fn is(&self, qp: QpNum) -> bool {
        self.qp.as_ref().is_some_and(|own| own.number() == qp)
    }

    /// Begins anew if it has failed, once everything has come back.
    fn restart(&mut self) -> Result<(), String> {
        let Some(qp) =
            self.qp.as_ref().filter(|_| self.under_way == 0 && self.free.len() == self.depth as usize)
        else {
            return Ok(());
        };
        qp.modify(&ModifyQp::Reset).and_then(|()| self.ready(qp)).map_err(|e| e.to_string())?;
        self.failing = false;
        Ok(())
    }

    /// The port has another table of GIDs: ways to peers that were made by the old one may lead nowhere.
    pub(super) fn outdated(&mut self) {
        self.stale = true;
    }

    /// Whether there is something for [`Datagrams::look_after`] to do.
    #[inline]
    pub(super) fn wants_care(&self) -> bool {
        self.failing || self.stale || !self.free.is_empty()
    }

    /// Posts receives, begins anew, makes ways anew: what is due. `way` makes one.
    ///
    /// # Errors
    /// What the device says, if nothing goes any more.
    #[cold]
    pub(super) fn look_after(
        &mut self,
        way: impl Fn(&Address) -> Result<H::Ah, String>,
    ) -> Result<(), String> {
        if self.failing {
            self.restart()?;
        }
        // What is under way uses them.
        if self.stale && self.under_way == 0 {
            self.stale = false;
            for peer in self.peers.iter_mut().flatten() {
                match way(&peer.address) {
                    Ok(ah) => peer.ah = ah,
                    Err(why) => tracing::debug!(why, "no way to a peer"),
                }
            }
        }
        if self.failing { Ok(()) } else { self.post() }
    }

    pub(super) fn with(mut self, qp: H::Qp, lkey: u32) -> Datagrams<H> {
        (self.qp, self.lkey) = (Some(qp), lkey);
        self
    }

    /// Where peers send to.
    pub(super) fn address(&self, place: Place, xrc: bool) -> Address {
        Address { place, qp: self.qp.as_ref().map(H::Qp::number).unwrap_or_default(), qkey: self.qkey, xrc }
    }

    /// Longest frame.
    pub(super) fn longest(&self) -> usize {
        self.mtu.bytes() as usize
    }

    /// Buffers for those that come.
    pub(super) fn count(&self) -> u32 {
        DEPTH
    }

    /// First byte of a buffer.
    pub(super) fn at(&self, buffer: u32) -> NonNull<u8> {
        assert!(buffer < DEPTH);
        // SAFETY: within the block, by the check.
        unsafe { self.base.add(buffer as usize * self.each) }
    }

    /// Bytes of a buffer.
    pub(super) fn each(&self) -> usize {
        self.each
    }

    pub(super) fn give_back(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Posts all that is free.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn post(&mut self) -> Result<(), String> {
        while let Some(buffer) = self.free.last().copied() {
            let Some(qp) = &self.qp else { return Ok(()) };
            let addr = self.at(buffer).addr().get() as u64;
            let sge = [Sge { addr, len: self.each as u32, lkey: self.lkey }];
            qp.post_recv(&[RecvWr { wr_id: Of::Datagram(buffer).wr_id(), sges: &sge }])
                .map_err(|e| format!("a receive of datagrams cannot be posted: {}", e.errno))?;
            self.free.pop();
        }
        Ok(())
    }

    /// Makes a peer known.
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
    /// If it does not go.
    pub(super) fn send(&mut self, sge: Sge, buffer: u32, to: u64) -> Result<(), Refused> {
        let peer = usize::try_from(to).ok().and_then(|at| self.peers.get(at)).and_then(Option::as_ref);
        let Some(peer) = peer else {
            return Err(Refused::Failed("the address is not known any more".into()));
        };
        if sge.len as usize > self.longest() {
            let text = format!(
                "a handshake of {} bytes is longer than a packet ({}); is the link's MTU right?",
                sge.len,
                self.longest()
            );
            return Err(Refused::Failed(text));
        }
        self.post_send(sge, buffer, &peer.ah, &peer.address)?;
        self.under_way += 1;
        Ok(())
    }

    /// Sends the first bytes of a buffer to a port that is known for this once.
    ///
    /// # Errors
    /// If it does not go.
    pub(super) fn send_note(
        &mut self,
        sge: Sge,
        buffer: u32,
        ah: H::Ah,
        address: &Address,
    ) -> Result<(), Refused> {
        self.post_send(sge, buffer, &ah, address)?;
        self.under_way += 1;
        self.notes.insert(buffer, ah);
        Ok(())
    }

    fn post_send(&self, sge: Sge, buffer: u32, ah: &H::Ah, address: &Address) -> Result<(), Refused> {
        let Some(qp) = &self.qp else { return Err(Refused::Failed("the port is closed".into())) };
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
        qp.post_send(&[wr]).map_err(|e| Refused::Failed(format!("a datagram: {}", e.errno)))
    }

    /// The datagram in a buffer has left; whether it was a note.
    pub(super) fn sent(&mut self, buffer: u32) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.notes.remove(&buffer).is_some()
    }

    pub(super) fn close(&mut self) {
        self.qp = None;
        self.peers.clear();
        self.notes.clear();
    }

    pub(super) fn take_memory(&mut self) -> Option<Block> {
        self.memory.take()
    }
}

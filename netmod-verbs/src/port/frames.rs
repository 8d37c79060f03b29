//! Implements the netmod's port: frames and memory transfers.

use core::ptr::NonNull;
use std::os::fd::{AsRawFd, RawFd};

use hca::{self as hca, AtomicCap, Channel as _, Cq as _, Hca, Mr as _, SendOp, Sge, Srq as _};
use netmod_core::rma::{Access, AtomicArgs, AtomicOp, Atomics, Coherence, Word};
use netmod_core::{RmaBuf, RxBuf, RxBytes, Time, VcId};
use netmod_framed::device::{self, Done, Lent, NewEndpoint, Oddities, Remote, ResetFrame};
use netmod_framed::wire::{FRAME_HEADER, FrameHeader, Kind};

use super::endpoint::Endpoints;
use super::receives::Receives;
use super::send_qp::{Payload, Request};
use super::{Owner, Port, What};
use crate::error::{PortError, Refused};
use crate::sizes::TX_BUFFERS;
use crate::wire::{Address, XrcEndpoint};

/// A memory registration for transfers.
#[derive(Debug)]
pub struct Registration<M> {
    /// The device's registration; `None` after it has ended.
    mr: Option<M>,
    base: u64,
    lkey: u32,
    rkey: u32,
}

impl<H: Hca> Port<H> {
    #[inline]
    fn first(&self, buffer: u32, at: u32, len: u32) -> NonNull<u8> {
        let (at, len) = (at as usize, len as usize);
        let (first, each) = match self.queue_of(buffer) {
            Some((queue, buffer)) => (queue.at(buffer), queue.each()),
            None => {
                let datagram = buffer - self.receives.count();
                (self.datagrams.at(datagram), self.datagrams.each())
            }
        };
        assert!(at + len <= each);
        // SAFETY: within the buffer, by the check.
        unsafe { first.add(at) }
    }

    #[inline]
    fn post(&mut self, to: u64, request: Request<'_>) -> Result<(), Refused> {
        self.endpoints.post(to, request)
    }

    /// Returns the owner of a datagram that is about to be sent.
    fn owner(&mut self, buffer: u32, to: u64, vc: VcId) -> Owner {
        let frame = device::Port::buffer(self, buffer).first_chunk::<FRAME_HEADER>().copied();
        let last =
            |frame: &[u8; FRAME_HEADER]| FrameHeader::parse(frame).is_some_and(|h| h.kind == Kind::Reset);
        let reset = frame.filter(last).map(|frame| Box::new(ResetFrame { to, frame }));
        Owner { vc, reset }
    }

    fn transfer(
        &mut self,
        to: u64,
        lent: &Lent<'_, Registration<H::Mr>>,
        len: usize,
        op: SendOp,
        number: u64,
    ) -> Result<(), Refused> {
        self.alive()?;
        let lkey = lent.registration.map_or(0, |r| r.lkey);
        let len =
            u32::try_from(len.min(lent.mem.len())).map_err(|_| Refused::Failed(PortError::LongTransfer))?;
        let sge = Sge { addr: lent.mem.as_ptr().expose_provenance() as u64, len, lkey };
        self.post(to, Request { op, payload: Payload::Registered(sge), what: What::Transfer { number } })
    }
}

impl<H: Hca> Port<H> {
    fn make_endpoint(
        &mut self,
        vc: VcId,
        address: &[u8],
        offered: Option<&[u8]>,
    ) -> Result<NewEndpoint, PortError> {
        // The dialling peer has chosen by this process's card.
        let wants =
            offered.map_or_else(|| Address::parse(address).is_some_and(|a| a.xrc), XrcEndpoint::is_one);
        let number = self.receives.srq().ok_or(PortError::Closed)?.number();
        if let (true, true, Some(number)) = (wants, self.site.xrc.is_some(), number) {
            return self.endpoints.open_shared(&self.site, number, vc);
        }
        if wants && offered.is_some() {
            return Err(PortError::XrcUnused);
        }
        if self.site.xrc.is_some() && self.plain.is_none() {
            self.open_plain()?;
        }
        let srq = self.plain.as_ref().unwrap_or(&self.receives).srq().ok_or(PortError::Closed)?;
        self.endpoints.open(&self.site, srq, vc)
    }
}

impl<H: Hca> device::Port for Port<H> {
    type Registration = Registration<H::Mr>;
    type Error = PortError;

    fn insert(&mut self, address: &[u8], _context: u8) -> Result<u64, PortError> {
        let address = Address::parse(address).ok_or(PortError::AddressVersion)?;
        let ah = self.site.address_handle(&address.location)?;
        Ok(self.datagrams.insert(ah, address))
    }

    fn remove(&mut self, to: u64) -> Result<(), PortError> {
        self.datagrams.remove(to);
        Ok(())
    }

    fn open_endpoint(
        &mut self,
        vc: VcId,
        address: &[u8],
        offered: Option<&[u8]>,
    ) -> Result<Option<NewEndpoint>, PortError> {
        self.make_endpoint(vc, address, offered).map(Some)
    }

    fn connect_endpoint(&mut self, endpoint: u64, theirs: &[u8]) -> Result<(), PortError> {
        self.endpoints.connect(&self.site, endpoint, theirs)
    }

    fn waits_for_peer(&self, to: u64) -> bool {
        self.endpoints.waits_for_peer(to)
    }

    fn tick(&mut self, now: Time) {
        self.endpoints.now = now;
    }

    fn close_endpoint(&mut self, endpoint: u64) {
        self.endpoints.close(endpoint);
    }

    fn fail_end(&mut self, endpoint: u64) {
        self.endpoints.declare_dead(endpoint);
    }

    #[inline]
    fn share(&self) -> u32 {
        (TX_BUFFERS / 5) as u32
    }

    fn has_room_for(&mut self, to: u64) -> bool {
        !Endpoints::<H>::names(to) || self.endpoints.has_room(to)
    }

    #[inline]
    fn inject_max(&self) -> usize {
        self.endpoints.inline_max()
    }

    #[inline]
    fn inject(&mut self, frame: &[u8], to: u64) -> Result<(), Refused> {
        self.alive()?;
        self.post(to, Request { op: SendOp::Send, payload: Payload::Inline(frame), what: What::Inline })
    }

    #[inline]
    fn inject_buffer(&mut self, buffer: u32, len: usize, to: u64) -> Result<(), Refused> {
        self.alive()?;
        let base = self.block().at(buffer as usize);
        // SAFETY: the caller owns the buffer and has not sent it, so no request uses it; the bytes
        // are copied before the call returns.
        let frame = unsafe { core::slice::from_raw_parts(base, len.min(self.site.options.frame)) };
        self.post(to, Request { op: SendOp::Send, payload: Payload::Inline(frame), what: What::Inline })
    }

    #[inline]
    fn take_buffer(&mut self) -> Option<u32> {
        if self.tx.free.len() > self.tx.reserved { self.tx.free.pop() } else { None }
    }

    fn give_back(&mut self, buffer: u32) {
        self.tx.free.push(buffer);
    }

    #[inline]
    fn buffer(&mut self, buffer: u32) -> &mut [u8] {
        // SAFETY: the caller has taken the buffer and not sent it yet, so no request uses it.
        unsafe { self.block().slice_mut(buffer as usize) }
    }

    #[inline]
    fn send(&mut self, buffer: u32, len: usize, to: u64, vc: VcId) -> Result<(), Refused> {
        self.alive()?;
        let lkey = self.tx_lkey();
        let addr = self.block().at(buffer as usize).expose_provenance() as u64;
        let sge = Sge { addr, len: len.min(self.site.options.frame) as u32, lkey };
        if !Endpoints::<H>::names(to) {
            self.tx.owners[buffer as usize] = self.owner(buffer, to, vc);
            return self.datagrams.send(sge, buffer, to);
        }
        let payload = Payload::Registered(sge);
        self.post(to, Request { op: SendOp::Send, payload, what: What::Send { buffer, vc } })
    }

    #[inline]
    fn poll(&mut self, most: usize) -> usize {
        let n = self.take(most);
        self.maintain();
        n
    }

    /// Does nothing: devices make progress by themselves.
    fn progress(&mut self) {}

    #[inline]
    fn completion(&mut self, i: usize) -> Option<Done> {
        let completion = self.entries[i];
        self.translate(&completion)
    }

    #[inline]
    fn next_other(&mut self) -> Option<Done> {
        if self.found.is_empty() { None } else { self.found.pop_front() }
    }

    #[inline]
    fn frame(&self, buffer: u32, at: u32, len: u32) -> RxBytes<'_> {
        let first = self.first(buffer, at, len);
        // SAFETY: the device is through with these bytes, and they stay while the port is borrowed.
        unsafe { RxBytes::from_raw(first, len as usize) }
    }

    #[inline]
    fn lend(&self, buffer: u32, at: u32, len: u32, token: u64) -> RxBuf {
        let first = self.first(buffer, at, len);
        // SAFETY: as for `frame`; a buffer with lent bytes is not posted, and the port outlives
        // them: the engine returns everything before it polls again.
        unsafe { RxBuf::new(first, len as usize, token) }
    }

    #[inline]
    fn release(&mut self, buffer: u32) {
        self.give_receive_back(buffer);
    }

    fn shut(&mut self) {
        self.died("it was closed, because it did not give memory back");
        self.endpoints.clear();
        self.datagrams.close();
        self.receives.close();
        self.plain.iter_mut().for_each(Receives::close);
    }

    fn sends_under_way(&self) -> usize {
        TX_BUFFERS - self.tx.free.len()
    }

    fn transfers_under_way(&self) -> usize {
        self.endpoints.transfers()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.site.channel.as_ref().map(|c| c.fd().as_raw_fd())
    }

    fn may_wait(&mut self) -> bool {
        if self.ahead > 0 || !self.found.is_empty() || self.dead.is_some() {
            return false;
        }
        self.events();
        let Some(channel) = &self.site.channel else { return false };
        if let Err(e) = channel.drain().and_then(|_| self.site.cq.arm(false)) {
            self.died(&e.to_string());
            return false;
        }
        // Completions from before the queue was armed do not make the descriptor readable.
        self.ahead = self.take(usize::MAX);
        self.ahead == 0 && self.found.is_empty()
    }

    fn oddities(&self) -> Oddities {
        self.oddities
    }

    fn has_rma(&self) -> bool {
        true
    }

    fn revokes_puts(&self) -> bool {
        // The device checks the key of each packet.
        true
    }

    fn max_transfer(&self) -> usize {
        self.site.attr.max_msg_size as usize
    }

    fn register(&mut self, mem: &RmaBuf, access: Access) -> Result<Option<Self::Registration>, Refused> {
        self.alive()?;
        let access = match access {
            Access::RemoteRead => hca::Access { remote_read: true, ..hca::Access::READ },
            Access::RemoteWrite => hca::Access { remote_write: true, ..hca::Access::LOCAL },
            Access::RemoteAll => self.site.peers_access(),
            Access::Local => hca::Access::LOCAL,
        };
        // SAFETY: by the contract of `RmaBuf::new`, the memory stays lent until the netmod's
        // registration ends, which ends this one first.
        let mr = unsafe { self.site.hca.register(mem.as_ptr(), mem.len(), access) }
            .map_err(|e| super::refused(&e))?;
        let (lkey, rkey, base) = (mr.lkey(), mr.rkey(), mr.addr());
        Ok(Some(Registration { mr: Some(mr), base, lkey, rkey }))
    }

    fn remote(registration: &Self::Registration) -> Remote {
        Remote { key: registration.rkey.into(), base: registration.base }
    }

    fn deregister(&self, registration: &mut Self::Registration) -> Result<(), Refused> {
        let Some(mr) = registration.mr.take() else { return Ok(()) };
        mr.deregister().map_err(|(mr, e)| {
            registration.mr = Some(mr);
            super::refused(&e)
        })
    }

    fn read(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        from: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        self.transfer(
            from,
            &lent,
            lent.mem.len(),
            SendOp::RdmaRead { addr: remote, rkey: key as u32 },
            number,
        )
    }

    fn write(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        to: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        self.transfer(to, &lent, lent.mem.len(), SendOp::RdmaWrite { addr: remote, rkey: key as u32 }, number)
    }

    fn atomics(&self) -> Atomics {
        let coherence = match self.site.hca.device().atomics {
            AtomicCap::None => return Atomics::NONE,
            AtomicCap::Device => Coherence::Device,
            AtomicCap::Global => Coherence::Processor,
        };
        [Word::U64, Word::I64].into_iter().fold(Atomics::new(coherence), |atomics, word| {
            atomics.with(AtomicOp::Add, word).with(AtomicOp::CompareSwap, word)
        })
    }

    fn atomic(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        to: u64,
        remote: Remote,
        args: &AtomicArgs,
        number: u64,
    ) -> Result<(), Refused> {
        let (addr, rkey) = (remote.base, remote.key as u32);
        let op = match args.op {
            AtomicOp::Add => SendOp::FetchAdd { addr, rkey, add: args.operand },
            AtomicOp::CompareSwap => {
                SendOp::CompareSwap { addr, rkey, compare: args.comparand, swap: args.operand }
            }
            _ => return Err(Refused::Failed(PortError::NoAtomic)),
        };
        self.transfer(to, &lent, args.word.size(), op, number)
    }

    /// Cancels a transfer that waits to be posted again. Verbs can cancel posted requests only by
    /// closing the connection.
    fn cancel_transfer(&mut self, number: u64) {
        self.endpoints.cancel(number, &mut self.found);
    }

    fn is_unsettled(&self) -> bool {
        self.endpoints.is_pending()
    }
}

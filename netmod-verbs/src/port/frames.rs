//! A port as the netmod uses it: frames, and transfers of memory.

use core::ptr::NonNull;
use std::os::fd::{AsRawFd, RawFd};

use netmod_core::rma::Access;
use netmod_core::{IoVec, RxBuf, RxBytes, VcId};
use netmod_frames::device::{self, Done, Lent, NewEnd, Oddities, Refused, Remote};
use netmod_hca::{self as hca, Channel as _, Cq as _, Data, Hca, Mr as _, Piece, SendOp, Sge};

use super::end::{Ends, Request};
use super::{Port, TX_BUFFERS, What};
use crate::words::{Address, RcEnd};

/// A registration of memory for a transfer.
#[derive(Debug)]
pub struct Registration<M> {
    /// `None`: it has ended.
    mr: Option<M>,
    base: u64,
    lkey: u32,
    rkey: u32,
}

impl<H: Hca> Port<H> {
    #[inline]
    fn first(&self, buffer: u32, at: u32, len: u32) -> NonNull<u8> {
        let (at, len) = (at as usize, len as usize);
        let (first, each) = match buffer.checked_sub(self.receives.count()) {
            None => (self.receives.at(buffer), self.receives.each()),
            Some(datagram) => (self.datagrams.at(datagram), self.datagrams.each()),
        };
        assert!(at + len <= each);
        // SAFETY: within the buffer, by the check.
        unsafe { first.add(at) }
    }

    #[inline]
    fn post(&mut self, to: u64, request: Request<'_>) -> Result<(), Refused> {
        if self.room == 0 {
            return Err(Refused::Again);
        }
        self.ends.post(to, request)?;
        self.room -= 1;
        Ok(())
    }

    fn transfer(
        &mut self,
        to: u64,
        lent: &Lent<'_, Registration<H::Mr>>,
        op: SendOp,
        number: u64,
    ) -> Result<(), Refused> {
        self.alive()?;
        let lkey = lent.registration.map_or(0, |r| r.lkey);
        let len = u32::try_from(lent.mem.len)
            .map_err(|_| Refused::Failed("a transfer is longer than 4 GiB".into()))?;
        let sge = Sge { addr: lent.mem.base.expose_provenance() as u64, len, lkey };
        let data = Data::Registered(core::slice::from_ref(&sge));
        self.post(to, Request { op, data, what: What::Transfer { number } })
    }
}

impl<H: Hca> device::Port for Port<H> {
    type Registration = Registration<H::Mr>;

    fn insert(&mut self, address: &[u8], _context: u8) -> Result<u64, String> {
        let address = Address::parse(address).ok_or("it is none of this version of netmod verbs")?;
        let ah = self.way(&address.place)?;
        let ah = self.hca.create_ah(&ah).map_err(|e| e.to_string())?;
        Ok(self.datagrams.insert(ah, address))
    }

    fn remove(&mut self, to: u64) -> Result<(), String> {
        self.datagrams.remove(to);
        Ok(())
    }

    fn open_end(&mut self, vc: VcId) -> Result<Option<NewEnd>, String> {
        let srq = self.receives.srq().ok_or("the port is closed")?;
        let (place, mtu) = (self.place, self.mtu());
        let says = |qp, psn, reads| RcEnd { place, qp, psn, mtu, reads };
        let at = (self.options.port, self.options.pkey_index);
        self.ends.open(&self.hca, &self.cq, srq, at, vc, says).map(Some)
    }

    fn connect_end(&mut self, end: u64, theirs: &[u8]) -> Result<(), String> {
        let theirs = RcEnd::parse(theirs).ok_or("its end is none of this version of netmod verbs")?;
        let ah = self.way(&theirs.place)?;
        let device = self.hca.device();
        let reads = (device.max_qp_init_rd_atom, device.max_qp_rd_atom);
        let mtu = self.mtu();
        self.ends.connect(end, &theirs, ah, mtu, reads)
    }

    fn close_end(&mut self, end: u64) {
        self.ends.close(end);
    }

    #[inline]
    fn share(&self) -> u32 {
        (TX_BUFFERS / 5) as u32
    }

    fn has_room_for(&mut self, to: u64) -> bool {
        !Ends::<H>::names(to) || self.ends.has_room(to)
    }

    #[inline]
    fn inject_max(&self) -> usize {
        self.ends.inline_max()
    }

    #[inline]
    fn inject(&mut self, frame: &[u8], to: u64) -> Result<(), Refused> {
        self.alive()?;
        let piece = Piece::new(frame);
        let data = Data::Inline(core::slice::from_ref(&piece));
        self.post(to, Request { op: SendOp::Send, data, what: What::Inline })
    }

    #[inline]
    fn inject_buffer(&mut self, buffer: u32, len: usize, to: u64) -> Result<(), Refused> {
        self.alive()?;
        let base = self.block().at(buffer as usize);
        // SAFETY: whoever has taken the buffer has not sent it, so no request uses it; the bytes are copied before the call returns.
        let frame = unsafe { core::slice::from_raw_parts(base, len.min(self.options.frame)) };
        let piece = Piece::new(frame);
        let data = Data::Inline(core::slice::from_ref(&piece));
        self.post(to, Request { op: SendOp::Send, data, what: What::Inline })
    }

    #[inline]
    fn take_buffer(&mut self) -> Option<u32> {
        self.tx_free.pop()
    }

    fn give_back(&mut self, buffer: u32) {
        self.tx_free.push(buffer);
    }

    #[inline]
    fn buffer(&mut self, buffer: u32) -> &mut [u8] {
        // SAFETY: whoever has taken the buffer has not sent it yet, so no request uses it.
        unsafe { self.block().slice_mut(buffer as usize) }
    }

    #[inline]
    fn send(&mut self, buffer: u32, len: usize, to: u64, vc: VcId) -> Result<(), Refused> {
        self.alive()?;
        let lkey = self.tx_lkey();
        let addr = self.block().at(buffer as usize).expose_provenance() as u64;
        let sge = Sge { addr, len: len.min(self.options.frame) as u32, lkey };
        if !Ends::<H>::names(to) {
            self.owners[buffer as usize] = vc;
            return self.datagrams.send(sge, buffer, to);
        }
        let data = Data::Registered(core::slice::from_ref(&sge));
        self.post(to, Request { op: SendOp::Send, data, what: What::Send { buffer, vc } })
    }

    #[inline]
    fn poll(&mut self, most: usize) -> usize {
        let n = self.take(most);
        self.look_after();
        n
    }

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
        // SAFETY: as for `frame`; a buffer of which something is lent is not posted, and the port outlives what it has lent: the engine
        // gives everything back before it polls again.
        unsafe { RxBuf::new(first, len as usize, token) }
    }

    #[inline]
    fn release(&mut self, buffer: u32) {
        match buffer.checked_sub(self.receives.count()) {
            None => self.receives.give_back(buffer),
            Some(datagram) => self.datagrams.give_back(datagram),
        }
    }

    fn shut(&mut self) {
        self.died("it was closed, because it did not give memory back");
        self.ends.clear();
        self.datagrams.close();
        self.receives.close();
    }

    fn sends_under_way(&self) -> usize {
        TX_BUFFERS - self.tx_free.len()
    }

    fn transfers_under_way(&self) -> usize {
        self.ends.transfers()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.channel.as_ref().map(|c| c.fd().as_raw_fd())
    }

    fn may_wait(&mut self) -> bool {
        if self.ahead > 0 || !self.found.is_empty() || self.dead.is_some() {
            return false;
        }
        self.events();
        let Some(channel) = &self.channel else { return false };
        if let Err(e) = channel.drain().and_then(|_| self.cq.arm(false)) {
            self.died(&e.to_string());
            return false;
        }
        // What came before the queue was armed makes nothing readable.
        self.ahead = self.take(usize::MAX);
        self.ahead == 0 && self.found.is_empty()
    }

    fn oddities(&self) -> Oddities {
        self.oddities
    }

    fn has_rma(&self) -> bool {
        true
    }

    fn max_transfer(&self) -> usize {
        self.attr.max_msg_size as usize
    }

    fn register(&mut self, mem: IoVec, access: Access) -> Result<Option<Self::Registration>, Refused> {
        self.alive()?;
        let access = match access {
            Access::RemoteRead => hca::Access { remote_read: true, ..hca::Access::READ },
            Access::RemoteWrite => hca::Access { remote_write: true, ..hca::Access::LOCAL },
            Access::Local => hca::Access::LOCAL,
        };
        // SAFETY: whoever registers memory with the netmod promises that it stays, and who uses it, until it is deregistered, which ends
        // this.
        let mr = unsafe { self.hca.register(mem.base, mem.len, access) }.map_err(|e| super::refused(&e))?;
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
        self.transfer(from, &lent, SendOp::RdmaRead { addr: remote, rkey: key as u32 }, number)
    }

    fn write(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        to: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        self.transfer(to, &lent, SendOp::RdmaWrite { addr: remote, rkey: key as u32 }, number)
    }

    /// Verbs give up nothing less than a connection, which happens when that is closed.
    fn cancel_transfer(&self, _number: u64) {}
}

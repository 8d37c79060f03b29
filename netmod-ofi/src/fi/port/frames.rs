//! Implements the netmod's port: frames and memory transfers.

use core::ptr::{NonNull, null_mut};
use std::os::fd::RawFd;

use libfabric_sys::consts::{FI_MR_LOCAL, FI_MR_PROV_KEY, FI_REMOTE_READ, FI_REMOTE_WRITE};
use netmod_core::rma::{Access, AtomicArgs, Atomics};
use netmod_core::{RmaBuf, RxBuf, RxBytes, VcId};
use netmod_framed::device::{self, Done, Lent, Oddities, Remote};

use crate::error::{FabricError, Refused};

use super::{Port, TX_BUFFERS, What};
use crate::fi::atomic::Scratch;
use crate::fi::region::{self, Registration};

impl Port {
    /// Reserves a key that no live registration has. It is random, and unguessable if the
    /// provider's keys are long enough.
    fn fresh_key(&mut self) -> Result<u64, Refused> {
        let bits = self.traits().mr_key_size.clamp(1, 8) * 8;
        let mask = u64::MAX >> (64 - bits);
        let all_used = || Refused::Failed(FabricError::NoKey);
        if bits <= 16 {
            // Among so few keys, chance would soon pick one with which an earlier peer may still
            // write.
            let next = self.next_key;
            let key = self.endpoint.take_key((0..=mask).map(|i| next.wrapping_add(i) & mask));
            self.next_key = key.unwrap_or(next).wrapping_add(1);
            return key.ok_or_else(all_used);
        }
        for _ in 0..1000 {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|e| Refused::Failed(FabricError::Random(e)))?;
            let key = u64::from_le_bytes(bytes) & mask;
            if let Some(key) = self.endpoint.take_key(core::iter::once(key)) {
                return Ok(key);
            }
        }
        Err(all_used())
    }
}

impl device::Port for Port {
    type Registration = Registration;
    type Error = FabricError;

    fn insert(&mut self, address: &[u8], context: u8) -> Result<u64, FabricError> {
        self.endpoint.insert(address, context)
    }

    fn remove(&mut self, to: u64) -> Result<(), FabricError> {
        self.endpoint.remove(to)
    }

    #[inline]
    fn share(&self) -> u32 {
        (self.endpoint.traits().tx.min(TX_BUFFERS) / 5).max(1) as u32
    }

    #[inline]
    fn has_room_for(&mut self, to: u64) -> bool {
        let there = |what: &What| matches!(what, What::Send { to: other, .. } if *other == to);
        let most = self.share() + self.share() / 8;
        self.ops.iter().filter(|(_, what)| there(what)).count() < most as usize
    }

    #[inline]
    fn inject_max(&self) -> usize {
        self.endpoint.traits().inject
    }

    fn frame_max(&self) -> usize {
        self.endpoint.traits().easy
    }

    #[inline]
    fn inject(&mut self, frame: &[u8], to: u64) -> Result<(), Refused> {
        self.endpoint.inject(frame, to)
    }

    #[inline]
    fn inject_buffer(&mut self, buffer: u32, len: usize, to: u64) -> Result<(), Refused> {
        // SAFETY: the caller has taken the buffer and not sent it, so no operation uses it.
        let frame = unsafe { self.tx.slice_mut(buffer as usize) };
        self.endpoint.inject(&frame[..len], to)
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
        // SAFETY: the caller has taken the buffer and not sent it yet, so no operation uses it.
        unsafe { self.tx.slice_mut(buffer as usize) }
    }

    #[inline]
    fn send(&mut self, buffer: u32, len: usize, to: u64, vc: VcId) -> Result<(), Refused> {
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

    #[inline]
    fn poll(&mut self, most: usize) -> usize {
        if self.receives.has_idle() {
            self.post_again();
        }
        if self.stock.is_some() {
            self.take_stock();
        }
        self.look(most)
    }

    fn progress(&mut self) {
        self.endpoint.progress();
    }

    #[inline(always)]
    fn completion(&mut self, i: usize) -> Option<Done> {
        let entry = self.entries[i];
        self.completed(&entry)
    }

    #[inline]
    fn next_other(&mut self) -> Option<Done> {
        if self.failures.is_empty() { None } else { self.failures.pop_front() }
    }

    #[inline]
    fn frame(&self, buffer: u32, at: u32, len: u32) -> RxBytes<'_> {
        let (at, len) = (at as usize, len as usize);
        debug_assert!(at + len <= self.rx.each());
        // SAFETY: within the buffer, as checked when the frame arrived; the provider has finished
        // with these bytes, and they stay while the port is borrowed.
        unsafe {
            let first = self.rx.at(buffer as usize).add(at);
            RxBytes::from_raw(NonNull::new_unchecked(first), len)
        }
    }

    #[inline]
    fn lend(&self, buffer: u32, at: u32, len: u32, token: u64) -> RxBuf {
        let (at, len) = (at as usize, len as usize);
        debug_assert!(at + len <= self.rx.each());
        // SAFETY: as for `frame`; a buffer with lent bytes is not posted, and the port outlives
        // them: the engine returns everything before it polls again.
        unsafe { RxBuf::new(NonNull::new_unchecked(self.rx.at(buffer as usize).add(at)), len, token) }
    }

    #[inline(always)]
    fn release(&mut self, buffer: u32) {
        // The next poll posts it, after the message's receiver has been answered.
        self.receives.release(buffer);
    }

    fn shut(&mut self) {
        self.endpoint.shut();
    }

    fn quiesce(&mut self) {
        self.give_up();
    }

    fn sends_under_way(&self) -> usize {
        self.tx.count() - self.tx_free.len()
    }

    fn is_unsettled(&self) -> bool {
        self.stock.is_some()
    }

    fn transfers_under_way(&self) -> usize {
        self.transfers
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.endpoint.wait_fd()
    }

    fn may_wait(&mut self) -> bool {
        if self.receives.has_idle() {
            self.post_again();
        }
        self.endpoint.may_wait()
    }

    fn cancel_transfer(&mut self, number: u64) {
        let is = |what: &What| matches!(what, What::Transfer { number: n } if *n == number);
        for (op, _) in self.ops.iter().filter(|(_, what)| is(what)) {
            self.endpoint.cancel(false, self.ops.context(op));
        }
    }

    fn oddities(&self) -> Oddities {
        self.oddities
    }

    fn has_rma(&self) -> bool {
        self.traits().rma
    }

    fn revokes_puts(&self) -> bool {
        self.traits().revokes_puts
    }

    fn max_transfer(&self) -> usize {
        self.traits().max_msg
    }

    fn register(&mut self, mem: &RmaBuf, access: Access) -> Result<Option<Registration>, Refused> {
        let rights = match access {
            Access::RemoteRead => FI_REMOTE_READ,
            Access::RemoteWrite => FI_REMOTE_WRITE,
            Access::RemoteAll => FI_REMOTE_READ | FI_REMOTE_WRITE,
            Access::Local if !self.traits().wants(FI_MR_LOCAL) => return Ok(None),
            Access::Local => region::LOCAL,
        };
        let key = if self.traits().wants(FI_MR_PROV_KEY) { 0 } else { self.fresh_key()? };
        region::register(&self.endpoint, mem, rights, key).map(Some)
    }

    fn remote(registration: &Registration) -> Remote {
        Remote { key: registration.key, base: registration.base }
    }

    fn deregister(&self, registration: &mut Registration) -> Result<(), Refused> {
        registration.close(&self.endpoint)
    }

    fn read(
        &mut self,
        lent: Lent<'_, Registration>,
        from: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        let desc = lent.registration.map_or(null_mut(), Registration::desc);
        let mem = lent.mem.as_iovec();
        self.transfer(number, |endpoint, context| {
            // SAFETY: the memory belongs to a registered region and stays lent until it is
            // deregistered, which waits for the operation; the context is the operation's.
            unsafe { endpoint.read(mem.base, mem.len, desc, from, remote, key, context) }
        })
    }

    fn write(
        &mut self,
        lent: Lent<'_, Registration>,
        to: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused> {
        let desc = lent.registration.map_or(null_mut(), Registration::desc);
        let mem = lent.mem.as_iovec();
        self.transfer(number, |endpoint, context| {
            // SAFETY: as for `read`.
            unsafe { endpoint.write(mem.base, mem.len, desc, to, remote, key, context) }
        })
    }

    fn atomics(&self) -> Atomics {
        self.endpoint.atomics()
    }

    fn atomic(
        &mut self,
        lent: Lent<'_, Registration>,
        to: u64,
        remote: Remote,
        args: &AtomicArgs,
        number: u64,
    ) -> Result<(), Refused> {
        let desc = lent.registration.map_or(null_mut(), Registration::desc);
        let Some(scratch) = Scratch::within(lent.mem.as_iovec()) else {
            return Err(Refused::Failed(FabricError::NoScratch));
        };
        self.transfer(number, |endpoint, context| {
            // SAFETY: as for `read`; the words of the scratch are within the memory.
            unsafe { endpoint.atomic(scratch, desc, to, (remote.base, remote.key), args, context) }
        })
    }
}

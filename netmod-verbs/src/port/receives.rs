//! A shared receive queue of a port, and its buffers.

use core::ptr::NonNull;

use hca::{Hca, RecvWr, Sge, Srq as _};
use netmod_framed::memory::Block;

use super::Of;
use crate::error::PortError;

/// Buffers posted per batch, unless few are left or there are few in all.
const TOGETHER: usize = 8;
/// Maximum number of requests per call.
const LIST: usize = 32;

/// A shared receive queue with its buffers.
#[derive(Debug)]
pub(super) struct Receives<H: Hca> {
    srq: Option<H::Srq>,
    memory: Option<Block>,
    base: NonNull<u8>,
    each: usize,
    count: u32,
    together: usize,
    lkey: u32,
    /// Makes the subject of a completion from a buffer.
    of: fn(u32) -> Of,
    /// Buffers that are not posted.
    free: Vec<u32>,
    /// True after the device has reported that few are left.
    pub(super) low: bool,
}

// SAFETY: the pointer is that of the block, which is plain memory of this value.
unsafe impl<H: Hca> Send for Receives<H> {}

impl<H: Hca> Receives<H> {
    pub(super) fn new(srq: H::Srq, memory: Block, lkey: u32, of: fn(u32) -> Of) -> Receives<H> {
        let count = memory.count() as u32;
        Receives {
            srq: Some(srq),
            base: NonNull::new(memory.base()).unwrap_or(NonNull::dangling()),
            each: memory.each(),
            memory: Some(memory),
            together: (count as usize / 2).clamp(1, TOGETHER),
            count,
            lkey,
            of,
            free: (0..count).rev().collect(),
            low: false,
        }
    }

    /// Returns the queue while it is open.
    pub(super) fn srq(&self) -> Option<&H::Srq> {
        self.srq.as_ref()
    }

    /// Returns the number of buffers.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the length of a buffer in bytes.
    pub(super) fn each(&self) -> usize {
        self.each
    }

    /// Returns the address of a buffer.
    #[inline]
    pub(super) fn at(&self, buffer: u32) -> NonNull<u8> {
        assert!(buffer < self.count);
        // SAFETY: within the block, by the check.
        unsafe { self.base.add(buffer as usize * self.each) }
    }

    /// Releases a buffer.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: u32) {
        self.free.push(buffer);
    }

    /// Posts the free buffers if there are enough of them.
    ///
    /// # Errors
    /// The device's error.
    #[inline]
    pub(super) fn refill(&mut self) -> Result<(), PortError> {
        if self.free.len() >= self.together || (self.low && !self.free.is_empty()) {
            self.post()
        } else {
            Ok(())
        }
    }

    /// Posts all free buffers.
    ///
    /// # Errors
    /// The device's error.
    #[inline(never)]
    pub(super) fn post(&mut self) -> Result<(), PortError> {
        while !self.free.is_empty() {
            let Some(srq) = &self.srq else { return Ok(()) };
            let n = self.free.len().min(LIST);
            let from = self.free.len() - n;
            let mut sges = [Sge::default(); LIST];
            for (sge, buffer) in sges.iter_mut().zip(&self.free[from..]) {
                let addr = self.at(*buffer).addr().get() as u64;
                *sge = Sge { addr, len: self.each as u32, lkey: self.lkey };
            }
            let mut list = [RecvWr { wr_id: 0, sges: &[] }; LIST];
            for ((wr, sge), buffer) in list.iter_mut().zip(&sges).zip(&self.free[from..]) {
                *wr = RecvWr { wr_id: (self.of)(*buffer).wr_id(), sges: core::slice::from_ref(sge) };
            }
            match srq.post_recv(&list[..n]) {
                Ok(()) => self.free.truncate(from),
                Err(e) => {
                    self.free.drain(from..from + e.at);
                    return Err(PortError::Receive(e.errno));
                }
            }
        }
        if core::mem::take(&mut self.low)
            && let Err(why) = self.limit()
        {
            // From now on buffers are posted in batches, even if few are left.
            tracing::warn!(%why, "a shared receive queue will not say when few receives are left");
        }
        Ok(())
    }

    /// Asks the device to report when few receives are left.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn limit(&self) -> Result<(), hca::Error> {
        self.srq.as_ref().map_or(Ok(()), |srq| srq.set_limit(self.count / 4))
    }

    pub(super) fn close(&mut self) {
        self.srq = None;
    }

    pub(super) fn take_memory(&mut self) -> Option<Block> {
        self.memory.take()
    }
}

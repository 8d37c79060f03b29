//! Receive buffers of the wrapper, lent to the engine.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use netmod_core::RxBuf;

/// The lent buffers, by the token of the [`RxBuf`] that stands for each.
#[derive(Debug, Default)]
pub(super) struct Loans {
    lent: Vec<Option<Vec<u8>>>,
    free: Vec<usize>,
}

impl Loans {
    /// Lends bytes until [`Loans::give_back`].
    pub(super) fn lend(&mut self, mut bytes: Vec<u8>) -> RxBuf {
        let (base, len) = (NonNull::from(&mut bytes[..]).cast::<u8>(), bytes.len());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.lent.push(None);
            self.lent.len() - 1
        });
        self.lent[slot] = Some(bytes);
        // SAFETY: a Vec's memory stays in place when the Vec moves. Nobody touches the Vec before
        // the buffer comes back, and if that never happens `drop` leaks it.
        unsafe { RxBuf::new(base, len, slot as u64) }
    }

    /// Takes a buffer back; its memory may be used again.
    pub(super) fn give_back(&mut self, buf: RxBuf) -> Option<Vec<u8>> {
        let slot = usize::try_from(buf.token()).ok()?;
        let bytes = self.lent.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(bytes)
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        // Lent buffers may still be read.
        self.lent.drain(..).flatten().for_each(std::mem::forget);
    }
}

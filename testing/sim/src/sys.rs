//! Raw memory: received bytes lent to the engine, and receives directly into a request's memory.

#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use netmod_core::{Core, IoVec, RxBuf, VcId};

/// Byte that overwrites memory when a loan ends, so that a late read is noticed.
const POISON: u8 = 0xdb;

/// Received bytes lent to the engine.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    /// Boxes that were taken apart, so that no reference to their memory exists while it is lent.
    lent: Vec<Option<NonNull<[u8]>>>,
    free: Vec<usize>,
}

// SAFETY: the memory is this value's own; lending is governed by `netmod_core::buf`.
unsafe impl Send for Loans {}

impl Loans {
    /// Lends bytes.
    pub(crate) fn lend(&mut self, bytes: Vec<u8>) -> RxBuf {
        let memory = NonNull::from(Box::leak(bytes.into_boxed_slice()));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.lent.push(None);
            self.lent.len() - 1
        });
        self.lent[slot] = Some(memory);
        // SAFETY: the bytes stay where they are, unwritten, until `give_back` gets this loan.
        unsafe { RxBuf::new(memory.cast(), memory.len(), slot as u64) }
    }

    /// Takes a loan back. Returns false if it is none of these.
    pub(crate) fn give_back(&mut self, buf: RxBuf) -> bool {
        let slot = usize::try_from(buf.token()).unwrap_or(usize::MAX);
        let Some(memory) = self.lent.get_mut(slot).and_then(Option::take) else { return false };
        // SAFETY: the box that `lend` took apart; its only loan has just ended.
        let mut memory = unsafe { Box::from_raw(memory.as_ptr()) };
        memory.fill(POISON);
        self.free.push(slot);
        true
    }

    /// Returns the number of loans.
    pub(crate) fn open(&self) -> usize {
        self.lent.len() - self.free.len()
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for memory in self.lent.drain(..).flatten() {
            // SAFETY: the box that `lend` took apart. The netmod is dropped with its engine, which
            // reads no more.
            drop(unsafe { Box::from_raw(memory.as_ptr()) });
        }
    }
}

/// Result of a direct receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// Bytes stored in the receive.
    pub(crate) taken: usize,
    /// True if the receive is complete: `RecvDone` must be pushed.
    pub(crate) done: bool,
}

/// Writes as much of `src` into the active receive of a VC as fits. Returns `None` if no receive is
/// active.
pub(crate) fn receive_direct(core: &mut Core, vc: VcId, src: [&[u8]; 2]) -> Option<Direct> {
    let mut iov = [IoVec::EMPTY; 16];
    let target = core.recv_target(vc, &mut iov);
    if target.bytes == 0 {
        return None;
    }
    let mut pieces = iov[..target.pieces].iter().copied();
    let mut piece = IoVec::EMPTY;
    let mut taken = 0;
    'all: for mut part in src {
        while !part.is_empty() {
            if piece.len == 0 {
                match pieces.next() {
                    Some(p) => piece = p,
                    None => break 'all,
                }
            }
            let n = piece.len.min(part.len());
            // SAFETY: according to the core, `piece.len` bytes at `piece.base` are memory of the
            // active receive, which is lent for writing and which nobody else accesses.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), piece.base, n) };
            piece = IoVec { base: piece.base.wrapping_add(n), len: piece.len - n };
            part = &part[n..];
            taken += n;
        }
    }
    let done = core.recv_advance(vc, taken);
    Some(Direct { taken, done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loan_is_given_back_once() {
        let mut loans = Loans::default();
        let (a, b) = (loans.lend(vec![1, 2]), loans.lend(vec![3]));
        assert_eq!(
            (a.bytes().first::<2>(), b.bytes().first::<1>(), loans.open()),
            (Some([1, 2]), Some([3]), 2)
        );
        let forged = loans.lend(Vec::new());
        assert!(loans.give_back(a) && loans.give_back(forged) && loans.give_back(b));
        assert_eq!(loans.open(), 0);
        let c = loans.lend(vec![4]);
        let other = Loans::default().give_back(c);
        assert!(!other);
    }
}

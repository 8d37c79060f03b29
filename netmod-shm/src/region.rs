//! The word of a registered region, by which its owner takes it back.
//!
//! A peer that writes into another process does so within a system call, which nobody can stop from
//! outside. So it enters the word before each part and leaves it behind it; an owner that ends the
//! region lets nobody enter any more, and waits for who is within. Readers need not be waited for:
//! they look again behind a part, and throw it away if the region has ended.

use super::sync::{AtomicU64, Ordering};

/// A peer is writing.
const BUSY: u64 = 1 << 63;
/// The owner is taking the region back.
pub(crate) const ENDING: u64 = 1 << 62;

/// Registers a region: `number` is not 0, less than 2^62, and was never used in this place.
pub(crate) fn open(word: &AtomicU64, number: u64) {
    word.store(number, Ordering::Release);
}

/// Returns true if the region is registered.
pub(crate) fn is_live(word: &AtomicU64, number: u64) -> bool {
    word.load(Ordering::Acquire) & !BUSY == number
}

/// The number of what is registered, if that is not being taken back, and nobody is within.
pub(crate) fn live(word: &AtomicU64) -> Option<u64> {
    let number = word.load(Ordering::Acquire);
    (number != 0 && number & (BUSY | ENDING) == 0).then_some(number)
}

/// A writer begins a part. False if the region has ended, or somebody else is within.
pub(crate) fn enter(word: &AtomicU64, number: u64) -> bool {
    word.compare_exchange(number, number | BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// The writer has ended its part. False if the owner is taking the region back.
pub(crate) fn leave(word: &AtomicU64, number: u64) -> bool {
    word.fetch_and(!BUSY, Ordering::AcqRel) == number | BUSY
}

/// The owner takes the region back: nobody enters any more.
pub(crate) fn end(word: &AtomicU64) {
    word.fetch_or(ENDING, Ordering::AcqRel);
}

/// Returns true if nobody writes to a region that is being taken back.
pub(crate) fn is_quiet(word: &AtomicU64) -> bool {
    word.load(Ordering::Acquire) & BUSY == 0
}

/// The owner has the region back: its place is free.
pub(crate) fn close(word: &AtomicU64) {
    word.store(0, Ordering::Release);
}

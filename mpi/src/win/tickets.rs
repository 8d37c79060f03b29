//! A lock in one word, exclusive or shared, that is given in the order in which it was asked for.
//!
//! The word has three counters. Each request draws a ticket. An exclusive request has the lock when
//! all that came before have given it back; a shared one when all that came before have it, or have
//! given it back if they were exclusive. So nobody is overtaken, and neither kind starves behind
//! the other.

use super::words::{AtomicU64, Ordering};

/// Bits of a counter, which wraps around: more than all requests at a time.
const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    /// Nobody else has the lock.
    Exclusive,
    /// Others may share it.
    Shared,
}

/// The place of a request in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The counters of a word.
#[derive(Clone, Copy)]
struct Counters {
    /// The next ticket.
    next: u64,
    /// The ticket that may take the lock if it is shared.
    shared: u64,
    /// The ticket that may take the lock if it is exclusive.
    exclusive: u64,
}

impl Counters {
    fn of(word: u64) -> Counters {
        Counters { next: word & MASK, shared: word >> BITS & MASK, exclusive: word >> (2 * BITS) & MASK }
    }

    fn word(self) -> u64 {
        self.next & MASK | (self.shared & MASK) << BITS | (self.exclusive & MASK) << (2 * BITS)
    }

    /// Returns true if it is a ticket's turn.
    fn admits(self, kind: LockKind, ticket: Ticket) -> bool {
        ticket.0 == if kind == LockKind::Shared { self.shared } else { self.exclusive }
    }

    /// Notes that a request whose turn it is has the lock.
    fn enter(&mut self, kind: LockKind) {
        self.shared += u64::from(kind == LockKind::Shared);
    }
}

/// Changes a word, unless `f` has nothing to change.
#[inline]
fn change<T>(word: &AtomicU64, mut f: impl FnMut(&mut Counters) -> Option<T>) -> Option<T> {
    let mut now = word.load(Ordering::Acquire);
    loop {
        let mut counters = Counters::of(now);
        let result = f(&mut counters)?;
        match word.compare_exchange_weak(now, counters.word(), Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return Some(result),
            Err(other) => now = other,
        }
    }
}

/// Asks for the lock. Returns the ticket by which it is waited for if it cannot be had at once.
#[inline]
pub(super) fn ask(word: &AtomicU64, kind: LockKind) -> Result<(), Ticket> {
    let asked = change(word, |counters| {
        let ticket = Ticket(counters.next);
        let has_it = counters.admits(kind, ticket);
        counters.next += 1;
        if has_it {
            counters.enter(kind);
        }
        Some(if has_it { Ok(()) } else { Err(ticket) })
    });
    asked.unwrap_or(Ok(()))
}

/// Takes the lock if it is the ticket's turn. Then whoever waits behind it may have it, too.
pub(super) fn try_enter(word: &AtomicU64, kind: LockKind, ticket: Ticket) -> bool {
    change(word, |counters| counters.admits(kind, ticket).then(|| counters.enter(kind))).is_some()
}

/// Gives the lock back.
#[inline]
pub(super) fn leave(word: &AtomicU64, kind: LockKind) {
    change(word, |counters| {
        counters.exclusive += 1;
        counters.shared += u64::from(kind == LockKind::Exclusive);
        Some(())
    });
}

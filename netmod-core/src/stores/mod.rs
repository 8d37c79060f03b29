//! Stores for another core to read, through the caches or non-temporal.
//!
//! A store needs the cache line that it writes to. If the core that read it last still has it, the
//! line must be taken from there first. On AMD processors that can cost several times as
//! much as a fetch from the shared cache or from memory, however many lines are requested at once.
//! Non-temporal stores take no line from another core, but the reader has to go to memory. So they
//! are better as soon as they save the writer more than that. Which cores the two are, and whether
//! the reader's caches hold the memory, changes at run time, so a few copies in a hundred try the
//! other kind.

#![allow(unsafe_code)]

mod fetch;
mod nontemporal;
#[cfg(test)]
mod tests;

pub use fetch::{fetch_all_to_write, fetch_to_write};

use std::time::Instant;

use crate::copy::copy;
use crate::processor::Processor;
use crate::segment::Segment;

/// Copies bytes by the given kind of store, ordered before later stores of this thread.
///
/// # Safety
///
/// `n` bytes must be readable at `src` and writable at `dst`, without overlap.
#[inline]
pub unsafe fn store(src: *const u8, dst: *mut u8, n: usize, kind: StoreKind) {
    // SAFETY: as demanded.
    unsafe {
        match kind {
            StoreKind::Cached => copy(src, dst, n),
            StoreKind::NonTemporal => nontemporal::copy(src, dst, n),
        }
    }
}

/// A kind of store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// An ordinary store, through the caches.
    #[default]
    Cached,
    /// A non-temporal store, past the caches.
    NonTemporal,
}

/// Least length of a non-temporal copy, in bytes: below it the reader waits longer for memory than
/// is saved.
pub const LEAST: usize = 2 << 10;
/// Size of a cache line in bytes.
const LINE: u64 = 64;
/// Copies of each kind in a trial; the fastest counts, since disturbances make others slower.
const TRIES: u32 = 4;
/// Copies between two trials, and the most of them while stores are non-temporal and each trial has
/// confirmed that.
const PAUSE: u32 = 64;
const MOST_PAUSE: u32 = 4096;

/// Limits of a trial's decision, in picoseconds per line.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Times of cached stores that give no reason to try the other kind.
    innocent: u64,
    /// Times that non-temporal stores must save, since the reader pays for them.
    penalty: u64,
}

const CONTIGUOUS: Limits = Limits { innocent: 6_000, penalty: 5_000 };
/// Gathering the data takes a part of both times, and more before non-temporal stores.
const SCATTERED: Limits = Limits { innocent: 4_000, penalty: 1_000 };

/// The purpose of the next copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No trial, for so many copies.
    Pause(u32),
    /// Trial of cached stores: copies left, and the least picoseconds per line so far.
    Cached(u32, u64),
    /// Trial of non-temporal stores: copies left, the least picoseconds per line so far, and those
    /// of cached stores.
    NonTemporal(u32, u64, u64),
}

/// The kind of store that is better from one thread to another one, learnt from the times of
/// copies.
#[derive(Clone, Copy, Debug)]
pub struct Stores {
    kind: StoreKind,
    stage: Stage,
    pause: u32,
    /// Consecutive trials that chose [`StoreKind::Cached`].
    cached: u32,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores { kind: StoreKind::Cached, stage: Stage::Pause(PAUSE), pause: PAUSE, cached: 0 }
    }
}

impl Stores {
    /// Copies `n` bytes by calling `f` with the kind of store.
    #[inline]
    pub fn copy<T>(&mut self, n: usize, f: impl FnOnce(StoreKind) -> T) -> T {
        self.learn(n, CONTIGUOUS, f)
    }

    /// Copies up to `n` bytes of a segment by calling `f` with the kind of store.
    #[inline]
    pub fn pack<T>(
        &mut self,
        seg: &mut Segment,
        n: usize,
        f: impl FnOnce(&mut Segment, StoreKind) -> T,
    ) -> T {
        let limits = if seg.is_plain() { CONTIGUOUS } else { SCATTERED };
        self.learn(n, limits, |kind| f(seg, kind))
    }

    #[inline]
    fn learn<T>(&mut self, n: usize, limits: Limits, f: impl FnOnce(StoreKind) -> T) -> T {
        if n < LEAST || Processor::here() == Processor::Other {
            return f(StoreKind::Cached);
        }
        if let Stage::Pause(left @ 1..) = &mut self.stage {
            *left -= 1;
            return f(self.kind);
        }
        let kind = self.tried();
        let start = Instant::now();
        let done = f(kind);
        self.took(n, start.elapsed().as_nanos() as u64, limits);
        done
    }

    /// Returns the kind of the next copy of a trial.
    fn tried(&mut self) -> StoreKind {
        if let Stage::Pause(_) = self.stage {
            self.stage = Stage::Cached(TRIES, u64::MAX);
        }
        if matches!(self.stage, Stage::NonTemporal(..)) { StoreKind::NonTemporal } else { StoreKind::Cached }
    }

    /// Records the time of a trial's copy.
    fn took(&mut self, n: usize, nanoseconds: u64, limits: Limits) {
        let line = nanoseconds.saturating_mul(1000 * LINE) / n as u64;
        self.stage = match self.stage {
            Stage::Pause(left) => Stage::Pause(left),
            Stage::Cached(left, best) => match (left - 1, best.min(line)) {
                (0, best) if best < limits.innocent => self.decide(StoreKind::Cached),
                (0, best) => Stage::NonTemporal(TRIES, u64::MAX, best),
                (left, best) => Stage::Cached(left, best),
            },
            Stage::NonTemporal(left, best, cached) => match (left - 1, best.min(line)) {
                (0, best) if best.saturating_add(limits.penalty) < cached => {
                    self.decide(StoreKind::NonTemporal)
                }
                (0, _) => self.decide(StoreKind::Cached),
                (left, best) => Stage::NonTemporal(left, best, cached),
            },
        };
    }

    /// Ends a trial.
    ///
    /// The first cached copies after non-temporal ones may find lines that no core has, and be
    /// faster than later ones. So trials become rarer while they keep confirming non-temporal
    /// stores.
    #[cold]
    fn decide(&mut self, kind: StoreKind) -> Stage {
        self.kind = kind;
        match kind {
            StoreKind::Cached => {
                self.cached = self.cached.saturating_add(1);
                if self.cached > 2 {
                    self.pause = PAUSE;
                }
                Stage::Pause(PAUSE)
            }
            StoreKind::NonTemporal => {
                self.cached = 0;
                let pause = self.pause;
                self.pause = (2 * pause).min(MOST_PAUSE);
                Stage::Pause(pause)
            }
        }
    }
}

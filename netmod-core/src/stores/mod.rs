//! How bytes are stored where another core will read them, by way of the caches or past them, and how they are read there ([`load`]).
//!
//! A store needs the line that it writes to. If the core that read it last still has it, it must be taken away from there
//! first: on AMD's processors up to Zen 4 that takes 15 ns for each line between cores of one L3 cache, and more than 20 between those of two, however many
//! lines are asked for at once; from the L3 cache, or from memory, it takes 2 to 4, but more than 5 if it was only read there, which the
//! reader can avoid. Stores past the caches take nothing from
//! anybody, but whoever reads has to go to memory, for about 5 ns a line. So they are the better way
//! as soon as they save the writer more than that. Which cores the two are, and whether the reader's caches hold the memory, changes while a process
//! runs: it is tried out, a few copies in a hundred at most.

#![allow(unsafe_code)]

mod load;
mod nontemporal;
#[cfg(test)]
mod tests;

pub use load::{fetch_all_to_write, fetch_to_write, load};

use std::sync::LazyLock;
use std::time::Instant;

/// Copies bytes the given way, before whoever sees later stores of this thread in order.
///
/// # Safety
/// `n` bytes readable at `src`, writable at `dst`, not overlapping.
#[inline]
pub unsafe fn store(src: *const u8, dst: *mut u8, n: usize, kind: StoreKind) {
    // SAFETY: as demanded.
    unsafe {
        match kind {
            StoreKind::Cached => src.copy_to_nonoverlapping(dst, n),
            StoreKind::NonTemporal => nontemporal::copy(src, dst, n),
        }
    }
}

/// A way to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// As any program does.
    #[default]
    Cached,
    /// Past the caches.
    NonTemporal,
}

/// Shortest copy that may go past the caches, in bytes: up to here whoever reads waits for memory longer than is saved.
pub const LEAST: usize = 2 << 10;
/// Bytes of a line.
const LINE: u64 = 64;
/// Copies of each way in a trial; the best of them counts, because others are lengthened by what happens beside them.
const TRIES: u32 = 4;
/// Copies between two trials, and the most of them while stores go past the caches and each trial has said so.
const PAUSE: u32 = 64;
const MOST_PAUSE: u32 = 4096;
/// Picoseconds for a line that are no reason to try the other way.
const INNOCENT: u64 = 6_000;
/// Picoseconds for a line that stores past the caches must save, since whoever reads pays for them.
const PENALTY: u64 = 5_000;

/// What the next copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is tried.
    Pause(u32),
    /// A trial by way of the caches: so many to come, and the least picoseconds for a line so far.
    Cached(u32, u64),
    /// A trial past them, behind one by way of the caches that took so long.
    NonTemporal(u32, u64, u64),
}

/// Which way is better for what one thread stores for another one; learnt from how long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Stores {
    kind: StoreKind,
    stage: Stage,
    pause: u32,
    /// Trials in a row that have said [`StoreKind::Cached`].
    cached: u32,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores { kind: StoreKind::Cached, stage: Stage::Pause(PAUSE), pause: PAUSE, cached: 0 }
    }
}

impl Stores {
    /// Makes a copy of `n` bytes by the function, which is told the way.
    #[inline]
    pub fn copy<T>(&mut self, n: usize, f: impl FnOnce(StoreKind) -> T) -> T {
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
        self.took(n, start.elapsed().as_nanos() as u64);
        done
    }

    /// The way of the next copy, which is one of a trial.
    fn tried(&mut self) -> StoreKind {
        if let Stage::Pause(_) = self.stage {
            self.stage = Stage::Cached(TRIES, u64::MAX);
        }
        if matches!(self.stage, Stage::NonTemporal(..)) { StoreKind::NonTemporal } else { StoreKind::Cached }
    }

    /// The copy of a trial took so long.
    fn took(&mut self, n: usize, nanoseconds: u64) {
        let line = nanoseconds.saturating_mul(1000 * LINE) / n as u64;
        self.stage = match self.stage {
            Stage::Pause(left) => Stage::Pause(left),
            Stage::Cached(left, best) => match (left - 1, best.min(line)) {
                (0, best) if best < INNOCENT => self.decide(StoreKind::Cached),
                (0, best) => Stage::NonTemporal(TRIES, u64::MAX, best),
                (left, best) => Stage::Cached(left, best),
            },
            Stage::NonTemporal(left, best, cached) => match (left - 1, best.min(line)) {
                (0, best) if best.saturating_add(PENALTY) < cached => self.decide(StoreKind::NonTemporal),
                (0, _) => self.decide(StoreKind::Cached),
                (left, best) => Stage::NonTemporal(left, best, cached),
            },
        };
    }

    /// The end of a trial. The first copies by way of the caches behind others may find lines that nobody has, and be faster than those
    /// that follow: so stores that went past the caches until just now, and do so again, are tried less and less often.
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

/// What is known of processors like this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// AMD's, up to family 19h (Zen 4): to take a line away from another core's caches takes four times as long as to fetch it from
    /// one that both share.
    Zen4,
    /// AMD's, later than that: between cores of one L3 cache lines go as fast as in one core. Further away is as before. An EPYC has shown this whose
    /// family was not noted.
    Zen5,
    /// Any other: nothing of the kind was found, or looked for.
    Other,
}

impl Processor {
    /// This one.
    #[inline]
    pub fn here() -> Processor {
        static HERE: LazyLock<Processor> = LazyLock::new(Processor::ask);
        *HERE
    }

    #[cfg(target_arch = "x86_64")]
    fn ask() -> Processor {
        // An instruction set of AMD's processors alone.
        if !std::arch::is_x86_feature_detected!("sse4a") {
            return Processor::Other;
        }
        // AMD64 Architecture Programmer's Manual, volume 3, CPUID Fn0000_0001_EAX.
        let eax = core::arch::x86_64::__cpuid(1).eax;
        let family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
        if family > 0x19 { Processor::Zen5 } else { Processor::Zen4 }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ask() -> Processor {
        Processor::Other
    }
}

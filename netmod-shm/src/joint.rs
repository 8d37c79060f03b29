//! A get that both sides copy: its reader from the front, the owner of the memory from the end.
//!
//! One core copies from another process at half the rate of two, and the owner of memory that is
//! read has often nothing to do but to wait. So a reader may leave a *job* with the owner's region:
//! which bytes go where. Both claim parts of it by one word, the reader from the front, the owner
//! from the end, until none is left. An owner that does not poll, or does not want to, leaves the
//! reader all: nobody waits for somebody who computes.
//!
//! The owner writes into the reader's memory within a system call, as a put does. So a job has a
//! word of the kind that `region` has: the owner is within it for each part, and the reader ends
//! it, and waits until the owner is out, before its memory is given back. What the owner has
//! claimed is written when it is out, or it has said that it could not.
//!
//! The other side's words are no more to be trusted than a packet. The owner reads a job once,
//! within it, and looks whether it lies in the region that it is for; what it writes, and to which
//! process, goes by its own knowledge. The reader counts its parts by itself.

use super::region;
use super::sync::{AtomicU64, Ordering};

/// Least and most bytes of a part.
const LEAST: usize = 128 << 10;
const MOST: usize = 512 << 10;
/// Shorter ones are as fast alone.
pub(crate) const WORTH: usize = 768 << 10;
/// A job that is being written down: nobody enters it.
const FILLING: u64 = region::ENDING;

/// The job that a reader has left with a region, or none; in memory that both write.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Joint {
    /// The reader's memory, as `region` has it: 0, or the number of the job.
    word: AtomicU64,
    /// Parts that the reader has claimed, from the front (upper half), and the owner, from the end
    /// (lower half).
    claims: AtomicU64,
    /// The owner could not write what it has claimed.
    failed: AtomicU64,
    /// See [`Job`].
    job: [AtomicU64; 5],
}

/// Bytes of the owner's that are to come to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The region's number.
    pub(crate) region: u64,
    /// Offset in the region.
    pub(crate) from: u64,
    /// Address in the reader.
    pub(crate) to: u64,
    pub(crate) len: u64,
    /// Bytes of each part but the last.
    pub(crate) part: u64,
}

/// The state of the parts that the owner has claimed, when none is left to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is writing one.
    Busy,
    /// All of them have been written.
    Written,
    /// Not all have.
    Missing,
}

/// The length of parts for so many bytes: at the end one side waits for the other for no longer
/// than one takes.
pub(crate) fn part_of(len: usize) -> usize {
    (len / 8).next_power_of_two().clamp(LEAST, MOST)
}

impl Job {
    /// Returns the number of its parts; `None` if the job is malformed.
    pub(crate) fn parts(&self) -> Option<u32> {
        let parts = (self.part > 0).then(|| self.len.div_ceil(self.part))?;
        u32::try_from(parts).ok().filter(|parts| *parts > 0)
    }

    /// Offset and length of a part.
    pub(crate) fn nth(&self, part: u32) -> (u64, u64) {
        let at = self.part * u64::from(part);
        (at, self.part.min(self.len - at))
    }
}

impl Joint {
    /// The reader writes a job down, of a number that it has never used. False if another one is
    /// there.
    pub(crate) fn begin(&self, number: u64, job: &Job) -> bool {
        if self.word.compare_exchange(0, number | FILLING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.claims.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        let Job { region, from, to, len, part } = *job;
        for (word, value) in self.job.iter().zip([region, from, to, len, part]) {
            word.store(value, Ordering::Relaxed);
        }
        region::open(&self.word, number);
        true
    }

    fn claim(&self, parts: u32, one: u64) -> Option<(u32, u32)> {
        let mut claims = self.claims.load(Ordering::Acquire);
        loop {
            let (front, back) = halves(claims);
            if front.checked_add(back).is_none_or(|claimed| claimed >= parts) {
                return None;
            }
            match self.claims.compare_exchange(claims, claims + one, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((front, back)),
                Err(now) => claims = now,
            }
        }
    }

    /// The reader claims the next part; which one, if one is left of so many.
    pub(crate) fn claim_front(&self, parts: u32) -> Option<u32> {
        self.claim(parts, 1 << 32).map(|(front, _)| front)
    }

    /// Returns the state of the owner's parts, for the reader that has found none left to claim.
    pub(crate) fn rest(&self) -> Rest {
        // A claimer stays inside until it has written.
        if !region::is_quiet(&self.word) {
            Rest::Busy
        } else if self.failed.load(Ordering::Acquire) != 0 {
            Rest::Missing
        } else {
            Rest::Written
        }
    }

    /// The reader's memory is to be taken back by this word, as `region` says.
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }

    /// The owner begins to help: number and job, if there is one.
    pub(crate) fn enter(&self) -> Option<(u64, Job)> {
        let number = region::live(&self.word)?;
        if !region::enter(&self.word, number) {
            return None;
        }
        let [region, from, to, len, part] = [0, 1, 2, 3, 4].map(|i| self.job[i].load(Ordering::Relaxed));
        Some((number, Job { region, from, to, len, part }))
    }

    /// The owner claims a part; which one, if one is left of so many.
    pub(crate) fn claim_back(&self, parts: u32) -> Option<u32> {
        self.claim(parts, 1).map(|(_, back)| parts - 1 - back)
    }

    /// The owner could not write what it has claimed.
    pub(crate) fn fail(&self) {
        self.failed.store(1, Ordering::Release);
    }

    /// The owner is out again.
    pub(crate) fn leave(&self, number: u64) {
        region::leave(&self.word, number);
    }
}

/// Parts that the reader and the owner have claimed.
fn halves(claims: u64) -> (u32, u32) {
    ((claims >> 32) as u32, claims as u32)
}

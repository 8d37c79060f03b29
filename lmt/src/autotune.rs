//! Autotuning of large messages within a node: the choice between ring and kernel by measured
//! times.
//!
//! The model ([`choice`](crate::choice)) knows what copies cost one process. What two processes
//! need together depends on the places of their cores and on the contents of their caches, which
//! change at run time. So messages are timed, and now and then a few messages try the other
//! strategy, rarely enough to keep the cost of trials to about a fiftieth.
//!
//! A message's time begins at the end of the one before it, since messages of one strategy follow
//! each other. It is ignored if a message of the other strategy was in progress meanwhile.

use crate::Mode;
use crate::rates::{LENGTHS, nearest};

/// Messages by the model's strategy before the first trial of the other one.
const FIRST: u32 = 128;
/// Bytes of a trial that do not count: as much as a long ring's memory, which may be in no cache.
const WARM: u64 = 2 << 20;
/// Messages that are timed together, also in a trial: some end in pairs.
const BATCH: u32 = 8;
/// Most messages of a trial that does not come to a result.
const LONGEST: u32 = 1024;
/// Least and most ordinary messages after a trial, for each of its messages.
const PAUSE: u64 = 16;
const MOST_PAUSE: u64 = 512;
/// Inverse of the share of time that trials may cost.
const COST: u64 = 50;
/// Factor over the time so far at which a batch is capped: the process may have waited for
/// something else.
const OUTLIER: u64 = 2;
/// Advantage that the other strategy must have, as a divisor of the present one's time.
const LEAD: u64 = 16;

/// A strategy for moving data to a process of the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Two copies, through a ring ([`Mode::Coop`]).
    Ring,
    /// One copy by the kernel ([`Mode::Get`], [`Mode::Put`]).
    Kernel,
}

impl Strategy {
    /// Returns the strategy of a mode; `None` for the network.
    pub fn of(mode: Mode) -> Option<Strategy> {
        match mode {
            Mode::Null => None,
            Mode::Coop => Some(Strategy::Ring),
            Mode::Get | Mode::Put => Some(Strategy::Kernel),
        }
    }

    fn other(self) -> Strategy {
        match self {
            Strategy::Ring => Strategy::Kernel,
            Strategy::Kernel => Strategy::Ring,
        }
    }
}

/// The recent times of a strategy.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Bytes and nanoseconds; older batches count less.
    bytes: u64,
    time: u64,
    /// Bytes, nanoseconds and messages of the present batch.
    batch: (u64, u64, u32),
}

impl Taken {
    /// Adds a message's time; returns true if a batch ends with it.
    fn add(&mut self, bytes: u64, time: u64) -> bool {
        let (of, took, messages) = self.batch;
        self.batch = (of.saturating_add(bytes), took.saturating_add(time), messages + 1);
        if self.batch.2 < BATCH {
            return false;
        }
        let (bytes, time, _) = std::mem::take(&mut self.batch);
        let most = self.time_of(bytes).map_or(u64::MAX, |usual| usual.saturating_mul(OUTLIER));
        self.bytes = (self.bytes - self.bytes / 4).saturating_add(bytes);
        self.time = (self.time - self.time / 4).saturating_add(time.min(most).max(1));
        true
    }

    /// Returns the nanoseconds of so many bytes.
    fn time_of(&self, bytes: u64) -> Option<u64> {
        let time = u128::from(self.time) * u128::from(bytes);
        let time = time.checked_div(u128::from(self.bytes))?;
        Some(u64::try_from(time).unwrap_or(u64::MAX).max(1))
    }
}

/// The purpose of the next message.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Ordinary messages left before a trial.
    Pause(u64),
    /// A trial: messages sent by the strategy, and bytes that have arrived.
    Trial { strategy: Strategy, sent: u32, come: u64 },
}

/// The state for messages of about one length.
#[derive(Clone, Copy, Debug)]
struct Length {
    ring: Taken,
    kernel: Taken,
    /// The strategy in use, apart from trials.
    present: Option<Strategy>,
    stage: Stage,
}

impl Default for Length {
    fn default() -> Length {
        let (ring, kernel) = Default::default();
        Length { ring, kernel, present: None, stage: Stage::Pause(u64::from(FIRST)) }
    }
}

impl Length {
    fn of(&mut self, strategy: Strategy) -> &mut Taken {
        match strategy {
            Strategy::Ring => &mut self.ring,
            Strategy::Kernel => &mut self.kernel,
        }
    }

    /// Returns the nanoseconds per MiB of both strategies.
    fn times(&self) -> (Option<u64>, Option<u64>) {
        (self.ring.time_of(1 << 20), self.kernel.time_of(1 << 20))
    }

    /// Returns the faster strategy, or the model's until both were used.
    ///
    /// A change must be worth it.
    fn best(&mut self, model: Strategy) -> Strategy {
        let faster = |a: u64, b: u64| a.saturating_add(a / LEAD) < b;
        let best = match (self.times(), self.present.unwrap_or(model)) {
            ((Some(ring), Some(kernel)), Strategy::Ring) if faster(kernel, ring) => Strategy::Kernel,
            ((Some(ring), Some(kernel)), Strategy::Kernel) if faster(ring, kernel) => Strategy::Ring,
            ((Some(_), Some(_)), present) => present,
            _ => model,
        };
        self.present = Some(best);
        best
    }

    fn choose(&mut self, model: Strategy) -> Strategy {
        let best = self.best(model);
        match &mut self.stage {
            Stage::Pause(0) => {
                // Without a time to compare it with, a trial has no result.
                if self.of(best).bytes == 0 {
                    return best;
                }
                let strategy = best.other();
                *self.of(strategy) = Taken::default();
                self.stage = Stage::Trial { strategy, sent: 1, come: 0 };
                strategy
            }
            Stage::Pause(left) => {
                *left -= 1;
                best
            }
            Stage::Trial { sent, .. } if *sent >= LONGEST => {
                self.stage = Stage::Pause(u64::from(LONGEST) * PAUSE);
                best
            }
            Stage::Trial { strategy, sent, .. } => {
                *sent += 1;
                *strategy
            }
        }
    }

    /// Records the time of a message.
    fn took(&mut self, strategy: Strategy, bytes: u64, time: u64) {
        let Stage::Trial { strategy: tried, sent, come } = &mut self.stage else {
            self.of(strategy).add(bytes, time);
            return;
        };
        let before = *come;
        if *tried == strategy {
            *come = before.saturating_add(bytes);
            if before < WARM {
                return;
            }
        }
        let (in_trial, sent) = (*tried == strategy, u64::from(*sent));
        if self.of(strategy).add(bytes, time) && in_trial {
            self.stage = Stage::Pause(sent.saturating_mul(self.pause()));
        }
    }

    /// Returns the ordinary messages per message of a trial, by the cost of the slower strategy.
    fn pause(&self) -> u64 {
        let (Some(ring), Some(kernel)) = self.times() else { return MOST_PAUSE };
        let (fast, slow) = (ring.min(kernel), ring.max(kernel));
        ((slow - fast).saturating_mul(COST) / fast).clamp(PAUSE, MOST_PAUSE)
    }
}

/// The autotuner of a receiver, for one peer.
#[derive(Clone, Debug, Default)]
pub struct Autotuner {
    lengths: [Length; LENGTHS.len()],
    /// Messages in progress, by strategy.
    ring: u32,
    kernel: u32,
    /// Time since which the next message to end has been in progress alone, in nanoseconds.
    since: u64,
    /// True if both strategies have been in progress since.
    mixed: bool,
}

impl Autotuner {
    /// Returns the strategy for a message of `bytes`; `model` is the model's choice.
    pub fn choose(&mut self, bytes: u64, model: Strategy) -> Strategy {
        match self.lengths.get_mut(nearest(bytes)) {
            Some(length) => length.choose(model),
            None => model,
        }
    }

    /// Records that a message begins, at a time in nanoseconds.
    pub fn begin(&mut self, strategy: Strategy, now: u64) {
        if self.ring + self.kernel == 0 {
            (self.since, self.mixed) = (now, false);
        }
        *self.under_way(strategy) += 1;
        self.mixed |= *self.under_way(strategy.other()) > 0;
    }

    /// Records the end of a message; `moved` has its bytes, unless it was aborted.
    pub fn end(&mut self, strategy: Strategy, moved: Option<u64>, now: u64) {
        let left = self.under_way(strategy);
        *left = left.saturating_sub(1);
        if let Some(bytes) = moved.filter(|_| !self.mixed)
            && let Some(length) = self.lengths.get_mut(nearest(bytes))
        {
            length.took(strategy, bytes, now.saturating_sub(self.since));
        }
        self.since = now;
        self.mixed = self.ring > 0 && self.kernel > 0;
    }

    fn under_way(&mut self, strategy: Strategy) -> &mut u32 {
        match strategy {
            Strategy::Ring => &mut self.ring,
            Strategy::Kernel => &mut self.kernel,
        }
    }

    /// Returns, for each of [`LENGTHS`] with both strategies tried, the recent MB/s through a ring
    /// and by the kernel.
    pub fn rates(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let rate = |time: u64| (1000 << 20) / time;
        LENGTHS.into_iter().zip(&self.lengths).filter_map(move |(len, l)| match l.times() {
            (Some(ring), Some(kernel)) => Some((len, rate(ring), rate(kernel))),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "autotune_tests.rs"]
mod tests;

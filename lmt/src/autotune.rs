//! What large messages between two processes of a node have really taken, through a ring and by the kernel, and which of the
//! two the next one takes.
//!
//! A model ([`choice`](crate::choice)) knows what copies cost one process. What two take together depends on where their cores are and on what their caches
//! hold, which changes while they run. So messages are timed, and of the way that is not taken a few are tried now and then: as
//! rarely as keeps what trials cost to about a fiftieth.
//!
//! A message's time is that since the one before it ended: messages of one way follow each other. It says nothing if another one
//! was under way the other way meanwhile.

use crate::Mode;
use crate::rates::{LENGTHS, nearest};

/// Messages by the model's way before the other one is tried for the first time.
const FIRST: u32 = 128;
/// Bytes of a trial that do not count: as much memory as a long ring has, which may be in no cache.
const WARM: u64 = 2 << 20;
/// Messages that are timed together, of a trial too: some end in pairs.
const BATCH: u32 = 8;
/// Most messages that a trial takes, if it has not come to a result by then.
const LONGEST: u32 = 1024;
/// For each message of a trial at least so many that are none follow it, and at most.
const PAUSE: u64 = 16;
const MOST_PAUSE: u64 = 512;
/// What trials may cost, as a part of all.
const COST: u64 = 50;
/// A batch counts for at most so many times what those before it have taken: one of its messages may have waited for a process that
/// did something else.
const OUTLIER: u64 = 2;
/// The way that is not taken must be faster by this part of what it takes.
const LEAD: u64 = 16;

/// A way for data to a process of the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Two copies, through a ring ([`Mode::Coop`]).
    Ring,
    /// One copy by the kernel ([`Mode::Get`], [`Mode::Put`]).
    Kernel,
}

impl Way {
    /// That of a mode; `None` of the network.
    pub fn of(mode: Mode) -> Option<Way> {
        match mode {
            Mode::Null => None,
            Mode::Coop => Some(Way::Ring),
            Mode::Get | Mode::Put => Some(Way::Kernel),
        }
    }

    fn other(self) -> Way {
        match self {
            Way::Ring => Way::Kernel,
            Way::Kernel => Way::Ring,
        }
    }
}

/// What a way has taken lately.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Bytes and nanoseconds, those of older batches counting less.
    bytes: u64,
    time: u64,
    /// The same of the present batch, and its messages.
    batch: (u64, u64, u32),
}

impl Taken {
    /// A message has taken so long; whether a batch ends with it.
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

    /// Nanoseconds of so many bytes.
    fn time_of(&self, bytes: u64) -> Option<u64> {
        let time = u128::from(self.time) * u128::from(bytes);
        let time = time.checked_div(u128::from(self.bytes))?;
        Some(u64::try_from(time).unwrap_or(u64::MAX).max(1))
    }
}

/// What the next message is for.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// So many more before a trial.
    Pause(u64),
    /// A way is tried: messages that were sent for it, and bytes that have come.
    Trial { way: Way, sent: u32, come: u64 },
}

/// Messages of about one length.
#[derive(Clone, Copy, Debug)]
struct Length {
    ring: Taken,
    kernel: Taken,
    /// The way that was taken last, trials apart.
    present: Option<Way>,
    stage: Stage,
}

impl Default for Length {
    fn default() -> Length {
        let (ring, kernel) = Default::default();
        Length { ring, kernel, present: None, stage: Stage::Pause(u64::from(FIRST)) }
    }
}

impl Length {
    fn of(&mut self, way: Way) -> &mut Taken {
        match way {
            Way::Ring => &mut self.ring,
            Way::Kernel => &mut self.kernel,
        }
    }

    /// Nanoseconds that a MiB takes.
    fn times(&self) -> (Option<u64>, Option<u64>) {
        (self.ring.time_of(1 << 20), self.kernel.time_of(1 << 20))
    }

    /// The faster way, or the model's as long as only one was taken. What there is to gain must be worth a change.
    fn best(&mut self, model: Way) -> Way {
        let faster = |a: u64, b: u64| a.saturating_add(a / LEAD) < b;
        let best = match (self.times(), self.present.unwrap_or(model)) {
            ((Some(ring), Some(kernel)), Way::Ring) if faster(kernel, ring) => Way::Kernel,
            ((Some(ring), Some(kernel)), Way::Kernel) if faster(ring, kernel) => Way::Ring,
            ((Some(_), Some(_)), present) => present,
            _ => model,
        };
        self.present = Some(best);
        best
    }

    fn choose(&mut self, model: Way) -> Way {
        let best = self.best(model);
        match &mut self.stage {
            Stage::Pause(0) => {
                // With nothing to compare it with, a trial says nothing.
                if self.of(best).bytes == 0 {
                    return best;
                }
                let way = best.other();
                *self.of(way) = Taken::default();
                self.stage = Stage::Trial { way, sent: 1, come: 0 };
                way
            }
            Stage::Pause(left) => {
                *left -= 1;
                best
            }
            Stage::Trial { sent, .. } if *sent >= LONGEST => {
                self.stage = Stage::Pause(u64::from(LONGEST) * PAUSE);
                best
            }
            Stage::Trial { way, sent, .. } => {
                *sent += 1;
                *way
            }
        }
    }

    /// A message of the way has taken so long.
    fn took(&mut self, way: Way, bytes: u64, time: u64) {
        let Stage::Trial { way: tried, sent, come } = &mut self.stage else {
            self.of(way).add(bytes, time);
            return;
        };
        let before = *come;
        if *tried == way {
            *come = before.saturating_add(bytes);
            if before < WARM {
                return;
            }
        }
        let (in_trial, sent) = (*tried == way, u64::from(*sent));
        if self.of(way).add(bytes, time) && in_trial {
            self.stage = Stage::Pause(sent.saturating_mul(self.pause()));
        }
    }

    /// Messages for each one of a trial, by what the slower way costs.
    fn pause(&self) -> u64 {
        let (Some(ring), Some(kernel)) = self.times() else { return MOST_PAUSE };
        let (fast, slow) = (ring.min(kernel), ring.max(kernel));
        ((slow - fast).saturating_mul(COST) / fast).clamp(PAUSE, MOST_PAUSE)
    }
}

/// What a receiver knows of the messages of one peer.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    lengths: [Length; LENGTHS.len()],
    /// Messages under way, by way.
    ring: u32,
    kernel: u32,
    /// Since when what ends next has been under way alone, in nanoseconds.
    since: u64,
    /// Whether both ways have been under way since.
    mixed: bool,
}

impl Trials {
    /// The way for a message of `bytes`, for which the model has the other argument.
    pub fn choose(&mut self, bytes: u64, model: Way) -> Way {
        match self.lengths.get_mut(nearest(bytes)) {
            Some(length) => length.choose(model),
            None => model,
        }
    }

    /// A message is under way, at a time in nanoseconds.
    pub fn begin(&mut self, way: Way, now: u64) {
        if self.ring + self.kernel == 0 {
            (self.since, self.mixed) = (now, false);
        }
        *self.under_way(way) += 1;
        self.mixed |= *self.under_way(way.other()) > 0;
    }

    /// It no longer is; `moved`: so many bytes have come by it, unless it was given up.
    pub fn end(&mut self, way: Way, moved: Option<u64>, now: u64) {
        let left = self.under_way(way);
        *left = left.saturating_sub(1);
        if let Some(bytes) = moved.filter(|_| !self.mixed)
            && let Some(length) = self.lengths.get_mut(nearest(bytes))
        {
            length.took(way, bytes, now.saturating_sub(self.since));
        }
        self.since = now;
        self.mixed = self.ring > 0 && self.kernel > 0;
    }

    fn under_way(&mut self, way: Way) -> &mut u32 {
        match way {
            Way::Ring => &mut self.ring,
            Way::Kernel => &mut self.kernel,
        }
    }

    /// For each of [`LENGTHS`] of which both ways were tried, what they have taken lately, in MB/s: through a ring, by the kernel.
    pub fn rates(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let rate = |time: u64| (1000 << 20) / time;
        LENGTHS.into_iter().zip(&self.lengths).filter_map(move |(len, l)| match l.times() {
            (Some(ring), Some(kernel)) => Some((len, rate(ring), rate(kernel))),
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "trials_tests.rs"]
mod tests;

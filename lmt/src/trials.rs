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
/// Messages of a trial that count; before them one is taken that may find memory for the first time.
const TRIES: u32 = 4;
/// Most messages that a trial takes, if it has not come to a result by then.
const LONGEST: u32 = 1024;
/// For each message of a trial at least so many that are none follow it, and at most.
const PAUSE: u64 = 16;
const MOST_PAUSE: u64 = 512;
/// What trials may cost, as a part of all.
const COST: u64 = 50;
/// How many of the last messages say what a way takes.
const MEMORY: u64 = 8;
/// A message counts for at most so many times what those before it have taken: it may have waited for a process that did something else.
const OUTLIER: u64 = 2;
/// The other way must be faster by this part of what it takes.
const LEAD: u64 = 8;

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

/// What a way has taken lately: bytes and nanoseconds, older ones counting less.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    bytes: u64,
    time: u64,
}

impl Taken {
    fn add(&mut self, bytes: u64, time: u64) {
        let most = self.time_of(bytes).map_or(u64::MAX, |usual| usual.saturating_mul(OUTLIER));
        self.bytes = (self.bytes - self.bytes / MEMORY).saturating_add(bytes);
        self.time = (self.time - self.time / MEMORY).saturating_add(time.min(most).max(1));
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
    /// A way is tried: messages that were sent for it, and those that have counted.
    Trial { way: Way, sent: u32, counted: u32 },
}

/// Messages of about one length.
#[derive(Clone, Copy, Debug)]
struct Length {
    ring: Taken,
    kernel: Taken,
    stage: Stage,
}

impl Length {
    const NEW: Length = Length {
        ring: Taken { bytes: 0, time: 0 },
        kernel: Taken { bytes: 0, time: 0 },
        stage: Stage::Pause(FIRST as u64),
    };

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

    /// The faster way, or the model's, as long as only one was taken. What there is to gain must be worth the change.
    fn best(&self, model: Way) -> Way {
        let (Some(ring), Some(kernel)) = self.times() else { return model };
        let faster = |a: u64, b: u64| a.saturating_add(a / LEAD) < b;
        match model {
            Way::Ring if faster(kernel, ring) => Way::Kernel,
            Way::Kernel if faster(ring, kernel) => Way::Ring,
            model => model,
        }
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
                self.stage = Stage::Trial { way, sent: 1, counted: 0 };
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
        if let Stage::Trial { way: tried, sent, counted } = &mut self.stage
            && *tried == way
        {
            *counted += 1;
            if *counted == 1 {
                return;
            }
            let (sent, ended) = (u64::from(*sent), *counted > TRIES);
            self.of(way).add(bytes, time);
            if ended {
                self.stage = Stage::Pause(sent.saturating_mul(self.pause()));
            }
            return;
        }
        self.of(way).add(bytes, time);
    }

    /// Messages for each one of a trial, by what the slower way costs.
    fn pause(&self) -> u64 {
        let (Some(ring), Some(kernel)) = self.times() else { return MOST_PAUSE };
        let (fast, slow) = (ring.min(kernel), ring.max(kernel));
        ((slow - fast).saturating_mul(COST) / fast).clamp(PAUSE, MOST_PAUSE)
    }
}

/// What a receiver knows of the messages of one peer.
#[derive(Clone, Debug)]
pub struct Trials {
    lengths: [Length; LENGTHS.len()],
    ring: u32,
    kernel: u32,
    /// Since when what ends next has been under way alone, in nanoseconds.
    since: u64,
    /// Whether both ways have been under way since.
    mixed: bool,
}

impl Default for Trials {
    fn default() -> Trials {
        Trials { lengths: [Length::NEW; LENGTHS.len()], ring: 0, kernel: 0, since: 0, mixed: false }
    }
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

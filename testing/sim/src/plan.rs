//! The plan of a simulated job: messages, rounds, disconnects and faults, all from the seed.
//!
//! Every receive belongs to a stream: the receives of one rank with the same arguments. A stream
//! has as many receives as messages, and only these messages match it. So no receive can take a
//! message that another receive needs. The k-th receive of a stream that got its message from a
//! source got the k-th message that this source sent to the stream.

use std::collections::{BTreeMap, BTreeSet};

use ch3_shim::{ANY_SOURCE, ANY_TAG, Mode};

use crate::net::Profile;
use netmod_harness::Rng;
use netmod_harness::rng::mix;

/// First tag of messages with a receive of their own.
const LONE: i32 = 1_000_000;
/// Number of tags per round.
const ROUND_TAGS: i32 = 100;
/// A tag that no message has.
pub(crate) const NEVER_TAG: i32 = 999_999;
/// Tag of a message that only tests whether its receiver lives.
pub(crate) const POKE_TAG: i32 = 999_998;

/// Method of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `irecv`.
    Posted,
    /// `iprobe` until it finds a message, then a receive of that message.
    Probed,
    /// `improbe` until it finds a message, then `imrecv`.
    Matched,
}

/// A message of the plan.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) comm: usize,
    pub(crate) tag: i32,
    pub(crate) len: usize,
    pub(crate) mode: Mode,
    pub(crate) stream: usize,
    /// True if its sender cancels it right after sending.
    pub(crate) cancel: bool,
}

impl Message {
    /// Returns its bytes: its number, if it is long enough, then bytes that identify it.
    pub(crate) fn content(&self, id: usize) -> Vec<u8> {
        let mut out = vec![0; self.len];
        for (i, chunk) in out.chunks_mut(8).enumerate() {
            let word = mix((id as u64) << 32 | i as u64).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        if let Some(head) = out.first_chunk_mut::<4>() {
            *head = (id as u32).to_le_bytes();
        }
        out
    }
}

/// The receives of one rank with the same arguments.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) to: u32,
    pub(crate) comm: usize,
    pub(crate) source: i32,
    pub(crate) tag: i32,
    /// Length of each receive's buffer in bytes.
    pub(crate) room: usize,
    /// Its messages, in the order in which each source sends them.
    pub(crate) messages: Vec<usize>,
    /// True if its only message may be cancelled by its sender.
    pub(crate) revocable: bool,
}

/// An operation of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Send(usize),
    Receive(usize, How),
    /// A receive that nothing matches, and its cancellation.
    Never,
}

/// The operations of a rank in one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Operations in this order, without waiting.
    pub(crate) ops: Vec<Op>,
    /// Ranks to disconnect from at the end of the round.
    pub(crate) disconnect: Vec<u32>,
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A connection is severed.
    Cut,
    /// A process dies.
    Crash(u32),
    /// The network splits into two halves, for this many nanoseconds, or permanently.
    Partition { side: Vec<bool>, lasts: Option<u64> },
}

/// Kind of faults in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No faults.
    Calm,
    /// The network stalls now and then, but loses nothing.
    Shaky,
    /// Connections are severed, and the network may split permanently.
    Cuts,
    /// Processes die.
    Crashes,
}

impl FaultKind {
    /// Returns true if requests may fail.
    pub fn is_lossy(self) -> bool {
        matches!(self, FaultKind::Cuts | FaultKind::Crashes)
    }
}

/// The plan of a whole job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: u32,
    pub(crate) fault_kind: FaultKind,
    pub(crate) profile: Profile,
    pub(crate) eager_max: usize,
    pub(crate) comms: usize,
    pub(crate) messages: Vec<Message>,
    pub(crate) streams: Vec<Stream>,
    /// Rounds by rank.
    pub(crate) rounds: Vec<Vec<Round>>,
    /// Faults, each with the step of the simulation at which it happens.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// Interval of delayed turns of a process; zero for none.
    pub(crate) laziness: u64,
    /// A rank that is delayed far more often, if there is one.
    pub(crate) slow: Option<u32>,
}

/// Chooses the kind of faults.
fn fault_kind(rng: &mut Rng) -> FaultKind {
    match rng.below(10) {
        0..5 => FaultKind::Calm,
        5..7 => FaultKind::Shaky,
        7 => FaultKind::Cuts,
        _ => FaultKind::Crashes,
    }
}

/// A plan in the making.
pub(crate) struct Maker {
    rng: Rng,
    pub(crate) plan: Plan,
    /// Streams by rank, communicator, source and tag.
    by_args: BTreeMap<(u32, usize, i32, i32), usize>,
    longest: usize,
}

impl Plan {
    /// Makes the plan of a seed, with `ranks` ranks or as many as the seed says.
    pub(crate) fn random(seed: u64, ranks: Option<u32>) -> Plan {
        let mut rng = Rng::new(mix(seed ^ 0x5eed));
        let ranks = ranks.unwrap_or_else(|| rng.range(2, 6) as u32);
        let profile = Profile::random(&mut rng);
        let longest = (profile.capacity * 40).min(200_000);
        let rounds = rng.range(1, 3) as usize;
        let plan = Plan {
            ranks,
            fault_kind: fault_kind(&mut rng),
            eager_max: rng.pick(&[0, 16, 100, 3000, 128 << 10]),
            profile,
            comms: 2 + rounds,
            messages: Vec::new(),
            streams: Vec::new(),
            rounds: vec![vec![Round::default(); rounds]; ranks as usize],
            faults: Vec::new(),
            laziness: rng.pick(&[0, 0, 3, 30]),
            slow: rng.one_in(4).then(|| rng.below(u64::from(ranks)) as u32),
        };
        let mut maker = Maker { rng, plan, by_args: BTreeMap::new(), longest };
        for round in 0..rounds {
            maker.round(round);
        }
        maker.faults();
        maker.plan
    }
}

impl Maker {
    /// Begins the plan of a job without faults, over a network of the default profile.
    pub(crate) fn calm(ranks: u32, rounds: usize) -> Maker {
        let plan = Plan {
            ranks,
            fault_kind: FaultKind::Calm,
            profile: Profile::default(),
            eager_max: 128 << 10,
            comms: 1,
            messages: Vec::new(),
            streams: Vec::new(),
            rounds: vec![vec![Round::default(); rounds]; ranks as usize],
            faults: Vec::new(),
            laziness: 0,
            slow: None,
        };
        Maker { rng: Rng::new(1), plan, by_args: BTreeMap::new(), longest: 8 }
    }

    fn len(&mut self) -> usize {
        let rng = &mut self.rng;
        let eager = self.plan.eager_max as u64;
        let len = match rng.below(12) {
            0 => 0,
            1..4 => rng.range(1, 16),
            4..7 => rng.range(17, 300),
            7 => rng.range(eager.saturating_sub(2), eager + 2),
            8 => rng.range(eager + 1, eager + 2000),
            9 => rng.range(0, 100_000),
            _ => rng.range(0, 3000),
        };
        (len as usize).min(self.longest)
    }

    fn round(&mut self, round: usize) {
        let n = u64::from(self.plan.ranks);
        let base = round as i32 * ROUND_TAGS;
        for _ in 0..self.rng.range(1, 8 * n) {
            let (from, to) = (self.rng.below(n) as u32, self.rng.below(n) as u32);
            let len = self.len();
            let mode =
                self.rng.pick(&[Mode::Standard, Mode::Standard, Mode::Standard, Mode::Sync, Mode::Ready]);
            let how = self.rng.pick(&[How::Posted, How::Posted, How::Posted, How::Probed, How::Matched]);
            let me = from as i32;
            let lone = LONE + self.plan.messages.len() as i32;
            let kind = self.rng.below(12);
            let (comm, tag, source, receive_tag) = match kind {
                0..4 => (0, base + self.rng.below(3) as i32, me, None),
                4..6 => (0, base + 10 + self.rng.below(2) as i32, ANY_SOURCE, None),
                6..8 => (1, base + self.rng.below(50) as i32, me, Some(ANY_TAG)),
                8..10 => (2 + round, base + self.rng.below(50) as i32, ANY_SOURCE, Some(ANY_TAG)),
                _ => (0, lone, me, None),
            };
            let cancel = kind == 10;
            // A probe must not wait for a message that may be cancelled.
            let how = if cancel { How::Posted } else { how };
            let m = Message { from, to, comm, tag, len, mode, stream: 0, cancel };
            let stream = self.add(round, m, source, receive_tag.unwrap_or(tag), how);
            if kind == 11 && self.rng.one_in(2) {
                // A separate receive that is too small.
                self.plan.streams[stream].room = self.rng.index(len.max(1));
            }
        }
        for rank in 0..self.plan.ranks {
            for _ in 0..self.rng.below(2) {
                self.plan.rounds[rank as usize][round].ops.push(Op::Never);
            }
            self.shuffle(rank as usize, round);
        }
        let used = self.used(round);
        for a in 0..self.plan.ranks {
            for b in a + 1..self.plan.ranks {
                // Without a message, one may have left the round before the other knows of a
                // connection.
                if used.contains(&(a, b)) && self.rng.one_in(3) {
                    self.plan.rounds[a as usize][round].disconnect.push(b);
                    self.plan.rounds[b as usize][round].disconnect.push(a);
                }
            }
        }
    }

    /// Returns the pairs between which a message of the round is certainly received.
    fn used(&self, round: usize) -> BTreeSet<(u32, u32)> {
        let ops = self.plan.rounds.iter().flat_map(|r| &r[round].ops);
        let sent =
            ops.filter_map(|o| if let Op::Send(id) = o { Some(&self.plan.messages[*id]) } else { None });
        sent.filter(|m| !m.cancel).map(|m| (m.from.min(m.to), m.from.max(m.to))).collect()
    }

    /// Adds a message with its receive; returns the receive's stream.
    pub(crate) fn add(&mut self, round: usize, mut m: Message, source: i32, tag: i32, how: How) -> usize {
        let streams = &mut self.plan.streams;
        let stream = *self.by_args.entry((m.to, m.comm, source, tag)).or_insert_with(|| {
            streams.push(Stream {
                to: m.to,
                comm: m.comm,
                source,
                tag,
                room: 0,
                messages: Vec::new(),
                revocable: m.cancel,
            });
            streams.len() - 1
        });
        let s = &mut streams[stream];
        s.room = s.room.max(m.len);
        s.messages.push(self.plan.messages.len());
        m.stream = stream;
        let id = self.plan.messages.len();
        self.plan.rounds[m.from as usize][round].ops.push(Op::Send(id));
        self.plan.rounds[m.to as usize][round].ops.push(Op::Receive(stream, how));
        self.plan.messages.push(m);
        stream
    }

    /// Mixes a round's receives and other operations with its sends, whose order stays.
    fn shuffle(&mut self, rank: usize, round: usize) {
        let ops = std::mem::take(&mut self.plan.rounds[rank][round].ops);
        let (sends, mut others): (Vec<Op>, Vec<Op>) = ops.into_iter().partition(|o| matches!(o, Op::Send(_)));
        for i in (1..others.len()).rev() {
            others.swap(i, self.rng.index(i + 1));
        }
        let (mut sends, mut others) = (sends.into_iter().peekable(), others.into_iter().peekable());
        let sends_first = self.rng.range(1, 9);
        let out = &mut self.plan.rounds[rank][round].ops;
        while sends.peek().is_some() || others.peek().is_some() {
            let next = if self.rng.below(10) < sends_first { sends.next() } else { others.next() };
            out.extend(next);
        }
    }

    fn faults(&mut self) {
        let n = self.plan.ranks;
        let rng = &mut self.rng;
        let when = |rng: &mut Rng| {
            let order = rng.range(3, 12);
            rng.range(1, 1 << order)
        };
        let halves = |rng: &mut Rng| (0..n).map(|_| rng.one_in(2)).collect::<Vec<bool>>();
        let mut faults = Vec::new();
        match self.plan.fault_kind {
            FaultKind::Calm => {}
            FaultKind::Shaky => {
                for _ in 0..rng.range(1, 3) {
                    let lasts = Some(rng.pick(&[10_000, 1_000_000, 1_000_000_000]));
                    faults.push((when(rng), Fault::Partition { side: halves(rng), lasts }));
                }
            }
            FaultKind::Cuts => {
                for _ in 0..rng.range(1, 3) {
                    faults.push((when(rng), Fault::Cut));
                }
                if rng.one_in(4) {
                    faults.push((when(rng), Fault::Partition { side: halves(rng), lasts: None }));
                }
            }
            FaultKind::Crashes => {
                for _ in 0..rng.range(1, u64::from(n - 1)) {
                    faults.push((when(rng), Fault::Crash(rng.below(u64::from(n)) as u32)));
                }
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        self.plan.faults = faults;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_its_receive() {
        for seed in 0..200 {
            let plan = Plan::random(seed, None);
            let mut receives = vec![0; plan.streams.len()];
            for op in plan.rounds.iter().flatten().flat_map(|r| &r.ops) {
                if let Op::Receive(s, _) = op {
                    receives[*s] += 1;
                }
            }
            for (s, n) in plan.streams.iter().zip(receives) {
                assert_eq!(s.messages.len(), n);
                assert!(!s.revocable || n == 1);
            }
            for (id, m) in plan.messages.iter().enumerate() {
                let s = &plan.streams[m.stream];
                assert!(s.to == m.to && s.comm == m.comm && s.messages.contains(&id));
                assert!(s.source == ANY_SOURCE || s.source == m.from as i32);
                assert!(s.tag == ANY_TAG || s.tag == m.tag);
            }
        }
    }

    #[test]
    fn contents_differ() {
        let plan = Plan::random(3, None);
        let mut m = plan.messages[0].clone();
        m.len = 40;
        assert_ne!(m.content(1), m.content(2));
        assert_eq!(m.content(7)[..4], 7u32.to_le_bytes());
        m.len = 3;
        assert_eq!(m.content(7).len(), 3);
    }
}

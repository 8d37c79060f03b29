//! What the ranks of a simulated job do: messages, rounds, disconnects, faults; all from the seed.
//!
//! Every receive belongs to a stream: the receives of one rank with the same arguments, of which there
//! are as many as messages that match them and no others. So no receive can take the message that another
//! one needs, and the k-th receive of a stream that got its message from a source got the k-th that this
//! source sent to the stream.

use std::collections::{BTreeMap, BTreeSet};

use ch3_shim::{ANY_SOURCE, ANY_TAG, Mode};

use crate::net::Profile;
use netmod_harness::Rng;
use netmod_harness::rng::mix;

/// First tag of messages that are received by themselves.
const LONE: i32 = 1_000_000;
/// Tags of one round.
const ROUND_TAGS: i32 = 100;
/// Tag that nobody sends with.
pub(crate) const NEVER_TAG: i32 = 999_999;
/// Tag of a message that only shows whether its receiver is there.
pub(crate) const POKE_TAG: i32 = 999_998;

/// How a receive is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `irecv`.
    Posted,
    /// `iprobe` until it says yes, then a receive of what it said.
    Probed,
    /// `improbe` until it says yes, then `imrecv`.
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
    /// Its sender asks for it back as soon as it is sent.
    pub(crate) cancel: bool,
}

impl Message {
    /// Its bytes: its number, if it is long enough, then what only this message has.
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

/// Receives of one rank with the same arguments.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) to: u32,
    pub(crate) comm: usize,
    pub(crate) source: i32,
    pub(crate) tag: i32,
    /// Bytes of each receive's buffer.
    pub(crate) room: usize,
    /// Its messages, in the order in which each source sends them.
    pub(crate) messages: Vec<usize>,
    /// Its only message may be taken back by its sender.
    pub(crate) revocable: bool,
}

/// One thing that a rank does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Send(usize),
    Receive(usize, How),
    /// A receive that nothing can match, and its cancellation.
    Never,
}

/// What a rank does in one round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// Done in this order, without waiting.
    pub(crate) ops: Vec<Op>,
    /// Ranks that it disconnects from when all is done.
    pub(crate) disconnect: Vec<u32>,
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A connection is cut.
    Cut,
    /// A process dies.
    Crash(u32),
    /// The network falls into two halves, for so many nanoseconds, or for good.
    Partition { side: Vec<bool>, lasts: Option<u64> },
}

/// What may happen in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nothing goes wrong.
    Calm,
    /// The network stops now and then, but loses nothing.
    Shaky,
    /// Connections are cut, for good halves of the network too.
    Cuts,
    /// Processes die.
    Crashes,
}

impl Mood {
    /// Whether requests may fail.
    pub fn is_lossy(self) -> bool {
        matches!(self, Mood::Cuts | Mood::Crashes)
    }
}

/// A whole job.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) ranks: u32,
    pub(crate) mood: Mood,
    pub(crate) profile: Profile,
    pub(crate) eager_max: usize,
    pub(crate) comms: usize,
    pub(crate) messages: Vec<Message>,
    pub(crate) streams: Vec<Stream>,
    /// By rank, then by round.
    pub(crate) rounds: Vec<Vec<Round>>,
    /// With the step of the simulation at which each happens.
    pub(crate) faults: Vec<(u64, Fault)>,
    /// One in so many turns of a process is put off; zero for none.
    pub(crate) laziness: u64,
    /// The rank that is put off far more often, if one is.
    pub(crate) slow: Option<u32>,
}

/// The seeds in which something goes wrong, and what.
fn mood(rng: &mut Rng) -> Mood {
    match rng.below(10) {
        0..5 => Mood::Calm,
        5..7 => Mood::Shaky,
        7 => Mood::Cuts,
        _ => Mood::Crashes,
    }
}

struct Maker {
    rng: Rng,
    plan: Plan,
    /// Streams by rank, communicator, source, tag.
    by_args: BTreeMap<(u32, usize, i32, i32), usize>,
    longest: usize,
}

impl Plan {
    /// The plan of a seed, with so many ranks or as many as the seed says.
    pub(crate) fn random(seed: u64, ranks: Option<u32>) -> Plan {
        let mut rng = Rng::new(mix(seed ^ 0x5eed));
        let ranks = ranks.unwrap_or_else(|| rng.range(2, 6) as u32);
        let profile = Profile::random(&mut rng);
        let longest = (profile.capacity * 40).min(200_000);
        let rounds = rng.range(1, 3) as usize;
        let plan = Plan {
            ranks,
            mood: mood(&mut rng),
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

    /// Each rank sends to its neighbours, and to the ranks at distances of all powers of two, small
    /// messages in `rounds` rounds.
    pub(crate) fn neighbours(ranks: u32, rounds: usize) -> Plan {
        let rng = Rng::new(1);
        let plan = Plan {
            ranks,
            mood: Mood::Calm,
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
        let mut maker = Maker { rng, plan, by_args: BTreeMap::new(), longest: 8 };
        for round in 0..rounds {
            for from in 0..ranks {
                let mut step = 1;
                while step < ranks {
                    let m = Message {
                        from,
                        to: (from + step) % ranks,
                        comm: 0,
                        tag: round as i32,
                        len: 8,
                        mode: Mode::Standard,
                        stream: 0,
                        cancel: false,
                    };
                    maker.add(round, m, from as i32, round as i32, How::Posted);
                    step *= 2;
                }
                // The left neighbour too: a stencil.
                let left = (from + ranks - 1) % ranks;
                let m = Message {
                    from,
                    to: left,
                    comm: 0,
                    tag: 50 + round as i32,
                    len: 100,
                    mode: Mode::Standard,
                    stream: 0,
                    cancel: false,
                };
                maker.add(round, m, from as i32, 50 + round as i32, How::Posted);
            }
        }
        maker.plan
    }

    /// All ranks but 0 send one message to rank 0 at once.
    pub(crate) fn storm(ranks: u32, seed: u64) -> Plan {
        let mut plan = Plan::neighbours(ranks, 0);
        plan.rounds = vec![vec![Round::default()]; ranks as usize];
        let mut maker = Maker { rng: Rng::new(seed), plan, by_args: BTreeMap::new(), longest: 8 };
        for from in 1..ranks {
            let m =
                Message { from, to: 0, comm: 0, tag: 0, len: 64, mode: Mode::Sync, stream: 0, cancel: false };
            maker.add(0, m, ANY_SOURCE, 0, How::Posted);
        }
        maker.plan
    }
}

impl Maker {
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
            // A message that may be taken back cannot be waited for with a probe.
            let how = if cancel { How::Posted } else { how };
            let m = Message { from, to, comm, tag, len, mode, stream: 0, cancel };
            let stream = self.add(round, m, source, receive_tag.unwrap_or(tag), how);
            if kind == 11 && self.rng.one_in(2) {
                // A receive that is too small, and by itself.
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
                // Without a message the one may have left the round before the other knows of a connection.
                if used.contains(&(a, b)) && self.rng.one_in(3) {
                    self.plan.rounds[a as usize][round].disconnect.push(b);
                    self.plan.rounds[b as usize][round].disconnect.push(a);
                }
            }
        }
    }

    /// Pairs between which a message of the round is surely received.
    fn used(&self, round: usize) -> BTreeSet<(u32, u32)> {
        let ops = self.plan.rounds.iter().flat_map(|r| &r[round].ops);
        let sent =
            ops.filter_map(|o| if let Op::Send(id) = o { Some(&self.plan.messages[*id]) } else { None });
        sent.filter(|m| !m.cancel).map(|m| (m.from.min(m.to), m.from.max(m.to))).collect()
    }

    /// Adds a message, with its receive; the receive's stream.
    fn add(&mut self, round: usize, mut m: Message, source: i32, tag: i32, how: How) -> usize {
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

    /// Mixes a round's receives and other things with its sends, whose order stays.
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
        match self.plan.mood {
            Mood::Calm => {}
            Mood::Shaky => {
                for _ in 0..rng.range(1, 3) {
                    let lasts = Some(rng.pick(&[10_000, 1_000_000, 1_000_000_000]));
                    faults.push((when(rng), Fault::Partition { side: halves(rng), lasts }));
                }
            }
            Mood::Cuts => {
                for _ in 0..rng.range(1, 3) {
                    faults.push((when(rng), Fault::Cut));
                }
                if rng.one_in(4) {
                    faults.push((when(rng), Fault::Partition { side: halves(rng), lasts: None }));
                }
            }
            Mood::Crashes => {
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

//! The global knowledge about a simulated job, and its invariants.

use std::collections::BTreeSet;

use ch3_shim::{ANY_SOURCE, Mode, Status};

use crate::plan::{Message, Plan, Stream};

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) String);

impl<E: std::error::Error> From<E> for Wrong {
    fn from(e: E) -> Wrong {
        Wrong(e.to_string())
    }
}

/// Returns the error for a violated invariant.
pub(crate) fn wrong<T>(what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong(what.into()))
}

/// Outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Sent,
    Cancelled,
    Failed,
}

/// A message received by a receive.
#[derive(Clone, Copy, Debug)]
struct Got {
    source: u32,
    tag: i32,
    len: usize,
    /// Its number, if it was long enough to contain it.
    id: Option<usize>,
}

/// The receives of a stream, in the order in which they were posted or matched.
#[derive(Clone, Debug, Default)]
struct Taken(Vec<Option<Got>>);

/// The global knowledge about a job.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    taken: Vec<Taken>,
    fates: Vec<Fate>,
    pub(crate) crashed: Vec<bool>,
    /// Pairs whose connection was severed.
    cut: BTreeSet<(u32, u32)>,
    /// Pairs of which one has not closed its connection in time; they are half closed from then on.
    late: BTreeSet<(u32, u32)>,
    /// True if ranks give up requests that may never complete: receives from any source, and
    /// receives from ranks that they never had a connection with.
    pub(crate) giving_up: bool,
    /// Ranks that have begun to finalize.
    finalizing: Vec<bool>,
    /// Counter of begun and ended operations.
    pub(crate) activity: u64,
    /// Number of received messages.
    pub(crate) received: u64,
    /// Number of requests that failed with a peer.
    pub(crate) failures: u64,
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        World {
            taken: vec![Taken::default(); plan.streams.len()],
            fates: vec![Fate::Open; plan.messages.len()],
            crashed: vec![false; plan.ranks as usize],
            cut: BTreeSet::new(),
            late: BTreeSet::new(),
            giving_up: false,
            finalizing: vec![false; plan.ranks as usize],
            activity: 0,
            received: 0,
            failures: 0,
            plan,
        }
    }

    pub(crate) fn message(&self, id: usize) -> &Message {
        &self.plan.messages[id]
    }

    pub(crate) fn stream(&self, stream: usize) -> &Stream {
        &self.plan.streams[stream]
    }

    /// Records that the connection of two ranks was severed: messages between them may fail from
    /// now on.
    pub(crate) fn cut(&mut self, a: u32, b: u32) {
        self.cut.insert((a.min(b), a.max(b)));
    }

    /// Records that one of two ranks did not close their connection in time.
    pub(crate) fn late(&mut self, a: u32, b: u32) {
        self.late.insert((a.min(b), a.max(b)));
    }

    /// Records that a rank has begun to finalize.
    pub(crate) fn finalizes(&mut self, rank: u32) {
        self.finalizing[rank as usize] = true;
    }

    /// Returns true if a rank's finalize may name this peer: it is out of reach, or it has
    /// finalized in a job that gives up, where it leaves messages to itself behind.
    pub(crate) fn may_be_named(&self, peer: u32, by: u32) -> bool {
        self.tainted(peer, by) || self.giving_up && self.finalizing[peer as usize]
    }

    pub(crate) fn is_late(&self, a: u32, b: u32) -> bool {
        self.late.contains(&(a.min(b), a.max(b)))
    }

    /// Returns true if messages between two ranks may fail.
    pub(crate) fn tainted(&self, a: u32, b: u32) -> bool {
        a != b
            && (self.crashed[a as usize]
                || self.crashed[b as usize]
                || self.cut.contains(&(a.min(b), a.max(b)))
                || self.is_late(a, b))
    }

    /// Returns true if messages from a source, or from any source, to a rank may fail.
    pub(crate) fn tainted_source(&self, source: i32, to: u32) -> bool {
        if source == ANY_SOURCE {
            return (0..self.plan.ranks).any(|r| self.tainted(r, to));
        }
        self.tainted(source as u32, to)
    }

    /// Returns true if the only message of a stream was cancelled.
    pub(crate) fn is_revoked(&self, stream: usize) -> bool {
        let s = self.stream(stream);
        s.revocable && s.messages.iter().all(|id| self.fates[*id] == Fate::Cancelled)
    }

    /// Records a posted or matched receive of a stream, and returns its position.
    pub(crate) fn post(&mut self, stream: usize) -> usize {
        self.taken[stream].0.push(None);
        self.taken[stream].0.len() - 1
    }

    /// Records a cancelled send.
    pub(crate) fn taken_back(&mut self, id: usize, given_up: bool) -> Result<(), Wrong> {
        let m = &self.plan.messages[id];
        if !m.cancel && !given_up {
            return wrong(format!("message {id} was cancelled by nobody: {m:?}"));
        }
        self.fates[id] = Fate::Cancelled;
        Ok(())
    }

    /// Records the end of a send.
    pub(crate) fn sent(&mut self, id: usize, fate: Fate) -> Result<(), Wrong> {
        self.fates[id] = fate;
        let m = &self.plan.messages[id];
        let s = &self.plan.streams[m.stream];
        match fate {
            Fate::Sent if m.mode == Mode::Sync && s.source != ANY_SOURCE => {
                let position = s.messages.iter().position(|i| *i == id).unwrap_or(0);
                if self.taken[m.stream].0.len() <= position {
                    return wrong(format!("synchronous message {id} was sent before its receive: {m:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records the end of a receive.
    pub(crate) fn received(
        &mut self,
        stream: usize,
        position: usize,
        status: &Status,
        data: Option<&[u8]>,
    ) -> Result<(), Wrong> {
        let s = &self.plan.streams[stream];
        let Ok(source) = u32::try_from(status.source) else {
            return wrong(format!("a receive of {s:?} has status {status:?}"));
        };
        let mut id = None;
        if let Some(data) = data {
            let Some(data) = data.get(..status.len) else {
                return wrong(format!("{status:?} for a buffer of {} bytes", data.len()));
            };
            if let Some(head) = data.first_chunk::<4>() {
                let n = u32::from_le_bytes(*head) as usize;
                let m = self.plan.messages.get(n).filter(|m| m.stream == stream && m.from == source);
                let Some(m) = m.filter(|m| m.content(n) == data) else {
                    return wrong(format!(
                        "a receive of {s:?} got {status:?} with contents that no message of this source has (perhaps {n})"
                    ));
                };
                if self.fates[n] == Fate::Cancelled {
                    return wrong(format!("message {n} was received although it was cancelled: {m:?}"));
                }
                id = Some(n);
            }
        }
        self.taken[stream].0[position] = Some(Got { source, tag: status.tag, len: status.len, id });
        self.received += 1;
        Ok(())
    }

    /// Checks that nothing was lost, duplicated or reordered.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        for (s, taken) in self.plan.streams.iter().zip(&self.taken) {
            if !self.crashed[s.to as usize] {
                self.check_stream(s, taken)?;
            }
        }
        Ok(())
    }

    fn check_stream(&self, s: &Stream, taken: &Taken) -> Result<(), Wrong> {
        let mut sources: Vec<u32> = s.messages.iter().map(|id| self.message(*id).from).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in sources {
            let mut expected = s
                .messages
                .iter()
                .copied()
                .filter(|id| self.message(*id).from == source && self.fates[*id] != Fate::Cancelled);
            let got: Vec<Got> = taken.0.iter().flatten().copied().filter(|g| g.source == source).collect();
            let told = || format!("rank {}, from rank {source}, {s:?}: got {got:?}", s.to);
            let any = s.source == ANY_SOURCE && (self.giving_up || self.tainted_source(ANY_SOURCE, s.to));
            if any || self.tainted(source, s.to) {
                // Some may be missing; the received ones are in order, and none was received twice.
                for g in got.iter().filter_map(|g| g.id) {
                    if !expected.any(|id| id == g) {
                        return wrong(format!("{}: {g} is out of order, or came twice", told()));
                    }
                }
                continue;
            }
            for g in &got {
                let Some(id) = expected.next() else { return wrong(format!("{}: one too many", told())) };
                let m = self.message(id);
                if g.id.is_some_and(|i| i != id) || g.tag != m.tag || g.len != m.len.min(s.room) {
                    return wrong(format!("{}: {g:?} came instead of {id}, {m:?}", told()));
                }
            }
            if let Some(lost) = expected.next() {
                return wrong(format!("{}: message {lost} was lost", told()));
            }
        }
        Ok(())
    }
}

//! Small agreements of a group by messages: everybody's records to all, or a word-wise "and".
//!
//! They go on in steps, so that other operations of the process go on meanwhile, and own their
//! memory. All are dissemination: in round k each process sends to the one 2^k ranks away.

use std::sync::Arc;

use ch3_shim::{Request, Vci};

use crate::comm::CommCore;
use crate::error::Result;
use crate::ranks::Ranks;
use crate::status::failure;

/// The processes that agree, and the tag of their messages.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub core: Arc<CommCore>,
    /// Ranks in the job, in the order of the party.
    pub places: Arc<[u32]>,
    /// Index of this process.
    pub me: usize,
    pub tag: i32,
}

impl Party {
    /// Makes the party of all processes of a communicator, for its next collective operation.
    pub(crate) fn of_all(core: &Arc<CommCore>) -> Party {
        Party {
            places: Arc::clone(core.group().places()),
            me: core.rank() as usize,
            tag: core.next_tag(),
            core: Arc::clone(core),
        }
    }

    /// Makes the party of both groups of an intercommunicator, in an order that both know.
    pub(crate) fn of_both(core: &Arc<CommCore>, remote: &Ranks) -> Party {
        let (own, other) = (core.group().places(), remote.places());
        let own_first = core.is_first();
        let (first, second) = if own_first { (own, other) } else { (other, own) };
        let before = if own_first { 0 } else { other.len() };
        Party {
            places: first.iter().chain(second.iter()).copied().collect(),
            me: before + core.rank() as usize,
            tag: core.next_tag(),
            core: Arc::clone(core),
        }
    }
}

/// One message to a process and one from another.
#[derive(Debug)]
struct Round {
    send: Request,
    receive: Request,
}

impl Round {
    /// Starts to send `data` to a member, and to receive `room` bytes from another.
    fn begin(
        vci: &mut Vci,
        party: &Party,
        to: usize,
        data: Vec<u8>,
        from: usize,
        room: usize,
    ) -> Result<Round> {
        let Party { core, places, tag, .. } = party;
        let failed = |e: Box<ch3_shim::Failed>| failure(e.error, core);
        let receive =
            vci.irecv(vec![0; room], places[from].cast_signed(), *tag, core.coll).map_err(failed)?;
        let send =
            vci.isend(data, places[to].cast_signed(), *tag, core.coll_to(places[to])).map_err(failed)?;
        Ok(Round { send, receive })
    }

    /// Returns true if both messages are over.
    fn is_over(&self, vci: &Vci) -> bool {
        vci.is_settled(self.send.raw()) && vci.is_settled(self.receive.raw())
    }

    /// Returns what was received; both messages are over.
    fn end(self, vci: &mut Vci, core: &CommCore) -> Result<Vec<u8>> {
        let sent = vci.wait(self.send).map_err(|e| failure(e.error, core));
        let received = vci.wait(self.receive).map_err(|e| failure(e.error, core));
        sent.and(received).map(|done| done.buffer)
    }
}

/// The word-wise "and" of everybody's words.
#[derive(Debug)]
pub(crate) struct AndAll {
    party: Party,
    words: Vec<u64>,
    step: usize,
    round: Option<Round>,
}

impl AndAll {
    /// Prepares it with this process's words.
    pub(crate) fn new(party: Party, words: Vec<u64>) -> AndAll {
        AndAll { party, words, step: 1, round: None }
    }

    /// Goes as far as it can; the result once it is there.
    ///
    /// # Errors
    /// A peer that is lost.
    pub(crate) fn advance(&mut self, vci: &mut Vci) -> Result<Option<&[u64]>> {
        let n = self.party.places.len();
        loop {
            if let Some(round) = self.round.take() {
                if !round.is_over(vci) {
                    self.round = Some(round);
                    return Ok(None);
                }
                let got = round.end(vci, &self.party.core)?;
                for (word, bytes) in self.words.iter_mut().zip(got.as_chunks::<8>().0) {
                    *word &= u64::from_le_bytes(*bytes);
                }
                self.step *= 2;
            }
            if self.step >= n {
                return Ok(Some(&self.words));
            }
            let (to, from) = ((self.party.me + self.step) % n, (self.party.me + n - self.step) % n);
            let data: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let room = data.len();
            self.round = Some(Round::begin(vci, &self.party, to, data, from, room)?);
        }
    }
}

/// Everybody's record, in the order of the party.
#[derive(Debug)]
pub(crate) struct GatherAll {
    party: Party,
    record: usize,
    /// Records from this process's own on.
    data: Vec<u8>,
    round: Option<Round>,
}

impl GatherAll {
    /// Prepares it with this process's record; all have the same length, which is not 0.
    pub(crate) fn new(party: Party, record: Vec<u8>) -> GatherAll {
        GatherAll { party, record: record.len(), data: record, round: None }
    }

    /// Goes as far as it can; the records, one after the other, once they are there.
    ///
    /// # Errors
    /// A peer that is lost.
    pub(crate) fn advance(&mut self, vci: &mut Vci) -> Result<Option<Vec<u8>>> {
        let n = self.party.places.len();
        loop {
            if let Some(round) = self.round.take() {
                if !round.is_over(vci) {
                    self.round = Some(round);
                    return Ok(None);
                }
                self.data.extend(round.end(vci, &self.party.core)?);
            }
            let have = self.data.len() / self.record;
            if have >= n {
                // The first record is this process's own.
                let mut all = std::mem::take(&mut self.data);
                all.rotate_right(self.party.me * self.record);
                return Ok(Some(all));
            }
            let count = have.min(n - have);
            let (to, from) = ((self.party.me + n - have) % n, (self.party.me + have) % n);
            let data = self.data[..count * self.record].to_vec();
            let room = data.len();
            self.round = Some(Round::begin(vci, &self.party, to, data, from, room)?);
        }
    }
}

//! Small agreements of a group by messages: everybody's records to all, or a word-wise "and".
//!
//! They go on in steps, so that other operations of the process go on meanwhile, and own their
//! memory. All are dissemination: in round k each process sends to the one 2^k ranks away.
//!
//! A process that has lost a peer takes part to the end, with empty messages, since others wait for
//! its messages. So these have lost somebody, too.

use std::sync::Arc;

use ch3_shim::{Request, Vci};

use crate::comm::CommCore;
use crate::error::{Class, MpiError, Result};
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

/// One message to a process and one from another. Either may have failed at its start.
#[derive(Debug)]
struct Round {
    send: Result<Request>,
    receive: Result<Request>,
    /// Bytes that are expected.
    room: usize,
}

impl Round {
    /// Starts to send `data` to a member, and to receive `room` bytes from another.
    fn begin(vci: &mut Vci, party: &Party, to: usize, data: Vec<u8>, from: usize, room: usize) -> Round {
        let Party { core, places, tag, .. } = party;
        let failed = |e: Box<ch3_shim::Failed>| failure(e.error, core);
        if core.is_revoked() {
            let revoked = || Err(failure(ch3_shim::Error::Revoked, core));
            return Round { send: revoked(), receive: revoked(), room };
        }
        let receive = vci.irecv(vec![0; room], places[from].cast_signed(), *tag, core.coll);
        let send = vci.isend(data, places[to].cast_signed(), *tag, core.coll_to(places[to]));
        Round { send: send.map_err(failed), receive: receive.map_err(failed), room }
    }

    /// Returns true if both messages are over.
    fn is_over(&self, vci: &Vci) -> bool {
        let goes_on = |message: &Result<Request>| message.as_ref().is_ok_and(|m| !vci.is_settled(m.raw()));
        !goes_on(&self.send) && !goes_on(&self.receive)
    }

    /// Returns what was received; both messages are over.
    fn end(self, vci: &mut Vci, core: &CommCore) -> Result<Vec<u8>> {
        let mut wait = |message: Result<Request>| vci.wait(message?).map_err(|e| failure(e.error, core));
        let (sent, received) = (wait(self.send), wait(self.receive));
        let done = sent.and(received)?;
        if done.status.len != self.room {
            return Err(MpiError::new(
                Class::PROC_FAILED,
                "another process of the communicator has lost a peer",
            ));
        }
        Ok(done.buffer)
    }
}

/// The word-wise "and" of everybody's words.
#[derive(Debug)]
pub(crate) struct AndAll {
    party: Party,
    words: Vec<u64>,
    step: usize,
    round: Option<Round>,
    failed: Option<Box<MpiError>>,
}

impl AndAll {
    /// Prepares it with this process's words.
    pub(crate) fn new(party: Party, words: Vec<u64>) -> AndAll {
        AndAll { party, words, step: 1, round: None, failed: None }
    }

    /// Lets the others know that this process has failed before.
    pub(crate) fn refuse(vci: &mut Vci, party: &Party) {
        let n = party.places.len();
        for step in (0..usize::BITS).map(|k| 1 << k).take_while(|step| *step < n) {
            let place = party.places[(party.me + step) % n];
            // One that is lost needs to know nothing.
            let _ = vci.isend(Vec::new(), place.cast_signed(), party.tag, party.core.coll_to(place));
        }
    }

    /// Goes as far as it can; the result once it is there.
    ///
    /// # Errors
    /// A peer that is lost, of this process or of another one.
    pub(crate) fn advance(&mut self, vci: &mut Vci) -> Result<Option<&[u64]>> {
        let n = self.party.places.len();
        loop {
            if let Some(round) = self.round.take() {
                if !round.is_over(vci) {
                    self.round = Some(round);
                    return Ok(None);
                }
                match round.end(vci, &self.party.core) {
                    Ok(got) => {
                        for (word, bytes) in self.words.iter_mut().zip(got.as_chunks::<8>().0) {
                            *word &= u64::from_le_bytes(*bytes);
                        }
                    }
                    Err(e) => {
                        self.failed.get_or_insert(e);
                    }
                }
                self.step *= 2;
            }
            if self.step >= n {
                return self.failed.take().map_or(Ok(Some(&self.words)), Err);
            }
            let (to, from) = ((self.party.me + self.step) % n, (self.party.me + n - self.step) % n);
            let mut data: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let room = data.len();
            if self.failed.is_some() {
                data.clear();
            }
            self.round = Some(Round::begin(vci, &self.party, to, data, from, room));
        }
    }
}

/// Everybody's record, in the order of the party.
#[derive(Debug)]
pub(crate) struct GatherAll {
    party: Party,
    record: usize,
    /// Records from this process's own on; zeros in place of those that were lost.
    data: Vec<u8>,
    round: Option<Round>,
    failed: Option<Box<MpiError>>,
}

impl GatherAll {
    /// Prepares it with this process's record; all have the same length, which is not 0.
    pub(crate) fn new(party: Party, record: Vec<u8>) -> GatherAll {
        GatherAll { party, record: record.len(), data: record, round: None, failed: None }
    }

    /// Goes as far as it can; the records, one after the other, once they are there.
    ///
    /// # Errors
    /// A peer that is lost, of this process or of another one.
    pub(crate) fn advance(&mut self, vci: &mut Vci) -> Result<Option<Vec<u8>>> {
        let n = self.party.places.len();
        loop {
            if let Some(round) = self.round.take() {
                if !round.is_over(vci) {
                    self.round = Some(round);
                    return Ok(None);
                }
                let room = round.room;
                match round.end(vci, &self.party.core) {
                    Ok(got) => self.data.extend(got),
                    Err(e) => {
                        self.failed.get_or_insert(e);
                        self.data.resize(self.data.len() + room, 0);
                    }
                }
            }
            let have = self.data.len() / self.record;
            if have >= n {
                if let Some(e) = self.failed.take() {
                    return Err(e);
                }
                // The first record is this process's own.
                let mut all = std::mem::take(&mut self.data);
                all.rotate_right(self.party.me * self.record);
                return Ok(Some(all));
            }
            let count = have.min(n - have);
            let (to, from) = ((self.party.me + n - have) % n, (self.party.me + have) % n);
            let room = count * self.record;
            let data = if self.failed.is_some() { Vec::new() } else { self.data[..room].to_vec() };
            self.round = Some(Round::begin(vci, &self.party, to, data, from, room));
        }
    }
}

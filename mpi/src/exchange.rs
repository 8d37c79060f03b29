//! Small agreements of a group by messages: everybody's records to all, or a word-wise "and".
//!
//! They go on in steps, so that other operations of the process go on meanwhile, and own their
//! memory. All are dissemination: in round k each process sends to the one 2^k ranks away.
//!
//! A process that has lost a peer takes part to the end, since others wait for its messages: with
//! messages that name whom it has lost. So these have lost somebody, too.
//!
//! An exchange may succeed in some processes and fail in others. So one in which it has failed
//! refuses the exchanges that the others go on to, since these wait for it.

use std::sync::Arc;

use ch3_shim::{Request, Vci, process_of, thread_of};

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

/// A failure of an exchange.
#[derive(Debug)]
struct Lost {
    error: Box<MpiError>,
    /// The lost member, if it is known.
    member: Option<usize>,
}

impl Lost {
    /// Returns the message of this failure in place of one of `len` bytes, of which its length
    /// tells it apart.
    fn message(&self, len: usize) -> Vec<u8> {
        let member = self.member.and_then(|member| u32::try_from(member).ok()).unwrap_or(u32::MAX);
        let mut bytes = member.to_le_bytes().to_vec();
        bytes.resize(message_len(len), 0);
        bytes
    }

    /// Reads such a message.
    fn of_message(bytes: &[u8], vci: &Vci, party: &Party) -> Lost {
        let member = bytes.first_chunk().map(|member| u32::from_le_bytes(*member) as usize);
        let member = member.filter(|member| *member < party.places.len());
        let who = match member.map(|member| party.places[member]) {
            Some(place) => {
                format!("{} has failed, as another process of the communicator", named(vci, place))
            }
            None => "another process of the communicator has lost a peer, as it".into(),
        };
        Lost { error: MpiError::new(Class::PROC_FAILED, format!("{who} tells")), member }
    }
}

/// Length of the message of a failure in place of one of `len` bytes.
fn message_len(len: usize) -> usize {
    if len == 4 { 5 } else { 4 }
}

/// Returns a process's name for errors.
pub(crate) fn named(vci: &Vci, place: u32) -> String {
    if let Some(thread) = thread_of(place) {
        return format!("thread {thread} of rank {} of the job", process_of(place));
    }
    match vci.job_at(place).filter(|_| place >= vci.size()) {
        Some((_, rank)) => format!("rank {rank} of another job"),
        None => format!("rank {place} of the job"),
    }
}

/// One message to a process and one from another. Either may have failed at its start.
#[derive(Debug)]
struct Round {
    send: Result<Request>,
    receive: Result<Request>,
    /// The members to whom and from whom they are.
    to: usize,
    from: usize,
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
            return Round { send: revoked(), receive: revoked(), to, from, room };
        }
        let receive =
            vci.irecv(vec![0; room.max(message_len(room))], places[from].cast_signed(), *tag, core.coll);
        let send = vci.isend(data, places[to].cast_signed(), *tag, core.coll_to(places[to]));
        Round { send: send.map_err(failed), receive: receive.map_err(failed), to, from, room }
    }

    /// Returns true if both messages are over.
    fn is_over(&self, vci: &Vci) -> bool {
        let goes_on = |message: &Result<Request>| message.as_ref().is_ok_and(|m| !vci.is_settled(m.raw()));
        !goes_on(&self.send) && !goes_on(&self.receive)
    }

    /// Returns what was received; both messages are over.
    fn end(self, vci: &mut Vci, party: &Party) -> std::result::Result<Vec<u8>, Lost> {
        let mut wait = |message: Result<Request>, member| {
            let done = message.and_then(|m| vci.wait(m).map_err(|e| failure(e.error, &party.core)));
            done.map_err(|error| {
                let member = Some(member).filter(|_| error.class == Class::PROC_FAILED);
                Lost { error, member }
            })
        };
        let (sent, received) = (wait(self.send, self.to), wait(self.receive, self.from));
        let mut done = sent.and(received)?;
        done.buffer.truncate(done.status.len);
        if done.status.len != self.room {
            return Err(Lost::of_message(&done.buffer, vci, party));
        }
        Ok(done.buffer)
    }
}

/// Sends nothing in place of the message of each round; `distance` is that of its receiver.
fn refuse(vci: &mut Vci, party: &Party, distance: impl Fn(usize, usize) -> usize) {
    let n = party.places.len();
    if party.core.is_revoked() {
        return;
    }
    for step in (0..usize::BITS).map(|k| 1 << k).take_while(|step| *step < n) {
        let place = party.places[(party.me + distance(step, n)) % n];
        // One that is lost needs to know nothing.
        let _ = vci.isend(Vec::new(), place.cast_signed(), party.tag, party.core.coll_to(place));
    }
}

/// The word-wise "and" of everybody's words.
#[derive(Debug)]
pub(crate) struct AndAll {
    party: Party,
    words: Vec<u64>,
    step: usize,
    round: Option<Round>,
    failed: Option<Lost>,
}

impl AndAll {
    /// Prepares it with this process's words.
    pub(crate) fn new(party: Party, words: Vec<u64>) -> AndAll {
        AndAll { party, words, step: 1, round: None, failed: None }
    }

    /// Lets the others know that this process has failed before.
    pub(crate) fn refuse(vci: &mut Vci, party: &Party) {
        refuse(vci, party, |step, n| step % n);
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
                match round.end(vci, &self.party) {
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
                return self.failed.take().map_or(Ok(Some(&self.words)), |lost| Err(lost.error));
            }
            let (to, from) = ((self.party.me + self.step) % n, (self.party.me + n - self.step) % n);
            let mut data: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let room = data.len();
            if let Some(lost) = &self.failed {
                data = lost.message(room);
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
    failed: Option<Lost>,
}

impl GatherAll {
    /// Lets the others know that this process has failed before.
    pub(crate) fn refuse(vci: &mut Vci, party: &Party) {
        refuse(vci, party, |step, n| n - step);
    }

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
                match round.end(vci, &self.party) {
                    Ok(got) => self.data.extend(got),
                    Err(e) => {
                        self.failed.get_or_insert(e);
                        self.data.resize(self.data.len() + room, 0);
                    }
                }
            }
            let have = self.data.len() / self.record;
            if have >= n {
                if let Some(lost) = self.failed.take() {
                    return Err(lost.error);
                }
                // The first record is this process's own.
                let mut all = std::mem::take(&mut self.data);
                all.rotate_right(self.party.me * self.record);
                return Ok(Some(all));
            }
            let count = have.min(n - have);
            let (to, from) = ((self.party.me + n - have) % n, (self.party.me + have) % n);
            let room = count * self.record;
            let data = match &self.failed {
                Some(lost) => lost.message(room),
                None => self.data[..room].to_vec(),
            };
            self.round = Some(Round::begin(vci, &self.party, to, data, from, room));
        }
    }
}

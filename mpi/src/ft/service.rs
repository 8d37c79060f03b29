//! The part of each process in what goes on after failures: it answers messages of agreements and
//! hears of communicators that were revoked, whatever call it is in.
//!
//! The messages come in a context of their own, which the device watches: they raise its alarm, as
//! failures do, and every wait and test looks here then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ch3_shim::{Comm as Channel, Vci};

use super::agree::{Agreement, Outgoing, Value};
use super::wire::{self, Subject};
use crate::comm::{CommCore, Comms};
use crate::handle::Comm;
use crate::ranks::Ranks;

/// Decided agreements that are kept for processes that have not heard the decision, at most.
const KEPT: usize = 64;
/// Revocations of communicators that are not complete here that are kept, at most.
const EARLY: usize = 256;

/// An agreement of this process.
#[derive(Debug)]
struct Talk {
    id: u64,
    /// The name of its communicator, and its number in that.
    name: u64,
    number: u32,
    /// Places of the members.
    places: Arc<[u32]>,
    /// Words that each contributes.
    words: usize,
    agreement: Agreement,
}

/// The state of this process.
#[derive(Debug)]
pub(crate) struct Tolerance {
    channel: Channel,
    talks: Vec<Talk>,
    next: u64,
    /// Messages of agreements that this process does not take part in yet, with their senders.
    strays: Vec<(u32, Vec<u8>)>,
    /// Names of communicators that others have revoked, which was not done here yet.
    revoked: Vec<u64>,
    /// Channels of communicators that the device was not told of, with the processes whose
    /// messages come in them.
    untold: BTreeMap<u32, (Channel, Arc<Ranks>)>,
    /// Places of processes that an agreement has told this one of, which it may not know otherwise.
    told: BTreeSet<u32>,
    /// The program goes on after failures by these functions.
    is_used: bool,
}

/// Returns the members of a communicator, in an order that all know, and this process's index.
pub(super) fn members(core: &CommCore) -> (Arc<[u32]>, usize) {
    let own = core.group().places();
    let Some(remote) = core.remote() else { return (Arc::clone(own), core.rank() as usize) };
    let (first, second) = if core.is_first() { (own, remote.places()) } else { (remote.places(), own) };
    let before = if core.is_first() { 0 } else { first.len() };
    (first.iter().chain(second.iter()).copied().collect(), before + core.rank() as usize)
}

impl Tolerance {
    /// Begins to listen in a channel.
    pub(crate) fn new(vci: &mut Vci, channel: Channel) -> Tolerance {
        vci.watch(channel);
        Tolerance {
            channel,
            talks: Vec::new(),
            next: 0,
            strays: Vec::new(),
            revoked: Vec::new(),
            untold: BTreeMap::new(),
            told: BTreeSet::new(),
            is_used: false,
        }
    }

    /// Returns true if the program has gone on after a failure.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Notes a communicator that was made.
    pub(crate) fn note_made(&mut self, core: &CommCore) {
        if core.group().are_threads() {
            return;
        }
        let senders = core.remote().unwrap_or(core.group());
        self.untold.insert(core.id, (core.inn, Arc::clone(senders)));
    }

    /// Notes that the program goes on after failures.
    pub(super) fn note_used(&mut self) {
        self.is_used = true;
    }

    /// Notes processes that have failed, as an agreement tells.
    pub(super) fn note_told(&mut self, places: &[u32]) {
        self.told.extend(places);
    }

    /// Returns those of these places whose processes have failed, in their order.
    pub(super) fn failed_of(&self, vci: &Vci, places: &[u32]) -> Vec<u32> {
        let known = vci.failed_among(places);
        places.iter().copied().filter(|place| known.contains(place) || self.told.contains(place)).collect()
    }

    /// Forgets a communicator that is freed.
    pub(crate) fn note_freed(&mut self, core: &CommCore) {
        self.untold.remove(&core.id);
    }

    /// Does what failures and messages since the last call demand.
    pub(crate) fn serve(&mut self, vci: &mut Vci, comms: &mut Comms) {
        while let Some((_, (channel, senders))) = self.untold.pop_first() {
            vci.set_senders(channel, Arc::clone(senders.places()));
        }
        self.hear(vci);
        for at in 0..self.talks.len() {
            self.hear_of_failures(vci, at);
        }
        // One that is not complete here is revoked when it is.
        let revoked = std::mem::take(&mut self.revoked);
        self.revoked = revoked.into_iter().filter(|name| !self.revoke(vci, comms, *name, false)).collect();
        let too_many = self.revoked.len().saturating_sub(EARLY);
        self.revoked.drain(..too_many);
        // Waits look for a communicator that is complete later.
        vci.keep_alarm(!self.revoked.is_empty());
    }

    /// Takes the messages that have come.
    fn hear(&mut self, vci: &mut Vci) {
        loop {
            match vci.take_note(self.channel) {
                Ok(Some(note)) => self.receive(vci, note.source, note.data),
                Ok(None) => return,
                // Its sender has failed, which the device knows.
                Err(e) => tracing::debug!("a message of an agreement was lost: {e}"),
            }
        }
    }

    fn receive(&mut self, vci: &mut Vci, place: u32, data: Vec<u8>) {
        match wire::head(&data) {
            None => tracing::warn!(
                "a message of {} bytes from rank {place} is no step of an agreement",
                data.len()
            ),
            Some((name, Subject::Revoke)) => {
                if !self.revoked.contains(&name) {
                    self.revoked.push(name);
                }
            }
            Some((name, Subject::Agreement(number))) => {
                let its = |t: &Talk| t.name == name && t.number == number && t.places.contains(&place);
                match self.talks.iter().rposition(its) {
                    Some(at) => self.step(vci, at, place, &data),
                    None => self.strays.push((place, data)),
                }
            }
        }
    }

    /// Gives a message to an agreement.
    fn step(&mut self, vci: &mut Vci, at: usize, place: u32, data: &[u8]) {
        let talk = &mut self.talks[at];
        let Some(from) = talk.places.iter().position(|p| *p == place) else { return };
        let mut out = Outgoing::new();
        match wire::parse(data, talk.places.len(), Some(talk.words)) {
            Some(message) => talk.agreement.receive(from, message, &mut out),
            None => tracing::warn!("a message from rank {place} is no step of the agreement that it names"),
        }
        self.send(vci, at, out);
    }

    fn hear_of_failures(&mut self, vci: &mut Vci, at: usize) {
        let talk = &mut self.talks[at];
        if talk.agreement.decided().is_some() {
            return;
        }
        let mut out = Outgoing::new();
        for failed in vci.failed_among(&talk.places) {
            let member = talk.places.iter().position(|p| *p == failed);
            member.into_iter().for_each(|member| talk.agreement.fail(member, &mut out));
        }
        self.send(vci, at, out);
    }

    fn send(&mut self, vci: &mut Vci, at: usize, out: Outgoing) {
        let talk = &self.talks[at];
        for (to, message) in out {
            self.post(vci, talk.places[to], wire::emit(talk.name, talk.number, &message));
        }
    }

    fn post(&self, vci: &mut Vci, place: u32, data: Vec<u8>) {
        if let Err(e) = vci.isend(data, place.cast_signed(), 0, self.channel) {
            // The device knows then that the process has failed, and the agreement hears of it.
            tracing::debug!("rank {place} cannot be told: {}", e.error);
        }
    }

    /// Begins the next agreement of a communicator, to which this process contributes words.
    /// Returns the id by which [`Tolerance::decision`] knows it.
    pub(super) fn begin(&mut self, vci: &mut Vci, core: &CommCore, words: Vec<u64>) -> u64 {
        // Messages that are here are of agreements before.
        self.hear(vci);
        let ((places, me), number) = (members(core), core.next_agreement());
        let agreement = Agreement::new(me, places.len());
        let id = self.next;
        self.next += 1;
        let (name, contributed) = (core.name, words.len());
        self.talks.push(Talk { id, name, number, places, words: contributed, agreement });
        let at = self.talks.len() - 1;
        let mut out = Outgoing::new();
        self.talks[at].agreement.begin(words, &mut out);
        self.send(vci, at, out);
        self.hear_of_failures(vci, at);
        for (place, data) in std::mem::take(&mut self.strays) {
            self.receive(vci, place, data);
        }
        id
    }

    /// Returns the decision of an agreement, once it is known.
    pub(super) fn decision(&mut self, id: u64) -> Option<Value> {
        let talk = self.talks.iter().find(|t| t.id == id)?;
        let (value, name, number) = (talk.agreement.decided()?.clone(), talk.name, talk.number);
        // All that live have contributed, and so have heard the decisions before.
        self.talks.retain(|t| t.name != name || t.number >= number || t.agreement.decided().is_none());
        let decided = self.talks.iter().filter(|t| t.agreement.decided().is_some()).count();
        if decided > KEPT
            && let Some(oldest) =
                self.talks.iter().position(|t| t.agreement.decided().is_some() && t.id != id)
        {
            self.talks.remove(oldest);
        }
        Some(value)
    }

    /// Revokes a communicator, and tells the others. True if it is known.
    pub(super) fn revoke(&mut self, vci: &mut Vci, comms: &mut Comms, name: u64, is_first: bool) -> bool {
        let predefined = [Comm::WORLD, Comm::SELF].into_iter();
        let found = predefined
            .chain(comms.iter().map(|(comm, _)| comm))
            .find(|comm| comms.find(*comm).is_some_and(|c| c.core.name == name));
        let Some(comm) = found.and_then(|comm| comms.find_mut(comm)) else { return false };
        let core = Arc::clone(&comm.core);
        if core.is_revoked() {
            return true;
        }
        core.set_revoked();
        comm.core = Arc::new(core.unusable());
        for between in comm.streams.iter().flat_map(|streams| streams.channels()) {
            vci.revoke(between, between, core.peers().places());
        }
        let (places, me) = members(&core);
        vci.revoke(core.inn, core.out, core.peers().places());
        vci.revoke(core.coll, core.coll_out, &places);
        if core.remote().is_some() {
            // Its collective operations send within the local group, too.
            vci.revoke(core.coll, core.coll, core.group().places());
        }
        let n = places.len();
        // One that has heard it tells those whose distance is a power of two, so that all hear it
        // if the first one has failed meanwhile.
        let near = (0..usize::BITS)
            .map(|k| 1 << k)
            .take_while(|d| *d < n)
            .flat_map(|d| [(me + d) % n, (me + n - d) % n]);
        let to: Vec<usize> = if is_first { (0..n).collect() } else { near.collect() };
        for member in to.into_iter().filter(|m| *m != me) {
            self.post(vci, places[member], wire::revocation(name));
        }
        true
    }
}

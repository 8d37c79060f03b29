//! The network's own way to the memory of processes on other nodes: puts and gets by their netmod,
//! which the process need not execute.
//!
//! A process lets another one access its memory when that asks for the key. In windows of few
//! processes all ask when the window is made; in others a process asks at its first operation. What
//! comes before the key, and what the network does not do, goes by requests.

use ch3_shim::{RawReq, RemotePlace, RmaAccess, Vci};
use netmod_core::Segment;
use netmod_core::rma::RemoteKey;

use super::object::{Flavor, Pending, Window};
use super::origin::{BURST, Elements};
use super::reach::Network;
use super::wire::Kind;
use crate::error::{MpiError, Result};

/// Most processes on other nodes whose keys are asked for when a window is made.
const FEW: usize = 64;
/// Bytes of an answer to the question for a key: its length, and room for the longest one.
const KEY_ROOM: usize = 1 + RemoteKey::MAX;

fn key_of(answer: &[u8]) -> Option<RemoteKey> {
    let (len, bytes) = answer.split_first()?;
    RemoteKey::new(bytes.get(..usize::from(*len))?).filter(|_| *len > 0)
}

impl Window {
    /// Returns true if a rank is on another node.
    fn is_far(&self, rank: u32) -> bool {
        rank != self.me() && self.targets[rank as usize].neighbour.is_none()
    }

    /// Returns true if this process would ask all others for their keys when the window is made.
    pub(super) fn wants_keys(&self, vci: &mut Vci) -> bool {
        let far: Vec<u32> = (0..self.targets.len() as u32).filter(|rank| self.is_far(*rank)).collect();
        let never = |rank: &u32| {
            !matches!(
                vci.rma_access(self.place(*rank), self.core.out),
                Ok(RmaAccess::Now(..) | RmaAccess::Soon)
            )
        };
        far.len() <= FEW && !far.iter().any(never)
    }

    /// Asks the processes on other nodes for their keys.
    ///
    /// # Errors
    /// A process that is lost.
    pub(super) fn ask_for_keys(&mut self, vci: &mut Vci) -> Result<()> {
        (0..self.targets.len() as u32).try_for_each(|rank| match self.is_far(rank) {
            true => self.ask_for_key(vci, rank),
            false => Ok(()),
        })
    }

    fn ask_for_key(&mut self, vci: &mut Vci, rank: u32) -> Result<()> {
        let was_dirty = self.targets[rank as usize].is_dirty;
        let answer = self.ask_for(vci, rank, Kind::Key, KEY_ROOM)?;
        let target = &mut self.targets[rank as usize];
        (target.network, target.is_dirty) = (Network::Asked(answer), was_dirty);
        Ok(())
    }

    /// Returns true if all keys that were asked for are known.
    pub(super) fn has_keys(&mut self, vci: &mut Vci) -> bool {
        (0..self.targets.len() as u32).filter(|rank| !self.learn_key(vci, *rank)).count() == 0
    }

    /// Takes the answer of a target, if it has come. Returns false while one is waited for.
    fn learn_key(&mut self, vci: &mut Vci, rank: u32) -> bool {
        let target = &mut self.targets[rank as usize];
        let answer = match std::mem::take(&mut target.network) {
            Network::Asked(answer) => answer,
            known => {
                target.network = known;
                return true;
            }
        };
        if !vci.is_finished(answer.raw()) {
            target.network = Network::Asked(answer);
            return false;
        }
        let key = vci.wait(answer).ok().and_then(|done| key_of(&done.buffer));
        target.network = key.map_or(Network::Closed, Network::Open);
        true
    }

    /// Returns the key of elements that the network can move, if it is known. Otherwise the target
    /// is asked for it.
    fn key(&mut self, vci: &mut Vci, elements: &Elements<'_>) -> Option<RemoteKey> {
        let rank = elements.rank;
        if !elements.desc.is_plain() || self.flavor == Flavor::Dynamic || !self.is_far(rank) {
            return None;
        }
        self.learn_key(vci, rank);
        match self.targets[rank as usize].network {
            Network::Open(key) => return Some(key),
            Network::Asked(_) | Network::Closed => return None,
            Network::Unknown => {}
        }
        if self.may_open(vci, rank)
            && let Err(e) = self.ask_for_key(vci, rank)
        {
            tracing::debug!(rank, "no key of a window's memory: {}", e.text);
        }
        None
    }

    /// Returns true if the network moves data to and from a rank now. Notes it if it never does.
    fn may_open(&mut self, vci: &mut Vci, rank: u32) -> bool {
        match vci.rma_access(self.place(rank), self.core.out) {
            Ok(RmaAccess::Now(..)) => return true,
            Ok(RmaAccess::Soon) => {}
            // Operations go by requests, of which a failure is told.
            Ok(RmaAccess::Never(_)) | Err(_) => self.targets[rank as usize].network = Network::Closed,
        }
        false
    }

    /// Returns true if all operations on a rank need that it serves requests.
    pub(super) fn is_served(&mut self, vci: &mut Vci, rank: u32) -> bool {
        if !self.is_far(rank) || self.flavor == Flavor::Dynamic {
            return self.is_far(rank);
        }
        if matches!(self.targets[rank as usize].network, Network::Unknown) {
            self.may_open(vci, rank);
        }
        matches!(self.targets[rank as usize].network, Network::Closed)
    }

    /// Writes data by the network. Returns the data if it does not.
    pub(super) fn put_far(
        &mut self,
        vci: &mut Vci,
        data: Segment,
        elements: &Elements<'_>,
        at: i64,
    ) -> std::result::Result<RawReq, Segment> {
        let Some(key) = self.key(vci, elements) else { return Err(data) };
        let (place, comm) = (self.place(elements.rank), self.core.out);
        let begun = vci.rma_put(data, place, comm, RemotePlace { key, at: at as usize });
        begun.map(|raw| self.moves(vci, elements.rank, raw)).map_err(|refused| refused.seg)
    }

    /// Reads data by the network. Returns the room if it does not.
    pub(super) fn get_far(
        &mut self,
        vci: &mut Vci,
        room: Segment,
        elements: &Elements<'_>,
        at: i64,
    ) -> std::result::Result<RawReq, Segment> {
        if room.total() != elements.bytes() {
            return Err(room);
        }
        let Some(key) = self.key(vci, elements) else { return Err(room) };
        let (place, comm) = (self.place(elements.rank), self.core.out);
        let begun = vci.rma_get(room, place, comm, RemotePlace { key, at: at as usize });
        begun.map(|raw| self.moves(vci, elements.rank, raw)).map_err(|refused| refused.seg)
    }

    /// Notes an operation that the network executes.
    fn moves(&mut self, vci: &mut Vci, rank: u32, raw: RawReq) -> RawReq {
        self.sent = self.sent.wrapping_add(1);
        if self.sent.is_multiple_of(BURST) {
            // A failure of the device is told by the next wait.
            let _ = vci.progress();
            self.has_answers(vci, rank);
        }
        self.epochs.in_use = true;
        self.targets[rank as usize].pending.push_back(Pending { raw, is_ours: true, is_far: true });
        raw
    }

    /// Returns true if what the network does with targets has ended. What follows may be told to
    /// them then.
    pub(super) fn have_moved(&mut self, vci: &mut Vci, ranks: &[u32]) -> bool {
        self.have_answers(vci, ranks);
        let ended = |rank: &u32| {
            let mut far = self.targets[*rank as usize].pending.iter().filter(|answer| answer.is_far);
            far.all(|answer| vci.is_finished(answer.raw))
        };
        ranks.iter().all(ended)
    }

    /// Lets a rank access this process's memory. Returns the answer to its question.
    pub(super) fn expose_to(&mut self, vci: &mut Vci, rank: u32) -> Vec<u8> {
        match self.exposed_key(vci, rank) {
            Ok(Some(key)) => [&[key.bytes().len() as u8], key.bytes()].concat(),
            Ok(None) => vec![0],
            Err(e) => {
                tracing::info!(rank, "a process accesses the memory of a window by requests: {}", e.text);
                vec![0]
            }
        }
    }

    fn exposed_key(&mut self, vci: &mut Vci, rank: u32) -> Result<Option<RemoteKey>> {
        let own = self.targets[self.me() as usize].span().filter(|span| span.len() > 0);
        let Some(span) = own.filter(|_| self.flavor != Flavor::Dynamic) else { return Ok(None) };
        let (place, comm) = (self.place(rank), self.core.out);
        let caps = match vci.rma_access(place, comm)? {
            RmaAccess::Now(caps, uses) if uses.is_put_to.is_now() && uses.is_got_from.is_now() => caps,
            _ => return Ok(None),
        };
        if let Some((_, _, key)) = self.server.exposed.iter().find(|(device, ..)| *device == caps.device) {
            return Ok(Some(*key));
        }
        let (exposure, key) = vci.expose(span.lent(), place, comm).map_err(Box::<MpiError>::from)?;
        self.server.exposed.push((caps.device, exposure, key));
        Ok(Some(key))
    }

    /// Ends the access of others to this process's memory, before it is its owner's again.
    pub(super) fn conceal(&mut self, vci: &mut Vci) {
        self.server.exposed.drain(..).for_each(|(_, exposure, _)| vci.conceal(exposure));
    }

    /// Returns the number of processes on other nodes, and of those whose memory the network
    /// reaches.
    pub(super) fn far_targets(&self) -> (usize, usize) {
        let far = || (0..self.targets.len() as u32).filter(|rank| self.is_far(*rank));
        let open = far().filter(|rank| matches!(self.targets[*rank as usize].network, Network::Open(_)));
        (far().count(), open.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_no_key_are_none() {
        let key = RemoteKey::new(&[7; 26]).unwrap();
        let answer = [&[26], key.bytes()].concat();
        assert_eq!(key_of(&answer), Some(key));
        for odd in [&[][..], &[0], &[27, 1], &answer[..26], &[255; KEY_ROOM]] {
            assert_eq!(key_of(odd), None, "{odd:?}");
        }
    }
}

//! The life of a VC: the slot of its peer, and the [`VcLife`] trait.

use netmod_core::{Card, Core, PeerName, Refusal, Time, VcError, VcErrorKind, VcId, VcLife};

use crate::card::{Location, LocationError};
use crate::channel::Offer;
use crate::netmod::{NoSegment, ShmNetmod};
use crate::ring::Kind;
use crate::segment::Segment;
use crate::stage::Stage;
use crate::vc::ShmVc;

/// The reason why a VC has no slot of its peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SlotError {
    /// This rank has no segment.
    #[error("{0}")]
    NoSegment(NoSegment),
    /// The card does not tell.
    #[error(transparent)]
    Card(#[from] LocationError),
    /// The peer has no segment.
    #[error("it has no shared memory: {0}")]
    Nowhere(String),
    /// The peer's segment is another one.
    #[error(
        "it is in another segment: on another node, as the launcher has it (see NETMOD_SHM_RANKS), or in a \
         container with another /dev/shm"
    )]
    OtherSegment,
    /// The slot is not the peer's.
    #[error("its slot in the segment is another process's")]
    OtherProcess,
    /// The slot is connected with another VC.
    #[error("another VC has its slot in the segment")]
    OtherVc,
    /// The peer had another slot.
    #[error("it has another slot than before; shared memory is of one start of a job")]
    Moved,
}

impl SlotError {
    /// Returns it as the error of the VC with a peer.
    fn of(&self, peer: PeerName) -> VcError {
        VcError::new(VcErrorKind::Card, Some(peer), self.to_string())
    }
}

impl ShmNetmod {
    /// Returns the slot that a card names.
    pub(crate) fn slot_of(&self, card: &Card) -> Result<usize, SlotError> {
        let (nonce_here, me, segment) = match (&self.segment, &self.ckpt.stage) {
            (Ok(segment), _) => (segment.nonce(), segment.me(), Some(segment)),
            // The peer's card is checked as far as possible.
            (_, Stage::Away(Some(parked))) => (parked.nonce(), parked.me(), None),
            (Err(why), _) => return Err(SlotError::NoSegment(why.clone())),
        };
        match Location::of(card)? {
            Location::Nowhere(why) => Err(SlotError::Nowhere(why)),
            Location::Slot { nonce, .. } if nonce != *nonce_here => Err(SlotError::OtherSegment),
            Location::Slot { slot, token, .. } => {
                let slot = usize::try_from(slot).unwrap_or(usize::MAX);
                // Behind a checkpoint of all, who is not back yet has not said what its token is.
                let late = |s: &Segment| self.ckpt.members > 0 && slot < s.ranks() && !s.has_joined(slot);
                let is_its = segment.is_none_or(|s| s.has_token(slot, &token) || late(s));
                if slot == me || slot >= self.channels.len() || !is_its {
                    return Err(SlotError::OtherProcess);
                }
                Ok(slot)
            }
        }
    }

    /// Connects a VC with the slot of its peer.
    pub(crate) fn bind(&mut self, vc: VcId, slot: usize) -> Result<(), SlotError> {
        let channel = &mut self.channels[slot];
        if channel.vc.is_some_and(|other| other != vc) {
            return Err(SlotError::OtherVc);
        }
        channel.vc = Some(vc);
        if channel.streams.offer == Offer::Reported {
            channel.streams.offer = Offer::None;
        }
        if let Some(l) = self.vcs.get_mut(vc) {
            l.slot = Some(slot);
            l.asked = false;
            l.attach = None;
        }
        // A stream may be waiting for the VC.
        self.look_at(slot);
        Ok(())
    }

    fn take_card(&mut self, vc: VcId, card: &Card) -> Result<(), SlotError> {
        let slot = self.slot_of(card)?;
        if self.vcs.get(vc).and_then(|l| l.slot).is_some_and(|old| old != slot) {
            return Err(SlotError::Moved);
        }
        self.bind(vc, slot)
    }
}

impl VcLife for ShmNetmod {
    fn vc_init(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        if self.by_peer.contains_key(&peer) {
            return Err(VcError::new(VcErrorKind::Aborted, Some(peer), "it has a VC already"));
        }
        self.vcs.insert(vc, ShmVc::new(peer));
        let mut known = Ok(());
        if let Some(card) = card {
            known = self.take_card(vc, card);
        } else if let Some(slot) = (0..self.channels.len()).find(|s| {
            let channel = &self.channels[*s];
            channel.streams.offer == Offer::Reported && channel.vc.is_none() && self.proven(*s) == Some(peer)
        }) {
            known = self.bind(vc, slot);
        }
        if let Err(e) = known {
            self.vcs.remove(vc);
            return Err(e.of(peer));
        }
        self.by_peer.insert(peer, vc);
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let Some(peer) = self.vcs.get(vc).map(|l| l.peer) else { return };
        match card.and_then(|c| self.take_card(vc, c).map_err(|e| e.of(peer))) {
            Ok(()) => self.pump(core, vc),
            Err(e) => self.fail(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        for slot in 0..self.channels.len() {
            if self.channels[slot].streams.offer == Offer::Reported && self.proven(slot) == Some(peer) {
                self.channels[slot].streams.offer = Offer::Refused(why);
                self.look_at(slot);
            }
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.vcs.get(vc) else { return };
        let (peer, slot) = (l.peer, l.slot);
        let events = self.pending.len();
        self.fail(core, vc, VcError::new(VcErrorKind::Aborted, Some(peer), "the VC was destroyed"));
        self.pending.truncate(events);
        self.vcs.remove(vc);
        self.by_peer.remove(&peer);
        if let Some(slot) = slot {
            self.channels[slot].vc = None;
        }
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, _now: Time) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        l.ready = false;
        if l.down.is_some() {
            return self.terminated(vc);
        }
        l.terminating = true;
        self.pump(core, vc);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(l) = self.vcs.get(vc).filter(|l| l.down.is_none()) else { return };
        // A peer that waits for the first message learns of it, too.
        let untold =
            l.slot.filter(|s| !self.channels[*s].streams.writing && !self.channels[*s].peer.is_gone());
        self.fail(core, vc, error);
        if let Some(slot) = untold {
            self.tell_end(slot, Kind::Reset);
        }
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, _now: Time) -> bool {
        self.ask_after(core, vc);
        true
    }

    fn vc_revive(&mut self, _core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        let Some(peer) = self.vcs.get(vc).map(|l| l.peer) else { return Ok(()) };
        if let Some(card) = card {
            self.take_card(vc, card).map_err(|e| e.of(peer))?;
        }
        if let Some(l) = self.vcs.get_mut(vc) {
            l.down = None;
        }
        Ok(())
    }
}

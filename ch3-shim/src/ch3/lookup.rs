//! Business cards of the job's processes. The process manager is asked when one is needed; only
//! what needs the card waits for the answer.

use std::collections::BTreeMap;

use netmod_core::{
    Card, Checkpoint, Outcome, PeerName, ReqId, Segment, Time, VcError, VcErrorKind, VcId, VcLife,
};

use super::connect::card_key;
use super::credit;
use super::routes::host_of;
use super::{Cards, Ch3, DevIo, MpiReq, Role, Route, WORLD};
use crate::bootstrap::{Asked, BootstrapError};
use crate::pkt::Mode;
use crate::tagmatch::Envelope;

/// The operations that wait for a card.
#[derive(Debug, Default)]
struct Waiting {
    /// Sends to a process that has no VC yet, in their order.
    sends: Vec<ReqId>,
    /// The VC whose netmod has asked for it.
    netmod: Option<VcId>,
    /// The process has died without a VC. Its failure is reported with the name of its host, or
    /// without it at this time.
    death_report: Option<Time>,
    /// A VC is to be made with the card, though nothing is sent.
    vc: bool,
    /// A call of the program takes the card from `Lookups::kept`.
    call: bool,
}

/// The business card of this process, and the cards that it has asked for.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// This process's card.
    pub(crate) own_card: Box<[u8]>,
    /// Waiting operations by rank of the job.
    asked: BTreeMap<u32, Waiting>,
    /// Questions of all kinds that are not answered.
    pub(crate) open: u32,
    /// The card that a call of the program waits for.
    kept: Option<(u32, Result<Card, VcError>)>,
    /// Cards of ranks that have come back from a checkpoint, in place of those that are published.
    back: BTreeMap<u32, Card>,
    /// Times that all ranks have published their cards anew.
    pub(crate) rejoins: u32,
}

impl Lookups {
    /// Makes the state of a process with this card.
    pub(crate) fn new(own_card: Box<[u8]>) -> Lookups {
        Lookups { own_card, ..Lookups::default() }
    }

    /// Returns the time at which the next death is reported although its card has not arrived.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.asked.values().filter_map(|w| w.death_report).min()
    }
}

/// A card, or the fact that it must be waited for.
pub(crate) enum Found {
    Now(Card),
    Later,
}

fn card_error(peer: PeerName, text: String) -> VcError {
    VcError::new(VcErrorKind::Card, Some(peer), text)
}

fn parse(peer: PeerName, bytes: &[u8]) -> Result<Card, VcError> {
    Card::parse(bytes).map_err(|e| card_error(peer, format!("its business card is broken: {e}")))
}

/// Returns the card in an answer of the process manager.
fn card_of(peer: PeerName, answer: Result<Option<Vec<u8>>, BootstrapError>) -> Result<Card, VcError> {
    let bytes = answer
        .map_err(|e| card_error(peer, format!("its business card could not be fetched: {e}")))?
        .ok_or_else(|| {
            let key = card_key(peer.rank, 0);
            let text =
                format!("it has published no business card (no key {key}); did it start with this library?");
            card_error(peer, text)
        })?;
    parse(peer, &bytes)
}

impl Ch3 {
    /// Returns the business card of a process. A remote group has brought its cards along; the
    /// job's are with the process manager, which is asked once.
    pub(super) fn find_card(&mut self, peer: PeerName) -> Result<Found, VcError> {
        let group = self.groups.find(&peer.group).and_then(|n| self.groups.get(n));
        match group.map(|g| &g.cards) {
            Some(Cards::Launcher) => {
                if let Some(card) = self.lookups.back.get(&peer.rank) {
                    return Ok(Found::Now(card.clone()));
                }
            }
            Some(Cards::Given(cards)) if (peer.rank as usize) < cards.len() => {
                return parse(peer, &cards[peer.rank as usize]).map(Found::Now);
            }
            _ => {
                let text = "it can only connect by itself: its business card is not known";
                return Err(card_error(peer, text.into()));
            }
        }
        if self.lookups.asked.contains_key(&peer.rank) {
            return Ok(Found::Later);
        }
        match self.boot.ask_value(&card_key(peer.rank, self.lookups.rejoins)) {
            Ok(Asked::Later) => {
                self.lookups.open += 1;
                self.lookups.asked.insert(peer.rank, Waiting::default());
                Ok(Found::Later)
            }
            Ok(Asked::Now(value)) => card_of(peer, Ok(value)).map(Found::Now),
            Err(e) => card_of(peer, Err(e)).map(Found::Now),
        }
    }

    /// Makes the VC of a rank at its first use; `None` if its card must be waited for.
    #[cold]
    pub(super) fn begin_vc(
        &mut self,
        io: &mut DevIo<'_>,
        group: u32,
        rank: u32,
    ) -> Result<Option<VcId>, VcError> {
        let Some(id) = self.groups.get(group).map(|g| g.id) else {
            return Err(VcError::new(VcErrorKind::Closed, None, "its group was disconnected"));
        };
        let peer = PeerName { group: id, rank };
        if let Some(cause) = self.failures.cause(&peer) {
            return Err(cause.clone());
        }
        match self.find_card(peer)? {
            Found::Later => Ok(None),
            Found::Now(card) => self.make_vc_by_card(io, (group, rank), &card).map(Some),
        }
    }

    /// Returns the VC of a rank that is to be watched; `None` if its card must be waited for, or if
    /// it has none.
    pub(crate) fn vc_to_watch(&mut self, io: &mut DevIo<'_>, group: u32, rank: u32) -> Option<VcId> {
        if let Some(vc) = self.known_vc(group, rank) {
            return Some(vc);
        }
        match self.begin_vc(io, group, rank) {
            Ok(Some(vc)) => Some(vc),
            Ok(None) => {
                self.lookups.asked.entry(rank).or_default().vc = true;
                None
            }
            Err(e) => {
                self.unreachable(io, PeerName { group: self.groups.get(group)?.id, rank }, &e);
                None
            }
        }
    }

    /// Declares a process failed that no netmod reaches, since whatever needs it would wait for
    /// ever.
    fn unreachable(&mut self, io: &mut DevIo<'_>, peer: PeerName, error: &VcError) {
        if self.failures.cause(&peer).is_none() {
            self.process_failed(io, peer, error);
        }
    }

    /// Queues a send to a rank whose card has been asked for.
    #[cold]
    pub(super) fn send_later(
        &mut self,
        io: &mut DevIo<'_>,
        rank: u32,
        seg: Segment,
        env: Envelope,
        mode: Mode,
    ) -> ReqId {
        let req = self.reqs.make(io.core, None, seg, MpiReq::new(Role::Waiting { mode }, env));
        self.stats.sends_waited += 1;
        self.lookups.asked.entry(rank).or_default().sends.push(req);
        req
    }

    /// Gets the card that the netmod of a VC needs.
    pub(super) fn card_for_netmod(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some(peer) = io.core.vc(vc).map(|v| v.peer) else { return };
        match self.find_card(peer) {
            Ok(Found::Now(card)) => io.netmod.set_card(io.core, vc, Ok(&card)),
            Ok(Found::Later) => self.lookups.asked.entry(peer.rank).or_default().netmod = Some(vc),
            Err(e) => io.netmod.set_card(io.core, vc, Err(e)),
        }
    }

    /// Handles a rank of the job that has connected by itself. Sends that waited for its card go
    /// out. Its card is asked for, since a failure names its host.
    pub(super) fn peer_came(&mut self, io: &mut DevIo<'_>, vc: VcId, peer: PeerName) {
        if peer.group != self.groups.world.id {
            return;
        }
        let sends = self.lookups.asked.get_mut(&peer.rank).map(|w| std::mem::take(&mut w.sends));
        self.send_by(io, vc, sends.unwrap_or_default());
        match self.find_card(peer) {
            Ok(Found::Now(card)) => self.explain(io, vc, peer, &card),
            Ok(Found::Later) => {}
            Err(error) => tracing::debug!(%error, "the host of a peer stays unknown"),
        }
    }

    /// Explains by a peer's card the netmod by which it has connected, and names its host.
    fn explain(&mut self, io: &mut DevIo<'_>, vc: VcId, peer: PeerName, card: &Card) {
        if self.vcs.get(vc).is_none_or(|s| s.route.host.is_some()) {
            return;
        }
        let chosen = io.netmod.choose(self.groups.world.own_name(), peer, card);
        let used = io.core.vc(vc).map(|v| v.netmod);
        let Some(s) = self.vcs.get_mut(vc) else { return };
        let route = match chosen {
            Ok(chosen) if Some(chosen.netmod) == used => Route::of(chosen, card),
            // The handshake tells of ends that have chosen differently.
            _ => Route { host: host_of(card).map(Into::into), ..Route::clone(&s.route) },
        };
        if let Some(host) = &route.host {
            self.failures.name_host(&peer, host);
        }
        s.route = self.routes.shared(route);
    }

    /// Reports the death of a rank without a VC, with its host's name if that arrives until
    /// `until`.
    pub(super) fn report_death_by(&mut self, io: &mut DevIo<'_>, peer: PeerName, until: Time) {
        match self.find_card(peer) {
            Ok(Found::Later) => {
                self.lookups.asked.entry(peer.rank).or_default().death_report = Some(until);
            }
            Ok(Found::Now(card)) => self.died_alone(io, peer, host_of(&card)),
            Err(_) => self.died_alone(io, peer, None),
        }
    }

    /// Reports the deaths that are due.
    pub(super) fn report_due_deaths(&mut self, io: &mut DevIo<'_>) {
        let now = io.now;
        let due = self.lookups.asked.iter_mut();
        let due: Vec<u32> = due
            .filter(|(_, w)| w.death_report.is_some_and(|at| at <= now))
            .map(|(rank, w)| {
                w.death_report = None;
                *rank
            })
            .collect();
        for rank in due {
            let peer = PeerName { group: self.groups.world.id, rank };
            self.died_alone(io, peer, None);
        }
    }

    /// Fails the sends that wait for the card of a failed process.
    pub(super) fn fail_waiting(&mut self, io: &mut DevIo<'_>, peer: PeerName, error: &VcError) {
        if peer.group != self.groups.world.id {
            return;
        }
        let Some(waiting) = self.lookups.asked.get_mut(&peer.rank) else { return };
        for req in std::mem::take(&mut waiting.sends) {
            self.fail_send(io, req, error);
        }
    }

    fn fail_send(&mut self, io: &mut DevIo<'_>, req: ReqId, error: &VcError) {
        if !io.core.is_finished(req) {
            self.reqs.finish(io.core, req, Outcome::Failed(error.clone()));
        }
    }

    /// Sends what has waited for a VC, in order.
    fn send_by(&mut self, io: &mut DevIo<'_>, vc: VcId, sends: Vec<ReqId>) {
        if sends.is_empty() {
            return;
        }
        if let Err(e) = self.use_vc(io, vc) {
            return sends.into_iter().for_each(|req| self.fail_send(io, req, &e));
        }
        for req in sends {
            let Some(r) = io.core.req_mut(req) else { continue };
            r.vc = Some(vc);
            let len = r.seg.total();
            if let Some(s) = self.vcs.get_mut(vc) {
                let eager = len <= s.eager_max as usize;
                s.flow.out.wait(req, if eager { credit::charge(len as u32) } else { 0 });
            }
        }
        self.send_waiting(io, vc);
        self.tell_if_waiting(io, vc);
    }

    /// The process manager's answer to the question for a card, or why there is none.
    pub(crate) fn card_came(
        &mut self,
        io: &mut DevIo<'_>,
        rank: u32,
        answer: Result<Option<Vec<u8>>, BootstrapError>,
    ) {
        let Some(waiting) = self.lookups.asked.remove(&rank) else { return };
        let peer = PeerName { group: self.groups.world.id, rank };
        let card = self.lookups.back.get(&rank).cloned().map_or_else(|| card_of(peer, answer), Ok);
        if let Some(vc) = waiting.netmod {
            io.netmod.set_card(io.core, vc, card.as_ref().map_err(VcError::clone));
        }
        if waiting.death_report.is_some() {
            self.died_alone(io, peer, card.as_ref().ok().and_then(host_of));
        }
        match (self.groups.world.vcs.get(rank), &card) {
            (Some(vc), Ok(card)) => {
                self.explain(io, vc, peer, card);
                self.send_by(io, vc, waiting.sends);
            }
            (Some(vc), Err(_)) => self.send_by(io, vc, waiting.sends),
            (None, card) if waiting.vc || !waiting.sends.is_empty() => {
                let made = match (self.failures.cause(&peer), card) {
                    (Some(cause), _) => Err(cause.clone()),
                    (None, Err(e)) => Err(e.clone()),
                    (None, Ok(card)) => self.make_vc_by_card(io, (WORLD, rank), card),
                };
                match made {
                    Ok(vc) => self.send_by(io, vc, waiting.sends),
                    Err(e) => {
                        let e = self.with_host(e);
                        waiting.sends.into_iter().for_each(|req| self.fail_send(io, req, &e));
                        self.unreachable(io, peer, &e);
                    }
                }
            }
            (None, _) => {}
        }
        if waiting.call {
            self.lookups.kept = Some((rank, card));
        }
    }

    /// Takes the card with which a rank has come back from a checkpoint, in place of the
    /// published one.
    ///
    /// # Errors
    /// A card that does not lead to it.
    pub(crate) fn rank_is_back(&mut self, io: &mut DevIo<'_>, rank: u32, card: &[u8]) -> Result<(), VcError> {
        let card = parse(PeerName { group: self.groups.world.id, rank }, card)?;
        if let Some(vc) = self.groups.world.vcs.get(rank) {
            io.netmod.ckpt_peer(io.core, vc, &card)?;
            if let Some(s) = self.vcs.get_mut(vc) {
                let host = host_of(&card).map(Into::into);
                s.route = self.routes.shared(Route { host, ..Route::clone(&s.route) });
            }
        }
        self.lookups.back.insert(rank, card);
        Ok(())
    }

    /// Forgets the cards that were learned: all ranks have published new ones, which can be asked
    /// for.
    pub(crate) fn all_are_back(&mut self) {
        self.lookups.rejoins += 1;
        self.lookups.back.clear();
    }

    /// Fails what waits for a card, since the process manager answers no more.
    pub(crate) fn no_more_cards(&mut self, io: &mut DevIo<'_>, why: &str) {
        self.lookups.open = 0;
        let ranks: Vec<u32> = self.lookups.asked.keys().copied().collect();
        for rank in ranks {
            self.card_came(io, rank, Err(BootstrapError::Silent(why.to_owned())));
        }
    }

    /// Asks for a rank's card for a call of the program, which takes it from [`Ch3::take_card`].
    pub(crate) fn card_for_call(&mut self, rank: u32) -> Result<Found, VcError> {
        let peer = PeerName { group: self.groups.world.id, rank };
        let found = self.find_card(peer)?;
        if matches!(found, Found::Later) {
            self.lookups.asked.entry(rank).or_default().call = true;
        }
        Ok(found)
    }

    /// Takes the card that [`Ch3::card_for_call`] asked for.
    pub(crate) fn take_card(&mut self, rank: u32) -> Option<Result<Card, VcError>> {
        self.lookups.kept.take_if(|(of, _)| *of == rank).map(|(_, card)| card)
    }
}

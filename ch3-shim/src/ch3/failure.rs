//! Failed processes, and the requests that need them.

use std::time::Duration;

use netmod_core::lifecycle::{VcEvent, VcState};
use netmod_core::{Card, GroupId, Outcome, PeerName, ReqId, Time, VcError, VcErrorKind, VcId, VcLife};

use super::contexts::Senders;
use super::routes::host_of;
use super::{Ch3, DevIo, Failure, Group, MpiReq, Role, Route, Unexpected, WORLD, threads};
use crate::error::Error;
use crate::incident::IncidentKind;
use crate::tagmatch::{ANY_SOURCE, Envelope, Pattern};

/// Time for the last messages of a rank that the process manager reports as dead.
const LAST_MESSAGES: Duration = Duration::from_millis(200);

fn reported_dead(peer: PeerName) -> VcError {
    let text = "the process manager says that its process has died; what it wrote last may tell why";
    VcError::new(VcErrorKind::Dead, Some(peer), text)
}

/// The consequence of failures for a wait for a message.
#[derive(Debug)]
pub(crate) enum WaitOutlook {
    /// Failures change nothing.
    Unaffected,
    /// The wait ends with this error; it goes on when the failure was acknowledged.
    Pending(Error),
    /// No process is left that could send the message.
    NobodyLeft(VcError),
}

impl Ch3 {
    /// Returns the cause if messages of a source can no longer arrive.
    #[inline]
    pub(crate) fn source_lost(&self, pattern: &Pattern) -> Option<VcError> {
        if self.failures.is_empty() {
            return None;
        }
        let peer = self.groups.name_of(pattern.context(), pattern.source())?;
        self.failures.cause(&peer).cloned()
    }

    /// Returns true if all other processes of a group have failed.
    fn is_deserted(&self, group: &Group) -> bool {
        let failed = self.failures.iter().filter(|f| f.peer.group == group.id).count();
        let others = group.size as usize - usize::from(group.id == self.groups.world.id);
        others > 0 && failed >= others
    }

    /// Acknowledges all failures; returns those that had not been.
    pub(crate) fn acknowledge(&mut self) -> Vec<Failure> {
        let news = self.failures.acknowledge();
        self.set_alarm();
        news
    }

    /// Forgets the failure of a process that can be reached again.
    fn recovered(&mut self, peer: &PeerName) {
        if self.failures.remove(peer) {
            self.set_alarm();
        }
    }

    /// Forgets the failures of a group that is gone.
    pub(super) fn forget_failures(&mut self, group: &GroupId) {
        self.failures.remove_group(group);
        self.set_alarm();
    }

    /// Iterates over the failed processes that have places.
    pub(crate) fn failed_places(&self) -> impl Iterator<Item = (u32, &Failure)> {
        self.failures.iter().filter_map(|f| Some((self.groups.place_of(&f.peer)?, f)))
    }

    /// Notes that a message of the watched context was taken.
    pub(crate) fn note_taken(&mut self) {
        self.contexts.note_taken();
        self.set_alarm();
    }

    /// Keeps the alarm raised while the layer above has more to do.
    pub(crate) fn keep_alarm(&mut self, more: bool) {
        self.contexts.keep(more);
        self.set_alarm();
    }

    fn set_alarm(&mut self) {
        let deserted = self.groups.iter().any(|(_, g)| self.is_deserted(g));
        // Contexts have acknowledgements of their own.
        let heeded = self.contexts.has_senders() && !self.failures.is_empty();
        self.failures.set_alarm(deserted || heeded || self.contexts.has_work());
    }

    /// Returns the consequence of failures for a request that is not finished. Only an unmatched
    /// receive from any source is affected.
    pub(crate) fn wait_outlook(&self, req: ReqId) -> WaitOutlook {
        match self.reqs.side.get(req) {
            Some(MpiReq { role: Role::Recv, posted: Some(_), env, .. }) if env.source() == ANY_SOURCE => {
                self.outlook_of_any(env.context())
            }
            _ => WaitOutlook::Unaffected,
        }
    }

    /// Returns the consequence of failures for a message from any source in a context.
    pub(crate) fn outlook_of_any(&self, context: u32) -> WaitOutlook {
        if let Some(senders) = self.contexts.senders(context) {
            return self.outlook_of(senders);
        }
        let (mut deserted, mut others) = (None, false);
        for (_, group) in self.groups.senders(context) {
            if let Some((first, n)) = self.failures.unacknowledged(group.id) {
                let (rank, cause) = (first.peer.rank, first.cause.clone());
                return WaitOutlook::Pending(Error::PendingFailed { rank, cause, others: n - 1 });
            }
            if self.is_deserted(group) {
                deserted = Some(group.id);
            } else {
                others |= group.size > 1 || group.id != self.groups.world.id;
            }
        }
        match deserted.filter(|_| !others) {
            Some(group) => WaitOutlook::NobodyLeft(self.nobody_left(|f| f.peer.group == group)),
            None => WaitOutlook::Unaffected,
        }
    }

    /// Returns the consequence of failures for a message of some processes.
    fn outlook_of(&self, senders: &Senders) -> WaitOutlook {
        let mut lost = self.failed_places().filter(|(place, _)| senders.have_lost(*place));
        if let Some((_, first)) = lost.next() {
            let (rank, cause) = (first.peer.rank, first.cause.clone());
            return WaitOutlook::Pending(Error::PendingFailed { rank, cause, others: lost.count() });
        }
        let others = senders.others_than(self.groups.world.me);
        if others > 0 && self.failed_places().filter(|(place, _)| senders.have(*place)).count() >= others {
            let is_sender = |f: &Failure| self.groups.place_of(&f.peer).is_some_and(|p| senders.have(p));
            WaitOutlook::NobodyLeft(self.nobody_left(is_sender))
        } else {
            WaitOutlook::Unaffected
        }
    }

    /// Asks for everything unfinished of a context to be cancelled: receives in `inn`, and sends to
    /// the processes at these places in the context `out`.
    pub(crate) fn revoke(&mut self, io: &mut DevIo<'_>, inn: u32, (out, peers): (u32, &[u32])) {
        let out = self.groups.world.space.to_wire(out);
        let goes_there = |req: ReqId| match io.core.req(req).and_then(|r| io.core.vc(r.vc?)) {
            Some(vc) => self.groups.place_of(&vc.peer).is_some_and(|place| peers.contains(&place)),
            None => true,
        };
        let concerned = |req: ReqId, m: &MpiReq| match m.role {
            Role::Recv => m.env.context() == inn,
            Role::SelfSend | Role::Send | Role::SyncSend { .. } | Role::Waiting { .. } | Role::RndvSend => {
                m.env.context() == out && goes_there(req)
            }
            Role::OneSided | Role::RndvRecv | Role::Cookie | Role::SentCookie | Role::Arriving { .. } => {
                false
            }
        };
        let found: Vec<ReqId> =
            self.reqs.side.iter().filter(|(req, m)| concerned(*req, m)).map(|(req, _)| req).collect();
        let unfinished: Vec<ReqId> = found.into_iter().filter(|req| !io.core.is_finished(*req)).collect();
        self.contexts.note_revoked(&unfinished);
        for req in unfinished {
            self.cancel(io, req);
        }
    }

    /// Ends a receive from any source for which no sender is left.
    pub(crate) fn give_up_wildcard(&mut self, io: &mut DevIo<'_>, req: ReqId, error: VcError) {
        if let Some(key) = self.reqs.side.get_mut(req).and_then(|m| m.posted.take()) {
            self.queues.posted.cancel(key);
        }
        self.reqs.finish(io.core, req, Outcome::Failed(error));
    }

    /// Returns the error of a receive all of whose senders, which `is_sender` tells, have failed.
    fn nobody_left(&self, is_sender: impl Fn(&Failure) -> bool) -> VcError {
        let mut failed = self.failures.iter().filter(|f| is_sender(f)).map(|f| &f.cause);
        let last = failed.next_back();
        let mut text =
            "nobody is left to send a message from any source: all other processes have failed".to_string();
        if let Some(cause) = last {
            text.push_str(&format!("; one of them: {cause}"));
        }
        VcError::new(last.map_or(VcErrorKind::Lost, VcError::kind), None, text)
    }

    /// Adds the name of the peer's host to an error, if it is known.
    #[cold]
    pub(crate) fn with_host(&self, error: VcError) -> VcError {
        let (None, Some(peer)) = (error.host(), error.peer()) else { return error };
        // The failure that is known has been given the host already.
        let known = self.failures.cause(&peer).and_then(|c| c.host());
        let host = known.or_else(|| {
            let vc = self.groups.get(self.groups.find(&peer.group)?)?.vcs.get(peer.rank)?;
            self.vcs.get(vc)?.route.host.as_deref()
        });
        match host.map(str::to_owned) {
            Some(host) => error.on_host(host),
            None => error,
        }
    }

    /// Returns the number of times that a VC was lost with messages under way.
    pub(crate) fn losses(&self, vc: Option<VcId>) -> u32 {
        vc.and_then(|vc| self.vcs.get(vc)).map_or(0, |s| s.losses)
    }

    /// Gives a message that a matched probe has held to its receive, unless the rest of it was lost
    /// meanwhile. `losses`: the result of [`Ch3::losses`] when the probe matched.
    pub(crate) fn deliver_held(
        &mut self,
        io: &mut DevIo<'_>,
        req: ReqId,
        env: Envelope,
        msg: Unexpected,
        losses: u32,
    ) {
        let whole = msg.arriving().is_some_and(|a| io.core.req(a).is_some_and(|r| r.is_finished()));
        let lost = msg.vc.filter(|vc| self.losses(Some(*vc)) != losses && !whole && msg.depends_on(*vc));
        let Some(vc) = lost else { return self.deliver(io, req, env, msg) };
        self.discharge(io, &msg);
        let peer = io.core.vc(vc).map(|v| v.peer);
        let cause = peer.and_then(|p| self.failures.cause(&p)).cloned().unwrap_or_else(|| {
            let text = "the connection that a matched message was to come by was lost before it was received";
            VcError::new(VcErrorKind::Lost, peer, text)
        });
        self.reqs.finish(io.core, req, Outcome::Failed(cause));
    }

    /// Tells tools, if some have asked, what has happened to a VC.
    pub(super) fn note_incident(&mut self, io: &DevIo<'_>, vc: VcId, kind: IncidentKind) {
        if self.incidents.are_watched()
            && let Some(v) = io.core.vc(vc)
        {
            self.incidents.note(kind, v.peer.rank, v.netmod);
        }
    }

    /// Handles the loss of a VC, as its netmod reports it.
    pub(super) fn vc_down(&mut self, io: &mut DevIo<'_>, vc: VcId, error: VcError) {
        let mut error = self.with_host(error);
        if error.kind() == VcErrorKind::Mismatch {
            error = self.with_orders(io, vc, error);
        }
        tracing::debug!(target: "netmod::vc", %error, "VC down");
        self.failures.spare(vc);
        let at_rest = io.core.vc(vc).is_some_and(|v| v.state == VcState::Inactive);
        if !(at_rest && self.closing.finalizing) {
            // A peer that leaves while all finalize, and shares nothing with this process, has not
            // failed.
            self.note_incident(io, vc, IncidentKind::Lost);
            self.own_event(io, vc, VcEvent::Lost, Some(&error));
        }
        // Both had closed, and at most the last packet was lost: the VC can be used again.
        if io.core.vc(vc).is_some_and(|v| v.state == VcState::Inactive)
            && let Err(error) = io.netmod.vc_revive(io.core, vc, None)
        {
            tracing::warn!(%error, "a closed VC cannot be used again");
        }
    }

    /// Fails everything that depends on a VC, and nothing else. Carries out the lifecycle's
    /// `FAIL_REQUESTS`.
    pub(super) fn fail_requests(&mut self, io: &mut DevIo<'_>, vc: VcId, error: &VcError) {
        let Some((peer, state)) = io.core.vc(vc).map(|v| (v.peer, v.state)) else { return };
        if let Some(s) = self.vcs.get_mut(vc) {
            s.losses = s.losses.wrapping_add(1);
        }
        // A VC that was closed by agreement goes on as both sides know it.
        if state.is_failed() {
            self.flow_lost(vc);
            // Behind the last barrier a peer may have nothing to close, if it has not heard yet of
            // the connection that it accepts.
            let pending = || io.core.reqs().any(|(_, r)| r.vc == Some(vc) && !r.is_finished());
            if !self.closing.finalizing || error.kind() != VcErrorKind::Closed || pending() {
                self.process_failed(io, peer, error);
            }
        }
        self.lmt_lost(io, vc);
        let failed = Outcome::Failed(error.clone());
        // Messages that had arrived whole can still be received; the others never will.
        let lost = self.queues.unexpected.drain_matching(|_, u| u.depends_on(vc));
        for (_, u) in lost {
            self.discharge(io, &u);
            if let Some(arriving) = u.arriving() {
                self.reqs.free_arriving(io.core, arriving);
            }
        }
        let bound: Vec<ReqId> = io.core.reqs().filter(|(_, r)| r.vc == Some(vc)).map(|(id, _)| id).collect();
        for req in bound {
            if let Some(MpiReq { role: Role::Arriving { then }, .. }) = self.reqs.side.get(req) {
                if let Some(rreq) = *then {
                    self.reqs.finish(io.core, rreq, failed.clone());
                }
                self.reqs.free_arriving(io.core, req);
            } else if matches!(self.reqs.side.get(req), Some(MpiReq { role: Role::Cookie, .. })) {
                self.cookie_lost(io.core, req);
            } else {
                self.lmt_fail(io, req);
                self.end_onesided(io, req);
                self.reqs.finish(io.core, req, failed.clone());
            }
        }
    }

    /// Notes that a process has failed, with a VC or without one. Receives that only it could serve
    /// end.
    pub(super) fn process_failed(&mut self, io: &mut DevIo<'_>, peer: PeerName, error: &VcError) {
        if self.failures.note(peer, error.clone()) {
            tracing::info!(%error, by = error.kind().found_by(), "process failed");
        }
        self.fail_waiting(io, peer, error);
        let group = self.groups.find(&peer.group).and_then(|n| self.groups.get(n));
        let Some((space, source)) = group.map(|g| (g.space, (g.first + peer.rank).cast_signed())) else {
            return;
        };
        let its_own = |p: &Pattern, _: &_| threads::asked(p) == source && space.owns(p.context());
        for req in self.queues.posted.drain_matching(its_own) {
            self.reqs.finish(io.core, req, Outcome::Failed(error.clone()));
        }
    }

    /// Handles the process manager's report of failed ranks. New ones fail as if their connection
    /// had been lost.
    pub(crate) fn told_of_failed(&mut self, io: &mut DevIo<'_>, ranks: &[u32]) {
        for &rank in ranks {
            let world = &self.groups.world;
            if rank >= world.size || rank == world.me || !self.failures.is_first_report(rank) {
                continue;
            }
            match world.vcs.get(rank) {
                // Its last messages may still be on their way, with its end behind them.
                Some(vc) => self.failures.condemn(io.now + LAST_MESSAGES, vc),
                None => {
                    let peer = PeerName { group: world.id, rank };
                    self.report_death_by(io, peer, io.now + LAST_MESSAGES);
                }
            }
        }
    }

    /// Notes the death of a rank without a VC, as the process manager reports it.
    pub(super) fn died_alone(&mut self, io: &mut DevIo<'_>, peer: PeerName, host: Option<String>) {
        let error = reported_dead(peer);
        let error = match host {
            Some(host) => error.on_host(host),
            None => error,
        };
        match self.known_vc(WORLD, peer.rank) {
            // It has connected.
            Some(vc) => self.failures.condemn(io.now + LAST_MESSAGES, vc),
            None => self.process_failed(io, peer, &error),
        }
    }

    /// Returns the time at which the next dead rank is given up.
    pub(crate) fn next_give_up(&self) -> Option<Time> {
        self.failures.deadline().into_iter().chain(self.lookups.deadline()).min()
    }

    /// Gives up the VCs of dead ranks whose time has come.
    pub(crate) fn give_up_due(&mut self, io: &mut DevIo<'_>) {
        let now = io.now;
        self.report_due_deaths(io);
        for vc in self.failures.take_due(now) {
            let Some((peer, state)) = io.core.vc(vc).map(|v| (v.peer, v.state)) else { continue };
            if !state.is_failed() {
                io.netmod.vc_abort(io.core, vc, reported_dead(peer));
            }
        }
    }

    /// Handles a connection, which the peer may have made.
    pub(super) fn connected(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some((peer, state)) = io.core.vc(vc).map(|v| (v.peer, v.state)) else { return };
        self.failures.spare(vc);
        if state.is_failed() {
            if self.closing.finalizing {
                let why = VcError::new(VcErrorKind::Aborted, Some(peer), "this process is leaving the job");
                return io.netmod.vc_abort(io.core, vc, why);
            }
            self.revive(io, vc);
        } else {
            // The process manager may have reported its death before it had a VC here.
            self.recovered(&peer);
        }
        if let Some(s) = self.vcs.get_mut(vc) {
            s.connects_before = super::VcSide::CONNECTED;
        }
        self.vc_used(io, vc);
        if self.closing.finalizing {
            self.closing.connected_late.push(vc);
        }
    }

    /// Prepares a failed VC for further use, and forgets its failure.
    fn revive(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some(peer) = io.core.vc(vc).map(|v| v.peer) else { return };
        self.own_event(io, vc, VcEvent::Revive, None);
        self.recovered(&peer);
    }

    /// Returns true if a failed process has a VC; its card is needed before it can be used again.
    /// Otherwise forgets its failure, and the next use makes a VC.
    pub(crate) fn must_revive(&mut self, rank: u32) -> bool {
        let peer = PeerName { group: self.groups.world.id, rank };
        if self.failures.cause(&peer).is_none() {
            return false;
        }
        if self.groups.world.vcs.get(rank).is_none() {
            self.recovered(&peer);
            return false;
        }
        true
    }

    /// Reconnects to a failed process, perhaps a new incarnation, which has this card.
    pub(crate) fn reconnect(&mut self, io: &mut DevIo<'_>, rank: u32, card: &Card) -> Result<(), VcError> {
        let Some(vc) = self.groups.world.vcs.get(rank).filter(|_| self.must_revive(rank)) else {
            return Ok(());
        };
        io.netmod.vc_revive(io.core, vc, Some(card))?;
        if let Some(s) = self.vcs.get_mut(vc) {
            let host = host_of(card).map(Into::into);
            s.route = self.routes.shared(Route { host, ..Route::clone(&s.route) });
        }
        self.revive(io, vc);
        Ok(())
    }
}

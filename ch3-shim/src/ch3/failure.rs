//! Failed processes: who they are and why, and what that means for the requests that need them.

use std::time::Duration;

use netmod_core::lifecycle::{VcEvent, VcState};
use netmod_core::{Card, GroupId, Outcome, PeerName, ReqId, Time, VcError, VcErrorKind, VcId, VcLife};

use super::routes::host_of;
use super::{Ch3, DevIo, Failure, Group, MpiReq, Role, Route, Unexpected};
use crate::error::Error;
use crate::tagmatch::{ANY_SOURCE, Envelope, Pattern};

/// How long the connection of a rank that the process manager calls dead may still bring what it had sent.
const LAST_WORDS: Duration = Duration::from_millis(200);

fn reported_dead(peer: PeerName) -> VcError {
    let text = "the process manager says that its process has died; what it wrote last may tell why";
    VcError::new(VcErrorKind::Dead, Some(peer), text)
}

/// What failures mean for something that waits for a message.
#[derive(Debug)]
pub(crate) enum Hope {
    /// It waits like others.
    Waits,
    /// The wait ends with this error; it goes on when the failure was acknowledged.
    Pending(Error),
    /// There is nobody left to wait for.
    None(VcError),
}

impl Ch3 {
    /// Why messages of a source can no longer come, if they cannot.
    #[inline]
    pub(crate) fn source_lost(&self, pattern: &Pattern) -> Option<VcError> {
        if self.failures.is_empty() {
            return None;
        }
        let group = self.groups.of_context(pattern.context())?.id;
        let rank = u32::try_from(pattern.source()).ok()?;
        self.failures.cause(&PeerName { group, rank }).cloned()
    }

    /// Whether no process of a group is left but this one, if it is a member.
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

    /// A failed process can be reached again.
    fn pardon(&mut self, peer: &PeerName) {
        if self.failures.remove(peer) {
            self.set_alarm();
        }
    }

    /// A group is gone, and its failures with it.
    pub(super) fn forget_failures(&mut self, group: &GroupId) {
        self.failures.remove_group(group);
        self.set_alarm();
    }

    fn set_alarm(&mut self) {
        let deserted = self.groups.iter().any(|(_, g)| self.is_deserted(g));
        self.failures.set_alarm(deserted);
    }

    /// What failures mean for a request that is not finished: something only for a receive from any source
    /// that no message has matched.
    pub(crate) fn hope(&self, req: ReqId) -> Hope {
        match self.reqs.side.get(req) {
            Some(MpiReq { role: Role::Recv, posted: Some(_), env, .. }) if env.source() == ANY_SOURCE => {
                self.hope_of_any(env.context())
            }
            _ => Hope::Waits,
        }
    }

    /// What failures mean for a message from any source in a context.
    pub(crate) fn hope_of_any(&self, context: u32) -> Hope {
        let Some(group) = self.groups.of_context(context) else { return Hope::Waits };
        if let Some((first, n)) = self.failures.unacknowledged(group.id) {
            let (rank, cause) = (first.peer.rank, first.cause.clone());
            return Hope::Pending(Error::PendingFailed { rank, cause, others: n - 1 });
        }
        if self.is_deserted(group) { Hope::None(self.nobody_left(group.id)) } else { Hope::Waits }
    }

    /// Ends a receive from any source for which no sender is left.
    pub(crate) fn give_up_wildcard(&mut self, io: &mut DevIo<'_>, req: ReqId, error: VcError) {
        if let Some(key) = self.reqs.side.get_mut(req).and_then(|m| m.posted.take()) {
            self.queues.posted.cancel(key);
        }
        self.reqs.finish(io.core, req, Outcome::Failed(error));
    }

    fn nobody_left(&self, group: GroupId) -> VcError {
        let mut failed = self.failures.iter().filter(|f| f.peer.group == group).map(|f| &f.cause);
        let last = failed.next_back();
        let mut text =
            "nobody is left to send a message from any source: all other processes have failed".to_string();
        if let Some(cause) = last {
            text.push_str(&format!("; one of them: {cause}"));
        }
        VcError::new(last.map_or(VcErrorKind::Lost, VcError::kind), None, text)
    }

    /// An error with the name of the peer's host, as far as it is known.
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

    /// How often the connection of a VC was lost with messages under way.
    pub(crate) fn losses(&self, vc: Option<VcId>) -> u32 {
        vc.and_then(|vc| self.vcs.get(vc)).map_or(0, |s| s.losses)
    }

    /// Gives a message that a matched probe has held to its receive, unless what is left of it was lost
    /// meanwhile: `losses` is what [`Ch3::losses`] said when it was matched.
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

    /// The netmod reports a VC as lost.
    pub(super) fn vc_down(&mut self, io: &mut DevIo<'_>, vc: VcId, error: VcError) {
        let mut error = self.with_host(error);
        if error.kind() == VcErrorKind::Mismatch {
            error = self.with_orders(io, vc, error);
        }
        tracing::debug!(target: "netmod::vc", %error, "VC down");
        self.failures.spare(vc);
        let at_rest = io.core.vc(vc).is_some_and(|v| v.state == VcState::Inactive);
        if !(at_rest && self.closing.finalizing) {
            // Who has left while all finalize, and had nothing with this process, has not failed.
            self.own_event(io, vc, VcEvent::Lost, Some(&error));
        }
        // Both had closed, and at most the last word was lost: the VC is as good as new.
        if io.core.vc(vc).is_some_and(|v| v.state == VcState::Inactive)
            && let Err(error) = io.netmod.vc_revive(io.core, vc, None)
        {
            tracing::warn!(%error, "a closed VC cannot be used again");
        }
    }

    /// Everything that depends on a VC fails, and nothing else does. What the lifecycle asks for with
    /// `FAIL_REQUESTS`.
    pub(super) fn fail_requests(&mut self, io: &mut DevIo<'_>, vc: VcId, error: &VcError) {
        let Some((peer, state)) = io.core.vc(vc).map(|v| (v.peer, v.state)) else { return };
        if let Some(s) = self.vcs.get_mut(vc) {
            s.losses = s.losses.wrapping_add(1);
        }
        // A VC that was closed by agreement goes on as both sides know it.
        if state.is_failed() {
            self.flow_lost(vc);
            // Behind the last barrier a peer may have nothing to close, if it has not heard yet of the
            // connection that it accepts.
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
                self.reqs.finish(io.core, req, failed.clone());
            }
        }
    }

    /// A process has failed, whether it has a VC or not: receives that only it could serve end.
    pub(super) fn process_failed(&mut self, io: &mut DevIo<'_>, peer: PeerName, error: &VcError) {
        if self.failures.note(peer, error.clone()) {
            tracing::info!(%error, by = error.kind().found_by(), "process failed");
        }
        self.fail_waiting(io, peer, error);
        let group = self.groups.find(&peer.group).and_then(|n| self.groups.get(n));
        let Some(space) = group.map(|g| g.space) else { return };
        let its_own = |p: &Pattern, _: &_| p.source() == peer.rank as i32 && space.owns(p.context());
        for req in self.queues.posted.drain_matching(its_own) {
            self.reqs.finish(io.core, req, Outcome::Failed(error.clone()));
        }
    }

    /// What the process manager says of failed ranks; those that are news have failed, as if their connection
    /// had been lost.
    pub(crate) fn told_of_failed(&mut self, io: &mut DevIo<'_>, ranks: &[u32]) {
        for &rank in ranks {
            let world = &self.groups.world;
            if rank >= world.size || rank == world.me || !self.failures.is_first_report(rank) {
                continue;
            }
            match world.vcs.get(rank) {
                // What it had sent before its death may still be on its way, and its end behind that.
                Some(vc) => self.failures.doom(io.now + LAST_WORDS, vc),
                None => {
                    let peer = PeerName { group: world.id, rank };
                    self.mourn(io, peer, io.now + LAST_WORDS);
                }
            }
        }
    }

    /// A rank without a VC has died, as the process manager says.
    pub(super) fn died_alone(&mut self, io: &mut DevIo<'_>, peer: PeerName, host: Option<String>) {
        let error = reported_dead(peer);
        let error = match host {
            Some(host) => error.on_host(host),
            None => error,
        };
        match self.known_vc(super::WORLD, peer.rank) {
            // It has connected meanwhile, or had.
            Some(vc) => self.failures.doom(io.now + LAST_WORDS, vc),
            None => self.process_failed(io, peer, &error),
        }
    }

    /// When something is to be given up, if anything is.
    pub(crate) fn burial(&self) -> Option<Time> {
        self.failures.deadline().into_iter().chain(self.lookups.deadline()).min()
    }

    /// Gives up the VCs of dead ranks whose time has come.
    pub(crate) fn bury(&mut self, io: &mut DevIo<'_>) {
        let now = io.now;
        self.mourn_due(io);
        for vc in self.failures.take_due(now) {
            let Some((peer, state)) = io.core.vc(vc).map(|v| (v.peer, v.state)) else { continue };
            if !state.is_failed() {
                io.netmod.vc_abort(io.core, vc, reported_dead(peer));
            }
        }
    }

    /// The netmod reports a connection, which may be the peer's doing.
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
            // One that the process manager had called dead before it had a VC here.
            self.pardon(&peer);
        }
        if let Some(s) = self.vcs.get_mut(vc) {
            s.connects_before = super::VcSide::CONNECTED;
        }
        self.vc_used(io, vc);
        if self.closing.finalizing {
            self.closing.latecomers.push(vc);
        }
    }

    /// A failed VC is to be used again: its failure is forgotten, and nothing of the lost connection is left.
    fn revive(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some(peer) = io.core.vc(vc).map(|v| v.peer) else { return };
        self.own_event(io, vc, VcEvent::Revive, None);
        self.pardon(&peer);
    }

    /// Returns true if a failed process has a VC, so that its card is needed before it can be used again. Without
    /// one there is nothing to be reset: its failure is forgotten, and the next use makes a VC.
    pub(crate) fn must_revive(&mut self, rank: u32) -> bool {
        let peer = PeerName { group: self.groups.world.id, rank };
        if self.failures.cause(&peer).is_none() {
            return false;
        }
        if self.groups.world.vcs.get(rank).is_none() {
            self.pardon(&peer);
            return false;
        }
        true
    }

    /// This side wants to use a failed process again, perhaps in a new incarnation, which has this card.
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

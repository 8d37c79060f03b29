//! Between the links (pure) and the connections (sockets): carries out what a link decides.

use netmod_connection::{Initiator, RejectReason};
use netmod_core::{Core, DeviceError, Event, Events, Time, VcError, VcErrorKind, VcId};

use super::TcpNetmod;
use crate::calls::Calls;
use crate::conn::{self, ConnId, Stage};
use crate::control::Control;
use crate::link::{ConnKey, Failure, LinkAction, LinkEvent, Phase};
use crate::pairs::Pairs;
use crate::sessions::{Begun, SessionError};

impl TcpNetmod {
    /// Lets something happen to a VC's link and does what it says.
    pub(crate) fn link_event(&mut self, core: &mut Core, vc: VcId, event: LinkEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let is_offer = |c: ConnKey| self.sockets.conns.get(conn::id(c)).is_some_and(|c| c.moves);
            let offered = matches!(event, LinkEvent::Incoming { conn, .. } if is_offer(conn));
            let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
            for action in v.link.on(event, self.clock.now, &self.link_cfg) {
                match action {
                    LinkAction::StartDial => {
                        next = Some(match self.start_dial(vc) {
                            Ok(id) => LinkEvent::Dialing { conn: conn::key(id) },
                            Err((failure, permanent)) => {
                                LinkEvent::DialFailed { conn: ConnKey::NONE, failure, permanent }
                            }
                        });
                    }
                    LinkAction::Offer(c) => self.offer(vc, conn::id(c)),
                    LinkAction::SendAccept(c) => self.accept(vc, conn::id(c)),
                    LinkAction::SendReject(c, reason) => {
                        self.stats.refused += 1;
                        self.reject(conn::id(c), reason);
                    }
                    LinkAction::SendReady(c) => self.ready(conn::id(c)),
                    LinkAction::Adopt(c) => self.adopt(core, vc, conn::id(c)),
                    LinkAction::Abandon(c) => {
                        if event == LinkEvent::Timer {
                            self.note_lapse(vc, conn::id(c));
                        }
                        self.say_and_linger(conn::id(c), Control::Goodbye);
                    }
                    LinkAction::Withdraw(c) => self.say_and_linger(conn::id(c), Control::Withdrawn),
                    LinkAction::SayGoodbye(c) => {
                        self.part_rails(vc);
                        self.say_goodbye(vc, conn::id(c));
                    }
                    LinkAction::Close(c) => self.close(conn::id(c)),
                    LinkAction::Suspend(failure) => {
                        let moved = offered && failure == Failure::Replaced;
                        let failure = if moved { Failure::Moved } else { failure };
                        self.sessions.suspend(self.clock.now, vc, failure);
                    }
                    LinkAction::Terminated => {
                        self.part_rails(vc);
                        if let Some(v) = self.sessions.vcs.get_mut(vc) {
                            v.cause = None;
                        }
                        self.events.push_back(Event::Terminated { vc });
                    }
                    LinkAction::Down(cause) => {
                        let error = self.explain(vc, cause);
                        self.vc_failed(core, vc, error);
                    }
                }
            }
        }
        self.sessions.end_session(core, vc);
        self.settle_move(vc);
        self.retime(vc);
    }

    /// Keeps the list of VCs with timers.
    fn retime(&mut self, vc: VcId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        if v.link.up().is_none() {
            v.disconnect();
        }
        if let Some(at) = v.link.deadline() {
            self.clock.wake_by(at);
            self.sessions.work.timed.add(vc, &mut v.listed);
        }
    }

    /// Makes a connection the one of its VC.
    fn adopt(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        c.stage = Stage::Open { parting: false };
        c.vc = Some(vc);
        c.rx.calls = Calls::of(&c.socket);
        let (fd, calls) = (c.fd(), c.rx.calls);
        let clear = c.out.is_empty();
        if let Some(v) = core.vc_mut(vc) {
            v.stats.connects += 1;
        }
        let begun = match self.sessions.begin_or_resume(core, self.clock.now, &mut self.stats, vc, c) {
            Ok(begun) => begun,
            Err(what) => {
                let error = self.bad_resumption(vc, id, what);
                return netmod_core::VcLife::vc_abort(self, core, vc, error);
            }
        };
        let resumed = matches!(begun, Begun::Resumed(_));
        if let Begun::Resumed(lost) = begun {
            // One that was replaced by a better pair of interfaces was not lost.
            if !matches!(lost, Some(Failure::Moved | Failure::Lapsed)) {
                self.events.push_back(Event::Resumed { vc });
            }
            self.note_route(vc, id, lost);
        }
        self.seal(vc, id);
        self.introduce(core, vc, id);
        if !resumed {
            core.reset_receive(vc);
        }
        if let Some(v) = self.sessions.vcs.get_mut(vc) {
            v.tx.fd = fd;
            v.tx.calls = calls;
            v.tx.blocked = !clear;
            // The handshake's last bytes go first; epoll reports when they have gone.
            self.sessions.work.stuck.unmark(&mut v.listed);
            v.cause = None;
            v.routes.forget_dials();
            self.sessions.work.dirty.add(vc, &mut v.listed);
        }
        self.sockets.expect_pulse(&mut self.clock);
        self.wake_rails(vc);
        self.sockets.activate(id);
        self.consider_moving(vc, false);
        if !resumed {
            self.events.push_back(Event::Up { vc });
        }
    }

    /// Returns the error of a peer that goes on with a session where that cannot be gone on with.
    fn bad_resumption(&self, vc: VcId, id: ConnId, what: SessionError) -> VcError {
        let peer = self.sessions.peer(vc);
        let position = self.sockets.conns.get(id).map_or(0, |c| c.handshake.peer_position);
        if self.sessions.vcs.get(vc).is_some_and(|v| position < v.session.kept_from) {
            let text = format!("{what}; the connection was lost before the peer had read of a checkpoint");
            return VcError::new(VcErrorKind::Lost, peer, text);
        }
        let text = format!("protocol violation by the peer: {what}; do both sides run the same version?");
        VcError::new(VcErrorKind::Protocol, peer, text)
    }

    /// Says GOODBYE, behind the last message, and shuts our half.
    fn say_goodbye(&mut self, vc: VcId, id: ConnId) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        let mut words = self.sessions.last_acknowledgement(&mut self.stats, vc, c);
        words.extend(Control::Goodbye.emit());
        let words = self.last_words(id, &words);
        if let Some(c) = self.sockets.conns.get_mut(id) {
            c.stage = Stage::Open { parting: true };
            self.sockets.write_out(id, &words);
        }
    }

    /// Says last words on a connection without further use; it lingers until the peer has read
    /// them.
    fn say_and_linger(&mut self, id: ConnId, word: Control) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        match c.stage {
            // There is no connection yet to say anything on.
            Stage::Connecting => self.close(id),
            Stage::Dial(_) => {
                let frame = Initiator::goodbye();
                self.linger(id, frame.as_bytes());
            }
            _ => {
                let words = self.last_words(id, &word.emit());
                self.linger(id, &words);
            }
        }
    }

    /// Fails a VC: its requests, then the event.
    pub(crate) fn vc_failed(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        if let Some(q) = &mut v.tx.queue {
            q.fail(core, &error);
        }
        v.disconnect();
        v.session.id = 0;
        v.session.loss = None;
        let first = v.cause.replace(error.clone()).is_none();
        tracing::info!(peer = v.peer.rank, %error, "VC down");
        self.end_rails(vc, &error);
        if first {
            self.events.push_back(Event::Down { vc, error });
        }
    }

    /// Dials for the VCs that have messages and no connection.
    #[cold]
    pub(crate) fn dial_wanted(&mut self, core: &mut Core) {
        while let Some(vc) = self.sessions.work.wanting.pop() {
            let Some(v) = self.sessions.vcs.get_mut(vc) else { continue };
            self.sessions.work.wanting.unmark(&mut v.listed);
            if v.is_drained() {
                continue;
            }
            let dials = matches!(v.link.phase(), Phase::Idle);
            if dials && v.routes.all.is_none() {
                if !v.routes.asked_card {
                    v.routes.asked_card = true;
                    self.events.push_back(Event::NeedCard { vc });
                }
                continue;
            }
            self.link_event(core, vc, LinkEvent::WantSend);
        }
    }

    /// Serves the timers. All input is looked at first, as polls do not always ask epoll: it may be
    /// this process that was away for longer than a timeout, and the peers have long answered.
    #[cold]
    #[inline(never)]
    pub(crate) fn timers_due(
        &mut self,
        core: &mut Core,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        self.poll_epoll(core, events)?;
        self.housekeeping(core, now);
        Ok(())
    }

    /// Serves the timers of all parts.
    fn housekeeping(&mut self, core: &mut Core, now: Time) {
        self.check_liveness(core, now);
        self.sessions.serve_timers(&mut self.sockets, &mut self.clock, &mut self.stats);
        self.rail_timers(now);
        self.move_timers(core, now);
        let mut i = 0;
        while let Some(vc) = self.sessions.work.timed.get(i) {
            let due = self.sessions.vcs.get(vc).and_then(|v| v.link.deadline());
            if due.is_some_and(|t| t <= now) {
                self.link_event(core, vc, LinkEvent::Timer);
            }
            let v = self.sessions.vcs.get_mut(vc);
            match v.as_ref().and_then(|v| v.link.deadline()) {
                Some(at) => {
                    self.clock.wake_by(at);
                    i += 1;
                }
                None => self.sessions.work.timed.remove(i, v.map(|v| &mut v.listed)),
            }
        }
        self.sockets.expire_unauthenticated(&mut self.clock, &mut self.stats);
        self.expire_dials(core);
        self.sockets.expire_lingering(&mut self.clock);
        self.sockets.accept_after_pause(&mut self.clock);
        self.look_after_watched(core, now);
        if self.interfaces.look_at != Time::NEVER {
            self.look_at_interfaces(core, now);
        }
    }

    /// Gives up the connections whose peers' hosts are dead.
    fn check_liveness(&mut self, core: &mut Core, now: Time) {
        let (dead, next) = self.sockets.check_liveness(now);
        for (id, vc) in dead {
            if self.rail_ended(id, Failure::Silent) {
                continue;
            }
            self.close(id);
            self.link_event(core, vc, LinkEvent::Lost { conn: conn::key(id), failure: Failure::Silent });
        }
        self.clock.next = next;
    }

    /// Refuses a proved peer.
    pub(crate) fn reject(&mut self, id: ConnId, reason: RejectReason) {
        self.reject_with(id, reason, &Pairs::default());
    }

    /// Refuses a proved peer, and says which interfaces could talk to each other.
    pub(crate) fn reject_with(&mut self, id: ConnId, reason: RejectReason, pairs: &Pairs) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        let Stage::Proved(r, peer) = &mut c.stage else { return self.close(id) };
        tracing::debug!(%peer, %reason, "refused a connection");
        match r.reject(reason, &pairs.terms()) {
            Some(frame) => self.linger(id, frame.as_bytes()),
            None => self.close(id),
        }
    }
}

//! Connections: carries out the decisions of a VC's link, and delivers the network's events to it.

use netmod_connection::RejectReason;
use netmod_core::{Core, Event, Time, VcError, VcErrorKind, VcId};
use netmod_tcp::Control;
use netmod_tcp::link::{ConnKey, DownCause, Failure, HandshakeParams, LinkAction, LinkEvent, Phase};

use super::SimNetmod;
use crate::net::{ConnId, HandshakeMessage, Stage};

/// The incarnation of every simulated process: none is replaced by another of its name.
pub(super) const INCARNATION: u64 = 1;

pub(super) fn key(id: ConnId) -> ConnKey {
    ConnKey(id.to_wire())
}

/// Returns the connection that a link's key stands for.
pub(super) fn id(key: ConnKey) -> ConnId {
    ConnId::from_wire(key.0)
}

impl SimNetmod {
    pub(super) fn trace(&self, line: impl FnOnce() -> String) {
        if !self.traced {
            return;
        }
        let now = self.net().now();
        let me = self.me.rank;
        self.net().trace.note(now, || format!("rank {me}: {}", line()));
    }

    /// Delivers an event to a VC's link, and carries out the resulting actions.
    pub(super) fn link_event(&mut self, core: &mut Core, vc: VcId, event: LinkEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let Some(v) = self.vcs.get_mut(vc) else { return };
            let (before, peer) = (v.link.phase(), v.peer.rank);
            let actions = v.link.on(event, self.now, &self.cfg);
            let after = v.link.phase();
            self.trace(|| format!("link to {peer}: {event:?}, {before:?} to {after:?}"));
            for action in actions {
                match action {
                    LinkAction::StartDial => {
                        next = Some(match self.start_dial(vc) {
                            Some(id) => LinkEvent::Dialing { conn: key(id) },
                            None => LinkEvent::DialFailed {
                                conn: ConnKey::NONE,
                                failure: Failure::None,
                                permanent: false,
                            },
                        });
                    }
                    LinkAction::SendAccept(c) => {
                        self.send_handshake(id(c), HandshakeMessage::Accept { dials: self.dials });
                    }
                    LinkAction::SendReject(c, reason) => self.reject(id(c), reason),
                    LinkAction::SendReady(c) => self.send_handshake(id(c), HandshakeMessage::Ready),
                    LinkAction::Adopt(c) => self.adopt(core, vc, id(c)),
                    LinkAction::Abandon(c) => self.say_and_linger(id(c), Control::Goodbye),
                    LinkAction::Withdraw(c) => self.say_and_linger(id(c), Control::Withdrawn),
                    LinkAction::SayGoodbye(c) => self.say_goodbye(id(c)),
                    LinkAction::Close(c) => self.close(id(c)),
                    // Without sessions nothing is resumed, and no connection is replaced by a
                    // better one.
                    LinkAction::Suspend(_) | LinkAction::Offer(_) => {}
                    LinkAction::Terminated => self.events.push_back(Event::Terminated { vc }),
                    LinkAction::Down(cause) => {
                        let error = self.explain(vc, cause);
                        self.vc_failed(core, vc, error);
                    }
                }
            }
        }
        self.retime(vc);
    }

    fn retime(&mut self, vc: VcId) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if v.link.up().is_none() {
            v.blocked = false;
        }
        let Some(at) = v.link.deadline() else { return };
        if !std::mem::replace(&mut v.timed, true) {
            self.timed.push(vc);
        }
        if at < self.next_timer {
            self.next_timer = at;
            self.net().wake_at(self.me.rank, at);
        }
    }

    fn start_dial(&mut self, vc: VcId) -> Option<ConnId> {
        let v = self.vcs.get_mut(vc)?;
        if !v.carded {
            if !std::mem::replace(&mut v.asked, true) {
                self.events.push_back(Event::NeedCard { vc });
            }
            return None;
        }
        let to = v.peer.rank;
        self.dials += 1;
        let conn = self.net().dial(self.me.rank, to, vc, self.dials);
        self.conns.push(conn);
        Some(conn)
    }

    fn side(&self, conn: ConnId) -> u8 {
        self.net().side_of(conn, self.me.rank)
    }

    fn send_handshake(&self, conn: ConnId, message: HandshakeMessage) {
        let side = self.side(conn);
        self.net().send_handshake(conn, side, message);
    }

    pub(super) fn reject(&mut self, conn: ConnId, reason: RejectReason) {
        self.send_handshake(conn, HandshakeMessage::Reject(reason));
        self.linger(conn);
    }

    fn linger(&mut self, conn: ConnId) {
        let side = self.side(conn);
        self.net().linger(conn, side);
        self.forget(conn);
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        let side = self.side(conn);
        self.net().close(conn, side);
        self.forget(conn);
    }

    fn forget(&mut self, conn: ConnId) {
        self.conns.retain(|c| *c != conn);
        self.unclaimed.retain(|(_, c)| *c != conn);
    }

    /// Makes a connection the VC's.
    fn adopt(&mut self, core: &mut Core, vc: VcId, conn: ConnId) {
        let side = self.side(conn);
        let mut net = self.net();
        net.stats.opened += 1;
        if let Some(end) = net.end_mut(conn, side) {
            end.stage = Stage::Open;
            end.vc = Some(vc);
        }
        drop(net);
        core.reset_receive(vc);
        if let Some(v) = core.vc_mut(vc) {
            v.stats.connects += 1;
        }
        if let Some(v) = self.vcs.get_mut(vc) {
            v.blocked = false;
            v.cause = None;
        }
        self.soil(vc);
        self.events.push_back(Event::Up { vc });
    }

    /// Marks that the VC has something to send.
    pub(super) fn soil(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && !std::mem::replace(&mut v.dirty, true)
        {
            self.dirty.push(vc);
            self.remind();
        }
    }

    fn say_goodbye(&mut self, conn: ConnId) {
        let side = self.side(conn);
        let mut net = self.net();
        net.write(conn, side, &Control::Goodbye.emit());
        net.fin(conn, side);
    }

    fn say_and_linger(&mut self, conn: ConnId, word: Control) {
        let side = self.side(conn);
        let stage = self.net().end(conn, side).map(|e| e.stage);
        if stage == Some(Stage::Dial) {
            self.net().send_handshake(conn, side, HandshakeMessage::Goodbye);
        } else {
            self.net().write(conn, side, &word.emit());
        }
        self.linger(conn);
    }

    /// Fails a VC: its requests, then the event.
    pub(super) fn vc_failed(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if let Some(q) = &mut v.queue {
            q.fail(core, &error);
        }
        v.blocked = false;
        if v.cause.replace(error.clone()).is_none() {
            self.events.push_back(Event::Down { vc, error });
        }
    }

    fn explain(&self, vc: VcId, cause: DownCause) -> VcError {
        let peer = self.vcs.get(vc).map(|v| v.peer);
        let kind = match cause {
            DownCause::Lost(_)
            | DownCause::NotResumed { .. }
            | DownCause::Gone { .. }
            | DownCause::Replaced => VcErrorKind::Lost,
            DownCause::CutOff => VcErrorKind::Closed,
            DownCause::Connect { .. } => VcErrorKind::Unreachable,
            DownCause::Refused(_) => VcErrorKind::Refused,
        };
        VcError::new(kind, peer, format!("simulated {cause}"))
    }

    pub(super) fn abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        // The connection is closed here, and the VC fails for this side's reason.
        let conn = v.link.conn();
        self.link_event(core, vc, LinkEvent::Abort);
        if let Some(c) = conn {
            self.close(id(c));
        }
        self.vc_failed(core, vc, error);
    }

    /// Revives a VC that was down.
    pub(super) fn revive(&mut self, core: &mut Core, vc: VcId) {
        self.link_event(core, vc, LinkEvent::Revive);
        // A link that was terminating when it was aborted is idle already.
        if let Some(v) = self.vcs.get_mut(vc)
            && v.link.phase() == Phase::Idle
        {
            v.cause = None;
            v.asked = false;
        }
    }

    /// Handles a connection that has proved to come from a peer with a VC.
    pub(super) fn incoming(&mut self, core: &mut Core, vc: VcId, conn: ConnId) {
        let side = self.side(conn);
        if let Some(end) = self.net().end_mut(conn, side) {
            end.vc = Some(vc);
        }
        let dial = self.net().dial_number(conn);
        // There are no sessions.
        let params = HandshakeParams { session: 0, fresh: 0, incarnation: INCARNATION, dial };
        self.link_event(core, vc, LinkEvent::Incoming { conn: key(conn), params });
        self.net().again(conn, side);
    }

    /// Handles a control frame among the messages.
    pub(super) fn control(&mut self, core: &mut Core, vc: VcId, control: Option<Control>) {
        let Some(v) = self.vcs.get(vc) else { return };
        let (Some(c), pending, peer) = (v.link.conn(), v.pending(), v.peer) else { return };
        match control {
            Some(Control::Goodbye) if Self::left_open(core, vc) => {
                let why = "it has left without closing its connection with this process by agreement";
                self.abort(core, vc, VcError::new(VcErrorKind::Closed, Some(peer), why));
            }
            Some(Control::Goodbye) => {
                let side = self.side(id(c));
                if let Some(end) = self.net().end_mut(id(c), side) {
                    end.peer_left = true;
                }
                self.link_event(core, vc, LinkEvent::Goodbye { conn: c, pending });
            }
            Some(Control::Withdrawn) => {
                self.close(id(c));
                self.link_event(core, vc, LinkEvent::Lost { conn: c, failure: Failure::Withdrawn });
            }
            // This netmod resumes nothing, so acknowledgements of received data have no effect.
            Some(_) | None => {}
        }
        self.remind();
    }

    /// Connects the VCs that need a connection.
    pub(super) fn housekeeping(&mut self, core: &mut Core) {
        for vc in std::mem::take(&mut self.wanting) {
            let Some(v) = self.vcs.get_mut(vc) else { continue };
            v.wanting = false;
            if v.is_drained() {
                continue;
            }
            if v.link.phase() == Phase::Idle && !v.carded {
                if !std::mem::replace(&mut v.asked, true) {
                    self.events.push_back(Event::NeedCard { vc });
                }
                continue;
            }
            self.link_event(core, vc, LinkEvent::WantSend);
        }
    }

    /// Handles due timers, after everything that has arrived: this process may be the one that is
    /// late.
    pub(super) fn timers(&mut self, core: &mut Core) {
        if self.now < self.next_timer {
            return;
        }
        self.next_timer = Time::NEVER;
        for vc in std::mem::take(&mut self.timed) {
            let Some(v) = self.vcs.get_mut(vc) else { continue };
            v.timed = false;
            if v.link.deadline().is_some_and(|at| at <= self.now) {
                self.link_event(core, vc, LinkEvent::Timer);
            }
            self.retime(vc);
        }
    }

    /// Requests a connection for a VC with messages.
    pub(super) fn want(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && !std::mem::replace(&mut v.wanting, true)
        {
            self.wanting.push(vc);
            self.remind();
        }
    }
}

//! Between the links (pure) and the connections (sockets): carries out what a link decides.

use netmod_connection::{Initiator, RejectReason};
use netmod_core::{Core, DeviceError, Event, Events, Time, VcError, VcErrorKind, VcId};

use crate::calls::Calls;
use crate::conn::{self, ConnId, Stage};
use crate::control::Control;
use crate::link::{ConnKey, DownCause, Failure, LinkAction, LinkEvent, Phase};
use crate::netmod::TcpNetmod;
use crate::pairs::Pairs;
use crate::sys;

impl TcpNetmod {
    /// Lets something happen to a VC's link and does what it says.
    pub(crate) fn link_event(&mut self, core: &mut Core, vc: VcId, event: LinkEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let is_offer = |c: ConnKey| self.conns.get(conn::id(c)).is_some_and(|c| c.moves);
            let offered = matches!(event, LinkEvent::Incoming { conn, .. } if is_offer(conn));
            let Some(v) = self.vcs.get_mut(vc) else { return };
            for action in v.link.on(event, self.now, &self.link_cfg) {
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
                    LinkAction::Suspend(Failure::Replaced) if offered => self.suspend(vc, Failure::Moved),
                    LinkAction::Suspend(failure) => self.suspend(vc, failure),
                    LinkAction::Terminated => {
                        self.part_rails(vc);
                        if let Some(v) = self.vcs.get_mut(vc) {
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
        self.end_session(core, vc);
        self.settle_move(vc);
        self.retime(vc);
    }

    /// Keeps the list of VCs with timers.
    fn retime(&mut self, vc: VcId) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if v.link.up().is_none() {
            v.fd = -1;
            v.blocked = false;
        }
        if let Some(at) = v.link.deadline() {
            self.next_timer = self.next_timer.min(at);
            if !v.timed {
                v.timed = true;
                self.timed.push(vc);
            }
        }
    }

    /// A connection becomes the VC's.
    fn adopt(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        c.stage = Stage::Open { parting: false };
        c.vc = Some(vc);
        c.calls = Calls::of(&c.socket);
        let (fd, calls) = (c.fd(), c.calls);
        let clear = c.out.is_empty();
        if let Some(v) = core.vc_mut(vc) {
            v.stats.connects += 1;
        }
        let resumed = match self.begin_or_resume(core, vc, id) {
            Ok(resumed) => resumed,
            Err(what) => {
                let peer = self.vcs.get(vc).map(|v| v.peer);
                let position = self.conns.get(id).map_or(0, |c| c.peer_position);
                let error = if self.vcs.get(vc).is_some_and(|v| position < v.kept_from) {
                    let text =
                        format!("{what}; the connection was lost before the peer had read of a checkpoint");
                    VcError::new(VcErrorKind::Lost, peer, text)
                } else {
                    let text = format!(
                        "protocol violation by the peer: {what}; do both sides run the same version?"
                    );
                    VcError::new(VcErrorKind::Protocol, peer, text)
                };
                return netmod_core::VcLife::vc_abort(self, core, vc, error);
            }
        };
        self.seal(vc, id);
        self.introduce(core, vc, id);
        if !resumed {
            core.reset_receive(vc);
        }
        if let Some(v) = self.vcs.get_mut(vc) {
            v.fd = fd;
            v.calls = calls;
            v.blocked = !clear;
            // The handshake's last bytes go first, by another way.
            v.stuck = false;
            v.cause = None;
            v.forget_dials();
            if !v.dirty {
                v.dirty = true;
                self.dirty.push(vc);
            }
        }
        self.expect_pulse();
        self.wake_rails(vc);
        self.heat(id);
        self.consider_moving(vc, false);
        if !resumed {
            self.events.push_back(Event::Up { vc });
        }
    }

    /// Our last message has left: GOODBYE, and our half is shut.
    fn say_goodbye(&mut self, vc: VcId, id: ConnId) {
        let mut words = self.last_acknowledgement(vc, id);
        words.extend(Control::Goodbye.emit());
        let words = self.last_words(id, &words);
        if let Some(c) = self.conns.get_mut(id) {
            c.stage = Stage::Open { parting: true };
            self.write_out(id, &words);
        }
    }

    /// The end of a connection that has no use any more: last words, then it lingers until the peer
    /// has read them.
    fn say_and_linger(&mut self, id: ConnId, word: Control) {
        let Some(c) = self.conns.get(id) else { return };
        match c.stage {
            // Nothing can be said, and nobody listens.
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
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if let Some(q) = &mut v.txq {
            q.fail(core, &error);
        }
        v.fd = -1;
        v.blocked = false;
        v.session = 0;
        v.loss = None;
        let first = v.cause.replace(error.clone()).is_none();
        tracing::info!(peer = v.peer.rank, %error, "VC down");
        self.end_rails(vc, &error);
        if first {
            self.events.push_back(Event::Down { vc, error });
        }
    }

    /// Why a VC is down, for people: object, cause, way out.
    fn explain(&self, vc: VcId, cause: DownCause) -> VcError {
        let Some(v) = self.vcs.get(vc) else { return TcpNetmod::no_such_vc() };
        let addr = v.address();
        let (kind, text, after) = match cause {
            DownCause::Lost(f) => (
                VcErrorKind::Lost,
                format!(
                    "connection with {addr} lost: {f}; has the process died, or is a firewall or timeout in between?"
                ),
                None,
            ),
            DownCause::NotResumed { elapsed, last, .. } => (
                VcErrorKind::Lost,
                format!("connection with {addr} {}{cause}; {}", self.lost_of(vc), hint(last)),
                Some(elapsed),
            ),
            DownCause::Gone { elapsed, .. } => (
                VcErrorKind::Lost,
                format!("connection with {addr} {}{cause}", self.lost_of(vc)),
                Some(elapsed),
            ),
            DownCause::Replaced => {
                (VcErrorKind::Lost, format!("{cause}; what was under way with the old one is lost"), None)
            }
            DownCause::CutOff => (VcErrorKind::Closed, format!("{cause} (at {addr})"), None),
            DownCause::Connect { attempts, elapsed, last } => {
                let hint = hint(last);
                (
                    kind_of(last, VcErrorKind::Unreachable),
                    format!("connect to {addr}: {last}, {attempts} attempts; {hint}"),
                    Some(elapsed),
                )
            }
            DownCause::Refused(f) => {
                (kind_of(f, VcErrorKind::Refused), format!("connect to {addr}: {f}; {}", hint(f)), None)
            }
        };
        let e = VcError::new(kind, Some(v.peer), text);
        match after {
            Some(d) => e.after(d),
            None => e,
        }
    }

    /// Wishes for connections.
    #[cold]
    pub(crate) fn dial_wanted(&mut self, core: &mut Core) {
        while let Some(vc) = self.wanting.pop() {
            let Some(v) = self.vcs.get_mut(vc) else { continue };
            v.wanting = false;
            if v.is_drained() {
                continue;
            }
            let dials = matches!(v.link.phase(), Phase::Idle);
            if dials && v.ways.is_none() {
                if !v.asked_card {
                    v.asked_card = true;
                    self.events.push_back(Event::NeedCard { vc });
                }
                continue;
            }
            self.link_event(core, vc, LinkEvent::WantSend);
        }
    }

    /// Timers are due. First, all that has come is looked at, as polls do not always ask epoll: it may be this
    /// process that was away for longer than a timeout, and the peers have long answered.
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

    /// Timers, strangers who say nothing, descriptors that may be free again.
    fn housekeeping(&mut self, core: &mut Core, now: Time) {
        self.feel_pulses(core, now);
        self.next_timer = self.next_pulse;
        self.session_timers(now);
        self.rail_timers(now);
        self.move_timers(core, now);
        let mut i = 0;
        while let Some(&vc) = self.timed.get(i) {
            let due = self.vcs.get(vc).and_then(|v| v.link.deadline());
            if due.is_some_and(|t| t <= now) {
                self.link_event(core, vc, LinkEvent::Timer);
            }
            match self.vcs.get_mut(vc) {
                Some(v) if v.link.deadline().is_some() => {
                    if let Some(t) = v.link.deadline() {
                        self.next_timer = self.next_timer.min(t);
                    }
                    i += 1;
                }
                other => {
                    if let Some(v) = other {
                        v.timed = false;
                    }
                    self.timed.swap_remove(i);
                }
            }
        }
        self.expire_strangers(now);
        self.expire_dials(core, now);
        self.expire_lingering(now);
        self.accept_after_pause(now);
        self.look_after_watched(core, now);
        if self.own.look_at != Time::NEVER {
            self.look_at_interfaces(core, now);
        }
    }

    /// The VC has messages and no connection.
    pub(crate) fn want(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && !v.wanting
        {
            v.wanting = true;
            self.wanting.push(vc);
        }
    }

    /// Refuses a proved peer.
    pub(crate) fn reject(&mut self, id: ConnId, reason: RejectReason) {
        self.reject_with(id, reason, &Pairs::default());
    }

    /// Refuses a proved peer, and says which interfaces could talk to each other.
    pub(crate) fn reject_with(&mut self, id: ConnId, reason: RejectReason, pairs: &Pairs) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let Stage::Proved(r, peer) = &mut c.stage else { return self.close(id) };
        tracing::debug!(%peer, %reason, "refused a connection");
        match r.reject(reason, &pairs.terms()) {
            Some(frame) => self.linger(id, frame.as_bytes()),
            None => self.close(id),
        }
    }
}

fn kind_of(last: Failure, otherwise: VcErrorKind) -> VcErrorKind {
    match last {
        Failure::Errno(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL) => {
            VcErrorKind::Resource
        }
        Failure::Rejected(RejectReason::OtherNetmod) => VcErrorKind::Mismatch,
        Failure::Rejected(_) => VcErrorKind::Refused,
        Failure::WrongKey => VcErrorKind::Refused,
        Failure::Protocol => VcErrorKind::Protocol,
        _ => otherwise,
    }
}

/// The way out of a failed dial.
fn hint(last: Failure) -> String {
    match last {
        Failure::Errno(libc::ECONNREFUSED) => {
            "is the process still alive, and the job's port range open?".into()
        }
        Failure::Errno(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "is there a route from this host? NETMOD_TCP_INTERFACE chooses what is published".into()
        }
        Failure::Errno(libc::EMFILE) => {
            format!(
                "this process may have only {} descriptors; raise it with ulimit -n",
                sys::descriptor_limit()
            )
        }
        Failure::Errno(libc::ENFILE) => "the whole system is out of descriptors; raise fs.file-max".into(),
        Failure::Errno(libc::EADDRNOTAVAIL) => {
            "no local port is left; widen net.ipv4.ip_local_port_range".into()
        }
        Failure::Checkpoint => "was it restarted? NETMOD_TCP_CKPT_TIMEOUT is how long that may take".into(),
        Failure::TimedOut | Failure::Silent => {
            "does a firewall drop the packets, or is the process stopped?".into()
        }
        Failure::Rejected(RejectReason::UnknownGroup | RejectReason::WrongPeer) => {
            "another process listens there; is the business card from an earlier job?".into()
        }
        Failure::Rejected(RejectReason::Version) => {
            "do both sides run the same version of this library?".into()
        }
        Failure::Rejected(RejectReason::OtherNetmod) => "have all ranks the same NETMOD?".into(),
        Failure::Rejected(RejectReason::NoSuchPort) => {
            "was the port closed, or is its name from an earlier job?".into()
        }
        Failure::WrongKey => {
            "is the business card, or the port name, from an earlier job whose address another has now?"
                .into()
        }
        Failure::Protocol => "is something else than this library listening there?".into(),
        _ => "NETMOD_LOG=debug shows each attempt".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_dial_has_its_way_out() {
        for (errno, way_out) in [
            (libc::ECONNREFUSED, "still alive"),
            (libc::ENETUNREACH, "NETMOD_TCP_INTERFACE"),
            (libc::EHOSTUNREACH, "NETMOD_TCP_INTERFACE"),
            (libc::EADDRNOTAVAIL, "ip_local_port_range"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EPROTO, "NETMOD_LOG=debug"),
        ] {
            let text = hint(Failure::Errno(errno));
            assert!(text.contains(way_out), "{errno}: {text}");
        }
    }
}

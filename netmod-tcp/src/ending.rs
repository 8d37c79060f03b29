//! The end of the netmod, and what a person is told of a VC.

use std::os::fd::AsRawFd;

use netmod_core::{Core, Finalize, Time, VcId};

use crate::conn::{self, ConnId};
use crate::link::{Failure, LinkEvent, Phase};
use crate::netmod::TcpNetmod;

/// How far `finalize` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Until(Time),
    Over,
}

impl TcpNetmod {
    /// Closes everything; `Pending` until done.
    pub(crate) fn end(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.now = now;
        if self.ending == Ending::No {
            self.ending = Ending::Until(now + self.link_cfg.parting_timeout);
            let vcs: Vec<VcId> = self.vcs.iter().map(|(vc, _)| vc).collect();
            for vc in vcs {
                self.part_rails(vc);
                self.acknowledge(vc, 1);
                self.flush_vc(core, vc);
                let pending = self.vcs.get(vc).is_some_and(|v| !v.is_settled());
                self.link_event(core, vc, LinkEvent::Shutdown { pending });
            }
            if let Some(l) = self.listener.take() {
                // A listener that was never watched is not in epoll; that is no fault.
                let _ = self.epoll.remove(l.socket.as_raw_fd());
            }
            while let Some((_, conn)) = self.strangers.pop_front() {
                self.close(conn);
            }
        }
        let late = matches!(self.ending, Ending::Until(t) if now >= t);
        if late {
            let left: Vec<ConnId> = self.conns.iter().map(|(id, _)| id).collect();
            for id in left {
                self.close(id);
            }
        }
        if self.conns.is_empty() {
            self.ending = Ending::Over;
            self.own.let_go();
            return Finalize::Done;
        }
        if let Ending::Until(t) = self.ending {
            self.next_timer = self.next_timer.min(t);
        }
        Finalize::Pending
    }

    /// One line about a VC.
    pub(crate) fn describe_vc(&self, core: &Core, vc: VcId) -> String {
        let Some(v) = self.vcs.get(vc) else {
            return if self.by_vc(core, vc).is_some() { "no connection" } else { "not in charge" }.into();
        };
        let state = match v.link.phase() {
            Phase::Backoff if v.link.is_resuming() && v.link.is_patient() => {
                "suspended for a checkpoint".to_string()
            }
            Phase::Backoff if v.link.is_resuming() => {
                format!("connection lost, to be resumed: {}", v.link.last_failure())
            }
            Phase::Idle => "no connection".to_string(),
            Phase::Dialing if v.link.last_failure() != Failure::None => {
                format!("dialling again: {}", v.link.last_failure())
            }
            Phase::Dialing => "dialling".into(),
            Phase::Backoff => format!("waiting to dial again: {}", v.link.last_failure()),
            Phase::Promised => "accepted, not confirmed".into(),
            Phase::Up => "connected".into(),
            Phase::Parting => "parting".into(),
            Phase::Failed => {
                format!("down: {}", v.cause.as_ref().map_or_else(String::new, ToString::to_string))
            }
            Phase::Shut => "shut".into(),
        };
        let at = v
            .link
            .conn()
            .and_then(|c| self.conns.get(conn::id(c)))
            .and_then(|c| c.socket.peer_addr().ok())
            .and_then(|a| a.as_socket());
        let mut at = at.map_or_else(String::new, |a| format!(" with {a}"));
        let pair = v.link.conn().and_then(|c| self.conns.get(conn::id(c))).map(|c| c.pair);
        if let Some(way) = pair.and_then(|p| v.ways.as_ref()?.paired.list.iter().find(|w| w.is_between(p))) {
            at += &format!(" ({way})");
        }
        if !v.rails().is_empty() {
            at += &format!(", {} pairs for rails", v.rails().len());
        }
        if !v.left_out().is_empty() {
            at += &format!(", no rails: {}", v.left_out());
        }
        let queue = v.txq.as_ref().map_or_else(|| "nothing queued".into(), |q| q.describe());
        let s = core.vc(vc).map(|v| v.stats).unwrap_or_default();
        let mut resumed =
            if v.resumes > 0 { format!(", resumed {} times", v.resumes) } else { String::new() };
        if v.altered.records > 0 {
            resumed += &format!(", {} records altered on the way", v.altered.records);
        }
        if let Some(change) = &v.route.change {
            resumed += &format!(", {change}");
        }
        let rails = self.describe_rails(vc);
        format!("{state}{at}{resumed}, {queue}, {} messages out, {} in{rails}", s.tx_msgs, s.rx_msgs)
    }
}

//! Human-readable text about a VC.

use netmod_core::{Core, VcId};

use super::TcpNetmod;
use crate::conn;
use crate::link::{Failure, Phase};

impl TcpNetmod {
    /// Returns one line about a VC.
    pub(crate) fn describe_vc(&self, core: &Core, vc: VcId) -> String {
        let Some(v) = self.sessions.vcs.get(vc) else {
            return if self.sessions.peer_of(core, vc).is_some() { "no connection" } else { "not in charge" }
                .into();
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
            .and_then(|c| self.sockets.conns.get(conn::id(c)))
            .and_then(|c| c.socket.peer_addr().ok())
            .and_then(|a| a.as_socket());
        let mut at = at.map_or_else(String::new, |a| format!(" with {a}"));
        let pair = v.link.conn().and_then(|c| self.sockets.conns.get(conn::id(c))).map(|c| c.pair);
        if let Some(route) =
            pair.and_then(|p| v.routes.all.as_ref()?.paired.list.iter().find(|w| w.is_between(p)))
        {
            at += &format!(" ({route})");
        }
        let seals = v.link.conn().and_then(|c| self.sockets.conns.get(conn::id(c))?.handshake.seals.as_ref());
        match seals {
            Some(seals) => at += &format!(", {}", seals.out),
            None if v.link.up().is_some() => at += ", without MACs",
            None => {}
        }
        if !v.routes.rails().is_empty() {
            at += &format!(", {} pairs for rails", v.routes.rails().len());
        }
        if !v.routes.left_out().is_empty() {
            at += &format!(", no rails: {}", v.routes.left_out());
        }
        let queue = v.tx.queue.as_ref().map_or_else(|| "nothing queued".into(), |q| q.describe());
        let s = core.vc(vc).map(|v| v.stats).unwrap_or_default();
        let mut resumed = if v.session.resumes > 0 {
            format!(", resumed {} times", v.session.resumes)
        } else {
            String::new()
        };
        if v.session.altered.records > 0 {
            resumed += &format!(", {} records altered on the way", v.session.altered.records);
        }
        if let Some(change) = &v.routes.change {
            resumed += &format!(", {change}");
        }
        let rails = self.describe_rails(vc);
        format!("{state}{at}{resumed}, {queue}, {} messages out, {} in{rails}", s.tx_msgs, s.rx_msgs)
    }
}

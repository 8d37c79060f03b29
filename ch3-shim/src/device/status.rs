//! The device's report on itself.

use std::collections::BTreeMap;

use netmod_core::config::Origin;
use netmod_core::{Diagnose, ReqId, Request};

use super::Vci;
use super::leave::Leaving;
use crate::ch3::{Body, MpiReq, Role, Space, process_of_source};
use crate::report::{LISTED, RequestStatus, StatusReport, UnexpectedStatus, VcStatus};
use crate::tagmatch::{ANY_SOURCE, ANY_TAG};

/// Returns the kind of a request and what it waits for; `None` for memory of the device's own,
/// which the request that gets the message speaks for.
fn waits_for(mpi: Option<&MpiReq>, offered: bool) -> Option<(&'static str, &'static str)> {
    let Some(mpi) = mpi else { return Some(("send", "the network to take its data")) };
    Some(match &mpi.role {
        Role::Send => ("send", "the network to take its data"),
        Role::SyncSend { sent: false, .. } => ("send", "the network to take its data"),
        Role::SyncSend { .. } => ("send", "its receiver to match it (synchronous)"),
        Role::RndvSend if offered => ("send", "its receiver to match it (rendezvous)"),
        Role::RndvSend => ("send", "the network to take its data (rendezvous)"),
        Role::Waiting { .. } => ("send", "room at its receiver, or its business card"),
        Role::SelfSend => ("send", "a receive of this process"),
        Role::Recv if mpi.posted.is_some() => ("receive", "a message that matches"),
        Role::Recv => ("receive", "the rest of its message"),
        Role::RndvRecv => ("receive", "the sender's data (rendezvous)"),
        Role::OneSided => ("one-sided operation", "the network to move its data"),
        Role::Arriving { .. } | Role::Cookie | Role::SentCookie => return None,
    })
}

impl Vci {
    /// Reports what this device is doing and what it waits for. Costs nothing until it is called.
    pub fn status(&mut self) -> StatusReport {
        self.tick();
        let group = &self.ch3.groups.world;
        let mut report = StatusReport {
            rank: group.me,
            size: group.size,
            job: format!("{:?}", group.id),
            pid: std::process::id(),
            age: self.now.since(self.served.made).as_secs_f64(),
            activity: self.activity().into(),
            netmods: self.netmods().iter().map(|n| (*n).to_owned()).collect(),
            opened: self.engine.netmod.netmods().map(Diagnose::opened).collect(),
            cores: super::sharing::explain(self.cores.pollers, self.cores.threads),
            posted: self.ch3.queues.posted.len(),
            unexpected: self.ch3.queues.unexpected.len(),
            unexpected_bytes: self.ch3.stats.unexpected_bytes,
            unexpected_high: self.ch3.stats.unexpected_high,
            ..StatusReport::default()
        };
        let set = self.cfg.entries().filter(|e| e.origin != Origin::Default && e.value != e.default);
        report.settings = set.map(|e| (e.name.to_owned(), e.value, e.origin.to_string())).collect();
        let bound = self.report_requests(&mut report);
        self.report_unexpected(&mut report);
        self.report_vcs(&mut report, &bound);
        report
    }

    fn activity(&self) -> &'static str {
        match self.departure.stage {
            Leaving::No if self.served.blocked => "blocked in a wait",
            Leaving::No => "polling",
            Leaving::Barrier { .. } => "finalizing: waits for all ranks to finalize",
            Leaving::Closing { .. } => "finalizing: waits for peers to close their connections",
            Leaving::Parting { .. } => "finalizing: the netmods are closing",
            Leaving::Goodbye(_) => "finalizing: waits for the launcher's answer",
            Leaving::Done => "finalized",
        }
    }

    /// Requests; returns how many are bound to each VC, by the VC's index.
    fn report_requests(&self, report: &mut StatusReport) -> BTreeMap<usize, usize> {
        let mut bound = BTreeMap::new();
        let mut under_way: Vec<(ReqId, &Request, Option<&MpiReq>)> = Vec::new();
        for (id, r) in self.engine.core.reqs() {
            let mpi = self.ch3.reqs.side.get(id);
            let Some((_, wait)) = waits_for(mpi, self.ch3.lmt.is_offered(id)) else { continue };
            if r.is_finished() {
                report.unclaimed += 1;
                continue;
            }
            if let Some(vc) = r.vc {
                *bound.entry(vc.index()).or_default() += 1;
            }
            *report.waits.entry(wait.to_owned()).or_default() += 1;
            under_way.push((id, r, mpi));
        }
        under_way.sort_by_key(|(id, _, mpi)| (mpi.map(|m| m.since), *id));
        for (id, r, mpi) in under_way.into_iter().take(LISTED) {
            let (kind, wait) = waits_for(mpi, self.ch3.lmt.is_offered(id)).unwrap_or_default();
            let peer = r.vc.and_then(|vc| self.engine.core.vc(vc)).map(|v| v.peer.rank);
            let source = |m: &MpiReq| process_of_source(m.env.context(), m.env.source());
            let asked = mpi.filter(|_| kind == "receive").map(source);
            let asked = asked.filter(|s| *s != ANY_SOURCE).and_then(|s| u32::try_from(s).ok());
            report.requests.push(RequestStatus {
                id: id.to_string(),
                kind: kind.into(),
                waits_for: wait.into(),
                peer: peer.or(asked),
                tag: mpi.map(|m| m.env.tag()).filter(|t| *t != ANY_TAG),
                context: mpi.map_or(0, |m| m.env.context()),
                moved: r.seg.pos() as u64,
                bytes: r.seg.total() as u64,
                age: mpi.map_or(0.0, |m| self.now.since(m.since).as_secs_f64()),
            });
        }
        bound
    }

    fn report_unexpected(&self, report: &mut StatusReport) {
        for (_, env, u) in self.ch3.queues.unexpected.iter().take(LISTED) {
            report.unexpected_list.push(UnexpectedStatus {
                source: process_of_source(env.context(), env.source()),
                tag: env.tag(),
                context: env.context(),
                bytes: u.len,
                body: match u.body {
                    Body::Inline(_) | Body::Whole(_) => "here",
                    Body::Arriving(_) => "arriving",
                    Body::Rts(_) => "announced",
                    Body::Local(_) => "of this process",
                }
                .into(),
                age: self.now.since(u.since).as_secs_f64(),
            });
        }
    }

    fn report_vcs(&self, report: &mut StatusReport, bound: &BTreeMap<usize, usize>) {
        let mut vcs = Vec::new();
        for (vc, v) in self.engine.core.vcs() {
            let down = self.ch3.failures.cause(&v.peer);
            let state = if down.is_some() { "down" } else { v.state.name() };
            *report.vc_states.entry(state.to_owned()).or_default() += 1;
            let requests = bound.get(&vc.index()).copied().unwrap_or(0);
            vcs.push((down.is_none(), usize::MAX - requests, vc));
        }
        vcs.sort_unstable();
        for (_, rest, vc) in vcs.into_iter().take(LISTED) {
            let (Some(v), Some(side)) = (self.engine.core.vc(vc), self.ch3.vcs.get(vc)) else {
                continue;
            };
            let flow = self.ch3.flow_report(vc);
            let group = if side.space == Space::WORLD { "" } else { " (of another group)" };
            report.vcs.push(VcStatus {
                peer: v.peer.rank,
                state: format!("{}{group}", v.state.name()),
                down: self.ch3.failures.cause(&v.peer).map(ToString::to_string),
                choice: side.route.choice.to_string(),
                netmod: self.engine.netmod.describe(&self.engine.core, vc),
                requests: usize::MAX - rest,
                credit: flow.left,
                stalled: flow.waiting_sends,
                messages: [v.stats.tx_msgs, v.stats.rx_msgs],
                bytes: [v.stats.tx_bytes, v.stats.rx_bytes],
                large: self.ch3.lmt.report(vc),
                lmt: self.ch3.lmt.unmet(vc),
            });
        }
    }
}

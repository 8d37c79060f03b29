//! Groups of other jobs: the ports at which they arrive, and how they are joined and left.

use std::collections::{HashMap, VecDeque};

use netmod_core::lifecycle::{VcEvent, VcState};
use netmod_core::{
    Card, DeviceError, DynamicProcesses, Outcome, PeerName, Refusal, RemoteGroup, Vc, VcError, VcErrorKind,
    VcId, VcLife, port_group,
};

use super::group::Cards;
use super::{Body, Ch3, DevIo, Route};
use crate::tagmatch::ANY_SOURCE;

/// Most groups that wait at a port; others are refused, and try again.
pub(crate) const MAX_WAITING: usize = 64;
/// The rank of the one process of a group that arrives at a port.
pub(crate) const ROOT: u32 = 0;

/// A port of this process.
#[derive(Debug)]
pub(crate) struct OpenPort {
    key: [u8; 32],
    /// The groups of one process each that have arrived and were not served, in order.
    pub waiting: VecDeque<u32>,
}

/// The ports of this process by their tags.
pub(crate) type Ports = HashMap<u64, OpenPort>;

impl Ch3 {
    /// Opens a port.
    pub(crate) fn open_port(
        &mut self,
        io: &mut DevIo<'_>,
        tag: u64,
        key: [u8; 32],
    ) -> Result<(), DeviceError> {
        io.netmod.open_port(tag, key)?;
        self.ports.insert(tag, OpenPort { key, waiting: VecDeque::new() });
        Ok(())
    }

    /// Closes a port, and disconnects the groups that wait at it. Returns true if it was open.
    pub(crate) fn close_port(&mut self, io: &mut DevIo<'_>, tag: u64) -> bool {
        io.netmod.close_port(tag);
        let Some(port) = self.ports.remove(&tag) else { return false };
        for arrival in port.waiting {
            self.leave(io, arrival);
        }
        true
    }

    /// Closes all ports.
    pub(crate) fn close_ports(&mut self, io: &mut DevIo<'_>) {
        while let Some(tag) = self.ports.keys().next().copied() {
            self.close_port(io, tag);
        }
    }

    /// Queues a process that has arrived at a port with its key. It stays connected until it is
    /// served.
    #[cold]
    pub(super) fn port_peer(&mut self, io: &mut DevIo<'_>, peer: PeerName, tag: u64, netmod: u8) {
        self.forget_lost_arrivals(io, tag);
        let room = self.ports.get(&tag).filter(|p| p.waiting.len() < MAX_WAITING && !self.closing.finalizing);
        let Some(key) = room.map(|p| p.key) else {
            return io.netmod.refuse_peer(peer, Refusal::NotWanted);
        };
        let me = PeerName { group: port_group(tag), rank: ROOT };
        let group = RemoteGroup { id: peer.group, size: 1, me, key };
        let known = self.groups.find(&peer.group).is_some() || peer.rank != ROOT;
        let arrival = if known { None } else { self.join(io, &group, Cards::Unknown).ok() };
        match arrival {
            Some(arrival) if self.make_vc_of_caller(io, arrival, ROOT, netmod).is_ok() => {
                if let Some(port) = self.ports.get_mut(&tag) {
                    port.waiting.push_back(arrival);
                }
            }
            other => {
                io.netmod.refuse_peer(peer, Refusal::NotWanted);
                if let Some(arrival) = other {
                    self.leave(io, arrival);
                }
            }
        }
    }

    /// Forgets the groups that have left a port without being served.
    pub(crate) fn forget_lost_arrivals(&mut self, io: &mut DevIo<'_>, tag: u64) {
        let Some(port) = self.ports.get(&tag) else { return };
        let gone = |n: &u32| {
            let vc = self.groups.get(*n).and_then(|g| g.vcs.get(ROOT));
            vc.and_then(|vc| io.core.vc(vc))
                .is_none_or(|v| !matches!(v.state, VcState::Inactive | VcState::Active))
        };
        let lost: Vec<u32> = port.waiting.iter().copied().filter(gone).collect();
        for arrival in lost {
            self.leave(io, arrival);
            if let Some(port) = self.ports.get_mut(&tag) {
                port.waiting.retain(|g| *g != arrival);
            }
        }
    }

    /// Adds a group of another job. Returns its number here.
    pub(crate) fn join(
        &mut self,
        io: &mut DevIo<'_>,
        group: &RemoteGroup,
        cards: Cards,
    ) -> Result<u32, DeviceError> {
        if self.groups.find(&group.id).is_some() {
            return Err(DeviceError::new("device", "the group is known already; was it joined twice?"));
        }
        io.netmod.join_group(group)?;
        let number = self.groups.add(group.id, group.me, group.size, cards);
        number.ok_or_else(|| {
            io.netmod.leave_group(&group.id);
            DeviceError::new("device", "too many groups are connected; disconnect some")
        })
    }

    /// Connects to the process at a port, whose group was added.
    pub(crate) fn connect_to_root(
        &mut self,
        io: &mut DevIo<'_>,
        group: u32,
        card: &Card,
        tag: u64,
    ) -> Result<VcId, VcError> {
        let peer = PeerName { group: port_group(tag), rank: ROOT };
        let Some((me, space)) = self.groups.get(group).map(|g| (g.own_name(), g.space)) else {
            return Err(VcError::new(VcErrorKind::Closed, Some(peer), "its group was disconnected"));
        };
        // The other side uses the netmod by which this one connects.
        let chosen = io.netmod.choose(me, peer, card)?;
        let vc = io.core.add_vc(Vc::new(peer, chosen.netmod));
        if let Err(e) = io.netmod.connect_to_root(io.core, vc, card, tag) {
            io.core.remove_vc(vc);
            return Err(e);
        }
        self.add_vc(vc, false, (group, ROOT), space, Route::of(chosen, card));
        Ok(vc)
    }

    /// Removes a remote group with its VCs, cards, contexts and key. Receives that wait for its
    /// messages fail; its messages that nobody has received are dropped.
    pub(crate) fn leave(&mut self, io: &mut DevIo<'_>, number: u32) {
        let Some(group) = self.groups.remove(number) else { return };
        let error = VcError::new(VcErrorKind::Closed, None, "its group was disconnected");
        for (_, vc) in group.vcs.iter() {
            self.destroy_vc(io, vc, &error);
        }
        io.netmod.leave_group(&group.id);
        self.forget_failures(&group.id);
        // Messages from any source still come from others, if the group shares its contexts.
        let all = |source| group.job.is_none() && source == ANY_SOURCE;
        let is_its =
            |context, source| all(source) && group.space.owns(context) || group.owns(context, source);
        for req in self.queues.posted.drain_matching(|p, _| is_its(p.context(), p.source())) {
            self.reqs.finish(io.core, req, Outcome::Failed(error.clone()));
        }
        for (_, msg) in self.queues.unexpected.drain_matching(|env, _| is_its(env.context(), env.source())) {
            self.discharge(io, &msg);
            if let Body::Whole(buf) = msg.body {
                self.reqs.pool.give(buf);
            }
        }
    }

    /// Destroys a VC, with everything that depends on it.
    fn destroy_vc(&mut self, io: &mut DevIo<'_>, vc: VcId, error: &VcError) {
        io.netmod.vc_destroy(io.core, vc);
        self.flow_lost(vc);
        if io.core.vc(vc).is_some_and(|v| !v.state.is_at_rest()) {
            self.own_event(io, vc, VcEvent::Lost, Some(error));
        }
        self.forget_vc(io, vc, error);
    }

    fn forget_vc(&mut self, io: &mut DevIo<'_>, vc: VcId, error: &VcError) {
        self.fail_requests(io, vc, error);
        self.conceal_from(io, vc);
        io.core.remove_vc(vc);
        self.vcs.remove(vc);
    }

    /// Destroys all VCs, whose connections have ended.
    pub(crate) fn destroy_vcs(&mut self, io: &mut DevIo<'_>) {
        let error = VcError::new(VcErrorKind::Closed, None, "the device has been finalized");
        let all: Vec<VcId> = io.core.vcs().map(|(vc, _)| vc).collect();
        for vc in all {
            io.netmod.vc_destroy(io.core, vc);
            self.forget_vc(io, vc, &error);
        }
    }
}

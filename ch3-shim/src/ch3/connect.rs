//! The making of VCs: at the first use, over a netmod that is chosen from the peer's card, or over
//! the netmod by which the peer has connected.

use netmod_core::{Card, PeerName, Refusal, VcError, VcErrorKind, VcId, VcLife};

use super::credit::{Flow, Terms};
use super::{Ch3, DevIo, Route, Space, VcSide, WORLD};

/// Returns the name under which a rank's card is published: at first, or at the n-th
/// [`ckpt_rejoin`](crate::Vci::ckpt_rejoin).
pub(crate) fn card_key(rank: u32, rejoins: u32) -> String {
    match rejoins {
        0 => format!("netmod-card-{rank}"),
        n => format!("netmod-card-{rank}.{n}"),
    }
}

/// Returns the rank whose card has this name.
pub(crate) fn rank_of_key(key: &str) -> Option<u32> {
    key.strip_prefix("netmod-card-")?.split('.').next()?.parse().ok()
}

impl Ch3 {
    /// Returns the VC of a rank of a group, if it has been used.
    #[inline]
    pub(crate) fn known_vc(&self, group: u32, rank: u32) -> Option<VcId> {
        self.groups.get(group).and_then(|g| g.vcs.get(rank))
    }

    /// Makes the VC of a rank over a netmod.
    #[cold]
    pub(super) fn make_vc(
        &mut self,
        io: &mut DevIo<'_>,
        (group, rank): (u32, u32),
        netmod: u8,
        route: Route,
        card: Option<&Card>,
    ) -> Result<VcId, VcError> {
        let Some((id, space)) = self.groups.get(group).map(|g| (g.id, g.space)) else {
            return Err(VcError::new(VcErrorKind::Closed, None, "its group was disconnected"));
        };
        let peer = PeerName { group: id, rank };
        let vc = io.core.add_vc(netmod_core::Vc::new(peer, netmod));
        if let Err(e) = io.netmod.vc_init(io.core, vc, peer, card) {
            io.core.remove_vc(vc);
            return Err(e);
        }
        tracing::debug!(target: "netmod::vc", group, peer = rank, choice = %route.choice, "new VC");
        let near = io.netmod.is_near(io.core, vc);
        self.add_vc(vc, near, (group, rank), space, route);
        Ok(vc)
    }

    /// Makes the VC of a rank over the netmod by which it has connected.
    pub(super) fn make_vc_of_caller(
        &mut self,
        io: &mut DevIo<'_>,
        group: u32,
        rank: u32,
        netmod: u8,
    ) -> Result<VcId, VcError> {
        let route = Route { choice: "the peer connected by it".into(), ..Route::default() };
        self.make_vc(io, (group, rank), netmod, route, None)
    }

    /// Makes the VC of a rank over the netmod that is chosen from its card.
    pub(super) fn make_vc_by_card(
        &mut self,
        io: &mut DevIo<'_>,
        (group, rank): (u32, u32),
        card: &Card,
    ) -> Result<VcId, VcError> {
        let Some((id, me)) = self.groups.get(group).map(|g| (g.id, g.own_name())) else {
            return Err(VcError::new(VcErrorKind::Closed, None, "its group was disconnected"));
        };
        let chosen = io.netmod.choose(me, PeerName { group: id, rank }, card)?;
        self.make_vc(io, (group, rank), chosen.netmod, Route::of(chosen, card), Some(card))
    }

    /// Gives a peer that has connected its VC over that netmod. Refuses it if it is not wanted, or
    /// if its VC belongs to another netmod.
    #[cold]
    pub(super) fn new_peer(&mut self, io: &mut DevIo<'_>, peer: PeerName, netmod: u8) {
        let group = self.groups.find(&peer.group).filter(|_| !self.closing.finalizing);
        let known = group.and_then(|n| Some((n, self.groups.get(n)?))).filter(|(_, g)| peer.rank < g.size);
        match known.map(|(n, g)| (n, g.vcs.get(peer.rank))) {
            Some((n, None)) => match self.make_vc_of_caller(io, n, peer.rank, netmod) {
                Ok(vc) => self.peer_came(io, vc, peer),
                Err(_) => io.netmod.refuse_peer(peer, Refusal::NotWanted),
            },
            Some((_, Some(vc))) if io.core.vc(vc).is_some_and(|v| v.netmod != netmod) => {
                io.netmod.refuse_peer(peer, Refusal::OtherNetmod);
                let (here, there) = (io.core.vc(vc).map_or(0, |v| v.netmod), io.netmod.name_of(netmod));
                let text = format!("it connects by {there}, and this process by {}", io.netmod.name_of(here));
                // The peer likewise refuses all that this side has sent or will send.
                io.netmod.vc_abort(io.core, vc, VcError::new(VcErrorKind::Mismatch, Some(peer), text));
            }
            _ => io.netmod.refuse_peer(peer, Refusal::NotWanted),
        }
    }

    /// Returns the error of a VC whose ends chose different netmods, with both orders and the way
    /// out.
    pub(super) fn with_orders(&self, io: &DevIo<'_>, vc: VcId, error: VcError) -> VcError {
        let route = self.vcs.get(vc).map(|s| s.route.clone()).unwrap_or_default();
        let text = format!(
            "the two ends of the connection chose different netmods ({error}): here {}; NETMOD is {} here and {} there; \
             leave out the netmod by which only one of them reaches the other",
            route.choice,
            io.netmod.offer().order(),
            route.order.as_deref().unwrap_or("not known"),
        );
        let full = VcError::new(VcErrorKind::Mismatch, error.peer(), text);
        match &route.host {
            Some(host) => full.on_host(&**host),
            None => full,
        }
    }

    /// Adds the device's part of a new VC. `near`: its netmod shares memory with the peer.
    pub(super) fn add_vc(
        &mut self,
        vc: VcId,
        near: bool,
        (group, rank): (u32, u32),
        space: Space,
        route: Route,
    ) {
        // Processes of other jobs may have been started with other settings.
        let terms = if group == WORLD { self.budget.terms } else { Terms::DEFAULT };
        let first = self.groups.get(group).map_or(0, |g| g.first);
        let flow = Flow::new(terms);
        let route = self.routes.shared(route);
        let side = VcSide {
            rank,
            first,
            space,
            eager_max: self.budget.most_eager(terms) as u32,
            eager_open: near && self.lmt.leaves_eager_open(),
            starved: false,
            flow,
            connects_before: VcSide::CONNECTED,
            losses: 0,
            closes: 0,
            route,
        };
        self.vcs.set(vc, side);
        if let Some(g) = self.groups.get_mut(group) {
            g.vcs.set(rank, Some(vc));
        }
    }

    /// Sets the longest eager message of a VC, in bytes.
    pub(crate) fn set_eager_max(&mut self, vc: VcId, bytes: usize) {
        if let Some(s) = self.vcs.get_mut(vc) {
            s.eager_max = bytes.min(self.budget.terms.eager_max()) as u32;
            s.eager_open = false;
        }
    }

    /// Returns the VC of a rank of the job; makes it by its card if it has none.
    pub(crate) fn vc_by_card(&mut self, io: &mut DevIo<'_>, rank: u32, card: &Card) -> Result<VcId, VcError> {
        match self.known_vc(WORLD, rank) {
            Some(vc) => Ok(vc),
            None => self.make_vc_by_card(io, (WORLD, rank), card),
        }
    }
}

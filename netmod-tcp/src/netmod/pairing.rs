//! Pairs of interfaces in use: which one a connection goes by, what is said of that to its other
//! side, and what becomes of it when interfaces change.

use std::os::fd::AsRawFd;

use netmod_connection::RejectReason;
use netmod_core::{Card, Core, PeerName, Time, VcError, VcErrorKind, VcId};

use super::TcpNetmod;
use crate::card;
use crate::conn::{self, ConnId, Stage};
use crate::link::{Failure, LinkEvent};
use crate::pairs::Pairs;
use crate::policy::{Verdict, judge};
use crate::route::{RouteError, Routes};
use crate::stats::TcpStats;
use crate::sys::{self, Interest};

/// The key in epoll of the descriptor that tells of changes of interfaces.
pub(super) const INTERFACES: u64 = u64::MAX - 1;

impl TcpNetmod {
    fn find_routes(&mut self, card: &Card, decides: bool) -> Result<Routes, RouteError> {
        let (published, port) = card::parse(card)?;
        Ok(Routes { paired: self.interfaces.routes_to(&published, decides)?, port })
    }

    /// Finds out whether the process with this card can be reached.
    pub(super) fn reach(&mut self, card: &Card) -> Result<(), RouteError> {
        self.find_routes(card, true).map(drop)
    }

    /// Returns the routes to a peer with this card.
    pub(crate) fn routes_of(&mut self, peer: PeerName, card: &Card) -> Result<Routes, VcError> {
        let decides = self.id.name_towards(&peer.group) < peer;
        let found = self.find_routes(card, decides);
        self.watch_interfaces();
        found.map_err(|e| VcError::new(VcErrorKind::Card, Some(peer), e.to_string()))
    }

    /// Replaces the routes to the peer of a VC that is in use.
    pub(crate) fn take_routes(&mut self, core: &Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        let peer = self.first_use(core, vc)?.peer;
        let routes = self.routes_of(peer, card)?;
        if let Some(v) = self.sessions.vcs.get_mut(vc) {
            v.routes.all = Some(routes);
            v.routes.reckon(v.peer, self.cfg.rails);
        }
        Ok(())
    }

    /// Finds out whether an incoming connection goes by a right pair of interfaces. If not, the
    /// error has the reason, and the pairs that would be right.
    pub(crate) fn judge_incoming(&mut self, vc: VcId, id: ConnId) -> Result<(), (RejectReason, Pairs)> {
        let (Some(v), Some(c)) = (self.sessions.vcs.get(vc), self.sockets.conns.get_mut(id)) else {
            return Ok(());
        };
        let Some(proposed) = c.handshake.proposed.as_deref() else { return Ok(()) };
        let decides = self.id.name_towards(&v.peer.group) < v.peer;
        let decision = v.routes.all.as_ref().filter(|_| decides).map(|w| {
            let pairs = w.paired.pairs().filter(|p| !v.routes.has_failed(*p));
            Pairs::new(w.paired.agreement, pairs)
        });
        let used = proposed.as_slice().first().copied().unwrap_or_default();
        let ends = c.socket.local_addr().ok().zip(c.socket.peer_addr().ok());
        let ends = ends.and_then(|(a, b)| {
            Some((a.as_socket()?.ip().to_canonical(), b.as_socket()?.ip().to_canonical()))
        });
        let own = &mut self.interfaces;
        let back = ends.is_none_or(|(here, there)| own.has_route(used.0, here, there));
        let usable = |pair: (u32, u32)| own.is_usable(pair.0) && (pair != used || back);
        match judge(proposed, usable, decision.filter(|d| !d.as_slice().is_empty()).as_ref()) {
            Verdict::Take(agreed) => {
                if proposed.agreement != 0 && agreed.agreement != proposed.agreement {
                    let (peer, ours, theirs) = (v.peer.rank, agreed.agreement, proposed.agreement);
                    tracing::debug!(peer, ours, theirs, "the peer had paired the interfaces otherwise");
                }
                c.pair = used;
                c.handshake.proposed = Some(Box::new(agreed));
                Ok(())
            }
            Verdict::Refuse(why, better) => {
                let interface = self.interfaces.name_of(used.0).unwrap_or("one that is not here");
                tracing::info!(peer = v.peer.rank, interface, %why, ?better, "refused a connection for its interface");
                Err((why, better))
            }
        }
    }

    /// Has an incoming connection answer by the interface that it is meant for, if it came by that.
    pub(crate) fn pin(&mut self, id: ConnId) {
        let Some(c) = self.sockets.conns.get(id).filter(|c| c.pair != (0, 0)) else { return };
        let index = c.pair.0;
        let Some(name) = self.interfaces.name_of(index) else { return };
        let came_by = sys::came_by(&c.socket);
        if came_by.is_some_and(|i| i != index) {
            // Answers by the right one would not reach a socket that packets come to by another.
            self.stats.strayed += 1;
            if self.stats.strayed == 1 {
                let by = came_by
                    .and_then(|i| self.interfaces.name_of(i))
                    .unwrap_or("another interface")
                    .to_owned();
                tracing::warn!(
                    "connections meant for {name} come by {by}, since this host answers for all its addresses by each of its \
                     interfaces; sysctl net.ipv4.conf.all.arp_ignore=1 and arp_announce=2 would keep them apart"
                );
            }
            return;
        }
        if let Err(e) = c.socket.bind_device(Some(name.as_bytes())) {
            tracing::debug!(%e, name, "an incoming connection is not pinned to its interface");
        }
    }

    /// Takes note of a peer's refusal of the pair of a dial, and of the pairs that it would take.
    pub(crate) fn other_pair(&mut self, vc: VcId, why: RejectReason, better: &Pairs) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        tracing::info!(peer = v.peer.rank, %why, ?better, "another pair of interfaces");
        if !better.as_slice().is_empty() {
            // The next dial goes by the first of them.
            v.routes.agree(v.peer, better, self.cfg.rails);
            v.routes.forget_dials();
        }
    }

    /// Listens for changes of interfaces, once any have been paired.
    pub(crate) fn watch_interfaces(&mut self) {
        if let Some(fd) = self.interfaces.begin_to_watch()
            && let Err(e) = self.sockets.epoll.add(fd, INTERFACES, Interest::READ)
        {
            tracing::warn!(%e, "changes of interfaces are not heard of");
        }
    }

    /// Schedules a look at the interfaces after a report of changes.
    #[cold]
    pub(crate) fn interfaces_changed(&mut self, now: Time) {
        self.interfaces.heard(now);
        self.clock.wake_by(self.interfaces.look_at);
    }

    /// Looks at the interfaces again, if it is time: peers are reached by what is left, and
    /// connections by interfaces that have gone are given up, to be resumed by others.
    #[cold]
    pub(crate) fn look_at_interfaces(&mut self, core: &mut Core, now: Time) {
        if now < self.interfaces.look_at {
            self.clock.wake_by(self.interfaces.look_at);
            return;
        }
        let before = self.interfaces.usable();
        match self.interfaces.look_again() {
            Ok(true) => tracing::info!("the interfaces of this host have changed"),
            Ok(false) => {}
            Err(e) => return tracing::warn!(%e, "interfaces have changed, but cannot be listed"),
        }
        let risen = self.interfaces.note_risen(&before, now);
        let vcs: Vec<VcId> = self.sessions.all();
        for vc in vcs {
            self.pair_again(vc);
            self.leave_lost_interface(core, vc);
            self.leave_lost_rails(vc);
            self.consider_moving(vc, risen);
        }
    }

    /// Replaces the routes to a peer by those that the present interfaces give.
    pub(crate) fn pair_again(&mut self, vc: VcId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        let Some(routes) = v.routes.all.as_ref().filter(|w| !w.paired.is_alone()) else { return };
        let within = routes.paired.list.iter().all(|w| w.via.is_none());
        if within && self.interfaces.is_here(&routes.paired.peer.host.location) {
            return;
        }
        let decides = self.id.name_towards(&v.peer.group) < v.peer;
        match self.interfaces.routes_to(&routes.paired.peer, decides) {
            Ok(paired) => {
                v.routes.all = Some(Routes { paired, port: routes.port });
                v.routes.forget_dials();
                v.routes.reckon(v.peer, self.cfg.rails);
            }
            // The interface may come back.
            Err(why) => tracing::warn!(peer = v.peer.rank, %why, "no interface leads to a peer any more"),
        }
    }

    fn leave_lost_interface(&mut self, core: &mut Core, vc: VcId) {
        let Some(id) = self.sessions.vcs.get(vc).and_then(|v| v.link.conn()).map(conn::id) else { return };
        let Some(c) = self.sockets.conns.get(id) else { return };
        if c.pair == (0, 0) || self.interfaces.is_usable(c.pair.0) {
            return;
        }
        let failure = Failure::Errno(libc::ENETDOWN);
        let conn = conn::key(id);
        let event = match c.stage {
            Stage::Connecting | Stage::Dial(_) => LinkEvent::DialFailed { conn, failure, permanent: false },
            Stage::Proved(..) | Stage::Open { .. } => LinkEvent::Lost { conn, failure },
            Stage::Unauthenticated(_) | Stage::Lingering { .. } | Stage::RailIn(_) | Stage::RailOut => return,
        };
        // The bytes in its buffers would never leave, and the peer is told by the next connection.
        if let Err(e) = sys::reset(c.socket.as_raw_fd()) {
            tracing::debug!(%e, "a connection by an interface that is down");
        }
        self.close(id);
        self.link_event(core, vc, event);
    }
}

/// Counts a dial that could not be pinned to its interface, and goes by another; warns of the
/// first.
pub(super) fn astray(stats: &mut TcpStats, meant: &str, by: &str) {
    stats.astray += 1;
    if stats.astray == 1 {
        tracing::warn!(
            "connections meant for {meant} leave by {by}, which this host's routes prefer; to choose the interface                  takes CAP_NET_RAW on systems before Linux 5.7, or rules by source address (ip rule) anywhere"
        );
    }
}

//! The life of VCs: made, given a card, terminated, destroyed; and how peers of other groups are
//! met.

use netmod_connection::JobKey;
use netmod_core::{
    Card, Core, DeviceError, DynamicProcesses, Event, Finalize, GroupId, PeerName, Refusal, RemoteGroup,
    Time, VcError, VcErrorKind, VcId, VcLife, port_group,
};

use super::TcpNetmod;
use crate::conn;
use crate::life::Ending;
use crate::link::{Link, LinkEvent, Phase};
use crate::sessions::no_such_vc;
use crate::vc::{TcpVc, finalized};

impl VcLife for TcpNetmod {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        if let Some(old) = self.sessions.peers.get(&peer) {
            return Err(VcError::new(
                VcErrorKind::Aborted,
                Some(peer),
                format!("it has a VC already ({old})"),
            ));
        }
        if let Some(card) = card {
            let routes = self.routes_of(peer, card)?;
            self.sessions.fresh.put(vc, routes);
        }
        self.sessions.peers.insert(peer, vc);
        while let Some(conn) = self.sessions.claim(&peer) {
            self.incoming(core, vc, conn);
        }
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let taken = card.and_then(|c| self.take_routes(core, vc, c));
        if let Some(v) = self.sessions.vcs.get_mut(vc) {
            v.routes.asked_card = false;
        }
        match taken {
            Ok(()) => self.sessions.want(vc),
            Err(e) => self.vc_abort(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        while let Some(conn) = self.sessions.claim(&peer) {
            self.reject(conn, why.into());
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        self.sessions.fresh.take(vc);
        if let Some(peer) = self.sessions.peer_of(core, vc) {
            self.sessions.peers.remove(&peer);
        }
        if let Some(v) = self.sessions.vcs.get(vc) {
            let error = VcError::new(VcErrorKind::Aborted, Some(v.peer), "the VC was destroyed");
            self.end_rails(vc, &error);
        }
        let Some(mut v) = self.sessions.vcs.remove(vc) else { return };
        for c in [v.link.conn(), v.link.moving()].into_iter().flatten() {
            self.close(conn::id(c));
        }
        if let Some(q) = &mut v.tx.queue {
            let e = VcError::new(VcErrorKind::Aborted, Some(v.peer), "the VC was destroyed");
            q.fail(core, &e);
        }
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        self.clock.now = now;
        if self.first_use(core, vc).is_err() {
            // At the netmod's end: a VC that was never used has nothing to say.
            if self.sessions.peer_of(core, vc).is_some() {
                self.events.push_back(Event::Terminated { vc });
            }
            return;
        }
        self.sessions.acknowledge(&mut self.sockets, &mut self.stats, vc, 1);
        self.flush_vc(core, vc);
        let Some(pending) = self.sessions.vcs.get(vc).map(|v| !v.is_settled()) else { return };
        self.link_event(core, vc, LinkEvent::Terminate { pending });
        // From now on the peer is told at once what was read: it may be waiting for that.
        if let Some(c) = self.sessions.vcs.get(vc).and_then(|v| v.link.up())
            && let Some(c) = self.sockets.conns.get_mut(conn::id(c))
        {
            c.rx.owe_at = c.rx.owe_at.min(c.rx.position + 1);
        }
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let (now, cfg) = (self.clock.now, self.link_cfg);
        let Ok(v) = self.first_use(core, vc) else { return };
        // The link's actions are moot: its connection is closed here, and the VC fails for our
        // reason.
        let conns = [v.link.conn(), v.link.moving()];
        let _ = v.link.on(LinkEvent::Abort, now, &cfg);
        for c in conns.into_iter().flatten() {
            self.close(conn::id(c));
        }
        self.vc_failed(core, vc, error);
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool {
        self.ask_after(core, vc, now)
    }

    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        if let Some(card) = card {
            self.take_routes(core, vc, card)?;
        }
        self.link_event(core, vc, LinkEvent::Revive);
        if let Some(v) = self.sessions.vcs.get_mut(vc)
            && v.link.phase() == Phase::Idle
        {
            v.cause = None;
            v.routes.asked_card = false;
        }
        Ok(())
    }
}

impl DynamicProcesses for TcpNetmod {
    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError> {
        let peer = PeerName { group: port_group(port_tag), rank: 0 };
        self.vc_init(core, vc, peer, Some(card))?;
        self.first_use(core, vc)?.port = Some(port_tag);
        self.link_event(core, vc, LinkEvent::WantSend);
        Ok(())
    }

    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError> {
        self.id.open_port(port, JobKey(key));
        Ok(())
    }

    fn close_port(&mut self, port: u64) {
        self.id.close_port(port);
    }

    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError> {
        self.id.meet(*met);
        Ok(())
    }

    fn leave_group(&mut self, id: &GroupId) {
        self.id.part(id);
        while let Some((_, conn)) = self.sessions.unclaimed.iter().find(|(p, _)| p.group == *id).copied() {
            self.reject(conn, netmod_connection::RejectReason::Finalized);
        }
    }
}

impl netmod_core::Checkpoint for TcpNetmod {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.quiesce(core, now)
    }

    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.restart(core, now)
    }

    fn ckpt_peer(&mut self, core: &mut Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        self.peer_is_back(core, vc, card)
    }
}

impl TcpNetmod {
    /// Returns the netmod's part of a VC, made now if the VC has not been used.
    ///
    /// # Errors
    /// If the VC is not in the charge of this netmod, or the netmod is at its end.
    #[cold]
    pub(super) fn first_use(&mut self, core: &Core, vc: VcId) -> Result<&mut TcpVc, VcError> {
        if self.sessions.vcs.get(vc).is_none() {
            let peer = self.sessions.peer_of(core, vc).ok_or_else(no_such_vc)?;
            if self.life.ending != Ending::No {
                return Err(finalized(peer));
            }
            // The seed only has to differ from link to link.
            let seed = self.id.me().rank.wrapping_mul(0x9e37_79b9)
                ^ peer.rank.wrapping_mul(0x85eb_ca6b)
                ^ std::process::id();
            let mut link = Link::new(&self.id.name_towards(&peer.group), &peer, seed);
            if self.life.is_checkpointed() {
                // All other links were told when the checkpoint began. One without a connection has
                // nothing to do for it.
                let none = link.on(LinkEvent::Sleep, self.clock.now, &self.link_cfg);
                debug_assert!(none.is_empty());
            }
            let routes = self.sessions.fresh.take(vc);
            self.sessions.vcs.set(vc, Box::new(TcpVc::new(peer, link, routes)));
        }
        self.sessions.vcs.get_mut(vc).map(|v| &mut **v).ok_or_else(no_such_vc)
    }
}

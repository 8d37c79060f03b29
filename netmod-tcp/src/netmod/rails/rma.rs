//! One-sided transfers as the layers above see them: puts by rails.

use std::borrow::Cow;

use netmod_core::rma::{Access, RegionError, RegionId, RemoteKey, RmaAtomic, RmaCaps};
use netmod_core::{Ability, Core, Event, Rma, RmaBuf, RmaOp, RmaUse, VcError, VcErrorKind, VcId};

use crate::sessions::no_such_vc;

use super::{TcpNetmod, WORTH};

impl TcpNetmod {
    /// Returns the use of rails; see [`Rma::usable`]. The rails are dialled at the first call;
    /// messages go without until two of them are there, so that nothing ever depends on rails that
    /// cannot be made.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn rail_use(&mut self, vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        let never = Ability::Never;
        let rails = RmaUse { gets: never, is_got_from: never, worth: WORTH, ..RmaUse::SOON };
        if self.is_undecided(vc) {
            return Ok(rails);
        }
        if !self.has_pairs(vc) {
            return Err(
                "it puts only by several pairs of interfaces at once, which there are not, and has no get"
                    .into(),
            );
        }
        if self.rail_routes(vc).0.len() > 1 {
            self.lay_rails(vc);
        } else if let Some(v) =
            self.sessions.vcs.get_mut(vc).filter(|v| v.routes.all.is_none() && !v.routes.asked_card)
        {
            // A peer that has always been the one to connect: its card says how it can be reached.
            v.routes.asked_card = true;
            self.events.push_back(Event::NeedCard { vc });
        }
        let puts = if self.rails_up(vc) >= 2 { Ability::Yes } else { Ability::Soon };
        Ok(RmaUse { puts, is_put_to: Ability::Yes, ..rails })
    }

    fn refuse(&self, vc: VcId, kind: VcErrorKind, text: &str) -> VcError {
        VcError::new(kind, self.sessions.vcs.get(vc).map(|v| v.peer), text)
    }
}

impl Rma for TcpNetmod {
    fn usable(&mut self, _core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        self.rail_use(vc)
    }

    fn caps(&self, _core: &Core, vc: VcId) -> RmaCaps {
        // A registration is for one peer.
        RmaCaps { device: vc.index() as u32, ..self.rails.regions.caps() }
    }

    fn register(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        mem: RmaBuf,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError> {
        if access.permits(Access::RemoteRead) {
            return Err(self.refuse(vc, VcErrorKind::Unsupported, "netmod tcp has no get"));
        }
        match self.sessions.vcs.get(vc) {
            None => return Err(no_such_vc()),
            Some(v) if v.cause.is_some() => {
                return Err(v.cause.clone().unwrap_or_else(no_such_vc));
            }
            Some(_) => {}
        }
        // From now on the peer may lay rails.
        self.rails_of(vc);
        let registered = self.rails.regions.add(vc, mem, access);
        self.heed_rails();
        Ok(registered)
    }

    fn deregister(&mut self, _core: &mut Core, region: RegionId) -> Result<(), VcError> {
        let was = self.rails.regions.remove(region)?;
        self.heed_rails();
        if was.access != Access::Local {
            return Ok(());
        }
        let vc = was.own;
        while let Some((op, stuck)) = self.rails.vcs.get_mut(vc).and_then(|r| r.share.forget_local(region)) {
            let result = Err(RegionError::Ended.of(self.sessions.vcs.get(vc).map(|v| v.peer)));
            self.events.push_back(Event::RmaDone { vc, op, result });
            self.unstick(vc, stuck);
        }
        Ok(())
    }

    fn put(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        let vc = op.vc;
        if let Some(cause) = self.sessions.vcs.get(vc).and_then(|v| v.cause.clone()) {
            return Err(cause);
        }
        let peer = self.sessions.vcs.get(vc).map(|v| v.peer);
        let (region, at, mem) = self.rails.regions.put(op).map_err(|e| e.of(peer))?;
        self.begin_put(vc, op.local, mem, region, at, op.op);
        Ok(())
    }

    fn get(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        Err(self.refuse(op.vc, VcErrorKind::Unsupported, "netmod tcp has no get"))
    }

    fn atomic(&mut self, _core: &mut Core, op: &RmaAtomic<'_>) -> Result<(), VcError> {
        let text = "netmod tcp has no atomic operations; send a message to the owner of the word instead";
        Err(self.refuse(op.vc, VcErrorKind::Unsupported, text))
    }

    fn flush(&mut self, _core: &mut Core, vc: Option<VcId>) -> Result<bool, VcError> {
        let Some(vc) = vc else { return Ok(self.rails.vcs.iter().all(|(_, r)| r.share.is_idle())) };
        let found = self.sessions.vcs.get(vc).ok_or_else(no_such_vc)?;
        match &found.cause {
            Some(cause) => Err(cause.clone()),
            None => Ok(self.rails.vcs.get(vc).is_none_or(|r| r.share.is_idle())),
        }
    }
}

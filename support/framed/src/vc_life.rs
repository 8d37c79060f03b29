//! The life of a VC, and its endpoint of a new connection.

use netmod_connection::Purpose;
use netmod_core::{Card, Core, Event, PeerName, Refusal, Time, VcError, VcErrorKind, VcId, VcLife};

use crate::book::Dest;
use crate::conn::To;
use crate::device::{Device, Port};
use crate::error::PortError;
use crate::netmod::FrameNetmod;
use crate::shutdown::Ending;

impl<D: Device> FrameNetmod<D> {
    /// Returns the destination of the frames of a new connection.
    pub(crate) fn use_end(
        &mut self,
        vc: VcId,
        to: To,
        dest: Dest,
        theirs: &[u8],
    ) -> Result<Dest, PortError<<D::Port as Port>::Error>> {
        let Some(l) = self.links.get_mut(vc) else { return Ok(dest) };
        Ok(l.endpoints.opened(&mut self.ports, &mut self.addresses.leaving, to, theirs)?.unwrap_or(dest))
    }
}

impl<D: Device> VcLife for FrameNetmod<D> {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        self.init(core, vc, peer, card, Purpose::Vc)
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
        match card.and_then(|c| self.take_card(vc, peer, c)) {
            Ok(()) => self.pump(core, vc),
            // It was wanted for asking after the peer only.
            Err(e) if self.links.get(vc).is_some_and(|l| l.open.is_some()) => {
                tracing::info!(%e, "no card of a connected peer: its death may go unnoticed");
            }
            Err(e) => self.fail(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        self.manage_later(|m, env| m.refuse(&peer, why, env));
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
        let error = VcError::new(VcErrorKind::Aborted, Some(peer), "the VC was destroyed");
        if self.shutdown.ending == Ending::Over {
            // There is no port any more by which anything could be closed.
            if let Some(mut l) = self.links.remove(vc) {
                l.queue.fail(core, &error);
            }
            self.by_peer.remove(&peer);
            core.reset_receive(vc);
            return;
        }
        self.drop_link(core, vc, &error);
        self.manage(core, |m, env| m.remove(vc, env));
        self.work.drop_events(vc);
        if let Some(l) = self.links.get_mut(vc) {
            l.endpoints.close(&mut self.addresses.leaving);
        }
        drop(self.outbox.take_retries(vc));
        if let Some(dest) = self.links.get_mut(vc).and_then(|l| l.dial.take()) {
            self.addresses.book.release(dest);
        }
        self.links.remove(vc);
        self.liveness.unwatch(vc);
        self.by_peer.remove(&peer);
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, _now: Time) {
        let Some(l) = self.links.get_mut(vc) else { return };
        l.ready = false;
        if l.down.take().is_some() {
            self.manage(core, |m, _| m.revive(vc));
            self.work.events.push_back(Event::Terminated { vc });
            return;
        }
        l.terminating = true;
        self.pump(core, vc);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        if error.kind() == VcErrorKind::Dead {
            self.declare_dead(core, vc, error);
        } else {
            self.fail(core, vc, error);
        }
    }

    fn watch_peer(&mut self, _core: &mut Core, vc: VcId, now: Time) -> bool {
        self.clock.now = now;
        self.ask_after(vc);
        true
    }

    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return Ok(()) };
        if let Some(card) = card {
            self.take_card(vc, peer, card)?;
        }
        if let Some(l) = self.links.get_mut(vc)
            && l.down.take().is_some()
        {
            l.life.gone = false;
            self.manage(core, |m, _| m.revive(vc));
        }
        Ok(())
    }
}

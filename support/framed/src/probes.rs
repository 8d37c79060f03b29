//! Loss probes: questions to peers whose connection may have lost frames, or may be forgotten.
//!
//! Endpoints are reliable: the device reports lost frames to their sender. It may not know the
//! connection, as of an injected frame, or tell the receiver instead. Then all connections of the
//! port are probed: each side tells the other how many frames it has sent. A peer that has
//! forgotten the connection answers by RESET.
//!
//! That RESET may be lost, too. So a silent peer is probed as well if it owes something: it is
//! computing and answers later, or has forgotten the connection.

use std::time::Duration;

use netmod_core::{Core, VcError, VcErrorKind, VcId};

use crate::conn::Manager;
use crate::device::{Device, ResetFrame};
use crate::life::Verdict;
use crate::link::FrameVc;
use crate::loss_probe::{LossProbe, SuspectPort};
use crate::netmod::FrameNetmod;
use crate::outbox::Out;
use crate::wire::{FRAME_HEADER, FrameHeader, Kind};

/// Longest CREDIT: with the longest terms that there are.
pub(crate) const CREDIT_MAX: usize = FRAME_HEADER + 400;
/// Most transmissions of a RESET.
const RESETS_MAX: u32 = 10;
/// Most frames in the outbox to which the answer to an unauthenticated peer is still added.
const WAITING_MAX: usize = 64;

/// First pause before a silent peer is asked again; the pause doubles up to the greatest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Silence after which a peer that owes something is probed.
const SILENCE: Duration = Duration::from_secs(5);

impl<D: Device> FrameNetmod<D> {
    /// Notes a port that may have lost frames. Its connections are probed at the next check, since
    /// a broken provider reports losses without end.
    #[cold]
    pub(crate) fn suspect(&mut self, port: usize, transfers: bool) {
        self.work.suspect(SuspectPort { port, transfers });
    }

    /// Probes the connections of suspect ports and of silent peers, and again those whose peer has
    /// not answered: the question may be lost as well.
    pub(crate) fn probe_losses(&mut self, core: &mut Core) {
        let now = self.clock.now;
        let suspects = std::mem::take(&mut self.work.suspects);
        let is = |l: &FrameVc, d: &SuspectPort| l.open.is_some_and(|o| o.dest.port == d.port);
        let silent = |vc: VcId, l: &FrameVc| {
            let rest = || core.vc(vc).is_some_and(|v| v.recv_active().is_some() || v.pending_pkt_len() > 0);
            l.open.is_some() && now.since(l.life.heard) > SILENCE && (l.is_owed() || rest())
        };
        let concerned = self
            .links
            .iter()
            .filter(|(vc, l)| l.probe.is_some() || suspects.iter().any(|d| is(l, d)) || silent(*vc, l));
        let concerned: Vec<VcId> = concerned.map(|(vc, _)| vc).collect();
        for vc in concerned {
            let Some(l) = self.links.get_mut(vc) else { continue };
            if l.traffic.transfers > 0 && suspects.iter().any(|d| d.transfers && is(l, d)) {
                let peer = Some(l.peer);
                let text = format!("a one-sided transfer failed, and {} does not say which", D::WORDS.what);
                self.fail(core, vc, VcError::new(VcErrorKind::Lost, peer, text));
                continue;
            }
            if suspects.iter().any(|d| is(l, d)) {
                l.probe = Some(Box::new(LossProbe { lossy: true, since: now, again: now, pause: PAUSE }));
            } else if l.probe.is_none() {
                l.probe = Some(Box::new(LossProbe { lossy: false, since: now, again: now, pause: PAUSE }));
            }
            let (Some(probe), Some(open)) = (&mut l.probe, &mut l.open) else {
                l.probe = None;
                continue;
            };
            if !probe.is_open(l.life.heard) {
                l.probe = None;
            } else if now >= probe.again {
                probe.again = now + probe.pause;
                probe.pause = (probe.pause * 2).min(PAUSE_MAX);
                open.probing = true;
                l.ready = false;
                self.work.wanting.add(vc);
            }
        }
    }

    /// Adds this side's terms to a CREDIT that must be answered; returns its length.
    #[cold]
    pub(crate) fn introduce(&self, vc: VcId, port: usize, frame: &mut [u8; CREDIT_MAX]) -> usize {
        let local = self.own.as_ref().ok().and_then(|own| own.terms(port as u8, 0));
        let Some(terms) = local.and_then(|local| self.connections.manager.introduction(vc, &local)) else {
            return FRAME_HEADER;
        };
        let bytes = terms.as_bytes();
        let len = FRAME_HEADER + bytes.len();
        frame[FRAME_HEADER..len].copy_from_slice(bytes);
        len
    }

    /// Answers a CREDIT for an unknown connection by RESET.
    #[cold]
    pub(crate) fn disown(&mut self, core: &mut Core, port: usize, introduction: &[u8]) {
        let Some(theirs) = Manager::introduced(introduction) else { return };
        if self.outbox.queue.len() >= WAITING_MAX {
            return;
        }
        match self.addresses.book.insert(&mut self.ports, port, theirs.context, &theirs.address) {
            Ok(dest) => {
                let header =
                    FrameHeader { kind: Kind::Reset, ask: false, returned: 0, slot: theirs.slot, seq: 0 };
                self.post(
                    core,
                    Out { dest, bytes: header.to_bytes().to_vec(), vc: None, since: self.clock.now },
                );
                self.addresses.book.release(dest);
            }
            Err(why) => tracing::debug!(%why, "somebody has asked whose address is of no use"),
        }
    }

    /// Keeps a RESET that could not be sent. The peer may have ended, and then nothing may be sent
    /// to it: its kernel is asked first.
    #[cold]
    pub(crate) fn retry_reset(&mut self, vc: VcId, port: usize, reset: &ResetFrame) {
        let Some(l) = self.links.get(vc) else { return };
        let Some(header) = FrameHeader::parse(&reset.frame).filter(|h| h.seq < RESETS_MAX && !l.life.gone)
        else {
            return;
        };
        let bytes = FrameHeader { seq: header.seq + 1, ..header }.to_bytes().to_vec();
        let dest = crate::book::Dest { port, addr: reset.to };
        self.outbox.retries.push(Out { dest, bytes, vc: Some(vc), since: self.clock.now });
        if l.open.is_none() {
            self.watch(vc);
        }
    }

    /// Sends the RESET frames that were kept for a peer, if it is alive.
    pub(crate) fn retransmit_resets(&mut self, core: &mut Core, vc: VcId, verdict: Verdict) {
        let now = self.clock.now;
        let resets = self.outbox.take_retries(vc);
        if resets.is_empty() {
            return;
        }
        if verdict == Verdict::Alive {
            for reset in resets {
                self.post(core, Out { since: now, ..reset });
            }
        }
        if self.links.get(vc).is_some_and(|l| l.open.is_none()) {
            self.liveness.unwatch(vc);
        }
    }
}

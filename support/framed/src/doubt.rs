//! Loss probes: frames may be lost, or the peer may not have heard of the end.
//!
//! Endpoints are reliable: what is lost is told to its sender. Where the provider does not say
//! whose it was, as of a frame that was injected, or tells the receiver instead, all connections of
//! the port are in doubt: the peers are asked how many frames they have sent, and told how many
//! there were from here. Whoever has forgotten the connection answers by RESET.
//!
//! That word itself may be lost where it has no connection to go by any more. So a peer that owes
//! something and is silent is asked, too: it computes, and answers later, or has forgotten the
//! connection.

use std::time::Duration;

use netmod_core::{Core, VcError, VcErrorKind, VcId};

use crate::conn::Manager;
use crate::device::{Device, Word};
use crate::life::Verdict;
use crate::link::FrameVc;
use crate::loss_probe::{LossProbe, SuspectPort};
use crate::netmod::FrameNetmod;
use crate::outbox::Out;
use crate::wire::{FRAME_HEADER, FrameHeader, Kind};

/// Longest CREDIT: with the longest terms that there are.
pub(crate) const CREDIT_MAX: usize = FRAME_HEADER + 400;
/// Most transmissions of the last frame of a connection.
const SAID_MOST: u32 = 10;
/// Frames of the manager that may wait when another answer to an unauthenticated peer is added.
const WAITING_MOST: usize = 64;

/// First pause before a silent peer is asked again; the pause doubles up to the greatest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// For so long a peer that owes something may be silent before it is asked.
const SILENCE: Duration = Duration::from_secs(5);

impl<D: Device> FrameNetmod<D> {
    /// A port may have lost frames. That is looked into once in a while: a broken provider says so
    /// without end.
    #[cold]
    pub(crate) fn doubt(&mut self, port: usize, transfers: bool) {
        self.work.suspect(SuspectPort { port, transfers });
    }

    /// Asks the peers of ports that are in doubt, and again those that have not answered: the
    /// question may be lost as well.
    pub(crate) fn look_into_doubts(&mut self, core: &mut Core) {
        let now = self.clock.now;
        let doubts = std::mem::take(&mut self.work.suspects);
        let is = |l: &FrameVc, d: &SuspectPort| l.open.is_some_and(|o| o.dest.port == d.port);
        let silent = |vc: VcId, l: &FrameVc| {
            let rest = || core.vc(vc).is_some_and(|v| v.recv_active().is_some() || v.pending_pkt_len() > 0);
            l.open.is_some() && now.since(l.life.heard) > SILENCE && (l.is_owed() || rest())
        };
        let concerned = self
            .links
            .iter()
            .filter(|(vc, l)| l.doubt.is_some() || doubts.iter().any(|d| is(l, d)) || silent(*vc, l));
        let concerned: Vec<VcId> = concerned.map(|(vc, _)| vc).collect();
        for vc in concerned {
            let Some(l) = self.links.get_mut(vc) else { continue };
            if l.traffic.transfers > 0 && doubts.iter().any(|d| d.transfers && is(l, d)) {
                let peer = Some(l.peer);
                let text = format!("a one-sided transfer failed, and {} does not say which", D::WORDS.what);
                self.fail(core, vc, VcError::new(VcErrorKind::Lost, peer, text));
                continue;
            }
            if doubts.iter().any(|d| is(l, d)) {
                l.doubt = Some(Box::new(LossProbe { doubts: true, since: now, again: now, pause: PAUSE }));
            } else if l.doubt.is_none() {
                l.doubt = Some(Box::new(LossProbe { doubts: false, since: now, again: now, pause: PAUSE }));
            }
            let (Some(doubt), Some(open)) = (&mut l.doubt, &mut l.open) else {
                l.doubt = None;
                continue;
            };
            if !doubt.is_open(l.life.heard) {
                l.doubt = None;
            } else if now >= doubt.again {
                doubt.again = now + doubt.pause;
                doubt.pause = (doubt.pause * 2).min(PAUSE_MAX);
                open.doubts = true;
                l.ready = false;
                self.work.wanting.add(vc);
            }
        }
    }

    /// Adds to a CREDIT that is to be answered who asks, and where that is; returns its length.
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

    /// Somebody asks after a connection that is not known here: it is gone.
    #[cold]
    pub(crate) fn disown(&mut self, core: &mut Core, port: usize, introduction: &[u8]) {
        let Some(theirs) = Manager::introduced(introduction) else { return };
        if self.outbox.queue.len() >= WAITING_MOST {
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
            Err(why) => tracing::debug!(why, "somebody has asked whose address is of no use"),
        }
    }

    /// A last word has not left. The peer may have ended, and then nothing may be sent to it: its
    /// kernel is asked first.
    #[cold]
    pub(crate) fn say_later(&mut self, vc: VcId, port: usize, word: &Word) {
        let Some(l) = self.links.get(vc) else { return };
        let Some(header) = FrameHeader::parse(&word.frame).filter(|h| h.seq < SAID_MOST && !l.life.gone)
        else {
            return;
        };
        let bytes = FrameHeader { seq: header.seq + 1, ..header }.to_bytes().to_vec();
        let dest = crate::book::Dest { port, addr: word.to };
        self.outbox.retries.push(Out { dest, bytes, vc: Some(vc), since: self.clock.now });
        if l.open.is_none() {
            self.watch(vc);
        }
    }

    /// Says what a peer has not heard, if it lives.
    pub(crate) fn say_again(&mut self, core: &mut Core, vc: VcId, verdict: Verdict) {
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

//! Rails: several connections of a VC at once for the data of large messages.
//!
//! The stream of a VC stays one connection. Rails are further ones, one for each pair of interfaces
//! that is worth it, dialled by the sender of data: so each direction has its own, and no dials
//! cross. A rail carries chunks of puts, which say where they belong ([`crate::rail::wire`]), and
//! their acknowledgements. Which rail takes which chunk is up to the rails
//! ([`crate::rail::share`]); a lost one is dialled again while there is something to send, as long
//! as the VC lives. A chunk that comes twice writes the same bytes; one whose region has ended is
//! read and thrown away.

mod inbound;
mod outbound;
mod rma;
#[cfg(test)]
pub(crate) mod tests;

use std::net::{IpAddr, Ipv4Addr};

use netmod_core::slab::VcKind;
use netmod_core::{Core, Event, SideTable, VcError, VcErrorKind, VcId};
use netmod_matching::{Class, Weight};

use super::TcpNetmod;
use crate::conn::{Conn, ConnId, RailEnd, Stage};
use crate::link::Failure;
use crate::pairs::MAX_RAILS;
use crate::rail::regions::Regions;
use crate::rail::share::Share;
use crate::route::{Route, Via};
use crate::work::{Listed, WorkList};

use outbound::OutRail;

/// Rails of a peer's that are open here at most: those that it gives up may end later than the next
/// ones begin.
const MAX_IN: usize = 2 * MAX_RAILS;
/// Times in a row that a peer may talk nonsense on rails, or have data altered on the way, before
/// the VC is given up.
const MAX_FAULTS: u32 = 3;
/// Bytes of a message from which on rails are worth their packets; measured in
/// `docs/benchmarks/notes-network.md`.
const WORTH: usize = 256 << 10;

/// The rails of all VCs.
#[derive(Debug, Default)]
pub(crate) struct Rails {
    regions: Regions,
    vcs: SideTable<Box<VcRails>, VcKind>,
    /// VCs with puts under way or rails that are being dialled, which have timers.
    timed: WorkList<0>,
    /// For tests: the routes of all VCs.
    loopback: Vec<Route>,
}

impl Rails {
    /// Makes rails over `loopback` addresses of the loopback interface, for tests, instead of those
    /// between interfaces.
    pub(crate) fn new(loopback: usize) -> Rails {
        let rails = if loopback > 1 { loopback.min(MAX_RAILS) as u8 } else { 0 };
        Rails { loopback: (1..=rails).map(over_loopback).collect(), ..Rails::default() }
    }
}

/// The rails of a VC.
#[derive(Debug, Default)]
struct VcRails {
    share: Share,
    /// Those on which this side sends, by their place in `share`.
    out: Vec<OutRail>,
    /// The peer's.
    inc: Vec<ConnId>,
    faults: u32,
    listed: Listed,
    /// They go by the VC's own route, as no other could be dialled.
    makeshift: bool,
    /// Bytes that came by rails.
    received: u64,
}

impl TcpNetmod {
    /// Returns the routes of a VC's rails, and the port to connect to: none, or at least two.
    fn rail_routes(&self, vc: VcId) -> (&[Route], u16) {
        let Some(v) = self.sessions.vcs.get(vc) else { return (&[], 0) };
        // The peer at the end of a port has a name for that port alone.
        let Some(routes) = v.routes.all.as_ref().filter(|_| v.port.is_none()) else { return (&[], 0) };
        let loopback = &self.rails.loopback;
        (if loopback.is_empty() { v.routes.rails() } else { loopback }, routes.port)
    }

    /// Returns true if several pairs of interfaces were agreed on with a VC's peer, and this side
    /// may use them at once.
    fn has_pairs(&self, vc: VcId) -> bool {
        let Some(v) = self.sessions.vcs.get(vc).filter(|v| v.port.is_none()) else { return false };
        let agreed = v.routes.decided.as_ref().is_some_and(|d| d.as_slice().len() > 1);
        !self.rails.loopback.is_empty() || (agreed && self.cfg.rails > 1)
    }

    /// Returns true if it is not known yet whether there are several pairs of interfaces, for want
    /// of a connection.
    fn is_undecided(&self, vc: VcId) -> bool {
        let open = self
            .sessions
            .vcs
            .get(vc)
            .is_some_and(|v| v.port.is_none() && v.link.up().is_none() && v.cause.is_none());
        open && self.cfg.rails > 1 && !self.has_pairs(vc)
    }

    /// Returns true if a VC's peer can be reached now, and this side may have rails.
    fn takes_rails(&self, vc: VcId) -> bool {
        let up = |v: &crate::vc::TcpVc| v.link.up().is_some() && !v.link.is_terminating();
        self.life.is_running() && self.sessions.vcs.get(vc).is_some_and(|v| up(v))
    }

    /// Has rails looked at in each poll while something is registered or put.
    pub(crate) fn heed_rails(&mut self) {
        self.sockets.active.keep_asking(!self.rails.regions.is_empty() || !self.rails.timed.is_empty());
    }

    /// Ends the rails of a VC that is down, at its end, or no more. Puts under way end with the
    /// error.
    pub(crate) fn end_rails(&mut self, vc: VcId, error: &VcError) {
        if self.rails.vcs.get(vc).is_none() {
            return;
        }
        self.close_rails(vc);
        let Some(mut r) = self.rails.vcs.remove(vc) else { return };
        while let Some(op) = r.share.give_up() {
            self.events.push_back(Event::RmaDone { vc, op, result: Err(error.clone()) });
        }
        self.rails.timed.forget(vc);
        self.heed_rails();
    }

    /// Ends the rails of a VC that says goodbye, like [`TcpNetmod::end_rails`].
    pub(crate) fn part_rails(&mut self, vc: VcId) {
        if self.rails.vcs.get(vc).is_some() {
            let peer = self.sessions.vcs.get(vc).map(|v| v.peer);
            let error = VcError::new(VcErrorKind::Closed, peer, "the VC was terminated while data was put");
            self.end_rails(vc, &error);
        }
    }

    /// Closes the rails of a VC; what was under way waits for others.
    fn close_rails(&mut self, vc: VcId) {
        let Some(r) = self.rails.vcs.get_mut(vc) else { return };
        let mut open = std::mem::take(&mut r.inc);
        for (i, rail) in r.out.iter_mut().enumerate() {
            r.share.down(i);
            open.extend(rail.let_go());
        }
        for id in open {
            self.close(id);
        }
    }

    /// Closes all rails: for a checkpoint, or at the netmod's end.
    pub(crate) fn close_all_rails(&mut self) {
        let vcs: Vec<VcId> = self.rails.vcs.iter().map(|(vc, _)| vc).collect();
        for vc in vcs {
            self.close_rails(vc);
        }
    }

    /// Has the rails of a VC dialled again, because its connection is back.
    pub(crate) fn wake_rails(&mut self, vc: VcId) {
        if let Some(r) = self.rails.vcs.get_mut(vc)
            && !r.share.is_idle()
        {
            for rail in &mut r.out {
                rail.again = self.clock.now;
            }
            self.clock.wake_by(self.clock.now);
        }
    }

    /// Ends a rail, or its handshake. Returns true if the connection was a rail, for which nothing
    /// else is to be done.
    pub(crate) fn rail_ended(&mut self, id: ConnId, failure: Failure) -> bool {
        let Some(Conn { rail: Some(end), vc, .. }) = self.sockets.conns.get(id) else { return false };
        let (end, vc) = (*end, *vc);
        self.close(id);
        let Some(vc) = vc else { return true };
        match end {
            RailEnd::In => {
                if let Some(r) = self.rails.vcs.get_mut(vc) {
                    r.inc.retain(|c| *c != id);
                }
            }
            RailEnd::Out(n) => self.rail_lost(vc, usize::from(n), id, failure),
        }
        true
    }

    /// Gives up a rail on which the peer violates the protocol, or data came altered.
    #[cold]
    fn rail_fault(&mut self, core: &mut Core, vc: VcId, id: ConnId, what: &str) {
        self.stats.rail_faults += 1;
        let peer = self.sessions.vcs.get(vc).map(|v| v.peer);
        let faults = self.rails.vcs.get_mut(vc).map_or(0, |r| {
            r.faults += 1;
            r.faults
        });
        let rank = peer.map_or(0, |p| p.rank);
        tracing::warn!(peer = rank, what, "a rail is given up");
        self.rail_ended(id, Failure::Protocol);
        if faults >= MAX_FAULTS {
            let text = format!(
                "protocol violation by the peer on {faults} rails, at last: {what}; do both sides run the same \
                 version, and is nobody in between?"
            );
            let error = VcError::new(VcErrorKind::Protocol, peer, text);
            netmod_core::VcLife::vc_abort(self, core, vc, error);
        }
    }

    /// Gives up a rail whose bytes are not those that were sent.
    #[cold]
    fn rail_altered(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        self.stats.altered += 1;
        if let Some(v) = self.sessions.vcs.get_mut(vc) {
            v.session.altered.records += 1;
        }
        self.rail_fault(core, vc, id, "its bytes were altered on the way");
    }

    /// Writes bytes to a rail, in a record if it has keys.
    fn write_rail(&mut self, id: ConnId, bytes: &[u8]) {
        match self.sockets.conns.get_mut(id).filter(|c| c.rx.opener.is_some()) {
            Some(c) => {
                c.seal_piece(|out| out.extend_from_slice(bytes));
                self.sockets.write_out(id, &[]);
            }
            None => self.sockets.write_out(id, bytes),
        }
    }

    /// Breaks a rail on which this side sends as if the network had lost it, for tests and drills.
    /// Returns false if it is not connected.
    ///
    /// # Errors
    /// If the system does not.
    pub(crate) fn sever_rail(&mut self, vc: VcId, rail: usize) -> Result<bool, VcError> {
        let Some(r) = self.rails.vcs.get(vc) else { return Ok(false) };
        let open = |c: &&Conn| matches!(c.stage, Stage::RailOut);
        let conn = r.out.get(rail).and_then(OutRail::conn);
        let Some(c) = conn.and_then(|c| self.sockets.conns.get(c)).filter(open) else { return Ok(false) };
        match crate::sys::reset(c.fd()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::NotConnected => Ok(false),
            Err(e) => {
                let text = format!("its rail {rail} cannot be broken: {e}");
                Err(VcError::new(VcErrorKind::Unsupported, self.sessions.vcs.get(vc).map(|v| v.peer), text))
            }
        }
    }

    /// Returns the number of connected rails of a VC on which this side can send.
    pub fn rails_up(&self, vc: VcId) -> usize {
        self.rails.vcs.get(vc).map_or(0, |r| r.share.rails_up())
    }

    /// Returns human-readable text about a VC's rails.
    pub(crate) fn describe_rails(&self, vc: VcId) -> String {
        let Some(r) = self.rails.vcs.get(vc) else { return String::new() };
        let mut text = String::new();
        for (i, rail) in r.out.iter().enumerate() {
            let (loaded, window) = r.share.load(i);
            text += &rail.describe(i, loaded, window);
        }
        if !r.inc.is_empty() || r.received > 0 {
            text += &format!(", {} rails of the peer's open, {} bytes by them", r.inc.len(), r.received);
        }
        let left = r.share.left();
        if left > 0 {
            text += &format!(", {left} bytes to be put");
        }
        text
    }
}

/// Returns a route over the loopback interface, for tests.
fn over_loopback(n: u8) -> Route {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, n));
    let weight = Weight::new(Class::OnLink, [None; 2], [None; 2]);
    let via = Via { mine: 0, device: "lo".into(), from, theirs: 0, weight };
    Route { to: IpAddr::V4(Ipv4Addr::LOCALHOST), via: Some(via) }
}

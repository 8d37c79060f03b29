//! Receiving: data, handshakes and messages that have arrived on the connections.

use netmod_core::{Core, Event, Events, PeerName, VcId};
use netmod_tcp::link::{Failure, LinkEvent};

use super::{SimNetmod, connect};
use crate::net::{ConnId, HandshakeMessage, Item, Stage};
use crate::sys::receive_direct;

/// Maximum number of connections accepted per poll, as in the TCP netmod.
const ACCEPTS: usize = 16;
/// Maximum number of connections served per poll.
const LOOKS: usize = 64;
/// Free event slots below which this poll reads nothing more.
const SPARE: usize = 4;

impl SimNetmod {
    /// Passes on the events so far, in order.
    pub(super) fn pass_events(&mut self, events: &mut Events) {
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
    }

    /// Serves connections with new data.
    pub(super) fn receive(&mut self, core: &mut Core, events: &mut Events) {
        let mut accepts = ACCEPTS;
        let looks = self.net().inbox_len(self.me.rank).min(LOOKS);
        for _ in 0..looks {
            if events.room() < SPARE {
                break;
            }
            let Some((conn, side)) = self.net().take_inbox(self.me.rank) else { break };
            if self.serve(core, conn, side, &mut accepts, events) {
                self.net().again(conn, side);
            }
            self.pass_events(events);
        }
        if self.net().inbox_len(self.me.rank) > 0 {
            self.remind();
        }
    }

    /// Handles the data that has arrived at one end; returns true if some is left.
    fn serve(
        &mut self,
        core: &mut Core,
        conn: ConnId,
        side: u8,
        accepts: &mut usize,
        events: &mut Events,
    ) -> bool {
        loop {
            let (stage, vc, item) = {
                let net = self.net();
                let Some(end) = net.end(conn, side) else { return false };
                (end.stage, end.vc, net.item(conn, side))
            };
            if stage == Stage::Knocking {
                if *accepts == 0 {
                    return true;
                }
                *accepts -= 1;
                self.knocked(core, conn, side);
                continue;
            }
            if stage == Stage::Open
                && let Some(vc) = vc
                && self.vcs.get(vc).is_some_and(|v| v.blocked)
            {
                if let Some(v) = self.vcs.get_mut(vc) {
                    v.blocked = false;
                }
                self.pump(core, vc);
            }
            let Some(item) = item else { return false };
            match (stage, item) {
                (Stage::Open, Item::Bytes(n)) => {
                    let Some(vc) = vc else { return false };
                    if events.room() < SPARE {
                        return true;
                    }
                    self.pass_events(events);
                    self.take_bytes(core, vc, conn, side, n, events);
                }
                (_, Item::Fin | Item::Reset(_)) => {
                    // Data read earlier in this poll may be the GOODBYE that makes this end an
                    // orderly one.
                    if vc.is_some_and(|vc| events.concern(vc)) {
                        return true;
                    }
                    self.ended(core, conn, side, stage, vc, item);
                    return false;
                }
                (Stage::Dial | Stage::Proved, Item::HandshakeMessage(message)) => {
                    self.net().pop(conn, side);
                    self.handshake(core, conn, vc, message);
                }
                // Bytes can follow only the item that opened the connection.
                (_, Item::Bytes(_) | Item::HandshakeMessage(_)) => return false,
            }
        }
    }

    /// Handles a dialled connection.
    fn knocked(&mut self, core: &mut Core, conn: ConnId, side: u8) {
        self.net().accept(conn, side);
        self.conns.push(conn);
        let rank = self.net().peer_of(conn, side);
        match self.by_rank.get(&rank) {
            Some(vc) => self.incoming(core, *vc, conn),
            None => {
                self.unclaimed.push((rank, conn));
                let peer = PeerName { group: self.me.group, rank };
                self.events.push_back(Event::NewPeer { peer, netmod: 0 });
            }
        }
    }

    /// Handles a message of the handshake.
    fn handshake(&mut self, core: &mut Core, conn: ConnId, vc: Option<VcId>, message: HandshakeMessage) {
        let c = connect::key(conn);
        let Some(vc) = vc else {
            // The peer has given up before it was served.
            return self.close(conn);
        };
        match message {
            HandshakeMessage::Accept { dials } => {
                let incarnation = connect::INCARNATION;
                let accepted = LinkEvent::Accepted { conn: c, session: 0, incarnation, dials };
                self.link_event(core, vc, accepted)
            }
            HandshakeMessage::Reject(reason) => {
                self.link_event(core, vc, LinkEvent::Rejected { conn: c, reason })
            }
            HandshakeMessage::Ready => self.link_event(core, vc, LinkEvent::Ready { conn: c }),
            HandshakeMessage::Goodbye => {
                self.close(conn);
                self.link_event(core, vc, LinkEvent::Lost { conn: c, failure: Failure::Goodbye });
            }
        }
    }

    /// Handles the end of the other side's stream, or a broken connection.
    fn ended(&mut self, core: &mut Core, conn: ConnId, side: u8, stage: Stage, vc: Option<VcId>, item: Item) {
        let peer_left = self.net().end(conn, side).is_some_and(|e| e.peer_left);
        self.net().pop(conn, side);
        if peer_left && item == Item::Fin {
            return;
        }
        self.close(conn);
        let Some(vc) = vc else { return };
        let failure = match item {
            Item::Reset(errno) => Failure::Errno(errno),
            _ => Failure::Eof,
        };
        let conn = connect::key(conn);
        let event = match stage {
            Stage::Dial => LinkEvent::DialFailed { conn, failure, permanent: false },
            _ => LinkEvent::Lost { conn, failure },
        };
        self.link_event(core, vc, event);
    }

    /// Reads a random part of the `n` available bytes.
    fn take_bytes(
        &mut self,
        core: &mut Core,
        vc: VcId,
        conn: ConnId,
        side: u8,
        n: usize,
        events: &mut Events,
    ) {
        let (fragment, direct) = {
            let net = self.net();
            (net.profile.fragment, net.profile.direct)
        };
        let n = if self.rng.one_in(4) { n } else { n.min(1 + self.rng.index(fragment)) };
        // The destination is unknown until the engine has handled all earlier events.
        if direct > 0 && self.rng.one_in(direct) && !events.concern(vc) {
            let mut net = self.net();
            if let Some(d) = receive_direct(core, vc, net.head(conn, side, n)) {
                net.consume(conn, side, d.taken);
                if d.done {
                    events.push(Event::RecvDone { vc });
                }
                return;
            }
        }
        let bytes = {
            let mut net = self.net();
            let bytes = net.head(conn, side, n).concat();
            net.consume(conn, side, n);
            bytes
        };
        let buf = self.loans.lend(bytes);
        events.push(Event::Rx { vc, buf });
    }
}

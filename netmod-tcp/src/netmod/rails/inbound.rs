//! Rails on which the peer sends: their chunks are read to where they belong.

use std::os::fd::AsRawFd;

use netmod_connection::RejectReason;
use netmod_core::{Core, Events, PeerName, VcId};

use super::{MAX_IN, TcpNetmod};
use crate::conn::{Conn, ConnId, RailEnd, Stage};
use crate::pairs::Pairs;
use crate::rail::reader::{ChunkReader, Stop};
use crate::rail::wire::ACK;

/// Bytes read from one rail in a poll, so that others have their turn.
const BUDGET: usize = 1 << 20;
/// Chunks that may end in one poll of a rail.
const ENDS: usize = 32;
/// Bytes of acknowledgements that the peer may leave unread.
const UNREAD: usize = 64 << 10;

impl TcpNetmod {
    /// Takes or refuses a rail of an authenticated peer that wants to send by it.
    pub(crate) fn rail_offered(&mut self, id: ConnId, peer: PeerName) {
        let vc = self.sessions.peers.get(&peer).filter(|vc| self.takes_rails(*vc));
        let (Some(vc), Some(c)) = (vc, self.sockets.conns.get_mut(id)) else {
            return self.reject(id, RejectReason::NoRails);
        };
        let known =
            self.sessions.vcs.get(vc).is_some_and(|v| v.link.peer() == c.handshake.params.incarnation);
        // Those that are under way may still come when there is one pair left.
        if !known || !(self.has_pairs(vc) || self.rails.vcs.get(vc).is_some()) {
            return self.reject(id, RejectReason::NoRails);
        }
        if let Err((reason, pairs)) = self.judge_incoming(vc, id) {
            return self.reject_with(id, reason, &pairs);
        }
        let Some(r) = self.rails_of(vc) else { return };
        r.inc.push(id);
        let oldest = (r.inc.len() > MAX_IN).then(|| r.inc.remove(0));
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        c.handshake.proposed = None;
        c.vc = Some(vc);
        c.rail = Some(RailEnd::In);
        c.rx.position = 0;
        self.pin(id);
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        if let Stage::Proved(responder, _) = &mut c.stage
            && let Some(frame) = responder.accept(0, 0, &Pairs::default().terms())
        {
            self.sockets.write_out(id, frame.as_bytes());
        }
        if let Some(oldest) = oldest {
            self.close(oldest);
        }
    }

    /// Opens a rail on which the peer has said READY.
    pub(crate) fn rail_ready(&mut self, id: ConnId) {
        if let Some(c) = self.sockets.conns.get_mut(id) {
            c.stage = Stage::RailIn(Box::new(ChunkReader::new()));
            self.seal_rail(id);
            self.stats.rails += 1;
            self.sockets.expect_pulse(&mut self.clock);
        }
    }

    /// Reads from a rail on which the peer sends.
    pub(crate) fn rail_data(&mut self, core: &mut Core, id: ConnId, vc: VcId, events: &mut Events) {
        let mut acks = [0; ENDS * ACK];
        let mut ends = 0;
        let mut moved = 0;
        let mut stop = None;
        while let Some(Conn { stage: Stage::RailIn(rail), socket, rx, .. }) = self.sockets.conns.get_mut(id) {
            let (fd, regions) = (socket.as_raw_fd(), &self.rails.regions);
            let more = moved < BUDGET && ends < ENDS;
            let read = match &mut rx.opener {
                // Epoll knows nothing of what is held, so that is taken to its end.
                Some(opener) => rail.read_records(more.then_some(fd), opener, vc, regions),
                None if more => rail.read(fd, vc, regions, &mut self.sockets.arena),
                None => break,
            };
            self.stats.rx_calls += u64::from(read.bytes > 0);
            moved += read.bytes;
            if let Some(ack) = read.ended {
                self.stats.rail_rx_bytes += u64::from(ack.len);
                if let Some(r) = self.rails.vcs.get_mut(vc) {
                    r.received += u64::from(ack.len);
                    r.faults = 0;
                }
                if read.stop.is_none() {
                    if ends == ENDS {
                        self.write_rail(id, &acks);
                        ends = 0;
                    }
                    acks[ends * ACK..][..ACK].copy_from_slice(&ack.emit());
                    ends += 1;
                }
            }
            stop = read.stop;
            if stop.is_some() || read.bytes == 0 {
                break;
            }
        }
        if moved > 0 {
            events.note_progress();
        }
        if ends > 0 {
            self.write_rail(id, &acks[..ends * ACK]);
            if self.sockets.conns.get(id).is_some_and(|c| c.out.len() > UNREAD) {
                stop = Some(Stop::Nonsense("it does not read its acknowledgements"));
            }
        }
        match stop {
            None => {}
            Some(Stop::Ended(failure)) => {
                self.rail_ended(id, failure);
            }
            Some(Stop::Nonsense(what)) => self.rail_fault(core, vc, id, what),
            Some(Stop::Altered) => self.rail_altered(core, vc, id),
        }
    }
}

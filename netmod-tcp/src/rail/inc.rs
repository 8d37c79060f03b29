//! Rails on which the peer sends: their chunks are read to where they belong.

use netmod_connection::RejectReason;
use netmod_core::{Core, Events, IoVec, PeerName, VcId};

use crate::conn::{Conn, ConnId, Stage};
use crate::link::Failure;
use crate::netmod::TcpNetmod;
use crate::pairs::Pairs;
use crate::sys;

use super::regions::Place;
use super::wire::{ACK, Ack, ChunkHeader, HEADER};
use super::{MAX_IN, RailEnd};

/// Bytes read from one rail in a poll, so that others have their turn.
const BUDGET: usize = 1 << 20;
/// Chunks that may end in one poll of a rail.
const ENDS: usize = 32;
/// Bytes of acknowledgements that the peer may leave unread.
const UNREAD: usize = 64 << 10;

/// What has come of the present chunk.
#[derive(Debug)]
pub(crate) struct RailIn {
    /// The header, or as much of it as has come.
    header: [u8; HEADER],
    have: usize,
    /// The chunk whose data is coming.
    body: Option<Body>,
    /// Number of the next chunk.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    head: ChunkHeader,
    done: usize,
    /// Its region has ended: the rest is thrown away.
    gone: bool,
}

/// Why a rail is not read on.
enum Stop {
    Ended(Failure),
    Nonsense(&'static str),
}

impl RailIn {
    pub(crate) fn new() -> RailIn {
        RailIn { header: [0; HEADER], have: 0, body: None, next: 0 }
    }
}

impl TcpNetmod {
    /// A peer has proved who it is and wants to send by a rail.
    pub(crate) fn rail_offered(&mut self, id: ConnId, peer: PeerName) {
        let vc = self.by_peer.get(&peer).filter(|vc| self.takes_rails(*vc));
        let (Some(vc), Some(c)) = (vc, self.conns.get_mut(id)) else {
            return self.reject(id, RejectReason::NoRails);
        };
        let known = self.vcs.get(vc).is_some_and(|v| v.link.peer() == c.hail.incarnation);
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
        let Some(c) = self.conns.get_mut(id) else { return };
        c.proposed = None;
        c.vc = Some(vc);
        c.rail = Some(RailEnd::In);
        c.rx = 0;
        self.pin(id);
        let Some(c) = self.conns.get_mut(id) else { return };
        if let Stage::Proved(responder, _) = &mut c.stage
            && let Some(frame) = responder.accept(0, 0, &Pairs::default().terms())
        {
            self.write_out(id, frame.as_bytes());
        }
        if let Some(oldest) = oldest {
            self.close(oldest);
        }
    }

    /// The peer has said READY on a rail.
    pub(crate) fn rail_ready(&mut self, id: ConnId) {
        if let Some(c) = self.conns.get_mut(id) {
            c.stage = Stage::RailIn(Box::new(RailIn::new()));
            self.stats.rails += 1;
            self.expect_pulse();
        }
    }

    /// A rail of the peer's has brought something, or has ended.
    pub(crate) fn rail_data(&mut self, core: &mut Core, id: ConnId, vc: VcId, events: &mut Events) {
        let mut acks = [0; ENDS * ACK];
        let mut ends = 0;
        let mut moved = 0;
        let mut stop = None;
        while moved < BUDGET && ends < ENDS {
            match self.rail_read(id, vc) {
                Ok((0, _)) => break,
                Ok((n, end)) => {
                    moved += n;
                    if let Some(ack) = end {
                        acks[ends * ACK..][..ACK].copy_from_slice(&ack.emit());
                        ends += 1;
                    }
                }
                Err(why) => {
                    stop = Some(why);
                    break;
                }
            }
        }
        if moved > 0 {
            events.note_progress();
        }
        if ends > 0 {
            self.write_out(id, &acks[..ends * ACK]);
            if self.conns.get(id).is_some_and(|c| c.out.len() > UNREAD) {
                stop = Some(Stop::Nonsense("it does not read its acknowledgements"));
            }
        }
        match stop {
            None => {}
            Some(Stop::Ended(failure)) => {
                self.rail_ended(id, failure);
            }
            Some(Stop::Nonsense(what)) => self.rail_fault(core, vc, id, what),
        }
    }

    /// Reads once from a rail: how many bytes came, and the acknowledgement of the chunk that ended with them. The next
    /// chunk's header is read with the rest of this one.
    fn rail_read(&mut self, id: ConnId, vc: VcId) -> Result<(usize, Option<Ack>), Stop> {
        let Some(c) = self.conns.get_mut(id) else { return Ok((0, None)) };
        let fd = c.fd();
        let Conn { stage: Stage::RailIn(rail), .. } = c else { return Ok((0, None)) };
        let mut iov = [IoVec::EMPTY; 2];
        let mut place = IoVec::EMPTY;
        if let Some(body) = &mut rail.body {
            let left = body.head.len as usize - body.done;
            match self.rails.regions.place(vc, body.head.region, body.head.at, body.head.len as usize) {
                Place::At(mem) if !body.gone => {
                    place = mem;
                    iov[0] = IoVec { base: mem.base.wrapping_add(body.done), len: left };
                }
                _ => {
                    body.gone = true;
                    iov[0] = self.arena.free(left);
                }
            }
        }
        // Behind data that is thrown away in pieces the header comes later.
        let whole = rail.body.is_none_or(|b| iov[0].len == b.head.len as usize - b.done);
        let head = &mut rail.header[rail.have..];
        let wanted = if whole { head.len() } else { 0 };
        iov[1] = IoVec { base: head.as_mut_ptr(), len: wanted };
        let n = match sys::recv_iov(fd, &iov) {
            Ok(None) => return Ok((0, None)),
            Ok(Some(0)) => return Err(Stop::Ended(Failure::Eof)),
            Ok(Some(n)) => n,
            Err(e) => return Err(Stop::Ended(e.raw_os_error().map_or(Failure::Eof, Failure::Errno))),
        };
        self.stats.rx_calls += 1;
        let data = n.min(iov[0].len);
        rail.have += n - data;
        let mut ack = None;
        if let Some(body) = &mut rail.body {
            body.done += data;
            if body.done == body.head.len as usize {
                let Body { head, gone, .. } = *body;
                rail.body = None;
                if !gone && head.crc.is_some_and(|crc| crc != sys::checksum(place)) {
                    self.stats.altered += 1;
                    return Err(Stop::Nonsense("data of a chunk was altered on the way"));
                }
                ack = Some(Ack { number: head.number, len: head.len, taken: !gone });
                self.stats.rail_rx_bytes += u64::from(head.len);
                if let Some(r) = self.rails.vcs.get_mut(vc) {
                    r.received += u64::from(head.len);
                    r.faults = 0;
                }
            }
        }
        if rail.have == HEADER {
            rail.have = 0;
            let head = ChunkHeader::parse(&rail.header).map_err(Stop::Nonsense)?;
            if head.number != rail.next {
                return Err(Stop::Nonsense("a chunk with another number than the next"));
            }
            rail.next = rail.next.wrapping_add(1);
            let gone = match self.rails.regions.place(vc, head.region, head.at, head.len as usize) {
                Place::At(_) => false,
                Place::Gone => true,
                Place::Outside => return Err(Stop::Nonsense("a chunk that is not within its region")),
            };
            rail.body = Some(Body { head, done: 0, gone });
        }
        Ok((n, ack))
    }
}

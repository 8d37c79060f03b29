//! The netmod's part of a VC: what waits to be sent, and how the VC stands.

use std::collections::VecDeque;

use netmod_core::{Core, HDR_LEN, Header, PeerName, ReqId, SendBuf, VcError};

use crate::lane::Lane;
use crate::ring::{Broken, Kind, Place};

/// The data of a message, behind its header.
#[derive(Debug)]
pub(crate) enum Data {
    /// Nothing, or nothing more.
    None,
    /// Bytes in one piece.
    Contig(SendBuf),
    /// What is left of the request's segment.
    Segment,
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Message {
    hdr: Header,
    /// Whether its header has gone.
    started: bool,
    pub(crate) data: Data,
    pub(crate) req: ReqId,
}

impl Message {
    /// A message of which `gone` bytes have been sent.
    pub(crate) fn new(hdr: Header, data: Data, req: ReqId, gone: usize) -> Message {
        let of_data = gone.saturating_sub(HDR_LEN);
        let data = match data {
            Data::Contig(buf) => Data::Contig(buf.skip(of_data)),
            other => other,
        };
        Message { hdr, started: gone > 0, data, req }
    }

    /// Whether a byte of it has gone.
    pub(crate) fn started(&self) -> bool {
        self.started
    }

    fn data_left(&self, core: &Core) -> usize {
        match &self.data {
            Data::None => 0,
            Data::Contig(buf) => buf.len(),
            Data::Segment => core.reqs.get(self.req).map_or(0, |r| r.seg.remaining()),
        }
    }

    /// Writes as much as there is room for; whether that was the rest.
    pub(crate) fn write(&mut self, core: &mut Core, lane: &mut Lane) -> Result<bool, Broken> {
        let Some(tx) = &mut lane.tx else { return Ok(false) };
        loop {
            let left = self.data_left(core);
            if left == 0 {
                if self.started {
                    return Ok(true);
                }
                let Some(place @ Place::Cell(cell)) = tx.reserve()? else { return Ok(false) };
                tx.mem.write_inline(cell, &self.hdr, &[]);
                tx.commit(place, Kind::Inline, HDR_LEN);
                self.started = true;
                return Ok(true);
            }
            let room = left.min(tx.piece());
            let Some(place @ Place::Bulk(at)) = tx.reserve_bulk(room)? else { return Ok(false) };
            let mut kind = Kind::Bulk;
            if !self.started {
                tx.mem.write_head(tx.next_cell(), &self.hdr);
                self.started = true;
                kind = Kind::Headed;
            }
            match &mut self.data {
                Data::None => {}
                Data::Contig(buf) => {
                    tx.mem.write_bulk(at, &buf.bytes()[..room]);
                    *buf = buf.skip(room);
                }
                Data::Segment => {
                    if let Some(r) = core.reqs.get_mut(self.req) {
                        tx.mem.pack_bulk(at, room, r);
                    }
                }
            }
            tx.commit(place, kind, room);
        }
    }
}

/// The netmod's part of a VC.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: PeerName,
    /// The peer's slot in the segment, when it is known.
    pub(crate) slot: Option<usize>,
    /// Messages can be written at once: the lane's stream is open, and nothing waits.
    pub(crate) ready: bool,
    /// A card was asked for.
    pub(crate) asked: bool,
    /// `Up` has been reported and nothing to the contrary since.
    pub(crate) up: bool,
    pub(crate) terminating: bool,
    pub(crate) down: Option<VcError>,
    pub(crate) queue: VecDeque<Message>,
    /// The first message's data has gone and its owner is being asked whether there is more.
    pub(crate) held: bool,
    /// Whether this process may reach the peer's memory, once that was tried.
    pub(crate) attach: Option<Result<(), String>>,
}

impl Link {
    pub(crate) fn new(peer: PeerName) -> Link {
        Link {
            peer,
            slot: None,
            ready: false,
            asked: false,
            up: false,
            terminating: false,
            down: None,
            queue: VecDeque::new(),
            held: false,
            attach: None,
        }
    }
}

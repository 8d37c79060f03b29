//! The netmod's part of a VC: its send queue and its state.

use netmod_core::{Core, Data, HDR_LEN, Message, PeerName, SendQueue, VcError};

use crate::attach::AttachError;
use crate::channel::Channel;
use crate::ring::{Broken, Kind, Reserved};

/// Writes as much of a message as there is room for. Returns true if that was the rest.
pub(crate) fn write(m: &mut Message, core: &mut Core, channel: &mut Channel) -> Result<bool, Broken> {
    let Some(tx) = &mut channel.tx else { return Ok(false) };
    let longest = tx.piece();
    loop {
        let left = m.left(core);
        if left == 0 {
            if m.started() {
                return Ok(true);
            }
            let Some(place @ Reserved::Cell(cell)) = tx.reserve()? else { return Ok(false) };
            tx.mem.write_inline(cell, m.header(), &[]);
            tx.commit(place, Kind::Inline, HDR_LEN);
            m.head_sent(HDR_LEN);
            return Ok(true);
        }
        let room = left.min(longest);
        let Some(place @ Reserved::Bulk(at)) = tx.reserve_bulk(room)? else { return Ok(false) };
        let mut kind = Kind::Bulk;
        if !m.started() {
            tx.mem.write_head(tx.next_cell(), m.header());
            m.head_sent(HDR_LEN);
            kind = Kind::Headed;
        }
        match &mut m.data {
            Data::None => {}
            Data::Contig(buf) => {
                tx.mem.write_piece(at, &buf.bytes()[..room], &mut channel.stores);
                buf.advance(room);
            }
            Data::Segment => {
                if let Some(r) = core.req_mut(m.req()) {
                    tx.mem.pack_piece(at, room, r, &mut channel.stores);
                }
            }
        }
        tx.commit(place, kind, room);
    }
}

/// The netmod's part of a VC.
#[derive(Debug)]
pub(crate) struct ShmVc {
    pub(crate) peer: PeerName,
    /// The peer's slot in the segment, when it is known.
    pub(crate) slot: Option<usize>,
    /// True if messages can be written at once: the channel's stream is open, and nothing waits.
    pub(crate) ready: bool,
    /// True if a card was asked for.
    pub(crate) asked: bool,
    /// True if `Up` has been reported, and no end since.
    pub(crate) up: bool,
    pub(crate) terminating: bool,
    pub(crate) down: Option<VcError>,
    pub(crate) queue: SendQueue,
    /// The outcome of the test whether this process may reach the peer's memory; `None` before it.
    pub(crate) attach: Option<Result<(), AttachError>>,
}

impl ShmVc {
    pub(crate) fn new(peer: PeerName) -> ShmVc {
        ShmVc {
            peer,
            slot: None,
            ready: false,
            asked: false,
            up: false,
            terminating: false,
            down: None,
            queue: SendQueue::default(),
            attach: None,
        }
    }
}

//! A peer channel: both directions between this rank and another one of its segment, and the stream
//! in each.
//!
//! A stream is what a connection is elsewhere: [`Kind::Open`], bytes, and [`Kind::Fin`] or
//! [`Kind::Reset`]. Streams follow each other in a ring, and the two directions begin and end
//! theirs on their own.

use std::collections::VecDeque;
use std::time::Instant;

use netmod_core::reply_backoff::Classes;
use netmod_core::{Header, Refusal, ReplyBackoff, Stores, Time, VcId};

use crate::pause::Pause;
use crate::ring::{
    Broken, Consumer, Geometry, INLINE, Kind, MIN_RING, Producer, Reserved, RingMem, TOKEN_LINE, TokenLine,
    WHOLE_PAYLOAD,
};
use crate::segment::raw::RawRing;
use crate::sys::Waker;

/// Messages since the last poll that each have a cell of their own: an exchange with two
/// neighbours. More of them are likely to be many.
const AT_ONCE: u32 = 2;
/// Longest message that waits for company. In the smallest ring, too, several fit into a batch.
const SMALL: usize = 128;
const _: () = assert!(2 * SMALL <= Geometry::of(MIN_RING).piece as usize);

/// First piece of a longer message in the bulk area if it is the first since a poll, for which
/// somebody may wait. Each further one is twice as long as the one before; other messages are
/// written in the longest pieces.
///
/// A consumer that reads one piece while the next is written overlaps with the producer, but its
/// processor fetches ahead of what it reads, and takes lines away that are being written. A piece
/// that is shorter than this, and than the longest one of its ring, is the last of its message.
pub(crate) const AWAITED_PIECE: usize = 8 << 10;

/// First and longest later part of a payload that is written to the payload buffer in parts.
const FIRST_PART: usize = 4 << 10;
const LATER_PART: usize = 8 << 10;

/// Longest message after which the lines of the next are claimed: as many as a processor fetches at
/// once. After a longer one that would take lines from the consumer while it reads, and a long copy
/// overwrites lines without reading them.
const CLAIMED_AHEAD: usize = 1 << 10;

/// Lengths of messages that are answered about as soon as each other.
pub(crate) const CLASSES: Classes = [INLINE, 512, 2 << 10, 8 << 10];

/// The way to wake the rank of a channel.
#[derive(Debug, Default)]
pub(crate) enum Wake {
    /// Nobody has tried.
    #[default]
    Unknown,
    By(Waker),
    /// Its pipe cannot be found, which it has been told.
    Cannot,
}

/// Both endpoints of a channel without their memory, while this rank is away.
#[derive(Debug)]
pub(crate) struct Parting {
    pub(crate) tx: Option<Producer<()>>,
    pub(crate) rx: Option<Consumer<()>>,
}

/// The absence of one of the two ranks for a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    /// The agreement about it.
    pub(crate) pause: Pause,
    /// Time when a peer that is away counts as lost.
    pub(crate) until: Time,
    pub(crate) parting: Option<Parting>,
}

/// The process of a channel's rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It runs, as far as this rank knows.
    #[default]
    Running,
    /// It has ended, or has announced that it leaves. Its ring is read to the end.
    Gone,
    /// It has violated the protocol of its ring, of which nothing is read any more.
    Condemned,
}

impl Peer {
    /// Notes that the process has ended; returns false if that was known.
    pub(crate) fn end(&mut self) -> bool {
        let news = *self == Peer::Running;
        if news {
            *self = Peer::Gone;
        }
        news
    }

    /// Returns true if nothing is expected of it.
    pub(crate) fn is_gone(self) -> bool {
        self != Peer::Running
    }
}

/// The peer's present stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// There is none.
    #[default]
    Closed,
    /// Its bytes are the VC's.
    Open,
    /// The rest of it is dropped.
    Discarded,
    /// The same, and the peer is told so when its first bytes come: until then it may have ended
    /// the stream by itself.
    Refused,
}

/// The answer to a stream that the peer begins without a VC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    /// There is none yet.
    #[default]
    None,
    /// `NewPeer` was reported, and the stream waits for a VC.
    Reported,
    /// The next stream is refused.
    Refused(Refusal),
}

/// The streams in both directions.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Events for which there was no room in the ring, in order; no bytes go before them.
    owed: VecDeque<Kind>,
    /// True if our stream is open.
    pub(crate) writing: bool,
    pub(crate) incoming: Incoming,
    pub(crate) offer: Offer,
}

impl Streams {
    /// Returns true if the peer's stream is open, and its bytes are the VC's.
    #[inline(always)]
    pub(crate) fn is_reading(&self) -> bool {
        self.incoming == Incoming::Open
    }
}

/// The messages that were sent since a poll.
#[derive(Debug, Default)]
struct Burst {
    after: u32,
    sent: u32,
}

impl Burst {
    /// Counts one more. Returns how many were sent before it since the poll with this number.
    #[inline]
    fn next(&mut self, poll: u32) -> u32 {
        let before = if std::mem::replace(&mut self.after, poll) == poll { self.sent } else { 0 };
        self.sent = before.saturating_add(1);
        before
    }
}

/// Both directions between two ranks.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) tx: Option<Producer<RawRing>>,
    pub(crate) rx: Option<Consumer<RawRing>>,
    /// The line that both ranks write to, and which of them has it.
    pub(crate) token_line: TokenLine,
    /// The VC of the rank, if it has one.
    pub(crate) vc: Option<VcId>,
    pub(crate) streams: Streams,
    pub(crate) peer: Peer,
    /// The ring is looked at in each poll.
    pub(crate) watched: bool,
    /// Empty looks since something was found.
    pub(crate) idle: u32,
    /// In the list of channels whose consumer may have to be told.
    pub(crate) dirty: bool,
    /// Buffers of the ring that are on loan to the engine.
    pub(crate) lent: u32,
    burst: Burst,
    /// Delay before this rank's reply is polled for.
    pub(crate) quiet: ReplyBackoff,
    /// The choice of store instructions for long pieces.
    pub(crate) stores: Stores,
    pub(crate) wake: Wake,
    pub(crate) absence: Absence,
}

impl Channel {
    /// Returns true if no stream is open in either direction.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.streams.writing && !self.streams.is_reading()
    }

    /// Writes an event of our stream, now or when there is room.
    pub(crate) fn event(&mut self, kind: Kind) -> Result<(), Broken> {
        self.streams.owed.push_back(kind);
        self.settle_owed().map(|_| ())
    }

    /// Writes events that wait for room. Returns true if none is left.
    pub(crate) fn settle_owed(&mut self) -> Result<bool, Broken> {
        let Some(tx) = self.tx.as_mut().filter(|_| !self.absence.pause.holds()) else {
            return Ok(self.streams.owed.is_empty());
        };
        while let Some(kind) = self.streams.owed.front() {
            let Some(place) = tx.reserve()? else { return Ok(false) };
            tx.commit(place, *kind, 0);
            self.streams.owed.pop_front();
        }
        Ok(true)
    }

    /// Lets both rings use the token line in the ring from the lower slot, which is this rank's if
    /// `lower`. Returns true if both rings are there.
    pub(crate) fn share_token_line(&mut self, lower: bool) -> bool {
        let (Some(tx), Some(rx)) = (&mut self.tx, &mut self.rx) else { return false };
        if lower {
            rx.mem.share_token_line(&tx.mem)
        } else {
            tx.mem.share_token_line(&rx.mem)
        }
        true
    }

    /// Returns true if events of our stream wait for room.
    pub(crate) fn owes(&self) -> bool {
        !self.streams.owed.is_empty()
    }

    /// Writes as much of a message as there is room for. Returns the number of bytes written,
    /// header included.
    #[inline]
    pub(crate) fn send(&mut self, hdr: &Header, data: &[u8], epoch: u32) -> Result<usize, Broken> {
        let total = hdr.len() + data.len();
        // The first messages since the last poll go at once, small ones behind them go together.
        let before = self.burst.next(epoch);
        let at_once = before < AT_ONCE;
        if total > SMALL || at_once && total > INLINE {
            return self.send_long(hdr, data, before == 0);
        }
        let Some(tx) = &mut self.tx else { return Ok(0) };
        if at_once {
            let Some(place) = tx.reserve()? else { return Ok(0) };
            let cell = cell_of(tx, &self.token_line, self.lent);
            tx.mem.write_inline(cell, hdr, data);
            self.publish(cell, place, Kind::Inline, total);
        } else {
            let Some((at, full)) = tx.append(total, hdr.len())? else { return Ok(0) };
            tx.mem.write_message(at, hdr, data);
            if full {
                tx.publish();
                claim_bulk(tx, tx.batch());
            } else {
                tx.show();
            }
        }
        Ok(total)
    }

    /// Writes a longer message: with the token line, or piece by piece, so that the consumer reads
    /// one while the next is written.
    #[inline(never)]
    fn send_long(&mut self, hdr: &Header, data: &[u8], awaited: bool) -> Result<usize, Broken> {
        let Some(tx) = &mut self.tx else { return Ok(0) };
        let fits = data.len() <= tx.mem.payload() as usize;
        if awaited && fits && cell_of(tx, &self.token_line, self.lent) == TOKEN_LINE {
            let Some(place) = tx.reserve()? else { return Ok(0) };
            tx.mem.write_head(TOKEN_LINE, hdr);
            let in_parts = data.len() > WHOLE_PAYLOAD;
            let first = if in_parts { FIRST_PART } else { data.len() };
            tx.mem.write_payload(0, &data[..first]);
            if in_parts {
                tx.begin_fill(first);
            }
            self.publish(TOKEN_LINE, place, Kind::Headed, data.len());
            self.fill(data, first);
            return Ok(hdr.len() + data.len());
        }
        let longest = tx.piece();
        let mut piece = if awaited { AWAITED_PIECE.min(longest) } else { longest };
        let first = data.len().min(piece);
        let Some(place @ Reserved::Bulk(at)) = tx.reserve_bulk(first)? else { return Ok(0) };
        tx.mem.write_head(tx.next_cell(), hdr);
        tx.mem.write_piece(at, &data[..first], &mut self.stores);
        tx.commit(place, Kind::Headed, first);
        let mut gone = first;
        while gone < data.len() {
            piece = (2 * piece).min(longest);
            let n = piece.min(data.len() - gone);
            let Some(place @ Reserved::Bulk(at)) = tx.reserve_bulk(n)? else { break };
            tx.mem.write_piece(at, &data[gone..gone + n], &mut self.stores);
            tx.commit(place, Kind::Bulk, n);
            gone += n;
        }
        claim_bulk(tx, data.len());
        Ok(hdr.len() + gone)
    }

    /// Writes the rest of what goes with the token line, part by part, so that the consumer reads
    /// one while the next is written.
    fn fill(&mut self, data: &[u8], mut gone: usize) {
        let Some(tx) = &mut self.tx else { return };
        while gone < data.len() {
            let n = LATER_PART.min(data.len() - gone);
            tx.mem.write_payload(gone, &data[gone..gone + n]);
            gone += n;
            tx.go_on_filling(gone);
        }
    }

    /// Publishes what was written to a cell of the ring or to the token line.
    #[inline(always)]
    fn publish(&mut self, cell: u32, place: Reserved, kind: Kind, len: usize) {
        let Some(tx) = &mut self.tx else { return };
        if cell != TOKEN_LINE {
            return tx.commit(place, kind, len);
        }
        tx.commit_to(&mut self.token_line, place, kind, len);
        if let Some(rx) = &self.rx {
            let messages = tx.written().wrapping_add(rx.consumed());
            self.quiet.sent(rx.is_alternating(), len, messages, Instant::now);
        }
    }
}

/// Returns the cell for a message that may be a reply, or be replied to. The content of the token
/// line may still be on loan.
#[inline(always)]
fn cell_of(tx: &Producer<RawRing>, token_line: &TokenLine, lent: u32) -> u32 {
    if lent == 0 && tx.may_use_token(token_line) { TOKEN_LINE } else { tx.next_cell() }
}

/// Takes the lines to which the next message will be written, if it is as long as the last.
#[inline]
fn claim_bulk(tx: &Producer<RawRing>, len: usize) {
    if len <= CLAIMED_AHEAD
        && let Some(at) = tx.next_bulk(len)
    {
        tx.mem.claim_bulk(at, len);
    }
}

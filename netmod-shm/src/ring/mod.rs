//! The ring: one direction between two ranks, one producer and one consumer, without locks.
//!
//! # Layout
//!
//! A ring is a control block, an array of *cells* of one cache line each, a *bulk* area, and a
//! *payload buffer*.
//!
//! | part | bytes | written by |
//! |---|---|---|
//! | tail, watched | line 0 | consumer |
//! | wants space, level | line 2 | producer |
//! | token line, in the ring from the lower slot to the higher one | line 4 | both, in turn |
//! | fill of the payload buffer, in the same ring | line 5 | both, in turn |
//! | cells | 64 each | producer |
//! | bulk | the rest | producer |
//! | payload buffer | a sixteenth of the ring, more of a long one, up to 128 KiB | both, in turn |
//!
//! *Tail* counts the cells that the consumer has given back; *watched* says that it looks at this
//! ring in each poll. *Wants space* says that the producer waits for cells; *level* says how far
//! the open piece is filled. The payload buffer has what goes with the token line ([`TokenLine`])
//! and is too long for it; *fill* says how much of a long payload is written.
//!
//! The lines of the control block are two apart because processors fetch lines in pairs. A cell is
//! a control word of 8 bytes and 56 bytes of content. The control word has the cell's *sequence
//! number*, so that a consumer that looks at the next cell sees in the same line whether it was
//! written, and what: a header with up to 24 bytes of payload costs the transfer of one line, and
//! no counter of the producer's is read. What is longer lies in the bulk area in one piece, and the
//! cell says where; the header of such a message is in the cell all the same, so that the consumer
//! can find its receive while the payload is on its way. Only cells hold control words, and a cell
//! is never used for anything else, so nothing that a user sends is ever taken for one.
//!
//! # Protocol
//!
//! The producer writes content, then the control word (release); the consumer reads the control
//! word (acquire), then the content. Small messages that are sent one after another go together
//! from the third on: they are written behind each other into one piece of the bulk area, and
//! published by one cell.
//! While it is being filled, the line that the consumer looks at stays unchanged, and two headers
//! share a line.
//!
//! The piece that is being filled is *open*. Its *level* says for which cell it is, where it lies
//! and how many bytes of it are written; the producer stores it (release) behind each message. So a
//! consumer that finds no cell reads what is there (acquire) without waiting for the producer's
//! next call. It takes the rest when the cell is published. Level and cells are in different lines,
//! and the consumer looks at the level last, so that a busy producer keeps that line.
//!
//! The consumer gives cells back by the tail, a quarter of the ring at a time; what part of the
//! bulk area goes with a cell the producer remembers. However long the bulk area is, no more of it
//! is in use at once than a *window*, so that what is written over was read long ago. A piece takes
//! at most an eighth of the window, so that a producer never waits for what the consumer has
//! consumed and not yet given back.
//!
//! A message that fits into a cell or the payload buffer and is the first since a poll may be an
//! answer, or be answered. If the [`TokenLine`] is there it goes with it, and its cell in the ring
//! stays as it was.
//!
//! *Doorbells.* A producer that has published looks, behind a full fence, whether its ring is
//! watched; if not, it rings ([`crate::bell`]). A consumer that stops watching says so, and looks
//! once more behind a full fence. So one of the two sees the other (Dekker's argument), and a
//! consumer does not look at an idle ring for long. The fence is paid once for all that was sent
//! between two polls; before it the producer looks without one.
//!
//! A producer that does not poll after its last messages has had no fence behind them. It may have
//! read that it is watched while they were still in its processor's store buffer, where the
//! consumer's last look did not find them. A store leaves its buffer in bounded time, at the latest
//! with the next interrupt; so the consumer looks a second time after a millisecond or two, and
//! nothing that was sent waits for a further call (after Morrison and Afek, "Temporally Bounding
//! TSO for Fence-Free Asymmetric Synchronization", 2015).
//!
//! *Space* works alike: a producer that finds no room sets `wants space` and looks again behind a
//! fence; the consumer gives cells back and looks at the flag behind a fence.
//!
//! # Trust
//!
//! Each side keeps its own counters in its own memory. What it reads of the other's is checked: a
//! tail that is not between the tail before and the head, a piece that does not lie in the ring, is
//! [`Broken`].

mod consumer;
#[cfg(test)]
mod model;
mod producer;
#[cfg(test)]
mod tests;
mod token_line;
#[cfg(test)]
mod token_line_model;

pub(crate) use consumer::{Cell, Consumer};
pub(crate) use producer::{Producer, Reserved};
pub(crate) use token_line::{TOKEN_LINE, TokenLine};

/// Bytes of a cell, and of a cache line.
pub(crate) const LINE: usize = 64;
/// Bytes of content in a cell.
pub(crate) const INLINE: usize = LINE - 8;
/// Bytes of the control block.
pub(crate) const CONTROL: usize = 6 * LINE;
/// Least and most bytes of a ring; every multiple of the least one is possible.
///
/// The producer must take what it writes over away from the consumer's caches if it is still there
/// (see [`netmod_core::stores`]). The longest ring is longer than those caches, which spares that.
pub(crate) const MIN_RING: usize = 4 << 10;
pub(crate) const MAX_RING: usize = 2 << 20;
/// The longest ring that, with what both sides copy, lies in the caches of one core.
pub(crate) const CACHED_RING: usize = 256 << 10;
/// Bytes of the bulk area that are in use at once, whatever its length.
const WINDOW: usize = MAX_RING / 2;
/// Most cells of a ring.
const MAX_CELLS: usize = 256;
/// Most bytes of a payload buffer.
pub(crate) const MAX_PAYLOAD: usize = 128 << 10;
/// The same in a ring of up to [`CACHED_RING`] bytes, a sixteenth of which it is.
const MAX_CACHED_PAYLOAD: usize = CACHED_RING / 16;
/// Longest payload in the buffer that is all there when its cell is published. Of a longer one the
/// fill says how much is.
pub(crate) const WHOLE_PAYLOAD: usize = 8 << 10;
/// Longest piece in the bulk area, whatever its size.
const MAX_PIECE: usize = 64 << 10;

/// Pieces in the bulk area begin at multiples of so many bytes. Processors fetch lines in pairs:
/// with a message the consumer would take away the line in which the next one is being written.
const PAIR: usize = 2 * LINE;

/// Returns the room in the bulk area for a piece of `len` bytes.
#[inline]
fn room_for(len: usize) -> u32 {
    len.next_multiple_of(PAIR) as u32
}

/// The peer wrote what no correct peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes of the stream, in the cell.
    Inline,
    /// Bytes of the stream: a message's header, in the cell, and what follows it, in the bulk area.
    Headed,
    /// Bytes of the stream, in the bulk area.
    Bulk,
    /// A stream begins.
    Open,
    /// The stream ends: all of it was written.
    Fin,
    /// The stream is given up.
    Reset,
    /// The same, because this side has its VC with the peer at another netmod.
    Elsewhere,
    /// The producer is about to leave for a checkpoint; the length is the number of its round. See
    /// [`crate::pause`].
    Suspend,
    /// The producer knows that the peer is about to leave, in the round of that number.
    Suspended,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Inline,
            2 => Kind::Bulk,
            3 => Kind::Open,
            4 => Kind::Fin,
            5 => Kind::Reset,
            6 => Kind::Headed,
            7 => Kind::Elsewhere,
            8 => Kind::Suspend,
            9 => Kind::Suspended,
            _ => return None,
        })
    }

    fn byte(self) -> u8 {
        match self {
            Kind::Inline => 1,
            Kind::Bulk => 2,
            Kind::Open => 3,
            Kind::Fin => 4,
            Kind::Reset => 5,
            Kind::Headed => 6,
            Kind::Elsewhere => 7,
            Kind::Suspend => 8,
            Kind::Suspended => 9,
        }
    }
}

/// Bits of a control word that say the kind.
const KINDS: u8 = 0x3f;

/// A control word: sequence number (32 bits), length (24 bits), who has written it (2 bits, of the
/// token_line only), kind (6 bits).
#[inline]
fn control_word(seq: u32, kind: Kind, len: usize) -> u64 {
    u64::from(seq) << 32 | (len as u64 & 0xff_ffff) << 8 | u64::from(kind.byte())
}

/// The fill of the payload buffer: sequence number of its cell (32 bits), bytes written (32 bits).
#[inline]
fn fill_word(seq: u32, len: usize) -> u64 {
    u64::from(seq) << 32 | len as u64 & 0xffff_ffff
}

/// A level: sequence number of the cell that will publish the piece (32 bits), its first line in
/// the bulk area (16 bits), bytes written (16 bits).
#[inline]
fn level_word(seq: u32, at: u32, len: u32) -> u64 {
    debug_assert!(at.is_multiple_of(LINE as u32) && at / (LINE as u32) < 1 << 16 && len < 1 << 16);
    u64::from(seq) << 32 | u64::from(at / LINE as u32) << 16 | u64::from(len)
}

/// The shared memory of a ring, with the orderings that the protocol needs. The mapped ring
/// implements it, and loom's atomics do. The token line is the cell [`TOKEN_LINE`].
pub(crate) trait RingMem {
    /// Acquire.
    fn control(&self, cell: u32) -> u64;
    /// Release.
    fn set_control(&self, cell: u32, word: u64);
    /// Offset of the cell's bytes in the bulk area; valid only after [`RingMem::control`] has said
    /// that there are some.
    fn bulk_at(&self, cell: u32) -> u32;
    /// Before [`RingMem::set_control`].
    fn set_bulk_at(&self, cell: u32, at: u32);
    /// Bytes of the payload buffer that goes with the token line.
    fn payload(&self) -> u32;
    /// The [`fill_word`] of the payload buffer. Acquire.
    fn fill(&self) -> u64;
    /// Release.
    fn set_fill(&self, word: u64);
    /// Acquire.
    fn tail(&self) -> u32;
    /// Release.
    fn set_tail(&self, tail: u32);
    /// The [`level_word`] of the open piece, or 0. Acquire.
    fn level(&self) -> u64;
    /// Release.
    fn set_level(&self, word: u64);
    /// Relaxed.
    fn watched(&self) -> bool;
    /// Relaxed.
    fn set_watched(&self, watched: bool);
    /// Relaxed.
    fn wants_space(&self) -> bool;
    /// Relaxed.
    fn set_wants_space(&self, wants: bool);
    /// A full fence: whoever of two sides comes second sees what the other did before its fence.
    fn fence(&self);
}

/// The sizes of a ring, which follow from its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Number of cells, a power of two.
    pub(crate) cells: u32,
    /// Bytes of the bulk area, a multiple of a line.
    pub(crate) bulk: u32,
    /// Bytes of the bulk area in use at once, at most.
    pub(crate) window: u32,
    /// Longest piece in the bulk area.
    pub(crate) piece: u32,
    /// Bytes of the payload buffer.
    pub(crate) payload: u32,
}

impl Geometry {
    /// Returns the sizes in a ring of so many bytes: a multiple of [`MIN_RING`], at most
    /// [`MAX_RING`].
    pub(crate) const fn of(bytes: usize) -> Geometry {
        debug_assert!(bytes.is_multiple_of(MIN_RING) && bytes >= MIN_RING && bytes <= MAX_RING);
        let cells = match 1 << (bytes / 256).ilog2() {
            ..16 => 16,
            cells if cells < MAX_CELLS => cells,
            _ => MAX_CELLS,
        };
        let payload = match bytes.checked_sub(CACHED_RING) {
            None => bytes / 16,
            Some(more) if more < MAX_PAYLOAD - MAX_CACHED_PAYLOAD => MAX_CACHED_PAYLOAD + more,
            Some(_) => MAX_PAYLOAD,
        };
        let bulk = bytes - CONTROL - cells * LINE - payload;
        let window = if bulk < WINDOW { bulk } else { WINDOW };
        let piece = match window / 8 / PAIR * PAIR {
            long if long > MAX_PIECE => MAX_PIECE,
            piece => piece,
        };
        Geometry {
            cells: cells as u32,
            bulk: bulk as u32,
            window: window as u32,
            piece: piece as u32,
            payload: payload as u32,
        }
    }

    /// Bytes of a message that find room while as many are under way: a power of two.
    pub(crate) fn room(&self) -> u32 {
        1 << (self.window / 2).ilog2()
    }

    /// Bytes of the whole ring.
    pub(crate) fn bytes(&self) -> usize {
        self.payload_start() + self.payload as usize
    }

    /// Returns the offset of the payload buffer, which follows the bulk area.
    pub(crate) fn payload_start(&self) -> usize {
        self.bulk_start() + self.bulk as usize
    }

    /// Returns the offset of the bulk area, which follows the cells.
    pub(crate) fn bulk_start(&self) -> usize {
        CONTROL + self.cells as usize * LINE
    }
}

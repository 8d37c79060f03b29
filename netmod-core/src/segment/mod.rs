//! Segments: a resumable cursor over data that may be noncontiguous in memory.
//!
//! A [`Datatype`] describes the bytes of one element relative to a base address. A [`Segment`] is a
//! base address, a datatype, a count and a position in the packed byte stream. The position is a
//! plain number: any operation may start at any byte, so a transport can stop and resume wherever
//! its network cuts the data.
//!
//! A datatype goes through three stages:
//! 1. Its constructor *normalises* (`layout`): dense parts become one run, runs at equal distances
//!    become strided, equal parts at equal distances repeat, runs of one length become a list of
//!    offsets. So it does not matter which of several constructors described the same bytes. This
//!    is cheap, since most types are made only to be parts of others.
//! 2. [`Datatype::compile`] turns the layout of an endless array of elements into a move *program*
//!    (`program`): a tree with a few kinds of leaves. A grid is two nested loops over blocks. A
//!    list has the offsets of blocks, 32 bits each where that suffices; runs of different lengths
//!    become blocks of their common divisor if those are few. An element is a short list of runs,
//!    as of a struct. Around them are loops with a constant stride, and sequences of parts. The
//!    array is endless so that one program serves every count; the end of the segment ends it.
//! 3. A walk finds its position by a division at each loop and a binary search at each sequence, so
//!    it resumes in as many steps as the program is deep. It hands leaves to a visitor. One visitor
//!    gathers iovecs. The other one copies (`moves`): the length of a block is looked at once, and
//!    then is a constant of the loop. Elements are copied two runs at a time, for many elements;
//!    the number of blocks in short rows is a constant, too. Rows that share cache lines, as in a
//!    transposition, are copied side by side.
//!
//! The order of copies within one call is therefore not that of the packed bytes. It shows only
//! where received data describes a byte twice, for which no value is promised.
//!
//! The memory of a segment is lent under the contract of [`crate::buf`].

mod datatype;
mod layout;
mod moves;
mod program;
mod raw;

use core::fmt;
use core::ops::ControlFlow;
use std::sync::Arc;

pub use datatype::{Datatype, DatatypeError, MAX_DEPTH};

use crate::buf::IoVec;
use program::Visit;

/// A cursor over data in memory, contiguous or not.
///
/// Positions count bytes of the packed stream: the data in the order of the datatype, without gaps.
pub struct Segment {
    base: *mut u8,
    pos: usize,
    /// End position, at most what the layout describes; `pos <= end`.
    end: usize,
    layout: Layout,
}

/// A contiguous segment at its start, small enough to be passed in registers, unlike a [`Segment`].
#[derive(Debug)]
pub struct Run {
    base: *mut u8,
    len: usize,
}

impl Run {
    /// Returns the number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<Run> for Segment {
    #[inline]
    fn from(run: Run) -> Segment {
        Segment { base: run.base, pos: 0, end: run.len, layout: Layout::Contig }
    }
}

/// The position of the bytes in memory.
///
/// Elements of `Typed` repeat at the datatype's extent, up to `Segment::end`.
enum Layout {
    Contig,
    Typed(Arc<Datatype>),
    List(Box<List>),
}

/// Pieces of memory, possibly of different objects.
struct List {
    iov: Vec<IoVec>,
    /// Positions in the packed stream at which the pieces end.
    ends: Vec<usize>,
}

impl List {
    /// Iterates over the pieces of the `n` bytes from `pos` on, in order.
    fn pieces(&self, pos: usize, n: usize) -> impl Iterator<Item = IoVec> + '_ {
        let first = self.ends.partition_point(|&end| end <= pos);
        let before = first.checked_sub(1).map_or(0, |i| self.ends[i]);
        let mut skip = pos - before;
        let mut left = n;
        self.iov[first..].iter().map_while(move |iov| {
            let len = (iov.len - skip).min(left);
            let piece = IoVec { base: iov.base.wrapping_add(skip), len };
            skip = 0;
            left -= len;
            (len > 0).then_some(piece)
        })
    }
}

impl Segment {
    /// Creates a segment without data.
    pub const fn empty() -> Segment {
        Segment { base: IoVec::EMPTY.base, pos: 0, end: 0, layout: Layout::Contig }
    }

    /// Returns the number of all bytes, including those before the position.
    #[inline]
    pub const fn total(&self) -> usize {
        self.end
    }

    /// Returns true if its layout is contiguous, and so holds no memory of its own.
    #[inline]
    pub const fn is_plain(&self) -> bool {
        matches!(self.layout, Layout::Contig)
    }

    /// Returns the segment as a run, if it is one.
    ///
    /// # Errors
    ///
    /// Returns the segment itself if it is not.
    #[inline(always)]
    pub fn into_run(self) -> Result<Run, Segment> {
        if self.is_plain() && self.pos == 0 { Ok(Run { base: self.base, len: self.end }) } else { Err(self) }
    }

    /// Returns the number of bytes before the position.
    #[inline]
    pub const fn pos(&self) -> usize {
        self.pos
    }

    /// Returns the number of bytes from the position on.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.end - self.pos
    }

    /// Returns true if no bytes remain.
    #[inline]
    pub const fn is_done(&self) -> bool {
        self.pos == self.end
    }

    /// Moves to a position, or to the end if it is past that.
    #[inline]
    pub fn seek(&mut self, pos: usize) {
        self.pos = pos.min(self.end);
    }

    /// Advances by `n` bytes, or to the end if fewer remain.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.pos += n.min(self.remaining());
    }

    /// Limits the total to `len` bytes. A position past that becomes the end.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(len);
        self.pos = self.pos.min(self.end);
    }

    /// Describes the data from the position on, without advancing.
    ///
    /// Fills `out` from its start, with at most `max_bytes` bytes; returns the number of entries
    /// and of bytes. Blocks of a datatype that are adjacent in memory share an entry; the pieces of
    /// [`Segment::iovecs`] do not, since they may belong to different objects. No entry has length
    /// zero. No bytes at all means that none remain or none were requested.
    #[inline]
    pub fn next_iovecs(&self, max_bytes: usize, out: &mut [IoVec]) -> (usize, usize) {
        let max = max_bytes.min(self.remaining());
        if max == 0 || out.is_empty() {
            return (0, 0);
        }
        match &self.layout {
            Layout::Contig => {
                out[0] = IoVec { base: self.base.wrapping_add(self.pos), len: max };
                (1, max)
            }
            Layout::Typed(ty) => {
                let mut v = Gather { base: self.base, out, n: 0, left: max };
                let _ = ty.walk(self.pos, &mut v);
                (v.n, max - v.left)
            }
            Layout::List(list) => {
                let (mut n, mut bytes) = (0, 0);
                for (slot, piece) in out.iter_mut().zip(list.pieces(self.pos, max)) {
                    *slot = piece;
                    n += 1;
                    bytes += piece.len;
                }
                (n, bytes)
            }
        }
    }

    /// Returns the remaining data as address and length, if it is contiguous.
    #[inline]
    pub fn as_contig(&self) -> Option<(*mut u8, usize)> {
        if matches!(self.layout, Layout::Contig) || self.is_done() {
            return Some((self.base.wrapping_add(self.pos), self.remaining()));
        }
        let mut one = [IoVec::EMPTY];
        let (_, bytes) = self.next_iovecs(usize::MAX, &mut one);
        (bytes == self.remaining()).then_some((one[0].base, bytes))
    }
}

impl Default for Segment {
    fn default() -> Segment {
        Segment::empty()
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.layout {
            Layout::Contig => "contiguous",
            Layout::Typed(_) => "typed",
            Layout::List(_) => "list",
        };
        write!(f, "Segment({kind}, {} of {} bytes)", self.pos, self.end)
    }
}

/// A visitor that collects runs as iovecs, merging neighbours.
struct Gather<'a> {
    base: *mut u8,
    out: &'a mut [IoVec],
    n: usize,
    left: usize,
}

impl Visit for Gather<'_> {
    #[inline]
    fn run(&mut self, off: isize, len: usize) -> ControlFlow<()> {
        let ptr = self.base.wrapping_offset(off);
        let len = len.min(self.left);
        match self.n.checked_sub(1).map(|i| &mut self.out[i]) {
            Some(last) if core::ptr::eq(last.base.wrapping_add(last.len), ptr) => last.len += len,
            _ => {
                let Some(slot) = self.out.get_mut(self.n) else {
                    return ControlFlow::Break(());
                };
                *slot = IoVec { base: ptr, len };
                self.n += 1;
            }
        }
        self.left -= len;
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

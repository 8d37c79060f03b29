//! The memory of windows: runs of addresses that this process may access.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use std::sync::Arc;

use ch3_shim::shared_memory::{AttachError, Extent, PeerMemory, SharedMemory};
use netmod_core::buf::IoVec;
use netmod_core::copy::copy_within;
use netmod_core::{Datatype as Layout, RmaBuf, RxBytes, Segment, StoreKind};

use crate::datatype::Buf;
use crate::error::{Class, MpiError, Result};

/// Memory that processes of the node share.
pub(super) type SharedParts = Arc<[Arc<SharedMemory>]>;

/// Bytes that are copied at once between two scattered places.
const PIECE: usize = 16 << 10;

/// A run of memory of a window.
///
/// It is made of memory that the program lends to a window until that is freed, or that the window
/// itself has allocated. Other processes and threads may access it at the same time, which MPI's
/// rules for conflicting accesses allow or forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    base: *mut u8,
    len: u64,
}

// SAFETY: it is an address and a number; nothing about the memory depends on threads.
unsafe impl Send for Span {}

// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// No memory.
    pub(super) const EMPTY: Span = Span { base: ptr::null_mut(), len: 0 };

    /// Describes the memory of a buffer of bytes, which the program lends to a window by it.
    pub(super) fn of_program(memory: &Buf, len: u64) -> Span {
        Span { base: memory.base(), len }
    }

    /// Describes bytes of shared memory. Who uses the span keeps the memory.
    ///
    /// # Panics
    /// If they are not all within it.
    pub(super) fn of_shared(memory: &SharedMemory, at: usize, len: usize) -> Span {
        Span { base: memory.at(at, len), len: len as u64 }
    }

    /// Describes memory of another process, at an address there. It is nothing here: only the
    /// kernel uses it, for that process ([`exchange`]).
    pub(super) fn elsewhere(at: u64, len: u64) -> Span {
        Span { base: ptr::without_provenance_mut(at as usize), len }
    }

    /// Returns the address as a number.
    pub(super) fn address(&self) -> usize {
        self.base.expose_provenance()
    }

    /// Lends the memory to the network until the window has concealed it.
    pub(super) fn lent(&self) -> RmaBuf {
        // SAFETY: the memory is the program's, lent to the window until that is freed, or the
        // window's own. `Window::conceal` precedes the end of both; a device that ends takes it
        // back before the windows are dropped. Who else accesses it meanwhile keeps MPI's rules
        // for conflicting accesses, or gets values that MPI does not define.
        unsafe { RmaBuf::new(self.base, self.len as usize) }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if an address is within it.
    pub(super) fn holds(&self, address: i64) -> bool {
        let at = (address as u64).wrapping_sub(self.base.addr() as u64);
        at < self.len
    }

    /// Returns the memory of both if one of them follows the other.
    pub(super) fn joined(&self, other: &Span) -> Option<Span> {
        let end = |span: &Span| span.base.addr() as u64 + span.len;
        let base = match (other.len > 0, end(self) == other.base.addr() as u64) {
            (true, true) => self.base,
            (true, false) if end(other) == self.base.addr() as u64 => other.base,
            _ => return None,
        };
        Some(Span { base, len: self.len + other.len })
    }

    /// Returns true if both have a byte in common.
    pub(super) fn meets(&self, other: &Span) -> bool {
        let (a, b) = (self.base.addr() as u128, other.base.addr() as u128);
        a < b + u128::from(other.len) && b < a + u128::from(self.len)
    }

    /// Returns `len` bytes from `at` on.
    ///
    /// # Errors
    /// [`Class::RMA_RANGE`] if they are not all within it.
    #[inline]
    pub(super) fn run(&self, at: i64, len: usize) -> Result<Segment> {
        let (first, len_wide) = (i128::from(at), len as i128);
        check(self.len, first, first + len_wide)?;
        // SAFETY: the bytes are within the span, by the check.
        Ok(unsafe { Segment::contig(self.base.wrapping_add(at as usize), len) })
    }

    /// Returns the address of `len` bytes from `at` on, if they are all within it.
    #[inline]
    pub(super) fn element(&self, at: i64, len: usize) -> Option<*mut u8> {
        let at = u64::try_from(at).ok()?;
        (at.checked_add(len as u64)? <= self.len).then(|| self.base.wrapping_add(at as usize))
    }

    /// Returns `count` elements of a layout, the first one at `at`.
    ///
    /// # Errors
    /// [`Class::RMA_RANGE`] if they are not all within it.
    pub(super) fn elements(&self, at: i64, layout: &Arc<Layout>, count: usize) -> Result<Segment> {
        if count == 0 || layout.size() == 0 {
            return Ok(Segment::empty());
        }
        let span = layout.span(count).map_err(|e| MpiError::new(Class::COUNT, e.to_string()))?;
        check(self.len, i128::from(at) + i128::from(span.start), i128::from(at) + i128::from(span.end))?;
        // SAFETY: all bytes of the elements are within the span, by the check; so many exist, since
        // `span` is no error.
        Ok(unsafe { Segment::typed(self.base.wrapping_offset(at as isize), layout, count) })
    }
}

/// Checks that the bytes from `first` to `end` lie within the first `len` ones.
#[inline]
fn check(len: u64, first: i128, end: i128) -> Result<()> {
    if first >= 0 && end <= i128::from(len) { Ok(()) } else { Err(outside(len, first, end)) }
}

#[cold]
fn outside(len: u64, first: i128, end: i128) -> Box<MpiError> {
    let text = format!(
        "the target's bytes {first} to {end} are not within the {len} bytes of its memory in the window; are \
         displacement, count and datatype those of the target?"
    );
    MpiError::new(Class::RMA_RANGE, text)
}

/// Checks that `count` elements of a layout at a place lie within `len` bytes.
///
/// # Errors
/// [`Class::RMA_RANGE`] if not.
pub(super) fn check_elements(len: u64, at: i64, layout: &Layout, count: usize) -> Result<()> {
    if count == 0 || layout.size() == 0 {
        return Ok(());
    }
    let span = layout.span(count).map_err(|e| MpiError::new(Class::COUNT, e.to_string()))?;
    check(len, i128::from(at) + i128::from(span.start), i128::from(at) + i128::from(span.end))
}

/// Copies the data of one place to another: as many bytes as both have.
pub(super) fn copy(from: &mut Segment, to: &mut Segment) {
    match (from.as_contig(), to.as_contig()) {
        (Some((source, n)), Some((target, room))) => {
            // SAFETY: both are lent to the operation, and have so many bytes. They may overlap.
            unsafe { copy_within(source, target, n.min(room)) };
        }
        (None, Some((target, room))) => {
            // SAFETY: the room is lent to the operation; MPI forbids that both overlap.
            unsafe { from.pack_raw(target, room, StoreKind::Cached) };
        }
        (Some((source, n)), None) => {
            let Some(source) = NonNull::new(source) else { return };
            // SAFETY: so many bytes are lent to the operation.
            to.unpack(unsafe { RxBytes::from_raw(source, n) });
        }
        (None, None) => copy_in_pieces(from, to),
    }
}

fn copy_in_pieces(from: &mut Segment, to: &mut Segment) {
    let mut near = [const { MaybeUninit::<u8>::uninit() }; PIECE];
    let place = near.as_mut_ptr().cast::<u8>();
    let Some(start) = NonNull::new(place) else { return };
    while !from.is_done() && !to.is_done() {
        // SAFETY: the piece is of this frame, and has room for so many bytes.
        let n = unsafe { from.pack_raw(place, PIECE, StoreKind::Cached) };
        // SAFETY: so many bytes were written above.
        to.unpack(unsafe { RxBytes::from_raw(start, n) });
    }
}

/// Pieces of another process's memory that one call of the kernel is on.
const PIECES: usize = 32;

/// A copy between this process's memory and another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Out of the other.
    Read,
    /// Into the other.
    Write,
}

/// Copies between a place here and one of another process, as many bytes as both have.
///
/// # Errors
/// [`Class::PROC_FAILED`] if the process is there no more; [`Class::RMA_RANGE`] if its memory is
/// not.
pub(super) fn exchange(peer: &PeerMemory, way: Way, here: &mut Segment, there: &mut Segment) -> Result<()> {
    while !here.is_done() && !there.is_done() {
        let (mut pieces, mut extents) = ([IoVec::EMPTY; PIECES], [Extent { at: 0, len: 0 }; PIECES]);
        let (n, _) = there.next_iovecs(usize::MAX, &mut pieces);
        for (extent, piece) in extents.iter_mut().zip(&pieces[..n]) {
            *extent = Extent { at: piece.base.addr() as u64, len: piece.len };
        }
        let moved = match way {
            Way::Read => peer.read(here, &extents[..n]),
            Way::Write => peer.write(here, &extents[..n]),
        };
        match moved {
            Ok(0) => return Err(unreachable_memory("the kernel has copied nothing")),
            Ok(moved) => there.advance(moved),
            Err(AttachError::Forbidden { error, .. }) if error.raw_os_error() == Some(libc::EFAULT) => {
                return Err(unreachable_memory("it is not there, or may not be written"));
            }
            Err(e) => return Err(MpiError::new(Class::PROC_FAILED, format!("a target of the window: {e}"))),
        }
    }
    Ok(())
}

#[cold]
fn unreachable_memory(why: &str) -> Box<MpiError> {
    MpiError::new(Class::RMA_RANGE, format!("memory of a target: {why}; is it what the window was made of?"))
}

/// Runs `f` on the data of a place, which is copied if it is scattered.
pub(super) fn with_bytes<T>(from: Segment, f: impl FnOnce(&[u8]) -> T) -> T {
    match from.as_contig() {
        Some((_, 0)) => f(&[]),
        // SAFETY: the memory is lent to the operation, in which nobody writes to it.
        Some((at, len)) => f(unsafe { slice::from_raw_parts(at, len) }),
        None => f(&packed(from)),
    }
}

/// Returns a copy of the data of a place.
pub(super) fn packed(mut from: Segment) -> Vec<u8> {
    let mut data = Vec::new();
    from.pack_vec(from.remaining(), &mut data);
    data
}

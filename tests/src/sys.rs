//! Raw memory of the tests: receive buffers on loan, direct receives, memory lent to raw requests,
//! and an allocator that counts.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use netmod_core::{Core, Datatype, IoVec, RmaBuf, RxBuf, Segment, VcId};

/// The byte that overwrites returned receive memory, so that late readers are noticed.
const POISON: u8 = 0xDB;

/// Receive memory: pieces of it are on loan to the engine until they are given back.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    len: usize,
    used: usize,
    lent: u64,
}

// SAFETY: the arena owns its memory, and hands out addresses under the contract of
// `netmod_core::buf`.
unsafe impl Send for Arena {}

impl Arena {
    /// An arena of `len` bytes.
    pub fn new(len: usize) -> Arena {
        let memory = Box::leak(vec![POISON; len].into_boxed_slice());
        Arena { base: NonNull::from(memory).cast(), len, used: 0, lent: 0 }
    }

    /// Bytes that can still be lent.
    pub fn room(&self) -> usize {
        self.len - self.used
    }

    /// Copies bytes into the arena and lends them.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn lend(&mut self, parts: [&[u8]; 2]) -> RxBuf {
        let n = parts[0].len() + parts[1].len();
        assert!(n <= self.room(), "the arena is full");
        let at = self.used;
        let mut to = at;
        for part in parts {
            // SAFETY: `to + part.len() <= used + n <= len`; the part beyond `used` is not on loan,
            // and no slice of the caller's lies in the arena, of which no reference is ever made.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), self.base.as_ptr().add(to), part.len()) };
            to += part.len();
        }
        self.used = to;
        self.lent += 1;
        // SAFETY: the bytes are initialised, stay where they are until all loans have been
        // returned, and are not written before that.
        unsafe { RxBuf::new(self.base.add(at), n, at as u64) }
    }

    /// Takes a loan back.
    ///
    /// # Panics
    /// If nothing is on loan.
    pub fn give_back(&mut self, buf: RxBuf) {
        let at = usize::try_from(buf.token()).unwrap_or(usize::MAX);
        assert!(self.lent > 0 && at < self.len.max(1), "a buffer that was not lent, or is given back twice");
        self.lent -= 1;
        if self.lent == 0 {
            // SAFETY: `used <= len` bytes of our own, none of them on loan any more.
            unsafe { ptr::write_bytes(self.base.as_ptr(), POISON, self.used) };
            self.used = 0;
        }
    }

    /// Pieces that are on loan.
    pub fn lent(&self) -> u64 {
        self.lent
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.lent == 0 {
            let memory = ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len);
            // SAFETY: the box that `new` leaked, and nothing of it is on loan.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

/// Result of a direct receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Bytes that went into the receive.
    pub taken: usize,
    /// True if that was its end: `RecvDone` must be pushed.
    pub done: bool,
    /// True if the receive's target was filled to its end, so that later bytes may be delivered
    /// after it.
    pub filled: bool,
}

/// Writes as much of `src` into the active receive of a VC as has room there. `None` if no receive
/// is active.
pub fn receive_direct(core: &mut Core, vc: VcId, src: [&[u8]; 2]) -> Option<Direct> {
    let mut iov = [IoVec::EMPTY; 64];
    let target = core.recv_target(vc, &mut iov);
    if target.bytes == 0 {
        return None;
    }
    let mut pieces = iov[..target.pieces].iter().copied();
    let mut piece = IoVec::EMPTY;
    let mut taken = 0;
    for mut part in src {
        while !part.is_empty() {
            if piece.len == 0 {
                match pieces.next() {
                    Some(p) => piece = p,
                    None => break,
                }
            }
            let n = piece.len.min(part.len());
            // SAFETY: the core says that `piece.len` bytes at `piece.base` are memory of the active
            // receive, which is lent for writing and which nobody else touches.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), piece.base, n) };
            piece = IoVec { base: piece.base.wrapping_add(n), len: piece.len - n };
            part = &part[n..];
            taken += n;
        }
    }
    let done = core.recv_advance(vc, taken);
    Some(Direct { taken, done, filled: target.whole && taken == target.bytes })
}

/// Memory for raw requests. It is never freed, and only ever reached by its address, so that a
/// request may keep using it whatever becomes of the test.
#[derive(Debug)]
pub struct Area {
    base: *mut u8,
    len: usize,
}

impl Area {
    /// Memory with these bytes.
    pub fn new(bytes: Vec<u8>) -> Area {
        let memory: &'static mut [u8] = Vec::leak(bytes);
        Area { base: memory.as_mut_ptr(), len: memory.len() }
    }

    /// A copy of it all. Ask only when no receive into it is under way.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        // SAFETY: `len` bytes that live for ever; the device writes to them on this thread only (an
        // area is not `Send`), so not now.
        unsafe { ptr::copy_nonoverlapping(self.base, out.as_mut_ptr(), self.len) };
        out
    }

    /// Overwrites it all with one byte. Only when no request uses it.
    pub fn fill(&mut self, byte: u8) {
        // SAFETY: as in `bytes`.
        unsafe { ptr::write_bytes(self.base, byte, self.len) };
    }

    /// All of it, as a segment for a raw request.
    pub fn contig(&self) -> Segment {
        // SAFETY: the memory lives for ever; `bytes` and `fill` are not called meanwhile.
        unsafe { Segment::contig(self.base, self.len) }
    }

    /// A part of it, as a segment for a raw request.
    ///
    /// # Panics
    /// If it reaches beyond the area.
    pub fn part(&self, at: usize, len: usize) -> Segment {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.len),
            "{len} bytes at {at} of {}",
            self.len
        );
        // SAFETY: within the area, and for the rest see `contig`.
        unsafe { Segment::contig(self.base.wrapping_add(at), len) }
    }

    /// All of it, to be exposed.
    pub fn rma_buf(&self) -> RmaBuf {
        // SAFETY: the memory lives for ever; `bytes` and `fill` are not called while it is exposed.
        unsafe { RmaBuf::new(self.base, self.len) }
    }

    /// `count` elements of a datatype from offset `at` on.
    ///
    /// # Panics
    /// If they reach beyond the area.
    pub fn typed(&self, at: usize, ty: &Arc<Datatype>, count: usize) -> Segment {
        let span = ty.span(count).expect("elements that an address space can hold");
        let at_i = i64::try_from(at).expect("an offset");
        let fits = at_i + span.start >= 0 && at_i + span.end <= self.len as i64;
        assert!(fits, "{count} elements of {ty:?} at {at} do not fit into {} bytes", self.len);
        // SAFETY: all elements lie within the area, and for the rest see `contig`.
        unsafe { Segment::typed(self.base.wrapping_add(at), ty, count) }
    }
}

/// The system's allocator, which counts what each thread asks of it. For `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// Requests of one thread to [`Counting`] since a [`count_from_here`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Blocks asked for, reallocations included.
    pub blocks: u64,
    /// The most bytes held at once, less those held at the start.
    pub peak: i64,
    held: i64,
}

thread_local! {
    static COUNT: Cell<Allocations> = const { Cell::new(Allocations { blocks: 0, peak: 0, held: 0 }) };
}

/// Starts to count for this thread.
pub fn count_from_here() {
    COUNT.set(Allocations::default());
}

/// Returns what this thread has allocated since [`count_from_here`].
pub fn counted() -> Allocations {
    COUNT.get()
}

fn count(blocks: u64, bytes: i64) {
    // A thread that is ending has nothing to count in.
    let _ = COUNT.try_with(|c| {
        let mut a = c.get();
        a.blocks += blocks;
        a.held += bytes;
        a.peak = a.peak.max(a.held);
        c.set(a);
    });
}

// SAFETY: everything is passed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Bytes that `malloc` has given out in this process, to Rust and to libraries, and that were not
/// freed; 0 where the C library does not say.
pub fn allocated() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call only counts, under the allocator's own locks.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks + info.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

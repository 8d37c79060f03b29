//! Accumulations: the elements of a window's memory combined with those of an origin.
//!
//! Elements of 1, 2, 4 or 8 bytes at a place of their alignment are changed by the processor's
//! atomic operations, one by one, if they are few. All others (many at once, pairs, complex and
//! long numbers, elements at odd places) are changed while nobody else changes the memory.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use netmod_core::buf::IoVec;
use netmod_core::{RxBytes, Segment};

use super::memory::Span;
use crate::datatype::Buf;
use crate::datatype::basic::{Basic, Kind, Repr};
use crate::error::{Class, MpiError, Result};
use crate::op::{Builtin, Kernel, kernel};

/// Longest predefined type in bytes, with its gaps.
const LONGEST: usize = 32;
/// Bytes of the shortest elements that are changed one by one if there are several. Shorter ones
/// are mostly those of an object, which programs expect to change as a whole.
const LEAST: usize = 4;
/// Runs of the target that are looked up at once.
const RUNS: usize = 32;
/// Bytes that are changed at once while the memory is locked, so that others get their turn.
const PIECE: usize = 256 << 10;

/// The means by which accumulations on the memory of one process exclude each other.
pub(super) trait Exclusion {
    /// Longest accumulation in bytes that takes less time by atomic operations than alone.
    fn short_bytes(&self) -> usize;

    /// Waits until elements may be changed by the processor's atomic operations.
    ///
    /// # Errors
    /// If the process that has the memory alone is lost, and it cannot be taken over.
    fn begin_short(&mut self) -> Result<()>;

    /// Ends what [`Exclusion::begin_short`] has begun.
    fn end_short(&mut self);

    /// Waits for the memory alone.
    ///
    /// # Errors
    /// As [`Exclusion::begin_short`].
    fn lock(&mut self) -> Result<()>;

    /// Gives the memory back.
    fn unlock(&mut self);
}

/// No exclusion: nobody else changes the memory at the same time.
pub(super) struct NoLock;

impl Exclusion for NoLock {
    fn short_bytes(&self) -> usize {
        0
    }

    fn begin_short(&mut self) -> Result<()> {
        Ok(())
    }

    fn end_short(&mut self) {}

    fn lock(&mut self) -> Result<()> {
        Ok(())
    }

    fn unlock(&mut self) {}
}

/// The place for what was there before.
pub(super) enum Old<'a> {
    /// Nobody asks for it.
    Dropped,
    /// It is appended to bytes.
    Bytes(&'a mut Vec<u8>),
    /// It is the program's buffer.
    Room(&'a mut Segment),
}

impl Old<'_> {
    fn take(&mut self, bytes: &[u8]) {
        match self {
            Old::Dropped => {}
            Old::Bytes(all) => all.extend_from_slice(bytes),
            Old::Room(room) => _ = room.unpack(RxBytes::from_slice(bytes)),
        }
    }
}

/// The change of an element.
#[derive(Clone, Copy)]
enum Change {
    Replace,
    Keep,
    /// A sum of integers.
    Add,
    Combine(Kernel),
}

/// An operation on the elements of one predefined type.
#[derive(Clone, Copy)]
pub(super) struct Accumulation {
    basic: &'static Basic,
    op: Builtin,
    change: Change,
}

fn is_integer(basic: &Basic) -> bool {
    matches!(
        basic.repr,
        Repr::I8 | Repr::I16 | Repr::I32 | Repr::I64 | Repr::U8 | Repr::U16 | Repr::U32 | Repr::U64
    )
}

impl Accumulation {
    /// Prepares an operation on elements of a type.
    ///
    /// # Errors
    /// [`Class::OP`] if MPI does not allow it on the type.
    #[inline]
    pub(super) fn new(op: Builtin, basic: &'static Basic) -> Result<Accumulation> {
        let change = match op {
            Builtin::Replace => Change::Replace,
            Builtin::NoOp => Change::Keep,
            Builtin::Sum if is_integer(basic) && op.takes(basic.kind) => Change::Add,
            _ => Change::Combine(kernel(op, basic)?),
        };
        Ok(Accumulation { basic, op, change })
    }

    /// The predefined type of the elements.
    pub(super) fn basic(&self) -> &'static Basic {
        self.basic
    }

    /// The operation.
    pub(super) fn op(&self) -> Builtin {
        self.op
    }

    /// Returns true if the target's elements stay as they are.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.change, Change::Keep)
    }

    /// Returns true if an element at an address is changed by the processor's atomic operations.
    #[inline]
    fn is_atomic(&self, at: *mut u8) -> bool {
        let size = self.basic.size;
        matches!(size, 1 | 2 | 4 | 8)
            && !matches!(self.basic.kind, Kind::Pair | Kind::Complex)
            && at.addr().is_multiple_of(size)
    }

    /// Returns true if the elements of a place are of so few bytes, and changed by atomic
    /// operations.
    #[inline]
    fn is_short(&self, target: &Segment, bytes: usize) -> bool {
        let is_one = target.remaining() == self.basic.size;
        let is_few = target.remaining() <= bytes && (is_one || self.basic.size >= LEAST);
        if let Some((at, len)) = target.as_contig() {
            return is_few && len > 0 && self.is_atomic(at);
        }
        let mut runs = [IoVec::EMPTY; RUNS];
        let (n, bytes) = if is_few { target.next_iovecs(usize::MAX, &mut runs) } else { (0, 0) };
        n > 0 && bytes == target.remaining() && runs[..n].iter().all(|run| self.is_atomic(run.base))
    }

    /// Changes the elements of a place, and leaves what was there in `old`.
    ///
    /// # Errors
    /// As [`Exclusion::lock`].
    pub(super) fn run(
        &self,
        target: &mut Segment,
        mut operand: &[u8],
        mut old: Old<'_>,
        exclusion: &mut impl Exclusion,
    ) -> Result<()> {
        if self.basic.size == 0 {
            return Ok(());
        }
        if self.is_short(target, exclusion.short_bytes()) {
            exclusion.begin_short()?;
            self.each(target, &mut operand, &mut old);
            exclusion.end_short();
            return Ok(());
        }
        while target.remaining() >= self.basic.size {
            exclusion.lock()?;
            let moved = self.alone(target, &mut operand, &mut old);
            exclusion.unlock();
            if moved == 0 {
                break;
            }
            target.advance(moved);
        }
        Ok(())
    }

    /// Changes a few elements by atomic operations.
    fn each(&self, target: &Segment, operand: &mut &[u8], old: &mut Old<'_>) {
        let (size, mut runs) = (self.basic.size, [IoVec::EMPTY; RUNS]);
        let (n, _) = target.next_iovecs(usize::MAX, &mut runs);
        for run in &runs[..n] {
            for i in 0..run.len / size {
                let (part, behind) = operand.split_at(size.min(operand.len()));
                *operand = behind;
                // SAFETY: the element is within the target's memory, at a place of its alignment.
                let was = unsafe { self.element(run.base.wrapping_add(i * size), part) };
                old.take(&was[..size]);
            }
        }
    }

    /// Changes elements of memory that nobody else changes at the same time, as many as are changed
    /// at once; returns their bytes.
    fn alone(&self, target: &Segment, operand: &mut &[u8], old: &mut Old<'_>) -> usize {
        let (size, mut runs) = (self.basic.size, [IoVec::EMPTY; RUNS]);
        let (n, bytes) = target.next_iovecs(PIECE / size * size, &mut runs);
        if self.basic.extent() != size {
            // An element with a gap lies in two runs, or begins in the middle of one.
            let (part, behind) = operand.split_at(size.min(operand.len()));
            *operand = behind;
            // SAFETY: the element is within the target's memory.
            unsafe { self.element_with_gap(runs[0].base, part, old) };
            return size;
        }
        for run in &runs[..n] {
            // SAFETY: the run is memory of the window, which only this thread changes.
            let memory = unsafe { core::slice::from_raw_parts_mut(run.base, run.len) };
            old.take(memory);
            let (part, behind) = operand.split_at(run.len.min(operand.len()));
            *operand = behind;
            let memory = &mut memory[..part.len()];
            match self.change {
                Change::Keep => {}
                Change::Replace => memory.copy_from_slice(part),
                Change::Add => self.sum(part, memory),
                Change::Combine(kernel) => kernel.combine(part, memory),
            }
        }
        bytes
    }

    /// Adds elements to others.
    fn sum(&self, part: &[u8], memory: &mut [u8]) {
        // The type has sums, or the change would be none.
        if let Ok(sum) = kernel(Builtin::Sum, self.basic) {
            sum.combine(part, memory);
        }
    }

    /// Changes one element by an atomic operation; returns what was there.
    ///
    /// # Safety
    /// The element at `at` must be memory, at a place of its alignment.
    #[inline]
    unsafe fn element(&self, at: *mut u8, operand: &[u8]) -> [u8; 8] {
        let mut was = [0; 8];
        // SAFETY: the caller's memory.
        unsafe {
            match self.basic.size {
                1 => was[..1].copy_from_slice(&change_u8(at, operand, self.change)),
                2 => was[..2].copy_from_slice(&change_u16(at, operand, self.change)),
                4 => was[..4].copy_from_slice(&change_u32(at, operand, self.change)),
                _ => was = change_u64(at, operand, self.change),
            }
        }
        was
    }

    /// Changes one element that has a gap, whose memory nobody else changes.
    ///
    /// # Safety
    /// The element at `at` must be memory.
    unsafe fn element_with_gap(&self, at: *mut u8, operand: &[u8], old: &mut Old<'_>) {
        let (basic, mut own) = (self.basic, [0; LONGEST]);
        let extent = basic.extent();
        for part in parts(basic) {
            // SAFETY: the parts of the element are the caller's memory.
            unsafe {
                ptr::copy_nonoverlapping(at.wrapping_add(part.at), own[part.at..].as_mut_ptr(), part.len)
            };
        }
        parts(basic).for_each(|part| old.take(&own[part.at..part.at + part.len]));
        let mut other = [0; LONGEST];
        for part in parts(basic) {
            let Some(bytes) = operand.get(part.packed..part.packed + part.len) else { return };
            other[part.at..part.at + part.len].copy_from_slice(bytes);
        }
        match self.change {
            Change::Keep => return,
            Change::Replace => own = other,
            Change::Add => self.sum(&other[..extent], &mut own[..extent]),
            Change::Combine(kernel) => kernel.combine(&other[..extent], &mut own[..extent]),
        }
        for part in parts(basic) {
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(own[part.at..].as_ptr(), at.wrapping_add(part.at), part.len) };
        }
    }

    /// Changes a single element at a place of a target's memory by an atomic operation, and fetches
    /// what was there: the buffers have one element of the type. Returns false if that is not
    /// possible: then nothing was done.
    ///
    /// # Errors
    /// As [`Exclusion::begin_short`].
    #[inline]
    pub(super) fn quick(
        &self,
        (memory, place): (&Span, i64),
        [origin, result]: [&Buf; 2],
        exclusion: &mut impl Exclusion,
    ) -> Result<bool> {
        let size = self.basic.size;
        let (Some(at), Some(to)) = (memory.element(place, size), result.address()) else { return Ok(false) };
        let from = if self.only_reads() { Some(to) } else { origin.address() };
        let Some(from) = from.filter(|_| self.is_atomic(at)) else { return Ok(false) };
        exclusion.begin_short()?;
        // SAFETY: the element is within the target's memory, and aligned; each buffer has one.
        unsafe {
            let was = self.element(at, core::slice::from_raw_parts(from, size));
            ptr::copy_nonoverlapping(was.as_ptr(), to, size);
        }
        exclusion.end_short();
        Ok(true)
    }

    /// Changes a single element that the processor has atomic operations for, and fetches what was
    /// there. Returns false if it is no such element: then nothing was done.
    ///
    /// # Errors
    /// As [`Exclusion::begin_short`].
    #[inline]
    pub(super) fn one(
        &self,
        target: &Segment,
        operand: &Segment,
        result: &Segment,
        exclusion: &mut impl Exclusion,
    ) -> Result<bool> {
        let size = self.basic.size;
        let (Some((at, n)), Some((from, m)), Some((to, room))) =
            (target.as_contig(), operand.as_contig(), result.as_contig())
        else {
            return Ok(false);
        };
        if n != size || room != size || !self.is_atomic(at) || m != size && !self.only_reads() {
            return Ok(false);
        }
        exclusion.begin_short()?;
        // SAFETY: all three have the bytes of an element; the target's place is aligned.
        unsafe {
            let operand = if m == 0 { &[][..] } else { core::slice::from_raw_parts(from, m) };
            let was = self.element(at, operand);
            ptr::copy_nonoverlapping(was.as_ptr(), to, size);
        }
        exclusion.end_short();
        Ok(true)
    }
}

/// A part of an element: its place there, its bytes, and its place in packed data.
struct Part {
    at: usize,
    len: usize,
    packed: usize,
}

/// Returns the parts of an element, between which there may be gaps.
fn parts(basic: &Basic) -> impl Iterator<Item = Part> {
    let both = match basic.pair() {
        Some(pair) => [
            Part { at: 0, len: pair.first, packed: 0 },
            Part { at: pair.at, len: pair.second, packed: pair.first },
        ],
        None => [Part { at: 0, len: basic.size, packed: 0 }, Part { at: 0, len: 0, packed: 0 }],
    };
    both.into_iter().filter(|part| part.len > 0)
}

/// Writes the change of an element by the atomic operations of one width.
macro_rules! changes {
    ($($name:ident $swap:ident $atomic:ident $int:ty;)*) => {$(
        /// Changes an element, and returns what was there.
        ///
        /// # Safety
        /// `at` is aligned memory of an element; the operand has its bytes, or there is none.
        #[inline]
        unsafe fn $name(at: *mut u8, operand: &[u8], change: Change) -> [u8; size_of::<$int>()] {
            // SAFETY: as the caller promises; all who access it at the same time do it atomically.
            let element = unsafe { $atomic::from_ptr(at.cast()) };
            let bytes = operand.first_chunk().copied().unwrap_or_default();
            let was = match change {
                Change::Keep => element.load(Ordering::Acquire),
                Change::Replace => element.swap(<$int>::from_ne_bytes(bytes), Ordering::AcqRel),
                Change::Add => element.fetch_add(<$int>::from_ne_bytes(bytes), Ordering::AcqRel),
                Change::Combine(kernel) => {
                    let mut was = element.load(Ordering::Relaxed);
                    loop {
                        let mut new = was.to_ne_bytes();
                        kernel.combine(&bytes, &mut new);
                        let new = <$int>::from_ne_bytes(new);
                        match element.compare_exchange_weak(was, new, Ordering::AcqRel, Ordering::Relaxed) {
                            Ok(_) => break was,
                            Err(now) => was = now,
                        }
                    }
                }
            };
            was.to_ne_bytes()
        }

        /// Sets an element to another value if it has the expected one; returns what was there.
        ///
        /// # Safety
        /// As above; both values have the element's bytes.
        #[inline]
        unsafe fn $swap(at: *mut u8, expected: &[u8], new: &[u8]) -> [u8; size_of::<$int>()] {
            // SAFETY: as above.
            let element = unsafe { $atomic::from_ptr(at.cast()) };
            let value = |bytes: &[u8]| <$int>::from_ne_bytes(bytes.first_chunk().copied().unwrap_or_default());
            let done = element.compare_exchange(value(expected), value(new), Ordering::AcqRel, Ordering::Acquire);
            done.unwrap_or_else(|was| was).to_ne_bytes()
        }
    )*};
}

changes! {
    change_u8 swap_u8 AtomicU8 u8;
    change_u16 swap_u16 AtomicU16 u16;
    change_u32 swap_u32 AtomicU32 u32;
    change_u64 swap_u64 AtomicU64 u64;
}

/// Sets an element to `new` if it equals `expected`; returns what was there.
///
/// # Errors
/// As [`Exclusion::lock`].
pub(super) fn compare_and_swap(
    basic: &Basic,
    target: &Segment,
    expected: &[u8],
    new: &[u8],
    exclusion: &mut impl Exclusion,
) -> Result<Element> {
    let size = basic.size;
    let mut was = [0; LONGEST];
    let Some((at, n)) = target.as_contig() else { return Ok(Element { bytes: was, len: 0 }) };
    if n != size || expected.len() != size || new.len() != size {
        return Err(MpiError::new(Class::INTERN, "an element of another size is to be swapped"));
    }
    let is_atomic = matches!(size, 1 | 2 | 4 | 8) && at.addr().is_multiple_of(size);
    if is_atomic {
        exclusion.begin_short()?
    } else {
        exclusion.lock()?
    }
    // SAFETY: the element is lent to the operation, and both values have its bytes.
    unsafe {
        match size {
            1 => was[..1].copy_from_slice(&swap_u8(at, expected, new)),
            2 if is_atomic => was[..2].copy_from_slice(&swap_u16(at, expected, new)),
            4 if is_atomic => was[..4].copy_from_slice(&swap_u32(at, expected, new)),
            8 if is_atomic => was[..8].copy_from_slice(&swap_u64(at, expected, new)),
            _ => {
                ptr::copy_nonoverlapping(at, was.as_mut_ptr(), size);
                if was[..size] == *expected {
                    ptr::copy_nonoverlapping(new.as_ptr(), at, size);
                }
            }
        }
    }
    if is_atomic {
        exclusion.end_short()
    } else {
        exclusion.unlock()
    }
    Ok(Element { bytes: was, len: size })
}

/// The bytes of an element.
pub(super) struct Element {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Element {
    /// Returns them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

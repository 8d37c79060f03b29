//! Accumulations: the elements of a window's memory combined with those of an origin.
//!
//! Elements of 1, 2, 4 or 8 bytes at a place of their alignment are changed by the processor's
//! atomic operations, one by one. All others (pairs, complex and long numbers, elements at odd
//! places) are changed under a lock of the memory. The type and the place of an element decide, so
//! all who access it at the same time choose alike.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use netmod_core::Segment;
use netmod_core::buf::IoVec;

use crate::datatype::basic::{Basic, Kind, Repr};
use crate::error::{Class, MpiError, Result};
use crate::op::{Builtin, Kernel, kernel};

/// Longest predefined type in bytes, with its gaps.
const LONGEST: usize = 32;
/// Runs of the target that are looked up at once.
const RUNS: usize = 32;

/// The lock of memory for elements that the processor has no atomic operation for.
pub(super) trait Exclusion {
    /// Waits for the lock.
    ///
    /// # Errors
    /// If its holder is lost and the lock cannot be taken over.
    fn lock(&mut self) -> Result<()>;

    /// Gives the lock back.
    fn unlock(&mut self);
}

/// No lock: nobody else changes the memory at the same time.
pub(super) struct NoLock;

impl Exclusion for NoLock {
    fn lock(&mut self) -> Result<()> {
        Ok(())
    }

    fn unlock(&mut self) {}
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

    /// Changes the elements of a place, and appends what was there to `old`.
    ///
    /// # Errors
    /// As [`Exclusion::lock`].
    pub(super) fn run(
        &self,
        target: &mut Segment,
        operand: &[u8],
        mut old: Option<&mut Vec<u8>>,
        exclusion: &mut impl Exclusion,
    ) -> Result<()> {
        let size = self.basic.size;
        if size == 0 {
            return Ok(());
        }
        let mut operands = operand.chunks_exact(size);
        let mut runs = [IoVec::EMPTY; RUNS];
        let mut is_locked = false;
        while target.remaining() >= size {
            let (n, _) = target.next_iovecs(usize::MAX, &mut runs);
            let mut moved = 0;
            for run in &runs[..n] {
                // An element with a gap lies in two runs, or begins in the middle of one: those are
                // done one by one.
                let has_gap = self.basic.extent() != size;
                let count = if has_gap { 1 } else { run.len / size };
                for i in 0..count {
                    let at = run.base.wrapping_add(i * size);
                    let operand = operands.next().unwrap_or(&[]);
                    if !self.is_atomic(at) && !is_locked {
                        exclusion.lock()?;
                        is_locked = true;
                    }
                    // SAFETY: the element is within the target's memory.
                    unsafe { self.element(at, operand, old.as_deref_mut()) };
                }
                moved += count * size;
                if has_gap || count * size < run.len {
                    break;
                }
            }
            if moved == 0 {
                break;
            }
            target.advance(moved);
        }
        if is_locked {
            exclusion.unlock();
        }
        Ok(())
    }

    /// Changes the elements of memory that nobody else changes at the same time, and appends what
    /// was there to `old`.
    pub(super) fn run_alone(&self, target: &mut Segment, operand: &[u8], mut old: Option<&mut Vec<u8>>) {
        let size = self.basic.size;
        if self.basic.extent() != size || size == 0 {
            // Elements with gaps are few, and done one by one: nobody waits for the lock.
            let _ = self.run(target, operand, old, &mut NoLock);
            return;
        }
        let mut rest = operand;
        let mut runs = [IoVec::EMPTY; RUNS];
        while target.remaining() >= size {
            let (n, bytes) = target.next_iovecs(usize::MAX, &mut runs);
            for run in &runs[..n] {
                // SAFETY: the run is memory of the window, which only this thread changes.
                let memory = unsafe { core::slice::from_raw_parts_mut(run.base, run.len) };
                if let Some(old) = old.as_deref_mut() {
                    old.extend_from_slice(memory);
                }
                let (part, behind) = rest.split_at(run.len.min(rest.len()));
                rest = behind;
                let memory = &mut memory[..part.len()];
                match self.change {
                    Change::Keep => {}
                    Change::Replace => memory.copy_from_slice(part),
                    Change::Add => self.sum(part, memory),
                    Change::Combine(kernel) => kernel.combine(part, memory),
                }
            }
            target.advance(bytes);
        }
    }

    /// Adds elements to others.
    fn sum(&self, part: &[u8], memory: &mut [u8]) {
        // The type has sums, or the change would be none.
        if let Ok(sum) = kernel(Builtin::Sum, self.basic) {
            sum.combine(part, memory);
        }
    }

    /// Changes one element; its memory is locked unless the change is atomic.
    ///
    /// # Safety
    /// The element at `at` must be memory.
    #[inline]
    unsafe fn element(&self, at: *mut u8, operand: &[u8], old: Option<&mut Vec<u8>>) {
        // SAFETY: the caller's memory, at a place of the type's alignment.
        unsafe {
            if self.is_atomic(at) {
                let mut was = [0; 8];
                let n = self.basic.size;
                match n {
                    1 => was[..1].copy_from_slice(&change_u8(at, operand, self.change)),
                    2 => was[..2].copy_from_slice(&change_u16(at, operand, self.change)),
                    4 => was[..4].copy_from_slice(&change_u32(at, operand, self.change)),
                    _ => was = change_u64(at, operand, self.change),
                }
                if let Some(old) = old {
                    old.extend_from_slice(&was[..n]);
                }
            } else {
                self.element_under_lock(at, operand, old);
            }
        }
    }

    /// Changes one element whose memory is locked.
    ///
    /// # Safety
    /// As for [`Accumulation::element`].
    unsafe fn element_under_lock(&self, at: *mut u8, operand: &[u8], old: Option<&mut Vec<u8>>) {
        let (basic, mut own) = (self.basic, [0; LONGEST]);
        let extent = basic.extent();
        for part in parts(basic) {
            // SAFETY: the parts of the element are the caller's memory.
            unsafe {
                ptr::copy_nonoverlapping(at.wrapping_add(part.at), own[part.at..].as_mut_ptr(), part.len)
            };
        }
        if let Some(old) = old {
            parts(basic).for_each(|part| old.extend_from_slice(&own[part.at..part.at + part.len]));
        }
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

    /// Changes a single element that the processor has atomic operations for, and fetches what was
    /// there. Returns false if it is no such element: then nothing was done.
    #[inline]
    pub(super) fn one(&self, target: &Segment, operand: &Segment, result: &mut Segment) -> bool {
        let size = self.basic.size;
        let (Some((at, n)), Some((from, m)), Some((to, room))) =
            (target.as_contig(), operand.as_contig(), result.as_contig())
        else {
            return false;
        };
        if n != size || room != size || !self.is_atomic(at) || m != size && !self.only_reads() {
            return false;
        }
        // SAFETY: all three have the bytes of an element; the target's place is aligned.
        unsafe {
            let operand = if m == 0 { &[][..] } else { core::slice::from_raw_parts(from, m) };
            match size {
                1 => ptr::copy_nonoverlapping(change_u8(at, operand, self.change).as_ptr(), to, 1),
                2 => ptr::copy_nonoverlapping(change_u16(at, operand, self.change).as_ptr(), to, 2),
                4 => ptr::copy_nonoverlapping(change_u32(at, operand, self.change).as_ptr(), to, 4),
                _ => ptr::copy_nonoverlapping(change_u64(at, operand, self.change).as_ptr(), to, 8),
            }
        }
        true
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
    // SAFETY: the element is lent to the operation, and both values have its bytes.
    unsafe {
        match size {
            1 => was[..1].copy_from_slice(&swap_u8(at, expected, new)),
            2 if at.addr() % 2 == 0 => was[..2].copy_from_slice(&swap_u16(at, expected, new)),
            4 if at.addr() % 4 == 0 => was[..4].copy_from_slice(&swap_u32(at, expected, new)),
            8 if at.addr() % 8 == 0 => was[..8].copy_from_slice(&swap_u64(at, expected, new)),
            _ => {
                exclusion.lock()?;
                ptr::copy_nonoverlapping(at, was.as_mut_ptr(), size);
                if was[..size] == *expected {
                    ptr::copy_nonoverlapping(new.as_ptr(), at, size);
                }
                exclusion.unlock();
            }
        }
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

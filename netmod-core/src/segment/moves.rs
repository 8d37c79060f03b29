//! The moves of programs: loops over blocks between memory and packed bytes.
//!
//! Each loop has a block length that the compiler knows, so that a block is one or two moves. The
//! length is looked at once for a whole loop.

#![allow(unsafe_code)]

use core::array;
use core::ops::ControlFlow;

use super::layout::times;
use super::program::{Element, Grid, Offsets, Piece, Visit};
use crate::apart::opaque;
use crate::copy;

/// The direction from memory to packed bytes.
pub(super) const OUT: bool = false;
/// The direction from packed bytes to memory.
pub(super) const IN: bool = true;

/// Bytes of memory that the elements of one round lie in, about: they stay in the first cache while
/// each of their moves is made.
const ROUND: usize = 16 << 10;
/// Longest runs of which two are made in one loop, in bytes.
const SHORT: usize = 16;
/// Blocks of the longest rows whose length is a constant of their loop.
const ROW: usize = 8;
/// Bytes of a cache line, which columns of a grid share.
const LINE: usize = 64;

/// Copies in the given direction.
///
/// # Safety
///
/// `len` bytes at both must not overlap, and the source of `DIR` must be readable, the other
/// writable.
#[inline(always)]
pub(super) unsafe fn copy<const DIR: bool>(memory: *mut u8, packed: *mut u8, len: usize) {
    let (src, dst) = if DIR == IN { (packed, memory) } else { (memory, packed) };
    // SAFETY: as demanded.
    unsafe { copy::copy(src, dst, len) };
}

/// The moves of a block, whose length is mostly constant.
trait Block: Copy {
    /// # Safety
    ///
    /// As for [`copy`], for the length of the block.
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8);
}

/// Exactly `LEN` bytes.
#[derive(Clone, Copy)]
struct Exactly<const LEN: usize>;

/// A block of `LEN` to `2 * LEN` bytes, copied by two moves that may overlap.
#[derive(Clone, Copy)]
struct Twice<const LEN: usize>(usize);

/// A block of any length.
#[derive(Clone, Copy)]
struct Any(usize);

impl<const LEN: usize> Block for Exactly<LEN> {
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8) {
        // SAFETY: as demanded. A constant length makes this a few moves.
        unsafe { copy::<DIR>(memory, packed, LEN) };
    }
}

impl<const LEN: usize> Block for Twice<LEN> {
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8) {
        let last = self.0 - LEN;
        let (src, dst) = if DIR == IN { (packed, memory) } else { (memory, packed) };
        // SAFETY: the first `LEN` and the last `LEN` of at least `LEN` bytes, as demanded.
        unsafe {
            let (a, b) = (src.cast::<[u8; LEN]>().read(), src.add(last).cast::<[u8; LEN]>().read());
            dst.cast::<[u8; LEN]>().write(a);
            dst.add(last).cast::<[u8; LEN]>().write(b);
        }
    }
}

impl Block for Any {
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8) {
        // SAFETY: as demanded.
        unsafe { copy::<DIR>(memory, packed, self.0) };
    }
}

/// Evaluates an expression with the block of a length.
macro_rules! with_block {
    ($len:expr, $block:ident => $body:expr) => {{
        let len: usize = $len;
        macro_rules! body {
            ($b:expr) => {{
                let $block = $b;
                $body
            }};
        }
        match len {
            8 => body!(Exactly::<8>),
            4 => body!(Exactly::<4>),
            16 => body!(Exactly::<16>),
            1 => body!(Exactly::<1>),
            2 => body!(Exactly::<2>),
            12 => body!(Exactly::<12>),
            24 => body!(Exactly::<24>),
            32 => body!(Exactly::<32>),
            64 => body!(Exactly::<64>),
            3 => body!(Twice::<2>(len)),
            5..=7 => body!(Twice::<4>(len)),
            9..=15 => body!(Twice::<8>(len)),
            17..=31 => body!(Twice::<16>(len)),
            33..=63 => body!(Twice::<32>(len)),
            _ => body!(Any(len)),
        }
    }};
}

/// Evaluates an expression with the block of a length from 1 to [`SHORT`].
macro_rules! with_short {
    ($len:expr, $block:ident => $body:expr) => {{
        let len: usize = $len;
        macro_rules! body {
            ($b:expr) => {{
                let $block = $b;
                $body
            }};
        }
        match len {
            1 => body!(Exactly::<1>),
            2 => body!(Exactly::<2>),
            3 => body!(Twice::<2>(len)),
            4 => body!(Exactly::<4>),
            5..=7 => body!(Twice::<4>(len)),
            8 => body!(Exactly::<8>),
            16 => body!(Exactly::<16>),
            _ => body!(Twice::<8>(len)),
        }
    }};
}

/// Two blocks, the second one at a distance.
#[derive(Clone, Copy)]
struct Both<A, B> {
    first: A,
    second: B,
    memory: isize,
    packed: usize,
}

impl<A: Block, B: Block> Block for Both<A, B> {
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8) {
        // SAFETY: as demanded for both blocks.
        unsafe {
            self.first.copy::<DIR>(memory, packed);
            self.second.copy::<DIR>(memory.wrapping_offset(self.memory), packed.wrapping_add(self.packed));
        }
    }
}

/// `N` blocks at equal distances in memory.
#[derive(Clone, Copy)]
struct Row<const LEN: usize, const N: usize> {
    /// The distances from the first block.
    offsets: [isize; N],
}

impl<const LEN: usize, const N: usize> Row<LEN, N> {
    fn new(stride: isize) -> Row<LEN, N> {
        Row { offsets: array::from_fn(|i| times(stride, i)) }
    }
}

impl<const LEN: usize, const N: usize> Block for Row<LEN, N> {
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, memory: *mut u8, packed: *mut u8) {
        for (i, offset) in self.offsets.into_iter().enumerate() {
            // SAFETY: as demanded for each block.
            unsafe { copy::<DIR>(memory.wrapping_offset(offset), packed.wrapping_add(i * LEN), LEN) };
        }
    }
}

/// A loop's steps in memory and in the packed bytes.
#[derive(Clone, Copy)]
struct Steps {
    count: usize,
    memory: isize,
    packed: usize,
}

impl Steps {
    /// Copies a block in each step.
    ///
    /// # Safety
    ///
    /// As for [`copy`], for each block.
    #[inline(always)]
    unsafe fn copy<const DIR: bool>(self, mut memory: *mut u8, mut packed: *mut u8, block: impl Block) {
        for _ in 0..self.count {
            // SAFETY: as demanded.
            unsafe { block.copy::<DIR>(memory, packed) };
            memory = memory.wrapping_offset(self.memory);
            packed = packed.wrapping_add(self.packed);
        }
    }

    /// Does the same for blocks of several moves.
    ///
    /// Each move is at a distance from two addresses that alone are advanced. A compiler that knew
    /// how would advance an address for each move instead, more than there are registers, or get
    /// each from the one before.
    ///
    /// # Safety
    ///
    /// As for [`copy`], for each block.
    #[inline(always)]
    unsafe fn groups<const DIR: bool>(self, mut memory: *mut u8, mut packed: *mut u8, block: impl Block) {
        for _ in 0..self.count {
            // SAFETY: as demanded.
            unsafe { block.copy::<DIR>(memory, packed) };
            memory = opaque(memory.wrapping_offset(self.memory));
            packed = opaque(packed.wrapping_add(self.packed));
        }
    }

    /// Does the same as [`Steps::copy`] for each step of an outer loop.
    ///
    /// # Safety
    ///
    /// As for [`copy`], for each block.
    #[inline(always)]
    unsafe fn nested<const DIR: bool>(
        self,
        outer: Steps,
        mut memory: *mut u8,
        mut packed: *mut u8,
        block: impl Block,
    ) {
        for _ in 0..outer.count {
            // SAFETY: as demanded.
            unsafe { self.copy::<DIR>(memory, packed, block) };
            memory = memory.wrapping_offset(outer.memory);
            packed = packed.wrapping_add(outer.packed);
        }
    }
}

/// Copies whole rows of a grid.
///
/// # Safety
///
/// As for [`copy`], for each block.
unsafe fn copy_grid<const DIR: bool>(grid: &Grid, rows: usize, memory: *mut u8, packed: *mut u8) {
    let (row, len) = (grid.count * grid.len, grid.len);
    let blocks = Steps { count: grid.count, memory: grid.stride, packed: len };
    let lines = Steps { count: rows, memory: grid.row_stride, packed: row };
    // Rows that share cache lines are copied side by side, so that each line is fetched once.
    let apart = grid.row_stride.unsigned_abs();
    let side_by_side =
        rows >= 4 && (len..=LINE / 4).contains(&apart) && grid.stride.unsigned_abs() >= 4 * LINE;
    // SAFETY: as demanded; the order of the blocks does not matter.
    unsafe {
        if !side_by_side {
            if rows > 1 && (2..=ROW).contains(&grid.count) {
                match len {
                    4 => return copy_rows::<DIR, 4>(grid, lines, memory, packed),
                    8 => return copy_rows::<DIR, 8>(grid, lines, memory, packed),
                    _ => {}
                }
            }
            return with_block!(len, b => blocks.nested::<DIR>(lines, memory, packed, b));
        }
        let step = LINE / apart;
        let mut at = 0;
        while at < rows {
            let few = Steps { count: step.min(rows - at), ..lines };
            let memory = memory.wrapping_offset(grid.row_stride.wrapping_mul(at as isize));
            let packed = packed.wrapping_add(row * at);
            with_block!(len, b => few.nested::<DIR>(blocks, memory, packed, b));
            at += few.count;
        }
    }
}

/// Copies rows of 2 to [`ROW`] blocks.
///
/// # Safety
///
/// As for [`copy`], for each block.
unsafe fn copy_rows<const DIR: bool, const LEN: usize>(
    grid: &Grid,
    lines: Steps,
    memory: *mut u8,
    packed: *mut u8,
) {
    macro_rules! rows {
        ($n:literal) => {
            lines.groups::<DIR>(memory, packed, Row::<LEN, $n>::new(grid.stride))
        };
    }
    // SAFETY: as demanded.
    unsafe {
        match grid.count {
            2 => rows!(2),
            3 => rows!(3),
            4 => rows!(4),
            5 => rows!(5),
            6 => rows!(6),
            7 => rows!(7),
            _ => rows!(8),
        }
    }
}

/// Copies whole elements: one or two of their runs for many elements at once.
///
/// # Safety
///
/// As for [`copy`], for each run of each element.
unsafe fn copy_elements<const DIR: bool>(
    element: &Element,
    count: usize,
    stride: isize,
    memory: *mut u8,
    packed: *mut u8,
) {
    let round = (ROUND / element.size.max(stride.unsigned_abs())).max(8);
    let mut at = 0;
    while at < count {
        let n = round.min(count - at);
        let memory = memory.wrapping_offset(stride.wrapping_mul(at as isize));
        let packed = packed.wrapping_add(element.size * at);
        let steps = Steps { count: n, memory: stride, packed: element.size };
        let mut runs = &element.runs[..];
        while let [run, rest @ ..] = runs {
            let (memory, packed) = (memory.wrapping_offset(run.off), packed.wrapping_add(run.at));
            // SAFETY: as demanded; the order of the runs does not matter.
            unsafe {
                runs = match rest {
                    // Two in one loop: while the one waits for memory, the other goes on.
                    [next, rest @ ..] if run.len <= SHORT && next.len <= SHORT => {
                        copy_pairs::<DIR>(steps, run, next, memory, packed);
                        rest
                    }
                    _ => {
                        with_block!(run.len, b => steps.copy::<DIR>(memory, packed, b));
                        rest
                    }
                };
            }
        }
        at += n;
    }
}

/// Copies two short runs of each element, the first one at `memory` and at `packed`.
///
/// # Safety
///
/// As for [`copy`], for both runs of each element.
unsafe fn copy_pairs<const DIR: bool>(
    steps: Steps,
    run: &Piece,
    next: &Piece,
    memory: *mut u8,
    packed: *mut u8,
) {
    let (far, behind, len) = (next.off.wrapping_sub(run.off), next.at - run.at, next.len);
    // SAFETY: as demanded.
    unsafe {
        with_short!(run.len, first => with_short!(len, second => {
            let both = Both { first, second, memory: far, packed: behind };
            steps.groups::<DIR>(memory, packed, both)
        }));
    }
}

/// Copies blocks at offsets from `memory`.
///
/// # Safety
///
/// As for [`copy`], for each block.
#[inline(always)]
unsafe fn copy_offsets<const DIR: bool, O: Copy>(
    offsets: &[O],
    offset: impl Fn(O) -> isize,
    memory: *mut u8,
    mut packed: *mut u8,
    len: usize,
) {
    // SAFETY: as demanded.
    unsafe {
        with_block!(len, b => {
            for o in offsets {
                b.copy::<DIR>(memory.wrapping_offset(offset(*o)), packed);
                packed = packed.wrapping_add(len);
            }
        });
    }
}

/// A visitor that copies the runs of a segment's own datatype, at most `left` bytes.
pub(super) struct Copier<const DIR: bool> {
    base: *mut u8,
    packed: *mut u8,
    left: usize,
}

impl<const DIR: bool> Copier<DIR> {
    /// Creates the visitor of one walk over a segment's datatype, from its position on.
    ///
    /// # Safety
    ///
    /// `left` must be at most what remains of the segment, whose bytes are lent; `left` bytes at
    /// `packed` must be no part of it, and readable if `DIR` is `IN`, writable if it is `OUT`.
    #[inline]
    pub(super) unsafe fn new(base: *mut u8, packed: *mut u8, left: usize) -> Copier<DIR> {
        Copier { base, packed, left }
    }

    /// Counts so many bytes as copied.
    #[inline(always)]
    fn copied(&mut self, n: usize) -> ControlFlow<()> {
        self.packed = self.packed.wrapping_add(n);
        self.left -= n;
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns how many of `count` pieces of `size` bytes are to be copied as a whole.
    #[inline(always)]
    fn whole(&self, count: usize, size: usize) -> usize {
        // Short loops avoid the division, and so do a few pieces of an endless array.
        match count.checked_mul(size) {
            Some(all) if all <= self.left => count,
            _ if self.left < size => 0,
            _ if self.left < 2 * size => 1,
            _ => self.left / size,
        }
    }
}

impl<const DIR: bool> Visit for Copier<DIR> {
    #[inline]
    fn run(&mut self, off: isize, len: usize) -> ControlFlow<()> {
        let len = len.min(self.left);
        let memory = self.base.wrapping_offset(off);
        // SAFETY: by the contract of `new`, the walk is over lent memory, and `left` ends it before
        // the segment's end. So the run is lent, and `packed` has `left` bytes.
        unsafe { with_block!(len, b => b.copy::<DIR>(memory, self.packed)) };
        self.copied(len)
    }

    fn grid(&mut self, off: isize, grid: &Grid) -> ControlFlow<()> {
        let row = grid.count * grid.len;
        let rows = self.whole(grid.rows, row);
        if rows > 0 {
            // SAFETY: as for `run`: these rows are the next runs, and not longer than `left`.
            unsafe { copy_grid::<DIR>(grid, rows, self.base.wrapping_offset(off), self.packed) };
            self.copied(rows * row)?;
        }
        if rows == grid.rows {
            return ControlFlow::Continue(());
        }
        let off = off.wrapping_add(grid.row_stride.wrapping_mul(rows as isize));
        let blocks = self.left / grid.len;
        if blocks > 0 {
            // SAFETY: as above.
            unsafe { copy_grid::<DIR>(&grid.row(blocks), 1, self.base.wrapping_offset(off), self.packed) };
            self.copied(blocks * grid.len)?;
        }
        self.run(off.wrapping_add(grid.stride.wrapping_mul(blocks as isize)), grid.len)
    }

    fn offsets(&mut self, off: isize, offsets: Offsets<'_>, len: usize) -> ControlFlow<()> {
        let memory = self.base.wrapping_offset(off);
        let (whole, next) = match offsets {
            Offsets::Short(list) => {
                let (now, later) = list.split_at(self.whole(list.len(), len));
                // SAFETY: as for `grid`.
                unsafe { copy_offsets::<DIR, _>(now, |o| o as isize, memory, self.packed, len) };
                (now.len(), later.first().map(|o| *o as isize))
            }
            Offsets::Long(list) => {
                let (now, later) = list.split_at(self.whole(list.len(), len));
                // SAFETY: as for `grid`.
                unsafe { copy_offsets::<DIR, _>(now, |o| o, memory, self.packed, len) };
                (now.len(), later.first().copied())
            }
        };
        self.copied(whole * len)?;
        next.map_or(ControlFlow::Continue(()), |next| self.run(off.wrapping_add(next), len))
    }

    fn elements(&mut self, off: isize, count: usize, stride: isize, element: &Element) -> ControlFlow<()> {
        let mut whole = self.whole(count, element.size);
        if whole > 1 {
            // SAFETY: as for `grid`.
            unsafe {
                copy_elements::<DIR>(element, whole, stride, self.base.wrapping_offset(off), self.packed);
            }
            self.copied(whole * element.size)?;
        } else {
            whole = 0;
        }
        for i in whole..count {
            let off = off.wrapping_add(times(stride, i));
            for run in &element.runs {
                self.run(off.wrapping_add(run.off), run.len)?;
            }
        }
        ControlFlow::Continue(())
    }
}

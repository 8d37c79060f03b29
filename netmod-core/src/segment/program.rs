//! Move programs: compiled layouts, which are walked from any byte on.
//!
//! A program is a short tree: loops with constant strides around moves of a constant length. Each
//! level finds the position by one division, or by a binary search where the data is irregular.
//! What is walked is given to a [`Visit`] in as large parts as possible.

use core::ops::ControlFlow;

use super::layout::{Node, Shape, times};

/// Most runs of an element whose moves are made for many elements at once.
const ELEMENT_RUNS: usize = 32;
/// Longest run of such an element, in bytes.
const ELEMENT_RUN: usize = 128;
/// Longest blocks that irregular runs are cut into, in bytes.
const UNIT: usize = 64;

/// Blocks of `len` bytes in rows: two nested loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub rows: usize,
    pub row_stride: isize,
    /// Blocks of a row.
    pub count: usize,
    pub stride: isize,
    pub len: usize,
}

/// Offsets of blocks; short where they fit, since they are read along with the data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offsets<'a> {
    Short(&'a [i32]),
    Long(&'a [isize]),
}

/// A run of an element: `len` bytes at `off` in memory, and at `at` in the packed element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub off: isize,
    pub at: usize,
    pub len: usize,
}

/// A short element: a few runs, none of them long.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub size: usize,
    pub runs: Box<[Piece]>,
}

/// A visitor of the runs of a program in packed order. `Break` ends the walk.
pub(super) trait Visit {
    /// Visits `len > 0` bytes at `off` from the base.
    fn run(&mut self, off: isize, len: usize) -> ControlFlow<()>;

    /// Visits all blocks of a grid, the first at `off`.
    #[inline]
    fn grid(&mut self, off: isize, grid: &Grid) -> ControlFlow<()> {
        let mut row = off;
        for _ in 0..grid.rows {
            let mut off = row;
            for _ in 0..grid.count {
                self.run(off, grid.len)?;
                off = off.wrapping_add(grid.stride);
            }
            row = row.wrapping_add(grid.row_stride);
        }
        ControlFlow::Continue(())
    }

    /// Visits blocks of `len` bytes at offsets from `off`.
    #[inline]
    fn offsets(&mut self, off: isize, offsets: Offsets<'_>, len: usize) -> ControlFlow<()> {
        match offsets {
            Offsets::Short(list) => {
                list.iter().try_for_each(|o| self.run(off.wrapping_add(*o as isize), len))
            }
            Offsets::Long(list) => list.iter().try_for_each(|o| self.run(off.wrapping_add(*o), len)),
        }
    }

    /// Visits `count` elements, the first at `off`, each `stride` after the one before.
    #[inline]
    fn elements(&mut self, off: isize, count: usize, stride: isize, element: &Element) -> ControlFlow<()> {
        let mut off = off;
        for _ in 0..count {
            element.walk(off, 0, self)?;
            off = off.wrapping_add(stride);
        }
        ControlFlow::Continue(())
    }
}

impl Element {
    /// Returns the runs of a node, if they are few and short.
    fn of(node: &Node) -> Option<Element> {
        let about = match &node.shape {
            Shape::Run => 1,
            Shape::Strided { count, .. } | Shape::Repeat { count, .. } => *count,
            Shape::Offsets { offs, .. } => offs.len(),
            Shape::Parts(parts) => parts.len(),
        };
        let mut runs: Vec<Piece> = Vec::with_capacity(about.min(ELEMENT_RUNS));
        let mut at = 0;
        let flow = node.each_run(0, &mut |off, len| {
            match runs.last_mut() {
                Some(last) if last.off.wrapping_add(last.len as isize) == off => last.len += len,
                _ => runs.push(Piece { off, at, len }),
            }
            at += len;
            match runs.last() {
                Some(last) if runs.len() <= ELEMENT_RUNS && last.len <= ELEMENT_RUN => {
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Break(()),
            }
        });
        flow.is_continue().then(|| Element { size: node.size, runs: runs.into() })
    }

    /// Visits one element without its first `skip` bytes.
    #[inline]
    fn walk<V: Visit + ?Sized>(&self, at: isize, skip: usize, v: &mut V) -> ControlFlow<()> {
        for run in &self.runs {
            let done = skip.saturating_sub(run.at);
            if done < run.len {
                v.run(at.wrapping_add(run.off).wrapping_add_unsigned(done), run.len - done)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// A compiled layout.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Offset of its own origin.
    off: isize,
    /// Bytes of data.
    size: usize,
    op: Op,
}

#[derive(Clone, Debug)]
enum Op {
    Run,
    Grid(Grid),
    Short {
        len: usize,
        offs: Box<[i32]>,
    },
    Long {
        len: usize,
        offs: Box<[isize]>,
    },
    Elements {
        count: usize,
        stride: isize,
        element: Element,
    },
    Repeat {
        count: usize,
        stride: isize,
        body: Box<Program>,
    },
    /// Parts, and the bytes up to the end of each.
    Parts {
        ends: Box<[usize]>,
        parts: Box<[Program]>,
    },
}

/// Returns the number of whole pieces of `size > 0` bytes in `n`, and the rest.
///
/// Inner loops mostly start at zero, and avoid the division.
#[inline]
fn split(n: usize, size: usize) -> (usize, usize) {
    if n == 0 { (0, 0) } else { (n / size, n % size) }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Program {
    /// Compiles an endless array of a node, whose elements are `extent` apart.
    pub(super) fn of_elements(node: &Node, extent: isize) -> Program {
        // An address space holds so many elements.
        match (isize::MAX as usize).checked_div(node.size) {
            None | Some(1) => Program::of(node),
            Some(count) => match node.merged(count, extent) {
                Some(all) => Program::of(&all),
                None => Program::repeated(node, count, extent),
            },
        }
    }

    fn of(node: &Node) -> Program {
        let &Node { off, size, .. } = node;
        let op = match &node.shape {
            Shape::Run => Op::Run,
            &Shape::Strided { count, stride, len } => {
                Op::Grid(Grid { rows: 1, row_stride: 0, count, stride, len })
            }
            Shape::Repeat { count, stride, child } => {
                let all = Program::repeated(child, *count, *stride);
                return Program { off: off.wrapping_add(all.off), ..all };
            }
            Shape::Offsets { len, offs } => Op::offsets(*len, offs.iter().copied()),
            Shape::Parts(parts) => Op::units(parts).unwrap_or_else(|| {
                let mut end = 0;
                let ends = parts.iter().map(|p| {
                    end += p.size;
                    end
                });
                Op::Parts { ends: ends.collect(), parts: parts.iter().map(Program::of).collect() }
            }),
        };
        Program { off, size, op }
    }

    /// Compiles `count` times a node, each time `stride` further.
    fn repeated(node: &Node, count: usize, stride: isize) -> Program {
        let size = node.size * count;
        if let Shape::Strided { count: n, stride: inner, len } = node.shape {
            let grid = Grid { rows: count, row_stride: stride, count: n, stride: inner, len };
            return Program { off: node.off, size, op: Op::Grid(grid) };
        }
        let op = match Element::of(node) {
            Some(element) => Op::Elements { count, stride, element },
            None => Op::Repeat { count, stride, body: Box::new(Program::of(node)) },
        };
        Program { off: 0, size, op }
    }

    /// Visits the data, whose origin is at `at`, without the first `skip` bytes.
    pub(super) fn walk<V: Visit>(&self, at: isize, skip: usize, v: &mut V) -> ControlFlow<()> {
        if skip >= self.size {
            return ControlFlow::Continue(());
        }
        let at = at.wrapping_add(self.off);
        match &self.op {
            Op::Run => v.run(at.wrapping_add_unsigned(skip), self.size - skip),
            Op::Grid(grid) => grid.walk(at, skip, v),
            Op::Short { len, offs } => {
                let (i, rest) = split(skip, *len);
                let i = first_of_block(at, offs.get(i).map(|o| *o as isize), i, rest, *len, v)?;
                v.offsets(at, Offsets::Short(&offs[i..]), *len)
            }
            Op::Long { len, offs } => {
                let (i, rest) = split(skip, *len);
                let i = first_of_block(at, offs.get(i).copied(), i, rest, *len, v)?;
                v.offsets(at, Offsets::Long(&offs[i..]), *len)
            }
            Op::Elements { count, stride, element } => {
                let (mut i, rest) = split(skip, element.size);
                if rest > 0 {
                    element.walk(at.wrapping_add(times(*stride, i)), rest, v)?;
                    i += 1;
                }
                v.elements(at.wrapping_add(times(*stride, i)), count - i, *stride, element)
            }
            Op::Repeat { count, stride, body } => {
                let (first, mut skip) = split(skip, body.size);
                let mut at = at.wrapping_add(times(*stride, first));
                for _ in first..*count {
                    body.walk(at, skip, v)?;
                    skip = 0;
                    at = at.wrapping_add(*stride);
                }
                ControlFlow::Continue(())
            }
            Op::Parts { ends, parts } => {
                let first = if skip == 0 { 0 } else { ends.partition_point(|&end| end <= skip) };
                let mut skip = skip - first.checked_sub(1).map_or(0, |i| ends[i]);
                for part in &parts[first..] {
                    part.walk(at, skip, v)?;
                    skip = 0;
                }
                ControlFlow::Continue(())
            }
        }
    }
}

/// Visits the block at `off` without its first `rest` bytes, if there are such; returns the index
/// of the first block that is to be visited as a whole.
#[inline]
fn first_of_block<V: Visit>(
    at: isize,
    off: Option<isize>,
    i: usize,
    rest: usize,
    len: usize,
    v: &mut V,
) -> ControlFlow<(), usize> {
    match off {
        Some(off) if rest > 0 => {
            v.run(at.wrapping_add(off).wrapping_add_unsigned(rest), len - rest)?;
            ControlFlow::Continue(i + 1)
        }
        _ => ControlFlow::Continue(i),
    }
}

impl Op {
    fn offsets(len: usize, offs: impl Iterator<Item = isize> + Clone) -> Op {
        match offs.clone().map(i32::try_from).collect() {
            Ok(offs) => Op::Short { len, offs },
            Err(_) => Op::Long { len, offs: offs.collect() },
        }
    }

    /// Cuts runs of different lengths into blocks of one, if those are not many more.
    fn units(parts: &[Node]) -> Option<Op> {
        let mut len = 0;
        for part in parts {
            part.as_run()?;
            len = gcd(part.size, len);
        }
        let total: usize = parts.iter().map(|p| p.size).sum();
        if !(4..=UNIT).contains(&len) || total / len > parts.len() * 3 {
            return None;
        }
        let blocks =
            parts.iter().flat_map(|p| (0..p.size / len).map(move |i| p.off.wrapping_add_unsigned(i * len)));
        Some(Op::offsets(len, blocks))
    }
}

impl Grid {
    /// Visits the grid, whose first block is at `at`, without the first `skip` bytes.
    #[inline]
    fn walk<V: Visit>(&self, at: isize, skip: usize, v: &mut V) -> ControlFlow<()> {
        let (mut row, in_row) = split(skip, self.count * self.len);
        if in_row > 0 {
            let at = at.wrapping_add(times(self.row_stride, row));
            let (mut i, rest) = split(in_row, self.len);
            if rest > 0 {
                let block = at.wrapping_add(times(self.stride, i));
                v.run(block.wrapping_add_unsigned(rest), self.len - rest)?;
                i += 1;
            }
            if i < self.count {
                v.grid(at.wrapping_add(times(self.stride, i)), &self.row(self.count - i))?;
            }
            row += 1;
        }
        if row < self.rows {
            let rest = Grid { rows: self.rows - row, ..*self };
            v.grid(at.wrapping_add(times(self.row_stride, row)), &rest)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns one row of so many blocks.
    #[inline]
    pub(super) fn row(&self, count: usize) -> Grid {
        Grid { rows: 1, row_stride: 0, count, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the program of elements that consist of runs: offset and length.
    fn of(runs: &[(isize, usize)], extent: isize) -> Program {
        let nodes = runs.iter().map(|(off, len)| Node::bytes(*len).shifted(*off));
        Program::of_elements(&Node::sequence(nodes.collect()), extent)
    }

    #[test]
    fn regular_elements_are_one_grid() {
        let op = of(&[(0, 4)], 16).op;
        assert!(matches!(op, Op::Grid(Grid { rows: 1, stride: 16, len: 4, .. })), "{op:?}");
        let op = of(&[(0, 8), (4096, 8), (8192, 8)], 8).op;
        assert!(matches!(op, Op::Grid(Grid { row_stride: 8, count: 3, stride: 4096, len: 8, .. })), "{op:?}");
        let op = of(&[(0, 4), (8, 4)], 16).op;
        assert!(matches!(op, Op::Grid(Grid { rows: 1, stride: 8, len: 4, .. })), "{op:?}");
    }

    #[test]
    fn short_elements_are_moved_run_by_run() {
        let op = of(&[(0, 4), (8, 8), (16, 1), (17, 2)], 24).op;
        let Op::Elements { stride: 24, element, .. } = op else { panic!("{op:?}") };
        let runs: Vec<_> = element.runs.iter().map(|r| (r.off, r.at, r.len)).collect();
        assert_eq!((element.size, runs), (15, vec![(0, 0, 4), (8, 4, 11)]));
        let op = of(&[(0, 4), (8, ELEMENT_RUN + 1)], 200).op;
        assert!(matches!(op, Op::Repeat { .. }), "{op:?}");
    }

    #[test]
    fn irregular_blocks_are_a_list_of_offsets() {
        let squares = |n: isize, far: isize| (0..n).map(move |i| (i * i * 16 + far, 8)).collect::<Vec<_>>();
        let body = |runs: &[(isize, usize)]| match of(runs, 1 << 20).op {
            Op::Repeat { body, .. } => body.op,
            op => panic!("{op:?}"),
        };
        let op = body(&squares(100, 0));
        assert!(matches!(&op, Op::Short { len: 8, offs } if offs.len() == 100 && offs[3] == 144), "{op:?}");
        let op = body(&squares(100, 1 << 40));
        assert!(matches!(&op, Op::Long { len: 8, offs } if offs.len() == 100), "{op:?}");
        // Blocks of 8 and 16 bytes become blocks of 8; those of 8 and 264 would become too many.
        let mixed = |long: usize| -> Vec<_> {
            squares(100, 0).into_iter().map(|(o, _)| (o * 20, if o % 32 == 0 { 8 } else { long })).collect()
        };
        let op = body(&mixed(16));
        assert!(matches!(&op, Op::Short { len: 8, offs } if offs.len() == 150), "{op:?}");
        let op = body(&mixed(264));
        assert!(matches!(op, Op::Parts { .. }), "{op:?}");
    }
}

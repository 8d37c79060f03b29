//! Normalised layouts: the runs of bytes of a datatype in packed order, from any position on.
//!
//! However a datatype was built, regular parts become one run or one strided sequence of runs, so
//! the loops over small blocks are tight. Offsets wrap: [`super::Datatype`] has checked that those
//! of one element do not overflow, and [`super::Segment::typed`] demands it for the rest.

use core::ops::ControlFlow;
use std::sync::Arc;

/// A visitor of the runs of a layout in packed order. `Break` ends the walk.
pub(super) trait Visit {
    /// Visits `len > 0` bytes at `off` from the base.
    fn run(&mut self, off: isize, len: usize) -> ControlFlow<()>;

    /// Visits `count` runs of `len` bytes, the first at `off`, each `stride` after the one before.
    #[inline]
    fn strided(&mut self, off: isize, count: usize, stride: isize, len: usize) -> ControlFlow<()> {
        let mut off = off;
        for _ in 0..count {
            self.run(off, len)?;
            off = off.wrapping_add(stride);
        }
        ControlFlow::Continue(())
    }
}

/// A layout. Cloning it is cheap.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Offset of its own origin.
    off: isize,
    /// Bytes of data.
    size: usize,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// A run of `size` bytes.
    Run,
    Strided {
        count: usize,
        stride: isize,
        len: usize,
    },
    Repeat {
        count: usize,
        stride: isize,
        child: Arc<Node>,
    },
    Parts(Arc<[Part]>),
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Bytes of this part and all before it.
    end: usize,
    node: Node,
}

/// Returns `i` strides; wraps.
#[inline]
fn times(stride: isize, i: usize) -> isize {
    stride.wrapping_mul(i as isize)
}

/// Returns the number of whole pieces of `size > 0` bytes in `n`, and the rest.
///
/// Inner loops mostly start at zero, and avoid the division.
#[inline]
fn split(n: usize, size: usize) -> (usize, usize) {
    if n == 0 { (0, 0) } else { (n / size, n % size) }
}

impl Node {
    /// Creates a run of `len` bytes.
    pub(super) fn bytes(len: usize) -> Node {
        Node { off: 0, size: len, shape: Shape::Run }
    }

    /// Returns the bytes of data.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the offset of the data if it is one run.
    #[inline]
    pub(super) fn as_run(&self) -> Option<isize> {
        matches!(self.shape, Shape::Run).then_some(self.off)
    }

    /// Returns the same data, moved.
    pub(super) fn shifted(mut self, by: isize) -> Node {
        self.off = self.off.wrapping_add(by);
        self
    }

    /// Repeats the node `count` times, each time `stride` further.
    ///
    /// The caller has checked that sizes and offsets are representable.
    pub(super) fn repeated(self, count: usize, stride: isize) -> Node {
        if count == 0 || self.size == 0 {
            return Node::bytes(0);
        }
        if count == 1 {
            return self;
        }
        let size = self.size * count;
        let (off, shape) = match self.shape {
            Shape::Run if stride == self.size as isize => (self.off, Shape::Run),
            Shape::Run => (self.off, Shape::Strided { count, stride, len: self.size }),
            Shape::Strided { count: n, stride: inner, len } if stride == times(inner, n) => {
                (self.off, Shape::Strided { count: n * count, stride: inner, len })
            }
            Shape::Repeat { count: n, stride: inner, child } if stride == times(inner, n) => {
                (self.off, Shape::Repeat { count: n * count, stride: inner, child })
            }
            _ => (0, Shape::Repeat { count, stride, child: Arc::new(self) }),
        };
        Node { off, size, shape }
    }

    /// Joins the nodes one after the other. The caller has checked the sum of their sizes.
    pub(super) fn sequence(nodes: impl Iterator<Item = Node>) -> Node {
        let mut parts: Vec<Part> = Vec::new();
        let mut total = 0;
        for node in nodes.filter(|n| n.size > 0) {
            total += node.size;
            if let Some(last) = parts.last_mut()
                && let (Some(at), Some(next)) = (last.node.as_run(), node.as_run())
                && at.wrapping_add(last.node.size as isize) == next
            {
                last.node.size += node.size;
                last.end = total;
                continue;
            }
            parts.push(Part { end: total, node });
        }
        if parts.len() <= 1 {
            return parts.pop().map_or(Node::bytes(0), |p| p.node);
        }
        if let Some((stride, len)) = regular(&parts) {
            let off = parts[0].node.off;
            let shape = Shape::Strided { count: parts.len(), stride, len };
            return Node { off, size: total, shape };
        }
        Node { off: 0, size: total, shape: Shape::Parts(parts.into()) }
    }

    /// Visits the data of the node, whose origin is at `at`, without the first `skip` bytes.
    pub(super) fn walk<V: Visit>(&self, at: isize, skip: usize, v: &mut V) -> ControlFlow<()> {
        if skip >= self.size {
            return ControlFlow::Continue(());
        }
        let at = at.wrapping_add(self.off);
        match &self.shape {
            Shape::Run => v.run(at.wrapping_add_unsigned(skip), self.size - skip),
            &Shape::Strided { count, stride, len } => {
                let (mut i, rest) = split(skip, len);
                if rest > 0 {
                    let block = at.wrapping_add(times(stride, i));
                    v.run(block.wrapping_add_unsigned(rest), len - rest)?;
                    i += 1;
                }
                if i < count {
                    v.strided(at.wrapping_add(times(stride, i)), count - i, stride, len)?;
                }
                ControlFlow::Continue(())
            }
            Shape::Repeat { count, stride, child } => child.walk_many(at, *count, *stride, skip, v),
            Shape::Parts(parts) => {
                let first = parts.partition_point(|p| p.end <= skip);
                let before = first.checked_sub(1).map_or(0, |i| parts[i].end);
                let mut skip = skip - before;
                for part in &parts[first..] {
                    part.node.walk(at, skip, v)?;
                    skip = 0;
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// Visits the node `count` times, each time `stride` further, without the first `skip` bytes.
    #[inline]
    pub(super) fn walk_many<V: Visit>(
        &self,
        at: isize,
        count: usize,
        stride: isize,
        skip: usize,
        v: &mut V,
    ) -> ControlFlow<()> {
        if self.size == 0 {
            return ControlFlow::Continue(());
        }
        let (first, mut skip) = split(skip, self.size);
        if first >= count {
            return ControlFlow::Continue(());
        }
        let mut at = at.wrapping_add(times(stride, first));
        let mut left = count - first;
        if self.as_run().is_some() {
            if skip > 0 {
                self.walk(at, skip, v)?;
                at = at.wrapping_add(stride);
                left -= 1;
            }
            return v.strided(at.wrapping_add(self.off), left, stride, self.size);
        }
        while left > 0 {
            self.walk(at, skip, v)?;
            skip = 0;
            at = at.wrapping_add(stride);
            left -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Returns stride and length, if all parts are runs of one length at a constant distance.
fn regular(parts: &[Part]) -> Option<(isize, usize)> {
    let off = |p: &Part| p.node.as_run();
    let len = parts.first()?.node.size;
    let stride = off(parts.get(1)?)?.wrapping_sub(off(&parts[0])?);
    let same = parts.windows(2).all(|w| {
        w[1].node.size == len
            && matches!((off(&w[0]), off(&w[1])), (Some(a), Some(b)) if b.wrapping_sub(a) == stride)
    });
    same.then_some((stride, len))
}

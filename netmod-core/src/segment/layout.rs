//! Normalised layouts: the runs of bytes of a datatype in packed order.
//!
//! However a datatype was built, equal data has one description: dense parts are one run, runs at
//! equal distances are strided, equal parts at equal distances repeat. Offsets wrap:
//! [`super::Datatype`] has checked that those of one element do not overflow, and
//! [`super::Segment::typed`] demands it for the rest.

use core::ops::ControlFlow;
use std::sync::Arc;

/// A layout. Cloning it is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Offset of its own origin.
    pub(super) off: isize,
    /// Bytes of data.
    pub(super) size: usize,
    pub(super) shape: Shape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
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
    /// Runs of one length.
    Offsets {
        len: usize,
        offs: Arc<[isize]>,
    },
    Parts(Arc<[Node]>),
}

/// Returns `i` strides; wraps.
#[inline]
pub(super) fn times(stride: isize, i: usize) -> isize {
    stride.wrapping_mul(i as isize)
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
        self.merged(count, stride).unwrap_or_else(|| {
            let size = self.size * count;
            Node { off: 0, size, shape: Shape::Repeat { count, stride, child: Arc::new(self) } }
        })
    }

    /// Returns `count > 1` copies, each `stride` further, if they need no level of their own.
    pub(super) fn merged(&self, count: usize, stride: isize) -> Option<Node> {
        let shape = match &self.shape {
            Shape::Run if stride == self.size as isize => Shape::Run,
            Shape::Run => Shape::Strided { count, stride, len: self.size },
            &Shape::Strided { count: n, stride: inner, len } if stride == times(inner, n) => {
                Shape::Strided { count: n * count, stride: inner, len }
            }
            Shape::Repeat { count: n, stride: inner, child } if stride == times(*inner, *n) => {
                Shape::Repeat { count: n * count, stride: *inner, child: Arc::clone(child) }
            }
            _ => return None,
        };
        Some(Node { off: self.off, size: self.size * count, shape })
    }

    /// Joins the nodes one after the other. The caller has checked the sum of their sizes.
    pub(super) fn sequence(mut parts: Vec<Node>) -> Node {
        parts.retain(|node| node.size > 0);
        parts.dedup_by(|next, last| {
            let goes_on = last.continues(next);
            if goes_on {
                last.append(next);
            }
            goes_on
        });
        if parts.len() <= 1 {
            return parts.pop().unwrap_or(Node::bytes(0));
        }
        if let Some(stride) = regular(&parts) {
            let count = parts.len();
            return parts.swap_remove(0).repeated(count, stride);
        }
        let size = parts.iter().map(|p| p.size).sum();
        let len = parts[0].size;
        let shape = match parts.iter().all(|p| p.size == len && p.as_run().is_some()) {
            true => Shape::Offsets { len, offs: parts.iter().map(|p| p.off).collect() },
            false => Shape::Parts(parts.into()),
        };
        Node { off: 0, size, shape }
    }

    /// Returns true if the other node's data goes on where this one's ends, in the same way.
    fn continues(&self, next: &Node) -> bool {
        match (&self.shape, &next.shape) {
            (Shape::Run, Shape::Run) => self.off.wrapping_add(self.size as isize) == next.off,
            (&Shape::Strided { count, stride, len }, other) => {
                let same = match *other {
                    Shape::Run => next.size == len,
                    Shape::Strided { stride: s, len: l, .. } => (s, l) == (stride, len),
                    _ => false,
                };
                same && self.off.wrapping_add(times(stride, count)) == next.off
            }
            // The other one has the same parts, or is one more of them.
            (Shape::Repeat { count, stride, child }, other) => {
                let at = self.off.wrapping_add(times(*stride, *count));
                match other {
                    Shape::Repeat { stride: s, child: c, .. } if s == stride && c == child => at == next.off,
                    _ => {
                        at.wrapping_add(child.off) == next.off
                            && child.size == next.size
                            && child.shape == *other
                    }
                }
            }
            _ => false,
        }
    }

    /// Adds the data of a node that [`Node::continues`] this one.
    fn append(&mut self, next: &Node) {
        self.size += next.size;
        match &mut self.shape {
            Shape::Strided { count, len, .. } => *count += next.size / *len,
            Shape::Repeat { count, child, .. } => *count += next.size / child.size,
            _ => {}
        }
    }

    /// Calls `f` for each run of bytes in packed order; the node's origin is at `at`.
    pub(super) fn each_run(
        &self,
        at: isize,
        f: &mut impl FnMut(isize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let at = at.wrapping_add(self.off);
        match &self.shape {
            Shape::Run => f(at, self.size),
            &Shape::Strided { count, stride, len } => {
                (0..count).try_for_each(|i| f(at.wrapping_add(times(stride, i)), len))
            }
            Shape::Repeat { count, stride, child } => {
                (0..*count).try_for_each(|i| child.each_run(at.wrapping_add(times(*stride, i)), f))
            }
            Shape::Offsets { len, offs } => offs.iter().try_for_each(|o| f(at.wrapping_add(*o), *len)),
            Shape::Parts(parts) => parts.iter().try_for_each(|p| p.each_run(at, f)),
        }
    }
}

/// Returns the distance of equal parts, if it is constant.
fn regular(parts: &[Node]) -> Option<isize> {
    let (first, second) = (parts.first()?, parts.get(1)?);
    let stride = second.off.wrapping_sub(first.off);
    let same = parts.windows(2).all(|w| {
        w[1].off.wrapping_sub(w[0].off) == stride && w[1].size == first.size && w[1].shape == first.shape
    });
    same.then_some(stride)
}

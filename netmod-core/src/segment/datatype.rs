//! Datatypes: the bytes of one element, relative to a base address.
//!
//! They correspond to MPI's derived datatypes (MPI 4.1, chapter 5), with all counts in elements and
//! all distances in bytes. A datatype is immutable, and was checked when it was built: no size,
//! bound or offset of an element overflows.

use core::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};

use super::layout::Node;
use super::program::{Program, Visit};

#[cfg(test)]
mod tests;

/// Deepest nesting of datatypes.
pub const MAX_DEPTH: u32 = 64;

/// The reason why a datatype, or so many elements of it, cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatatypeError {
    /// The data has more bytes than an address space.
    #[error(
        "{constructor} datatype: its data exceeds {} bytes; use smaller counts or block lengths",
        isize::MAX
    )]
    Size {
        /// Name of the constructor.
        constructor: &'static str,
    },
    /// A byte or a bound is further from the base than an address can be.
    #[error(
        "{constructor} datatype: a displacement is out of the range of addresses; \
         are strides and displacements in bytes?"
    )]
    Range {
        /// Name of the constructor.
        constructor: &'static str,
    },
    /// The nesting is deeper than [`MAX_DEPTH`].
    #[error("{constructor} datatype: nested more than {MAX_DEPTH} deep; flatten it")]
    Depth {
        /// Name of the constructor.
        constructor: &'static str,
    },
}

/// The range from the first byte to the one past the last, relative to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    lo: isize,
    hi: isize,
}

impl Bounds {
    fn new(lo: i128, hi: i128) -> Option<Bounds> {
        let (lo, hi) = (isize::try_from(lo).ok()?, isize::try_from(hi).ok()?);
        hi.checked_sub(lo)?;
        Some(Bounds { lo, hi })
    }

    /// Returns the bounds of `count > 0` copies at a distance of `stride`, the first moved by
    /// `disp`.
    fn repeated(self, disp: i64, count: usize, stride: i128) -> Option<Bounds> {
        let last = stride.checked_mul(count as i128 - 1)?;
        let (lo, hi) = (self.lo as i128 + disp as i128, self.hi as i128 + disp as i128);
        Bounds::new(lo.checked_add(last.min(0))?, hi.checked_add(last.max(0))?)
    }

    fn union(a: Option<Bounds>, b: Bounds) -> Option<Bounds> {
        match a {
            None => Some(b),
            Some(a) => Bounds::new(a.lo.min(b.lo) as i128, a.hi.max(b.hi) as i128),
        }
    }
}

/// The layout of one element.
#[derive(Clone, Debug)]
pub struct Datatype {
    body: Body,
    /// The moves of an endless array of elements, once they are compiled.
    program: OnceLock<Program>,
}

/// The bytes and bounds of an element, and of the blocks that it is made of.
#[derive(Clone, Debug)]
struct Body {
    node: Node,
    /// Lower and upper bound, which define the extent. `None` for a type without bytes or bounds.
    bounds: Option<Bounds>,
    /// Bounds of the data itself. `None` if there is no data.
    data: Option<Bounds>,
    depth: u32,
}

impl Datatype {
    /// Creates a type of `len` consecutive bytes.
    ///
    /// # Errors
    ///
    /// [`DatatypeError::Size`] if `len` exceeds `isize::MAX`.
    pub fn contiguous(len: usize) -> Result<Arc<Datatype>, DatatypeError> {
        let hi = isize::try_from(len).map_err(|_| DatatypeError::Size { constructor: "contiguous" })?;
        let bounds = (len > 0).then_some(Bounds { lo: 0, hi });
        Ok(Body { node: Node::bytes(len), bounds, data: bounds, depth: 1 }.datatype())
    }

    /// Creates a type of `count` blocks of `blocklen` elements each, the blocks `stride` bytes
    /// apart (`MPI_Type_create_hvector`).
    ///
    /// The stride may be negative, or let blocks overlap.
    ///
    /// # Errors
    ///
    /// Fails if sizes or displacements overflow, or if the nesting is too deep.
    pub fn vector(
        count: usize,
        blocklen: usize,
        stride: i64,
        child: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>, DatatypeError> {
        const VECTOR: &str = "vector";
        let block = child.body.block(VECTOR, 0, blocklen)?;
        block.repeated(VECTOR, 0, count, stride)?.nested(VECTOR, child.body.depth)
    }

    /// Creates a type of blocks of elements, each with its displacement in bytes and its count, in
    /// this order (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    ///
    /// Fails if sizes or displacements overflow, or if the nesting is too deep.
    pub fn indexed(blocks: &[(i64, usize)], child: &Arc<Datatype>) -> Result<Arc<Datatype>, DatatypeError> {
        let parts = blocks.iter().map(|&(disp, count)| (disp, count, &child.body));
        Body::sequence("indexed", parts)
    }

    /// Creates a type of blocks of elements of different types, each with its displacement in bytes
    /// and its count, in this order (`MPI_Type_create_struct`).
    ///
    /// # Errors
    ///
    /// Fails if sizes or displacements overflow, or if the nesting is too deep.
    pub fn structure(fields: &[(i64, usize, Arc<Datatype>)]) -> Result<Arc<Datatype>, DatatypeError> {
        let parts = fields.iter().map(|(disp, count, child)| (*disp, *count, &child.body));
        Body::sequence("structure", parts)
    }

    /// Creates a type of the same data with another lower bound and extent, in bytes
    /// (`MPI_Type_create_resized`).
    ///
    /// The extent is the distance of elements in an array.
    ///
    /// # Errors
    ///
    /// Fails if bounds overflow, or if the nesting is too deep.
    pub fn resized(lb: i64, extent: i64, child: &Arc<Datatype>) -> Result<Arc<Datatype>, DatatypeError> {
        const RESIZED: &str = "resized";
        let bounds = Bounds::new(lb as i128, lb as i128 + extent as i128)
            .ok_or(DatatypeError::Range { constructor: RESIZED })?;
        let body = Body { bounds: Some(bounds), ..child.body.clone() };
        body.nested(RESIZED, child.body.depth)
    }

    /// Returns the bytes of data of one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.body.node.size()
    }

    /// Returns the distance from one element to the next in bytes: upper minus lower bound.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.body.extent()
    }

    /// Returns the lower bound in bytes from the base.
    #[inline]
    pub fn lower_bound(&self) -> i64 {
        self.body.bounds.map_or(0, |b| b.lo as i64)
    }

    /// Returns the upper bound in bytes from the base.
    #[inline]
    pub fn upper_bound(&self) -> i64 {
        self.body.bounds.map_or(0, |b| b.hi as i64)
    }

    /// Returns true if any number of elements in an array is one run of bytes without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.as_run(2).is_some()
    }

    /// Returns the range of the data of `count` elements, in bytes from the base.
    ///
    /// This is the memory that [`super::Segment::typed`] needs. It is empty if there is no data.
    ///
    /// # Errors
    ///
    /// Fails if so many elements have more bytes, or extend further from the base, than an address
    /// space allows.
    pub fn span(&self, count: usize) -> Result<Range<i64>, DatatypeError> {
        let all = self.body.block("array of a", 0, count)?;
        Ok(all.data.map_or(0..0, |b| b.lo as i64..b.hi as i64))
    }

    /// Returns the offset of the data of `count` elements if that is one run.
    #[inline]
    pub(super) fn as_run(&self, count: usize) -> Option<isize> {
        let off = self.body.node.as_run()?;
        (count <= 1 || self.size() == 0 || self.extent() == self.size() as i64).then_some(off)
    }

    /// Visits the runs of an endless array of elements, without the first `skip` bytes, until the
    /// visitor breaks.
    #[inline]
    pub(super) fn walk<V: Visit>(&self, skip: usize, v: &mut V) -> ControlFlow<()> {
        self.program().walk(0, skip, v)
    }

    /// Compiles the moves of its elements (`MPI_Type_commit`).
    ///
    /// The first use of an array does it otherwise.
    pub fn compile(&self) {
        self.program();
    }

    #[inline]
    fn program(&self) -> &Program {
        self.program.get_or_init(|| Program::of_elements(&self.body.node, self.extent() as isize))
    }
}

impl Body {
    fn void() -> Body {
        Body { node: Node::bytes(0), bounds: None, data: None, depth: 0 }
    }

    fn datatype(self) -> Arc<Datatype> {
        Arc::new(Datatype { body: self, program: OnceLock::new() })
    }

    #[inline]
    fn extent(&self) -> i64 {
        self.bounds.map_or(0, |b| b.hi as i64 - b.lo as i64)
    }

    /// Returns `count` consecutive elements, moved by `disp`.
    fn block(&self, constructor: &'static str, disp: i64, count: usize) -> Result<Body, DatatypeError> {
        self.repeated(constructor, disp, count, self.extent())
    }

    fn repeated(
        &self,
        constructor: &'static str,
        disp: i64,
        count: usize,
        stride: i64,
    ) -> Result<Body, DatatypeError> {
        if count == 0 {
            return Ok(Body::void());
        }
        size_sum(constructor, 0, self.node.size().checked_mul(count))?;
        let range = || DatatypeError::Range { constructor };
        let around = |b: Option<Bounds>| match b {
            None => Ok(None),
            Some(b) => b.repeated(disp, count, stride.into()).map(Some).ok_or_else(range),
        };
        let (bounds, data) = (around(self.bounds)?, around(self.data)?);
        let node = if data.is_none() {
            Node::bytes(0)
        } else {
            // With one element the stride does not matter, and may be out of range.
            let stride = if count == 1 { 0 } else { isize::try_from(stride).map_err(|_| range())? };
            let disp = isize::try_from(disp).map_err(|_| range())?;
            self.node.clone().repeated(count, stride).shifted(disp)
        };
        Ok(Body { node, bounds, data, depth: self.depth })
    }

    fn sequence<'a>(
        constructor: &'static str,
        parts: impl Iterator<Item = (i64, usize, &'a Body)>,
    ) -> Result<Arc<Datatype>, DatatypeError> {
        let mut all = Body::void();
        let mut nodes = Vec::with_capacity(parts.size_hint().0);
        let mut size = 0;
        let mut depth = 0;
        let range = DatatypeError::Range { constructor };
        for (disp, count, child) in parts {
            depth = child.depth.max(depth);
            let block = child.block(constructor, disp, count)?;
            size = size_sum(constructor, size, Some(block.node.size()))?;
            if let Some(b) = block.bounds {
                all.bounds = Some(Bounds::union(all.bounds, b).ok_or(range)?);
            }
            if let Some(b) = block.data {
                all.data = Some(Bounds::union(all.data, b).ok_or(range)?);
            }
            nodes.push(block.node);
        }
        all.node = Node::sequence(nodes);
        all.nested(constructor, depth)
    }

    fn nested(mut self, constructor: &'static str, child: u32) -> Result<Arc<Datatype>, DatatypeError> {
        if child >= MAX_DEPTH {
            return Err(DatatypeError::Depth { constructor });
        }
        self.depth = child + 1;
        Ok(self.datatype())
    }
}

/// Adds sizes within `isize::MAX`; `None` stands for an earlier overflow.
fn size_sum(constructor: &'static str, a: usize, b: Option<usize>) -> Result<usize, DatatypeError> {
    b.and_then(|b| a.checked_add(b))
        .filter(|&sum| isize::try_from(sum).is_ok())
        .ok_or(DatatypeError::Size { constructor })
}

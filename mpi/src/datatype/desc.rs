//! One datatype: its layout, its bounds and how it was made. Immutable.

use std::sync::Arc;

use netmod_core::Datatype as Layout;
use netmod_core::segment::DatatypeError;

use super::basic::Basic;
use super::envelope::{Combiner, Envelope};
use super::signature::Signature;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;

/// A lower or upper bound, and whether it was set, by a resize or by a marker of MPI-1.
///
/// A bound that was set counts alone: those of the data are not looked at (MPI 4.1, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub at: i64,
    pub set: bool,
}

impl Bound {
    /// Joins two bounds of one kind; `pick` takes one of two places that count the same.
    fn join(a: Option<Bound>, b: Option<Bound>, pick: fn(i64, i64) -> i64) -> Option<Bound> {
        match (a, b) {
            (Some(a), Some(b)) if a.set == b.set => Some(Bound { at: pick(a.at, b.at), set: a.set }),
            (Some(a), Some(b)) => Some(if a.set { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}

/// The lower and upper bound of a datatype. Without data there may be one of them, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub lb: Option<Bound>,
    pub ub: Option<Bound>,
}

impl Bounds {
    /// Bounds that count if no others are set.
    fn of_data(lb: i64, ub: i64) -> Bounds {
        Bounds { lb: Some(Bound { at: lb, set: false }), ub: Some(Bound { at: ub, set: false }) }
    }

    /// Returns the places of both; one that does not exist is at 0.
    fn places(self) -> (i64, i64) {
        (self.lb.map_or(0, |b| b.at), self.ub.map_or(0, |b| b.at))
    }
}

/// A datatype.
#[derive(Debug)]
pub struct TypeDesc {
    /// The bytes of one element, compiled.
    pub layout: Arc<Layout>,
    pub(super) bounds: Bounds,
    /// First byte of the data and the one past the last. `None`: no data.
    pub(super) data: Option<(i64, i64)>,
    /// Alignment of the most aligned basic type.
    pub(super) align: usize,
    /// The basic types in order.
    pub signature: Signature,
    /// The constructor and its numbers.
    pub envelope: Envelope,
    /// The datatypes that it was made of, in order.
    pub parts: Vec<Arc<TypeDesc>>,
    /// The predefined type that it is, or is a copy of.
    pub basic: Option<&'static Basic>,
}

/// Copies of a type: the displacements of the first and the last in memory, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies<'a> {
    pub child: &'a TypeDesc,
    pub first: i128,
    pub last: i128,
}

impl<'a> Copies<'a> {
    /// `count` consecutive elements at `disp`; `None` if there are none.
    pub(super) fn block(disp: i64, count: i64, child: &'a TypeDesc) -> Option<Copies<'a>> {
        if count == 0 {
            return None;
        }
        let disp = i128::from(disp);
        let all = i128::from(count - 1) * i128::from(child.extent());
        Some(Copies { child, first: disp + all.min(0), last: disp + all.max(0) })
    }
}

/// Returns the class of a layout that cannot be, with its reason.
pub(super) fn refused(e: DatatypeError) -> Box<MpiError> {
    let class = match e {
        DatatypeError::Size { .. } => Class::COUNT,
        _ => Class::ARG,
    };
    MpiError::new(class, e.to_string())
}

fn out_of_range() -> Box<MpiError> {
    MpiError::new(
        Class::ARG,
        "datatype: a bound is out of the range of addresses; are displacements in bytes?",
    )
}

fn address(v: i128) -> Result<i64> {
    i64::try_from(v).map_err(|_| out_of_range())
}

impl TypeDesc {
    /// Creates a predefined type.
    pub fn named(basic: &'static Basic) -> TypeDesc {
        // Sizes of predefined types are small, and their layouts exist.
        let bytes = |n| Layout::contiguous(n).expect("a few bytes");
        let layout = match basic.pair() {
            Some(p) if p.first + p.second < basic.extent() => {
                let parts = [(0, 1, bytes(p.first)), (p.at as i64, 1, bytes(p.second))];
                let data = Layout::structure(&parts).expect("two small parts");
                Layout::resized(0, basic.extent() as i64, &data).expect("a small extent")
            }
            _ => bytes(basic.size),
        };
        let end = layout.span(1).expect("a few bytes").end;
        let ub = basic.extent() as i64;
        TypeDesc {
            layout,
            bounds: match basic.name {
                "MPI_LB" => Bounds { lb: Some(Bound { at: 0, set: true }), ub: None },
                "MPI_UB" => Bounds { lb: None, ub: Some(Bound { at: 0, set: true }) },
                _ if basic.size > 0 => Bounds::of_data(0, ub),
                _ => Bounds::default(),
            },
            data: (basic.size > 0).then_some((0, end)),
            align: basic.align,
            signature: Signature::basic(basic),
            envelope: Envelope::named(),
            parts: Vec::new(),
            basic: Some(basic),
        }
    }

    /// Creates a type of a layout that consists of these copies.
    ///
    /// `padded`: the extent is a multiple of the alignment of its basic types, as compilers do it.
    ///
    /// # Errors
    /// Bounds that no address can have.
    pub(super) fn of_copies<'a>(
        layout: Arc<Layout>,
        copies: impl Iterator<Item = Copies<'a>>,
        signature: Signature,
        envelope: Envelope,
        parts: Vec<Arc<TypeDesc>>,
        padded: bool,
    ) -> Result<TypeDesc> {
        let (mut bounds, mut data): (Bounds, Option<(i64, i64)>) = (Bounds::default(), None);
        let mut align = 1;
        for c in copies {
            let moved = |b: Option<Bound>, by: i128| -> Result<Option<Bound>> {
                let Some(b) = b else { return Ok(None) };
                Ok(Some(Bound { at: address(by + i128::from(b.at))?, set: b.set }))
            };
            let (lb, ub) = (moved(c.child.bounds.lb, c.first)?, moved(c.child.bounds.ub, c.last)?);
            bounds.lb = Bound::join(bounds.lb, lb, i64::min);
            bounds.ub = Bound::join(bounds.ub, ub, i64::max);
            if let Some((lo, hi)) = c.child.data {
                let (lo, hi) = (address(c.first + i128::from(lo))?, address(c.last + i128::from(hi))?);
                data = Some(data.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
                align = align.max(c.child.align);
            }
        }
        let (lb, _) = bounds.places();
        if let Some(ub) = bounds.ub.as_mut().filter(|b| padded && !b.set) {
            let extent = ub.at.checked_sub(lb).ok_or_else(out_of_range)?;
            // Nothing is to be padded behind a lower bound that lies above the data.
            if let Ok(extent) = u64::try_from(extent) {
                let padded =
                    extent.checked_next_multiple_of(align as u64).and_then(|e| i64::try_from(e).ok());
                ub.at = padded.and_then(|e| lb.checked_add(e)).ok_or_else(out_of_range)?;
            }
        }
        TypeDesc { layout, bounds, data, align, signature, envelope, parts, basic: None }.bounded()
    }

    /// Makes the layout's bounds those of the type.
    pub(super) fn bounded(mut self) -> Result<TypeDesc> {
        if self.bounds == Bounds::default() {
            return Ok(self);
        }
        let (lb, ub) = self.bounds.places();
        let extent = ub.checked_sub(lb).ok_or_else(out_of_range)?;
        if self.layout.lower_bound() != lb || self.layout.upper_bound() != ub {
            self.layout = Layout::resized(lb, extent, &self.layout).map_err(refused)?;
        }
        Ok(self)
    }

    /// Returns the bytes of data.
    #[inline]
    pub fn size(&self) -> usize {
        self.layout.size()
    }

    /// Returns the lower bound in bytes.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.bounds.places().0
    }

    /// Returns the bytes from one element to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        let (lb, ub) = self.bounds.places();
        ub - lb
    }

    /// Returns the place of the first byte of data.
    #[inline]
    pub fn true_lb(&self) -> i64 {
        self.data.map_or(0, |d| d.0)
    }

    /// Returns the bytes from the first one of data to the last.
    #[inline]
    pub fn true_extent(&self) -> i64 {
        self.data.map_or(0, |d| d.1 - d.0)
    }

    /// Returns true if Fortran has asked for it by precision and range.
    pub(super) fn is_f90(&self) -> bool {
        [Combiner::F90Real, Combiner::F90Complex, Combiner::F90Integer].contains(&self.envelope.combiner)
    }

    /// Returns the handle of a predefined type; `None` for any other, copies too.
    pub fn handle(&self) -> Option<Datatype> {
        let named = self.envelope.combiner == Combiner::Named;
        self.basic.filter(|_| named).map(|b| b.handle)
    }

    /// Returns true if `count` is not negative, and so many elements lie within an address space.
    #[inline]
    pub fn fits(&self, count: i64) -> bool {
        let Ok(n) = usize::try_from(count) else { return false };
        let size = self.size().checked_mul(n).is_some_and(|s| isize::try_from(s).is_ok());
        let (lb, ub) = self.bounds.places();
        let end = |at: i64| {
            n <= 1 || (ub - lb).checked_mul(count - 1).is_some_and(|all| at.checked_add(all).is_some())
        };
        size && end(lb) && end(ub) && self.data.is_none_or(|d| end(d.0) && end(d.1))
    }

    /// Returns the predefined type that all elements are of; `None` if there are several, or none.
    pub fn element(&self) -> Option<&'static Basic> {
        if self.basic.is_some() {
            return self.basic;
        }
        let mut parts = self.parts.iter().filter(|part| part.size() > 0).map(|part| part.element());
        let first = parts.next()??;
        let same = |other: Option<&Basic>| other.is_some_and(|other| other.handle == first.handle);
        parts.all(same).then_some(first)
    }

    /// Returns true if any number of elements is one run of bytes that starts at the address of the
    /// first.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.layout.is_contiguous() && self.true_lb() == 0
    }

    /// Returns the number of whole elements of this type in so many bytes; `None` if they end
    /// within one (`MPI_Get_count`).
    pub fn count_of(&self, bytes: u64) -> Option<u64> {
        match self.size() as u64 {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Returns the number of basic elements in so many bytes; `None` if they end in the middle of
    /// one (`MPI_Get_elements`).
    pub fn elements_of(&self, bytes: u64) -> Option<u64> {
        let (elements, exact) = self.signature.elements_in(bytes);
        exact.then_some(elements)
    }
}

//! Types of parts of arrays: subarray and darray.
//!
//! Both are made dimension by dimension from the one whose elements are neighbours in memory. The
//! type of each dimension has the extent of a whole row of the global array, so that the next one
//! counts in rows.

use std::sync::Arc;

use netmod_core::Datatype as Layout;

use super::TypeDesc;
use super::desc::{Bounds, refused};
use super::envelope::{Combiner, Envelope, Form, Item};
use super::make::natural;
use super::signature::Signature;
use crate::error::{Class, MpiError, Result};

/// The order of an array's dimensions in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last index varies fastest.
    C,
    /// The first index varies fastest.
    Fortran,
}

/// `MPI_ORDER_C`.
pub const ORDER_C: i32 = 56;
/// `MPI_ORDER_FORTRAN`.
pub const ORDER_FORTRAN: i32 = 57;
/// `MPI_DISTRIBUTE_BLOCK`.
pub const DISTRIBUTE_BLOCK: i32 = 121;
/// `MPI_DISTRIBUTE_CYCLIC`.
pub const DISTRIBUTE_CYCLIC: i32 = 122;
/// `MPI_DISTRIBUTE_NONE`.
pub const DISTRIBUTE_NONE: i32 = 123;
/// `MPI_DISTRIBUTE_DFLT_DARG`.
pub const DISTRIBUTE_DFLT_DARG: i32 = -49767;

fn bad(text: String) -> Box<MpiError> {
    MpiError::new(Class::ARG, text)
}

fn order_of(order: i32) -> Result<Order> {
    match order {
        ORDER_C => Ok(Order::C),
        ORDER_FORTRAN => Ok(Order::Fortran),
        _ => Err(bad(format!(
            "order {order} is neither MPI_ORDER_C ({ORDER_C}) nor MPI_ORDER_FORTRAN ({ORDER_FORTRAN})"
        ))),
    }
}

/// The indices of one dimension that belong to the type: blocks of `len` from `first` on, `stride`
/// apart, and a shorter one behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pick {
    first: i64,
    blocks: i64,
    len: i64,
    stride: i64,
    rest: i64,
}

impl Pick {
    fn range(first: i64, len: i64) -> Pick {
        Pick { first, blocks: 1, len, stride: 0, rest: 0 }
    }

    fn count(self) -> i64 {
        self.blocks * self.len + self.rest
    }
}

/// The layout of an array's part while it is made, and its signature.
struct Rows {
    layout: Arc<Layout>,
    signature: Signature,
    /// Bytes of a whole row of the dimensions so far.
    extent: i64,
}

impl Rows {
    /// Adds a dimension of `size` indices.
    fn dimension(&mut self, size: i64, pick: Pick) -> Result<()> {
        let far = || MpiError::new(Class::ARG, "array: its extent in bytes is out of range");
        let bytes = |rows: i64| rows.checked_mul(self.extent).ok_or_else(far);
        let whole = bytes(size)?;
        let (disp, stride) = (bytes(pick.first)?, bytes(pick.stride)?);
        let blocks =
            Layout::vector(pick.blocks as usize, pick.len as usize, stride, &self.layout).map_err(refused)?;
        let mut parts = vec![(disp, 1, blocks)];
        if pick.rest > 0 {
            let at = disp + bytes(pick.blocks * pick.stride)?;
            parts.push((at, pick.rest as usize, Arc::clone(&self.layout)));
        }
        let data = Layout::structure(&parts).map_err(refused)?;
        self.layout = Layout::resized(0, whole, &data).map_err(refused)?;
        self.signature = self.signature.repeated(pick.count() as u64);
        self.extent = whole;
        Ok(())
    }
}

/// Makes the type of the picked indices of all dimensions.
fn array(
    sizes: &[i64],
    picks: &[Pick],
    order: Order,
    old: &Arc<TypeDesc>,
    envelope: Envelope,
) -> Result<TypeDesc> {
    let mut rows =
        Rows { layout: Arc::clone(&old.layout), signature: old.signature.clone(), extent: old.extent() };
    let mut add = |i: usize| rows.dimension(sizes[i], picks[i]);
    match order {
        Order::C => (0..sizes.len()).rev().try_for_each(&mut add)?,
        Order::Fortran => (0..sizes.len()).try_for_each(&mut add)?,
    }
    let data = rows.layout.span(1).map_err(refused)?;
    let desc = TypeDesc {
        layout: rows.layout,
        bounds: Bounds::default(),
        data: (!data.is_empty()).then_some((data.start, data.end)),
        align: old.align,
        signature: rows.signature,
        envelope: Envelope::named(),
        parts: Vec::new(),
        basic: None,
    };
    TypeDesc::with_bounds(&desc, 0, rows.extent, envelope, vec![Arc::clone(old)])
}

fn dimensions(lists: &[(&str, usize)]) -> Result<()> {
    let ndims = lists[0].1;
    if ndims == 0 {
        return Err(bad("ndims is 0: an array has at least one dimension".into()));
    }
    match lists.iter().find(|l| l.1 != ndims) {
        None => Ok(()),
        Some((name, n)) => Err(bad(format!("{n} {name} for {ndims} dimensions"))),
    }
}

impl TypeDesc {
    /// Creates the type of a part of an array.
    ///
    /// # Errors
    /// No dimensions, an unknown order, a part that is not inside of the array, or an array that no
    /// address space has.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: &Arc<TypeDesc>,
        form: Form,
    ) -> Result<TypeDesc> {
        dimensions(&[("sizes", sizes.len()), ("subsizes", subsizes.len()), ("starts", starts.len())])?;
        let in_memory = order_of(order)?;
        let mut picks = Vec::with_capacity(sizes.len());
        for (i, ((&size, &sub), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if size < 1 || sub < 1 || sub > size || start < 0 || start > size - sub {
                return Err(bad(format!(
                    "dimension {i}: size {size}, subsize {sub}, start {start}: \
                     the part must have an element and lie inside of the array"
                )));
            }
            picks.push(Pick::range(start, sub));
        }
        let mut items = vec![Item::Int(sizes.len() as i32)];
        items.extend([sizes, subsizes, starts].into_iter().flatten().map(|v| Item::Count(*v)));
        items.push(Item::Int(order));
        let envelope = Envelope::new(Combiner::Subarray, form, items);
        array(sizes, &picks, in_memory, old, envelope)
    }

    /// Creates the type of one process's part of a distributed array.
    ///
    /// # Errors
    /// No dimensions, an unknown order or distribution, a rank outside of the grid of processes, a
    /// grid of another number of processes, or blocks that do not cover the array.
    pub fn darray(args: &Darray<'_>, old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let Darray { size, rank, gsizes, distribs, dargs, psizes, order } = *args;
        dimensions(&[
            ("global sizes", gsizes.len()),
            ("distributions", distribs.len()),
            ("distribution arguments", dargs.len()),
            ("process grid sizes", psizes.len()),
        ])?;
        let in_memory = order_of(order)?;
        let cells = psizes.iter().try_fold(1i32, |n, p| n.checked_mul(*p).filter(|n| *n > 0));
        if cells != Some(size) {
            return Err(bad(format!("the process grid {psizes:?} does not have size {size}")));
        }
        if !(0..size).contains(&rank) {
            return Err(bad(format!("rank {rank} is not in 0..{size}")));
        }
        let (mut cells, mut left) = (size, rank);
        let mut picks = Vec::with_capacity(gsizes.len());
        for i in 0..gsizes.len() {
            cells /= psizes[i];
            let coord = left / cells;
            left %= cells;
            picks.push(distributed(i, gsizes[i], distribs[i], dargs[i], psizes[i], coord)?);
        }
        let mut items = vec![Item::Int(size), Item::Int(rank), Item::Int(gsizes.len() as i32)];
        items.extend(gsizes.iter().map(|v| Item::Count(*v)));
        items.extend([distribs, dargs, psizes].into_iter().flatten().map(|v| Item::Int(*v)));
        items.push(Item::Int(order));
        let envelope = Envelope::new(Combiner::Darray, form, items);
        array(gsizes, &picks, in_memory, old, envelope)
    }
}

/// The arguments of `MPI_Type_create_darray`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Darray<'a> {
    pub size: i32,
    pub rank: i32,
    pub gsizes: &'a [i64],
    pub distribs: &'a [i32],
    pub dargs: &'a [i32],
    pub psizes: &'a [i32],
    pub order: i32,
}

/// Returns the indices of a dimension that belong to the process at `coord` of `procs`.
fn distributed(
    dimension: usize,
    size: i64,
    distribution: i32,
    darg: i32,
    procs: i32,
    coord: i32,
) -> Result<Pick> {
    let bad = |text: String| bad(format!("dimension {dimension}: {text}"));
    if size < 1 {
        return Err(bad(format!("global size {size} is less than 1")));
    }
    let default = darg == DISTRIBUTE_DFLT_DARG;
    if !default && darg < 1 && distribution != DISTRIBUTE_NONE {
        return Err(bad(format!("distribution argument {darg} is less than 1")));
    }
    let (procs, coord) = (i64::from(procs), i64::from(coord));
    match distribution {
        DISTRIBUTE_NONE if procs == 1 => Ok(Pick::range(0, size)),
        DISTRIBUTE_NONE => {
            Err(bad(format!("it is not distributed, but its process grid size is {procs}, not 1")))
        }
        DISTRIBUTE_BLOCK => {
            let len = if default { (size + procs - 1) / procs } else { i64::from(darg) };
            if len * procs < size {
                return Err(bad(format!("{procs} blocks of {len} do not cover {size} elements")));
            }
            let first = (len * coord).min(size);
            Ok(Pick::range(first, len.min(size - first)))
        }
        DISTRIBUTE_CYCLIC => {
            let len = if default { 1 } else { i64::from(darg) };
            let (first, stride) = ((len * coord).min(size), len * procs);
            let span = size - first;
            let blocks = span / stride + i64::from(span % stride >= len);
            let rest = if span % stride < len { span % stride } else { 0 };
            Ok(Pick { first, blocks, len, stride, rest })
        }
        _ => Err(bad(format!(
            "distribution {distribution} is none of MPI_DISTRIBUTE_BLOCK, CYCLIC and NONE \
             ({DISTRIBUTE_BLOCK}, {DISTRIBUTE_CYCLIC}, {DISTRIBUTE_NONE})"
        ))),
    }
}

/// Returns the number of dimensions as a length, for callers that have arrays of them.
///
/// # Errors
/// A negative number.
pub fn ndims(n: i32) -> Result<usize> {
    natural(Class::ARG, "ndims", n.into())
}

//! The constructors of datatypes, but for those of arrays.

use std::sync::Arc;

use netmod_core::Datatype as Layout;

use super::TypeDesc;
use super::desc::{Bound, Bounds, Copies, refused};
use super::envelope::{Combiner, Envelope, Form, Item};
use super::signature::Signature;
use crate::error::{Class, MpiError, Result};

/// Checks that a number of an argument is not negative.
pub(super) fn natural(class: Class, name: &str, v: i64) -> Result<usize> {
    usize::try_from(v).map_err(|_| MpiError::new(class, format!("{name} is {v}: it must not be negative")))
}

fn same_length(name: &str, other: &str, a: usize, b: usize) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(MpiError::new(Class::ARG, format!("{a} {name} and {b} {other}: there must be as many")))
}

/// Returns the displacement in bytes of a number of elements.
fn scaled(name: &str, by: i64, old: &TypeDesc) -> Result<i64> {
    by.checked_mul(old.extent()).ok_or_else(|| {
        let text =
            format!("{name} of {by} elements with an extent of {} bytes is out of range", old.extent());
        MpiError::new(Class::ARG, text)
    })
}

fn counts<'a>(values: &'a [i64]) -> impl Iterator<Item = Item> + 'a {
    values.iter().map(|v| Item::Count(*v))
}

fn addresses<'a>(values: &'a [i64]) -> impl Iterator<Item = Item> + 'a {
    values.iter().map(|v| Item::Address(*v))
}

/// One block of an indexed type or a struct.
struct Block<'a> {
    disp: i64,
    count: usize,
    child: &'a Arc<TypeDesc>,
}

/// Joins blocks of one or several types.
fn joined(
    blocks: &[Block<'_>],
    envelope: Envelope,
    parts: Vec<Arc<TypeDesc>>,
    padded: bool,
) -> Result<TypeDesc> {
    let used = || blocks.iter().filter(|b| b.count > 0);
    let one_type = blocks.windows(2).all(|w| Arc::ptr_eq(w[0].child, w[1].child));
    let layout = match blocks.first() {
        Some(first) if one_type => {
            let list: Vec<_> = used().map(|b| (b.disp, b.count)).collect();
            Layout::indexed(&list, &first.child.layout)
        }
        _ => {
            let list: Vec<_> = used().map(|b| (b.disp, b.count, Arc::clone(&b.child.layout))).collect();
            Layout::structure(&list)
        }
    };
    let copies = used().filter_map(|b| Copies::block(b.disp, b.count as i64, b.child));
    let signature = Signature::sequence(used().map(|b| b.child.signature.repeated(b.count as u64)));
    TypeDesc::of_copies(layout.map_err(refused)?, copies, signature, envelope, parts, padded)
}

impl TypeDesc {
    /// Creates a copy (`MPI_Type_dup`).
    pub fn dup(old: &Arc<TypeDesc>, form: Form) -> TypeDesc {
        TypeDesc {
            layout: Arc::clone(&old.layout),
            signature: old.signature.clone(),
            envelope: Envelope::new(Combiner::Dup, form, Vec::new()),
            parts: vec![Arc::clone(old)],
            ..**old
        }
    }

    /// Creates a type of `count` consecutive elements.
    ///
    /// # Errors
    /// A negative count; sizes or bounds out of range.
    pub fn contiguous(count: i64, old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let n = natural(Class::COUNT, "count", count)?;
        let envelope = Envelope::new(Combiner::Contiguous, form, vec![Item::Count(count)]);
        Self::strided(n, 1, old.extent(), old, envelope)
    }

    /// Creates a type of `count` blocks of `blocklen` elements, `stride` elements apart.
    ///
    /// # Errors
    /// A negative count or block length; sizes or bounds out of range.
    pub fn vector(
        count: i64,
        blocklen: i64,
        stride: i64,
        old: &Arc<TypeDesc>,
        form: Form,
    ) -> Result<TypeDesc> {
        let n = natural(Class::COUNT, "count", count)?;
        let len = natural(Class::ARG, "blocklength", blocklen)?;
        let items = counts(&[count, blocklen, stride]).collect();
        let envelope = Envelope::new(Combiner::Vector, form, items);
        Self::strided(n, len, scaled("stride", stride, old)?, old, envelope)
    }

    /// Creates a type of `count` blocks of `blocklen` elements, `stride` bytes apart.
    ///
    /// # Errors
    /// A negative count or block length; sizes or bounds out of range.
    pub fn hvector(
        count: i64,
        blocklen: i64,
        stride: i64,
        old: &Arc<TypeDesc>,
        form: Form,
    ) -> Result<TypeDesc> {
        let n = natural(Class::COUNT, "count", count)?;
        let len = natural(Class::ARG, "blocklength", blocklen)?;
        let items = vec![Item::Count(count), Item::Count(blocklen), Item::Address(stride)];
        let envelope = Envelope::new(Combiner::Hvector, form, items);
        Self::strided(n, len, stride, old, envelope)
    }

    pub(super) fn strided(
        count: usize,
        blocklen: usize,
        stride: i64,
        old: &Arc<TypeDesc>,
        envelope: Envelope,
    ) -> Result<TypeDesc> {
        let layout = Layout::vector(count, blocklen, stride, &old.layout).map_err(refused)?;
        let block = if count == 0 { None } else { Copies::block(0, blocklen as i64, old) };
        let copies = block.map(|b| {
            let all = (count as i128 - 1) * i128::from(stride);
            Copies { child: b.child, first: b.first + all.min(0), last: b.last + all.max(0) }
        });
        // The layout has checked that the product is representable, if there is data.
        let signature = old.signature.repeated((count as u64).saturating_mul(blocklen as u64));
        Self::of_copies(layout, copies.into_iter(), signature, envelope, vec![Arc::clone(old)], false)
    }

    /// Creates a type of blocks at displacements in elements.
    ///
    /// # Errors
    /// Arrays of different lengths; a negative block length; sizes or bounds out of range.
    pub fn indexed(blocklens: &[i64], displs: &[i64], old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let items = [blocklens.len() as i64];
        let items = counts(&items).chain(counts(blocklens)).chain(counts(displs)).collect();
        let envelope = Envelope::new(Combiner::Indexed, form, items);
        let bytes = displs.iter().map(|d| scaled("displacement", *d, old)).collect::<Result<Vec<_>>>()?;
        Self::blocks(blocklens, &bytes, old, envelope)
    }

    /// Creates a type of blocks at displacements in bytes.
    ///
    /// # Errors
    /// As [`TypeDesc::indexed`].
    pub fn hindexed(blocklens: &[i64], displs: &[i64], old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let items = [blocklens.len() as i64];
        let items = counts(&items).chain(counts(blocklens)).chain(addresses(displs)).collect();
        let envelope = Envelope::new(Combiner::Hindexed, form, items);
        Self::blocks(blocklens, displs, old, envelope)
    }

    /// Creates a type of blocks of one length at displacements in elements.
    ///
    /// # Errors
    /// A negative block length; sizes or bounds out of range.
    pub fn indexed_block(blocklen: i64, displs: &[i64], old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let items = [displs.len() as i64, blocklen];
        let items = counts(&items).chain(counts(displs)).collect();
        let envelope = Envelope::new(Combiner::IndexedBlock, form, items);
        let bytes = displs.iter().map(|d| scaled("displacement", *d, old)).collect::<Result<Vec<_>>>()?;
        Self::blocks(&vec![blocklen; displs.len()], &bytes, old, envelope)
    }

    /// Creates a type of blocks of one length at displacements in bytes.
    ///
    /// # Errors
    /// As [`TypeDesc::indexed_block`].
    pub fn hindexed_block(
        blocklen: i64,
        displs: &[i64],
        old: &Arc<TypeDesc>,
        form: Form,
    ) -> Result<TypeDesc> {
        let items = [displs.len() as i64, blocklen];
        let items = counts(&items).chain(addresses(displs)).collect();
        let envelope = Envelope::new(Combiner::HindexedBlock, form, items);
        Self::blocks(&vec![blocklen; displs.len()], displs, old, envelope)
    }

    fn blocks(
        blocklens: &[i64],
        displs: &[i64],
        old: &Arc<TypeDesc>,
        envelope: Envelope,
    ) -> Result<TypeDesc> {
        same_length("block lengths", "displacements", blocklens.len(), displs.len())?;
        let block = |(len, disp): (&i64, &i64)| {
            Ok(Block { disp: *disp, count: natural(Class::ARG, "blocklength", *len)?, child: old })
        };
        let blocks = blocklens.iter().zip(displs).map(block).collect::<Result<Vec<_>>>()?;
        joined(&blocks, envelope, vec![Arc::clone(old)], false)
    }

    /// Creates a type of blocks of different types at displacements in bytes.
    ///
    /// Its extent is a multiple of the alignment of its basic types, unless a resized type set it.
    ///
    /// # Errors
    /// Arrays of different lengths; a negative block length; sizes or bounds out of range.
    pub fn structure(
        blocklens: &[i64],
        displs: &[i64],
        types: &[Arc<TypeDesc>],
        form: Form,
    ) -> Result<TypeDesc> {
        same_length("block lengths", "displacements", blocklens.len(), displs.len())?;
        same_length("block lengths", "datatypes", blocklens.len(), types.len())?;
        let items = [blocklens.len() as i64];
        let items = counts(&items).chain(counts(blocklens)).chain(addresses(displs)).collect();
        let envelope = Envelope::new(Combiner::Struct, form, items);
        let block = |((len, disp), child): ((&i64, &i64), _)| {
            Ok(Block { disp: *disp, count: natural(Class::ARG, "blocklength", *len)?, child })
        };
        let blocks = blocklens.iter().zip(displs).zip(types).map(block).collect::<Result<Vec<_>>>()?;
        joined(&blocks, envelope, types.to_vec(), true)
    }

    /// Creates a type of the same data with another lower bound and extent.
    ///
    /// # Errors
    /// Bounds out of range.
    pub fn resized(lb: i64, extent: i64, old: &Arc<TypeDesc>, form: Form) -> Result<TypeDesc> {
        let items = vec![Item::Address(lb), Item::Address(extent)];
        let envelope = Envelope::new(Combiner::Resized, form, items);
        Self::with_bounds(old, lb, extent, envelope, vec![Arc::clone(old)])
    }

    pub(super) fn with_bounds(
        old: &TypeDesc,
        lb: i64,
        extent: i64,
        envelope: Envelope,
        parts: Vec<Arc<TypeDesc>>,
    ) -> Result<TypeDesc> {
        let ub = lb.checked_add(extent).ok_or_else(|| {
            let text = format!("lower bound {lb} and extent {extent}: their sum is out of range");
            MpiError::new(Class::ARG, text)
        })?;
        let desc = TypeDesc {
            layout: Arc::clone(&old.layout),
            bounds: Bounds { lb: Some(Bound { at: lb, set: true }), ub: Some(Bound { at: ub, set: true }) },
            signature: old.signature.clone(),
            envelope,
            parts,
            basic: None,
            ..*old
        };
        desc.bounded()
    }
}

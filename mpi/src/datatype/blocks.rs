//! The blocks of a call with a count for each process.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::{Buf, TypeDesc, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;

/// The blocks of a call: one for each process, relative to one address.
#[derive(Clone, Debug)]
pub struct Blocks {
    at: Buf,
    counts: Vec<i64>,
    displs: Displs,
}

/// The places of blocks.
#[derive(Clone, Debug)]
enum Displs {
    /// In elements of the one type.
    Elements(Vec<i64>, Datatype),
    /// In bytes, with a type for each block.
    Bytes(Vec<i64>, Vec<Datatype>),
}

/// Compares two arrays.
///
/// Empty ones are not read: with AVX-512, `memcmp` of no bytes at the address of an empty `Vec`,
/// which is not mapped, takes as long as a message.
fn are_equal<T: PartialEq>(mine: &[T], others: &[T]) -> bool {
    mine.len() == others.len() && (mine.is_empty() || mine == others)
}

impl PartialEq for Displs {
    fn eq(&self, other: &Displs) -> bool {
        match (self, other) {
            (Displs::Elements(mine, my_type), Displs::Elements(others, other_type)) => {
                my_type == other_type && are_equal(mine, others)
            }
            (Displs::Bytes(mine, my_types), Displs::Bytes(others, other_types)) => {
                are_equal(mine, others) && are_equal(my_types, other_types)
            }
            _ => false,
        }
    }
}

impl PartialEq for Blocks {
    fn eq(&self, other: &Blocks) -> bool {
        self.at == other.at && self.are_like(other)
    }
}

/// One block: its type, the bytes from the address to its first element, and its count.
pub type Block = (Arc<TypeDesc>, i64, usize);

impl Blocks {
    /// Creates blocks of one type, with displacements in elements.
    ///
    /// # Safety
    /// As for [`Buf::new`], for all elements of all blocks.
    pub unsafe fn new(
        at: *mut u8,
        counts: impl Into<Vec<i64>>,
        displs: impl Into<Vec<i64>>,
        datatype: Datatype,
    ) -> Blocks {
        // SAFETY: no elements; those of the blocks are lent by this function's contract.
        let at = unsafe { Buf::new(at, 0, datatype) };
        Blocks { at, counts: counts.into(), displs: Displs::Elements(displs.into(), datatype) }
    }

    /// Creates blocks with a type each, with displacements in bytes.
    ///
    /// # Safety
    /// As for [`Buf::new`], for all elements of all blocks.
    pub unsafe fn of_types(
        at: *mut u8,
        counts: impl Into<Vec<i64>>,
        displs: impl Into<Vec<i64>>,
        types: impl Into<Vec<Datatype>>,
    ) -> Blocks {
        // SAFETY: no elements; those of the blocks are lent by this function's contract.
        let at = unsafe { Buf::new(at, 0, Datatype::NULL) };
        Blocks { at, counts: counts.into(), displs: Displs::Bytes(displs.into(), types.into()) }
    }

    /// Creates the marker of blocks that are in the other buffer already.
    pub fn in_place() -> Blocks {
        let none = Displs::Elements(Vec::new(), Datatype::NULL);
        Blocks { at: Buf::IN_PLACE, counts: Vec::new(), displs: none }
    }

    /// Returns true if this is [`Blocks::in_place`].
    pub fn is_in_place(&self) -> bool {
        self.at.is_in_place()
    }

    /// Returns the datatypes of the blocks.
    pub fn datatypes(&self) -> &[Datatype] {
        match &self.displs {
            Displs::Elements(_, datatype) => core::slice::from_ref(datatype),
            Displs::Bytes(_, types) => types,
        }
    }

    /// Returns the address that the blocks are relative to, as a buffer without elements.
    pub fn base(&self) -> Buf {
        self.at
    }

    /// Returns true if they differ from others by their address alone.
    pub(crate) fn are_like(&self, other: &Blocks) -> bool {
        self.is_in_place() == other.is_in_place()
            && are_equal(&self.counts, &other.counts)
            && self.displs == other.displs
    }

    /// Returns the bytes to both sides of the address in which all blocks are, whose elements have
    /// at most `size` bytes. `None` if a count is negative or there is no such number.
    pub(crate) fn reach(&self, size: usize) -> Option<usize> {
        let (displs, unit) = match &self.displs {
            Displs::Elements(displs, _) => (displs, size),
            Displs::Bytes(displs, _) => (displs, 1),
        };
        let end = |(displ, count): (&i64, &i64)| {
            let before = usize::try_from(displ.unsigned_abs()).ok()?.checked_mul(unit)?;
            before.checked_add(usize::try_from(*count).ok()?.checked_mul(size)?)
        };
        let blocks = displs.iter().zip(&self.counts);
        blocks.map(end).try_fold(0, |most: usize, end| end.map(|end| most.max(end)))
    }

    /// Returns the blocks of `n` processes.
    ///
    /// # Errors
    /// As [`Types::checked`] for each block, which the text names, and [`Class::ARG`] for arrays of
    /// other lengths or a displacement that is out of range.
    pub fn checked(&self, types: &Types, n: usize) -> Result<Vec<Block>> {
        let (displs, kinds) = match &self.displs {
            Displs::Elements(displs, _) => (displs, n),
            Displs::Bytes(displs, types) => (displs, types.len()),
        };
        if self.counts.len() != n || displs.len() != n || kinds != n {
            let text = format!(
                "{} counts, {} displacements and {kinds} datatypes for {n} processes",
                self.counts.len(),
                displs.len()
            );
            return Err(MpiError::new(Class::ARG, text));
        }
        let block = |i: usize| -> Result<Block> {
            let (count, displ) = (self.counts[i], displs[i]);
            let datatype = match &self.displs {
                Displs::Elements(_, datatype) => *datatype,
                Displs::Bytes(_, types) => types[i],
            };
            let desc = types.committed(datatype, count)?;
            let at = match &self.displs {
                Displs::Elements(..) => displ.checked_mul(desc.extent()),
                Displs::Bytes(..) => Some(displ),
            };
            let text = || {
                format!(
                    "displacement {displ} of elements with an extent of {} bytes is out of range",
                    desc.extent()
                )
            };
            let at = at.ok_or_else(|| MpiError::new(Class::ARG, text()))?;
            // Displacements from MPI_BOTTOM are addresses.
            types.checked(&self.at.moved(at).elements(count, datatype))?;
            Ok((Arc::clone(desc), at, count as usize))
        };
        (0..n).map(|i| block(i).map_err(|e| e.about(&format!("block {i}")))).collect()
    }
}

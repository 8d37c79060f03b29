//! The program's memory in accesses to files, and the places of a type's data.

#![allow(unsafe_code)]

use core::slice;

use netmod_core::{RxBytes, Segment};

use crate::error::Result;

/// Bytes that scattered memory is packed into, or unpacked from, at once.
const PIECE: usize = 4 << 20;

/// Gives what is left of the memory of a write to `each`, in pieces in packed order.
///
/// # Errors
/// The error of `each`, which ends it.
pub(super) fn for_each_out(data: &mut Segment, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if let Some((at, len)) = data.as_contig() {
        // SAFETY: the memory is lent to the operation, in which nobody writes to it.
        return if len == 0 { Ok(()) } else { each(unsafe { slice::from_raw_parts(at, len) }) };
    }
    let mut packed = Vec::new();
    while !data.is_done() {
        packed.clear();
        data.pack_vec(PIECE, &mut packed);
        each(&packed)?;
    }
    Ok(())
}

/// Lets `each` fill what is left of the memory of a read, in pieces in packed order, until it fills
/// less than a piece. Returns the bytes that were filled.
///
/// # Errors
/// The error of `each`, which ends it.
pub(super) fn for_each_in(
    data: &mut Segment,
    mut each: impl FnMut(&mut [u8]) -> Result<usize>,
) -> Result<usize> {
    if let Some((at, len)) = data.as_contig() {
        // SAFETY: the memory is lent to the operation, in which nobody else accesses it.
        return if len == 0 { Ok(0) } else { each(unsafe { slice::from_raw_parts_mut(at, len) }) };
    }
    let mut packed = vec![0; PIECE.min(data.remaining())];
    let mut filled = 0;
    while !data.is_done() {
        let piece = packed.len().min(data.remaining());
        let got = each(&mut packed[..piece])?;
        data.unpack(RxBytes::from_slice(&packed[..got]));
        filled += got;
        if got < piece {
            break;
        }
    }
    Ok(filled)
}

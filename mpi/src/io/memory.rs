//! The program's memory in accesses to files, and the places of a type's data.

#![allow(unsafe_code)]

use core::ptr;
use core::slice;

use netmod_core::buf::IoVec;
use netmod_core::{RxBytes, Segment};

use crate::datatype::TypeDesc;
use crate::error::Result;

/// Bytes that scattered memory is packed into, or unpacked from, at once.
const PIECE: usize = 4 << 20;
/// Runs that are asked for at once.
const RUNS: usize = 256;

/// A run of a type's data: its displacement and its bytes.
pub(super) type Run = (i64, u64);

/// Returns the runs of one element of a type in packed order, neighbours joined.
pub(super) fn runs(desc: &TypeDesc) -> Vec<Run> {
    // SAFETY: the segment's memory is never accessed: its addresses, which count from 0, are the
    // displacements.
    let mut data = unsafe { Segment::typed(ptr::without_provenance_mut(0), &desc.layout, 1) };
    let mut all: Vec<Run> = Vec::new();
    let mut some = [IoVec::EMPTY; RUNS];
    while !data.is_done() {
        let (n, bytes) = data.next_iovecs(usize::MAX, &mut some);
        for iov in &some[..n] {
            let (at, len) = (iov.base.addr() as i64, iov.len as u64);
            match all.last_mut() {
                Some(last) if last.0 + last.1 as i64 == at => last.1 += len,
                _ => all.push((at, len)),
            }
        }
        data.advance(bytes);
    }
    all
}

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

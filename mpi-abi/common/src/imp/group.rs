//! Groups: arrays of ranks and ranges.

use core::ffi::c_int;

use netmod_mpi::Mpi;
use netmod_mpi::error::{Class, MpiError, Result};
use netmod_mpi::handle::Group;

use crate::convert::{put, slice};

fn group(handle: c_int) -> Group {
    Group(handle as u32)
}

/// Returns the length of an array.
///
/// # Errors
/// If it is negative.
pub fn length(n: c_int) -> Result<usize> {
    usize::try_from(n)
        .map_err(|_| MpiError::new(Class::ARG, format!("the length of an array is {n}, and less than 0")))
}

/// Functions that make a group of another and of an array.
macro_rules! made {
    ($($name:ident: $element:ty;)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            of: c_int,
            n: c_int,
            ranks: *const $element,
            result: *mut c_int,
        ) -> Result<()> {
            // SAFETY: the caller's arrays have so many elements.
            let made = mpi.$name(group(of), unsafe { slice(ranks, length(n)?) })?;
            // SAFETY: the caller's memory.
            unsafe { put(result, made) }
        })*
    };
}

made! {
    group_incl: c_int;
    group_excl: c_int;
    group_range_incl: [c_int; 3];
    group_range_excl: [c_int; 3];
}

pub unsafe fn group_translate_ranks(
    mpi: &Mpi,
    from: c_int,
    n: c_int,
    ranks: *const c_int,
    to: c_int,
    results: *mut c_int,
) -> Result<()> {
    let n = length(n)?;
    // SAFETY: the caller's arrays have so many elements.
    let found = mpi.group_translate_ranks(group(from), unsafe { slice(ranks, n) }, group(to))?;
    for (at, rank) in found.into_iter().enumerate() {
        // SAFETY: as above; the library returns as many as it got.
        unsafe { put(results.wrapping_add(at), rank)? };
    }
    Ok(())
}

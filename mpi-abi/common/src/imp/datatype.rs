//! Datatypes and addresses.

use core::ffi::{c_char, c_int, c_void};

use netmod_mpi::datatype::{Darray, Form};
use netmod_mpi::handle::Datatype;
use netmod_mpi::{Class, Mpi, MpiError, Result, Status, consts};

use super::comm::OBJECT_NAME;
use super::group::length;
pub use super::pack::{pack, pack_external, pack_external_size, pack_size, unpack, unpack_external};
use super::request::{change, status};
use crate::Abi;
use crate::convert::{Counts, MpiStatus, OutCount, Types, put, put_text, slice};

/// The sum of an address and a displacement.
pub fn aint_add(base: i64, displacement: i64) -> isize {
    base.wrapping_add(displacement) as isize
}

/// The difference of two addresses.
pub fn aint_diff(first: i64, second: i64) -> isize {
    first.wrapping_sub(second) as isize
}

/// Writes an address as a number.
///
/// # Safety
/// `to` is NULL or points to memory of the caller.
pub unsafe fn get_address(location: *const c_void, to: OutCount) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { to.put(location.addr() as i64) } {
        Ok(()) => 0,
        Err(_) => Class::ARG.0,
    }
}

pub unsafe fn address(location: *mut c_void, to: OutCount) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { get_address(location, to) }
}

fn datatype(handle: c_int) -> Datatype {
    Datatype(handle as u32)
}

fn form(large: bool) -> Form {
    if large { Form::Count } else { Form::Int }
}

/// Returns the length of an array of blocks.
fn blocks(count: i64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| MpiError::new(Class::COUNT, format!("count is {count}: it must not be negative")))
}

pub unsafe fn type_contiguous(mpi: &Mpi, count: i64, old: c_int, new: *mut c_int, large: bool) -> Result<()> {
    let made = mpi.type_contiguous(count, datatype(old), form(large))?;
    // SAFETY: the caller's memory.
    unsafe { put(new, made) }
}

/// Constructors with a stride.
macro_rules! strided {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            count: i64,
            blocklen: i64,
            stride: i64,
            old: c_int,
            new: *mut c_int,
            large: bool,
        ) -> Result<()> {
            let made = mpi.$name(count, blocklen, stride, datatype(old), form(large))?;
            // SAFETY: the caller's memory.
            unsafe { put(new, made) }
        })*
    };
}

strided! { type_vector type_create_hvector }

/// Constructors with arrays of lengths and displacements.
macro_rules! indexed {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            count: i64,
            blocklens: Counts,
            displs: Counts,
            old: c_int,
            new: *mut c_int,
            large: bool,
        ) -> Result<()> {
            let n = blocks(count)?;
            // SAFETY: the caller's arrays and memory.
            unsafe {
                let (blocklens, displs) = (blocklens.take(n), displs.take(n));
                put(new, mpi.$name(&blocklens, &displs, datatype(old), form(large))?)
            }
        })*
    };
}

indexed! { type_indexed type_create_hindexed }

/// Constructors with an array of displacements.
macro_rules! block_indexed {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            count: i64,
            blocklen: i64,
            displs: Counts,
            old: c_int,
            new: *mut c_int,
            large: bool,
        ) -> Result<()> {
            // SAFETY: the caller's array and memory.
            unsafe {
                let displs = displs.take(blocks(count)?);
                put(new, mpi.$name(blocklen, &displs, datatype(old), form(large))?)
            }
        })*
    };
}

block_indexed! { type_create_indexed_block type_create_hindexed_block }

pub unsafe fn type_create_struct(
    mpi: &Mpi,
    count: i64,
    blocklens: Counts,
    displs: Counts,
    types: Types,
    new: *mut c_int,
    large: bool,
) -> Result<()> {
    let n = blocks(count)?;
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let types = types.take(n);
        put(new, mpi.type_create_struct(&blocklens.take(n), &displs.take(n), &types, form(large))?)
    }
}

pub unsafe fn type_create_resized(
    mpi: &Mpi,
    old: c_int,
    lb: i64,
    extent: i64,
    new: *mut c_int,
    large: bool,
) -> Result<()> {
    let made = mpi.type_create_resized(datatype(old), lb, extent, form(large))?;
    // SAFETY: the caller's memory.
    unsafe { put(new, made) }
}

pub unsafe fn type_create_subarray(
    mpi: &Mpi,
    ndims: c_int,
    sizes: Counts,
    subsizes: Counts,
    starts: Counts,
    order: c_int,
    old: c_int,
    new: *mut c_int,
    large: bool,
) -> Result<()> {
    let n = length(ndims)?;
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let (sizes, subsizes, starts) = (sizes.take(n), subsizes.take(n), starts.take(n));
        put(new, mpi.type_create_subarray(&sizes, &subsizes, &starts, order, datatype(old), form(large))?)
    }
}

pub unsafe fn type_create_darray(
    mpi: &Mpi,
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: Counts,
    distribs: *const c_int,
    dargs: *const c_int,
    psizes: *const c_int,
    order: c_int,
    old: c_int,
    new: *mut c_int,
    large: bool,
) -> Result<()> {
    let n = length(ndims)?;
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let gsizes = gsizes.take(n);
        let (distribs, dargs, psizes) = (slice(distribs, n), slice(dargs, n), slice(psizes, n));
        let args = Darray { size, rank, gsizes: &gsizes, distribs, dargs, psizes, order };
        put(new, mpi.type_create_darray(&args, datatype(old), form(large))?)
    }
}

pub unsafe fn type_size(mpi: &Mpi, handle: c_int, size: OutCount) -> Result<()> {
    let bytes = mpi.type_size(datatype(handle))?;
    // SAFETY: the caller's memory.
    unsafe { size.put_or_undefined(bytes) }
}

/// Functions that ask for two places.
macro_rules! extents {
    ($($name:ident $x:ident;)*) => {
        $(
            pub unsafe fn $name(mpi: &Mpi, handle: c_int, lb: OutCount, extent: OutCount) -> Result<()> {
                let (low, bytes) = mpi.$name(datatype(handle))?;
                // SAFETY: the caller's memory.
                unsafe { lb.put(low).and_then(|()| extent.put(bytes)) }
            }

            pub unsafe fn $x(mpi: &Mpi, handle: c_int, lb: OutCount, extent: OutCount) -> Result<()> {
                // SAFETY: as the caller promises.
                unsafe { $name(mpi, handle, lb, extent) }
            }
        )*
    };
}

extents! {
    type_get_extent type_get_extent_x;
    type_get_true_extent type_get_true_extent_x;
}

pub unsafe fn type_size_x(mpi: &Mpi, handle: c_int, size: OutCount) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { type_size(mpi, handle, size) }
}

pub unsafe fn type_get_envelope(
    mpi: &Mpi,
    handle: c_int,
    integers: *mut c_int,
    addresses: *mut c_int,
    types: *mut c_int,
    combiner: *mut c_int,
) -> Result<()> {
    let ([n, addr, large, parts], made_by) = mpi.type_get_envelope(datatype(handle))?;
    if large > 0 {
        let why = "the datatype was made with large counts; ask with MPI_Type_get_envelope_c";
        return Err(MpiError::new(Class::TYPE, why));
    }
    // SAFETY: the caller's memory.
    unsafe {
        put(integers, n)?;
        put(addresses, addr)?;
        put(types, parts)?;
        put(combiner, made_by as i32)
    }
}

pub unsafe fn type_get_envelope_c(
    mpi: &Mpi,
    handle: c_int,
    integers: OutCount,
    addresses: OutCount,
    counts: OutCount,
    types: OutCount,
    combiner: *mut c_int,
) -> Result<()> {
    let (numbers, made_by) = mpi.type_get_envelope(datatype(handle))?;
    // SAFETY: the caller's memory.
    unsafe {
        for (place, number) in [integers, addresses, counts, types].into_iter().zip(numbers) {
            place.put(number)?;
        }
        put(combiner, made_by as i32)
    }
}

/// Writes an array of the caller, which has room for so many.
unsafe fn fill<T: Copy>(what: &str, to: *mut T, room: i64, values: &[T]) -> Result<()> {
    if room < values.len() as i64 {
        let why = format!("there is room for {room} {what}, and there are {}", values.len());
        return Err(MpiError::new(Class::ARG, why));
    }
    // SAFETY: as the caller promises.
    unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    Ok(())
}

pub unsafe fn type_get_contents<A: Abi>(
    mpi: &Mpi,
    handle: c_int,
    max_integers: c_int,
    max_addresses: c_int,
    max_types: c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    types: *mut c_int,
) -> Result<()> {
    let [_, _, large, _] = mpi.type_get_envelope(datatype(handle))?.0;
    if large > 0 {
        let why = "the datatype was made with large counts; ask with MPI_Type_get_contents_c";
        return Err(MpiError::new(Class::TYPE, why));
    }
    let limits = [max_integers.into(), max_addresses.into(), 0, max_types.into()];
    // SAFETY: the caller's arrays; the one of counts stays empty.
    unsafe { contents::<A>(mpi, handle, limits, integers, addresses, core::ptr::null_mut(), types) }
}

pub unsafe fn type_get_contents_c<A: Abi>(
    mpi: &Mpi,
    handle: c_int,
    max_integers: i64,
    max_addresses: i64,
    max_counts: i64,
    max_types: i64,
    integers: *mut c_int,
    addresses: *mut isize,
    counts: *mut i64,
    types: *mut c_int,
) -> Result<()> {
    let limits = [max_integers, max_addresses, max_counts, max_types];
    // SAFETY: the caller's arrays.
    unsafe { contents::<A>(mpi, handle, limits, integers, addresses, counts, types) }
}

/// Writes the arguments that made a type.
unsafe fn contents<A: Abi>(
    mpi: &Mpi,
    handle: c_int,
    limits: [i64; 4],
    integers: *mut c_int,
    addresses: *mut isize,
    counts: *mut i64,
    types: *mut c_int,
) -> Result<()> {
    // Handles that nobody could free are not made: the room for them is checked first.
    let parts = mpi.type_get_envelope(datatype(handle))?.0[3];
    if limits[3] < parts {
        let why = format!("there is room for {} datatypes, and there are {parts}", limits[3]);
        return Err(MpiError::new(Class::ARG, why));
    }
    let combiner = mpi.type_get_envelope(datatype(handle))?.1 as c_int;
    let (mut found, parts) = mpi.type_get_contents(datatype(handle))?;
    A::contents(combiner, &mut found.integers);
    // SAFETY: the caller's arrays; an address is a 64-bit number.
    unsafe {
        fill("integers", integers, limits[0], &found.integers)?;
        fill("addresses", addresses.cast::<i64>(), limits[1], &found.addresses)?;
        fill("counts", counts, limits[2], &found.counts)?;
        fill("datatypes", types.cast::<Datatype>(), limits[3], &parts)
    }
}

pub unsafe fn type_get_name(mpi: &Mpi, handle: c_int, name: *mut c_char, length: *mut c_int) -> Result<()> {
    let found = mpi.type_get_name(datatype(handle))?;
    // SAFETY: the standard wants room for so many bytes, and for the length.
    unsafe { put_text(name, OBJECT_NAME, &found).and_then(|written| put(length, written as i64)) }
}

pub unsafe fn get_count(mpi: &Mpi, at: *const MpiStatus, handle: c_int, count: OutCount) -> Result<()> {
    // SAFETY: the caller's status and memory.
    unsafe { count.put_or_undefined(mpi.get_count(&status(at)?, datatype(handle))?) }
}

pub unsafe fn get_elements(mpi: &Mpi, at: *const MpiStatus, handle: c_int, count: OutCount) -> Result<()> {
    // SAFETY: the caller's status and memory.
    unsafe { count.put_or_undefined(mpi.get_elements(&status(at)?, datatype(handle))?) }
}

pub unsafe fn get_elements_x(mpi: &Mpi, at: *const MpiStatus, handle: c_int, count: OutCount) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { get_elements(mpi, at, handle, count) }
}

/// Sets the length of a status to so many elements.
pub unsafe fn status_set_elements(mpi: &Mpi, at: *mut MpiStatus, handle: c_int, count: i64) -> Result<()> {
    let size = mpi.type_size(datatype(handle))?;
    let bytes = if count == i64::from(consts::UNDEFINED) { 0 } else { size.saturating_mul(count) };
    // SAFETY: the caller's status.
    unsafe { change(at, |status: &mut Status| status.count_bytes = bytes) }
}

pub unsafe fn status_set_elements_x(mpi: &Mpi, at: *mut MpiStatus, handle: c_int, count: i64) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { status_set_elements(mpi, at, handle, count) }
}

/// The names of MPI-1.
pub unsafe fn type_hvector(
    mpi: &Mpi,
    count: c_int,
    blocklen: c_int,
    stride: i64,
    old: c_int,
    new: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { type_create_hvector(mpi, count.into(), blocklen.into(), stride, old, new, false) }
}

pub unsafe fn type_hindexed(
    mpi: &Mpi,
    count: c_int,
    blocklens: *mut c_int,
    displs: *mut isize,
    old: c_int,
    new: *mut c_int,
) -> Result<()> {
    let (blocklens, displs) = (Counts::from(blocklens.cast_const()), Counts::from(displs.cast_const()));
    // SAFETY: as the caller promises.
    unsafe { type_create_hindexed(mpi, count.into(), blocklens, displs, old, new, false) }
}

pub unsafe fn type_struct(
    mpi: &Mpi,
    count: c_int,
    blocklens: *mut c_int,
    displs: *mut isize,
    types: *mut c_int,
    new: *mut c_int,
) -> Result<()> {
    let (blocklens, displs) = (Counts::from(blocklens.cast_const()), Counts::from(displs.cast_const()));
    // SAFETY: as the caller promises.
    unsafe { type_create_struct(mpi, count.into(), blocklens, displs, types.into(), new, false) }
}

pub unsafe fn type_extent(mpi: &Mpi, handle: c_int, extent: OutCount) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe { extent.put(mpi.type_get_extent(datatype(handle))?.1) }
}

pub unsafe fn type_lb(mpi: &Mpi, handle: c_int, bound: OutCount) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe { bound.put(mpi.type_get_extent(datatype(handle))?.0) }
}

pub unsafe fn type_ub(mpi: &Mpi, handle: c_int, bound: OutCount) -> Result<()> {
    let (lb, extent) = mpi.type_get_extent(datatype(handle))?;
    // SAFETY: the caller's memory.
    unsafe { bound.put(lb + extent) }
}

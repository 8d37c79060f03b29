//! Collective operations with arrays of counts, in their three forms.

use core::ffi::{c_int, c_void};

use netmod_mpi::datatype::Blocks;
use netmod_mpi::handle::{Comm, Datatype, Info, Op};
use netmod_mpi::{Mpi, Result};

use crate::convert::{Counts, Pointer, Types, buffer, put};

/// Returns blocks of `n` processes.
///
/// # Safety
/// The arrays have `n` numbers, or are NULL; the memory is that of the blocks.
pub(super) unsafe fn blocks(
    at: impl Pointer,
    counts: Counts,
    displs: Counts,
    datatype: c_int,
    n: usize,
) -> Blocks {
    let Some(at) = at.unless_in_place() else { return Blocks::in_place() };
    // SAFETY: as the caller promises.
    unsafe { Blocks::new(at, counts.take(n), displs.take(n), Datatype(datatype as u32)) }
}

/// Returns blocks of `n` processes with a type each.
///
/// # Safety
/// As for [`blocks`].
pub(super) unsafe fn typed_blocks(
    at: impl Pointer,
    counts: Counts,
    displs: Counts,
    types: Types,
    n: usize,
) -> Blocks {
    let Some(at) = at.unless_in_place() else { return Blocks::in_place() };
    // SAFETY: as the caller promises.
    unsafe { Blocks::of_types(at, counts.take(n), displs.take(n), types.take(n)) }
}

/// The blocking, the nonblocking and the persistent form of an operation, whose arguments may need
/// a number of blocks.
macro_rules! forms {
    ($($name:ident $start:ident $make:ident ($($argument:ident: $type:ty),*) |$mpi:ident, $comm:ident| $($n:ident = $number:expr;)? [$($passed:expr),*];)*) => {
        $(
            pub unsafe fn $name($mpi: &Mpi, $($argument: $type,)* comm: c_int) -> Result<()> {
                let $comm = Comm(comm as u32);
                $(let $n = $number;)?
                // SAFETY: the caller's buffers and arrays.
                unsafe { $mpi.$name($($passed,)* $comm) }
            }

            pub unsafe fn $start(
                $mpi: &Mpi,
                $($argument: $type,)*
                comm: c_int,
                request: *mut c_int,
            ) -> Result<()> {
                let $comm = Comm(comm as u32);
                $(let $n = $number;)?
                // SAFETY: the caller's buffers, arrays and memory.
                unsafe { put(request, $mpi.$start($($passed,)* $comm)?) }
            }

            pub unsafe fn $make(
                $mpi: &Mpi,
                $($argument: $type,)*
                comm: c_int,
                info: c_int,
                request: *mut c_int,
            ) -> Result<()> {
                let $comm = Comm(comm as u32);
                $(let $n = $number;)?
                // SAFETY: the caller's buffers, arrays and memory.
                unsafe { put(request, $mpi.$make($($passed,)* $comm, Info(info as u32))?) }
            }
        )*
    };
}
pub(super) use forms;

forms! {
    gatherv igatherv gatherv_init(
        from: *const c_void, count: i64, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int,
        root: c_int
    ) |mpi, comm| n = mpi.comm_blocks(comm, Some(root))?; [
        buffer(from, count, sent),
        blocks(into, counts, displs, received, n),
        root
    ];
    scatterv iscatterv scatterv_init(
        from: *const c_void, counts: Counts, displs: Counts, sent: c_int,
        into: *mut c_void, count: i64, received: c_int,
        root: c_int
    ) |mpi, comm| n = mpi.comm_blocks(comm, Some(root))?; [
        blocks(from, counts, displs, sent, n),
        buffer(into, count, received),
        root
    ];
    allgatherv iallgatherv allgatherv_init(
        from: *const c_void, count: i64, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| n = mpi.comm_blocks(comm, None)?; [
        buffer(from, count, sent),
        blocks(into, counts, displs, received, n)
    ];
    alltoallv ialltoallv alltoallv_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| n = mpi.comm_blocks(comm, None)?; [
        blocks(from, sendcounts, senddispls, sent, n),
        blocks(into, counts, displs, received, n)
    ];
    alltoallw ialltoallw alltoallw_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: Types,
        into: *mut c_void, counts: Counts, displs: Counts, received: Types
    ) |mpi, comm| n = mpi.comm_blocks(comm, None)?; [
        typed_blocks(from, sendcounts, senddispls, sent, n),
        typed_blocks(into, counts, displs, received, n)
    ];
    // The counts say how many elements both buffers have.
    reduce_scatter ireduce_scatter reduce_scatter_init(
        from: *const c_void, into: *mut c_void, counts: Counts, datatype: c_int, op: c_int
    ) |mpi, comm| [
        buffer(from, 0, datatype),
        buffer(into, 0, datatype),
        &counts.take(mpi.comm_size(comm)? as usize),
        Op(op as u32)
    ];
}

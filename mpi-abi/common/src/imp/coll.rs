//! Collective operations with arrays of counts, in their three forms.

use core::ffi::{c_int, c_void};

use netmod_mpi::consts::ROOT;
use netmod_mpi::datatype::Blocks;
use netmod_mpi::handle::{Comm, Datatype, Info, Op};
use netmod_mpi::{Mpi, Result};

use crate::convert::{Counts, Pointer, Types, buffer, put};

/// Returns the number of processes that have blocks: those of the other group of an
/// intercommunicator.
fn peers(mpi: &Mpi, comm: Comm) -> Result<usize> {
    let size = if mpi.comm_test_inter(comm)? { mpi.comm_remote_size(comm)? } else { mpi.comm_size(comm)? };
    Ok(size as usize)
}

/// Returns true at the process that gathers or scatters. Only there the arrays mean something.
fn is_root(mpi: &Mpi, comm: Comm, root: c_int) -> Result<bool> {
    Ok(if mpi.comm_test_inter(comm)? { root == ROOT } else { mpi.comm_rank(comm)? == root })
}

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
    unsafe { Blocks::new(at, &counts.take(n), &displs.take(n), Datatype(datatype as u32)) }
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
    unsafe { Blocks::of_types(at, &counts.take(n), &displs.take(n), &types.take(n)) }
}

/// Returns the blocks of the root, and none elsewhere.
///
/// # Safety
/// As for [`blocks`], at the root.
unsafe fn blocks_at_root(
    mpi: &Mpi,
    (comm, root): (Comm, c_int),
    at: impl Pointer,
    (counts, displs): (Counts, Counts),
    datatype: c_int,
) -> Result<Blocks> {
    let n = if is_root(mpi, comm, root)? { peers(mpi, comm)? } else { 0 };
    // SAFETY: as the caller promises; elsewhere the arrays are not read.
    Ok(unsafe { blocks(at, counts, displs, datatype, n) })
}

/// The blocking, the nonblocking and the persistent form of an operation.
macro_rules! forms {
    ($($name:ident $start:ident $make:ident ($($argument:ident: $type:ty),*) |$mpi:ident, $comm:ident| [$($passed:expr),*];)*) => {
        $(
            pub unsafe fn $name($mpi: &Mpi, $($argument: $type,)* comm: c_int) -> Result<()> {
                let $comm = Comm(comm as u32);
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
    ) |mpi, comm| [
        buffer(from, count, sent),
        blocks_at_root(mpi, (comm, root), into, (counts, displs), received)?,
        root
    ];
    scatterv iscatterv scatterv_init(
        from: *const c_void, counts: Counts, displs: Counts, sent: c_int,
        into: *mut c_void, count: i64, received: c_int,
        root: c_int
    ) |mpi, comm| [
        blocks_at_root(mpi, (comm, root), from, (counts, displs), sent)?,
        buffer(into, count, received),
        root
    ];
    allgatherv iallgatherv allgatherv_init(
        from: *const c_void, count: i64, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| [
        buffer(from, count, sent),
        blocks(into, counts, displs, received, peers(mpi, comm)?)
    ];
    alltoallv ialltoallv alltoallv_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| [
        blocks(from, sendcounts, senddispls, sent, peers(mpi, comm)?),
        blocks(into, counts, displs, received, peers(mpi, comm)?)
    ];
    alltoallw ialltoallw alltoallw_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: Types,
        into: *mut c_void, counts: Counts, displs: Counts, received: Types
    ) |mpi, comm| [
        typed_blocks(from, sendcounts, senddispls, sent, peers(mpi, comm)?),
        typed_blocks(into, counts, displs, received, peers(mpi, comm)?)
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

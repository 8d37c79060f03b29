//! Collective operations of neighbours with arrays of counts.

use core::ffi::{c_int, c_void};

use netmod_mpi::consts::{CART, DIST_GRAPH};
use netmod_mpi::handle::{Comm, Info};
use netmod_mpi::{Mpi, Result};

use super::coll::{blocks, forms, typed_blocks};
use crate::convert::{Counts, Types, buffer, put};

/// Returns how many neighbours a process receives from, and how many it sends to.
fn degrees(mpi: &Mpi, comm: Comm) -> Result<(usize, usize)> {
    Ok(match mpi.topo_test(comm)? {
        CART => {
            let both = 2 * mpi.cartdim_get(comm)? as usize;
            (both, both)
        }
        DIST_GRAPH => {
            let graph = mpi.dist_graph_neighbors(comm)?;
            (graph.sources.len(), graph.destinations.len())
        }
        // A communicator without a topology is an error of the call.
        _ => {
            let both = mpi.graph_neighbors_count(comm, mpi.comm_rank(comm)?)? as usize;
            (both, both)
        }
    })
}

forms! {
    neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init(
        from: *const c_void, count: i64, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| degrees = degrees(mpi, comm)?; [
        buffer(from, count, sent),
        blocks(into, counts, displs, received, degrees.0)
    ];
    neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: c_int,
        into: *mut c_void, counts: Counts, displs: Counts, received: c_int
    ) |mpi, comm| degrees = degrees(mpi, comm)?; [
        blocks(from, sendcounts, senddispls, sent, degrees.1),
        blocks(into, counts, displs, received, degrees.0)
    ];
    neighbor_alltoallw ineighbor_alltoallw neighbor_alltoallw_init(
        from: *const c_void, sendcounts: Counts, senddispls: Counts, sent: Types,
        into: *mut c_void, counts: Counts, displs: Counts, received: Types
    ) |mpi, comm| degrees = degrees(mpi, comm)?; [
        typed_blocks(from, sendcounts, senddispls, sent, degrees.1),
        typed_blocks(into, counts, displs, received, degrees.0)
    ];
}

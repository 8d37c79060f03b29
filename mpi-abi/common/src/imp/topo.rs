//! Topologies: arrays of dimensions, coordinates and neighbours.

use core::ffi::c_int;

use netmod_mpi::handle::{Comm, Info};
use netmod_mpi::{Class, Mpi, MpiError, Result};

use super::group::length;
use crate::convert::{put, slice};
use crate::weights::is_unweighted;

fn comm(handle: c_int) -> Comm {
    Comm(handle as u32)
}

/// Returns an array of C's truth values.
///
/// # Safety
/// It has `n` numbers, or is NULL.
unsafe fn truths(at: *const c_int, n: usize) -> Vec<bool> {
    // SAFETY: as the caller promises.
    unsafe { slice(at, n) }.iter().map(|value| *value != 0).collect()
}

/// Writes as many numbers as there is room for.
///
/// # Safety
/// The array has room for `room` numbers.
unsafe fn fill(to: *mut c_int, room: c_int, values: impl IntoIterator<Item = c_int>) {
    let room = usize::try_from(room).unwrap_or(0);
    for (at, value) in values.into_iter().take(room).enumerate() {
        // SAFETY: as the caller promises.
        unsafe { to.wrapping_add(at).write(value) };
    }
}

pub unsafe fn dims_create(mpi: &Mpi, nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    let n = length(ndims)?;
    if n == 0 {
        return mpi.dims_create(nnodes, &mut []);
    }
    if dims.is_null() {
        return Err(MpiError::new(Class::ARG, format!("the array of {n} dimensions is NULL")));
    }
    // SAFETY: the caller's array, which only this call uses.
    mpi.dims_create(nnodes, unsafe { core::slice::from_raw_parts_mut(dims, n) })
}

pub unsafe fn cart_create(
    mpi: &Mpi,
    old: c_int,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    new: *mut c_int,
) -> Result<()> {
    let n = length(ndims)?;
    // SAFETY: the caller's arrays and memory.
    unsafe { put(new, mpi.cart_create(comm(old), slice(dims, n), &truths(periods, n), reorder != 0)?) }
}

pub unsafe fn cart_map(
    mpi: &Mpi,
    old: c_int,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    rank: *mut c_int,
) -> Result<()> {
    let n = length(ndims)?;
    // SAFETY: the caller's arrays and memory.
    unsafe { put(rank, mpi.cart_map(comm(old), slice(dims, n), &truths(periods, n))?) }
}

pub unsafe fn cart_get(
    mpi: &Mpi,
    cart: c_int,
    room: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    let (sizes, wraps, here) = mpi.cart_get(comm(cart))?;
    // SAFETY: the caller's arrays.
    unsafe {
        fill(dims, room, sizes);
        fill(periods, room, wraps.into_iter().map(c_int::from));
        fill(coords, room, here);
    }
    Ok(())
}

pub unsafe fn cart_rank(mpi: &Mpi, cart: c_int, coords: *const c_int, rank: *mut c_int) -> Result<()> {
    let n = length(mpi.cartdim_get(comm(cart))?)?;
    // SAFETY: the caller's array, with as many numbers as there are dimensions, and memory.
    unsafe { put(rank, mpi.cart_rank(comm(cart), slice(coords, n))?) }
}

pub unsafe fn cart_coords(
    mpi: &Mpi,
    cart: c_int,
    rank: c_int,
    room: c_int,
    coords: *mut c_int,
) -> Result<()> {
    let found = mpi.cart_coords(comm(cart), rank)?;
    // SAFETY: the caller's array.
    unsafe { fill(coords, room, found) };
    Ok(())
}

pub unsafe fn cart_sub(mpi: &Mpi, cart: c_int, remain: *const c_int, new: *mut c_int) -> Result<()> {
    let n = length(mpi.cartdim_get(comm(cart))?)?;
    // SAFETY: the caller's array, with as many numbers as there are dimensions, and memory.
    unsafe { put(new, mpi.cart_sub(comm(cart), &truths(remain, n))?) }
}

/// Returns the arrays of a graph: the ends of the neighbours of each node, and the neighbours.
///
/// # Safety
/// The arrays are those of a graph of `nnodes` nodes.
unsafe fn graph<'a>(
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<(&'a [c_int], &'a [c_int])> {
    // SAFETY: as the caller promises: the last end is the number of edges.
    unsafe {
        let index = slice(index, length(nnodes)?);
        let count = index.last().copied().unwrap_or(0);
        Ok((index, slice(edges, length(count)?)))
    }
}

pub unsafe fn graph_create(
    mpi: &Mpi,
    old: c_int,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    new: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let (index, edges) = graph(nnodes, index, edges)?;
        put(new, mpi.graph_create(comm(old), index, edges, reorder != 0)?)
    }
}

pub unsafe fn graph_map(
    mpi: &Mpi,
    old: c_int,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    rank: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let (index, edges) = graph(nnodes, index, edges)?;
        put(rank, mpi.graph_map(comm(old), index, edges)?)
    }
}

pub unsafe fn graph_get(
    mpi: &Mpi,
    handle: c_int,
    max_index: c_int,
    max_edges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    let (ends, neighbours) = mpi.graph_get(comm(handle))?;
    // SAFETY: the caller's arrays.
    unsafe {
        fill(index, max_index, ends);
        fill(edges, max_edges, neighbours);
    }
    Ok(())
}

pub unsafe fn graph_neighbors(
    mpi: &Mpi,
    handle: c_int,
    rank: c_int,
    room: c_int,
    neighbours: *mut c_int,
) -> Result<()> {
    let found = mpi.graph_neighbors(comm(handle), rank)?;
    // SAFETY: the caller's array.
    unsafe { fill(neighbours, room, found) };
    Ok(())
}

/// Returns the weights of so many edges; `None` if the program gave `MPI_UNWEIGHTED`.
///
/// # Safety
/// The array has `n` numbers, or is one of the addresses with a meaning.
unsafe fn weights<'a>(at: *const c_int, n: usize) -> Option<&'a [c_int]> {
    if is_unweighted(at) {
        return None;
    }
    // SAFETY: as the caller promises; without edges nothing is read.
    Some(unsafe { slice(at, n) })
}

pub unsafe fn dist_graph_create_adjacent(
    mpi: &Mpi,
    old: c_int,
    indegree: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    info: c_int,
    reorder: c_int,
    new: *mut c_int,
) -> Result<()> {
    let (incoming, outgoing) = (length(indegree)?, length(outdegree)?);
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let both = weights(source_weights, incoming).zip(weights(destination_weights, outgoing));
        let (from, to) = (slice(sources, incoming), slice(destinations, outgoing));
        let made =
            mpi.dist_graph_create_adjacent(comm(old), from, to, both, Info(info as u32), reorder != 0)?;
        put(new, made)
    }
}

pub unsafe fn dist_graph_create(
    mpi: &Mpi,
    old: c_int,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    edge_weights: *const c_int,
    info: c_int,
    reorder: c_int,
    new: *mut c_int,
) -> Result<()> {
    let n = length(n)?;
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let degrees = slice(degrees, n);
        let mut edges = 0;
        for degree in degrees {
            edges += length(*degree)?;
        }
        let lists = (slice(sources, n), degrees, slice(destinations, edges));
        let weights = weights(edge_weights, edges);
        put(new, mpi.dist_graph_create(comm(old), lists, weights, Info(info as u32), reorder != 0)?)
    }
}

pub unsafe fn dist_graph_neighbors_count(
    mpi: &Mpi,
    handle: c_int,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    let graph = mpi.dist_graph_neighbors(comm(handle))?;
    // SAFETY: the caller's memory.
    unsafe {
        put(indegree, graph.sources.len() as i32)?;
        put(outdegree, graph.destinations.len() as i32)?;
        put(weighted, graph.weights.is_some())
    }
}

pub unsafe fn dist_graph_neighbors(
    mpi: &Mpi,
    handle: c_int,
    max_in: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    max_out: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> Result<()> {
    let graph = mpi.dist_graph_neighbors(comm(handle))?;
    // SAFETY: the caller's arrays; those of weights may be the address of a graph without.
    unsafe {
        fill(sources, max_in, graph.sources);
        fill(destinations, max_out, graph.destinations);
        if let Some((incoming, outgoing)) = graph.weights {
            if !is_unweighted(source_weights) {
                fill(source_weights, max_in, incoming);
            }
            if !is_unweighted(destination_weights) {
                fill(destination_weights, max_out, outgoing);
            }
        }
    }
    Ok(())
}

//! MPI's functions of topologies.
//!
//! Ranks are never reordered: a process keeps its place, since the order of the job is that of the
//! nodes.

use std::sync::Arc;

use super::neighbours::none;
use super::{Cart, DistGraph, Graph, Topology};
use crate::consts::{CART, DIST_GRAPH, GRAPH, UNDEFINED};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info};
use crate::instance::Mpi;
use crate::objects::Objects;

impl Objects {
    /// Gives a communicator the topology of another one.
    ///
    /// # Errors
    /// A bad handle.
    pub(crate) fn copy_topology(&mut self, from: Comm, to: Comm) -> Result<()> {
        let topology = self.comms.get(from)?.topology.clone();
        self.comms.get_mut(to)?.topology = topology;
        Ok(())
    }

    fn topology(&self, comm: Comm) -> Result<Option<&Topology>> {
        Ok(self.comms.get(comm)?.topology.as_deref())
    }

    fn cart(&self, comm: Comm) -> Result<&Cart> {
        match self.topology(comm)? {
            Some(Topology::Cart(cart)) => Ok(cart),
            _ => Err(none(self, comm)),
        }
    }

    fn graph(&self, comm: Comm) -> Result<&Graph> {
        match self.topology(comm)? {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(none(self, comm)),
        }
    }

    fn dist_graph(&self, comm: Comm) -> Result<&DistGraph> {
        match self.topology(comm)? {
            Some(Topology::DistGraph(graph)) => Ok(graph),
            _ => Err(none(self, comm)),
        }
    }
}

impl Mpi {
    fn set_topology(&self, comm: Comm, topology: Topology) -> Result<()> {
        self.with(|s| {
            s.objects.comms.get_mut(comm)?.topology = Some(Arc::new(topology));
            Ok(())
        })
    }

    /// Makes a communicator of the first `nodes` processes with a topology; null elsewhere.
    fn first_with(&self, comm: Comm, nodes: usize, topology: Topology) -> Result<Comm> {
        let rank = self.comm_rank(comm)?;
        let color = if (rank as usize) < nodes { 0 } else { UNDEFINED };
        let new = self.comm_split(comm, color, rank)?;
        if !new.is_null() {
            self.set_topology(new, topology)?;
        }
        Ok(new)
    }

    /// Makes a communicator with a Cartesian grid (`MPI_Cart_create`); null for processes that are
    /// not in it.
    ///
    /// # Errors
    /// A bad handle or grid; as [`Mpi::comm_split`].
    pub fn cart_create(&self, comm: Comm, dims: &[i32], periods: &[bool], _reorder: bool) -> Result<Comm> {
        let size = self.with(|s| Ok(s.objects.comms.intra_core(comm)?.size()))?;
        let cart = Cart::new(dims, periods, size as usize)?;
        let cells = cart.cells() as usize;
        self.first_with(comm, cells, Topology::Cart(cart))
    }

    /// Returns the number of dimensions (`MPI_Cartdim_get`).
    ///
    /// # Errors
    /// A bad handle; no grid.
    pub fn cartdim_get(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(s.objects.cart(comm)?.dims.len() as i32))
    }

    /// Returns dimensions, periods and the coordinates of this process (`MPI_Cart_get`).
    ///
    /// # Errors
    /// A bad handle; no grid.
    pub fn cart_get(&self, comm: Comm) -> Result<(Vec<i32>, Vec<bool>, Vec<i32>)> {
        self.with(|s| {
            let (cart, rank) = (s.objects.cart(comm)?, s.objects.comms.core(comm)?.rank());
            Ok((cart.dims.clone(), cart.periods.clone(), cart.coords(rank.cast_signed())?))
        })
    }

    /// Returns the rank at coordinates (`MPI_Cart_rank`).
    ///
    /// # Errors
    /// A bad handle; no grid; coordinates outside of it.
    pub fn cart_rank(&self, comm: Comm, coords: &[i32]) -> Result<i32> {
        self.with(|s| s.objects.cart(comm)?.rank(coords))
    }

    /// Returns the coordinates of a rank (`MPI_Cart_coords`).
    ///
    /// # Errors
    /// A bad handle or rank; no grid.
    pub fn cart_coords(&self, comm: Comm, rank: i32) -> Result<Vec<i32>> {
        self.with(|s| s.objects.cart(comm)?.coords(rank))
    }

    /// Returns source and destination of a shift (`MPI_Cart_shift`).
    ///
    /// # Errors
    /// A bad handle or direction; no grid.
    pub fn cart_shift(&self, comm: Comm, direction: i32, disp: i32) -> Result<(i32, i32)> {
        self.with(|s| {
            let rank = s.objects.comms.core(comm)?.rank();
            s.objects.cart(comm)?.shift(rank.cast_signed(), direction, disp)
        })
    }

    /// Makes the communicators of a grid's slices (`MPI_Cart_sub`). A grid without dimensions has
    /// one cell, as if it was made by [`Mpi::cart_create`]: null but at the process of rank 0.
    ///
    /// # Errors
    /// A bad handle; no grid; too few flags; as [`Mpi::comm_split`].
    pub fn cart_sub(&self, comm: Comm, remain: &[bool]) -> Result<Comm> {
        let (slice, which, place) = self.with(|s| {
            let rank = s.objects.comms.core(comm)?.rank();
            s.objects.cart(comm)?.sub(remain, rank.cast_signed())
        })?;
        if slice.dims.is_empty() {
            return self.first_with(comm, 1, Topology::Cart(slice));
        }
        let new = self.comm_split(comm, which, place)?;
        self.set_topology(new, Topology::Cart(slice))?;
        Ok(new)
    }

    /// Returns the rank that this process would have in a grid (`MPI_Cart_map`); undefined outside.
    ///
    /// # Errors
    /// A bad handle or grid.
    pub fn cart_map(&self, comm: Comm, dims: &[i32], periods: &[bool]) -> Result<i32> {
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        let cells = Cart::new(dims, periods, core.size() as usize)?.cells();
        Ok(in_first(core.rank().cast_signed(), cells))
    }

    /// Sets the dimensions that are 0 to a balanced grid (`MPI_Dims_create`).
    ///
    /// # Errors
    /// As [`super::dims_create`].
    pub fn dims_create(&self, nnodes: i32, dims: &mut [i32]) -> Result<()> {
        super::dims_create(nnodes, dims)
    }

    /// Returns the kind of a communicator's topology (`MPI_Topo_test`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn topo_test(&self, comm: Comm) -> Result<i32> {
        self.with(|s| {
            Ok(match s.objects.topology(comm)? {
                None => UNDEFINED,
                Some(Topology::Cart(_)) => CART,
                Some(Topology::Graph(_)) => GRAPH,
                Some(Topology::DistGraph(_)) => DIST_GRAPH,
            })
        })
    }

    /// Makes a communicator with a graph (`MPI_Graph_create`); null for processes outside of it.
    ///
    /// # Errors
    /// A bad handle or graph; as [`Mpi::comm_split`].
    pub fn graph_create(&self, comm: Comm, index: &[i32], edges: &[i32], _reorder: bool) -> Result<Comm> {
        let size = self.with(|s| Ok(s.objects.comms.intra_core(comm)?.size()))?;
        let graph = Graph::new(index, edges, size as usize)?;
        self.first_with(comm, index.len(), Topology::Graph(graph))
    }

    /// Returns the numbers of nodes and edges (`MPI_Graphdims_get`).
    ///
    /// # Errors
    /// A bad handle; no graph.
    pub fn graphdims_get(&self, comm: Comm) -> Result<(i32, i32)> {
        self.with(|s| {
            let graph = s.objects.graph(comm)?;
            Ok((graph.index.len() as i32, graph.edges.len() as i32))
        })
    }

    /// Returns index and edges (`MPI_Graph_get`).
    ///
    /// # Errors
    /// A bad handle; no graph.
    pub fn graph_get(&self, comm: Comm) -> Result<(Vec<i32>, Vec<i32>)> {
        self.with(|s| {
            let graph = s.objects.graph(comm)?;
            Ok((graph.index.clone(), graph.edges.clone()))
        })
    }

    /// Returns the neighbours of a rank (`MPI_Graph_neighbors`).
    ///
    /// # Errors
    /// A bad handle or rank; no graph.
    pub fn graph_neighbors(&self, comm: Comm, rank: i32) -> Result<Vec<i32>> {
        self.with(|s| Ok(s.objects.graph(comm)?.neighbours(rank)?.to_vec()))
    }

    /// Returns the number of neighbours of a rank (`MPI_Graph_neighbors_count`).
    ///
    /// # Errors
    /// A bad handle or rank; no graph.
    pub fn graph_neighbors_count(&self, comm: Comm, rank: i32) -> Result<i32> {
        self.with(|s| Ok(s.objects.graph(comm)?.neighbours(rank)?.len() as i32))
    }

    /// Returns the rank that this process would have in a graph (`MPI_Graph_map`); undefined
    /// outside.
    ///
    /// # Errors
    /// A bad handle or graph.
    pub fn graph_map(&self, comm: Comm, index: &[i32], edges: &[i32]) -> Result<i32> {
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        Graph::new(index, edges, core.size() as usize)?;
        Ok(in_first(core.rank().cast_signed(), index.len() as i32))
    }

    /// Makes a communicator with a graph of which each process gives its own edges
    /// (`MPI_Dist_graph_create_adjacent`).
    ///
    /// # Errors
    /// A bad handle, edge or weight; as [`Mpi::comm_split`].
    pub fn dist_graph_create_adjacent(
        &self,
        comm: Comm,
        sources: &[i32],
        destinations: &[i32],
        weights: Option<(&[i32], &[i32])>,
        _info: Info,
        _reorder: bool,
    ) -> Result<Comm> {
        let size = self.with(|s| Ok(s.objects.comms.intra_core(comm)?.size()))?;
        let graph = DistGraph::new(sources, destinations, weights, size as usize)?;
        self.first_with(comm, size as usize, Topology::DistGraph(graph))
    }

    /// Makes a communicator with a graph of which each process gives any edges: of each of
    /// `sources` so many of `destinations` as `degrees` says (`MPI_Dist_graph_create`).
    ///
    /// # Errors
    /// A bad handle, edge or weight; as [`Mpi::comm_split`].
    pub fn dist_graph_create(
        &self,
        comm: Comm,
        (sources, degrees, destinations): (&[i32], &[i32], &[i32]),
        weights: Option<&[i32]>,
        _info: Info,
        _reorder: bool,
    ) -> Result<Comm> {
        let size = self.with(|s| Ok(s.objects.comms.intra_core(comm)?.size()))? as usize;
        let edges = listed(sources, degrees, destinations, weights)?;
        // The check of each edge, before others wait for this process.
        let ends: (Vec<i32>, Vec<i32>) = edges.iter().map(|e| (e[0], e[1])).unzip();
        let values: Vec<i32> = edges.iter().map(|e| e[2]).collect();
        DistGraph::new(&ends.0, &ends.1, Some((&values[..], &values[..])), size)?;
        let all = self.gather_ints(comm, edges.as_flattened())?;
        let me = self.comm_rank(comm)?;
        let edges: Vec<&[i32; 3]> = all.iter().flat_map(|list| list.as_chunks::<3>().0).collect();
        let of = |end: usize, other: usize| {
            let mine = edges.iter().filter(move |e| e[end] == me);
            mine.map(move |e| (e[other], e[2])).unzip::<i32, i32, Vec<_>, Vec<_>>()
        };
        let (incoming, outgoing) = (of(1, 0), of(0, 1));
        let weights = weights.map(|_| (&incoming.1[..], &outgoing.1[..]));
        let graph = DistGraph::new(&incoming.0, &outgoing.0, weights, size)?;
        self.first_with(comm, size, Topology::DistGraph(graph))
    }

    /// Returns the edges of this process (`MPI_Dist_graph_neighbors` and its `_count`).
    ///
    /// # Errors
    /// A bad handle; no such graph.
    pub fn dist_graph_neighbors(&self, comm: Comm) -> Result<DistGraph> {
        self.with(|s| s.objects.dist_graph(comm).cloned())
    }
}

/// Returns a rank, if it is among the first ones.
fn in_first(rank: i32, n: i32) -> i32 {
    if rank < n { rank } else { UNDEFINED }
}

/// Returns the edges of lists by source: source, destination and weight of each.
fn listed(
    sources: &[i32],
    degrees: &[i32],
    destinations: &[i32],
    weights: Option<&[i32]>,
) -> Result<Vec<[i32; 3]>> {
    let bad = |text: String| MpiError::new(Class::ARG, text);
    if sources.len() != degrees.len() {
        return Err(bad(format!("{} sources and {} degrees", sources.len(), degrees.len())));
    }
    let mut edges = Vec::with_capacity(destinations.len());
    let mut rest = destinations.iter().enumerate();
    for (source, degree) in sources.iter().zip(degrees) {
        let degree = usize::try_from(*degree).map_err(|_| bad(format!("degree {degree} is negative")))?;
        let before = edges.len();
        edges.extend(rest.by_ref().take(degree).map(|(i, to)| {
            // Without weights all are 1.
            [*source, *to, weights.and_then(|w| w.get(i)).copied().unwrap_or(1)]
        }));
        if edges.len() - before < degree {
            return Err(bad(format!("{} destinations are fewer than the degrees say", destinations.len())));
        }
    }
    Ok(edges)
}

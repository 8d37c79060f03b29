//! Topologies: how the processes of a communicator are neighbours.
//!
//! `cart`, `graph` and `dims` are pure; `calls` has MPI's functions.

mod calls;
mod cart;
mod dims;
mod graph;
mod neighbours;

pub use cart::Cart;
pub use dims::dims_create;
pub use graph::{DistGraph, Graph};

use crate::coll::Neighbours;
use crate::error::Result;

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A Cartesian grid.
    Cart(Cart),
    /// A graph that all processes know.
    Graph(Graph),
    /// A graph of which each process knows its edges.
    DistGraph(DistGraph),
}

impl Topology {
    /// Returns the neighbours of a rank, in the order of neighbourhood collectives.
    ///
    /// # Errors
    /// A rank that is not in the topology.
    pub fn neighbours(&self, rank: i32) -> Result<Neighbours> {
        Ok(match self {
            Topology::Cart(cart) => {
                let mut ranks = Vec::with_capacity(2 * cart.dims.len());
                for dim in 0..cart.dims.len() {
                    let (before, behind) = cart.shift(rank, dim as i32, 1)?;
                    ranks.extend([before, behind]);
                }
                // A block that goes back in a dimension comes from the one in front.
                let order = (0..cart.dims.len()).flat_map(|dim| [2 * dim + 1, 2 * dim]).collect();
                Neighbours { sources: ranks.clone(), destinations: ranks, order }
            }
            Topology::Graph(graph) => {
                let ranks = graph.neighbours(rank)?.to_vec();
                let order = (0..ranks.len()).collect();
                Neighbours { sources: ranks.clone(), destinations: ranks, order }
            }
            Topology::DistGraph(graph) => {
                let (sources, destinations) = (graph.sources.clone(), graph.destinations.clone());
                let order = (0..sources.len()).collect();
                Neighbours { sources, destinations, order }
            }
        })
    }
}

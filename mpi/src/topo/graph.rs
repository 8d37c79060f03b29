//! Graphs of processes.

use crate::error::{Class, MpiError, Result};

/// A graph that all processes know (`MPI_Graph_create`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Number of edges of the nodes up to each one.
    pub index: Vec<i32>,
    /// The neighbours of the nodes, one node after the other.
    pub edges: Vec<i32>,
}

/// The edges of one process (`MPI_Dist_graph_create_adjacent`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// Ranks that edges come from.
    pub sources: Vec<i32>,
    /// Ranks that edges go to.
    pub destinations: Vec<i32>,
    /// The weights of both. `None`: all are equal.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

impl Graph {
    /// Creates a graph of the first `index.len()` of `size` processes.
    ///
    /// # Errors
    /// More nodes than processes, an index that decreases or does not fit the edges, or an edge to
    /// a process that is not a node.
    pub fn new(index: &[i32], edges: &[i32], size: usize) -> Result<Graph> {
        let bad = |class, text: String| Err(MpiError::new(class, text));
        let nodes = index.len();
        if nodes > size {
            return bad(Class::ARG, format!("{nodes} nodes for a communicator of {size} processes"));
        }
        let mut before = 0;
        for (i, end) in index.iter().enumerate() {
            if *end < before {
                return bad(Class::ARG, format!("index {i} is {end}, less than {before} before it"));
            }
            before = *end;
        }
        if before as usize != edges.len() {
            return bad(
                Class::ARG,
                format!("the index ends with {before}, but there are {} edges", edges.len()),
            );
        }
        if let Some((i, e)) =
            edges.iter().enumerate().find(|(_, e)| !usize::try_from(**e).is_ok_and(|e| e < nodes))
        {
            return bad(Class::ARG, format!("edge {i} leads to {e}, which is none of the {nodes} nodes"));
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    /// Returns the neighbours of a node.
    ///
    /// # Errors
    /// A rank that is not a node.
    pub fn neighbours(&self, rank: i32) -> Result<&[i32]> {
        let place = usize::try_from(rank).ok().filter(|r| *r < self.index.len());
        let Some(place) = place else {
            let text = format!("rank {rank} is none of the graph's {} nodes", self.index.len());
            return Err(MpiError::new(Class::RANK, text));
        };
        let first = if place == 0 { 0 } else { self.index[place - 1] };
        Ok(&self.edges[first as usize..self.index[place] as usize])
    }
}

impl DistGraph {
    /// Creates the edges of a process among `size`.
    ///
    /// # Errors
    /// An edge to or from a process that does not exist; weights that are not as many as edges, or
    /// negative.
    pub fn new(
        sources: &[i32],
        destinations: &[i32],
        weights: Option<(&[i32], &[i32])>,
        size: usize,
    ) -> Result<DistGraph> {
        let bad = |class, text: String| Err(MpiError::new(class, text));
        for (name, ranks) in [("source", sources), ("destination", destinations)] {
            let wrong = ranks.iter().find(|r| !usize::try_from(**r).is_ok_and(|r| r < size));
            if let Some(r) = wrong {
                return bad(
                    Class::RANK,
                    format!("{name} {r} is not in the communicator, whose size is {size}"),
                );
            }
        }
        if let Some((of_sources, of_destinations)) = weights {
            if of_sources.len() != sources.len() || of_destinations.len() != destinations.len() {
                return bad(Class::ARG, "there are not as many weights as edges".into());
            }
            if let Some(w) = of_sources.iter().chain(of_destinations).find(|w| **w < 0) {
                return bad(Class::ARG, format!("weight {w} is negative"));
            }
        }
        Ok(DistGraph {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            weights: weights.map(|(s, d)| (s.to_vec(), d.to_vec())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_part_of_the_edges() {
        // The example of the standard.
        let g = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], 4).unwrap();
        let all: Vec<&[i32]> = (0..4).map(|r| g.neighbours(r).unwrap()).collect();
        assert_eq!(all, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        assert_eq!(g.neighbours(4).unwrap_err().class, Class::RANK);
    }

    #[test]
    fn bad_graphs_are_refused() {
        let class = |index: &[i32], edges: &[i32]| Graph::new(index, edges, 3).unwrap_err().class;
        assert_eq!(class(&[1, 2, 3, 4], &[0; 4]), Class::ARG);
        assert_eq!(class(&[2, 1], &[0]), Class::ARG);
        assert_eq!(class(&[2], &[0]), Class::ARG);
        assert_eq!(class(&[1, 2], &[0, 2]), Class::ARG);
        let edges = |s: &[i32], d: &[i32], w| DistGraph::new(s, d, w, 3).map_err(|e| e.class);
        assert_eq!(edges(&[3], &[], None), Err(Class::RANK));
        assert_eq!(edges(&[], &[-1], None), Err(Class::RANK));
        assert_eq!(edges(&[1], &[], Some((&[][..], &[][..]))), Err(Class::ARG));
        assert_eq!(edges(&[1], &[], Some((&[-1][..], &[][..]))), Err(Class::ARG));
        assert!(edges(&[1, 1], &[2], Some((&[3, 4][..], &[0][..]))).is_ok());
    }
}

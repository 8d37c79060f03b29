//! Settings of collective operations: the algorithm of each.
//!
//! The MPI library has the algorithms; they are named here so that a bad name is an error at the
//! start that says what is allowed.

use netmod_core::config::Kind;
use netmod_core::settings;

/// The operations: their settings, and the values of these.
pub const COLLECTIVES: [(&str, &[&str]); 10] = [
    ("NETMOD_COLL_BARRIER", &["auto", "shared", "leaders", "dissemination"]),
    (
        "NETMOD_COLL_BCAST",
        &["auto", "shared", "leaders", "binomial", "scatter_doubling", "scatter_ring", "circulant"],
    ),
    ("NETMOD_COLL_GATHER", &["auto", "shared", "leaders", "binomial", "linear"]),
    ("NETMOD_COLL_SCATTER", &["auto", "shared", "leaders", "binomial", "linear"]),
    ("NETMOD_COLL_ALLGATHER", &["auto", "shared", "leaders", "doubling", "bruck", "ring", "circulant"]),
    ("NETMOD_COLL_ALLTOALL", &["auto", "shared", "bruck", "scattered", "pairwise"]),
    ("NETMOD_COLL_REDUCE", &["auto", "shared", "leaders", "binomial", "rabenseifner"]),
    (
        "NETMOD_COLL_ALLREDUCE",
        &["auto", "shared", "leaders", "doubling", "rabenseifner", "ring", "circulant"],
    ),
    (
        "NETMOD_COLL_REDUCE_SCATTER",
        &["auto", "shared", "halving", "pairwise", "ring", "circulant", "allreduce"],
    ),
    ("NETMOD_COLL_SCAN", &["auto", "shared", "doubling"]),
];

settings! {
    /// Settings of collective operations.
    CollConfig: "Collective operations" {
        barrier: &'static str = "auto", "NETMOD_COLL_BARRIER", Kind::Choice(COLLECTIVES[0].1),
            "algorithm of MPI_Barrier, the same at all ranks; auto: the best by the model of docs/collectives.md; shared: in shared memory if possible; leaders: parts within nodes and between their leaders, if nodes hold consecutive ranks; others: by messages";
        bcast: &'static str = "auto", "NETMOD_COLL_BCAST", Kind::Choice(COLLECTIVES[1].1),
            "algorithm of MPI_Bcast, likewise: binomial, scatter_doubling, scatter_ring, circulant";
        gather: &'static str = "auto", "NETMOD_COLL_GATHER", Kind::Choice(COLLECTIVES[2].1),
            "algorithm of MPI_Gather: binomial, linear";
        scatter: &'static str = "auto", "NETMOD_COLL_SCATTER", Kind::Choice(COLLECTIVES[3].1),
            "algorithm of MPI_Scatter: binomial, linear";
        allgather: &'static str = "auto", "NETMOD_COLL_ALLGATHER", Kind::Choice(COLLECTIVES[4].1),
            "algorithm of MPI_Allgather and MPI_Allgatherv: doubling, bruck, ring, circulant";
        alltoall: &'static str = "auto", "NETMOD_COLL_ALLTOALL", Kind::Choice(COLLECTIVES[5].1),
            "algorithm of MPI_Alltoall: bruck, scattered, pairwise";
        reduce: &'static str = "auto", "NETMOD_COLL_REDUCE", Kind::Choice(COLLECTIVES[6].1),
            "algorithm of MPI_Reduce: binomial, rabenseifner";
        allreduce: &'static str = "auto", "NETMOD_COLL_ALLREDUCE", Kind::Choice(COLLECTIVES[7].1),
            "algorithm of MPI_Allreduce: doubling, rabenseifner, ring, circulant";
        reduce_scatter: &'static str = "auto", "NETMOD_COLL_REDUCE_SCATTER", Kind::Choice(COLLECTIVES[8].1),
            "algorithm of MPI_Reduce_scatter and MPI_Reduce_scatter_block: halving, pairwise, ring, circulant, allreduce";
        scan: &'static str = "auto", "NETMOD_COLL_SCAN", Kind::Choice(COLLECTIVES[9].1),
            "algorithm of MPI_Scan and MPI_Exscan: doubling";
    }
    check: |_| Ok(())
}

impl CollConfig {
    /// Returns what is set for an operation, by its place among [`COLLECTIVES`].
    pub fn algorithm(&self, operation: usize) -> &'static str {
        let all = [
            self.barrier,
            self.bcast,
            self.gather,
            self.scatter,
            self.allgather,
            self.alltoall,
            self.reduce,
            self.allreduce,
            self.reduce_scatter,
            self.scan,
        ];
        all.get(operation).copied().unwrap_or("auto")
    }
}

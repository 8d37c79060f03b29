//! The algorithms of each operation: their names, and the calls that each can run.

use crate::coll::facts::OpFacts;
use crate::coll::schedule::floor_power;

/// The facts of a call on which its choice depends: the same at all processes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Number of processes.
    pub n: usize,
    /// Bytes: of the message or vector, of one process's block, or of all blocks of a
    /// reduce_scatter.
    pub bytes: usize,
    /// Elements of the vector of a reduction.
    pub count: usize,
    /// Properties of the operation of a reduction.
    pub op: OpFacts,
    /// All blocks have one length and lie in the order of ranks.
    pub uniform: bool,
}

impl Case {
    /// A case without a reduction.
    pub fn moves(n: usize, bytes: usize) -> Case {
        let op = OpFacts { commutative: true, divisible: true };
        Case { n, bytes, count: usize::MAX, op, uniform: true }
    }

    /// A case of a reduction of vectors.
    pub fn reduces(n: usize, bytes: usize, count: usize, op: OpFacts) -> Case {
        Case { n, bytes, count, op, uniform: true }
    }

    /// Returns true if each process may combine a part of the vector, in any order.
    fn may_divide(&self) -> bool {
        self.op.commutative && self.op.divisible && self.count >= floor_power(self.n)
    }
}

/// The collective operations that have a choice, in the order of their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 10] = [
        Operation::Barrier,
        Operation::Bcast,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Alltoall,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::ReduceScatter,
        Operation::Scan,
    ];

    /// The setting that names its algorithm.
    pub fn setting(self) -> &'static str {
        ch3_shim::COLLECTIVES[self as usize].0
    }

    /// The values of that setting: `auto`, the forms, then the algorithms.
    pub fn values(self) -> &'static [&'static str] {
        ch3_shim::COLLECTIVES[self as usize].1
    }

    /// The name on the command line, such as `reduce_scatter`.
    pub fn name(self) -> &'static str {
        self.names()[self as usize]
    }

    fn names(self) -> &'static [&'static str; 10] {
        &[
            "barrier",
            "bcast",
            "gather",
            "scatter",
            "allgather",
            "alltoall",
            "reduce",
            "allreduce",
            "reduce_scatter",
            "scan",
        ]
    }
}

/// The algorithms of one operation.
pub trait Algorithm: Copy + PartialEq + core::fmt::Debug + 'static {
    /// The operation.
    const OPERATION: Operation;
    /// All of them, in the order of the setting's values.
    const ALL: &'static [Self];
    /// One that can run every call.
    const GENERAL: Self;

    /// Its name, and the work that it is from.
    fn told(self) -> (&'static str, &'static str);

    /// Returns true if it can run a call.
    fn can_run(self, case: &Case) -> bool;
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident else $general:ident {
        $($(#[$each:meta])* $alg:ident, $text:literal, $work:literal, $case:pat => $can:expr;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$each])* $alg,)*
        }

        impl Algorithm for $name {
            const OPERATION: Operation = Operation::$name;
            const ALL: &'static [$name] = &[$($name::$alg),*];
            const GENERAL: $name = $name::$general;

            fn told(self) -> (&'static str, &'static str) {
                match self {
                    $($name::$alg => ($text, $work),)*
                }
            }

            fn can_run(self, case: &Case) -> bool {
                match (self, case) {
                    $(($name::$alg, $case) => $can,)*
                }
            }
        }
    )*};
}

algorithms! {
    /// Barrier.
    Barrier else Dissemination {
        /// In round k each process tells the one 2^k behind it.
        Dissemination, "dissemination", "Hensgen, Finkel, Manber 1988", _ => true;
    }
    /// Broadcast.
    Bcast else Binomial {
        /// A binomial tree.
        Binomial, "binomial", "Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// A scatter, then an allgather by doubling.
        ScatterDoubling, "scatter_doubling", "van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005",
            c => c.n.is_power_of_two();
        /// A scatter, then an allgather in a ring.
        ScatterRing, "scatter_ring", "van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// Pieces that follow each other through a circulant graph.
        Circulant, "circulant", "Träff 2025, doi 10.1145/3735139", _ => true;
    }
    /// Gather.
    Gather else Binomial {
        /// A binomial tree.
        Binomial, "binomial", "Thakur, Rabenseifner, Gropp 2005", c => c.uniform;
        /// All to the root at once.
        Linear, "linear", "Thakur, Rabenseifner, Gropp 2005", _ => true;
    }
    /// Scatter.
    Scatter else Binomial {
        /// A binomial tree.
        Binomial, "binomial", "Thakur, Rabenseifner, Gropp 2005", c => c.uniform;
        /// The root to all at once.
        Linear, "linear", "Thakur, Rabenseifner, Gropp 2005", _ => true;
    }
    /// Allgather.
    Allgather else Ring {
        /// Steps that double what each process has.
        Doubling, "doubling", "Thakur, Rabenseifner, Gropp 2005", c => c.n.is_power_of_two();
        /// The same for any number, in rotated order, then a copy.
        Bruck, "bruck", "Bruck, Ho, Kipnis, Upfal, Weathersby 1997", _ => true;
        /// A block goes to the next process in each step.
        Ring, "ring", "Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// Bruck's steps straight into place, in two messages where ranks go around the end.
        Circulant, "circulant", "Träff 2025, doi 10.1145/3735139", c => c.uniform;
    }
    /// All-to-all.
    Alltoall else Scattered {
        /// Blocks travel together, one step for each bit of the distance.
        Bruck, "bruck", "Bruck, Ho, Kipnis, Upfal, Weathersby 1997", c => c.uniform;
        /// All messages at once.
        Scattered, "scattered", "Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// One pair after the other.
        Pairwise, "pairwise", "Thakur, Rabenseifner, Gropp 2005", c => c.uniform;
    }
    /// Reduction to one process.
    Reduce else Binomial {
        /// A binomial tree.
        Binomial, "binomial", "Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// Halving of the vector, then a gather of its parts.
        Rabenseifner, "rabenseifner", "Rabenseifner 1997", c => c.may_divide();
    }
    /// Reduction for all processes.
    Allreduce else Doubling {
        /// Exchanges of whole vectors at doubling distances.
        Doubling, "doubling", "Thakur, Rabenseifner, Gropp 2005", _ => true;
        /// Halving of the vector, then doubling.
        Rabenseifner, "rabenseifner", "Rabenseifner 1997", c => c.may_divide();
        /// Rings of blocks.
        Ring, "ring", "Patarasuk, Yuan 2009", c => c.may_divide();
        /// Circulant reduce_scatter and allgather.
        Circulant, "circulant", "Träff 2024, arXiv 2410.14234", c => c.may_divide();
    }
    /// Reduction whose result is dealt out.
    ReduceScatter else Allreduce {
        /// Halving of the work.
        Halving, "halving", "Thakur, Rabenseifner, Gropp 2005", c => c.op.commutative && c.op.divisible;
        /// One pair after the other.
        Pairwise, "pairwise", "Thakur, Rabenseifner, Gropp 2005",
            c => c.op.commutative && c.op.divisible;
        /// A ring of blocks.
        Ring, "ring", "Patarasuk, Yuan 2009", c => c.op.commutative && c.op.divisible;
        /// Halving distances in a circulant graph.
        Circulant, "circulant", "Träff 2024, arXiv 2410.14234",
            c => c.op.commutative && c.op.divisible;
        /// An allreduce of everything.
        Allreduce, "allreduce", "Thakur, Rabenseifner, Gropp 2005", _ => true;
    }
    /// Scans.
    Scan else Doubling {
        /// Exchanges between groups of doubling size.
        Doubling, "doubling", "Hillis, Steele 1986", _ => true;
    }
}

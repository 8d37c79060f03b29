//! The choice of an algorithm: the one place where it is made.
//!
//! Each operation has a list of algorithms ([`algorithms`]), each with a formula ([`formulas`])
//! over a table of costs ([`costs`]). The choice is the algorithm with the least time. It reads
//! only what is the same at all processes: their number, the bytes, the operation's properties, and
//! what the communicator's processes have agreed on ([`Setting`]).

pub mod algorithms;
pub mod costs;
pub mod explain;
pub mod formulas;
pub mod led;
mod setting;

pub use algorithms::{
    Algorithm, Allgather, Allreduce, Alltoall, Barrier, Bcast, Case, Gather, Operation, Reduce,
    ReduceScatter, Scan, Scatter,
};
pub use costs::{Cost, Machine, PATHS, Path};
pub use formulas::{Formula, best, pieces};
pub use setting::{Forced, Form, Setting};

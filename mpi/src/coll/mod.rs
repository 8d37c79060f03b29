//! Collective operations.
//!
//! Each is a [`Schedule`] that a pure function makes of rank, size, counts and types (one file for
//! each operation, over [`Builder`]); `engine` runs it over anything that carries messages, against
//! the memory of one call. Blocking, nonblocking and persistent forms run the same schedules.
//!
//! An algorithm is chosen by what is the same at all processes: their number, bytes, and the
//! operation's properties.

pub mod allgather;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod blocks;
mod call;
mod calls;
mod engine;
pub mod gather;
mod inter;
mod intra;
mod ints;
mod memory;
mod neighbours;
mod plan;
pub mod reduce;
pub mod scan;
mod schedule;
mod start;
mod task;
#[cfg(test)]
mod tests;

pub use call::{Call, Neighbours, Peers};
pub(crate) use calls::forms;
pub use engine::{Active, Advance, Reducer, Wire};
pub use memory::{Memory, Work};
pub use schedule::{Base, Builder, Data, Elem, Room, Schedule, Step, TypeId};
pub use start::reduce_local;
pub(crate) use task::Running;

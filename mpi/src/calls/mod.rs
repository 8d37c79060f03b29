//! Functions of [`Mpi`](crate::Mpi), a file for each part of MPI.

mod attr;
mod bsend;
mod comm;
mod comm_make;
mod complete;
mod errh;
mod error;
mod greq;
mod group;
mod inter;
mod op;
mod peek;
mod persistent;
mod probe;
mod pt2pt;
mod session;
mod stream;
mod thread;
mod tool;
mod types;

pub(crate) use attr::Attributed;

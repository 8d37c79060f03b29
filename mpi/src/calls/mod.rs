//! Functions of [`Mpi`](crate::Mpi), a file for each part of MPI.

mod attr;
mod bsend;
mod comm;
mod errh;
mod error;
mod group;
mod info;
mod op;
mod probe;
mod pt2pt;
mod session;
mod types;

//! Functions of [`Mpi`](crate::Mpi), a file for each part of MPI.

mod attr;
mod comm;
mod errh;
mod error;
mod group;
mod info;
mod op;
mod pt2pt;
mod types;

//! Functions of [`Mpi`](crate::Mpi) over tables that need nothing else.

mod attr;
mod errh;
mod error;
mod group;
mod info;
mod op;
mod types;

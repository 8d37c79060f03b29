//! `libmpi.so.12`: the MPI library with the binary interface of MPICH.
//!
//! The exported functions are in `entry`, generated from the table `mpi-abi/functions.tsv`, each
//! under its two names. They call the code that all interfaces have in common, which see.
//!
//! Handles and numbers are the library's own, since it uses those of this interface.

#![allow(unsafe_code)]
#![allow(non_snake_case, non_upper_case_globals)]
#![allow(clippy::too_many_arguments)]

mod abi;
mod data;
mod entry;
mod file;
mod prelude;
mod private;

//! `libmpi.so.12`: the MPI library with the binary interface of MPICH.
//!
//! Everything that MPI does is in `netmod-mpi`. Here C's arguments become those of its methods, and
//! its errors become codes and calls of error handlers. The exported functions are in `entry`,
//! generated from the table `mpi-abi/functions.tsv`, each under its two names. What no rule derives
//! from the roles of arguments (callbacks, strings, arrays of handles) is written by hand in `imp`.
//! A function that is not there yet answers that it is not supported, by the error handler.
//!
//! Handles and numbers are the library's own, since it uses those of this interface.

#![allow(unsafe_code)]
#![allow(non_snake_case, non_upper_case_globals)]
#![allow(clippy::too_many_arguments)]

#[macro_use]
mod macros;
mod calls;
mod convert;
mod data;
mod entry;
mod imp;
mod prelude;
mod private;

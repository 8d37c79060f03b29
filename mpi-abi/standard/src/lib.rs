//! `libmpi_abi.so.1`: the MPI library with the binary interface of the standard.
//!
//! The exported functions are in `entry`, generated from the table `mpi-abi/functions.tsv`, each
//! under its two names. They translate their arguments by their roles and call the code that all
//! interfaces have in common, which see.
//!
//! A handle is a pointer here: for a predefined object a number below 1024, else the library's
//! handle, which is never so small. Numbers with a meaning are translated by the tables in
//! `numbers`, statuses and arrays of handles by copies.

#![allow(unsafe_code)]
#![allow(non_snake_case, non_upper_case_globals)]
#![allow(clippy::too_many_arguments)]

mod abi;
mod arrays;
#[rustfmt::skip]
mod classes;
mod codes;
mod convert;
mod entry;
// All that the table has, whether functions need it yet or not.
#[allow(dead_code)]
#[rustfmt::skip]
mod handles;
mod imp;
// The same, both ways of every kind.
#[allow(dead_code)]
#[rustfmt::skip]
mod numbers;
mod prelude;
mod results;

//! The common part of the C interfaces of the MPI library.
//!
//! Everything that MPI does is in `netmod-mpi`. Here C's arguments become those of its methods, and
//! its errors become codes and calls of error handlers. A facade is a shared library with the names
//! of one interface, generated from the table `mpi-abi/functions.tsv` with the [macros](crate) of
//! this crate. What no rule derives from the roles of arguments (callbacks, strings, arrays of
//! handles) is written by hand in [`imp`], once for all facades. A function that is not there yet
//! answers that it is not supported, by the error handler.
//!
//! Handles and numbers here are the library's own: those of MPICH's interface. A facade of another
//! one translates them at the exported functions, and tells by [`Abi`] how functions of the program
//! see them.

#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)]
// Their arguments are those of MPI's functions of these names, whose rules the standard tells.
#![allow(missing_docs, clippy::missing_safety_doc)]

mod abi;
#[macro_use]
mod macros;
pub mod calls;
pub mod convert;
pub mod imp;
mod others;
pub mod weights;

pub use abi::Abi;
pub use netmod_mpi as mpi;

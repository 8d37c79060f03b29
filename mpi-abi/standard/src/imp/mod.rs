//! Functions that are written by hand: those that all interfaces have in common, and this one's.

pub(crate) mod abi;
pub(crate) mod convert;

pub(crate) use netmod_mpi_common::imp::*;

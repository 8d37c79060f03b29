//! Names that the generated files use.

pub(crate) use core::ffi::{c_char, c_int, c_void};

pub(crate) use netmod_mpi::MpiError;
pub(crate) use netmod_mpi::handle::{Comm, Datatype, Errhandler, Group, Info, Keyval, Message, Op, Request};

pub(crate) use crate::calls::{self, Object};
pub(crate) use crate::convert::{Counts, File, Function, MpiStatus, OutCount, buffer, get, look, put, text};
pub(crate) use crate::imp;

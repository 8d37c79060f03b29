//! Names that the generated files use.

pub(crate) use core::ffi::{c_char, c_int, c_void};

pub(crate) use netmod_mpi::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Keyval, Message, Op, Request, Session, Stream, Win,
};
pub(crate) use netmod_mpi_common::calls::{self, Object};
pub(crate) use netmod_mpi_common::convert::{
    CFile, Counts, Function, MpiStatus, OutCount, Types, buffer, get, given, look, put, text,
};
pub(crate) use netmod_mpi_common::{anytime, entry, exported, free, imp, missing};

pub(crate) use crate::abi::Interface;
pub(crate) use crate::file::{OutFile, file_in, file_look};

//! Names that the generated files use.

pub(crate) use core::ffi::{c_char, c_int, c_void};

pub(crate) use netmod_mpi::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Keyval, Message, Op, Request, Session, Win,
};
pub(crate) use netmod_mpi_common::calls::Object;
pub(crate) use netmod_mpi_common::convert::{Counts, Function, OutCount, buffer, get, given, put, text};
pub(crate) use netmod_mpi_common::{anytime, entry, free};

pub(crate) use crate::abi::Interface;
pub(crate) use crate::arrays::{Handles, Ints, OutInts, OutStatuses, types};
pub(crate) use crate::codes::{code_in, code_out};
pub(crate) use crate::convert::{Handle, Memory, Status, Weights, copy_function, displacement_in};
pub(crate) use crate::handles::Kind;
pub(crate) use crate::results::{InStatus, OutBuffer, OutHandle, OutInt, OutStatus};
pub(crate) use crate::{imp, numbers};

//! Names that the generated files use.

pub(crate) use core::ffi::{c_char, c_int, c_void};

pub(crate) use crate::calls;
pub(crate) use crate::convert::{File, Function, MpiStatus, OutCount};
pub(crate) use crate::imp;

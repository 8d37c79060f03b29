//! Functions that are written by hand, by the groups of the table.

pub(crate) mod convert;
pub(crate) mod datatype;
pub(crate) mod env;
pub(crate) mod error;
pub(crate) mod mpix;
pub(crate) mod request;

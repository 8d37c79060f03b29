//! Functions that are written by hand, by the groups of the table.

pub(crate) mod attr;
pub(crate) mod buffer;
pub(crate) mod coll;
pub(crate) mod comm;
pub(crate) mod convert;
pub(crate) mod datatype;
pub(crate) mod env;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod mpix;
pub(crate) mod neighbor;
pub(crate) mod op;
pub(crate) mod request;
pub(crate) mod topo;

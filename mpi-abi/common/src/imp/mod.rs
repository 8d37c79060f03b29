//! Functions that are written by hand, by the groups of the table.

pub mod attr;
pub mod buffer;
pub mod coll;
pub mod comm;
pub mod convert;
pub mod datatype;
pub mod dynamic;
pub mod env;
pub mod error;
pub mod file;
pub mod group;
pub mod info;
pub mod mpix;
pub mod neighbor;
pub mod op;
mod pack;
pub mod partitioned;
pub mod request;
pub mod session;
pub mod tool;
pub mod topo;
pub mod win;

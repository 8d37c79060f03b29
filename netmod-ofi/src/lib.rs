//! The libfabric netmod: messages and one-sided transfers over reliable-datagram endpoints.
//!
//! libfabric is loaded at run time ([`libfabric_sys`]); without it the netmod says what to install.

pub mod conn;
pub mod wire;

/// Its name, as in `NETMOD=ofi`.
pub const NAME: &str = "ofi";

//! The parts of rails that know no netmod: chunks on the wire, registered memory, sharing.

pub(crate) mod reader;
pub(crate) mod regions;
pub(crate) mod share;
#[cfg(test)]
mod share_tests;
pub(crate) mod wire;

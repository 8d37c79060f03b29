//! libfabric's objects, owned: the only part of the crate that calls the library.

pub mod info;

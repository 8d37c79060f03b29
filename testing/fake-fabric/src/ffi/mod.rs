//! The C interface: exported functions, and the functions in the objects' tables.
//!
//! Each call finds the world through its object, locks it, and calls `model`. An object's memory is
//! freed with its world, so that use after close is detected instead of undefined. Errors are
//! positive in the model and negative here.

mod atomic;
mod closed;
mod endpoint;
mod exports;
mod handle;
mod info;
mod posting;
mod resource;
mod worlds;

pub(crate) use exports::{CONTROL, ControlFn};

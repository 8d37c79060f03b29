//! The C interface: what is exported, and the functions in the objects' tables.
//!
//! Each call finds the world through its object, locks it, and leaves the rest to `model`. An object's memory is freed with its world,
//! so that the use of a closed one is noticed and not undefined. Errors are positive in the model and negative here.

mod endpoint;
mod exports;
mod handle;
mod info;
mod resource;
mod worlds;

pub(crate) use exports::{CONTROL, ControlFn};

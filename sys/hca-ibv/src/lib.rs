//! Implements the trait [`Hca`](::hca::Hca) over libibverbs.
//!
//! [`Devices`] is the library, loaded at run time. [`IbvHca`] is a device that it has opened. Each
//! object holds a pointer of the library, keeps alive the objects that must be closed later, and is
//! closed when it is dropped. An object that cannot be closed causes a warning and stays until its
//! device is closed.
//!
//! Work requests and completions are converted in fixed-length arrays on the stack, without
//! allocation. A long list takes several calls.
//!
//! # Requests that are refused
//! Drivers trust requests. A wrong one could make a driver follow a dangling pointer, or read
//! another driver's object as its own. These are refused with `EINVAL`: objects of another device,
//! a datagram without an address handle, reads and atomics with inline data, and posts to a queue
//! pair whose state accepts none.

mod ah;
mod convert;
mod device;
mod devices;
mod error;
mod event;
mod hca;
mod mr;
mod port;
mod post;
mod qp;
mod queue;
mod xrc;

pub use ah::IbvAh;
pub use device::IbvHca;
pub use devices::{Devices, DevicesError};
pub use mr::IbvMr;
pub use qp::IbvQp;
pub use queue::{IbvChannel, IbvCq, IbvSrq};
pub use xrc::IbvXrcd;

//! The trait [`Hca`](::hca::Hca) over libibverbs.
//!
//! [`Devices`] is the library, loaded at run time; [`IbvHca`] a device that was opened by it. Each object is a pointer of the library's
//! that keeps alive what must be closed after it, and is closed when it is dropped; one that does not close is a warning, and stays
//! with the device until that is closed.
//!
//! Work requests and completions are converted on the stack, in arrays of fixed length: nothing is allocated, and a long list
//! goes in several calls.
//!
//! # What is refused here
//! Drivers believe what a request says of itself. So what would make one follow a pointer that is not there, or read another driver's
//! object as its own, is `EINVAL` here: objects of another device, a datagram without address handle, reads and atomics with
//! inline data, and posts to a queue pair whose state takes none.

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
pub use devices::Devices;
pub use hca::IbvHca;
pub use mr::IbvMr;
pub use qp::IbvQp;
pub use queue::{IbvChannel, IbvCq, IbvSrq};
pub use xrc::IbvXrcd;

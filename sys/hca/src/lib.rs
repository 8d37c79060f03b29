//! A host channel adapter (HCA) in terms of InfiniBand verbs: the trait [`Hca`] and its types.
//!
//! There are two implementations: libibverbs, and a simulation. Users are generic over the trait,
//! so calls are static and may be inlined. Posting and polling take slices of plain structs and
//! allocate nothing.
//!
//! Names and numbers are those of the InfiniBand Architecture Specification (volume 1) and of
//! libibverbs' manual pages, which each method names. Numbers that are big-endian on the wire are
//! in host byte order here.
//!
//! # Lifetimes
//! Dropping an object closes it. An object keeps alive whatever libibverbs requires to be closed
//! later: a queue pair keeps its completion queues, shared receive queue and XRC domain; a
//! completion queue keeps its channel; every object keeps the device and protection domain. So
//! objects may be dropped in any order.
//!
//! # Threads
//! An opened device and its objects belong to one thread at a time (`Send`, not `Sync`), as engines
//! do.
//!
//! # Unsafe code
//! [`Hca::register`] is the only unsafe method: it lends memory to the device and to every peer
//! that knows the key. Requests name memory by key, so the device rejects a wrong address or
//! length. Inline data has no key and is borrowed.

mod address;
mod attr;
mod completion;
mod error;
mod event;
mod hca;
mod object;
mod path;
mod qp;
mod work;

pub use address::{AhAttr, Gid, GidEntry, GidKind, GlobalRoute};
pub use attr::{AtomicCap, DeviceAttr, LinkLayer, Mtu, PortAttr, PortState};
pub use completion::{Completed, Completion, Status};
pub use error::{Errno, Error, PostError, errno};
pub use event::AsyncEvent;
pub use hca::{Hca, QpInit, QpKind, XrcdOpen};
pub use object::{Channel, Cq, Mr, Qp, Srq};
pub use path::{AltPath, PathMigState};
pub use qp::{
    Access, ModifyQp, QpCap, QpKindOf, QpNum, QpState, SrqAttr, SrqNum, ToRtr, ToRts, rnr_wait, timeout_wait,
};
pub use work::{Data, Piece, RecvWr, SendFlags, SendOp, SendWr, Sge, To};

#[cfg(test)]
mod tests;

//! A host channel adapter (HCA) as InfiniBand verbs show it: the trait [`Hca`], and what goes through it.
//!
//! There are two kinds of implementations: libibverbs, and a simulation. Users are generic over the trait, so calls are static and
//! may be inlined; posting and polling take slices of plain structs, and neither boxes nor allocates.
//!
//! Numbers and names are those of the InfiniBand Architecture Specification (volume 1) and of the manual pages of libibverbs, which
//! each method names. Numbers that travel in big-endian order are in the order of this host here.
//!
//! # Lifetimes
//! An object is closed when it is dropped, and keeps alive whatever libibverbs wants to be closed later: a queue pair its completion
//! queues, shared receive queue and XRC domain, a completion queue its channel, everything the device and protection domain. So
//! objects may be dropped in any order.
//!
//! # Threads
//! An opened device and its objects belong to one thread at a time (`Send`, not `Sync`), as engines do.
//!
//! # What is unsafe
//! [`Hca::register`] alone: it lends memory to the device and to whoever knows the keys. Requests name memory by keys, so a wrong
//! address or length is the device's error, not undefined behaviour; data without a key (inline) is borrowed.

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
pub use attr::{DeviceAttr, LinkLayer, Mtu, PortAttr, PortState};
pub use completion::{Completed, Completion, Status};
pub use error::{Errno, Error, PostError, errno};
pub use event::AsyncEvent;
pub use hca::{Hca, XrcdOpen};
pub use object::{Channel, Cq, Mr, Qp, Srq};
pub use path::{AltPath, PathMigState};
pub use qp::{
    Access, ModifyQp, QpCap, QpInit, QpKind, QpKindOf, QpNum, QpState, SrqAttr, SrqNum, ToRtr, ToRts,
    rnr_wait, timeout_wait,
};
pub use work::{Data, Piece, RecvWr, SendFlags, SendOp, SendWr, Sge, To};

#[cfg(test)]
mod tests;

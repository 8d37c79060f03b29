//! The netmod contract.
//!
//! This crate defines what a network module ("netmod", in the sense of MPICH's Nemesis) is, and
//! what the layer above may expect of it: virtual connections ([`Vc`]) and their lifecycle,
//! requests, buffers and segments, the [`Netmod`] trait with its supertraits, [`Rma`], and the
//! [`Engine`] that drives a netmod and reassembles packets. It knows no network and no MPI.
//!
//! Source of the interface: the Nemesis network module API of MPICH. `ARCHITECTURE.md` lists the
//! differences and their reasons.

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "netmod needs a 64-bit target: lengths, offsets and addresses of peers are kept in words of that size"
);

pub mod apart;
pub mod buf;
pub mod card;
pub mod completion;
pub mod config;
pub mod copy;
pub mod cpus;
pub mod engine;
pub mod error;
pub mod event;
pub mod files;
pub mod header;
pub mod lifecycle;
pub mod netmod;
pub mod peer;
pub mod pollers;
pub mod processor;
pub mod ranks;
pub mod reply_backoff;
pub mod request;
pub mod rma;
pub mod segment;
pub mod sendq;
pub mod slab;
pub mod state;
pub mod stores;
pub mod tell;
pub mod time;
pub mod vc;

pub use apart::apart;
pub use buf::{IoVec, RecvBuf, RmaBuf, RmaPart, RxBuf, RxBytes, SendBuf};
pub use card::{Card, CardError, CardWriter};
pub use completion::CompletionTable;
pub use cpus::CpuShare;
pub use engine::{DataAvail, Engine, Io, Progress, Upper};
pub use error::{DeviceError, PacketFault, VcError, VcErrorKind};
pub use event::{Event, Events, Seen};
pub use header::{HDR_LEN, Header, NETMOD_FRAME};
pub use netmod::{
    Arm, Break, Checkpoint, Diagnose, DynamicProcesses, Finalize, Module, Netmod, NoCheckpoint,
    NoDynamicProcesses, PollOrder, Refusal, Report, Sent, VcLife,
};
pub use peer::{GroupId, PeerName, RemoteGroup, port_group};
pub use pollers::Pollers;
pub use ranks::RankTable;
pub use reply_backoff::ReplyBackoff;
pub use request::{OnDone, Outcome, Request};
pub use rma::{Ability, Rma, RmaOp, RmaUse};
pub use segment::{Datatype, Run, Segment};
pub use sendq::{Data, Message, SendQueue, WorkList};
pub use slab::{ReqId, SideTable, Slab, VcId};
pub use state::{Core, RecvTarget};
pub use stores::{StoreKind, Stores};
pub use time::Time;
pub use vc::{Vc, VcStats};

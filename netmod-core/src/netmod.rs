//! The netmod contract: what a backend implements.

use std::fmt;
use std::os::fd::RawFd;

use crate::buf::{RxBuf, SendBuf};
use crate::engine::Core;
use crate::error::{DeviceError, VcError};
use crate::event::Events;
use crate::slab::{ReqId, VcId};
use crate::time::Time;

mod checkpoint;
mod diagnose;
mod dynamic;
mod forward;
mod module;
mod vc_life;

pub use checkpoint::{Checkpoint, NoCheckpoint};
pub use diagnose::Diagnose;
pub use dynamic::{DynamicProcesses, NoDynamicProcesses};
pub use module::Module;
pub use vc_life::VcLife;

/// Length of every message header.
pub const HDR_LEN: usize = 32;

/// A message header: opaque to the core and the netmods but for its first byte, see
/// [`NETMOD_FRAME`].
pub type Header = [u8; HDR_LEN];

/// First byte of headers that belong to the netmod itself; the upper layer never uses it.
pub const NETMOD_FRAME: u8 = 0xFF;

/// A set of processes that know each other by rank: a job, or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub [u8; 16]);

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in &self.0[..4] {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

/// Name of a process. The order on names settles what two processes must settle alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PeerName {
    /// Its group.
    pub group: GroupId,
    /// Its rank in the group.
    pub rank: u32,
}

impl fmt::Debug for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.group, self.rank)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of job {:?}", self.rank, self.group)
    }
}

/// A group of another job, as one of its two ends sees it (dynamic processes).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RemoteGroup {
    /// The group at the other end.
    pub id: GroupId,
    /// Number of its processes.
    pub size: u32,
    /// The name by which they know this process.
    pub me: PeerName,
    /// The secret of this meeting and no other: who knows it belongs to one of the two groups.
    pub key: [u8; 32],
}

impl fmt::Debug for RemoteGroup {
    /// All but the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteGroup")
            .field("id", &self.id)
            .field("size", &self.size)
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

/// The group that whoever accepts at a port answers for.
pub fn port_group(port: u64) -> GroupId {
    let mut id = *b"nm-port\0\0\0\0\0\0\0\0\0";
    id[8..].copy_from_slice(&port.to_le_bytes());
    GroupId(id)
}

/// Why a peer that has connected gets no VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This process has finalized, or has no use for that peer.
    NotWanted,
    /// This process has its VC with that peer at another netmod: the two ends have not chosen alike.
    OtherNetmod,
}

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it was handed to the network or copied; the memory is the caller's again.
    Done,
    /// It waits; the request will be finished by the netmod.
    Queued,
}

/// What a poll does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOrder {
    /// Look for incoming bytes, then send what waits.
    InFirst,
    /// Send what waits, then look for incoming bytes.
    OutFirst,
}

/// Whether a caller may block on [`Netmod::wait_fd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Whatever happens from now on makes the descriptor readable.
    Armed,
    /// Something is there already: poll again.
    Busy,
}

/// How far `finalize` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// Poll, and call it again.
    Pending,
    /// Nothing is left: no descriptor, no shared memory, no registration.
    Done,
}

/// A network module: the path of messages. The traits it is built on are the rest of the contract.
///
/// # Rules
/// - No method blocks, and none calls up: what happened is reported by [`Netmod::poll`].
/// - The data path (the sends, `poll` when messages flow) does not allocate, lock, log or read a clock.
/// - Messages of one VC leave and arrive in the order of the calls, and so do requests finish that lend memory.
/// - A failure of one VC leaves the others alone.
/// - [`crate::buf`] says what may be done with lent memory.
pub trait Netmod: Module + VcLife + DynamicProcesses + Checkpoint + Diagnose {
    /// Sends `hdr` and `data` with the caller's request.
    ///
    /// # Errors
    /// If the VC is down; the request is then still the caller's.
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError>;

    /// Sends `hdr` and `data`; makes a request only if they could not go at once.
    ///
    /// # Errors
    /// If the VC is down.
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError>;

    /// Sends `hdr` and what is left of the request's segment.
    ///
    /// # Errors
    /// If the VC is down; the request is then still the caller's.
    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError>;

    /// Takes a queued send back. True if no byte of it had left and none will.
    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool;

    /// Handles a header with [`NETMOD_FRAME`] that arrived on the VC.
    ///
    /// # Errors
    /// What is wrong with it; the VC then goes down.
    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), String>;

    /// Hands everything that was taken and can go now to the network. Cheap when nothing waits.
    ///
    /// Messages for which a send has said that they are done may be staged until the next poll or flush; so the layer
    /// above calls this before it tells its caller that a send is finished. A netmod that stages something says so by
    /// [`Core::note_staged`] (or [`Core::count_queued`]), and says it again here if something is kept back that a later
    /// flush may send. Any thread may call this while no other uses the netmod.
    fn flush(&mut self, core: &mut Core);

    /// Makes progress: a bounded amount of work.
    ///
    /// # Errors
    /// If the netmod as a whole cannot go on.
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError>;

    /// Gets a receive buffer back.
    fn release(&mut self, buf: RxBuf);

    /// The descriptor to wait on; readable when something happened after [`Netmod::arm`].
    fn wait_fd(&self) -> Option<RawFd>;

    /// Prepares for waiting.
    fn arm(&mut self, core: &mut Core) -> Arm;

    /// When the netmod wants to be polled at the latest although nothing arrives.
    fn deadline(&self) -> Option<Time>;
}

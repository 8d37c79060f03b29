//! The netmod contract: the traits that a backend implements.

use std::os::fd::RawFd;

use crate::buf::{RxBuf, SendBuf};
use crate::error::{DeviceError, PacketFault, VcError};
use crate::event::Events;
use crate::header::Header;
use crate::slab::{ReqId, VcId};
use crate::state::Core;
use crate::time::Time;

mod checkpoint;
mod diagnose;
mod dynamic;
mod forward;
mod module;
mod vc_life;

pub use checkpoint::{Checkpoint, NoCheckpoint};
pub use diagnose::{Break, Diagnose, Report};
pub use dynamic::{DynamicProcesses, NoDynamicProcesses};
pub use module::Module;
pub use vc_life::VcLife;

/// The reason why a connecting peer gets no VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This process has finalized, or does not want that peer.
    NotWanted,
    /// This process has its VC with that peer at another netmod: the two ends have not chosen
    /// alike.
    OtherNetmod,
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it was passed to the network or copied; the memory is the caller's again.
    Done,
    /// It is queued; the netmod will finish the request.
    Queued,
}

/// The first step of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOrder {
    /// Receive, then send queued messages.
    InFirst,
    /// Send queued messages, then receive.
    OutFirst,
}

/// The result of [`Netmod::arm`]: whether the caller may block on [`Netmod::wait_fd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Every event from now on makes the descriptor readable.
    Armed,
    /// An event is there already: poll again.
    Busy,
}

/// The progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// Not complete: poll, and call it again.
    Pending,
    /// Complete: no descriptor, shared memory or registration is left.
    Done,
}

/// A network module: the data path. Its supertraits are the rest of the contract.
///
/// # Rules
///
/// - No method blocks, and none calls up: [`Netmod::poll`] reports events.
/// - The data path (the sends, `poll` when messages flow) does not allocate, lock, log or read a
///   clock.
/// - Messages of one VC leave and arrive in the order of the calls, and so do requests that lend
///   memory finish.
/// - A failure of one VC does not affect the others.
///
/// # Safety
///
/// An implementation keeps the contract of lent memory ([`crate::buf`]). It accesses the memory of
/// a send only until it says that it is the caller's again ([`Sent::Done`],
/// [`Core::send_finished`], [`Core::send_failed`], a cancellation, or an error of the call), and
/// that of a receive only while [`Core::recv_target`] returns it. Bytes that it lends stay readable
/// until [`Netmod::release`]. A wrapper without buffers of its own keeps the contract if the
/// wrapped netmod does.
#[allow(unsafe_code)]
pub unsafe trait Netmod: Module + VcLife + DynamicProcesses + Checkpoint + Diagnose {
    /// Sends `hdr` and `data` with the caller's request.
    ///
    /// # Errors
    ///
    /// Fails if the VC is down; the request is then still the caller's.
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError>;

    /// Sends `hdr` and `data`; creates a request only if they cannot go at once.
    ///
    /// # Errors
    ///
    /// Fails if the VC is down.
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError>;

    /// Sends `hdr` and the rest of the request's segment.
    ///
    /// # Errors
    ///
    /// Fails if the VC is down; the request is then still the caller's.
    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError>;

    /// Cancels a queued send. Returns true if none of its bytes was or will be sent.
    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool;

    /// Handles a header with [`NETMOD_FRAME`](crate::NETMOD_FRAME) that arrived on the VC.
    ///
    /// # Errors
    ///
    /// By severity, see [`PacketFault`].
    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), PacketFault>;

    /// Passes all staged data that can go now to the network. Cheap if there is none.
    ///
    /// Messages whose sends have returned [`Sent::Done`] may be staged until the next poll or
    /// flush, so the layer above calls this before it reports a send as finished. A netmod that
    /// stages data calls [`Core::note_staged`] (or [`Core::count_queued`]), and calls it again here
    /// if it keeps data back that a later flush may send. Any thread may call this while no other
    /// uses the netmod.
    fn flush(&mut self, core: &mut Core);

    /// Makes progress: a bounded amount of work.
    ///
    /// # Errors
    ///
    /// Fails if the netmod as a whole cannot continue.
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError>;

    /// Takes a receive buffer back.
    fn release(&mut self, buf: RxBuf);

    /// Returns the descriptor to wait on; readable when an event came after [`Netmod::arm`].
    fn wait_fd(&self) -> Option<RawFd>;

    /// Prepares for waiting.
    fn arm(&mut self, core: &mut Core) -> Arm;

    /// Returns when the netmod must be polled at the latest even if nothing arrives.
    fn deadline(&self) -> Option<Time>;
}

//! The `Netmod` trait: what a backend implements.

use std::borrow::Cow;
use std::fmt;
use std::os::fd::RawFd;

use crate::buf::{RxBuf, SendBuf};
use crate::card::{Card, CardError, CardWriter};
use crate::engine::Core;
use crate::error::{DeviceError, VcError};
use crate::event::Events;
use crate::rma::{Rma, RmaUse};
use crate::slab::{ReqId, VcId};
use crate::time::Time;

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
pub struct MetGroup {
    /// The group at the other end.
    pub id: GroupId,
    /// Number of its processes.
    pub size: u32,
    /// The name by which they know this process.
    pub me: PeerName,
    /// The secret of this meeting and no other: who knows it belongs to one of the two groups.
    pub key: [u8; 32],
}

impl fmt::Debug for MetGroup {
    /// All but the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetGroup")
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

/// Whether messages of one VC stay in order (Nemesis's `get_ordering`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// They do.
    Ordered,
    /// They may overtake each other.
    Unordered,
}

/// A network module.
///
/// # Rules
/// - No method blocks, and none calls up: what happened is reported by [`Netmod::poll`].
/// - The data path (the sends, `poll` when messages flow) does not allocate, lock, log or read a clock.
/// - Messages of one VC leave in the order of the calls, and so do requests finish that lend memory.
/// - A failure of one VC leaves the others alone.
/// - [`crate::buf`] says what may be done with lent memory.
pub trait Netmod: Send {
    /// Its name, as in `NETMOD=tcp`.
    fn name(&self) -> &'static str;

    /// What it has opened, or why nothing, for people.
    fn opened(&self) -> String;

    /// Threads of libraries that make its progress, and need a core while anything moves.
    fn threads(&self) -> usize {
        0
    }

    /// Writes its section of the process's business card.
    ///
    /// # Errors
    /// If it does not fit.
    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError>;

    /// Whether a process with this card could be reached; the reason if not.
    ///
    /// # Errors
    /// The reason, as one line that a person understands.
    fn reachable(&mut self, card: &Card) -> Result<(), String>;

    /// Takes charge of a VC. No connection is made before the first send.
    ///
    /// Without a card it can wait for the peer; should it have to connect itself, it asks with
    /// [`crate::Event::NeedCard`]. If the peer is already waiting ([`crate::Event::NewPeer`]) its connection is
    /// taken up.
    ///
    /// # Errors
    /// If the card is of no use; the VC is then not in its charge.
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError>;

    /// The card that [`crate::Event::NeedCard`] asked for, or why there is none.
    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>);

    /// Turns away the peer of a [`crate::Event::NewPeer`] or [`crate::Event::PortPeer`], which learns why.
    fn refuse_peer(&mut self, peer: PeerName, why: Refusal);

    /// Forgets a VC, which the core still knows; whatever is left of its connection is closed at once.
    fn vc_destroy(&mut self, core: &mut Core, vc: VcId);

    /// Lets pending sends go out, then closes the connection, then reports
    /// [`crate::Event::Terminated`]. After that the VC is as after `vc_init`. A VC that is down
    /// terminates at once.
    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time);

    /// Gives the VC up because of `error`: the connection is closed, its requests fail, and
    /// [`crate::Event::Down`] follows.
    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError);

    /// Watches the process of a VC that may have no connection, because something waits for it: if the process has ended,
    /// [`crate::Event::Down`] follows. Nothing is sent on the VC, and a process that computes is not taken for dead. The caller
    /// repeats the call about once a second for as long as it waits.
    ///
    /// Returns false if the netmod watches as many processes as it may: the caller asks again later.
    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool;

    /// Makes a VC that was reported down usable again, as after [`Netmod::vc_init`]: for the same process, or for
    /// a new incarnation of it. Nothing of the earlier connection is continued. A card replaces what was known of
    /// the peer; `None` keeps that. On a VC that is not down, only the card is taken.
    ///
    /// # Errors
    /// If the card is of no use; the VC stays as it is.
    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError>;

    /// Takes charge of a VC like `vc_init`, with the process that waits at a port with this tag (dynamic
    /// processes), and begins to connect. The VC's peer is rank 0 of [`port_group`], which was met before;
    /// the other side gets [`crate::Event::PortPeer`].
    ///
    /// # Errors
    /// If the netmod cannot, or the card is of no use.
    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError>;

    /// Opens a port: whoever knows its key may come by [`crate::Event::PortPeer`].
    ///
    /// # Errors
    /// If the netmod cannot.
    fn open_port(&mut self, _port: u64, _key: [u8; 32]) -> Result<(), DeviceError> {
        Err(DeviceError::new(self.name(), "cannot be reached by other jobs; allow tcp in NETMOD"))
    }

    /// Closes a port to newcomers.
    fn close_port(&mut self, _port: u64) {}

    /// From now on VCs with processes of this group may be made, and those processes may connect.
    ///
    /// # Errors
    /// If the netmod cannot.
    fn meet_group(&mut self, _met: &MetGroup) -> Result<(), DeviceError> {
        Err(DeviceError::new(self.name(), "cannot talk to other jobs; allow tcp in NETMOD"))
    }

    /// Forgets a group of which no VC is left, with its key.
    fn part_group(&mut self, _id: &GroupId) {}

    /// Whether this netmod can be checkpointed at all, with what it has opened.
    ///
    /// # Errors
    /// Why not.
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Quiesces for a checkpoint: peers are told, then no resource of the system is held. `Pending` until done; to be
    /// called again, with polls between. What was taken and not delivered is kept, as is what is sent meanwhile, and
    /// goes on after [`Netmod::ckpt_restart`]: nothing is lost or doubled. There is no [`Netmod::wait_fd`] until then.
    ///
    /// # Errors
    /// If the netmod cannot be checkpointed; then nothing has changed.
    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError>;

    /// Goes on after [`Netmod::ckpt_shutdown`] was `Done`, possibly in a process that was restored from an image of this
    /// one, and with another address. [`Netmod::wait_fd`] is a new one.
    ///
    /// # Errors
    /// If the network cannot be opened again.
    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError>;

    /// Whether messages of one VC stay in order.
    fn ordering(&self) -> Ordering;

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

    /// The answer to a finished send with [`crate::OnDone::Upper`]: with `more` the request has a
    /// new segment, which follows at once; without, the next message may go.
    fn send_resume(&mut self, core: &mut Core, vc: VcId, req: ReqId, more: bool);

    /// Takes a queued send back. True if no byte of it had left and none will.
    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool;

    /// A header with [`NETMOD_FRAME`] arrived on the VC.
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

    /// One-sided transfers, if the network has them; `None` is the Null mode.
    fn rma(&mut self) -> Option<&mut dyn Rma> {
        None
    }

    /// What of one-sided transfers there is on a VC. Asked before each large message, so that a netmod which has to
    /// prepare for them can begin to.
    ///
    /// # Errors
    /// Why not, as one line that a person understands.
    fn can_rma(&mut self, _core: &Core, _vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        Err("the netmod has no one-sided transfers".into())
    }

    /// For fault injection: the connection of the VC, if there is one, breaks as if the network had lost
    /// it; if there is none, nothing happens. False if the netmod cannot do that; the VC can then only be given up
    /// by [`Netmod::vc_abort`].
    fn break_connection(&mut self, _core: &mut Core, _vc: VcId) -> bool {
        false
    }

    /// Closes everything. Called again, with polls between, until `Done`.
    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize;

    /// What a person who debugs should know of this VC: one line (connection, interface, queue).
    fn describe(&self, core: &Core, vc: VcId) -> String;
}

//! Devices: they move frames between endpoints and, perhaps, memory.
//!
//! A [`Device`] is what a process has opened, and describes it in the card. A [`Port`] is one of
//! its endpoints, with buffers and operations. Buffers of a port are numbered. A buffer that was
//! taken is the netmod's until it is sent or given back; a received frame is lent until it is
//! released.

use core::error::Error;
use core::fmt::Debug;
use core::time::Duration;
use std::os::fd::RawFd;

use netmod_core::rma::{Access, AtomicArgs, Atomics};
use netmod_core::{Card, CardError, CardWriter, PeerName, RmaBuf, RmaPart, RxBuf, RxBytes, Time, VcId};

use crate::conn::LocalTerms;
use crate::life::Life;
use crate::wire::FRAME_HEADER;

/// The names of the device in texts for human readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The subject of errors and actions: "libfabric".
    pub what: &'static str,
    /// Prefix of its settings: `NETMOD_OFI`.
    pub settings: &'static str,
    /// Way out when frames were lost, as a clause.
    pub lost: &'static str,
    /// Way out when frames cannot be sent, as a question or clause.
    pub unsent: &'static str,
    /// Way out for an address that is too long, as a clause.
    pub address: &'static str,
    /// Name of its refusal to take something now.
    pub again: &'static str,
}

impl Words {
    /// Returns the text for a failed connection: the device's reason, and what to check.
    pub(crate) fn says(&self, why: &str) -> String {
        let ask = if why.ends_with('?') { "" } else { "; has the process ended, or its host?" };
        format!("{} says: {why}{ask}", self.what)
    }
}

#[cfg(test)]
impl Words {
    pub(crate) const SAMPLE: Words = Words {
        what: "the device",
        settings: "NETMOD_SAMPLE",
        lost: "is its log of use?",
        unsent: "is there a cable?",
        address: "choose another",
        again: "full",
    };
}

/// The settings of all connections of a process.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Longest frame in bytes.
    pub frame: usize,
    /// Bytes of a VC's window.
    pub window: usize,
    /// Most bytes that are registered at once; 0: any.
    pub register_max: usize,
    /// Time from the first message to send until the VC is reported down.
    pub connect_timeout: Duration,
    /// Number of unanswered dials within that time: more where handshakes may be lost.
    pub dials: u32,
    /// Most handshakes of unauthenticated peers that have not proved themselves.
    pub hello_max: usize,
}

/// A route to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// This process's port.
    pub port: u8,
    /// The peer's.
    pub peer_port: u8,
    /// The receive context of that.
    pub context: u8,
    /// The address of its endpoint.
    pub address: Box<[u8]>,
    /// The endpoints at which its kernel answers liveness probes.
    pub lifeline: Box<[u8]>,
    /// It is in the network namespace of this process.
    pub near: bool,
}

/// An opened device.
#[derive(Debug)]
pub struct Opened<D: Device> {
    /// The device.
    pub device: D,
    /// Its ports, by the numbers that its card gives them.
    pub ports: Vec<D::Port>,
    /// The liveness checks of peers; `None` if they are impossible.
    pub life: Option<Life>,
}

/// The device of a process.
pub trait Device: Debug + Send + Sized {
    /// The netmod's name, as in `NETMOD=` and in cards.
    const NAME: &'static str;
    /// Name for human readers.
    const WORDS: Words;
    /// True if each received frame takes a buffer of its port, whatever its length. Then it takes
    /// as much of the window as the longest one. Both sides of a connection must agree: the card's
    /// version of the frames says it.
    const WHOLE_BUFFERS: bool = false;
    /// True if frames of handshakes may be lost: then they are retransmitted until an answer comes.
    const LOSES_HANDSHAKES: bool = false;
    /// Its configuration.
    type Config;
    /// One of its endpoints.
    type Port: Port;
    /// The reason why nothing was opened.
    type OpenError: Error;
    /// The reason why there is no route to a peer.
    type RouteError: Error;

    /// Chooses and opens. `me` names the process, and the job whose processes may share what they
    /// open.
    ///
    /// # Errors
    /// The reason why nothing was opened.
    fn open(cfg: &Self::Config, me: PeerName) -> Result<Opened<Self>, Self::OpenError>;

    /// Returns the part of the configuration that governs connections.
    fn settings(cfg: &Self::Config) -> Settings;

    /// Adds the section of the business card.
    ///
    /// # Errors
    /// If it does not fit.
    fn emit(&self, card: &mut CardWriter) -> Result<(), CardError>;

    /// Returns the route to a process with this card.
    ///
    /// # Errors
    /// The reason why there is no route.
    fn route_to(&self, card: &Card) -> Result<Route, Self::RouteError>;

    /// Returns this side's terms for a connection between two ports; `None` if there is no such
    /// port.
    fn terms(&self, port: u8, peer_port: u8) -> Option<LocalTerms>;

    /// Returns a port's name for human readers.
    fn name_of(&self, port: usize) -> String;

    /// Describes what is open, for human readers.
    fn describe(&self) -> String;

    /// Threads of the library's that make progress, and need a core while anything moves.
    fn threads(&self) -> usize {
        0
    }
}

/// The reason why a call did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// Not now: a queue is full, or this side has no operation or buffer left.
    Again,
    /// Never: what the device says.
    Failed(E),
}

/// A completion that a poll has found.
#[derive(Clone, Debug)]
pub enum Done {
    /// A frame came. It is lent until [`Port::release`].
    Frame {
        /// Number of the buffer.
        buffer: u32,
        /// Offset in the buffer, in bytes.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// A frame of the VC has left; its buffer is free.
    Sent {
        /// The VC.
        vc: VcId,
    },
    /// A frame of the VC has not left, and never will.
    SendFailed {
        /// The VC.
        vc: VcId,
        /// The device's reason.
        why: String,
    },
    /// The route to the peer of a VC has failed, and no frame reports it.
    Lost {
        /// The VC.
        vc: VcId,
        /// The device's reason.
        why: String,
    },
    /// A one-sided transfer has moved all bytes.
    Transfer {
        /// The caller's number.
        number: u64,
    },
    /// A one-sided transfer has ended early.
    TransferFailed {
        /// The caller's number.
        number: u64,
        /// The device's reason.
        why: String,
    },
    /// The RESET of a connection has not left.
    ResetFailed {
        /// The VC.
        vc: VcId,
        /// The frame.
        reset: Box<ResetFrame>,
    },
    /// Frames may be lost, and the device does not know on which connection.
    MaybeLost {
        /// True if a transfer may have failed.
        transfers: bool,
    },
}

/// A frame that ends a connection ([`Kind::Reset`]).
///
/// [`Kind::Reset`]: crate::wire::Kind::Reset
#[derive(Clone, Copy, Debug)]
pub struct ResetFrame {
    /// Its destination.
    pub to: u64,
    /// All of it.
    pub frame: [u8; FRAME_HEADER],
}

/// Counters of events that should not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Completions of no operation under way.
    pub unknown: u64,
    /// Receives that failed.
    pub receives: u64,
    /// Messages that are no frame.
    pub no_frames: u64,
}

/// The data that peers need to reach registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The key.
    pub key: u64,
    /// Address of the first byte.
    pub base: u64,
}

/// Memory of this side in a transfer, lent under the contract of [`netmod_core::buf`] until its
/// end.
#[derive(Debug)]
pub struct Lent<'a, R> {
    /// The memory.
    pub mem: RmaPart<'a>,
    /// Its registration, where the device wants one.
    pub registration: Option<&'a R>,
}

/// An endpoint of a connection that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Number to which frames of the connection are sent.
    pub number: u64,
    /// The bytes that the peer needs to connect its own endpoint with it.
    pub says: Box<[u8]>,
}

/// An endpoint, with its buffers and operations.
pub trait Port: Debug + Send {
    /// A registration of memory. It must be closed, see [`Port::deregister`], before its port is.
    type Registration: Debug + Send;
    /// The reason why a call fails for good.
    type Error: Error;

    /// Inserts the address of a peer's endpoint; returns the number by which frames are sent to it.
    ///
    /// # Errors
    /// What the device says.
    fn insert(&mut self, address: &[u8], context: u8) -> Result<u64, Self::Error>;

    /// Forgets what was inserted.
    ///
    /// # Errors
    /// What the device says.
    fn remove(&mut self, to: u64) -> Result<(), Self::Error>;

    /// Makes this side's endpoint for a connection of a VC, if the device connects endpoints one by
    /// one. `address` is that of the peer's endpoint; `offered` are the peer's bytes for its own
    /// endpoint, if it has dialled.
    ///
    /// # Errors
    /// What the device says.
    fn open_endpoint(
        &mut self,
        _vc: VcId,
        _address: &[u8],
        _offered: Option<&[u8]>,
    ) -> Result<Option<NewEndpoint>, Self::Error> {
        Ok(None)
    }

    /// Connects an endpoint with the peer's, described by the bytes `theirs`. Frames can be sent to
    /// it now or soon.
    ///
    /// # Errors
    /// The fault in the bytes, or what the device says.
    fn connect_endpoint(&mut self, _endpoint: u64, _theirs: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Closes an endpoint once the frames in flight have arrived: nothing more is sent to it.
    fn close_endpoint(&mut self, _endpoint: u64) {}

    /// Closes an endpoint whose peer is dead. Frames in flight fail as soon as the device can make
    /// them, not when it notices the death itself.
    fn fail_end(&mut self, _endpoint: u64) {}

    /// Returns true if an endpoint waits for the peer, not the device, before it takes frames: that
    /// may take as long as the peer computes.
    fn waits_for_peer(&self, _to: u64) -> bool {
        false
    }

    /// Tells the present time, whenever it has changed.
    fn tick(&mut self, _now: Time) {}

    /// Most frames of one VC that may be on their way out of buffers: a peer that takes nothing
    /// must not have all that there is room for.
    fn share(&self) -> u32;

    /// Bounds control frames per address, which has little more room than what one VC may have in
    /// flight, since what is sent to a process that has died may never end, and must leave room for
    /// others.
    fn has_room_for(&mut self, to: u64) -> bool;

    /// Longest frame that can be injected.
    fn inject_max(&self) -> usize;

    /// Longest frame that costs the device nothing but its bytes; of longer messages more frames
    /// are made.
    fn frame_max(&self) -> usize {
        usize::MAX
    }

    /// Sends a short frame at once.
    ///
    /// # Errors
    /// If it does not go.
    fn inject(&mut self, frame: &[u8], to: u64) -> Result<(), Refused<Self::Error>>;

    /// Sends the first bytes of a buffer that was taken at once; it stays the caller's.
    ///
    /// # Errors
    /// If it does not go.
    fn inject_buffer(&mut self, buffer: u32, len: usize, to: u64) -> Result<(), Refused<Self::Error>>;

    /// Takes a buffer for a frame, if one is free. It must be sent or given back.
    fn take_buffer(&mut self) -> Option<u32>;

    /// Gives a buffer back that was not sent.
    fn give_back(&mut self, buffer: u32);

    /// Returns the bytes of a buffer that was taken, to be filled.
    fn buffer(&mut self, buffer: u32) -> &mut [u8];

    /// Sends the first bytes of a buffer that was taken; it is free after [`Done::Sent`].
    ///
    /// # Errors
    /// If it does not go; the buffer is still the caller's.
    fn send(&mut self, buffer: u32, len: usize, to: u64, vc: VcId) -> Result<(), Refused<Self::Error>>;

    /// Makes progress, and takes up to `most` completions. Returns their number; see
    /// [`Port::completion`].
    fn poll(&mut self, most: usize) -> usize;

    /// Has a device that makes progress only within calls do so. Takes no completions.
    fn progress(&mut self);

    /// Returns one of the completions of the last [`Port::poll`]. Ask for each once.
    fn completion(&mut self, i: usize) -> Option<Done>;

    /// Returns what else the last polls have found: operations that failed, or that a completion of
    /// another one covers.
    fn next_other(&mut self) -> Option<Done>;

    /// Returns a reported frame.
    fn frame(&self, buffer: u32, at: u32, len: u32) -> RxBytes<'_>;

    /// Lends a part of a reported frame to the engine, which gives it back by [`Port::release`].
    fn lend(&self, buffer: u32, at: u32, len: u32, token: u64) -> RxBuf;

    /// Gives back a received frame of the buffer.
    fn release(&mut self, buffer: u32);

    /// Closes the endpoint for good: the device lets go of all memory, and nothing is sent or
    /// received any more.
    fn shut(&mut self);

    /// The port is about to be closed: ends what it does with memory, as far as it can before
    /// registrations are closed.
    fn quiesce(&mut self) {
        self.shut();
    }

    /// Frames on their way out.
    fn sends_under_way(&self) -> usize;

    /// One-sided transfers under way.
    fn transfers_under_way(&self) -> usize;

    /// Returns true if it wants to be polled soon, though nothing is in flight.
    fn is_unsettled(&self) -> bool {
        false
    }

    /// Returns the descriptor to wait on, if the device has one.
    fn wait_fd(&self) -> Option<RawFd>;

    /// Returns true if the caller may block on [`Port::wait_fd`] now: every later completion makes
    /// it readable.
    fn may_wait(&mut self) -> bool;

    /// Returns the counts of what should not have happened.
    fn oddities(&self) -> Oddities;

    /// Returns true if there are one-sided transfers.
    fn has_rma(&self) -> bool;

    /// Returns true if a peer that is in the middle of a put is kept out of the memory once its
    /// registration is closed. Without that nothing is put.
    fn revokes_puts(&self) -> bool;

    /// Most bytes of one operation.
    fn max_transfer(&self) -> usize;

    /// Registers memory that is lent until [`Port::deregister`]; `None` if this memory need not be
    /// registered.
    ///
    /// # Errors
    /// What the device says.
    fn register(
        &mut self,
        mem: &RmaBuf,
        access: Access,
    ) -> Result<Option<Self::Registration>, Refused<Self::Error>>;

    /// Returns the data that peers need to reach registered memory.
    fn remote(registration: &Self::Registration) -> Remote;

    /// Ends a registration. Ending it again does nothing.
    ///
    /// # Errors
    /// What the device says; the registration then is as before.
    fn deregister(&self, registration: &mut Self::Registration) -> Result<(), Refused<Self::Error>>;

    /// Starts to read from a peer into lent memory.
    ///
    /// # Errors
    /// If nothing was started.
    fn read(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        from: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Starts to write from lent memory to a peer. Ends when the data is there.
    ///
    /// # Errors
    /// If nothing was started.
    fn write(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        to: u64,
        remote: u64,
        key: u64,
        number: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Returns the atomic operations that the device has.
    fn atomics(&self) -> Atomics;

    /// Starts an atomic operation on a peer's word. The lent memory is [`RmaAtomic::LOCAL`] bytes
    /// at a multiple of 8, whose first become the old value, if it is wanted.
    ///
    /// # Errors
    /// If nothing was started.
    ///
    /// [`RmaAtomic::LOCAL`]: netmod_core::rma::RmaAtomic::LOCAL
    fn atomic(
        &mut self,
        lent: Lent<'_, Self::Registration>,
        to: u64,
        remote: Remote,
        args: &AtomicArgs,
        number: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Asks the device to give up the transfer with this number. What it says comes as its end.
    fn cancel_transfer(&mut self, number: u64);
}

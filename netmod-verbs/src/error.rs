//! Errors: of ports, of opening them, of routes to peers.

use std::io;
use std::path::PathBuf;

use hca::{Errno, Gid};
use hca_ibv::DevicesError;
use netmod_core::card::CardError;
use netmod_framed::device;
use netmod_framed::memory::BlockError;
use netmod_matching::quote;

/// The reason why a port refuses a call.
pub(crate) type Refused = device::Refused<PortError>;

/// The reason why a port, or something of it, cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A call of the device has failed.
    #[error(transparent)]
    Device(#[from] hca::Error),
    /// A receive was refused.
    #[error("a receive cannot be posted: {0}")]
    Receive(Errno),
    /// A receive of the datagram queue pair was refused.
    #[error("a receive of datagrams cannot be posted: {0}")]
    DatagramReceive(Errno),
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
    /// Memory for buffers cannot be had.
    #[error(transparent)]
    Memory(#[from] BlockError),
    /// A completion queue is too small.
    #[error(
        "{device}: a completion queue has {entries} entries, and {receives} receive buffers need {fixed}; set NETMOD_VERBS_RX_MEMORY lower"
    )]
    FewCompletions {
        /// Name of the device.
        device: String,
        /// Entries of the queue.
        entries: u32,
        /// Number of receive buffers.
        receives: usize,
        /// Entries that they need.
        fixed: u32,
    },
    /// The chosen GID has left the port's table.
    #[error("{port}: its table has no GID at index {index} any more")]
    NoGid {
        /// Device and port.
        port: String,
        /// Index in the table.
        index: u8,
    },
    /// The GID that packets come from has left the port's table.
    #[error("{port}: {}", gid_gone(*.gid))]
    GidGone {
        /// Device and port.
        port: String,
        /// The GID.
        gid: Gid,
    },
    /// The two ports are of different link layers.
    #[error("one side's link is Ethernet, the other's InfiniBand")]
    LinkLayers,
    /// A route needs a GID that one side lacks.
    #[error("a GID is missing; has the interface an address?")]
    GidMissing,
    /// The file of an XRC domain is not accessible.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file of an XRC domain is unusable.
    #[error("{}: {what}; remove it", path.display())]
    WrongFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: &'static str,
    },
    /// The port has no XRC domain.
    #[error("there is no XRC domain")]
    NoDomain,
    /// A queue pair was connected before.
    #[error("the queue pair is connected already")]
    Connected,
    /// The endpoint is closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// The endpoint is being closed.
    #[error("the connection is being closed")]
    Closing,
    /// The endpoint is not connected.
    #[error("the connection is not made yet")]
    NotConnected,
    /// The connection was closed.
    #[error("the connection is closed")]
    ConnectionClosed,
    /// The connection's queue pair is gone.
    #[error("the connection has failed")]
    ConnectionFailed,
    /// The connection or the device has failed earlier.
    #[error("{0}")]
    Broken(Box<str>),
    /// A transfer is longer than a work request can be.
    #[error("a transfer is longer than 4 GiB")]
    LongTransfer,
    /// The device has no such atomic operation.
    #[error("verbs adds and compares-and-swaps words of 64 bits, and has no other atomic operation")]
    NoAtomic,
    /// The address was removed.
    #[error("the address is not known any more")]
    AddressUnknown,
    /// A datagram is longer than the path's MTU allows.
    #[error("a handshake of {len} bytes is longer than a packet ({most}); is the link's MTU right?")]
    LongDatagram {
        /// Its length in bytes.
        len: u32,
        /// Most bytes.
        most: usize,
    },
    /// A datagram was refused.
    #[error("a datagram: {0}")]
    Datagram(Errno),
    /// The port is closed.
    #[error("the port is closed")]
    Closed,
    /// The peer's description does not fit to an endpoint of XRC.
    #[error("its endpoint is not one of XRC, or is of another version of the netmod verbs")]
    NotXrc,
    /// The peer's description of its endpoint is of another version.
    #[error("its endpoint is of another version of the netmod verbs")]
    EndpointVersion,
    /// The peer's address is of another version.
    #[error("it is of another version of the netmod verbs")]
    AddressVersion,
    /// The peer has dialled by XRC, and this port does not use it.
    #[error("it has dialled by XRC, which is not in use here; is its card of this process?")]
    XrcUnused,
}

/// The reason why no port was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The devices cannot be listed.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// There is no device.
    #[error("this host has no device of verbs; `ibv_devices` lists them")]
    NoDevice,
    /// No port is usable.
    #[error("no port of verbs can be used: {}", .reasons.join("; "))]
    NoPort {
        /// The reason for each port or device.
        reasons: Vec<String>,
    },
}

/// The reason why two processes have no pair of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The versions of the frames differ.
    #[error(
        "its frames are of version {theirs}, those of this process of version {mine}; start all processes with the same netmod"
    )]
    Protocol {
        /// The peer's version.
        theirs: u16,
        /// This process's.
        mine: u16,
    },
    /// No port of one side reaches one of the other.
    #[error(
        "no port of this process has a route to one of the peer's: {}; NETMOD_VERBS_DEVICE and NETMOD_VERBS_GID choose others",
        quote(.reasons)
    )]
    NoRoute {
        /// The reason for each pair of ports.
        reasons: Vec<String>,
    },
}

/// The reason why there is no route to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The peer does not use this netmod.
    #[error("its card has no section of netmod verbs")]
    NoSection,
    /// The peer's card is invalid.
    #[error(transparent)]
    Card(#[from] CardError),
    /// No two ports reach each other.
    #[error(transparent)]
    Pair(#[from] PairError),
}

/// Returns the text that says that the GID of a port is gone.
pub(crate) fn gid_gone(gid: Gid) -> String {
    format!("this host's port has no GID {gid} any more; was the interface's address removed?")
}

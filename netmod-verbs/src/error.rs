//! Errors of ports.

use std::io;
use std::path::PathBuf;

use hca::{Errno, Gid};

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
    #[error("{0}")]
    Memory(String),
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

/// Returns the text that says that the GID of a port is gone.
pub(crate) fn gid_gone(gid: Gid) -> String {
    format!("this host's port has no GID {gid} any more; was the interface's address removed?")
}

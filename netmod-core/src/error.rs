//! Errors by severity: a packet, a virtual connection, a device.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::peer::PeerName;

/// A packet that its receiver cannot use, which is the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFault {
    /// The packet is dropped and counted, with its `payload` bytes; the VC lives.
    #[error("dropped a packet: {what}")]
    Drop {
        /// The error.
        what: String,
        /// Payload bytes after the header, all to be discarded.
        payload: u64,
    },
    /// Nothing that follows can be trusted; the VC goes down.
    #[error("protocol violation: {what}")]
    Violation {
        /// The error.
        what: String,
    },
}

impl PacketFault {
    /// Creates a [`PacketFault::Violation`].
    pub fn violation(what: impl Into<String>) -> PacketFault {
        PacketFault::Violation { what: what.into() }
    }
}

/// The class of a virtual connection's error, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VcErrorKind {
    /// No connection could be established within the deadline.
    Unreachable,
    /// The connection broke.
    Lost,
    /// The peer ended the connection while messages were in progress.
    Closed,
    /// The peer refused the connection.
    Refused,
    /// The two ends have chosen different netmods for the connection.
    Mismatch,
    /// The peer violated the protocol.
    Protocol,
    /// This process lacks a resource (descriptors, memory, ports).
    Resource,
    /// The card of the peer is missing, malformed, or offers nothing in common.
    Card,
    /// This side aborted the VC (finalize, abort).
    Aborted,
    /// The netmod does not support the operation.
    Unsupported,
    /// The process manager reports that the process is dead.
    Dead,
}

impl VcErrorKind {
    /// Returns the source of the error, human-readable.
    pub fn found_by(self) -> &'static str {
        match self {
            VcErrorKind::Unreachable => "a connection that could not be made in time",
            VcErrorKind::Lost => "the connection",
            VcErrorKind::Closed | VcErrorKind::Refused | VcErrorKind::Mismatch => "the peer's own word",
            VcErrorKind::Protocol => "a violation of the protocol",
            VcErrorKind::Dead => "the process manager",
            VcErrorKind::Card => "the business card",
            VcErrorKind::Resource | VcErrorKind::Aborted | VcErrorKind::Unsupported => "this process",
        }
    }
}

#[derive(Debug)]
struct VcErrorInner {
    kind: VcErrorKind,
    peer: Option<PeerName>,
    host: Option<String>,
    text: String,
    after: Option<Duration>,
}

/// The error of a virtual connection, or of a request on it.
///
/// Cheap to clone: every request of the VC gets the same cause.
#[derive(Clone)]
pub struct VcError(Arc<VcErrorInner>);

impl VcError {
    /// Creates an error; `text` says object, cause and way out, without the name of the peer.
    pub fn new(kind: VcErrorKind, peer: Option<PeerName>, text: impl Into<String>) -> VcError {
        VcError(Arc::new(VcErrorInner { kind, peer, host: None, text: text.into(), after: None }))
    }

    /// Adds the time that was spent trying.
    pub fn after(self, after: Duration) -> VcError {
        self.altered(|inner| inner.after = Some(after))
    }

    /// Adds the name of the peer's host.
    pub fn on_host(self, host: impl Into<String>) -> VcError {
        self.altered(|inner| inner.host = Some(host.into()))
    }

    fn altered(self, change: impl FnOnce(&mut VcErrorInner)) -> VcError {
        let mut inner = VcErrorInner {
            kind: self.0.kind,
            peer: self.0.peer,
            host: self.0.host.clone(),
            text: self.0.text.clone(),
            after: self.0.after,
        };
        change(&mut inner);
        VcError(Arc::new(inner))
    }

    /// Creates the error of a card by which this process reaches nobody.
    pub fn of_card(why: impl Into<String>) -> VcError {
        VcError::new(VcErrorKind::Card, None, why)
    }

    /// Returns its class.
    pub fn kind(&self) -> VcErrorKind {
        self.0.kind
    }

    /// Returns the peer, if it is known.
    pub fn peer(&self) -> Option<PeerName> {
        self.0.peer
    }

    /// Returns the name of the peer's host, if it is known.
    pub fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }

    /// Returns the time that was spent trying.
    pub fn tried_for(&self) -> Option<Duration> {
        self.0.after
    }
}

impl fmt::Display for VcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(p) = self.0.peer {
            write!(f, "rank {}", p.rank)?;
            if let Some(host) = &self.0.host {
                write!(f, " on {host}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.0.text)?;
        if let Some(d) = self.0.after {
            write!(f, " (after {:.1} s)", d.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Debug for VcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl PartialEq for VcError {
    fn eq(&self, o: &Self) -> bool {
        Arc::ptr_eq(&self.0, &o.0) || (self.0.kind == o.0.kind && self.0.text == o.0.text)
    }
}
impl Eq for VcError {}
impl std::error::Error for VcError {}

/// The error of a netmod that cannot continue or start, or the loss of something that every netmod
/// needs.
///
/// It is as wide as a pointer: each poll may return it, and hardly one ever does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError(Box<Trouble>);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.netmod {
            Some(netmod) => write!(f, "netmod {netmod}: {}", self.0.text),
            None => f.write_str(&self.0.text),
        }
    }
}

impl std::error::Error for DeviceError {}

/// The content of a [`DeviceError`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    /// Name of the netmod, if it is one's fault.
    netmod: Option<&'static str>,
    /// Text with object, cause and way out.
    text: String,
}

impl DeviceError {
    /// Creates the error of a netmod; `text` says object, cause and way out.
    pub fn new(netmod: &'static str, text: impl Into<String>) -> DeviceError {
        DeviceError(Box::new(Trouble { netmod: Some(netmod), text: text.into() }))
    }

    /// Creates an error that ends all netmods; `text` says object, cause and way out.
    pub fn of_all(text: impl Into<String>) -> DeviceError {
        DeviceError(Box::new(Trouble { netmod: None, text: text.into() }))
    }

    /// Returns the text, without the name of the netmod.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

//! The errors of a handshake, and their senders.

use netmod_core::PeerName;

use crate::{FrameType, RejectReason, Versions};

/// The sender of what was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sender {
    /// An unauthenticated peer, which has not proved that it knows the key: count and drop.
    Unauthenticated,
    /// A process that knows the key: its fault is worth a log line.
    Peer,
}

/// The reason why a handshake failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The first bytes are not this protocol's.
    #[error(
        "not a netmod connection: it begins with {:02x?}{}; is something else (a port scanner, a \
         browser, a monitor) using this port?",
        &.start[..usize::from(*.len).min(4)],
        looks_like(.start)
    )]
    NotOurs {
        /// The bytes.
        start: [u8; 4],
        /// Number of bytes seen.
        len: u8,
    },
    /// A frame type that this version does not know.
    #[error("frame type {code} is unknown; is the other side much newer, or the stream damaged?")]
    UnknownType {
        /// The type.
        code: u8,
    },
    /// A known frame out of turn.
    #[error("a {kind:?} frame came out of turn")]
    Unexpected {
        /// Its type.
        kind: FrameType,
    },
    /// A length that no frame of any version has.
    #[error("a {kind:?} frame claims {len} bytes, more than any frame may have")]
    Oversized {
        /// The frame's type.
        kind: FrameType,
        /// The announced length of its body.
        len: usize,
    },
    /// A length that this type of frame does not have: cut short, or with something behind.
    #[error("a {kind:?} frame claims {len} bytes instead of {least}{}", up_to(*.least, *.most))]
    BadLength {
        /// The frame's type.
        kind: FrameType,
        /// The announced length of its body.
        len: usize,
        /// The least that it may be.
        least: usize,
        /// The greatest.
        most: usize,
    },
    /// The terms are none of the netmod's. The handshake does not read them, so only netmods report
    /// this.
    #[error("this netmod cannot read the terms of a {kind:?} frame; do all nodes run the same release?")]
    BadTerms {
        /// The frame's type.
        kind: FrameType,
    },
    /// A field that must be zero is not, or one holds an impossible value.
    #[error("a {kind:?} frame has a reserved or impossible value")]
    Reserved {
        /// The frame's type.
        kind: FrameType,
    },
    /// This side's own frames came back.
    #[error("this side's own frames came back: a reflection, or a process that dials itself")]
    Reflected,
    /// No common version.
    #[error(
        "the other side speaks versions {}..{} of the protocol and this one {}..{}; do all nodes \
         run the same release?",
        .theirs.min, .theirs.max, .ours.min, .ours.max
    )]
    Version {
        /// The versions that the other side offers.
        theirs: Versions,
        /// The versions that this side speaks.
        ours: Versions,
    },
    /// The initiator wants a process of a group that is not known here, or claims to be of one.
    #[error("{name} is of a job that is unknown here; a process left over from an earlier job?")]
    UnknownGroup {
        /// The name that it used.
        name: PeerName,
    },
    /// The initiator wants somebody else.
    #[error("it wants {wanted}, and this is {me}; is its business card old?")]
    WrongPeer {
        /// The process that it wants.
        wanted: PeerName,
        /// This process.
        me: PeerName,
    },
    /// The initiator's rank is not in its group.
    #[error("{name} cannot be: its group has {size} processes")]
    BadRank {
        /// The name that it used.
        name: PeerName,
        /// The size of the group.
        size: u32,
    },
    /// Nobody accepts on the port.
    #[error("port tag {port} is not open here; has it been closed?")]
    NoSuchPort {
        /// The port tag.
        port: u64,
    },
    /// The responder's MAC is wrong.
    #[error(
        "the process that answered does not know the job's key; is the address in the business \
         card still that of {peer}?"
    )]
    ResponderKey {
        /// The process that should have answered.
        peer: PeerName,
    },
    /// The initiator's MAC is wrong.
    #[error(
        "a process that says it is {name} does not know the job's key, or replays a recorded \
         hello"
    )]
    InitiatorKey {
        /// The name that it used.
        name: PeerName,
    },
    /// The MAC of an ACCEPT, REJECT or READY is wrong.
    #[error("the MAC of a {kind:?} frame is wrong: the connection was tampered with")]
    Tampered {
        /// The frame's type.
        kind: FrameType,
    },
    /// The responder chose something that was not on offer.
    #[error("the responder chose version {version} and capabilities {caps:#x}, which were not offered")]
    NotOffered {
        /// The version that it chose.
        version: u16,
        /// The capabilities that it chose.
        caps: u64,
    },
    /// The responder refused for a reason that this version does not know.
    #[error("refused for a reason that this version does not know (code {code})")]
    UnknownReason {
        /// The code.
        code: u8,
        /// True if the refusal came from a process that knows the key.
        proved: bool,
    },
}

impl HandshakeError {
    /// Returns the reason to give to an unauthenticated peer whose frames are at least this
    /// protocol's; `None`: say nothing, and close.
    pub fn reject_reason(&self) -> Option<RejectReason> {
        match self {
            HandshakeError::Version { .. } => Some(RejectReason::Version),
            HandshakeError::UnknownGroup { .. } => Some(RejectReason::UnknownGroup),
            HandshakeError::WrongPeer { .. } => Some(RejectReason::WrongPeer),
            HandshakeError::BadRank { .. } => Some(RejectReason::BadRank),
            HandshakeError::NoSuchPort { .. } => Some(RejectReason::NoSuchPort),
            _ => None,
        }
    }
}

fn up_to(least: usize, most: usize) -> String {
    if most > least { format!(" to {most}") } else { String::new() }
}

/// Returns a guess at the protocol of a connection that begins with these bytes.
fn looks_like(start: &[u8; 4]) -> &'static str {
    match start {
        b"GET " | b"HEAD" | b"POST" | b"OPTI" | b"PUT " | b"CONN" | b"PRI " => " (HTTP)",
        b"SSH-" => " (SSH)",
        [0x16, 0x03, ..] => " (TLS)",
        _ => "",
    }
}

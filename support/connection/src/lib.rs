//! The authenticated handshake of two processes that are to talk to each other, without I/O.
//!
//! Any netmod can carry it: as a stream of bytes, or, where a network keeps messages apart, each
//! frame ([`Frame::as_bytes`]) as a message.
//!
//! ```text
//!  initiator                                   responder
//!    HELLO   versions, caps, me, you, session, terms, nonce_i  →
//!          ←  CHALLENGE  version, caps, nonce_r, HMAC(key, "netmod responder" ‖ transcript)
//!    PROOF   HMAC(key, "netmod initiator" ‖ transcript)   →
//!          ←  ACCEPT last dial, terms, or REJECT reason, terms
//!    READY   →
//! ```
//!
//! The transcript is every byte of every frame so far, so that nothing that was said before a MAC
//! can have been altered: neither a name nor the versions and capabilities on offer. ACCEPT, READY,
//! and a REJECT behind PROOF carry MACs with labels of their own. Nobody learns the key from the
//! exchange; a recorded PROOF is worthless against a fresh `nonce_r`; a MAC sent back to its author
//! has the wrong label. MACs are HMAC-SHA256 (RFC 2104) and are compared in constant time.
//!
//! The key is that of the *responder's* group: who wants to talk to a process must know its job's
//! key.
//!
//! Both objects take bytes in pieces of any size, keep at most one incomplete frame, and never take
//! a byte behind the frame that they are waiting for: messages may follow READY in the same read.
//! Where both sides want it, the nonces are public keys, and the handshake ends with a key that the
//! two ends of this connection alone know ([`Nonce`], [`Initiator::key`]).
//!
//! The GOODBYE of an initiator that gives up carries no MAC, because who could forge it could as
//! well reset the connection. What follows the handshake is the netmod's own.
//!
//! A *session* is what two processes say to each other over any number of connections. A fresh one
//! is named after the handshake that began it; to resume it, each side says how much of it it has
//! read (HELLO and ACCEPT), and the other goes on from there. An *incarnation* is a random number
//! that a process makes once, so that one that has taken a dead one's name is told from it. Of two
//! dials of one incarnation the number tells which it has given up; and ACCEPT says up to which
//! number its sender has given up all of its own.
//!
//! HELLO, ACCEPT and REJECT carry what a netmod adds ([`Terms`]): its addresses, interfaces,
//! limits. The initiator's are proved with PROOF, the responder's with ACCEPT or REJECT. Where a
//! network has no connections, a responder knows by [`Responder::claimed`] where its answers should
//! go.

#![forbid(unsafe_code)]

mod collector;
mod error;
pub mod establish;
mod exchange;
mod frame;
mod identity;
mod initiator;
mod key;
mod reason;
mod responder;
mod terms;
#[cfg(test)]
mod tests;

pub use error::{HandshakeError, Sender};
pub use exchange::Nonce;
pub use frame::{Frame, FrameType, HEADER_LEN, MAGIC, MAX_FRAME, READY_LEN};
pub use identity::Identity;
pub use initiator::{Initiator, InitiatorParams, InitiatorStep};
pub use key::JobKey;
pub use reason::RejectReason;
pub use responder::{
    Claim, Directory, Proved, Responder, ResponderParams, ResponderStep, reject_unauthenticated,
};
pub use terms::{MAX_TERMS, Terms, TermsTooLong};

/// Length of a nonce in bytes.
pub const NONCE_LEN: usize = 32;

/// The versions of the protocol that a process speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// The versions that this code speaks.
    pub const OURS: Versions = Versions { min: 1, max: 1 };

    /// The newest that both speak.
    fn common(self, other: Versions) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min && newest >= other.min).then_some(newest)
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    /// The VC between the two named processes.
    Vc,
    /// `connect_to_root`: a new VC with whoever accepts on the port.
    Root {
        /// The port tag.
        port: u64,
    },
    /// A further connection of a VC, for the data of large messages from the initiator to the
    /// responder.
    Rail {
        /// Its number, for human readers.
        number: u64,
    },
}

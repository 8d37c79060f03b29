//! The CH3 packets: what the 32 header bytes of a message mean.
//!
//! The set is that of MPICH's CH3 and Nemesis; the form is our own. All numbers are
//! little-endian. Request ids are the handles of the process that owns the request, index in
//! the lower half and generation in the upper, and mean nothing to the other side but as an
//! echo. Payload follows the header directly; [`Packet::payload_len`] says how much.
//!
//! | type | packet | flags | 2..4 | 4..8 | 8..16 | 16..24 | 24..32 | payload |
//! |---|---|---|---|---|---|---|---|---|
//! | 0x01 | EagerShort | READY | data bytes | context | source, tag | data | data | |
//! | 0x02 | Eager | SYNC or READY | 0 | context | source, tag | len, credit | sreq | len |
//! | 0x03 | EagerSyncAck | | 0 | 0 | sreq | 0 | 0 | |
//! | 0x04 | Rts | SYNC | cookie len | context | source, tag | sreq | data_sz | cookie |
//! | 0x05 | Cts | | cookie len | 0 | sreq | rreq | data_sz | cookie |
//! | 0x06 | RndvData | | 0 | 0 | 0 | rreq | len | len |
//! | 0x07 | CancelReq | | 0 | context | source, tag | sreq | 0 | |
//! | 0x08 | CancelResp | ACK | 0 | 0 | sreq | 0 | 0 | |
//! | 0x09 | Close | ACK | 0 | 0 | 0 | 0 | 0 | |
//! | 0x0a | Done | | 0 | 0 | req | 0 | 0 | |
//! | 0x0b | Cookie | FROM_SENDER | cookie len | 0 | sreq | rreq | 0 | cookie |
//! | 0x0c | Credit | WANT | 0 | 0 | bytes,slots | 0 | 0 | |
//!
//! Byte 0 is the type, byte 1 the flags: SYNC 0x01, READY 0x02, ACK 0x04, FROM_SENDER 0x08, WANT
//! 0x10. `source, tag`, `len, credit` and `bytes, slots` are two 32-bit numbers each.
//!
//! **Credits are totals.** Bytes and slots of a Credit, and the credit of an Eager, count all that
//! was given back to the peer since the VC began, modulo 2³². So the latest one tells everything:
//! one that was never sent, because its message was cancelled in the queue, has lost nothing.
//!
//! **Reserved is zero.** Whatever the table shows as 0 or does not name – flag bits, bytes, the
//! data bytes of an EagerShort behind its length – is sent as zero, and a packet in which it is not
//! is refused. So there is exactly one form of each packet, and no meaning can be added that an old
//! receiver would silently ignore: new flags, fields and types may be sent only to a peer that has
//! announced, when the connection was made, that it knows them. [`VERSION`] is what is announced
//! for this table.

mod header;

pub use header::emit_eager;
pub use header::emit_eager_short;
pub(crate) use header::{Plain, Short};

use crate::tagmatch::Envelope;

/// Version of the packet forms described here, and of the cookies.
pub const VERSION: u16 = 3;

/// Bytes of a header.
pub const HDR_LEN: usize = 32;

/// The header of a message.
pub type Header = [u8; HDR_LEN];

/// The most payload bytes that travel inside the header.
pub const MAX_SHORT: usize = 16;

/// The most bytes of an LMT cookie.
pub const MAX_COOKIE: usize = 1024;

/// The send mode, where the receiver must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Standard or buffered.
    Standard,
    /// Synchronous: the sender wants an [`Packet::EagerSyncAck`] when the message is matched.
    Sync,
    /// Ready: a message that matches no posted receive is the sender's error.
    Ready,
}

/// The payload of an eager short message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortData {
    len: u8,
    /// Zero behind `len`.
    bytes: [u8; MAX_SHORT],
}

impl ShortData {
    /// A copy of `data`; `None` if it is longer than [`MAX_SHORT`].
    #[inline]
    pub fn new(data: &[u8]) -> Option<ShortData> {
        let mut bytes = [0; MAX_SHORT];
        bytes.get_mut(..data.len())?.copy_from_slice(data);
        Some(ShortData { len: data.len() as u8, bytes })
    }

    /// The payload as two little-endian words, zero behind it.
    fn words(&self) -> (u64, u64) {
        let all = u128::from_le_bytes(self.bytes);
        (all as u64, (all >> 64) as u64)
    }

    /// The payload.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(MAX_SHORT)]
    }
}

impl std::fmt::Debug for ShortData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// The length of an LMT cookie, at most [`MAX_COOKIE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CookieLen(u16);

impl CookieLen {
    /// No cookie.
    pub const NONE: CookieLen = CookieLen(0);

    /// The length of a cookie of `len` bytes; `None` if that is more than [`MAX_COOKIE`].
    #[inline]
    pub fn new(len: usize) -> Option<CookieLen> {
        let fits = len <= MAX_COOKIE;
        fits.then_some(CookieLen(len as u16))
    }

    /// The length in bytes.
    #[inline]
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// A packet. Every value can be emitted, and every header that can be parsed is emitted again
/// just as it was.
///
/// Source and tag of an envelope are taken as they come: whether the source is the rank of the
/// peer that sent it is for the device to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A message whose payload is in the header.
    EagerShort {
        /// Envelope to match.
        env: Envelope,
        /// True if it was sent in ready mode.
        ready: bool,
        /// The payload.
        data: ShortData,
    },
    /// A message with its payload behind the header.
    Eager {
        /// Envelope to match.
        env: Envelope,
        /// Send mode.
        mode: Mode,
        /// Payload bytes.
        len: u32,
        /// The send request, to be named in acknowledgements and cancellations.
        sreq: u64,
        /// Eager bytes given back to the receiver of this packet, as in [`Packet::Credit`].
        credit: u32,
    },
    /// A synchronous eager message has been matched.
    EagerSyncAck {
        /// The send request.
        sreq: u64,
    },
    /// Rendezvous: request to send.
    Rts {
        /// Envelope to match.
        env: Envelope,
        /// True if it was sent in synchronous mode (a rendezvous always is, in effect).
        sync: bool,
        /// The send request.
        sreq: u64,
        /// Bytes of the message.
        data_sz: u64,
        /// Bytes of the sender's LMT cookie.
        cookie_len: CookieLen,
    },
    /// Rendezvous: clear to send.
    Cts {
        /// The send request.
        sreq: u64,
        /// The receive request.
        rreq: u64,
        /// Bytes to be sent: those of the message, or fewer if the receive has less room.
        data_sz: u64,
        /// Bytes of the receiver's LMT cookie.
        cookie_len: CookieLen,
    },
    /// Rendezvous: the data.
    RndvData {
        /// The receive request.
        rreq: u64,
        /// Payload bytes.
        len: u64,
    },
    /// The sender takes a message back, if it has not been matched.
    CancelReq {
        /// The envelope the message was sent with.
        env: Envelope,
        /// The send request.
        sreq: u64,
    },
    /// The answer to [`Packet::CancelReq`].
    CancelResp {
        /// The send request.
        sreq: u64,
        /// True if the message has been taken back.
        ack: bool,
    },
    /// The close protocol.
    Close {
        /// True if this acknowledges the peer's close.
        ack: bool,
    },
    /// LMT: the transfer is over.
    Done {
        /// The receiver's of this packet: send or receive request.
        req: u64,
    },
    /// LMT: a cookie after the first ones.
    Cookie {
        /// True if the sender of the message sends it, rather than the receiver.
        from_sender: bool,
        /// The send request.
        sreq: u64,
        /// The receive request.
        rreq: u64,
        /// Bytes of the cookie.
        cookie_len: CookieLen,
    },
    /// Flow control: what the receiver of this packet may send, as totals modulo 2³².
    Credit {
        /// True if the sender of this packet has messages that wait for slots.
        want: bool,
        /// Bytes of eager messages that were given back.
        bytes: u32,
        /// Slots for announced messages that were given back or lent.
        slots: u32,
    },
}

impl Packet {
    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`PktError`] if the header is none of the forms in the [module's](self) table.
    #[inline(always)]
    pub fn parse(header: &Header) -> Result<Packet, PktError> {
        header::parse(header)
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self) -> Header {
        header::emit(self)
    }

    /// Returns the number of payload bytes after the header: data or a cookie.
    #[inline]
    pub fn payload_len(&self) -> u64 {
        match *self {
            Packet::Eager { len, .. } => u64::from(len),
            Packet::RndvData { len, .. } => len,
            Packet::Rts { cookie_len, .. }
            | Packet::Cts { cookie_len, .. }
            | Packet::Cookie { cookie_len, .. } => cookie_len.get() as u64,
            Packet::EagerShort { .. }
            | Packet::EagerSyncAck { .. }
            | Packet::CancelReq { .. }
            | Packet::CancelResp { .. }
            | Packet::Close { .. }
            | Packet::Done { .. }
            | Packet::Credit { .. } => 0,
        }
    }
}

/// The fault of a header that is no packet. The peer is broken, hostile, or of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PktError {
    /// Byte 0 is no packet type.
    #[error("unknown packet type {found:#04x}; does the peer use packet version {VERSION}?")]
    Type {
        /// Byte 0.
        found: u8,
    },
    /// Byte 1 has bits that this packet does not have, or two that exclude each other.
    #[error(
        "{packet} packet with flags {found:#04x}, of which only {allowed}; does the peer use packet version {VERSION}?"
    )]
    Flags {
        /// The packet's name.
        packet: &'static str,
        /// Byte 1.
        found: u8,
        /// Allowed values.
        allowed: &'static str,
    },
    /// An eager short message is longer than a header can hold.
    #[error("EagerShort packet of {found} data bytes, at most {MAX_SHORT} fit in a header")]
    ShortLen {
        /// The length it claims.
        found: u16,
    },
    /// An LMT cookie is longer than allowed.
    #[error("{packet} packet with a cookie of {found} bytes, more than the limit of {MAX_COOKIE}")]
    CookieLen {
        /// The packet's name.
        packet: &'static str,
        /// The length it claims.
        found: u16,
    },
    /// Bytes that must be zero are not.
    #[error(
        "{packet} packet with reserved bytes {first}..{end} that are not zero; does the peer use packet version {VERSION}?"
    )]
    Reserved {
        /// The packet's name.
        packet: &'static str,
        /// First of the bytes in question.
        first: u8,
        /// One past the last of the bytes in question.
        end: u8,
    },
}

#[cfg(test)]
mod tests;

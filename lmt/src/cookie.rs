//! Cookies: data of the two transfer machines for each other, which packets carry.
//!
//! All numbers are little-endian. A cookie is one version byte, one byte for its kind, then:
//!
//! | kind | cookie    | packet | body |
//! |------|-----------|--------|------|
//! | 1    | Offer     | RTS    | modes: 1, boot: 16, device: 8, pids: 8, user: 4, window? |
//! | 2    | GrantPut  | CTS    | window |
//! | 3    | GrantCoop | CTS    | ring: 16 |
//! | 4    | Window    | COOKIE | window |
//! | 5    | WindowAck | COOKIE | number of the window: 4 |
//! | 6    | Refuse    | COOKIE | none |
//! | 7    | Abort     | COOKIE | none |
//! | 8    | Wake      | COOKIE | none |
//! | 9    | Rest      | COOKIE | none, or ring: 16, position: 8 |
//! | 10   | Rested    | COOKIE | none |
//!
//! `window?` is the first window of Get, or nothing. A window is its number: 4, start: 8,
//! length: 8, length of its key: 2, and the key. RTS without a cookie offers Null, and CTS without
//! one grants it. As with packets, each cookie has exactly one form; any other length or version
//! is refused.

use netmod_core::rma::RemoteKey;

use crate::mode::{Mode, Modes};
use crate::table::Window;

/// Version of the format.
pub const VERSION: u8 = 2;

const OFFER: u8 = 1;
const GRANT_PUT: u8 = 2;
const GRANT_COOP: u8 = 3;
const WINDOW: u8 = 4;
const WINDOW_ACK: u8 = 5;
const REFUSE: u8 = 6;
const ABORT: u8 = 7;
const WAKE: u8 = 8;
const REST: u8 = 9;
const RESTED: u8 = 10;

/// The shared memory that a process can reach: two processes with equal values can map each other's
/// files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShmDomain {
    /// Boot id of the kernel (`random(4)`).
    pub boot: [u8; 16],
    /// Device number of the file system (`st_dev`), which differs between containers.
    pub device: u64,
    /// PID namespace (inode of `/proc/self/ns/pid`); a ring is found by its owner's process id.
    pub pids: u64,
    /// Effective user id.
    pub user: u32,
}

/// The name of a ring: process id and descriptor of its owner, 4 bytes each, and a random number.
///
/// The random number is also in the file, so that another file under the same descriptor is not
/// taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingName(pub [u8; 16]);

/// A window and the netmod's key to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// Part of the message.
    pub window: Window,
    /// Key to its memory.
    pub key: RemoteKey,
}

/// The offer of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Modes that the sender can use.
    pub modes: Modes,
    /// Shared memory that the sender can reach.
    pub domain: ShmDomain,
    /// The first window of Get, if that is offered.
    pub first: Option<Keyed>,
}

/// A cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// With RTS: the sender's offer.
    Offer(Offer),
    /// With CTS: the sender puts, into this window first.
    GrantPut(Keyed),
    /// With CTS: both sides copy through this ring.
    GrantCoop(RingName),
    /// The next window.
    Window(Keyed),
    /// All windows before this one have moved.
    WindowAck(u32),
    /// The sender cannot use the mode that the receiver has chosen.
    Refuse,
    /// The transfer is aborted.
    Abort,
    /// The ring has room, or data, for the sleeping peer.
    Wake,
    /// This side is about to leave for a checkpoint (see [`crate::coop::Rest`]): the ring that it
    /// has mapped last, and the position in it at which what it has accepted ends.
    Rest(Option<(RingName, u64)>),
    /// The answer.
    Rested,
}

/// The reason why bytes are not a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CookieError {
    /// The version is another one.
    #[error("cookie of version {0}, this is {VERSION}; do both sides run the same version?")]
    Version(u8),
    /// The kind is unknown.
    #[error("cookie of the unknown kind {0}")]
    Kind(u8),
    /// The length is wrong.
    #[error("{kind} cookie of {len} bytes, which is not its length")]
    Length {
        /// Kind of the cookie.
        kind: &'static str,
        /// Length in bytes.
        len: usize,
    },
    /// A field has an impossible value.
    #[error("{kind} cookie whose {field} cannot be so")]
    Value {
        /// Kind of the cookie.
        kind: &'static str,
        /// Name of the field.
        field: &'static str,
    },
}

impl Cookie {
    /// Returns the cookie's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.emit_to(&mut out);
        out
    }

    /// Appends the bytes of [`Cookie::emit`].
    pub fn emit_to(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        match self {
            Cookie::Offer(offer) => {
                out.push(OFFER);
                out.push(offer.modes.bits());
                out.extend_from_slice(&offer.domain.boot);
                out.extend_from_slice(&offer.domain.device.to_le_bytes());
                out.extend_from_slice(&offer.domain.pids.to_le_bytes());
                out.extend_from_slice(&offer.domain.user.to_le_bytes());
                if let Some(first) = &offer.first {
                    emit_window(first, out);
                }
            }
            Cookie::GrantPut(first) => {
                out.push(GRANT_PUT);
                emit_window(first, out);
            }
            Cookie::GrantCoop(ring) => {
                out.push(GRANT_COOP);
                out.extend_from_slice(&ring.0);
            }
            Cookie::Window(next) => {
                out.push(WINDOW);
                emit_window(next, out);
            }
            Cookie::WindowAck(index) => {
                out.push(WINDOW_ACK);
                out.extend_from_slice(&index.to_le_bytes());
            }
            Cookie::Refuse => out.push(REFUSE),
            Cookie::Abort => out.push(ABORT),
            Cookie::Wake => out.push(WAKE),
            Cookie::Rest(accepted) => {
                out.push(REST);
                if let Some((ring, end)) = accepted {
                    out.extend_from_slice(&ring.0);
                    out.extend_from_slice(&end.to_le_bytes());
                }
            }
            Cookie::Rested => out.push(RESTED),
        }
    }

    /// Parses a cookie, which must be exactly `bytes`.
    ///
    /// # Errors
    ///
    /// Returns a [`CookieError`] if the peer is faulty, hostile or of another version.
    pub fn parse(bytes: &[u8]) -> Result<Cookie, CookieError> {
        let mut r = Reader { kind: "empty", len: bytes.len(), rest: bytes };
        match r.u8()? {
            VERSION => {}
            other => return Err(CookieError::Version(other)),
        }
        let cookie = match r.u8()? {
            OFFER => {
                r.kind = "Offer";
                let modes = Modes::of_bits(r.u8()?).ok_or_else(|| r.value("set of modes"))?;
                let domain = ShmDomain {
                    boot: r.take()?,
                    device: u64::from_le_bytes(r.take()?),
                    pids: u64::from_le_bytes(r.take()?),
                    user: u32::from_le_bytes(r.take()?),
                };
                let first = if modes.has(Mode::Get) { Some(r.window()?) } else { None };
                Cookie::Offer(Offer { modes, domain, first })
            }
            GRANT_PUT => {
                r.kind = "GrantPut";
                Cookie::GrantPut(r.window()?)
            }
            GRANT_COOP => {
                r.kind = "GrantCoop";
                Cookie::GrantCoop(RingName(r.take()?))
            }
            WINDOW => {
                r.kind = "Window";
                Cookie::Window(r.window()?)
            }
            WINDOW_ACK => {
                r.kind = "WindowAck";
                Cookie::WindowAck(u32::from_le_bytes(r.take()?))
            }
            REFUSE => r.plain("Refuse", Cookie::Refuse),
            ABORT => r.plain("Abort", Cookie::Abort),
            WAKE => r.plain("Wake", Cookie::Wake),
            REST if r.rest.is_empty() => Cookie::Rest(None),
            REST => {
                r.kind = "Rest";
                Cookie::Rest(Some((RingName(r.take()?), u64::from_le_bytes(r.take()?))))
            }
            RESTED => r.plain("Rested", Cookie::Rested),
            other => return Err(CookieError::Kind(other)),
        };
        if r.rest.is_empty() { Ok(cookie) } else { Err(r.length()) }
    }
}

fn emit_window(keyed: &Keyed, out: &mut Vec<u8>) {
    out.extend_from_slice(&keyed.window.index.to_le_bytes());
    out.extend_from_slice(&keyed.window.at.to_le_bytes());
    out.extend_from_slice(&keyed.window.len.to_le_bytes());
    out.extend_from_slice(&(keyed.key.bytes().len() as u16).to_le_bytes());
    out.extend_from_slice(keyed.key.bytes());
}

struct Reader<'a> {
    kind: &'static str,
    len: usize,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn length(&self) -> CookieError {
        CookieError::Length { kind: self.kind, len: self.len }
    }

    fn value(&self, field: &'static str) -> CookieError {
        CookieError::Value { kind: self.kind, field }
    }

    fn plain(&mut self, kind: &'static str, cookie: Cookie) -> Cookie {
        self.kind = kind;
        cookie
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], CookieError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.length())?;
        self.rest = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, CookieError> {
        Ok(self.take::<1>()?[0])
    }

    fn window(&mut self) -> Result<Keyed, CookieError> {
        let index = u32::from_le_bytes(self.take()?);
        let at = u64::from_le_bytes(self.take()?);
        let len = u64::from_le_bytes(self.take()?);
        if len == 0 || at.checked_add(len).is_none() {
            return Err(self.value("window"));
        }
        let n = usize::from(u16::from_le_bytes(self.take()?));
        if n > RemoteKey::MAX {
            return Err(self.value("length of the key"));
        }
        let (key, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.length())?;
        self.rest = rest;
        let key = RemoteKey::new(key).ok_or_else(|| self.value("length of the key"))?;
        Ok(Keyed { window: Window { index, at, len }, key })
    }
}

#[cfg(test)]
mod tests;

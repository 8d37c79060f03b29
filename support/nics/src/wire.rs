//! Framing of netlink messages: builds requests, cuts replies into messages and attributes.
//!
//! Numbers are in the byte order of the host (`netlink(7)`), addresses in that of the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLA_HEADER_SIZE, NetlinkBuffer, NlaBuffer, NlasIterator};

/// Size of a message's header in bytes.
const HEADER: usize = 16;

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// One message of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

impl Message<'_> {
    /// Returns the error of an `NLMSG_ERROR` or `NLMSG_DONE` as a positive number; 0 for none.
    ///
    /// A message too short for an error has none.
    pub(crate) fn error(&self) -> i32 {
        self.payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code).saturating_neg())
    }
}

/// Returns the messages of a datagram; the last item is an error if the rest is malformed.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if datagram.is_empty() {
            return None;
        }
        let Ok(whole) = NetlinkBuffer::new_checked(datagram) else {
            datagram = &[];
            return Some(Err(Malformed));
        };
        let len = whole.length() as usize;
        let message = Message {
            kind: whole.message_type(),
            flags: whole.flags(),
            sequence: whole.sequence_number(),
            payload: &datagram[HEADER..len],
        };
        datagram = datagram.get(padded(len)..).unwrap_or_default();
        Some(Ok(message))
    })
}

/// The error for bytes that are no netlink messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed;

/// Returns the attributes (number and value) after a fixed part, up to the first one that is cut
/// off.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(Result::ok).map(|nla| {
        let len = usize::from(nla.length());
        (nla.kind(), &nla.into_inner()[NLA_HEADER_SIZE..len])
    })
}

/// Reads a 32-bit number.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Reads a string, with or without the terminating zero.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Reads an address of 4 or 16 bytes.
pub(crate) fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

/// Appends a request without attributes; the length of its fixed part `fixed` must be divisible by
/// 4.
pub(crate) fn request(out: &mut Vec<u8>, kind: u16, flags: i32, sequence: u32, fixed: &[u8]) -> Request {
    let at = out.len();
    out.resize(at + HEADER, 0);
    out.extend_from_slice(fixed);
    let mut header = NetlinkBuffer::new(&mut out[at..]);
    header.set_message_type(kind);
    // All request flags are below 2^16.
    header.set_flags((libc::NLM_F_REQUEST | flags) as u16);
    header.set_sequence_number(sequence);
    let request = Request { at };
    request.finish(out);
    request
}

/// A request that is being built at the end of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    at: usize,
}

impl Request {
    /// Appends an attribute of less than 2^16 bytes.
    pub(crate) fn attribute(self, out: &mut Vec<u8>, kind: u16, value: &[u8]) -> Request {
        let at = out.len();
        out.resize(at + NLA_HEADER_SIZE + padded(value.len()), 0);
        let mut nla = NlaBuffer::new(&mut out[at..]);
        nla.set_kind(kind);
        nla.set_length((NLA_HEADER_SIZE + value.len()) as u16);
        nla.value_mut().copy_from_slice(value);
        self.finish(out);
        self
    }

    /// Appends an address.
    pub(crate) fn address(self, out: &mut Vec<u8>, kind: u16, ip: IpAddr) -> Request {
        match ip {
            IpAddr::V4(ip) => self.attribute(out, kind, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(out, kind, &ip.octets()),
        }
    }

    fn finish(self, out: &mut [u8]) {
        let len = out.len() - self.at;
        NetlinkBuffer::new(&mut out[self.at..]).set_length(len as u32);
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

//! The terms of a connection as bytes, in HELLO and ACCEPT.
//!
//! All integers are little-endian.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 3: this layout |
//! | 1 | 1 | the sender's endpoint |
//! | 2 | 2 | units of its window |
//! | 4 | 4 | bytes of the longest frame that it takes |
//! | 8 | 4 | number of its slot |
//! | 12 | 4 | token of its slot, not zero |
//! | 16 | 1 | the receive context of the endpoint that is the sender's |
//! | 17 | 1 | n: bytes of the sender's end of the connection |
//! | 18 | n | the sender's end |
//! | 18 + n | 1 and more | address of the endpoint |

use netmod_connection::{Terms, TermsTooLong};

use crate::wire::{FRAME_HEADER, Slot};

const LAYOUT: u8 = 3;
const FIXED: usize = 18;

/// This side's part of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LocalTerms {
    /// Index of this process's endpoint that carries the connection.
    pub port: u8,
    /// Index of the peer's endpoint.
    pub peer_port: u8,
    /// Units that the peer may send before any come back.
    pub window: u16,
    /// The longest frame that this side takes, in bytes.
    pub frame: u32,
    /// Index of the receive context of this process's endpoint.
    pub context: u8,
    /// This side's endpoint of the connection, in the device's encoding; empty if nothing is to be
    /// connected.
    pub endpoint: Box<[u8]>,
    /// The address of the endpoint, as the device gives it.
    pub address: Box<[u8]>,
}

/// The peer's part of a connection.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerTerms {
    /// Its name for the connection: goes into the header of all that is sent to it.
    pub slot: Slot,
    /// Index of its endpoint that carries the connection.
    pub port: u8,
    /// Units that may be sent to it before any come back.
    pub window: u16,
    /// The longest frame that it takes, in bytes.
    pub frame: u32,
    /// Index of the receive context of that endpoint that takes frames for it.
    pub context: u8,
    /// Its endpoint of the connection, in the device's encoding; empty if nothing is to be
    /// connected.
    pub endpoint: Box<[u8]>,
    /// The address of that endpoint.
    pub address: Box<[u8]>,
}

pub(super) fn emit(terms: &LocalTerms, slot: Slot) -> Result<Terms, TermsTooLong> {
    let mut b = Vec::with_capacity(FIXED + terms.address.len());
    b.extend_from_slice(&[LAYOUT, terms.port]);
    b.extend_from_slice(&terms.window.to_le_bytes());
    b.extend_from_slice(&terms.frame.to_le_bytes());
    b.extend_from_slice(&slot.number.to_le_bytes());
    b.extend_from_slice(&slot.token.to_le_bytes());
    b.push(terms.context);
    // An address whose length does not fit its count does not fit the terms either.
    b.push(u8::try_from(terms.endpoint.len()).unwrap_or(u8::MAX));
    b.extend_from_slice(&terms.endpoint);
    b.extend_from_slice(&terms.address);
    Terms::new(&b)
}

/// `None` if this release does not understand them.
pub(super) fn parse(bytes: &[u8]) -> Option<PeerTerms> {
    let (fixed, rest) = bytes.split_first_chunk::<FIXED>()?;
    let (endpoint, address) = rest.split_at_checked(usize::from(fixed[17]))?;
    let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let terms = PeerTerms {
        slot: Slot { number: word(8), token: word(12) },
        port: fixed[1],
        window: u16::from_le_bytes([fixed[2], fixed[3]]),
        frame: word(4),
        context: fixed[16],
        endpoint: endpoint.into(),
        address: address.into(),
    };
    let usable = fixed[0] == LAYOUT
        && terms.slot.token != 0
        && terms.window != 0
        && terms.frame as usize > FRAME_HEADER
        && !address.is_empty();
    usable.then_some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        let terms = LocalTerms {
            port: 2,
            peer_port: 9,
            window: 0x0403,
            frame: 0x0807_0605,
            context: 17,
            endpoint: [19, 20].into(),
            address: [21, 22].into(),
        };
        let slot = Slot { number: 0x0c0b_0a09, token: 0x100f_0e0d };
        emit(&terms, slot).unwrap().as_bytes().to_vec()
    }

    #[test]
    fn golden_bytes() {
        let mut want: Vec<u8> = (1..=22).collect();
        (want[0], want[17]) = (3, 2);
        assert_eq!(bytes(), want);
        let terms = parse(&bytes()).unwrap();
        assert_eq!((terms.port, terms.window, terms.frame), (2, 0x0403, 0x0807_0605));
        assert_eq!((terms.slot.number, terms.slot.token), (0x0c0b_0a09, 0x100f_0e0d));
        assert_eq!((terms.context, &*terms.address), (17, &[21, 22][..]));
        assert_eq!(&*terms.endpoint, [19, 20]);
    }

    #[test]
    fn what_cannot_be_used_is_none() {
        for (range, value) in
            [(0..1, 2), (0..1, 0), (17..18, 4), (17..18, 255), (2..4, 0), (12..16, 0), (4..8, 0)]
        {
            let mut b = bytes();
            b[range.clone()].fill(value);
            assert_eq!(parse(&b), None, "{range:?}");
        }
        for len in 0..=FIXED + 2 {
            assert_eq!(parse(&bytes()[..len]), None, "{len}");
        }
        let mut b = bytes();
        b[4..8].copy_from_slice(&16u32.to_le_bytes());
        assert_eq!(parse(&b), None, "a frame without a body");
    }

    #[test]
    fn an_address_that_is_too_long_is_refused() {
        let address = vec![0; 383].into();
        let terms = LocalTerms {
            port: 0,
            peer_port: 0,
            window: 1,
            frame: 99,
            context: 0,
            endpoint: [].into(),
            address,
        };
        assert!(emit(&terms, Slot { number: 0, token: 1 }).is_err());
        let terms = LocalTerms { address: vec![0; 382].into(), ..terms };
        assert!(emit(&terms, Slot { number: 0, token: 1 }).is_ok());
    }
}

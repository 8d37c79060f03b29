//! The protection of a connection: what this side offers in the handshake, and what both agree on.
//!
//! With `NETMOD_TCP_SECURITY=auto` both sides also say whether the connection is within this host,
//! as its own kernel's addresses tell. It has no keys only if both say so. Offers are part of what
//! the handshake's MACs cover, so nobody in between can change them, and a peer that lies about its
//! host changes nothing, as this side knows its own.

use netmod_connection::{JobKey, NONCE_LEN, Nonce, RejectReason};
use socket2::Socket;

use super::TcpNetmod;
use super::handshake::RESUME;
use crate::conn::{ConnId, Seals, Stage};
use crate::record::{Keyed, Seal};
use crate::sys::random;

/// The capability, and wish, of records with checksums.
const CHECKSUM: u64 = 2;
/// The capabilities of records with MACs, and of encrypted ones.
const AUTH: u64 = 4;
const ENCRYPT: u64 = 8;
/// The setting `auto`: the protection follows from the other capabilities.
const AUTO: u64 = 16;
/// The connection is within this host.
const LOCAL: u64 = 32;

/// The protection of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protection {
    /// Nothing but checksums, if both sides want them.
    Off,
    Auth,
    Encrypt,
}

/// Returns what two sides with the same setting, whose capabilities these are, have agreed on.
fn agreed(caps: u64) -> Protection {
    match caps {
        _ if caps & (AUTO | LOCAL) == AUTO | LOCAL => Protection::Off,
        _ if caps & ENCRYPT != 0 => Protection::Encrypt,
        // Without that capability there is no key, and the connection is refused.
        _ if caps & (AUTH | AUTO) != 0 => Protection::Auth,
        _ => Protection::Off,
    }
}

/// Returns the part of the capabilities in which sides with another setting differ. With `auto`
/// processors and hosts may differ.
fn setting(caps: u64) -> u64 {
    if caps & AUTO != 0 { AUTO } else { caps & (AUTH | ENCRYPT) }
}

/// Returns true if encrypting is faster here than MACs without it.
fn encrypts_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// Returns true if both ends of a connection are in this network namespace. A kernel takes no
/// packet from outside that has an address of its own.
fn is_within_host(socket: &Socket) -> bool {
    let ip =
        |address: std::io::Result<socket2::SockAddr>| Some(address.ok()?.as_socket()?.ip().to_canonical());
    match (ip(socket.local_addr()), ip(socket.peer_addr())) {
        (Some(mine), Some(theirs)) => mine == theirs || mine.is_loopback() && theirs.is_loopback(),
        _ => false,
    }
}

impl TcpNetmod {
    /// Returns the capabilities of this side on a connection.
    pub(crate) fn caps(&self, socket: &Socket) -> u64 {
        let resume = if self.cfg.resume_timeout.is_zero() { 0 } else { RESUME };
        let checksum = if self.cfg.checksum { CHECKSUM } else { 0 };
        let security = match self.cfg.security {
            "auto" => {
                let encrypt = if encrypts_fast() { ENCRYPT } else { 0 };
                let local = if is_within_host(socket) { LOCAL } else { 0 };
                AUTO | AUTH | encrypt | local
            }
            "auth" => AUTH,
            "encrypt" => ENCRYPT,
            _ => 0,
        };
        resume | checksum | security
    }

    /// Returns a nonce for a handshake with these capabilities of this side.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(crate) fn nonce(caps: u64) -> std::io::Result<Nonce> {
        let random: [u8; NONCE_LEN] = random()?;
        Ok(match caps & (AUTH | ENCRYPT) {
            0 => random.into(),
            keyed => Nonce::of_exchange(random, keyed),
        })
    }

    /// Returns the checks and the protection of a dial that was accepted, with the capabilities
    /// that both sides have.
    ///
    /// # Errors
    /// If this side has another setting than the peer.
    pub(crate) fn dial_seals(&self, id: ConnId, both: u64) -> Result<Option<Box<Seals>>, RejectReason> {
        match self.sockets.conns.get(id).map(|c| &c.stage) {
            Some(Stage::Dial(i)) if setting(both) == setting(i.params().caps) => seals(both, i.key(), true),
            _ => Err(RejectReason::OtherSecurity),
        }
    }

    /// Returns the checks and the protection of an incoming connection, with the capabilities that
    /// the peer offers and those that both sides have.
    ///
    /// # Errors
    /// If the peer has another setting. This side learns of that by its own dial.
    pub(crate) fn incoming_seals(
        &self,
        id: ConnId,
        offered: u64,
        both: u64,
    ) -> Result<Option<Box<Seals>>, RejectReason> {
        match self.sockets.conns.get(id).map(|c| (&c.stage, self.caps(&c.socket))) {
            Some((Stage::Unauthenticated(r), mine)) if setting(offered) == setting(mine) => {
                seals(both, r.key(), false)
            }
            _ => Err(RejectReason::OtherSecurity),
        }
    }
}

/// Makes the checks and the protection that follow from the capabilities that both sides have.
fn seals(both: u64, key: Option<JobKey>, dialled: bool) -> Result<Option<Box<Seals>>, RejectReason> {
    let encrypts = match agreed(both) {
        Protection::Off => {
            let checked = Seals { out: Seal::Checksum, inn: Some(Seal::Checksum), rail_sent: 0 };
            return Ok((both & CHECKSUM != 0).then(|| Box::new(checked)));
        }
        protection => protection == Protection::Encrypt,
    };
    let Some(key) = key else { return Err(RejectReason::OtherSecurity) };
    let [initiator, responder] = [&b"of the initiator"[..], b"of the responder"]
        .map(|side| Seal::Keyed(Box::new(Keyed::new(key.derive(&[side]), encrypts))));
    let (out, inn) = if dialled { (initiator, responder) } else { (responder, initiator) };
    Ok(Some(Box::new(Seals { out, inn: Some(inn), rail_sent: 0 })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = AUTO | AUTH | ENCRYPT | LOCAL;

    #[test]
    fn only_two_sides_that_find_themselves_on_one_host_go_without() {
        assert_eq!(agreed(ALL), Protection::Off);
        assert_eq!(agreed(ALL & !LOCAL), Protection::Encrypt);
        assert_eq!(agreed(AUTO | AUTH), Protection::Auth);
        assert_eq!(agreed(AUTO | AUTH | LOCAL), Protection::Off);
        // Explicit settings hold within a host, too.
        assert_eq!(agreed(AUTH), Protection::Auth);
        assert_eq!(agreed(ENCRYPT), Protection::Encrypt);
        assert_eq!(agreed(0), Protection::Off);
    }

    /// A side that does not find itself on one host with its peer has keys, or no connection, with
    /// all offers of the peer.
    #[test]
    fn no_offer_of_a_peer_takes_the_protection_away() {
        for mine in [AUTO | AUTH, AUTO | AUTH | ENCRYPT, AUTH, ENCRYPT] {
            for theirs in 0..64 {
                let both = mine & theirs;
                if setting(theirs) != setting(mine) || setting(both) != setting(mine) {
                    continue;
                }
                // Nonces make a key only if both have one of these.
                let key = (both & (AUTH | ENCRYPT) != 0).then_some(JobKey([1; 32]));
                let seals = seals(both, key, true);
                assert!(
                    seals.as_ref().is_err() || seals.is_ok_and(|s| s.is_some_and(|s| s.out.is_keyed())),
                    "{mine} {theirs}"
                );
            }
        }
    }

    #[test]
    fn settings_differ_however_capabilities_overlap() {
        let settings = [0, AUTH, ENCRYPT, ALL];
        for (i, one) in settings.into_iter().enumerate() {
            for (j, other) in settings.into_iter().enumerate() {
                assert_eq!(setting(one) == setting(other), i == j, "{one} {other}");
            }
        }
        assert_eq!(setting(AUTO | AUTH), setting(ALL));
    }

    #[test]
    fn a_connection_over_loopback_or_to_an_own_address_is_within_the_host() {
        for address in ["127.0.0.1", "127.0.0.7", "::1"] {
            let Ok(listener) = std::net::TcpListener::bind((address, 0)) else {
                assert!(address.contains(':'), "the loopback interface has no {address}");
                continue;
            };
            let to = listener.local_addr().expect("an address");
            let stream = std::net::TcpStream::connect(to).expect("a connection");
            assert!(is_within_host(&stream.into()), "{address}");
            assert!(is_within_host(&listener.accept().expect("a connection").0.into()), "{address}");
        }
    }
}

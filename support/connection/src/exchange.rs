//! Keys that only the two ends of one connection know.
//!
//! The nonces of a handshake may be public keys of X25519 (RFC 7748), made for it alone. Both sides
//! then compute a secret that nobody can who sees the exchange, also not with the job's key, and
//! also not later. The MACs of the handshake say that no third party has put in keys of its own.

use core::cell::OnceCell;
use core::fmt;

use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use crate::NONCE_LEN;

/// The nonce of one side of a handshake: random, and never used before.
#[derive(Clone)]
pub struct Nonce {
    random: [u8; NONCE_LEN],
    /// The other side's bytes, made when they are wanted: who connects and says nothing costs none.
    public: OnceCell<[u8; NONCE_LEN]>,
    /// If it is to be a key: the capabilities, one of which both sides must have for keys to be
    /// made.
    exchange: Option<u64>,
}

impl Nonce {
    /// Makes a nonce of 32 random bytes that is a public key. Keys are made if the sides agree on
    /// one of the capabilities `caps`, for which both must do so.
    pub fn of_exchange(random: [u8; 32], caps: u64) -> Nonce {
        Nonce { random, public: OnceCell::new(), exchange: Some(caps) }
    }

    /// Returns the bytes that the other side gets.
    pub(crate) fn public(&self) -> &[u8; NONCE_LEN] {
        self.public.get_or_init(|| match self.exchange {
            Some(_) => x25519(self.random, X25519_BASEPOINT_BYTES),
            None => self.random,
        })
    }

    /// Returns the secret that is shared with the owner of another nonce. `None` if the agreed
    /// capabilities want none, or if the other nonce is a key that all secrets are the same with.
    pub(crate) fn shared(&self, other: [u8; NONCE_LEN], agreed: u64) -> Option<[u8; 32]> {
        self.exchange.filter(|caps| caps & agreed != 0)?;
        Some(x25519(self.random, other)).filter(|shared| *shared != [0; 32])
    }
}

impl From<[u8; NONCE_LEN]> for Nonce {
    /// Makes a nonce of random bytes, with which no keys are made.
    fn from(random: [u8; NONCE_LEN]) -> Nonce {
        Nonce { random, public: OnceCell::new(), exchange: None }
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({})", if self.exchange.is_some() { "key" } else { "random" })
    }
}

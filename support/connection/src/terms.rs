//! The terms of a netmod in the handshake: bytes that only it understands.

use core::fmt;

/// Most bytes of terms that a frame carries.
pub const MAX_TERMS: usize = 400;

/// The netmod's own part of a HELLO, an ACCEPT or a REJECT: 0 to [`MAX_TERMS`] bytes.
///
/// The handshake does not read them, but its MACs cover them. Empty ones take no memory beside the
/// value itself.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Terms(Box<[u8]>);

/// More bytes than terms may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("terms of {len} bytes do not fit into a hello, which has room for {MAX_TERMS}")]
pub struct TermsTooLong {
    /// Their number of bytes.
    pub len: usize,
}

impl Terms {
    /// A copy of these bytes.
    ///
    /// # Errors
    /// If there are more than [`MAX_TERMS`].
    pub fn new(bytes: &[u8]) -> Result<Terms, TermsTooLong> {
        if bytes.len() > MAX_TERMS {
            return Err(TermsTooLong { len: bytes.len() });
        }
        Ok(Terms(bytes.into()))
    }

    /// From a frame, whose length has been checked.
    pub(crate) fn of_frame(bytes: &[u8]) -> Terms {
        debug_assert!(bytes.len() <= MAX_TERMS);
        Terms(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The length is checked when this is compiled.
impl<const N: usize> From<[u8; N]> for Terms {
    fn from(bytes: [u8; N]) -> Terms {
        const { assert!(N <= MAX_TERMS, "terms do not fit into a hello") };
        Terms(bytes.into())
    }
}

impl AsRef<[u8]> for Terms {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terms(")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(")")
    }
}

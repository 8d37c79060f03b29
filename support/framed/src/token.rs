//! The tokens of receive buffers that are lent to the engine.

/// Returns the token of a lent buffer.
#[inline]
pub(crate) fn token(port: usize, buffer: u32) -> u64 {
    (port as u64) << 32 | u64::from(buffer)
}

/// Returns the port and the buffer of a token.
#[inline]
pub(crate) fn untoken(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}

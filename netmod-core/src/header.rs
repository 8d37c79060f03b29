//! The header that every message begins with.

/// Length of every message header in bytes.
pub const HDR_LEN: usize = 32;

/// A message header.
///
/// It is opaque to the core and the netmods, except for its first byte, see [`NETMOD_FRAME`].
pub type Header = [u8; HDR_LEN];

/// First byte of the netmod's own frames; the upper layer never uses it.
pub const NETMOD_FRAME: u8 = 0xFF;

//! Errors of endpoints and buffers.

use core::error::Error;
use core::fmt;

/// The reason why a port cannot be used for a connection. `E`: the error of the device's ports.
#[derive(Debug)]
pub(crate) enum PortError<E> {
    /// This process has no port of that number.
    Missing,
    /// The device's error.
    Device(E),
}

impl<E: Error> fmt::Display for PortError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::Missing => f.write_str("this process has no such endpoint"),
            PortError::Device(e) => fmt::Display::fmt(e, f),
        }
    }
}

impl<E: Error> Error for PortError<E> {}

impl<E> From<E> for PortError<E> {
    fn from(e: E) -> PortError<E> {
        PortError::Device(e)
    }
}

/// Buffers whose total length is zero, or more than memory has addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// Bytes of a buffer.
    pub each: usize,
    /// Number of buffers.
    pub count: usize,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} buffers of {} bytes cannot be", self.count, self.each)
    }
}

impl Error for BlockError {}

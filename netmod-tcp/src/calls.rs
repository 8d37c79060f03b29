//! Bounds of one system call that moves large messages.
//!
//! A call holds the socket's lock, which acknowledgements need to get in, and the other side's
//! bytes; and what lies in the socket's buffers for long has left the caches when it is read. Short
//! calls cost more of them. Which counts for more depends on how the kernel sends.

use netmod_core::HDR_LEN;
use netmod_nics::is_paced;
use socket2::Socket;

/// Bounds of the calls of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Written bytes leave at once.
    #[default]
    Long,
    /// It leaves at a pace of the kernel's: the buffers are full most of the time.
    Short,
}

impl Calls {
    /// Returns the bounds for a connection that was made.
    pub(crate) fn of(socket: &Socket) -> Calls {
        // A socket other than TCP has no congestion control.
        let name = socket.tcp_congestion().unwrap_or_default();
        Calls::with(&String::from_utf8_lossy(&name))
    }

    fn with(congestion: &str) -> Calls {
        if is_paced(congestion) { Calls::Short } else { Calls::Long }
    }

    /// Returns the most bytes that are written to a VC in a call, and in a poll, before others are
    /// served.
    #[inline]
    pub(crate) fn write(self) -> usize {
        HDR_LEN
            + match self {
                Calls::Long => 1 << 20,
                Calls::Short => 512 << 10,
            }
    }

    /// Returns the most bytes that one call reads into a receive.
    #[inline]
    pub(crate) fn read(self) -> usize {
        match self {
            Calls::Long => 512 << 10,
            Calls::Short => 128 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    /// Each connection is asked for its own: routes and programs may have set another one than is
    /// the system's.
    #[test]
    fn a_connection_says_which_it_has() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        for name in ["reno", "cubic", "bbr"] {
            // Not all kernels have all, or let everybody choose.
            if socket.set_tcp_congestion(name.as_bytes()).is_ok() {
                assert_eq!(Calls::of(&socket), Calls::with(name), "{name}");
            }
        }
        assert_eq!((Calls::with("cubic"), Calls::with("bbr")), (Calls::Long, Calls::Short));
        let other = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        assert_eq!(Calls::of(&other), Calls::Long);
    }
}

//! Hearing of changes of interfaces, addresses and routes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::kernel::Channel;
use crate::sys::Socket;

/// Tells that interfaces, addresses or routes of a network namespace changed.
///
/// Its descriptor is readable when something did.
#[derive(Debug)]
pub struct Watch<C = Socket> {
    channel: C,
}

/// `RTMGRP_IPV6_ROUTE` and the others: the groups of `rtnetlink(7)` that concern pairing.
const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE;

/// Datagrams that one call reads: a flood does not hold up the caller.
const MOST: usize = 64;

impl Watch {
    /// Begins to watch the network namespace of the calling thread.
    ///
    /// # Errors
    /// Where there is no netlink, or it is forbidden: then nobody hears of changes.
    pub fn here() -> io::Result<Watch> {
        Ok(Watch { channel: Socket::hearing(GROUPS as u32)? })
    }
}

impl<C: Channel> Watch<C> {
    /// Watches by a channel that is subscribed already.
    pub fn by(channel: C) -> Watch<C> {
        Watch { channel }
    }

    /// Whether something changed since the last call; true also if the kernel had more to say than there was room for. Never
    /// blocks, and costs one system call if nothing did.
    ///
    /// # Errors
    /// Those of `recv(2)` that do not pass: the watch is of no use any more.
    pub fn changed(&mut self) -> io::Result<bool> {
        let mut changed = false;
        for _ in 0..MOST {
            // What changed is read anew; the message is not.
            match self.channel.receive(&mut [0; 16], false) {
                Ok(_) => changed = true,
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(changed),
                Err(e) => return Err(e),
            }
        }
        Ok(changed)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.borrowed()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.channel.raw()
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;

//! Notification of changes of interfaces, addresses and routes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::kernel::Channel;
use crate::sys::Socket;

/// A watch on the interfaces, addresses and routes of a network namespace.
///
/// Its descriptor is readable when something has changed.
#[derive(Debug)]
pub struct Watch<C = Socket> {
    channel: C,
}

/// The groups of `rtnetlink(7)` that concern pairing.
const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE;

/// Most datagrams that one call reads, so that a flood does not delay the caller.
const MOST: usize = 64;

impl Watch {
    /// Watches the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Fails where there is no netlink, or it is forbidden. Changes then go unnoticed.
    pub fn here() -> io::Result<Watch> {
        Ok(Watch { channel: Socket::hearing(GROUPS as u32)? })
    }
}

impl<C: Channel> Watch<C> {
    /// Watches by a channel that is subscribed already.
    pub fn by(channel: C) -> Watch<C> {
        Watch { channel }
    }

    /// Returns true if something changed since the last call, or if notifications were lost.
    ///
    /// Never blocks, and costs one system call if nothing changed.
    ///
    /// # Errors
    ///
    /// Those of `recv(2)` that are permanent: the watch is useless from then on.
    pub fn changed(&mut self) -> io::Result<bool> {
        let mut changed = false;
        for _ in 0..MOST {
            // Any message means a new survey; its content is not needed.
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

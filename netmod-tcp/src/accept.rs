//! The listener: taking connections, and pausing when no descriptor is left.

use std::os::fd::AsRawFd;

use netmod_core::Time;

use crate::netmod::{LISTENER, TcpNetmod};
use crate::sys::{self, Interest};

/// Connections accepted in one poll.
const ACCEPTS: usize = 16;
/// Pause of accepting when no descriptor is left.
const NO_DESCRIPTOR_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl TcpNetmod {
    /// Takes connections from the listener.
    pub(crate) fn accept_some(&mut self, now: Time) {
        for _ in 0..ACCEPTS {
            let Some(l) = &self.listener else { return };
            match l.socket.accept() {
                Ok((socket, _)) => {
                    self.stats.accepted += 1;
                    if let Err(e) = self.stranger(socket, now) {
                        tracing::debug!(%e, "incoming connection");
                    }
                }
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
                    ) =>
                {
                    return self.pause_accepting(&e, now);
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN)) => return,
                // The one at the head of the queue was gone already; the next may be good.
                Err(e) => tracing::debug!(%e, "accept"),
            }
        }
    }

    /// Without a descriptor the listener would stay readable and be asked for nothing.
    #[cold]
    fn pause_accepting(&mut self, e: &std::io::Error, now: Time) {
        if self.stats.no_descriptor == 0 {
            tracing::warn!(
                %e,
                limit = sys::descriptor_limit(),
                "no descriptor for an incoming connection; peers wait and try again; raise the limit with ulimit -n"
            );
        }
        self.stats.no_descriptor += 1;
        self.accept_again = now + NO_DESCRIPTOR_PAUSE;
        self.next_timer = self.next_timer.min(self.accept_again);
        if let Some(l) = &self.listener
            && let Err(e) = self.epoll.modify(l.socket.as_raw_fd(), LISTENER, Interest::NONE)
        {
            tracing::error!(%e, "epoll does not know the listener");
        }
    }

    pub(crate) fn accept_after_pause(&mut self, now: Time) {
        if self.accept_again == Time::NEVER {
            return;
        }
        if now < self.accept_again {
            self.next_timer = self.next_timer.min(self.accept_again);
            return;
        }
        self.accept_again = Time::NEVER;
        if let Some(l) = &self.listener
            && let Err(e) = self.epoll.modify(l.socket.as_raw_fd(), LISTENER, Interest::READ)
        {
            tracing::error!(%e, "epoll does not know the listener");
        }
    }
}

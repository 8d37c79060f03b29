//! Waiting: spin, then block.

use std::time::Duration;

use netmod_core::{Arm, Netmod, PollOrder, Time};

use super::Vci;
use crate::error::{Error, Result};
use crate::sys;

/// Longest time blocked at once when a netmod has no descriptor to wait on.
const NO_FD_NAP: Duration = Duration::from_millis(1);
/// Longest time blocked at once in any case.
const LONGEST_NAP: Duration = Duration::from_secs(1);

impl Vci {
    /// Makes progress until `done` says so or the deadline has passed. Sends that were staged have been
    /// handed to the network when it returns.
    #[inline]
    pub(super) fn wait_until(&mut self, deadline: Time, mut done: impl FnMut(&Vci) -> bool) -> Result<()> {
        if done(self) {
            self.flush();
            return Ok(());
        }
        let mut idle = 0;
        let mut order = PollOrder::OutFirst;
        loop {
            let busy = self.poll(order)?;
            order = PollOrder::InFirst;
            if done(self) {
                self.flush();
                return Ok(());
            }
            if busy {
                idle = 0;
            } else {
                idle += 1;
                if idle >= self.spin {
                    self.block(deadline)?;
                }
            }
            if self.now >= deadline {
                self.tick();
                return Ok(());
            }
        }
    }

    /// Hands what is staged to the network.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.engine.netmod.flush(&mut self.engine.core);
    }

    /// Blocks until something may have happened.
    #[cold]
    pub(super) fn block(&mut self, deadline: Time) -> Result<()> {
        self.tick();
        if self.engine.netmod.arm(&mut self.engine.core) == Arm::Busy {
            return Ok(());
        }
        let until = deadline.min(self.engine.netmod.deadline().unwrap_or(Time::NEVER));
        let mut nap = until.since(self.now).min(LONGEST_NAP);
        self.fds.clear();
        if self.engine.netmod.wait_fds(&mut self.fds).is_none() {
            nap = nap.min(NO_FD_NAP);
            self.fds.clear();
        }
        self.fds.extend(self.ch3.boot.fd());
        sys::wait_readable(&self.fds, nap).map_err(|e| Error::Launcher(format!("poll: {e}")))?;
        self.tick();
        Ok(())
    }
}

//! Waiting: spin, then block; and the end of the device.

use std::time::Duration;

use netmod_core::{Arm, Finalize, Netmod, PollOrder, Time, VcId};

use super::Device;
use crate::error::{Error, Result};
use crate::sys;

/// Longest time blocked at once when a netmod has no descriptor to wait on.
const NO_FD_NAP: Duration = Duration::from_millis(1);
/// Longest time blocked at once in any case.
const LONGEST_NAP: Duration = Duration::from_secs(1);

impl Device {
    /// Makes progress until `done` says so or the deadline has passed. Sends that were staged have been
    /// handed to the network when it returns.
    #[inline]
    pub(super) fn wait_until(&mut self, deadline: Time, mut done: impl FnMut(&Device) -> bool) -> Result<()> {
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
    fn block(&mut self, deadline: Time) -> Result<()> {
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

    pub(super) fn finalize_in_place(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.finalized, true) {
            return Ok(());
        }
        let outcome = self.leave();
        // Whatever went wrong, the netmods let go of everything.
        let limit = self.deadline(self.cfg.close_timeout);
        self.spin = 0;
        while self.engine.netmod.finalize(&mut self.engine.core, self.now) == Finalize::Pending
            && self.now < limit
        {
            self.poll(PollOrder::OutFirst)?;
            if self.engine.netmod.finalize(&mut self.engine.core, self.now) == Finalize::Done {
                break;
            }
            self.block(limit)?;
        }
        let parted = self.ch3.boot.finalize().map_err(Error::Launcher);
        outcome.and(parted)
    }

    /// The part of finalize that needs the peers: barrier, then the close protocol.
    fn leave(&mut self) -> Result<()> {
        self.flush();
        self.ch3.boot.barrier_begin().map_err(Error::Launcher)?;
        let mut failed = None;
        loop {
            match self.ch3.boot.barrier_poll() {
                Ok(true) => break,
                Ok(false) => {}
                Err(e) => {
                    failed = Some(Error::Launcher(e));
                    break;
                }
            }
            if !self.poll(PollOrder::InFirst)? {
                self.block(Time::NEVER)?;
            }
        }
        if let Some(e) = failed {
            return Err(e);
        }
        self.ch3.finalizing = true;
        let n = self.ch3.world.vcs.len();
        let me = self.ch3.world.my_rank as usize;
        // Each process starts with its successor, so that not all close the same peer at once.
        let vcs: Vec<VcId> = (1..n).filter_map(|i| self.ch3.world.vcs[(me + i) % n]).collect();
        let now = self.now;
        for vc in &vcs {
            self.ch3.vc_close(&mut self.engine.io(now), *vc);
        }
        self.flush();
        let deadline = self.deadline(self.cfg.close_timeout);
        self.wait_until(deadline, |d| vcs.iter().all(|vc| d.at_rest(*vc)))?;
        let open: Vec<String> = vcs
            .iter()
            .filter_map(|vc| self.engine.core.vcs.get(*vc))
            .filter(|v| !v.state.is_at_rest())
            .map(|v| format!("rank {} ({})", v.peer.rank, v.state))
            .collect();
        if open.is_empty() {
            debug_assert_eq!(self.ch3.close_ops, 0);
            return Ok(());
        }
        Err(Error::Timeout(format!(
            "finalize: {} of {} connections were not closed by their peers within {:?} (NETMOD_CLOSE_TIMEOUT): {}",
            open.len(),
            vcs.len(),
            self.cfg.close_timeout,
            open.join(", ")
        )))
    }
}

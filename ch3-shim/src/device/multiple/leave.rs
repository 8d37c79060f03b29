//! Leaving the job with all engines.

use std::sync::atomic::Ordering;

use netmod_core::{Arm, Time};

use super::Multiple;
use crate::device::leave::Step;
use crate::device::{Device, Vci};
use crate::error::{Error, Result};
use crate::sys::wait_readable;

impl Device<Multiple> {
    /// Leaves the job: waits until all processes want to, closes all connections by agreement, and
    /// leaves nothing behind. One thread calls this when no other uses the device any more; those
    /// that do all the same are told.
    ///
    /// # Errors
    /// If the process manager fails, or a peer does not close its connection in time; everything
    /// local is released all the same.
    pub fn finalize(self) -> Result<()> {
        self.store.check_origin()?;
        if self.store.left.swap(true, Ordering::Relaxed) {
            return Err(Error::Usage("the device was finalized by another thread".into()));
        }
        let mut failed = None;
        let mut left: Vec<_> = self.store.engines.iter().collect();
        for e in &left {
            e.lock.with(Vci::finalize_begin);
        }
        while !left.is_empty() {
            let mut busy = false;
            let mut until = Time::NEVER;
            left.retain(|e| match e.lock.with(Vci::leave_step) {
                Ok(Step::Done) => false,
                Ok(Step::Busy) => {
                    busy = true;
                    true
                }
                Ok(Step::Idle(limit)) => {
                    until = until.min(limit);
                    true
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    false
                }
            });
            if busy || left.is_empty() {
                continue;
            }
            let mut fds = Vec::new();
            let mut nap = super::engine::LONGEST_NAP;
            for e in &left {
                e.lock.with(|v| {
                    busy |= v.arm() == Arm::Busy;
                    let until = until.min(v.deadline().unwrap_or(Time::NEVER));
                    nap = nap.min(until.since(v.now()));
                    fds.extend(v.descriptors());
                });
            }
            if !busy && let Err(e) = wait_readable(&fds, nap) {
                // Without waiting it takes more turns, and no longer.
                tracing::warn!(%e, "poll");
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

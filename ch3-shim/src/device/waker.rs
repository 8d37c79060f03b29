//! Waking a thread that sleeps in a wait: another one wants what the waiting thread holds.
//!
//! A layer above may keep a device behind a lock. Who finds the lock taken says so by a [`Waker`];
//! the holder, if it sleeps in [`Vci::wait_until`], wakes, asks its condition, and can leave.
//!
//! No wake is lost: who wants is counted before the sleeper's mark is read, and the mark is set
//! before the count is read.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::Vci;
use crate::error::{Error, Result};
use crate::sys::EventFd;

#[derive(Debug)]
struct Shared {
    event: EventFd,
    /// Threads that want the device.
    wanting: AtomicU32,
    /// True while the waiting thread sleeps, or is about to.
    asleep: AtomicBool,
}

/// Wakes the thread that waits on a device. A clone wakes the same.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

impl Waker {
    /// Says that this thread wants the device: a sleep in [`Vci::wait_until`] ends, and there is
    /// none before [`Waker::got`] is called.
    pub fn want(&self) {
        self.0.wanting.fetch_add(1, Ordering::SeqCst);
        if self.0.asleep.load(Ordering::SeqCst) {
            self.0.event.signal();
        }
    }

    /// Says that this thread has the device, or wants it no longer.
    pub fn got(&self) {
        self.0.wanting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if a thread wants the device.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.0.wanting.load(Ordering::Relaxed) > 0
    }

    /// Prepares a sleep. Returns the descriptor that ends it, or `None` if a thread wants the
    /// device, so that there must be no sleep.
    pub(super) fn begin_sleep(&self) -> Option<RawFd> {
        self.0.asleep.store(true, Ordering::SeqCst);
        if self.0.wanting.load(Ordering::SeqCst) > 0 {
            self.end_sleep();
            return None;
        }
        Some(self.0.event.as_raw_fd())
    }

    /// Ends a sleep. Returns true if a thread has woken this one.
    pub(super) fn end_sleep(&self) -> bool {
        self.0.asleep.store(false, Ordering::SeqCst);
        self.0.event.drain()
    }
}

impl Vci {
    /// Returns what wakes a thread that sleeps in a wait on this device.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn waker(&mut self) -> Result<Waker> {
        self.check_origin()?;
        if let Some(waker) = &self.waiting.waker {
            return Ok(waker.clone());
        }
        let failed = |e| {
            Error::Usage(format!("no descriptor to wake threads by: {e}; is the limit too low (ulimit -n)?"))
        };
        let event = EventFd::new().map_err(failed)?;
        let shared = Shared { event, wanting: AtomicU32::new(0), asleep: AtomicBool::new(false) };
        Ok(self.waiting.waker.insert(Waker(Arc::new(shared))).clone())
    }

    /// Returns the number of polls that have found something, modulo 2^64.
    #[inline]
    pub fn busy_polls(&self) -> u64 {
        self.waiting.busy_polls
    }
}

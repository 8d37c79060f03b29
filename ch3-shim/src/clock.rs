//! The device's clock: the machine's, or one that a simulation moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use netmod_core::Time;

/// A clock that stands still until somebody sets it: the time of a simulated job.
///
/// Clones are the same clock, so that all devices of a simulation live at one time. A blocking call
/// of a device with such a clock returns only if another thread moves it, or if what it waits for
/// comes; a simulation uses the forms that do not block.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// A clock that shows [`Time::ZERO`].
    pub fn new() -> VirtualClock {
        VirtualClock::default()
    }

    /// Returns the time that it shows.
    pub fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    /// Moves it; never back.
    pub fn set(&self, to: Time) {
        self.0.fetch_max(to.0, Ordering::Relaxed);
    }
}

/// The source of a device's time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The machine's monotonic clock, since this moment.
    Machine(Instant),
    /// A simulation's.
    Virtual(VirtualClock),
}

impl Clock {
    pub(crate) fn machine() -> Clock {
        Clock::Machine(Instant::now())
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::Machine(start) => Time(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Clock::Virtual(clock) => clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_is_shared_and_never_goes_back() {
        let clock = VirtualClock::new();
        let device = Clock::Virtual(clock.clone());
        clock.set(Time(7));
        clock.set(Time(3));
        assert_eq!((clock.now(), device.now()), (Time(7), Time(7)));
    }
}

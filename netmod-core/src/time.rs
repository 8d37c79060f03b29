//! Time as a parameter: a point on a monotonic clock that callers pass in.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A time in nanoseconds since an origin that the caller chose once (usually its start).
///
/// Nothing below the device layer reads a clock, so a test can drive every protocol object with
/// simulated time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// A time later than every event: the deadline of a wait without a limit.
    pub const NEVER: Time = Time(u64::MAX);

    /// Returns the time since `earlier`; zero if it is in the future.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time(5) - Time(9), Duration::ZERO);
        assert_eq!((Time(5) + Duration::from_nanos(4)).since(Time(2)), Duration::from_nanos(7));
    }
}

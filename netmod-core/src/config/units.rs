//! Units in which tables of settings give limits and defaults.

use core::time::Duration;

/// Bytes of a KiB.
pub const K: usize = 1 << 10;
/// Bytes of a MiB.
pub const M: usize = 1 << 20;
/// Bytes of a GiB.
pub const G: usize = 1 << 30;
/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);
/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);
/// A day.
pub const DAY: Duration = Duration::from_secs(86_400);

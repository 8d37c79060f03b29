//! The end of a process that aborts.

use std::time::Duration;

use crate::sys::exit_now;

/// Time limit of an abort once the launcher has had its time: netmods that end wait for peers
/// that are writing, and one that is stopped writes for ever; exit handlers may wait for what this
/// thread holds.
const LIMIT: Duration = Duration::from_secs(10);

/// An exit for which something is to be done first. After [`LIMIT`] the process ends in any case,
/// where it is.
#[derive(Debug)]
#[must_use = "the process ends without exit handlers"]
pub(crate) struct Exit(i32);

impl Exit {
    /// Begins an exit with a status.
    pub(crate) fn with(code: i32) -> Exit {
        let late = move || {
            std::thread::sleep(LIMIT);
            exit_now(code);
        };
        if std::thread::Builder::new().name("netmod-exit".into()).spawn(late).is_err() {
            // Nobody would end it.
            exit_now(code);
        }
        Exit(code)
    }

    /// Exits.
    pub(crate) fn now(self) -> ! {
        std::process::exit(self.0)
    }
}

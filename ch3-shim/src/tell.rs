//! Warnings for the user.

use std::fmt::Display;

/// Warns: through the program's log if it has one, else on stderr.
pub(crate) fn warn(what: &dyn Display) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{what}");
    } else {
        netmod_core::tell::on_stderr(&format_args!("warning: {what}"));
    }
}

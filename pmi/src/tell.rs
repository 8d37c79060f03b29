//! Messages to the user while this process waits for its launcher.

use std::fmt::Display;
use std::time::Duration;

/// Time without a reply after which the user is told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Reports in the program's log, or else on stderr, that the launcher has not replied for
/// [`PATIENCE`].
pub(crate) fn waits(doing: &dyn Display) {
    let text = format_args!(
        "{doing}: the launcher has not answered for {PATIENCE:?}; this process waits for it. Is it stopped, or busy?"
    )
    .to_string();
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        // In one write; a closed stderr is no error.
        let line = format!("netmod: warning: {text}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
}

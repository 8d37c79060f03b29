//! The progress bar, shown only on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar, or nothing.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Makes a progress bar that shows nothing.
    pub(crate) fn silent() -> Progress {
        Progress(None)
    }

    /// Makes a bar for this many seconds of work, if stderr is a terminal.
    pub(crate) fn bar(seconds: f64) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::silent();
        }
        let bar = ProgressBar::with_draw_target(Some((seconds * 1e3) as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Progress(Some(bar))
    }

    /// Shows the current activity.
    pub(crate) fn show(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
        }
    }

    /// Advances by work that was planned to take this many seconds.
    pub(crate) fn advance(&self, seconds: f64) {
        if let Some(bar) = &self.0 {
            bar.inc((seconds * 1e3) as u64);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

//! The progress bar: on a terminal only, silent in a pipe.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far the work has come.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Shows nothing.
    pub(crate) fn silent() -> Progress {
        Progress(None)
    }

    /// A bar for work of so many seconds, if stderr is a terminal.
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

    /// Says what is being done.
    pub(crate) fn say(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
        }
    }

    /// Work that was meant to take so many seconds is done.
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

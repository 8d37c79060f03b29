//! A bar of a job's parts, on a terminal.

use std::io::{IsTerminal as _, Write as _};

/// Columns of the bar.
const BAR: usize = 30;
/// Columns of what is done now.
const NAME: usize = 60;

/// A bar of a job's parts, on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    all: usize,
    done: usize,
    failed: usize,
    shown: bool,
}

impl Progress {
    /// Makes a bar for so many parts.
    pub(crate) fn new(all: usize) -> Progress {
        Progress { all, done: 0, failed: 0, shown: std::io::stderr().is_terminal() }
    }

    /// Returns true if there is a terminal.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Says what is done now.
    pub(crate) fn start(&self, name: &str) {
        if self.shown {
            eprint!("\r\x1b[K{}", self.line(name));
            // A bar that cannot be shown is no reason to fail.
            let _ = std::io::stderr().flush();
        }
    }

    /// Counts a part that is done.
    pub(crate) fn advance(&mut self) {
        self.done += 1;
        if self.shown && self.done == self.all {
            eprint!("\r\x1b[K");
        }
    }

    /// Counts a part that has failed.
    pub(crate) fn fail(&mut self) {
        self.failed += 1;
        self.advance();
    }

    fn line(&self, name: &str) -> String {
        let filled = BAR * self.done / self.all.max(1);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let name: String = name.chars().take(NAME).collect();
        format!("[{bar}] {} of {}{failed}: {name}", self.done, self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_and_failures_are_counted() {
        let mut progress = Progress { all: 3, done: 0, failed: 0, shown: false };
        assert_eq!(progress.line("a"), format!("[{}] 0 of 3: a", ".".repeat(30)));
        progress.advance();
        progress.fail();
        let bar = format!("[{}{}] 2 of 3, 1 failed: b", "#".repeat(20), ".".repeat(10));
        assert_eq!(progress.line("b"), bar);
    }
}

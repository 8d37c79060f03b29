//! The error of a measurement: one sentence for the user.

use std::fmt;

/// An error text: what went wrong, and what may help.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// Result of all fallible functions of this program.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Makes an error from a sentence.
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ch3_shim::Error> for Failure {
    fn from(e: ch3_shim::Error) -> Failure {
        Failure(e.to_string())
    }
}

/// Adds to an error what was being done.
pub(crate) trait During<T> {
    /// Describes the failed action; `what` completes "cannot ..".
    fn during(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Failure(format!("cannot {what}: {e}")))
    }
}

//! One program of a job.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) ranks: u32,
}

impl Program {
    /// Returns a program with one rank.
    pub(super) fn new(path: &OsStr) -> Program {
        Program { path: path.to_owned(), args: Vec::new(), env: Vec::new(), directory: None, ranks: 1 }
    }
}

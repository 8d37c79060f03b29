//! `cargo xtask suite NAME`: test suites of others, run on the MPI library as it is installed.
//!
//! A suite is fetched when it runs and kept in the target folder; nothing of it is part of the
//! project. Tests that do not apply are on a list in `xtask/allowed`, with their reasons.

mod allowed;
mod judge;
mod launch;
mod lines;
mod mpi4py;
mod mpich;
mod report;
mod source;

use std::path::PathBuf;

use crate::command::{output, root};
use crate::prefix;

use report::Verdict;

/// Options of `suite`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Only tests whose names have this text.
    pub(crate) filter: Option<String>,
    /// The most seconds for one test, in place of what its list says.
    pub(crate) limit: Option<u64>,
    /// True to name the tests, and to run none.
    pub(crate) list: bool,
    pub(crate) json: bool,
    /// The folder with the built library; without one the release profile is built.
    pub(crate) from: Option<PathBuf>,
}

impl Asked {
    /// Returns true if a test's name passes the filter.
    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }

    /// Installs the library for a suite, and returns the folder.
    fn install(&self, suite: &str) -> Result<PathBuf, String> {
        let prefix = folder(suite).join("prefix");
        prefix::install(&prefix::Asked { prefix: Some(prefix.clone()), from: self.from.clone() })?;
        Ok(prefix)
    }
}

/// Returns the folder of a suite.
fn folder(suite: &str) -> PathBuf {
    root().join("target/suites").join(suite)
}

/// Runs a suite, and prints a table in Markdown or one line of JSON a test.
///
/// # Errors
/// If there is no such suite, it cannot be fetched or built, or a test fails.
pub(crate) fn suite(name: Option<&str>, asked: &Asked) -> Result<(), String> {
    let outcomes = match name {
        Some("mpich") => mpich::run(asked)?,
        Some("mpi4py") => mpi4py::run(asked)?,
        Some(other) => return Err(format!("there is no suite {other}; there are mpich and mpi4py")),
        None => return Err("suite wants a name: mpich or mpi4py".into()),
    };
    if asked.list {
        return Ok(());
    }
    if !asked.json {
        let commit = output(std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]));
        // A tree without git has no commit.
        let commit = commit.map_or_else(|_| "unknown".into(), |c| c.trim().to_owned());
        print!("Commit {commit}.\n\n{}", report::table(&outcomes));
    }
    let failed = outcomes.iter().filter(|o| matches!(o.verdict, Verdict::Failed(_))).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} tests have failed", outcomes.len())) }
}

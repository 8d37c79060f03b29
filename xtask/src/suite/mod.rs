//! `cargo xtask suite NAME`: test suites of others, run on the MPI library as it is installed.
//!
//! A suite is fetched when it runs and kept in the target folder; nothing of it is part of the
//! project. Tests that do not apply are on a list in `xtask/allowed`, with their reasons. Those
//! that run in `cargo xtask test` are on lists in `xtask/subset`.

mod allowed;
mod coarrays;
mod extension;
mod forced;
mod imb;
mod judge;
mod kills;
mod launch;
mod lines;
mod mpi4py;
mod mpich;
mod programs;
mod report;
mod rsmpi;
mod scalapack;
mod source;
mod subset;

use std::path::{Path, PathBuf};

use crate::command::{output, root};
use crate::options::Options;
use crate::prefix;

use extension::Extension;
use report::{Outcome, Verdict};
use subset::Subset;

pub(crate) use kills::PYTHON_TESTS;

/// The list of MPICH's tests of collective operations, in names of tests.
const COLLECTIVES: &str = "coll/";

/// Options of `suite`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Only tests whose names have this text, or begin with what follows a `^`.
    pub(crate) filter: Option<String>,
    /// True to run only the tests of the list for `cargo xtask test`.
    pub(crate) subset: bool,
    /// Variables for the tests.
    pub(crate) environment: Vec<(String, String)>,
    /// True to run the suite once for each algorithm of collective operations.
    pub(crate) forced: bool,
    /// The most seconds for one test, in place of what its list says.
    pub(crate) limit: Option<u64>,
    /// True to name the tests, and to run none.
    pub(crate) list: bool,
    pub(crate) json: bool,
    /// The folder with the built library; without one the release profile is built.
    pub(crate) from: Option<PathBuf>,
    /// The launcher of the tests; the library's own by default.
    pub(crate) launcher: Option<PathBuf>,
}

impl Asked {
    /// Returns true if a test's name passes the filter.
    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|text| match text.strip_prefix('^') {
            Some(start) => name.starts_with(start),
            None => name.contains(text.as_str()),
        })
    }

    /// Installs the library for a suite, and returns the folder.
    fn install(&self, suite: &str) -> Result<PathBuf, String> {
        let prefix = folder(suite).join("prefix");
        prefix::install(&prefix::Asked { prefix: Some(prefix.clone()), from: self.from.clone() })?;
        Ok(prefix)
    }

    /// Returns the launcher of tests of a library that is installed there.
    fn launcher(&self, prefix: &Path) -> PathBuf {
        self.launcher.clone().unwrap_or_else(|| prefix.join("bin/mpiexec"))
    }

    /// Returns the words that tell a reader of a report what it is of.
    fn title(&self) -> String {
        let commit = output(std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]));
        // A tree without git has no commit.
        let mut title = format!("Commit {}", commit.as_deref().unwrap_or("unknown").trim());
        for (n, (name, value)) in self.environment.iter().enumerate() {
            title += &format!("{} {name}={value}", if n == 0 { " with" } else { "," });
        }
        if let Some(launcher) = &self.launcher {
            title += &format!(", under {}", launcher.display());
        }
        title + "."
    }
}

/// Returns the folder of a suite.
fn folder(suite: &str) -> PathBuf {
    root().join("target/suites").join(suite)
}

/// Fetches what the subsets need, so that their stage depends on no network, and returns the folder
/// of mpi4py's tests.
///
/// # Errors
/// If something is not there and cannot be fetched, as what is not tested without it.
pub(crate) fn fetch(options: Options) -> Result<PathBuf, String> {
    let without = |why: String| format!("the test suites of others ({})", why.replace('\n', " "));
    if options.no_install && !(mpich::is_fetched() && extension::is_fetched()) {
        return Err(without("they were not fetched".into()));
    }
    mpich::fetch().and_then(|_| extension::tests()).map_err(without)
}

/// Runs the subsets of the suites on what is built in a folder, and their collective operations
/// once more for each algorithm.
///
/// # Errors
/// If a test fails.
pub(crate) fn subsets(from: &Path) -> Result<(), String> {
    let asked = Asked { subset: true, from: Some(from.to_owned()), ..Asked::default() };
    let mut outcomes = mpich::run(&asked, &mpich::C)?;
    outcomes.extend(mpi4py::run(&asked, Extension::Mpich)?);
    for variables in forced::runs()? {
        let told = forced::told(&variables);
        let filter = Some(format!("^{COLLECTIVES}"));
        let asked = Asked { filter, environment: variables, ..asked.clone() };
        let named = |o: Outcome| Outcome { name: format!("{} ({told})", o.name), ..o };
        outcomes.extend(mpich::run(&asked, &mpich::C)?.into_iter().map(named));
    }
    verdict(&outcomes)?;
    eprintln!("xtask: {}", subset::told(&outcomes));
    Ok(())
}

/// Runs a suite, and prints a table in Markdown or one line of JSON a test.
///
/// # Errors
/// If there is no such suite, it cannot be fetched or built, or a test fails.
pub(crate) fn suite(name: Option<&str>, asked: &Asked) -> Result<(), String> {
    if !asked.forced {
        return once(name, asked);
    }
    let mut faults = Vec::new();
    for variables in forced::runs()? {
        let told = forced::told(&variables);
        let mut asked = Asked { forced: false, ..asked.clone() };
        asked.environment.extend(variables);
        if let Err(fault) = once(name, &asked) {
            faults.push(format!("{told}: {fault}"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Runs a suite with the variables that are asked for.
fn once(name: Option<&str>, asked: &Asked) -> Result<(), String> {
    const NAMES: &str =
        "mpich, mpich-fortran, mpi4py, mpi4py-standard, imb, scalapack, coarrays, rsmpi and kills";
    let outcomes = match name {
        Some("mpich") => mpich::run(asked, &mpich::C)?,
        Some("mpich-fortran") => mpich::run(asked, &mpich::FORTRAN)?,
        Some("mpi4py") => mpi4py::run(asked, Extension::Mpich)?,
        Some("mpi4py-standard") => mpi4py::run(asked, Extension::Standard)?,
        Some("imb") => imb::run(asked)?,
        Some("scalapack") => scalapack::run(asked)?,
        Some("coarrays") => coarrays::run(asked)?,
        Some("rsmpi") => rsmpi::run(asked)?,
        Some("kills") => return kills::run(asked),
        Some(other) => return Err(format!("there is no suite {other}; there are {NAMES}")),
        None => return Err(format!("suite wants a name; there are {NAMES}")),
    };
    if asked.list {
        return Ok(());
    }
    if !asked.json {
        print!("{}\n\n{}", asked.title(), report::table(&outcomes));
    }
    verdict(&outcomes)
}

fn verdict(outcomes: &[Outcome]) -> Result<(), String> {
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|o| matches!(o.verdict, Verdict::Failed(_)))
        .map(|o| o.name.as_str())
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} tests have failed: {}", failed.len(), outcomes.len(), failed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_part_of_a_name_or_its_start() {
        let wants = |filter: Option<&str>, name: &str| {
            Asked { filter: filter.map(str::to_owned), ..Asked::default() }.wants(name)
        };
        assert!(wants(None, "threads/pt2pt/x 2") && wants(Some("pt2pt/"), "threads/pt2pt/x 2"));
        assert!(wants(Some("^pt2pt/"), "pt2pt/x 2") && !wants(Some("^pt2pt/"), "threads/pt2pt/x 2"));
        assert!(!wants(Some(" 3"), "test_a 2"));
    }

    #[test]
    fn a_report_tells_the_variables_of_its_tests() {
        let mut asked = Asked::default();
        assert!(asked.title().ends_with('.') && !asked.title().contains(" with "));
        for (name, value) in [("NETMOD", "ofi"), ("A", "b")] {
            asked.environment.push((name.into(), value.into()));
        }
        assert!(asked.title().ends_with(" with NETMOD=ofi, A=b."), "{}", asked.title());
    }
}

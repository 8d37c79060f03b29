//! mpi4py's own tests: those of its source package, run by our `mpiexec` or another launcher with
//! several numbers of ranks, on an extension for one of the ABIs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::judge::Ended;
use super::lines::{Expects, Test};
use super::report::{self, Outcome, Verdict};
use super::{Asked, Extension, Subset, allowed, extension, folder, launch};
use crate::command::root;
use crate::install::which;
use crate::progress::Progress;

/// Numbers of ranks that each file runs with.
const RANKS: [u32; 4] = [1, 2, 3, 5];
/// Seconds for a file with one number of ranks.
const LIMIT: u64 = 180;
/// Names of failed tests that a report shows.
const NAMES: usize = 6;

/// Fetches the tests, and runs those that are wanted.
///
/// # Errors
/// If they cannot be fetched or read, or the extension cannot be built.
pub(crate) fn run(asked: &Asked, extension: Extension) -> Result<Vec<Outcome>, String> {
    let folder = folder(extension.suite());
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let tests = extension::tests()?;
    let exceptions = exceptions()?;
    let (left_out, patterns): (Vec<_>, Vec<_>) =
        exceptions.iter().cloned().partition(|(key, _)| !key.contains('.'));
    let files = files(&tests)?;
    if let Some((key, _)) = left_out.iter().find(|(key, _)| !files.contains(key)) {
        return Err(format!("xtask/allowed/suite-mpi4py.tsv: {key} is no file of the tests"));
    }
    let mut wanted = Vec::new();
    for file in files {
        wanted.extend(RANKS.map(|ranks| (file.clone(), ranks)));
    }
    let subset = Subset::read(extension.suite(), asked.subset)?;
    let names: Vec<String> = wanted.iter().map(|(file, ranks)| format!("{file} {ranks}")).collect();
    subset.check(names.iter().map(String::as_str))?;
    wanted.retain(|(file, ranks)| {
        let name = format!("{file} {ranks}");
        asked.wants(&name) && subset.has(&name)
    });
    if asked.list {
        wanted.iter().for_each(|(file, ranks)| println!("{file} {ranks}"));
        return Ok(Vec::new());
    }
    let prefix = asked.install(extension.suite())?;
    let setup = Setup {
        python: which("python3").ok_or("there is no python3")?,
        tests,
        package: extension.package(&folder, &prefix)?,
        library: prefix.join("lib").join(extension.library()),
        launcher: asked.launcher(&prefix),
        prefix,
        environment: asked.environment.clone(),
    };
    let mut progress = Progress::new(wanted.len());
    let mut outcomes = Vec::new();
    if !asked.subset {
        outcomes.extend(patterns.iter().map(|(key, reason)| skipped(key, reason)));
    }
    for (file, ranks) in wanted {
        let name = format!("{file} {ranks}");
        progress.start(&name);
        let start = Instant::now();
        let verdict = match left_out.iter().find(|(key, _)| *key == file) {
            Some((_, reason)) => Verdict::NotApplicable(reason.clone()),
            None => setup.one(&file, ranks, &patterns, asked.limit.unwrap_or(LIMIT), &folder)?,
        };
        let list = format!("{ranks} ranks");
        let outcome = Outcome { list, name, ranks, verdict, seconds: start.elapsed().as_secs_f64() };
        report::count(&mut progress, &outcome);
        if asked.json {
            println!("{}", outcome.json());
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Tests of a file that are left out.
fn skipped(key: &str, reason: &str) -> Outcome {
    let verdict = Verdict::NotApplicable(reason.into());
    Outcome { list: "single tests".into(), name: key.into(), ranks: 0, verdict, seconds: 0.0 }
}

/// Paths that the tests run with.
struct Setup {
    python: PathBuf,
    /// The folder of the tests.
    tests: PathBuf,
    /// The folder of the package with the extension.
    package: PathBuf,
    /// The MPI library.
    library: PathBuf,
    /// The folder in which it is installed.
    prefix: PathBuf,
    launcher: PathBuf,
    /// Further variables.
    environment: Vec<(String, String)>,
}

impl Setup {
    /// Runs the tests of a file.
    fn one(
        &self,
        file: &str,
        ranks: u32,
        patterns: &[(String, String)],
        limit: u64,
        folder: &Path,
    ) -> Result<Verdict, String> {
        let mut arguments: Vec<String> =
            ["main.py", "--verbose", "--no-builddir", "-i"].map(str::to_owned).into();
        arguments.push(format!("^{file}\\.py$"));
        let of_file = |key: &&(String, String)| key.0.split('.').next() == Some(file);
        arguments.extend(patterns.iter().filter(of_file).flat_map(|(key, _)| ["-x".into(), key.clone()]));
        let environment = [
            ("PYTHONPATH", self.package.as_path()),
            ("MPI4PY_LIBMPI", &self.library),
            ("LD_LIBRARY_PATH", &self.prefix.join("lib")),
        ];
        let environment = environment.map(|(n, v)| (n.to_owned(), v.display().to_string()));
        let test = Test {
            list: "mpi4py".into(),
            program: self.python.display().to_string(),
            ranks,
            arguments,
            launcher: Vec::new(),
            environment: environment.into_iter().chain(self.environment.iter().cloned()).collect(),
            limit: None,
            expects: Expects::NoErrors,
            memory: 0.0,
        };
        let ended = launch::launch(&test, &self.launcher, &self.tests, &folder.join("output.txt"), limit)?;
        Ok(judge(&ended, limit))
    }
}

/// Judges the tests of a file by what Python's runner prints.
fn judge(ended: &Ended, limit: u64) -> Verdict {
    let mut failed: Vec<&str> = Vec::new();
    for line in ended.output.lines() {
        let name = line.strip_prefix("ERROR: ").or_else(|| line.strip_prefix("FAIL: "));
        // Behind it there may be the line of another rank.
        if let Some(name) = name.and_then(|name| name.split_inclusive(')').next())
            && !failed.contains(&name)
        {
            failed.push(name);
        }
    }
    let mut why = if ended.late || ended.stuck {
        format!("no end within {limit} s")
    } else if failed.is_empty() && ended.status == Some(0) {
        if has_run(&ended.output) {
            return Verdict::Passed;
        }
        "no test has run".into()
    } else {
        let status = ended.status.map_or("a signal".into(), |s| format!("status {s}"));
        format!("{} tests failed, {status}", failed.len())
    };
    failed.iter().take(NAMES).for_each(|name| why += &format!("\n{name}"));
    let words = |line: &&str| line.contains("Exception: ") || line.contains("Error: ");
    if let Some(line) = ended.output.lines().find(words) {
        why += &format!("\n{}", line.chars().take(200).collect::<String>());
    } else if failed.is_empty() {
        let last: Vec<&str> = ended.output.lines().rev().take(3).collect();
        last.iter()
            .rev()
            .for_each(|line| why += &format!("\n{}", line.chars().take(200).collect::<String>()));
    }
    Verdict::Failed(why)
}

/// Returns true if a rank says that it has run tests. Lines of several ranks may be mixed.
fn has_run(output: &str) -> bool {
    let mut numbers = output.split("Ran ").skip(1).filter_map(|rest| rest.split_once(" test"));
    numbers.any(|(number, _)| number.parse::<u32>().is_ok_and(|n| n > 0))
}

/// Returns the names of the files with tests.
fn files(tests: &Path) -> Result<Vec<String>, String> {
    let fault = |e: std::io::Error| format!("{}: {e}", tests.display());
    let names = std::fs::read_dir(tests).map_err(fault)?.flatten().map(|f| f.file_name());
    let mut files: Vec<String> = names
        .filter_map(|name| name.to_string_lossy().strip_suffix(".py").map(str::to_owned))
        .filter(|name| name.starts_with("test_"))
        .collect();
    files.sort();
    Ok(files)
}

/// Reads the list of what is left out: a file, or a pattern of the names of tests, and the reason.
fn exceptions() -> Result<Vec<(String, String)>, String> {
    let file = root().join("xtask/allowed/suite-mpi4py.tsv");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(allowed::read(&text)?.into_iter().map(allowed::Exception::into_parts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: i32, output: &str) -> Ended {
        Ended { status: Some(status), late: false, stuck: false, output: output.into() }
    }

    fn why(ended: &Ended) -> String {
        match judge(ended, 60) {
            Verdict::Failed(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_passes_if_tests_have_run_and_none_has_failed() {
        assert_eq!(judge(&ended(0, "Ran 3 tests in 0.1s\n\nOK (skipped=1)\n"), 60), Verdict::Passed);
        assert_eq!(judge(&ended(0, "-----Ran 1 test in 0.1sRan 1 test in"), 60), Verdict::Passed);
        assert!(why(&ended(0, "Ran 0 tests in 0.0s\n\nOK\n")).starts_with("no test has run"));
        assert!(why(&ended(0, "")).starts_with("no test has run"));
    }

    #[test]
    fn failed_tests_are_named_once_with_an_error() {
        let output = "ERROR: testA (m.C.testA)\nValueError: bad\nERROR: testA (m.C.testA)ERROR: testA\nFAIL: testB (m.C.testB)\n";
        let said = why(&ended(1, output));
        let lines = ["2 tests failed, status 1", "testA (m.C.testA)", "testB (m.C.testB)", "ValueError: bad"];
        assert_eq!(said.lines().collect::<Vec<_>>(), lines);
        let late = Ended { late: true, ..ended(124, "one\ntwo\nthree\nfour\n") };
        assert_eq!(why(&late), "no end within 60 s\ntwo\nthree\nfour");
        let killed = Ended { status: None, ..ended(0, "Ran 3 tests\n") };
        assert!(why(&killed).starts_with("0 tests failed, a signal"));
    }
}

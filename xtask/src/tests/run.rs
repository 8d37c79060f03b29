//! Runs the programs of tests, and keeps what each prints in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::programs::Program;

/// Packages whose tests start processes or keep time limits: each program has the machine alone.
const ALONE: &[&str] = &["netmod-perf", "netmod-pmi", "netmod-tests", "xtask"];
/// Programs that run together otherwise, so that a program's last test leaves no processor idle.
const TOGETHER: usize = 2;

/// Returns the programs that may run together, and those that must not.
pub(crate) fn divide(programs: &[Program]) -> (Vec<Program>, Vec<Program>) {
    programs.iter().cloned().partition(|p| !ALONE.contains(&p.package.name.as_str()))
}

/// Runs programs together, each with its share of the threads that one alone would have.
///
/// # Errors
/// If one fails; the others run all the same.
pub(crate) fn together(
    programs: &[Program],
    variables: &[(&str, PathBuf)],
    logs: &Path,
) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, |n| (n.get() / TOGETHER).max(1));
    let waiting = Mutex::new(programs.iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = || {
        let mut failed = Vec::new();
        while let Some(program) = next() {
            let done = run(program, variables, Some(threads), logs);
            failed.extend(done.err());
        }
        failed
    };
    let failed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(worker)).collect();
        let ended = |w: std::thread::ScopedJoinHandle<'_, _>| {
            w.join().unwrap_or_else(|_| vec!["a thread that runs tests has panicked".to_owned()])
        };
        workers.into_iter().flat_map(ended).collect()
    });
    verdict(failed)
}

/// Runs programs one by one.
///
/// # Errors
/// If one fails; the others run all the same.
pub(crate) fn one_by_one(
    programs: &[Program],
    variables: &[(&str, PathBuf)],
    logs: &Path,
) -> Result<(), String> {
    verdict(programs.iter().filter_map(|p| run(p, variables, None, logs).err()).collect())
}

fn verdict(failed: Vec<String>) -> Result<(), String> {
    if failed.is_empty() { Ok(()) } else { Err(format!("tests have failed: {}", failed.join("; "))) }
}

/// Runs a program. Shows what it has printed if it fails.
fn run(
    program: &Program,
    variables: &[(&str, PathBuf)],
    threads: Option<usize>,
    logs: &Path,
) -> Result<(), String> {
    let name = format!("{}, {}", program.package.name, program.target);
    let path = logs.join(format!("{}.log", name.replace([',', ' '], "-")));
    eprintln!("xtask: running {name}");
    let start = Instant::now();
    let mut command = program.command();
    command.arg("--quiet").envs(variables.iter().map(|(name, value)| (name, value)));
    if let Some(threads) = threads {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    let status = File::create(&path)
        .and_then(|log| command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status());
    let status =
        status.map_err(|e| format!("{name}: cannot run it, with its output to {}: {e}", path.display()))?;
    let text = std::fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    if status.success() {
        eprintln!("{}", passed(&name, &text, start.elapsed()));
        return Ok(());
    }
    eprintln!("{text}\nxtask: {name} has failed ({status}); its output is above, and in {}", path.display());
    Err(format!("{name} ({status})"))
}

/// Returns the line for a program whose tests have passed.
fn passed(name: &str, text: &str, took: Duration) -> String {
    let results = text.lines().filter_map(|l| l.strip_prefix("test result: "));
    let counts: Vec<&str> = results.filter_map(|l| l.split("; 0 measured").next()).collect();
    format!("xtask: {name}: {}, {:.1} s", counts.join(", "), took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::programs::Package;
    use super::*;

    /// A shell that stands for a program of tests; it ignores the argument `--quiet`.
    fn shell(name: &str, script: &str, folder: &Path) -> Program {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let package = Package::of(name, &folder.to_string_lossy(), &[]);
        Program { package, target: "lib".into(), source: "/p/src/lib.rs".into(), path }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn all_programs_run_and_those_that_fail_are_named() {
        let folder = folder("fail");
        let programs = [
            shell("a", "exit 3", &folder),
            shell("b", "echo $WORD $RUST_TEST_THREADS > b.txt", &folder),
            shell("c", "kill -9 $$", &folder),
        ];
        let variables = [("WORD", PathBuf::from("said"))];
        let why = together(&programs, &variables, &folder).expect_err("two fail");
        assert!(why.contains("a, lib (exit status: 3)") && why.contains("c, lib (signal: 9"), "{why}");
        assert!(!why.contains("b, lib"), "{why}");
        let said = std::fs::read_to_string(folder.join("b.txt")).expect("b has run");
        assert!(said.starts_with("said ") && said.trim().len() > "said ".len(), "{said}");
        let why = one_by_one(&programs, &[], &folder).expect_err("two fail");
        assert!(why.contains("a, lib") && why.contains("c, lib"), "{why}");
        assert_eq!(one_by_one(&programs[1..2], &[], &folder), Ok(()));
        std::fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn programs_with_limits_of_time_run_alone() {
        let program = |name: &str| Program {
            package: Package::of(name, "/p", &[]),
            target: "lib".into(),
            source: "/p/src/lib.rs".into(),
            path: "/t".into(),
        };
        let (together, alone) = divide(&[program("netmod-core"), program("netmod-tests")]);
        assert_eq!((&*together[0].package.name, &*alone[0].package.name), ("netmod-core", "netmod-tests"));
        assert_eq!((together.len(), alone.len()), (1, 1));
    }

    #[test]
    fn what_has_passed_is_counted() {
        let text = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let line = passed("a, lib", text, Duration::from_millis(1540));
        assert_eq!(line, "xtask: a, lib: ok. 2 passed; 0 failed; 1 ignored, 1.5 s");
    }
}

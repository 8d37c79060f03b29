//! Starting jobs from tests: under a watchdog, with everything they say kept.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::{LIMIT, sys};

/// Time limit of a job. Generous: it is there for jobs that hang.
pub const JOB_LIMIT: Duration = Duration::from_secs(60);
/// Variable in the environment of a job's processes; each job has another value.
pub const MARK: &str = "NETMOD_TEST_JOB_MARK";
/// The file to which skipped tests are written, if set.
const SKIP_LOG: &str = "NETMOD_TEST_SKIP_LOG";
/// Variable that makes a test that would be skipped fail if it is 1.
const NO_SKIP: &str = "NETMOD_TEST_NO_SKIP";

/// The end of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The launcher's status.
    pub status: ExitStatus,
    /// Output of all processes.
    pub output: String,
    /// Value of [`MARK`] in the environment of the job's processes.
    pub mark: String,
    /// For messages.
    command: String,
}

impl Outcome {
    /// Returns the number of ranks that have said that the case is ok.
    pub fn ok_ranks(&self, case: &str) -> usize {
        self.output.matches(&format!(": {case} ok\n")).count()
    }

    /// Fails the test unless all ranks have succeeded.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn expect_ok(&self, case: &str, ranks: u32) {
        assert!(self.status.success(), "{self}");
        assert_eq!(self.ok_ranks(case), ranks as usize, "{self}");
    }

    /// Returns what a rank has said in the case `span`: the messages that moved one-sided, those
    /// that moved through rings, and the windows that were registered beyond each message's first.
    ///
    /// # Panics
    /// If it has not said it.
    #[track_caller]
    pub fn moved(&self, rank: u32) -> [u64; 3] {
        let mut lines = self.output.lines();
        let line = lines.find_map(|l| l.split_once(&format!("rank {rank}: ")).map(|(_, rest)| rest));
        let line = line.filter(|l| l.contains("one-sided")).unwrap_or_else(|| panic!("{self}"));
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        [(); 3].map(|()| numbers.next().unwrap_or_else(|| panic!("three numbers: {line}")))
    }

    /// Fails the test unless all ranks of the case `span` have succeeded, and the messages have
    /// moved in this mode.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn expect_moved_in(&self, mode: &str) {
        self.expect_ok("span", 2);
        // The sender, rank 0, puts; the receiver gets.
        let one_sided = [0, 1].map(|rank| self.moved(rank)[0] > 0);
        assert_eq!(one_sided, [mode == "put", mode == "get"], "{mode}: {self}");
    }

    /// Fails the test unless the launcher has exited with this code.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn expect_code(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{self}");
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; it said:\n{}", self.command, self.status, self.output)
    }
}

/// Variable of a job that tests abilities of TCP alone: connections that break, sessions,
/// checkpoints, hosts. Other jobs use the defaults.
pub const OVER_TCP: (&str, &str) = ("NETMOD", "tcp");

/// The netmods with which jobs run that must work over any: the default, and TCP alone.
pub const EACH_NETMOD: [&str; 2] = ["shm,tcp", OVER_TCP.1];

/// Heavy jobs have the machine for themselves.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs a job beside others.
///
/// # Panics
/// If it cannot be started, or takes longer than [`JOB_LIMIT`].
#[track_caller]
pub fn run(command: &mut Command) -> Outcome {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_within(command, JOB_LIMIT)
}

/// Runs a job that needs much of the machine, without others beside it.
///
/// # Panics
/// As [`run`], after twice the time.
#[track_caller]
pub fn run_alone(command: &mut Command) -> Outcome {
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run_within(command, 2 * JOB_LIMIT)
}

/// Runs a command in a process group of its own, which is killed when the time is up.
///
/// # Panics
/// If it cannot be started, or takes too long.
#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Outcome {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    // A file, not a pipe: a process that is left behind could hold a pipe open.
    let path = std::env::temp_dir().join(format!("netmod-job-{}-{run}.out", std::process::id()));
    let file = File::create(&path).expect("a file for the output");
    let other = file.try_clone().expect("the file once more");
    let text = format!("{command:?}");
    // The ranks give up a little earlier than the watchdog, and say so.
    let mark = format!("{}-{run}", std::process::id());
    command.env(MARK, &mark);
    command.env(LIMIT, limit.as_secs().saturating_sub(5).max(1).to_string());
    command.stdin(Stdio::null()).stdout(file).stderr(other).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{text}: {e}"));
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().expect("the state of the launcher") {
            break Some(status);
        }
        if Instant::now() >= end {
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    // Ends the rest of the group; if it is empty, nobody is signalled.
    let late = status.is_none();
    if late {
        // A launcher that is asked takes its ranks along, which may be in other groups.
        let _ = sys::signal_group(child.id(), libc::SIGTERM);
        std::thread::sleep(Duration::from_secs(2));
    }
    let _ = sys::signal_group(child.id(), libc::SIGKILL);
    let status = status.unwrap_or_else(|| child.wait().unwrap_or(ExitStatus::from_raw(libc::SIGKILL)));
    let output = std::fs::read(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    let output = String::from_utf8_lossy(&output).into_owned();
    let outcome = Outcome { status, output, mark, command: text };
    assert!(!late, "not finished after {limit:?}: {outcome}");
    outcome
}

/// Processors that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// A program of the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file())
}

/// A launcher of the system, or none, in which case it was said that the test is skipped.
///
/// # Panics
/// If there is none and `NETMOD_TEST_NO_SKIP=1`.
#[track_caller]
pub fn launcher_or_skip(test: &str, program: &str, package: &str) -> Option<PathBuf> {
    if let Some(found) = find_program(program) {
        return Some(found);
    }
    skip(&format!("SKIPPED: {test}: {program} not installed (apt-get install {package})"));
    None
}

/// Says once that something is skipped, on stderr and in the log of what was.
///
/// # Panics
/// If `NETMOD_TEST_NO_SKIP=1`.
#[track_caller]
pub fn skip(line: &str) {
    assert!(std::env::var_os(NO_SKIP).is_none_or(|v| v != "1"), "{NO_SKIP}=1, but {line}");
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.iter().any(|s| s == line) {
        return;
    }
    eprintln!("{line}");
    said.push(line.to_owned());
    if let Some(log) = std::env::var_os(SKIP_LOG) {
        let file = File::options().append(true).create(true).open(&log);
        let written = file.and_then(|mut f| writeln!(f, "{line}"));
        assert!(written.is_ok(), "{SKIP_LOG}={}: {written:?}", Path::new(&log).display());
    }
}

/// A program of another package of the workspace, brought up to date in the target directory of
/// `neighbour`, a program of this one.
///
/// # Panics
/// If it cannot be built.
pub fn workspace_program(neighbour: &str, package: &str, name: &str) -> PathBuf {
    workspace_target(neighbour, package, &["--bin", name], name)
}

/// Returns an example of a package; see [`workspace_program`].
///
/// # Panics
/// If it cannot be built.
pub fn workspace_example(neighbour: &str, package: &str, name: &str) -> PathBuf {
    workspace_target(neighbour, package, &["--example", name], &format!("examples/{name}"))
}

/// Returns the library of a package, a shared one with this file name; see [`workspace_program`].
///
/// # Panics
/// If it cannot be built.
pub fn workspace_library(neighbour: &str, package: &str, file: &str) -> PathBuf {
    workspace_target(neighbour, package, &["--lib"], file)
}

/// With this variable programs that are there are not built again: whoever sets it has built all.
const BUILT: &str = "NETMOD_TEST_BUILT";

fn workspace_target(neighbour: &str, package: &str, which: &[&str], file: &str) -> PathBuf {
    let dir = Path::new(neighbour).parent().expect("a program in a directory");
    let profile = dir.file_name().and_then(|d| d.to_str()).expect("a directory named for the profile");
    let target = dir.parent().expect("a target directory");
    let program = dir.join(file);
    if std::env::var_os(BUILT).is_some_and(|v| v == "1") && program.is_file() {
        return program;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "-p",
        package,
        "--profile",
        if profile == "debug" { "dev" } else { profile },
    ]);
    build.args(which).arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = run_within(&mut build, Duration::from_secs(600));
    assert!(built.status.success() && program.is_file(), "{built}");
    program
}

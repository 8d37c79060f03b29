//! Runs the programs of tests, and keeps what each prints in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::programs::Program;

/// Packages whose tests start processes or keep time limits: each program has the machine alone,
/// unless it is one of [`HALVES`].
const ALONE: &[&str] = &["netmod-perf", "netmod-pmi", "netmod-tests", "xtask"];
/// Programs of netmod-tests that do with half of the processors, beside another one with the other
/// half. They wait for time limits, for daemons, or for ranks that would otherwise poll on
/// processors which others need. What two ranks do at the same moment is tested by the others.
const HALVES: &[&str] = &[
    "agreement",
    "alloc",
    "conformance_fake",
    "conformance_ofi",
    "conformance_tight",
    "conformance_wrapped",
    "hosts",
    "jobs_hydra",
    "jobs_slurm",
    "kills_shm",
    "lmt",
    "mixed",
    "mpi_dynamic",
    "mutation",
    "ofi_cycles",
    "ofi_regressions",
    "pairing",
];
/// Programs that run beside each other, so that a program's last test leaves no processor idle.
const BESIDE: usize = 2;

/// Programs of tests, by the part of the machine that each one needs.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Programs that compute, and share all processors.
    pub(crate) together: Vec<Program>,
    /// Programs that get half of the processors each.
    pub(crate) halves: Vec<Program>,
    pub(crate) alone: Vec<Program>,
}

/// Returns the programs in groups.
pub(crate) fn divide(programs: &[Program]) -> Groups {
    let mut groups = Groups::default();
    for program in programs {
        let package = program.package.name.as_str();
        let test = program.target.strip_prefix("test ").unwrap_or_default();
        let group = if !ALONE.contains(&package) {
            &mut groups.together
        } else if package == "netmod-tests" && HALVES.contains(&test) {
            &mut groups.halves
        } else {
            &mut groups.alone
        };
        group.push(program.clone());
    }
    groups
}

/// The part of the machine that a program gets.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Tests at the same time, if it is not as many as the program sees processors.
    threads: Option<usize>,
    /// The processors, as a list for taskset; all if there is none.
    processors: Option<String>,
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
    let threads = std::thread::available_parallelism().map_or(1, |n| (n.get() / BESIDE).max(1));
    let share = Share { threads: Some(threads), processors: None };
    beside(programs, &[(); BESIDE].map(|()| share.clone()), variables, logs)
}

/// Runs programs beside each other, each on a part of the processors of its own.
///
/// # Errors
/// If one fails; the others run all the same. If the processors are not known.
pub(crate) fn in_halves(
    programs: &[Program],
    variables: &[(&str, PathBuf)],
    logs: &Path,
) -> Result<(), String> {
    let status = Path::new("/proc/self/status");
    let text =
        std::fs::read_to_string(status).map_err(|e| format!("cannot read {}: {e}", status.display()))?;
    let processors = allowed(&text).ok_or("/proc/self/status has no list of allowed processors")?;
    beside(programs, &shares(&processors), variables, logs)
}

/// Reads the processors that a process may use, from its status.
fn allowed(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        processors.extend(first..=last);
    }
    Some(processors)
}

/// Divides processors. Two tests at a time run on one, since most of them wait.
fn shares(processors: &[usize]) -> Vec<Share> {
    let parts = processors.chunks(processors.len().div_ceil(BESIDE).max(1));
    let share = |part: &[usize]| {
        let names: Vec<String> = part.iter().map(usize::to_string).collect();
        Share { threads: Some(part.len().max(2)), processors: Some(names.join(",")) }
    };
    parts.map(share).collect()
}

/// Runs as many programs at a time as there are shares.
fn beside(
    programs: &[Program],
    shares: &[Share],
    variables: &[(&str, PathBuf)],
    logs: &Path,
) -> Result<(), String> {
    let waiting = Mutex::new(programs.iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = |share: &Share| {
        let mut failed = Vec::new();
        while let Some(program) = next() {
            failed.extend(run(program, variables, share, logs).err());
        }
        failed
    };
    let failed = std::thread::scope(|scope| {
        let workers: Vec<_> = shares.iter().map(|share| scope.spawn(|| worker(share))).collect();
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
    verdict(programs.iter().filter_map(|p| run(p, variables, &Share::default(), logs).err()).collect())
}

fn verdict(failed: Vec<String>) -> Result<(), String> {
    if failed.is_empty() { Ok(()) } else { Err(format!("tests have failed: {}", failed.join("; "))) }
}

/// Runs a program. Shows what it has printed if it fails.
fn run(program: &Program, variables: &[(&str, PathBuf)], share: &Share, logs: &Path) -> Result<(), String> {
    let name = format!("{}, {}", program.package.name, program.target);
    let path = logs.join(format!("{}.log", name.replace([',', ' '], "-")));
    eprintln!("xtask: running {name}");
    let start = Instant::now();
    let mut command = program.command_on(share.processors.as_deref());
    command.arg("--quiet").envs(variables.iter().map(|(name, value)| (name, value)));
    if let Some(threads) = share.threads {
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
    use crate::command::root;

    /// A shell that stands for a program of tests; it ignores the argument `--quiet`.
    fn shell(name: &str, script: &str, folder: &Path) -> Program {
        let path = folder.join(name);
        crate::command::write_script(&path, script);
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
    fn a_program_that_is_started_in_the_background_heeds_interrupts() {
        let folder = folder("signals");
        let program = shell("signals", "kill -INT $$; exit 3", &folder);
        let command = program.command();
        let status = std::process::Command::new("sh")
            .args(["-c", "trap '' INT QUIT; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .status()
            .expect("a shell");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2), "{status}");
        std::fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn programs_with_limits_of_time_run_alone() {
        let program = |name: &str, target: &str| Program {
            package: Package::of(name, "/p", &[]),
            target: target.into(),
            source: "/p/src/lib.rs".into(),
            path: "/t".into(),
        };
        let half = format!("test {}", HALVES[0]);
        let all = [("netmod-core", &*half), ("netmod-tests", "lib"), ("netmod-tests", &half)];
        let groups = divide(&all.map(|(name, target)| program(name, target)));
        let named = |group: &[Program]| -> Vec<String> {
            group.iter().map(|p| format!("{} {}", p.package.name, p.target)).collect()
        };
        assert_eq!(named(&groups.together), [format!("netmod-core {half}")]);
        assert_eq!(named(&groups.halves), [format!("netmod-tests {half}")]);
        assert_eq!(named(&groups.alone), ["netmod-tests lib"]);
    }

    #[test]
    fn programs_that_share_the_machine_exist() {
        let folder = root().join("tests/tests");
        for name in HALVES {
            assert!(folder.join(format!("{name}.rs")).is_file(), "{name}");
        }
    }

    #[test]
    fn each_half_has_processors_of_its_own() {
        let lists = |text: &str| -> Option<Vec<_>> {
            let shares = shares(&allowed(&format!("Name:\tx\nCpus_allowed_list:\t{text}\n"))?);
            Some(shares.into_iter().map(|s| (s.processors.unwrap_or_default(), s.threads)).collect())
        };
        let share = |list: &str, threads| (list.to_owned(), Some(threads));
        assert_eq!(lists("0-1"), Some(vec![share("0", 2), share("1", 2)]));
        assert_eq!(lists("3"), Some(vec![share("3", 2)]));
        assert_eq!(lists("0-3,8,10-11"), Some(vec![share("0,1,2,3", 4), share("8,10,11", 3)]));
        assert_eq!(lists("some"), None);
        assert_eq!(allowed("Name:\tx\n"), None);
    }

    #[test]
    fn a_program_sees_only_its_half() {
        let folder = folder("halves");
        let program = shell("a", "taskset -cp $$ > a.txt", &folder);
        assert_eq!(in_halves(&[program], &[], &folder), Ok(()));
        let said = std::fs::read_to_string(folder.join("a.txt")).expect("a has run");
        let list = said.trim().rsplit(' ').next().unwrap_or_default();
        let all = std::fs::read_to_string("/proc/self/status").expect("a status");
        let all = shares(&allowed(&all).expect("a list"));
        let status = format!("Cpus_allowed_list: {list}");
        let seen =
            allowed(&status).expect("what taskset prints").iter().map(usize::to_string).collect::<Vec<_>>();
        assert!(all.iter().any(|s| s.processors == Some(seen.join(","))), "{said}");
        std::fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn what_has_passed_is_counted() {
        let text = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let line = passed("a, lib", text, Duration::from_millis(1540));
        assert_eq!(line, "xtask: a, lib: ok. 2 passed; 0 failed; 1 ignored, 1.5 s");
    }
}

//! `cargo xtask test`: everything, in stages.

use std::path::PathBuf;
use std::process::Command;

use crate::aarch64::{self, Aarch64};
use crate::command::{cargo, root, run};
use crate::install::{NEEDS, NEEDS_AARCH64, VM, all_there, install};
use crate::options::Options;
use crate::skip::{NO_SKIP, SKIP_LOG};
use crate::stages::{Job, Stages};
use crate::tests::programs::{self, Built};
use crate::tests::run::{self as tests, Groups};
use crate::vm::{self, Machine};
use crate::{crates, disk, jobs, lammps, libfabric, mpi4py, suite};

/// Seconds for each fuzz target. The time that the seed comes from differs with each run.
const FUZZ_SECONDS: &str = "2";

/// Runs everything, and shows how long each stage takes, also if one fails.
///
/// # Errors
/// If a stage fails: the first one. Stages behind the build run also if tests have failed before,
/// but for those of a row behind one that fails ([`Stages::run_rows`]).
pub(crate) fn test(options: Options, json: bool) -> Result<(), String> {
    let mut stages = Stages::default();
    let mut skipped = Vec::new();
    let result = run_all(options, &mut stages, &mut skipped);
    if json {
        print!("{}", stages.json());
    } else {
        eprint!("xtask: stages\n{}", stages.table());
    }
    result?;
    skipped.sort();
    skipped.dedup();
    eprintln!("xtask: all tests passed");
    for what in &skipped {
        eprintln!("xtask: not tested: {what}");
    }
    Ok(())
}

fn run_all(options: Options, stages: &mut Stages, skipped: &mut Vec<String>) -> Result<(), String> {
    disk::check()?;
    let tools = stages.run("tools", || Tools::get(options, skipped))?;
    stages.run("format, lints, checks", || jobs::lint(options, skipped))?;
    stages.run("documentation", jobs::doc)?;
    let packages = programs::packages()?;
    let built = stages.run("build", || programs::build(&packages))?;
    let log = Log::new(options, &tools)?;
    let Groups { together, halves, alone } = tests::divide(&built.tests);
    let (variables, logs) = (&log.variables, &log.folder);
    // Tests that fail do not keep others from running.
    let first = stages.run("tests of crates", || tests::together(&together, variables, logs));
    let second = stages.run("tests on half of the processors", || tests::in_halves(&halves, variables, logs));
    let third = stages.run("tests of jobs", || tests::one_by_one(&alone, variables, logs));
    let mut result = first.and(second).and(third);
    if tools.suites.is_some() {
        let nmrun = built.path("netmod-pmi", "bin nmrun")?;
        let folder = nmrun.parent().ok_or("cargo has built nmrun in no folder")?;
        let suites = stages.run("test suites of others", || suite::subsets(folder));
        result = result.and(suites);
    }
    let fuzz = built.path("netmod-fuzz", "bin netmod-fuzz")?;
    // Each of these keeps one processor busy.
    let mut first: Vec<(_, Job<'_>)> = vec![(
        "tests in documentation",
        Box::new(|| {
            run(cargo().args(["test", "--workspace", "--doc", "--quiet"]).envs(log.variables.clone()))
        }),
    )];
    if let Some(deny) = &tools.deny {
        first.push(("crates", Box::new(|| crates::test(deny))));
    }
    if let Some(mdbook) = &tools.mdbook {
        first.push(("book", Box::new(|| jobs::book(mdbook))));
    }
    if let Some(aarch64) = tools.aarch64 {
        first.push(("aarch64", Box::new(move || aarch64.test())));
    }
    let mut second: Vec<(_, Job<'_>)> =
        vec![("fuzzing", Box::new(|| run(Command::new(fuzz).args(["--seconds", FUZZ_SECONDS]))))];
    if let Some(machine) = &tools.machine {
        second.push(("virtual machine", Box::new(|| in_machine(machine, &built))));
    }
    result = result.and(stages.run_rows(vec![first, second]));
    result.and(log.skipped().map(|more| skipped.extend(more)))
}

fn in_machine(machine: &Machine, built: &Built) -> Result<(), String> {
    let status = machine
        .test(&vm::Asked::default(), &|package, target| built.path(package, target).map(PathBuf::from))?;
    if status == 0 { Ok(()) } else { Err("tests in the virtual machine have failed".into()) }
}

/// Tools of this machine for some of the tests.
struct Tools {
    second_libfabric: Option<PathBuf>,
    mpi4py: Option<PathBuf>,
    /// The folder of mpi4py's tests, if the suites of others are there.
    suites: Option<PathBuf>,
    lammps: Option<PathBuf>,
    machine: Option<Machine>,
    aarch64: Option<Aarch64>,
    deny: Option<PathBuf>,
    mdbook: Option<PathBuf>,
}

impl Tools {
    /// Installs what is missing, if that is allowed.
    fn get(options: Options, skipped: &mut Vec<String>) -> Result<Tools, String> {
        skipped.extend(install(options, NEEDS.iter().chain(VM).chain(NEEDS_AARCH64))?);
        let second_libfabric = libfabric::second(options).map_err(|why| skipped.push(why)).ok();
        let mpi4py = mpi4py::folder(options).map_err(|why| skipped.push(why)).ok();
        let suites = suite::fetch(options).map_err(|why| skipped.push(why)).ok();
        let lammps = lammps::folder(options).map_err(|why| skipped.push(why)).ok();
        let deny = crates::DENY.get(options).map_err(|why| skipped.push(why)).ok();
        let mdbook = jobs::BOOK.get(options).map_err(|why| skipped.push(why)).ok();
        let (mut machine, mut aarch64) = (None, None);
        // Missing parts are among the skipped already.
        if all_there(VM) {
            machine = vm::machine(options).map_err(|why| skipped.push(why)).ok();
        }
        if all_there(NEEDS_AARCH64) {
            aarch64 = aarch64::toolchain(options).map_err(|why| skipped.push(why)).ok();
        }
        if options.no_skip && !skipped.is_empty() {
            return Err(format!("cannot test {}", skipped.join("; ")));
        }
        Ok(Tools { second_libfabric, mpi4py, lammps, suites, machine, aarch64, deny, mdbook })
    }
}

/// Files that tests write, and the variables that name them.
struct Log {
    folder: PathBuf,
    skipped: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Log {
    fn new(options: Options, tools: &Tools) -> Result<Log, String> {
        let folder = root().join("target").join("test-logs");
        let skipped = folder.join("skipped.txt");
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&skipped, ""))
            .map_err(|e| format!("cannot write {}: {e}", skipped.display()))?;
        let mut variables = vec![(SKIP_LOG, skipped.clone()), (BUILT, "1".into())];
        if options.no_skip {
            variables.push((NO_SKIP, "1".into()));
        }
        variables.extend(tools.second_libfabric.clone().map(|library| (libfabric::VARIABLE, library)));
        variables.extend(tools.mpi4py.clone().map(|folder| (mpi4py::VARIABLE, folder)));
        variables.extend(tools.suites.clone().map(|folder| (suite::PYTHON_TESTS, folder)));
        variables.extend(tools.lammps.clone().map(|folder| (lammps::VARIABLE, folder)));
        Ok(Log { folder, skipped, variables })
    }

    /// Returns what tests have skipped.
    fn skipped(&self) -> Result<Vec<String>, String> {
        let text = std::fs::read_to_string(&self.skipped)
            .map_err(|e| format!("cannot read {}: {e}", self.skipped.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

/// Variable that makes tests start programs as they are, and not build them.
const BUILT: &str = "NETMOD_TEST_BUILT";

//! MPICH's own test suite: Debian's source package, compiled by our `mpicc`, run by our `mpiexec`.

mod languages;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::allowed::{self, Exception};
use super::judge::judge;
use super::lines::{self, Test};
use super::report::{self, Outcome, Verdict};
use super::{Asked, Subset, folder, launch, source};
use crate::command::{output, run as run_command};
use crate::progress::Progress;
pub(super) use languages::{C, FORTRAN, Language};

/// The folder of the source, and of the tests in C.
const SUITE: &str = "mpich";
const PACKAGE: &str = "mpich=4.0.2-3";
/// The suite in the source.
const TESTS: &str = "test/mpi";
/// Seconds for a test whose list sets no limit.
const LIMIT: u64 = 60;
/// Share of the free memory that a test may fill.
const MEMORY: f64 = 0.8;

/// The folder of the source.
fn source_folder() -> PathBuf {
    folder(SUITE).join("source")
}

/// Returns true if the source is there.
pub(super) fn is_fetched() -> bool {
    source_folder().is_dir()
}

/// Fetches the source, unless it is there, and returns its folder.
///
/// # Errors
/// If it cannot be fetched.
pub(super) fn fetch() -> Result<PathBuf, String> {
    let (folder, source) = (folder(SUITE), source_folder());
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    source::fetch(PACKAGE, &["*/test/mpi"], &source)?;
    Ok(source)
}

/// Builds and runs the tests that are wanted.
///
/// # Errors
/// If the suite cannot be fetched, configured or read.
pub(crate) fn run(asked: &Asked, language: &Language) -> Result<Vec<Outcome>, String> {
    let suite = language.suite;
    let build = folder(suite).join("build");
    let tree = fetch()?.join(TESTS);
    // The names of tests need neither the library nor a suite that is configured for it.
    let prefix = if asked.list { None } else { Some(asked.install(suite)?) };
    if let Some(prefix) = &prefix {
        language.configure(&tree, &build, prefix)?;
    }
    let tests = tests(language, &tree, &build)?;
    let names: Vec<String> = tests.iter().map(Test::name).collect();
    let exceptions = allowed::of_suite(suite, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let subset = Subset::read(suite, asked.subset)?;
    subset.check(names.iter().map(String::as_str))?;
    let wanted = |name: &String| asked.wants(name) && subset.has(name);
    let tests: Vec<_> = tests.into_iter().zip(names).filter(|(_, name)| wanted(name)).collect();
    let (tests, _): (Vec<_>, Vec<_>) = tests.into_iter().unzip();
    let Some(prefix) = prefix else {
        tests.iter().for_each(|t| println!("{}", t.name()));
        return Ok(Vec::new());
    };
    compile(language, &build, &tests)?;
    let launcher = asked.launcher(&prefix);
    let mut progress = Progress::new(tests.len());
    let mut outcomes = Vec::new();
    for test in tests {
        progress.start(&test.name());
        let start = Instant::now();
        let verdict = one(&test, asked, &exceptions, &build, &launcher)?;
        let seconds = start.elapsed().as_secs_f64();
        let name = test.name();
        let outcome = Outcome { list: test.list, name, ranks: test.ranks, verdict, seconds };
        report::count(&mut progress, &outcome);
        if asked.json {
            println!("{}", outcome.json());
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Reads all lists.
fn tests(language: &Language, tree: &Path, build: &Path) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for list in language.lists {
        tests.extend(lines::read(list, &text_of(list, tree, build)?)?);
    }
    Ok(tests)
}

/// Returns a list as the suite is configured. Without that it has all tests of the source, also
/// those that the suite's script would leave out.
fn text_of(list: &str, tree: &Path, build: &Path) -> Result<String, String> {
    // A list that depends on nothing is used where it lies in the source.
    let files = [build.join(list), tree.join(list)].map(|folder| folder.join("testlist"));
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
    if let Some(file) = files.iter().find(|file| file.is_file()) {
        return read(file);
    }
    let template = tree.join(list).join("testlist.in");
    if !template.is_file() {
        return Err(format!("the suite has no list {list}"));
    }
    Ok(without_conditions(&read(&template)?))
}

/// Returns a template of a list with the lines of all conditions, which are `@names@`.
fn without_conditions(template: &str) -> String {
    let lines = template.lines().map(|line| {
        let parts = line.split('@').enumerate();
        parts.filter(|(n, _)| n.is_multiple_of(2)).map(|(_, part)| part).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Compiles the programs of tests. One that does not compile fails when its turn comes.
fn compile(language: &Language, build: &Path, tests: &[Test]) -> Result<(), String> {
    for library in language.libraries {
        run_command(&mut make(&build.join(library)))?;
    }
    for list in language.lists {
        let mut programs: Vec<_> = tests.iter().filter(|t| t.list == *list).map(|t| &t.program).collect();
        programs.sort();
        programs.dedup();
        if programs.is_empty() {
            continue;
        }
        let log = build.join(list).join("make.log");
        let file = std::fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut make = make(&build.join(list));
        if let Err(why) = run_command(make.arg("-k").args(programs).stderr(file)) {
            eprintln!("xtask: {why}: {}", log.display());
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Command {
    let mut make = Command::new("make");
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    make.arg("--silent")
        .arg(format!("-j{processors}"))
        .current_dir(folder)
        .stdout(std::process::Stdio::null());
    make
}

/// Runs a test, unless it does not apply.
fn one(
    test: &Test,
    asked: &Asked,
    exceptions: &[Exception],
    build: &Path,
    launcher: &Path,
) -> Result<Verdict, String> {
    if let Some(reason) = allowed::reason(exceptions, &test.name()) {
        return Ok(Verdict::NotApplicable(reason.into()));
    }
    let folder = build.join(&test.list);
    if !folder.join(&test.program).is_file() {
        let why = output(make(&folder).arg(&test.program)).err();
        let why = why.unwrap_or_else(|| "make has made nothing".into());
        let first: Vec<_> = why.lines().take(3).collect();
        return Ok(Verdict::Failed(format!("does not compile: {}", first.join("\n"))));
    }
    if let Some(reason) = too_large(test, free_memory()) {
        return Ok(Verdict::NotApplicable(reason));
    }
    let limit = test.limit.unwrap_or(LIMIT);
    let limit = asked.limit.map_or(limit, |most| most.min(limit));
    let mut test = test.clone();
    test.environment.extend(asked.environment.iter().cloned());
    let ended = launch::launch(&test, launcher, &folder, &output_file(build), limit)?;
    Ok(judge(test.expects, test.limit.is_some(), limit, &ended))
}

fn output_file(build: &Path) -> PathBuf {
    build.join("output.txt")
}

/// Returns why a test cannot run on a machine with so many GB of free memory.
fn too_large(test: &Test, free: f64) -> Option<String> {
    let large = test.memory > free * MEMORY;
    large.then(|| format!("needs {} GB of memory, of which this machine has {free:.1} free", test.memory))
}

/// Returns the GB of memory that are free, as the kernel tells; all of it if it does not.
fn free_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<f64>().ok());
    kib.map_or(f64::INFINITY, |kib| kib * 1024.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_before_the_suite_is_configured() {
        let folder = std::env::temp_dir().join(format!("xtask-lists-{}", std::process::id()));
        let (tree, build) = (folder.join("tree"), folder.join("build"));
        for list in ["a", "b"] {
            std::fs::create_dir_all(tree.join(list)).expect("a folder");
        }
        let write = |file: &str, text: &str| std::fs::write(tree.join(file), text).expect("a file");
        write("a/testlist", "x 2\n");
        write("b/testlist.in", "@large@y 4 mem=8\n# @other@z\nw 3\n");
        let names = |list: &str| {
            let text = text_of(list, &tree, &build).expect("the list");
            lines::read(list, &text).expect("lines").iter().map(Test::name).collect::<Vec<_>>()
        };
        assert_eq!(names("a"), ["a/x 2"]);
        assert_eq!(names("b"), ["b/y 4", "b/w 3"]);
        assert!(text_of("c", &tree, &build).is_err());
        // The list of a suite that is configured comes first.
        std::fs::create_dir_all(build.join("b")).expect("a folder");
        std::fs::write(build.join("b/testlist"), "w 3\n").expect("a file");
        assert_eq!(names("b"), ["b/w 3"]);
        std::fs::remove_dir_all(&folder).expect("the folders");
    }

    #[test]
    fn a_test_that_memory_does_not_suffice_for_does_not_apply() {
        let test = &lines::read("l", "large 2 mem=8.6").expect("a line")[0];
        assert_eq!(too_large(test, 20.0), None);
        let why = too_large(test, 10.0).expect("a reason");
        assert!(why.contains("8.6 GB") && why.contains("10.0 free"), "{why}");
        assert!(free_memory() > 0.0);
    }
}

//! Suites of programs as their packages have them: each is a job that is judged by what it prints.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::judge::Ended;
use super::lines::{Expects, Test};
use super::report::{self, Outcome, Verdict};
use super::{Asked, allowed, folder, launch};
use crate::progress::Progress;

/// Lines of output that a report shows, and columns of each.
const LINES: usize = 3;
const COLUMNS: usize = 200;

/// A run of a program.
pub(crate) struct Run {
    /// The part of the suite that it belongs to.
    pub(crate) list: String,
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The folder in which it runs.
    pub(crate) folder: PathBuf,
    pub(crate) ranks: u32,
    pub(crate) arguments: Vec<String>,
    /// Variables beside those of all runs.
    pub(crate) environment: Vec<(String, String)>,
    /// Folders of further libraries.
    pub(crate) libraries: Vec<PathBuf>,
    /// Returns what is wrong with a run that has ended in time.
    pub(crate) fault: fn(&Run, &Ended) -> Option<String>,
}

/// Runs the programs that are wanted, each for at most `limit` seconds.
///
/// # Errors
/// If the suite has no sound list of exceptions, the library cannot be installed, or the launcher
/// does not start.
pub(crate) fn run(suite: &str, asked: &Asked, runs: Vec<Run>, limit: u64) -> Result<Vec<Outcome>, String> {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let exceptions = allowed::of_suite(suite, &names)?;
    let wanted: Vec<Run> = runs.into_iter().filter(|run| asked.wants(&run.name)).collect();
    if asked.list {
        wanted.iter().for_each(|run| println!("{}", run.name));
        return Ok(Vec::new());
    }
    let prefix = asked.install(suite)?;
    let limit = asked.limit.unwrap_or(limit);
    let mut progress = Progress::new(wanted.len());
    let mut outcomes = Vec::new();
    for run in wanted {
        progress.start(&run.name);
        let start = Instant::now();
        let verdict = match allowed::reason(&exceptions, &run.name) {
            Some(reason) => Verdict::NotApplicable(reason.into()),
            None => one(suite, &run, asked, &prefix, limit)?,
        };
        let outcome = Outcome {
            verdict,
            list: run.list,
            name: run.name,
            ranks: run.ranks,
            seconds: start.elapsed().as_secs_f64(),
        };
        report::count(&mut progress, &outcome);
        if asked.json {
            println!("{}", outcome.json());
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Runs a program, and judges how it ends.
fn one(suite: &str, run: &Run, asked: &Asked, prefix: &Path, limit: u64) -> Result<Verdict, String> {
    let mut libraries = prefix.join("lib").display().to_string();
    run.libraries.iter().for_each(|folder| libraries += &format!(":{}", folder.display()));
    let own = [("LD_LIBRARY_PATH".to_owned(), libraries)].into_iter().chain(run.environment.clone());
    let test = Test {
        list: run.list.clone(),
        program: run.program.display().to_string(),
        ranks: run.ranks,
        arguments: run.arguments.clone(),
        launcher: Vec::new(),
        environment: own.chain(asked.environment.iter().cloned()).collect(),
        limit: None,
        expects: Expects::NoErrors,
        memory: 0.0,
    };
    let output = folder(suite).join("output.txt");
    let ended = launch::launch(&test, &prefix.join("bin/mpiexec"), &run.folder, &output, limit)?;
    Ok(judge(run, &ended, limit))
}

fn judge(run: &Run, ended: &Ended, limit: u64) -> Verdict {
    let fault = match ended.late || ended.stuck {
        true => Some(format!("no end within {limit} s")),
        false => (run.fault)(run, ended),
    };
    let Some(mut why) = fault else { return Verdict::Passed };
    let lines: Vec<&str> = ended.output.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        why += &format!("\n{}", line.chars().take(COLUMNS).collect::<String>());
    }
    Verdict::Failed(why)
}

/// Returns the words for a status that is not the wanted one.
pub(crate) fn wrong_status(ended: &Ended) -> String {
    ended.status.map_or("ended by a signal".into(), |status| format!("ended with status {status}"))
}

/// Returns the programs of a package's folder by their names: files without an extension.
///
/// # Errors
/// If there is no such folder.
pub(super) fn programs_in(folder: &Path, package: &str) -> Result<Vec<PathBuf>, String> {
    let fault =
        |e: std::io::Error| format!("{}: {e}; the programs are in the package {package}", folder.display());
    let files = std::fs::read_dir(folder).map_err(fault)?.flatten().map(|file| file.path());
    let mut programs: Vec<PathBuf> = files.filter(|p| p.is_file() && p.extension().is_none()).collect();
    programs.sort();
    Ok(programs)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a run with a judge of its own.
    pub(crate) fn of(name: &str, fault: fn(&Run, &Ended) -> Option<String>) -> Run {
        Run {
            list: "l".into(),
            name: name.into(),
            program: name.into(),
            folder: "/".into(),
            ranks: 2,
            arguments: Vec::new(),
            environment: Vec::new(),
            libraries: Vec::new(),
            fault,
        }
    }

    /// Makes the end of a run.
    pub(crate) fn ended(status: i32, output: &str) -> Ended {
        Ended { status: Some(status), late: false, stuck: false, output: output.into() }
    }

    #[test]
    fn a_run_that_is_late_or_wrong_shows_its_last_lines() {
        let run = of("a", |_, ended| (ended.status != Some(0)).then(|| wrong_status(ended)));
        assert_eq!(judge(&run, &ended(0, "x"), 9), Verdict::Passed);
        let wrong = judge(&run, &ended(3, "1\n2\n\n3\n4\n"), 9);
        assert_eq!(wrong, Verdict::Failed("ended with status 3\n2\n3\n4".into()));
        let late = Ended { late: true, ..ended(0, "") };
        assert_eq!(judge(&run, &late, 9), Verdict::Failed("no end within 9 s".into()));
    }
}

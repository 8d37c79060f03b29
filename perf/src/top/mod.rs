//! `top`: shows what the ranks of a running job do and wait for.

mod ask;
mod show;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ch3_shim::StatusReport;

use crate::cli::TopArgs;
use crate::error::{During, Failure, Result};
use ask::{Answer, Name};

/// Environment variable with the folder of the sockets.
const FOLDER: &str = "NETMOD_STATUS";

/// Selected ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// All ranks of a folder.
    Folder(PathBuf),
    /// The ranks of a job, in the folder of the environment.
    Job(PathBuf, String),
    /// One process.
    Process(PathBuf, u32),
}

/// Returns the folder of a process's socket, from its environment.
fn folder_of(pid: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|b| *b == 0);
    let value = entries.find_map(|e| e.strip_prefix(FOLDER.as_bytes())?.strip_prefix(b"="))?;
    let folder = PathBuf::from(std::str::from_utf8(value).ok()?);
    let home = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Some(home.join(folder))
}

impl Target {
    /// Parses a target; `folder` is that of the environment.
    fn of(word: Option<&str>, folder: Option<PathBuf>) -> Result<Target> {
        let missing = || {
            Failure::new(format!(
                "which job? Name the folder that its ranks have in {FOLDER}, or set {FOLDER}"
            ))
        };
        let Some(word) = word else { return folder.map(Target::Folder).ok_or_else(missing) };
        if Path::new(word).is_dir() {
            return Ok(Target::Folder(word.into()));
        }
        // Names of jobs have eight digits, possibly all decimal; process numbers have at most
        // seven.
        if let Ok(pid) = word.parse::<u32>()
            && word.len() < 8
        {
            let found = folder_of(pid).or(folder);
            return found.map(|f| Target::Process(f, pid)).ok_or_else(|| {
                Failure::new(format!("process {pid} does not exist, or has no {FOLDER} in its environment"))
            });
        }
        match folder {
            Some(f) => Ok(Target::Job(f, word.to_owned())),
            None => Err(Failure::new(format!(
                "\"{word}\" is neither a folder nor a process; for a job, set {FOLDER}"
            ))),
        }
    }

    /// Returns the ranks that have a socket, by job and rank.
    fn names(&self) -> Result<Vec<Name>> {
        let (Target::Folder(folder) | Target::Job(folder, _) | Target::Process(folder, _)) = self;
        let what = || format!("read the folder {}", folder.display());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).during(what())? {
            let Some(name) = Name::of(&entry.during(what())?.path()) else { continue };
            let meant = match self {
                Target::Folder(_) => true,
                Target::Job(_, job) => name.job == *job,
                Target::Process(_, pid) => name.pid == *pid,
            };
            if meant {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

fn names(args: &TopArgs) -> Result<Vec<Name>> {
    let folder = || std::env::var_os(FOLDER).filter(|v| !v.is_empty()).map(PathBuf::from);
    let words: Vec<Option<&str>> = if args.targets.is_empty() {
        vec![None]
    } else {
        args.targets.iter().map(|t| Some(t.as_str())).collect()
    };
    let mut names = Vec::new();
    for word in words {
        names.append(&mut Target::of(word, folder())?.names()?);
    }
    names.sort();
    names.dedup();
    names.retain(|n| args.rank.is_empty() || args.rank.contains(&n.rank));
    Ok(names)
}

/// Returns the reports of the ranks with sockets in a folder, as far as they answer in time.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn reports_in(folder: &Path, patience: Duration) -> Result<Vec<StatusReport>> {
    let answers = ask::ask(Target::Folder(folder.into()).names()?, patience);
    let report = |(_, answer)| match answer {
        Answer::Report(report) => Some(*report),
        _ => None,
    };
    Ok(answers.into_iter().filter_map(report).collect())
}

/// Returns the current state as text; `None` if there is no rank to ask.
fn picture(args: &TopArgs) -> Result<Option<String>> {
    let names = names(args)?;
    if names.is_empty() {
        return Ok(None);
    }
    let answers = ask::ask(names, Duration::from_millis(args.patience));
    if args.json {
        return Ok(Some(answers.iter().map(|(n, a)| format!("{}\n", show::as_json(n, a))).collect()));
    }
    let mut out = show::text(&answers);
    if !args.rank.is_empty() {
        // Selected ranks are shown in full.
        for (_, a) in &answers {
            if let Answer::Report(r) = a {
                out.push_str(&r.text());
            }
        }
    }
    Ok(Some(out))
}

/// Shows the state of jobs, once or repeatedly.
///
/// # Errors
/// If the job is ambiguous, or there is none.
pub(crate) fn run(args: &TopArgs) -> Result<()> {
    let nobody =
        || Failure::new(format!("no rank to ask; was the job started with {FOLDER}=FOLDER, on this host?"));
    let mut first = true;
    loop {
        match picture(args)? {
            Some(text) if args.once || args.json => return crate::emit(&text),
            // Clears the terminal like clear(1).
            Some(text) => crate::emit(&format!("\x1b[H\x1b[2J\x1b[3J{text}"))?,
            None if first => return Err(nobody()),
            None => return crate::emit("all ranks have left\n"),
        }
        first = false;
        std::thread::sleep(Duration::from_secs(args.interval));
    }
}

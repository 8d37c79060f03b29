//! Jobs that ranks of a job have asked for. Each has a thread of its own, with which its ranks die.

use super::program::Program;
use super::{ExitReport, LaunchError, Launcher};
use crate::server::Names;
use crate::sys::EventFd;
use crate::{Spawn, SpawnProgram};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// A job's place among those of a launcher.
#[derive(Debug, Clone)]
pub(super) struct Nested {
    /// Its name.
    pub(super) name: String,
    pub(super) names: Names,
    /// Values that its key-value space has from the beginning.
    pub(super) values: Vec<(String, String)>,
    /// Readable when the job is to end.
    pub(super) cancel: Arc<EventFd>,
    /// Told when all ranks have started.
    pub(super) started: mpsc::Sender<()>,
}

/// The result of a job.
type Report = Result<ExitReport, LaunchError>;
/// The number and report of a job that has ended.
type Ended = (u32, Report);
/// The function that starts and serves a job.
type Run = fn(&Launcher) -> Report;

#[derive(Debug)]
struct Child {
    number: u32,
    cancel: Arc<EventFd>,
    thread: JoinHandle<()>,
}

/// The jobs that ranks of this one have asked for and that have not ended.
#[derive(Debug)]
pub(super) struct Children {
    /// Readable when one has ended.
    pub(super) ended: Arc<EventFd>,
    running: Vec<Child>,
    /// Jobs that were asked for.
    count: u32,
    names: Names,
    run: Run,
    /// For each that has ended its number and report.
    reports: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    /// Reports that have come and were not taken.
    kept: Vec<Ended>,
}

impl Children {
    /// Makes an empty set of jobs, which `run` runs.
    pub(super) fn new(names: Names, run: Run) -> io::Result<Children> {
        let (ended, reports) = (Arc::new(EventFd::new()?), mpsc::channel());
        Ok(Children { ended, running: Vec::new(), count: 0, names, run, reports, kept: Vec::new() })
    }

    /// Returns true if all have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts programs for a rank of the job `parent`; returns the name of the new job.
    ///
    /// # Errors
    ///
    /// Returns the reason for which they were not started.
    pub(super) fn start(
        &mut self,
        launcher: &Launcher,
        parent: &str,
        rank: u32,
        spawn: Spawn,
    ) -> Result<String, LaunchError> {
        self.count += 1;
        let name = format!("{parent}_{}", self.count);
        let cancel = Arc::new(EventFd::new().map_err(LaunchError::system("making an eventfd"))?);
        let (started, is_started) = mpsc::channel();
        let nested = Nested {
            name: name.clone(),
            names: self.names.clone(),
            values: spawn.values,
            cancel: Arc::clone(&cancel),
            started,
        };
        let child = launcher_of(launcher, launcher.program_of(rank), &spawn.programs, nested)?;
        let (ended, names, job) = (Arc::clone(&self.ended), self.names.clone(), name.clone());
        let (number, reports, run) = (self.count, self.reports.0.clone(), self.run);
        let run_it = move || {
            let report = run(&child);
            // The end of the sender tells of a start that has failed.
            drop(child);
            names.note_end(&job, report.as_ref().map_or(1, |report| report.code));
            // The receiver lives longer than this thread.
            let _ = reports.send((number, report));
            ended.signal();
        };
        let thread = std::thread::Builder::new().name("nmrun job".into()).spawn(run_it);
        let child =
            Child { number, cancel, thread: thread.map_err(LaunchError::system("starting a thread"))? };
        if is_started.recv().is_ok() {
            self.running.push(child);
            return Ok(name);
        }
        // A thread that has panicked sends nothing.
        let joined = child.thread.join();
        self.kept.extend(self.reports.1.try_iter());
        let own = self.kept.iter().position(|(of, _)| *of == number).map(|at| self.kept.remove(at).1);
        match (joined, own) {
            (Ok(()), Some(Err(error))) => Err(error),
            _ => {
                let source = io::Error::other("its thread has failed");
                Err(LaunchError::System { doing: "starting a job for a rank", source })
            }
        }
    }

    /// Returns the reports of those that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<Report> {
        self.ended.consume();
        self.kept.extend(self.reports.1.try_iter());
        let mut reports = Vec::new();
        for (number, report) in self.kept.drain(..) {
            for child in self.running.extract_if(.., |child| child.number == number) {
                // It ends now.
                let _ = child.thread.join();
            }
            reports.push(report);
        }
        reports
    }

    /// Ends all of them.
    pub(super) fn cancel(&self) {
        self.running.iter().for_each(|child| child.cancel.signal());
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.cancel();
        for child in self.running.drain(..) {
            // Its report is of no use any more.
            let _ = child.thread.join();
        }
    }
}

/// Returns the job of programs that a rank asks for, with the settings of the job that asks.
fn launcher_of(
    parent: &Launcher,
    asking: &Program,
    programs: &[SpawnProgram],
    nested: Nested,
) -> Result<Launcher, LaunchError> {
    let mut described = Vec::new();
    for wanted in programs {
        let of =
            |name: &str| wanted.info.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if let Some(host) =
            of("host").into_iter().flat_map(|hosts| hosts.split(',')).find(|h| !is_here(h.trim()))
        {
            let (program, host) = (wanted.path.clone(), host.to_owned());
            return Err(LaunchError::OtherHost { program, host });
        }
        let directory = of("wdir").or_else(|| of("wd")).map(PathBuf::from);
        let path = of("path").and_then(|folders| found_in(folders, &wanted.path));
        described.push(Program {
            path: path.map_or_else(|| wanted.path.clone().into(), PathBuf::into_os_string),
            args: wanted.args.iter().map(Into::into).collect(),
            env: asking.env.clone(),
            directory: directory.or_else(|| asking.directory.clone()),
            ranks: wanted.ranks,
        });
    }
    let universe = Some(parent.universe.unwrap_or_else(|| parent.size()));
    let job = Launcher {
        programs: described,
        nodes: 1,
        stdin: false,
        capture: None,
        timeout: None,
        signals: false,
        binding: super::Binding::None,
        universe,
        verbose: false,
        started: None,
        nested: Some(nested),
        ..parent.clone()
    };
    job.checked()?;
    Ok(job)
}

/// Returns a program in one of the folders of the info key `path`.
fn found_in(folders: &str, name: &str) -> Option<PathBuf> {
    folders.split([':', ' ']).map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// Returns true for a name of this machine.
fn is_here(host: &str) -> bool {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let short = own.trim().split('.').next().unwrap_or_default();
    ["localhost", "127.0.0.1", "::1", own.trim(), short].contains(&host)
}

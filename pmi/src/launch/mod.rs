//! The embedded launcher: starts the ranks of a job on this machine and serves PMI-1 to them.
//!
//! ```no_run
//! use netmod_pmi::Launcher;
//!
//! # fn main() -> Result<(), netmod_pmi::LaunchError> {
//! let report = Launcher::new("./my-mpi-program").ranks(4).arg("--fast").run()?;
//! if let Some(failure) = &report.failure {
//!     eprintln!("{failure}");
//! }
//! std::process::exit(report.code)
//! # }
//! ```
//!
//! Programs of several kinds in one job:
//!
//! ```no_run
//! use netmod_pmi::Launcher;
//!
//! # fn main() -> Result<(), netmod_pmi::LaunchError> {
//! Launcher::new("./manager").then("./worker").ranks(3).arg("--fast").run()?;
//! # Ok(())
//! # }
//! ```

mod binding;
mod children;
mod connection;
mod doorman;
mod group;
mod job;
mod output;
mod outside;
mod passed;
mod program;
mod rank;
mod signals;
mod writer;

pub use binding::Binding;
use children::Nested;
pub(crate) use outside::DETACH;
pub use outside::serve_outside;
use program::Program;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most ranks of a job.
pub const MAX_RANKS: u32 = 4096;

/// Beginning of the names of jobs that this launcher has started.
pub(crate) const JOB_NAME: &str = "kvs_nmrun_";

/// The variable that tells a rank that its job continues without the launcher.
pub(crate) const NO_KILL: &str = "PMI_NO_KILL";

/// A function that is told the program and the process id of each rank.
pub type Started = fn(&[(&OsStr, u32)]);

/// A job to start.
///
/// Each rank leads a process group of its own, which is killed with it. If this process has a
/// controlling terminal, the ranks stay in its group instead, so that the terminal treats them as
/// one job; processes that a rank leaves behind are then found by their environment.
///
/// A rank dies with the thread that called [`run`](Self::run), even by SIGKILL, unless the job
/// continues after failures ([`no_kill`](Self::no_kill)). A process that a rank has started may
/// survive that, and detects it by the end of its PMI connection. Variables of an outer launcher
/// (`PMI_*`, `PMIX_*`, ..) are not passed on.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// At least one; ranks are numbered in this order.
    programs: Vec<Program>,
    nodes: u32,
    label: bool,
    no_kill: bool,
    timeout: Option<Duration>,
    port: bool,
    stdin: bool,
    capture: Option<usize>,
    quiet: bool,
    signals: bool,
    /// Signal that asks the ranks for their state.
    passed_on: Option<i32>,
    binding: Binding,
    universe: Option<u32>,
    verbose: bool,
    started: Option<Started>,
    /// Its place among other jobs, if one of these has asked for it.
    nested: Option<Nested>,
}

impl Launcher {
    /// Creates a job of one rank of `program`, which is searched in `PATH` unless it has a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Launcher {
        Launcher {
            programs: vec![Program::new(program.as_ref())],
            nodes: 1,
            label: false,
            no_kill: false,
            timeout: None,
            port: false,
            stdin: true,
            capture: None,
            quiet: false,
            signals: false,
            passed_on: None,
            binding: Binding::None,
            universe: None,
            verbose: false,
            started: None,
            nested: None,
        }
    }

    /// Adds another program to the job, whose ranks follow those of the programs before.
    ///
    /// The number of ranks, arguments, variables and folder that are given from now on are this
    /// program's. Programs are told their number (`MPI_APPNUM`), from 0.
    pub fn then(mut self, program: impl AsRef<OsStr>) -> Launcher {
        self.programs.push(Program::new(program.as_ref()));
        self
    }

    /// Returns the program that is being described.
    fn last(&mut self) -> &mut Program {
        self.programs.last_mut().expect("a job has a program")
    }

    /// Returns the number of ranks of all programs, which may be more than [`MAX_RANKS`].
    fn size(&self) -> u32 {
        self.programs.iter().fold(0, |sum, program| sum.saturating_add(program.ranks))
    }

    /// Returns the number of the program of each rank.
    fn program_numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.programs).flat_map(|(number, program)| (0..program.ranks).map(move |_| number))
    }

    /// Returns the program of a rank.
    fn program_of(&self, rank: u32) -> &Program {
        let mut first = 0;
        let found = self.programs.iter().find(|program| {
            first += program.ranks;
            rank < first
        });
        found.expect("a rank of the job")
    }

    /// Sets the program's number of ranks. All programs together may have 1 to [`MAX_RANKS`].
    pub fn ranks(mut self, ranks: u32) -> Launcher {
        self.last().ranks = ranks;
        self
    }

    /// Sets the number of nodes that the ranks are told, in blocks of equal size; all of them are
    /// this machine.
    pub fn nodes(mut self, nodes: u32) -> Launcher {
        self.nodes = nodes;
        self
    }

    /// Returns the number of ranks on each node but the last, which may have fewer.
    fn ranks_per_node(&self) -> u32 {
        self.size().div_ceil(self.nodes.max(1)).max(1)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Launcher {
        self.last().args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Launcher {
        self.last().args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable for the program's ranks, in addition to this process's variables.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launcher {
        self.last().env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the folder in which the program's ranks start. A relative path of the program starts
    /// there, too.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Launcher {
        self.last().directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Sets which processors ranks may run on (by default all that this process may).
    pub fn bind(mut self, binding: Binding) -> Launcher {
        self.binding = binding;
        self
    }

    /// Sets the number of ranks that programs may expect at most (`MPI_UNIVERSE_SIZE`); by default
    /// the number of ranks.
    pub fn universe(mut self, ranks: u32) -> Launcher {
        self.universe = Some(ranks);
        self
    }

    /// Sets whether the launcher says on stderr where the ranks run.
    pub fn verbose(mut self, verbose: bool) -> Launcher {
        self.verbose = verbose;
        self
    }

    /// Sets a function that is called when all ranks have started, before any gets an answer.
    pub fn on_started(mut self, started: Started) -> Launcher {
        self.started = Some(started);
        self
    }

    /// Sets whether each line of output gets the prefix `[rank] `.
    ///
    /// Otherwise ranks write directly to this process's stdout and stderr.
    pub fn label(mut self, label: bool) -> Launcher {
        self.label = label;
        self
    }

    /// Sets whether the other ranks continue when one fails.
    ///
    /// Barriers then count ended ranks as present, the key `PMI_dead_processes` lists those that
    /// failed, and ranks continue without the launcher, too.
    pub fn no_kill(mut self, no_kill: bool) -> Launcher {
        self.no_kill = no_kill;
        self
    }

    /// Ends the job after this time, with exit code 124.
    pub fn timeout(mut self, timeout: Duration) -> Launcher {
        self.timeout = Some(timeout);
        self
    }

    /// Serves PMI over TCP on 127.0.0.1 (`PMI_PORT`, `PMI_ID`) instead of an inherited descriptor.
    ///
    /// Each rank's `PMI_ID` is random, so that other users of the machine cannot impersonate a
    /// rank.
    pub fn pmi_port(mut self, port: bool) -> Launcher {
        self.port = port;
        self
    }

    /// Sets whether rank 0 gets this process's stdin (the default); the others have /dev/null.
    pub fn inherit_stdin(mut self, stdin: bool) -> Launcher {
        self.stdin = stdin;
        self
    }

    /// Collects up to `limit` bytes of rank 0's stdout in the report instead of passing it on.
    pub fn capture_rank0(mut self, limit: usize) -> Launcher {
        self.capture = Some(limit);
        self
    }

    /// Keeps the launcher from reporting failures on stderr.
    pub fn quiet(mut self, quiet: bool) -> Launcher {
        self.quiet = quiet;
        self
    }

    /// Forwards SIGINT, SIGTERM, SIGQUIT and SIGHUP to the ranks during the run, except those that
    /// are ignored.
    ///
    /// The second signal kills the ranks. Only one launcher of a process can do so at a time.
    pub fn forward_signals(mut self, signals: bool) -> Launcher {
        self.signals = signals;
        self
    }

    /// Forwards a further signal with [`Launcher::forward_signals`]: `usr1`, `usr2`, `hup` or
    /// `quit`.
    ///
    /// It goes to the ranks' processes that catch it, and ends nothing. Any other word is ignored.
    pub fn pass_on(mut self, signal: &str) -> Launcher {
        self.passed_on = crate::sys::signal_by_name(signal);
        self
    }

    /// Starts the ranks and serves them until the last one has ended.
    ///
    /// Raises this process's soft limit of open files if it is too low (not that of the ranks).
    ///
    /// # Errors
    ///
    /// Fails if a rank cannot be started, or if the system refuses what the launcher needs. Ranks
    /// that were started are killed first.
    pub fn run(self) -> Result<ExitReport, LaunchError> {
        self.checked()?;
        job::run(&self)
    }

    fn checked(&self) -> Result<(), LaunchError> {
        let ranks = self.size();
        if ranks > MAX_RANKS || self.programs.iter().any(|program| program.ranks == 0) {
            return Err(LaunchError::Ranks { ranks });
        }
        Ok(())
    }
}

/// The result of a job.
#[derive(Debug, Clone)]
pub struct ExitReport {
    /// Exit code of the job: 0 if every rank exited with 0, else that of the failure.
    pub code: i32,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Exits of the ranks.
    pub ranks: Vec<RankExit>,
    /// Rank 0's stdout, if it was captured.
    pub stdout: Vec<u8>,
    /// True if rank 0 wrote more than was captured.
    pub stdout_truncated: bool,
}

/// The exit of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankExit {
    /// Exited with this status.
    Status(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// The failure of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The rank that failed, if it is one rank's failure.
    pub rank: Option<u32>,
    /// Exit code of the failure, 1 to 255.
    pub code: i32,
    /// Description, as the end of a sentence that begins with the rank.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank {
            Some(rank) => write!(f, "rank {rank} {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The reason why a job could not be started or served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The number of ranks is not possible.
    #[error("cannot start {ranks} ranks; 1 to {MAX_RANKS} are possible")]
    Ranks {
        /// The requested number.
        ranks: u32,
    },
    /// The program does not exist.
    #[error(
        "cannot start \"{program}\": there is no such program; is the path right (without a slash it is looked for in PATH), and does the interpreter in its first line exist?"
    )]
    NotFound {
        /// The program.
        program: String,
    },
    /// The program may not be executed.
    #[error(
        "cannot start \"{program}\": permission denied; is it an executable file (chmod +x), on a file system mounted without noexec?"
    )]
    NotExecutable {
        /// The program.
        program: String,
    },
    /// The program could not be started for another reason.
    #[error(
        "cannot start \"{program}\" as rank {rank}: {source}; see ulimit -u and ulimit -n if there are many ranks"
    )]
    Spawn {
        /// The program.
        program: String,
        /// The rank being started.
        rank: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The folder to start in does not exist.
    #[error("cannot start \"{program}\" in {}: there is no such folder", directory.display())]
    Directory {
        /// The program.
        program: String,
        /// The folder.
        directory: PathBuf,
    },
    /// There are more ranks than cores to bind them to.
    #[error(
        "cannot bind {ranks} ranks to a core each: the launcher may use {cores} cores; let them move (-bind-to none)"
    )]
    Cores {
        /// The number of ranks.
        ranks: usize,
        /// The number of cores.
        cores: usize,
    },
    /// A program that a rank asks for is to run on another machine.
    #[error(
        "cannot start \"{program}\" on host {host}: nmrun starts processes on this machine only, mpiexec.hydra on others"
    )]
    OtherHost {
        /// The program.
        program: String,
        /// The name of the machine.
        host: String,
    },
    /// A rank asks for a program while its job is being ended.
    #[error("cannot start programs: the job that asks is being ended")]
    Ending,
    /// The launcher itself failed.
    #[error("the launcher failed while {doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// Returns the exit code of a shell: 127 if the program does not exist, 126 if it cannot be
    /// executed, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotExecutable { .. } => 126,
            _ => 1,
        }
    }

    /// Returns an adapter for `map_err`.
    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
        move |source| LaunchError::System { doing, source }
    }
}

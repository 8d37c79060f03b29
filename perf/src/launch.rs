//! Finds this process's role, starts ranks when no launcher has, and sets a rank up.
//!
//! A process without a launcher is the parent: it starts itself again as the ranks of a job, and
//! uses no MPI itself. Rank 0 writes its results, one JSON object per line, into a pipe to the
//! parent, which `PERF_REPORT_FD` names. Under a launcher rank 0 prints them itself.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::bootstrap::process_manager;
use ch3_shim::{Bootstrap, Builder, Device};
use netmod_pmi::{Launcher, ProcessManager};

use crate::cli::JobArgs;
use crate::error::{During, Failure, Result};
use crate::report::{Row, line};
use crate::sys;

const REPORT_FD: &str = "PERF_REPORT_FD";

/// Destination of a rank's results.
#[derive(Debug)]
pub(crate) enum Sink {
    /// The pipe to the parent.
    Parent(File),
    /// The standard output.
    Stdout,
}

/// Role of this process.
#[derive(Debug)]
pub(crate) enum Role {
    /// Starts the ranks.
    Parent,
    /// Is a rank.
    Rank(Sink),
}

/// Returns true if a launcher with PMI or PMIx has started this process.
pub(crate) fn under_launcher() -> bool {
    ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE"].iter().any(|v| std::env::var_os(v).is_some())
}

/// Returns this process's rank from the launcher's environment variables.
pub(crate) fn rank_by_name() -> Option<String> {
    under_launcher()
        .then(|| ["PMI_RANK", "PMI_ID", "PMIX_RANK"].iter().find_map(|v| std::env::var(v).ok()))
        .flatten()
}

/// Finds this process's role.
///
/// # Errors
/// If the launcher cannot be reached.
pub(crate) fn role() -> Result<Role> {
    if under_launcher() {
        let Some(fd) = std::env::var(REPORT_FD).ok().and_then(|v| v.parse::<u32>().ok()) else {
            return Ok(Role::Rank(Sink::Stdout));
        };
        let path = format!("/proc/self/fd/{fd}");
        let file = File::options()
            .write(true)
            .open(&path)
            .during(format!("open {path}, the pipe to the parent ({REPORT_FD})"))?;
        return Ok(Role::Rank(Sink::Parent(file)));
    }
    // The process manager finds and explains a launcher that cannot be reached.
    ProcessManager::from_env().map_err(|e| Failure::new(e.to_string()))?;
    Ok(Role::Parent)
}

impl Sink {
    /// Hands rows to the parent. Returns false if there is none and this process must print them.
    pub(crate) fn deliver(&mut self, rows: &[Row]) -> Result<bool> {
        let Sink::Parent(pipe) = self else { return Ok(false) };
        for row in rows {
            pipe.write_all(line(row).as_bytes()).during("report to the parent; is it still running?")?;
        }
        Ok(true)
    }
}

/// Result of a job.
#[derive(Debug)]
pub(crate) struct Job {
    /// Rows that rank 0 reported.
    pub(crate) rows: Vec<Row>,
    /// Time from before the first process was started until all had ended.
    pub(crate) took: Duration,
}

/// Runs this program again, with the same arguments, as a job of `ranks` processes.
///
/// # Errors
/// If they cannot be started, or one of them fails, which prints the cause on stderr itself.
pub(crate) fn run_job(ranks: u32, netmod: Option<&str>) -> Result<Job> {
    let program = std::env::current_exe().during("find the program to start as ranks (/proc/self/exe)")?;
    let (reader, writer) = std::io::pipe().during("make a pipe for the results")?;
    let fd = sys::inherit(&writer).during("let the ranks inherit the pipe for the results")?;
    // Read while the job runs: a full pipe would block rank 0.
    let reading = std::thread::spawn(move || -> Result<Vec<Row>> {
        BufReader::new(reader)
            .lines()
            .map(|l| {
                let l = l.during("read the results of rank 0")?;
                serde_json::from_str(&l).during(format!("parse the result {l:?} of rank 0"))
            })
            .collect()
    });
    let start = Instant::now();
    let mut launcher = Launcher::new(program)
        .ranks(ranks)
        .args(std::env::args_os().skip(1))
        .env(REPORT_FD, fd.to_string())
        .inherit_stdin(false)
        .forward_signals(true)
        .quiet(true);
    if let Some(name) = netmod {
        launcher = launcher.env("NETMOD", name);
    }
    let ended = launcher.run();
    let took = start.elapsed();
    drop(writer);
    let rows = reading.join().map_err(|_| Failure::new("the thread that reads results has panicked"))?;
    let report = ended.map_err(|e| Failure::new(e.to_string()))?;
    match report.failure {
        None if report.code == 0 => Ok(Job { rows: rows?, took }),
        Some(failure) => Err(Failure::new(format!("the job failed: {failure}"))),
        None => Err(Failure::new(format!("the job failed with exit code {}", report.code))),
    }
}

/// Prints diagnostics on stderr with the rank, filtered by `NETMOD_LOG`.
pub(crate) fn log_to_stderr(cfg: &Config, rank: Option<u32>) -> Result<()> {
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::fmt::FmtContext;
    use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
    use tracing_subscriber::registry::LookupSpan;

    struct Format(String);
    impl<S, N> FormatEvent<S, N> for Format
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        fn format_event(
            &self,
            ctx: &FmtContext<'_, S, N>,
            mut w: Writer<'_>,
            event: &tracing::Event<'_>,
        ) -> std::fmt::Result {
            write!(w, "netmod-perf{}: {}: ", self.0, event.metadata().level().as_str().to_lowercase())?;
            ctx.field_format().format_fields(w.by_ref(), event)?;
            writeln!(w)
        }
    }

    let filter = EnvFilter::try_new(&cfg.log).map_err(|e| {
        Failure::new(format!(
            "NETMOD_LOG={}: {e}; a filter is, for example, warn or netmod_tcp=debug",
            cfg.log
        ))
    })?;
    let who = rank.map_or_else(String::new, |r| format!(": rank {r}"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .event_format(Format(who))
        .finish();
    tracing::subscriber::set_global_default(subscriber).during("start logging")
}

/// Built-in netmods.
pub(crate) const NETMODS: [&str; 4] = ["shm", "tcp", "ofi", "verbs"];

/// A rank that has joined its job.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Its device.
    pub(crate) dev: Device,
    /// True if this node has more ranks than cores.
    pub(crate) crowded: bool,
}

/// Network options of the command line; each overrides a variable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice<'a> {
    /// Netmods.
    pub(crate) netmod: Option<&'a str>,
    /// Providers of libfabric.
    pub(crate) provider: Option<&'a str>,
    /// Mode of large messages.
    pub(crate) lmt: Option<&'a str>,
}

impl<'a> From<&'a JobArgs> for Choice<'a> {
    fn from(job: &'a JobArgs) -> Choice<'a> {
        Choice { netmod: job.netmod.as_deref(), provider: job.provider.as_deref(), lmt: None }
    }
}

/// Joins the job as a rank: sets up configuration, log, core binding and device.
///
/// # Errors
/// If a variable or option has an invalid value, or the launcher or network does not work.
pub(crate) fn join(choice: Choice<'_>) -> Result<Joined> {
    let (cfg, pm) = prepare(choice)?;
    take_core(&pm);
    let dev: Device = Builder::new(cfg, Box::new(pm)).build()?;
    Ok(Joined { crowded: dev.shares_cores(), dev })
}

/// Joins like [`join`], but without core binding, for a process of several threads.
///
/// # Errors
/// As for [`join`].
pub(crate) fn join_unbound(choice: Choice<'_>) -> Result<Device> {
    let (cfg, pm) = prepare(choice)?;
    Ok(Builder::new(cfg, Box::new(pm)).build()?)
}

/// Sets up configuration, log and process manager of a rank.
fn prepare(choice: Choice<'_>) -> Result<(Config, ProcessManager)> {
    let mut cfg = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
    for (option, variable, value) in [
        ("--netmod", "NETMOD", choice.netmod),
        ("--provider", "NETMOD_OFI_PROVIDER", choice.provider),
        ("--lmt", "NETMOD_LMT", choice.lmt),
    ] {
        if let Some(value) = value {
            cfg.set(variable, value).map_err(|e| Failure::new(format!("{option}: {e}")))?;
        }
    }
    let pm = process_manager(&cfg).map_err(|e| Failure::new(e.to_string()))?;
    let rank = pm.rank();
    log_to_stderr(&cfg, Some(rank))?;
    Ok((cfg, pm))
}

/// Binds each rank to a core of its own, if there are enough cores and the launcher has not bound
/// it.
fn take_core(pm: &ProcessManager) {
    let local = std::env::var("MPI_LOCALRANKID").ok().and_then(|v| v.parse().ok());
    let local = local.unwrap_or(pm.rank() as usize);
    let ranks = Bootstrap::local_size(pm) as usize;
    let bound = sys::allowed_cores().and_then(|cores| match cores.get(local) {
        Some(core) if ranks <= cores.len() => sys::pin(*core),
        _ => Ok(()),
    });
    if let Err(e) = bound {
        tracing::warn!("cannot bind this process to a core, so figures will vary more: {e}");
    }
}

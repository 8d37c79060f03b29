//! `nmrun`: starts the ranks of a job on this machine and serves PMI-1 to them.

use clap::Parser;
use netmod_pmi::Launcher;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, TryFromFloatSecsError};

/// The rank setting that names the status signal.
const STATUS_SIGNAL: &str = "NETMOD_STATUS_SIGNAL";

/// Starts the ranks of a job on this machine.
///
/// The exit code is 0 if every rank exited with 0, else that of the rank that failed first
/// (128 + signal if it was killed), 124 after the time limit, 126 or 127 if the program could
/// not be started.
#[derive(Debug, Parser)]
#[command(name = "nmrun", version)]
struct Cli {
    /// Number of ranks.
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(netmod_pmi::launch::MAX_RANKS)))]
    ranks: u32,

    /// Write the rank, in brackets, before each line of output.
    #[arg(long)]
    label: bool,

    /// Let the other ranks go on when one fails.
    #[arg(long)]
    no_kill: bool,

    /// End the job after this many seconds, with exit code 124.
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Tell the ranks that they are on this many nodes, in blocks of equal size; for tests of what
    /// differs between nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,

    /// Set a variable for every rank; may be given more than once.
    #[arg(long, value_name = "K=V", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Serve PMI over TCP on 127.0.0.1 (PMI_PORT) instead of an inherited descriptor (PMI_FD).
    #[arg(long)]
    pmi_port: bool,

    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM [ARGS]"
    )]
    command: Vec<OsString>,
}

/// The fault in an argument's value.
#[derive(Clone, Debug, thiserror::Error)]
enum ValueError {
    /// A number of seconds is expected.
    #[error("not a number of seconds")]
    NoNumber,
    /// The time has passed at once.
    #[error("not above 0")]
    NotPositive,
    /// The number of seconds is too large.
    #[error(transparent)]
    Duration(#[from] TryFromFloatSecsError),
    /// A variable with its value is expected.
    #[error("not of the form NAME=VALUE")]
    NoVariable,
}

fn seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds: f64 = text.parse().map_err(|_| ValueError::NoNumber)?;
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(ValueError::NotPositive);
    }
    Ok(Duration::try_from_secs_f64(seconds)?)
}

fn variable(text: &str) -> Result<(String, String), ValueError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ValueError::NoVariable),
    }
}

/// Prints the help, the version, or the error in the arguments.
fn tell(told: &clap::Error) -> ExitCode {
    if let Err(error) = told.print().and_then(|()| std::io::stdout().flush()) {
        // With stderr closed the error cannot be reported.
        let _ = writeln!(std::io::stderr(), "nmrun: cannot write to stdout: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(u8::MAX))
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return tell(&told),
    };
    let mut launcher = Launcher::new(&cli.command[0])
        .args(&cli.command[1..])
        .ranks(cli.ranks)
        .nodes(cli.nodes)
        .label(cli.label)
        .no_kill(cli.no_kill)
        .pmi_port(cli.pmi_port)
        .forward_signals(true);
    // The signal on which ranks report their state.
    let given = cli.env.iter().rev().find(|(name, _)| name == STATUS_SIGNAL).map(|(_, value)| value.clone());
    if let Some(signal) = given.or_else(|| std::env::var(STATUS_SIGNAL).ok()) {
        launcher = launcher.pass_on(signal.trim());
    }
    for (name, value) in &cli.env {
        launcher = launcher.env(name, value);
    }
    if let Some(timeout) = cli.timeout {
        launcher = launcher.timeout(timeout);
    }
    match launcher.run() {
        Ok(report) => ExitCode::from(u8::try_from(report.code).unwrap_or(u8::MAX)),
        Err(error) => {
            // With stderr closed the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "nmrun: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

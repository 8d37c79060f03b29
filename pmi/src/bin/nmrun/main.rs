//! `nmrun`: starts the ranks of a job on this machine and serves PMI-1 to them.
//!
//! Installed, its other names are `mpiexec` and `mpirun`.

mod debugger;
mod error;
mod generated;
mod hosts;
mod options;
mod parse;
mod segments;
#[cfg(test)]
mod tests;
mod words;

use netmod_pmi::Launcher;
use netmod_pmi::launch::{ExitReport, RankExit, serve_outside};
use parse::{Asked, Request};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::ExitCode;

/// The rank setting that names the status signal.
const STATUS_SIGNAL: &str = "NETMOD_STATUS_SIGNAL";

/// The variable that gives the time limit, as for Hydra.
const TIMEOUT: &str = "MPIEXEC_TIMEOUT";

/// The setting that chooses what is logged.
const LOG: &str = "NETMOD_LOG";

/// Exit code of a command line that starts no job.
const USAGE: u8 = 2;

/// Prints to stdout.
fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write to stdout: {error}"), 1),
    }
}

/// Prints an error.
fn fail(text: &str, code: u8) -> ExitCode {
    // With stderr closed the error cannot be reported.
    let _ = writeln!(std::io::stderr(), "nmrun: {text}");
    ExitCode::from(code)
}

/// Returns a setting of the ranks: from the command line, or from the environment.
fn setting(request: &Request, name: &str) -> Option<OsString> {
    let mut given = request.env.iter().chain(request.programs.iter().flat_map(|p| &p.env));
    let given = given.rfind(|(given, _)| given == name).map(|(_, value)| value.clone());
    given.or_else(|| std::env::var_os(name))
}

/// Returns the job of a command line, with what the environment adds.
fn launcher(request: &Request) -> Launcher {
    let mut programs = request.programs.iter();
    let first = programs.next().expect("the command line has a program");
    let mut launcher = Launcher::new(&first.command[0]);
    let mut program = first;
    loop {
        launcher = launcher.args(&program.command[1..]).ranks(program.ranks);
        for (name, value) in request.env.iter().chain(&program.env) {
            launcher = launcher.env(name, value);
        }
        if let Some(directory) = &program.directory {
            launcher = launcher.directory(directory);
        }
        match programs.next() {
            Some(next) => program = next,
            None => break,
        }
        launcher = launcher.then(&program.command[0]);
    }
    let logs = std::env::var(LOG).unwrap_or_default();
    let talks = ["info", "debug", "trace"].iter().any(|level| logs.contains(level));
    launcher = launcher
        .nodes(request.nodes.unwrap_or(1))
        .label(request.label)
        .no_kill(request.no_kill)
        .pmi_port(request.pmi_port)
        .bind(request.binding)
        .verbose(request.verbose || talks)
        .on_started(debugger::show_processes)
        .forward_signals(true);
    // The signal on which ranks report their state.
    if let Some(signal) = setting(request, STATUS_SIGNAL) {
        launcher = launcher.pass_on(signal.to_string_lossy().trim());
    }
    if let Some(universe) = request.universe {
        launcher = launcher.universe(universe);
    }
    match request.timeout {
        Some(timeout) => launcher.timeout(timeout),
        None => launcher,
    }
}

/// Adds the time limit of the environment, unless the command line has one.
fn limit(request: &mut Request, variable: Option<&OsStr>) -> Result<(), error::ValueError> {
    if let Some(value) = variable.filter(|value| request.timeout.is_none() && !value.is_empty()) {
        request.timeout = Some(parse::seconds(value)?);
    }
    Ok(())
}

fn exit_codes(report: &ExitReport) -> String {
    let codes = report.ranks.iter().map(|exit| match exit {
        RankExit::Status(code) => code.to_string(),
        RankExit::Signal(signal) => format!("signal {signal}"),
    });
    format!("exit codes of the ranks: {}", codes.collect::<Vec<_>>().join(", "))
}

fn main() -> ExitCode {
    match serve_outside(std::env::args_os().nth(1).as_deref()) {
        Some(Ok(code)) => return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Some(Err(error)) => return fail(&error.to_string(), error.exit_code()),
        None => {}
    }
    let mut request = match parse::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Help) => return print(&options::help()),
        Ok(Asked::Manual) => return print(&generated::manual()),
        Ok(Asked::Completions) => return print(&generated::completions()),
        Ok(Asked::Version) => {
            return print(&format!("nmrun {} (netmod)\n", env!("CARGO_PKG_VERSION")));
        }
        Ok(Asked::Job(request)) => request,
        Err(error) => return fail(&error.to_string(), USAGE),
    };
    if let Err(why) = limit(&mut request, std::env::var_os(TIMEOUT).as_deref()) {
        return fail(&format!("{TIMEOUT}: {why}"), USAGE);
    }
    let done = launcher(&request).run();
    // Ranks that were killed while they started have left a file.
    if !done.as_ref().is_ok_and(|report| report.code == 0) {
        segments::sweep(setting(&request, segments::FOLDER).as_deref());
    }
    match done {
        Ok(report) => {
            if request.exit_codes {
                fail(&exit_codes(&report), 0);
            }
            ExitCode::from(u8::try_from(report.code).unwrap_or(u8::MAX))
        }
        Err(error) => fail(&error.to_string(), error.exit_code()),
    }
}

//! `netmod-perf`: benchmarks of the netmods, each beside its floor, and information about the
//! machine.

mod alltoall;
mod barrier;
mod bw;
mod cli;
mod coll;
mod connect;
mod decode;
mod error;
mod flood;
mod floor;
mod generated;
mod info;
mod lat;
mod launch;
mod matching;
mod measure;
mod memory_pm;
mod pair;
mod pairs;
mod plot;
mod programs;
mod progress;
mod rate;
mod report;
mod resources;
mod sys;
mod threads;
mod top;
mod tour;

use std::process::ExitCode;

use ch3_shim::Device;
use clap::Parser;

use cli::{Cli, Command};
use error::{Failure, Result};
use launch::Role;
use report::Row;

/// Aborts the job from the rank of `dev`, with the cause.
fn fail_as_rank(dev: Device, why: &Failure) -> ! {
    dev.abort(1, &format!("netmod-perf: {why}"))
}

/// Prints rows as a table or as JSON.
fn print(rows: &[Row], json: bool) -> Result<()> {
    let text = if json { report::json(rows) } else { report::table(rows) + &report::remarks(rows) };
    emit(&text)
}

/// Prints to stdout. A closed pipe is no error.
fn emit(text: &str) -> Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

fn alltoall(args: &cli::AlltoallArgs) -> Result<()> {
    match launch::role()? {
        Role::Parent => print(&alltoall::parent(args)?, args.job.json),
        Role::Rank(mut sink) => match alltoall::rank(args)? {
            Some(row) if !sink.deliver(std::slice::from_ref(&row))? => print(&[row], args.job.json),
            _ => Ok(()),
        },
    }
}

/// Runs a job of all ranks and prints the rows of rank 0.
fn job(ranks: u32, job: &cli::JobArgs, rank: impl FnOnce() -> Result<Vec<Row>>) -> Result<()> {
    match launch::role()? {
        Role::Parent => print(&launch::run_job(ranks, job.netmod.as_deref())?.rows, job.json),
        Role::Rank(mut sink) => match rank()? {
            rows if !rows.is_empty() && !sink.deliver(&rows)? => print(&rows, job.json),
            _ => Ok(()),
        },
    }
}

fn tag_matching(args: &cli::MatchArgs) -> Result<()> {
    if let Ok(cores) = sys::allowed_cores()
        && let Some(core) = cores.first()
    {
        // Staying on one core keeps the caches warm; a failure only makes the figures vary more.
        let _ = sys::pin(*core);
    }
    let progress = progress::Progress::silent();
    print(&matching::measure(args, 0.0, &progress), args.json)
}

/// Returns the direct transfer method that is comparable with the mode of large messages.
fn direct(args: &cli::WindowArgs) -> floor::Direct {
    floor::Direct::of_mode(args.pair.lmt.as_deref())
}

/// Runs a command without ranks in rank 0 only.
fn only_here(run: impl FnOnce() -> Result<()>) -> Result<()> {
    if launch::rank_by_name().is_some_and(|r| r != "0") { Ok(()) } else { run() }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        None => tour::run(&cli.tour),
        Some(Command::Lat(args)) => pairs::run(&lat::Latency, pairs::Kind::Latency, args),
        Some(Command::Bw(args)) => pairs::run(
            &bw::Bandwidth { window: args.window as usize, both: false, direct: direct(args) },
            pairs::Kind::Bandwidth,
            &args.pair,
        ),
        Some(Command::Bibw(args)) => pairs::run(
            &bw::Bandwidth { window: args.window as usize, both: true, direct: direct(args) },
            pairs::Kind::Bandwidth,
            &args.pair,
        ),
        Some(Command::Rate(args)) => match args.threads {
            Some(threads) => threads::run(args, threads as usize),
            None => {
                let args = &args.window;
                pairs::run(&rate::Rate { window: args.window as usize }, pairs::Kind::Rate, &args.pair)
            }
        },
        Some(Command::Alltoall(args)) => alltoall(args),
        Some(Command::Barrier(args)) => job(args.ranks, &args.job, || barrier::rank(args)),
        Some(Command::Programs(args)) => job(args.ranks, &args.job, || programs::rank(args)),
        Some(Command::Coll(args)) => only_here(|| coll::run(args)),
        Some(Command::Flood(args)) => job(args.ranks, &args.job, || flood::rank(args)),
        Some(Command::Connect(args)) => connect::run(args),
        Some(Command::Match(args)) => only_here(|| tag_matching(args)),
        Some(Command::Pair(args)) => only_here(|| pair::run(args)),
        Some(Command::Info(args)) => only_here(|| info::run(args)),
        Some(Command::VerbsResources(args)) => only_here(|| resources::run(args)),
        Some(Command::Decode(args)) => only_here(|| decode::run(args)),
        Some(Command::Top(args)) => only_here(|| top::run(args)),
        Some(Command::Completions(args)) => generated::completions(args.shell),
        Some(Command::Manual(args)) => generated::manual(&args.folder),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let rank = launch::rank_by_name().map_or_else(String::new, |r| format!("rank {r}: "));
            eprintln!("netmod-perf: {rank}{e}");
            ExitCode::FAILURE
        }
    }
}

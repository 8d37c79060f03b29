//! `netmod-sim`: runs the simulated jobs of many seeds on all cores, or replays one.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget};
use netmod_sim::{Failed, run_neighbours, run_seed};

/// Number of failures after which no further seed is begun.
const ENOUGH: usize = 20;

/// Simulates whole jobs of devices, one per seed, and lists the seeds that show a fault.
#[derive(Debug, Parser)]
#[command(name = "netmod-sim", version)]
struct Cli {
    /// Seeds to run, such as 0..1000 (the end is excluded)
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = range)]
    seeds: (u64, u64),
    /// Replay this seed; if it fails, print its last events
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Events that a replay keeps for the report of a failure
    #[arg(long, value_name = "N", default_value_t = 200, requires = "seed")]
    trace: usize,
    /// Ranks of each job [default: 2 to 6, depending on the seed]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(2..=1000))]
    ranks: Option<u32>,
    /// Run one large job instead, in which each rank talks to its neighbours and to those at
    /// distances of all powers of two
    #[arg(long, value_name = "RANKS", conflicts_with_all = ["seeds", "seed", "ranks"],
        value_parser = clap::value_parser!(u32).range(2..=100_000))]
    neighbours: Option<u32>,
    /// Concurrent jobs [default: the number of processors]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let bounds = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    bounds.filter(|(a, b)| a < b).ok_or_else(|| format!("\"{text}\" is no range of seeds such as 0..1000"))
}

/// Sums over all jobs.
#[derive(Debug, Default)]
struct Sum {
    jobs: AtomicU64,
    messages: AtomicU64,
    steps: AtomicU64,
}

fn many(cli: &Cli) -> (Sum, Vec<Failed>) {
    let (first, end) = cli.seeds;
    let (sum, failed) = (Sum::default(), Mutex::new(Vec::new()));
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let bar = std::io::stderr()
        .is_terminal()
        .then(|| ProgressBar::with_draw_target(Some(end - first), ProgressDrawTarget::stderr()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            match run_seed(seed, cli.ranks, 0) {
                Ok(r) => {
                    sum.messages.fetch_add(r.messages, Ordering::Relaxed);
                    sum.steps.fetch_add(r.steps, Ordering::Relaxed);
                }
                Err(e) => {
                    let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                    failed.push(e);
                    stop.fetch_or(failed.len() >= ENOUGH, Ordering::Relaxed);
                }
            }
            sum.jobs.fetch_add(1, Ordering::Relaxed);
            if let Some(bar) = &bar {
                bar.inc(1);
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..cli.jobs.map_or(cores, usize::from) {
            s.spawn(work);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    (sum, failed.into_inner().unwrap_or_else(|e| e.into_inner()))
}

fn replay_command(cli: &Cli, seed: u64) -> String {
    let ranks = cli.ranks.map_or_else(String::new, |r| format!(" --ranks {r}"));
    format!("netmod-sim --seed {seed}{ranks}")
}

fn one(result: Result<netmod_sim::Report, Failed>) -> ExitCode {
    match result {
        Ok(report) => {
            println!("{report:#?}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            for line in &e.trace {
                println!("{line}");
            }
            eprintln!("netmod-sim: {e}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(ranks) = cli.neighbours {
        return one(run_neighbours(ranks, 1, 0));
    }
    if let Some(seed) = cli.seed {
        return one(run_seed(seed, cli.ranks, cli.trace));
    }
    let (sum, mut failed) = many(&cli);
    failed.sort_by_key(|f| f.seed);
    for f in &failed {
        eprintln!("netmod-sim: {f}\n  replay: {}", replay_command(&cli, f.seed));
    }
    let (jobs, messages) = (sum.jobs.into_inner(), sum.messages.into_inner());
    let steps = sum.steps.into_inner();
    if cli.json {
        let seeds: Vec<String> = failed.iter().map(|f| f.seed.to_string()).collect();
        let seeds = seeds.join(",");
        println!("{{\"jobs\":{jobs},\"messages\":{messages},\"steps\":{steps},\"failed\":[{seeds}]}}");
    } else {
        println!("{jobs} jobs, {messages} messages, {steps} steps: {} failed", failed.len());
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

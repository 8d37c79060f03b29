//! Whole jobs of real devices in one thread, over a simulated network, in virtual time, from a
//! seed.
//!
//! [`run_seed`] runs the job that a seed describes: some ranks, each with a real device layer over
//! [`NAME`]; a network with its own delays, bounded buffers and fragments; a random program of
//! messages; and faults. An oracle that sees all ranks checks that no message is lost, duplicated
//! or reordered, that every request ends, that only requests concerning a lost peer fail, and that
//! nothing is left. The same seed gives the same job, step by step.

mod bootstrap;
mod job;
mod large;
mod net;
mod netmod;
mod plan;
mod program;
mod sys;
mod trace;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use job::Job;
use plan::Plan;

pub use job::{Failed, Report};
pub use net::{NetStats, Profile};
pub use netmod::NAME;
pub use plan::FaultKind;

/// Runs the job of a seed, with `ranks` ranks or as many as the seed says. Keeps the last `trace`
/// events for the report of a failure.
///
/// # Errors
/// The violation.
pub fn run_seed(seed: u64, ranks: Option<u32>, trace: usize) -> Result<Report, Failed> {
    run_plan(seed, Plan::random(seed, ranks), trace)
}

/// Runs a job of `ranks` in which each exchanges small messages with its neighbours and with the
/// ranks at distances of all powers of two.
///
/// # Errors
/// The violation.
pub fn run_neighbours(ranks: u32, rounds: usize, seed: u64) -> Result<Report, Failed> {
    run_plan(seed, Plan::neighbours(ranks, rounds), 0)
}

/// Runs a job in which all other ranks connect to rank 0 at once.
///
/// # Errors
/// The violation.
pub fn run_storm(ranks: u32, seed: u64) -> Result<Report, Failed> {
    run_plan(seed, Plan::storm(ranks), 0)
}

/// Runs a job of `ranks` that makes `times` all-reduces of 8 bytes by dissemination.
///
/// # Errors
/// The violation.
pub fn run_allreduce(ranks: u32, times: usize, seed: u64) -> Result<Report, Failed> {
    run_plan(seed, Plan::allreduce(ranks, times), 0)
}

/// Runs a job of `ranks` in a grid, each of which exchanges `bytes` with its six neighbours in each
/// of `rounds` rounds.
///
/// # Errors
/// The violation.
pub fn run_halo(ranks: u32, rounds: usize, bytes: usize, seed: u64) -> Result<Report, Failed> {
    run_plan(seed, Plan::halo(ranks, rounds, bytes), 0)
}

/// Runs the same job with a node of `node` ranks, in the middle, that is lost at this step of the
/// simulation: the others go on without it.
///
/// # Errors
/// The violation.
pub fn run_lost_node(ranks: u32, rounds: usize, node: u32, step: u64, seed: u64) -> Result<Report, Failed> {
    run_plan(seed, Plan::halo(ranks, rounds, 4096).without_node(ranks / 2, node, step), 0)
}

fn run_plan(seed: u64, plan: Plan, trace: usize) -> Result<Report, Failed> {
    let job = || match Job::new(seed, plan, trace) {
        Ok(job) => job.run(),
        Err(w) => Err(Failed { seed, what: w.0, trace: Vec::new() }),
    };
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(Failed { seed, what: format!("panic: {text}"), trace: Vec::new() })
    })
}

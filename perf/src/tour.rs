//! The tour: every netmod that works here, in about a minute, in a table for newcomers.

use crate::bw::Bandwidth;
use crate::cli::{MatchArgs, MatchOrder, TourArgs};
use crate::error::{Failure, Result};
use crate::floor::Direct;
use crate::lat::Latency;
use crate::launch::{self, Choice, Role};
use crate::matching;
use crate::measure::{Effort, Test, measure};
use crate::pairs::{Kind, as_rank};
use crate::plot;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::report::{Row, json, table};

/// Netmods of the default tour: those without requirements.
const TOUR: [&str; 2] = [netmod_shm::NAME, netmod_tcp::NAME];
/// Duration of the tests between two ranks per netmod, in seconds.
const LAT: f64 = 7.0;
const BW: f64 = 14.0;
const RATE: f64 = 4.0;
/// Approximate duration of the tag matching test, in seconds.
const MATCH: f64 = 5.0;
const WINDOW: usize = 64;

/// Takes the tour.
///
/// # Errors
/// If no netmod works, or one named by the user fails.
pub(crate) fn run(args: &TourArgs) -> Result<()> {
    let choice = Choice { netmod: args.netmod.as_deref(), ..Choice::default() };
    let (mut rows, failed) = match launch::role()? {
        Role::Parent => as_parent(args)?,
        Role::Rank(mut sink) => match as_rank(choice, |pair| between(pair, args))? {
            Some(rows) if !sink.deliver(&rows)? => (rows, Vec::new()),
            _ => return Ok(()),
        },
    };
    let progress = Progress::bar(MATCH);
    let queue = MatchArgs {
        queue: vec![10, 100_000],
        order: MatchOrder::InOrder,
        rounds: if args.quick { 1 } else { 60 },
        iters: if args.quick { 1000 } else { 200_000 },
        json: args.json,
    };
    rows.extend(matching::measure(&queue, MATCH, &progress));
    drop(progress);
    if let Some(file) = &args.plot {
        plot::draw(file, &rows)?;
    }
    let text = if args.json { json(&rows) } else { tour_text(&rows, &failed, args) };
    crate::emit(&text)
}

/// Runs one job per netmod. Returns the results and the failures.
fn as_parent(args: &TourArgs) -> Result<(Vec<Row>, Vec<String>)> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    let names = args.netmod.as_deref().map_or_else(|| TOUR.to_vec(), |n| vec![n]);
    for name in &names {
        match launch::run_job(2, Some(name)) {
            Ok(job) => rows.extend(job.rows),
            Err(e) => failed.push(format!("netmod {name} does not work here: {e}")),
        }
    }
    if rows.is_empty() {
        return Err(Failure::new(format!(
            "{}; netmod-perf info says what this machine offers",
            failed.join("; ")
        )));
    }
    Ok((rows, failed))
}

/// Runs the tests between ranks 0 and 1.
fn between(pair: &mut crate::measure::Pair<'_>, args: &TourArgs) -> Result<Vec<Row>> {
    let progress = if pair.lead { Progress::bar(LAT + BW + RATE) } else { Progress::silent() };
    let bandwidth = Bandwidth { window: WINDOW, both: false, direct: Direct::Messages };
    let tests: [(&dyn Test, Kind, f64); 3] = [
        (&Latency, Kind::Latency, LAT),
        (&bandwidth, Kind::Bandwidth, BW),
        (&Rate { window: WINDOW }, Kind::Rate, RATE),
    ];
    let mut rows = Vec::new();
    for (test, kind, seconds) in tests {
        let curve = args.plot.is_some() && kind != Kind::Rate;
        let mut bytes = if curve { kind.sweep() } else { kind.bytes(pair.bare.medium()) }.to_vec();
        if args.quick {
            // A single window of longer messages takes a second.
            bytes.retain(|b| *b <= 4 << 20);
        }
        let effort =
            Effort { bytes, seconds, rounds: args.quick.then_some(2), iters: args.quick.then_some(2) };
        rows.extend(measure(pair, test, &effort, &progress)?);
    }
    Ok(rows)
}

/// Formats the table with its explanation.
fn tour_text(rows: &[Row], failed: &[String], args: &TourArgs) -> String {
    let ranks = rows.iter().find_map(|r| r.ranks).unwrap_or(2);
    let mut routes: Vec<String> = Vec::new();
    for (netmod, address) in rows.iter().filter_map(|r| Some((r.netmod.as_ref()?, r.address.as_ref()?))) {
        let route = format!("{netmod}: {address}");
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    let mut text = format!(
        "MPI messages between two processes of {ranks} through the device ({})\n\n{}\n",
        routes.join("; "),
        table(rows)
    );
    text.push_str(
        "How to read it\n\
         \x20 here    what an MPI program gets: median over rounds\n\
         \x20 floor   what the machine can do without MPI between the same two processes on the same cores,\n\
         \x20         measured alternately in every round; tag matching: the same with 10 receives\n\
         \x20   tcp   a bare TCP socket. Latency: both sides spin; bandwidth: one long stream, spinning or\n\
         \x20         blocking, whichever is faster; message rate: one system call per message\n\
         \x20   shm   bare shared memory. Latency: a cache line each way; with more data, copies\n\
         \x20         in and out; bandwidth: memcpy on one core, always the same buffers;\n\
         \x20         message rate: a cache line per message\n\
         \x20 ratio   here divided by floor, median of the rounds' ratios. For latency and matching 1.00 is perfect\n\
         \x20         and less is better; for bandwidth 1.00 is perfect and more is better; the message\n\
         \x20         rate of tcp is above its floor because small messages share system calls\n\
         \x20 Differences of a few per cent mean nothing. On a busy machine both columns are worse, and so is the\n\
         \x20 ratio of a test that needs two cores if its floor needs one (bandwidth over shm): check with uptime,\n\
         \x20 and measure again. Both are also worse between cores that share no cache, which a virtual machine\n\
         \x20 may get: then the floor of 8 bytes over shm is 0.1 us or more.\n\n",
    );
    for f in failed {
        text.push_str(&format!("{f}\n\n"));
    }
    text.push_str(
        "What to run next\n\
         \x20 netmod-perf info                         this machine, its limits, all configuration variables\n\
         \x20 netmod-perf lat --plot latency.svg       the curve over message sizes, with its floor\n\
         \x20 netmod-perf alltoall --ranks 64          start-up and memory of a larger job\n\
         \x20 mpiexec.hydra -n 2 netmod-perf bw        the same under your launcher, also between nodes\n",
    );
    if let Some(file) = &args.plot {
        text.push_str(&format!("\nThe curves are in {}.\n", file.display()));
    }
    text
}

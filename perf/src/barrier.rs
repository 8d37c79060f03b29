//! `barrier`: duration of a barrier of all ranks, also with more ranks than cores.

use std::time::Instant;

use ch3_shim::{Comm, Device};

use crate::cli::BarrierArgs;
use crate::error::Result;
use crate::launch;
use crate::report::{Row, median, rounded};

/// Barriers in the first round, which calibrates the number for later rounds.
const FIRST: u32 = 10;
/// Target duration of a round, in seconds.
const ROUND: f64 = 0.05;

/// Runs `n` barriers and returns the microseconds per barrier.
fn round(dev: &mut Device, comm: Comm, n: u32) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..n {
        dev.barrier(comm)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(n))
}

/// Makes rank 0's number of barriers per round known to all ranks.
pub(crate) fn agree(dev: &mut Device, comm: Comm, mut n: u32) -> Result<u32> {
    let mut word = n.to_le_bytes();
    if dev.rank() == 0 {
        for r in 1..dev.size() {
            dev.send(&word, r as i32, 0, comm)?;
        }
    } else {
        dev.recv(&mut word, 0, 0, comm)?;
        n = u32::from_le_bytes(word);
    }
    Ok(n)
}

fn measure(dev: &mut Device, args: &BarrierArgs) -> Result<Vec<f64>> {
    let comm = dev.world();
    // The first round makes the connections.
    round(dev, comm, FIRST)?;
    let each = round(dev, comm, FIRST)?;
    let fits = (ROUND * 1e6 / each.max(0.01)) as u32;
    let iters = agree(dev, comm, args.iters.unwrap_or(fits.max(FIRST)))?;
    (0..args.rounds).map(|_| round(dev, comm, iters)).collect()
}

/// Runs one rank. Rank 0 returns the row.
pub(crate) fn rank(args: &BarrierArgs) -> Result<Vec<Row>> {
    let mut dev = launch::join((&args.job).into())?.dev;
    let outcome = measure(&mut dev, args);
    let (me, ranks, netmod) = (dev.rank(), dev.size(), dev.netmods().first().map(ToString::to_string));
    let took = match outcome {
        Ok(took) => took,
        Err(e) => crate::fail_as_rank(dev, &e),
    };
    dev.finalize()?;
    let row = Row {
        test: "barrier".into(),
        netmod,
        ranks: Some(ranks),
        value: rounded(median(&took)),
        best: Some(rounded(took.iter().copied().fold(f64::INFINITY, f64::min))),
        unit: "us".into(),
        rounds: Some(took.len()),
        ..Row::default()
    };
    Ok(if me == 0 { vec![row] } else { Vec::new() })
}

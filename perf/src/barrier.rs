//! `barrier`: what a barrier of all ranks takes, also with more ranks than cores.

use std::time::Instant;

use ch3_shim::{Comm, Device};

use crate::cli::BarrierArgs;
use crate::error::Result;
use crate::launch;
use crate::report::{Row, median, rounded};

/// Barriers of the first round, which says how many take long enough.
const FIRST: u32 = 10;
/// Seconds that a round is to take.
const ROUND: f64 = 0.05;

/// Microseconds for each of `n` barriers.
fn round(dev: &mut Device, comm: Comm, n: u32) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..n {
        dev.barrier(comm)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(n))
}

/// Tells all ranks how many barriers a round has.
fn agree(dev: &mut Device, comm: Comm, mut n: u32) -> Result<u32> {
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
    // The first one makes the connections.
    round(dev, comm, FIRST)?;
    let each = round(dev, comm, FIRST)?;
    let fits = (ROUND * 1e6 / each.max(0.01)) as u32;
    let iters = agree(dev, comm, args.iters.unwrap_or(fits.max(FIRST)))?;
    (0..args.rounds).map(|_| round(dev, comm, iters)).collect()
}

/// What a rank does. Rank 0 gets the row.
pub(crate) fn rank(args: &BarrierArgs) -> Result<Option<Row>> {
    let mut dev = launch::join((&args.job).into())?.dev;
    let outcome = measure(&mut dev, args);
    let (me, ranks, netmod) = (dev.rank(), dev.size(), dev.netmods().first().map(ToString::to_string));
    let took = match outcome {
        Ok(took) => took,
        Err(e) => crate::fail_as_rank(dev, &e),
    };
    dev.finalize()?;
    Ok((me == 0).then(|| Row {
        test: "barrier".into(),
        netmod,
        ranks: Some(ranks),
        value: rounded(median(&took)),
        best: Some(rounded(took.iter().copied().fold(f64::INFINITY, f64::min))),
        unit: "us".into(),
        rounds: Some(took.len()),
        ..Row::default()
    }))
}

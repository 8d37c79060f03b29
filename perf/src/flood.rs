//! `flood`: many ranks send to one at once. First it receives as they send, then only after a
//! pause.
//!
//! The test shows that the slow receiver's memory stays bounded, and what that costs: the rate at
//! which it takes the messages, compared with a receiver that keeps up.

use std::time::{Duration, Instant};

use ch3_shim::{ANY_SOURCE, Comm, Device};

use crate::cli::FloodArgs;
use crate::error::{Failure, Result};
use crate::launch;
use crate::report::{Row, rounded};

const TAG: i32 = 0;

/// Runs one flood. Returns the seconds from the end of the pause to the last message.
fn one(dev: &mut Device, comm: Comm, args: &FloodArgs, pause: Duration) -> Result<f64> {
    let data = vec![dev.rank() as u8; args.bytes];
    dev.barrier(comm)?;
    if dev.rank() > 0 {
        dev.scope(|s| {
            for _ in 0..args.messages {
                s.isend(&data, 0, TAG, comm)?;
            }
            Ok(())
        })?;
        dev.barrier(comm)?;
        return Ok(0.0);
    }
    let end = Instant::now() + pause;
    // The device takes what arrives, as in a program that computes and makes other calls, but posts
    // no receives.
    while Instant::now() < end {
        if !dev.progress()? {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let start = Instant::now();
    let mut got = vec![0; args.bytes];
    for _ in 0..u64::from(args.messages) * u64::from(dev.size() - 1) {
        let status = dev.recv(&mut got, ANY_SOURCE, TAG, comm)?;
        if got.iter().any(|b| *b != status.source as u8) {
            return Err(Failure::new(format!("wrong data from rank {}", status.source)));
        }
    }
    let took = start.elapsed().as_secs_f64();
    dev.barrier(comm)?;
    Ok(took)
}

/// Runs one rank. Rank 0 returns the row.
pub(crate) fn rank(args: &FloodArgs) -> Result<Vec<Row>> {
    let mut dev = launch::join((&args.job).into())?.dev;
    let comm = dev.world();
    let pause = Duration::from_millis(u64::from(args.pause));
    let both = one(&mut dev, comm, args, Duration::ZERO)
        .and_then(|prompt| Ok((prompt, one(&mut dev, comm, args, pause)?)));
    let (prompt, slow) = match both {
        Ok(both) => both,
        Err(e) => crate::fail_as_rank(dev, &e),
    };
    let (me, ranks, stats) = (dev.rank(), dev.size(), dev.stats());
    let netmod = dev.netmods().first().map(ToString::to_string);
    let most = dev.config().unexpected_max as u64;
    dev.finalize()?;
    if me > 0 {
        return Ok(Vec::new());
    }
    let messages = f64::from(args.messages) * f64::from(ranks - 1);
    Ok(vec![Row {
        test: "flood".into(),
        netmod,
        ranks: Some(ranks),
        bytes: Some(args.bytes),
        window: Some(args.messages as usize),
        value: rounded(messages / slow),
        unit: "msg/s".into(),
        floor: Some(rounded(messages / prompt)),
        floor_kind: Some("a receiver that keeps up".into()),
        ratio: Some(rounded(prompt / slow)),
        rounds: Some(1),
        unexpected_kib: Some(stats.unexpected_memory_high.div_ceil(1024)),
        unexpected_max_kib: Some(most >> 10),
        measured: Some(format!("in rank 0, from {} ms after the barrier to the last message", args.pause)),
        ..Row::default()
    }])
}

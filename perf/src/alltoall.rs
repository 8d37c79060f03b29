//! `alltoall`: start all ranks, connect every pair, exchange a message with each, finalize.

use std::time::Instant;

use ch3_shim::{Comm, Device};

use crate::cli::AlltoallArgs;
use crate::error::{During, Failure, Result};
use crate::launch;
use crate::report::{Row, median, rounded};

const EXCHANGE: i32 = 0;
const MEMORY: i32 = 1;

/// Returns this process's private memory in KiB: pages that no other process shares.
pub(crate) fn private_kib() -> Result<u64> {
    let (clean, dirty) = private()?;
    Ok(clean + dirty)
}

/// Returns the private memory that this process has written, in KiB. The rest is the program file,
/// private while nobody else runs it.
pub(crate) fn written_kib() -> Result<u64> {
    Ok(private()?.1)
}

fn private() -> Result<(u64, u64)> {
    let path = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(path).during(format!("read {path}"))?;
    let kib = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    match (kib("Private_Clean:"), kib("Private_Dirty:")) {
        (Some(clean), Some(dirty)) => Ok((clean, dirty)),
        _ => Err(Failure::new(format!(
            "{path} lacks the private memory; expected lines Private_Clean and Private_Dirty"
        ))),
    }
}

/// Sends `bytes` to every other rank and receives as much from each, all concurrently.
fn exchange(dev: &mut Device, comm: Comm, bytes: usize) -> Result<()> {
    let (me, n) = (dev.rank(), dev.size());
    let others = |k: u32| (me + k) % n;
    let sent: Vec<u8> = vec![me as u8; bytes];
    let mut got = vec![0u8; bytes * (n as usize - 1)];
    dev.scope(|s| {
        let mut left = &mut got[..];
        for k in 1..n {
            let (part, rest) = left.split_at_mut(bytes);
            left = rest;
            s.irecv(part, others(k) as i32, EXCHANGE, comm)?;
        }
        for k in 1..n {
            s.isend(&sent, others(k) as i32, EXCHANGE, comm)?;
        }
        Ok(())
    })?;
    for (part, k) in got.chunks_exact(bytes).zip(1..n) {
        if part.iter().any(|b| *b != others(k) as u8) {
            return Err(Failure::new(format!("wrong data from rank {}", others(k))));
        }
    }
    Ok(())
}

/// Runs one rank. Rank 0 returns the row, with the time since before `Device::init`.
pub(crate) fn rank(args: &AlltoallArgs) -> Result<Option<Row>> {
    let start = Instant::now();
    let mut dev = launch::join((&args.job).into())?.dev;
    let outcome = all_to_all(&mut dev, args);
    let (me, ranks, netmod) = (dev.rank(), dev.size(), dev.netmods().first().map(ToString::to_string));
    let memory = match outcome {
        Ok(memory) => memory,
        Err(e) => crate::fail_as_rank(dev, &e),
    };
    dev.finalize()?;
    if me != 0 {
        return Ok(None);
    }
    let kib: Vec<f64> = memory.iter().map(|k| *k as f64).collect();
    Ok(Some(Row {
        test: "alltoall".into(),
        netmod,
        ranks: Some(ranks),
        bytes: Some(args.bytes),
        value: rounded(start.elapsed().as_secs_f64()),
        unit: "s".into(),
        rounds: Some(1),
        private_kib: Some(median(&kib) as u64),
        max_private_kib: memory.iter().copied().max(),
        measured: Some("before Device::init to after finalize, in rank 0".into()),
        ..Row::default()
    }))
}

/// Collects the private memory of all ranks, in rank 0.
fn all_to_all(dev: &mut Device, args: &AlltoallArgs) -> Result<Vec<u64>> {
    let comm = dev.world();
    exchange(dev, comm, args.bytes)?;
    dev.barrier(comm)?;
    let mine = private_kib()?;
    let mut all = vec![mine];
    if dev.rank() == 0 {
        for r in 1..dev.size() {
            let mut word = [0; 8];
            dev.recv(&mut word, r as i32, MEMORY, comm)?;
            all.push(u64::from_le_bytes(word));
        }
    } else {
        dev.send(&mine.to_le_bytes(), 0, MEMORY, comm)?;
    }
    dev.barrier(comm)?;
    Ok(all)
}

/// Starts the ranks `rounds` times, and times each whole job.
pub(crate) fn parent(args: &AlltoallArgs) -> Result<Vec<Row>> {
    let (mut seconds, mut kib, mut row) = (Vec::new(), Vec::new(), None);
    let mut largest = 0;
    for _ in 0..args.rounds {
        let job = launch::run_job(args.ranks, None)?;
        let got = job.rows.into_iter().next().ok_or_else(|| Failure::new("rank 0 ended without a result"))?;
        seconds.push(job.took.as_secs_f64());
        kib.push(got.private_kib.unwrap_or(0) as f64);
        largest = largest.max(got.max_private_kib.unwrap_or(0));
        row = Some(got);
    }
    Ok(row
        .map(|row| Row {
            value: rounded(median(&seconds)),
            best: Some(rounded(seconds.iter().copied().fold(f64::INFINITY, f64::min))),
            rounds: Some(seconds.len()),
            private_kib: Some(median(&kib) as u64),
            max_private_kib: Some(largest),
            measured: Some("before the ranks are started to the end of the last one".into()),
            ..row
        })
        .into_iter()
        .collect())
}

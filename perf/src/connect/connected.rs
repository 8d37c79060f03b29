//! Cost of open connections: memory of each, and latency beside many idle ones.
//!
//! The job has two ranks. Beside their own device, both join a second job in memory: rank 0 is its
//! rank 0, and rank 1 is all its other ranks, with a device each. So one process has all
//! connections, and the same two processes alternate between measuring the latency of a single
//! connection and of one among many.

use std::sync::Arc;
use std::time::Instant;

use ch3_shim::Config;
use ch3_shim::{ANY_SOURCE, Builder, Comm, Device};

use super::Memory;
use crate::cli::ConnectArgs;
use crate::error::{During, Failure, Result};
use crate::memory_pm::{MemoryPm, Values};
use crate::report::{Row, median, rounded};
use crate::{launch, sys};

const TAG: i32 = 0;
/// Messages per direction on each connection before its memory is measured.
const MESSAGES: u32 = 4;
/// Upper limit of descriptors per device, and of the process beside its devices.
const DEVICE_FDS: u64 = 4;
const OTHER_FDS: u64 = 64;
/// Number of processes on the node, which decides how long devices spin.
const PROCESSES: u32 = 2;
const WORD: usize = 8;

/// Runs one rank. Rank 0 returns the rows.
pub(super) fn rank(args: &ConnectArgs) -> Result<Option<Vec<Row>>> {
    let mut dev =
        launch::join(launch::Choice { netmod: args.netmod.as_deref(), ..launch::Choice::default() })?.dev;
    let lead = dev.rank() == 0;
    match measure(&mut dev, args) {
        Ok(rows) => {
            dev.finalize()?;
            Ok(lead.then_some(rows))
        }
        Err(e) => crate::fail_as_rank(dev, &e),
    }
}

fn measure(dev: &mut Device, args: &ConnectArgs) -> Result<Vec<Row>> {
    if dev.size() != 2 {
        return Err(Failure::new(format!(
            "connect needs a job of two ranks, not of {}; start it with -n 2, or without a launcher",
            dev.size()
        )));
    }
    let n = args.connected;
    let need = if dev.rank() == 0 { u64::from(n) } else { u64::from(n) * DEVICE_FDS } + OTHER_FDS;
    sys::raise_descriptor_limit(need).during(format!(
        "have {need} descriptors, which {n} connections need; raise the hard limit (ulimit -Hn) or connect fewer"
    ))?;
    if dev.rank() == 0 { lead(dev, args) } else { follow(dev, args) }
}

/// Makes a device of the second job.
fn second(dev: &Device, args: &ConnectArgs, pm: MemoryPm) -> Result<Device> {
    let mut cfg = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
    if let Some(name) = dev.netmods().first() {
        cfg.set("NETMOD", name).map_err(|e| Failure::new(e.to_string()))?;
    }
    // The sockets and files of this device would have the same names as those of the job's own
    // device.
    cfg.set("NETMOD_STATUS", "").map_err(|e| Failure::new(e.to_string()))?;
    cfg.set("NETMOD_CAPTURE", "").map_err(|e| Failure::new(e.to_string()))?;
    let rank = pm.rank;
    Builder::new(cfg, Box::new(pm))
        .build()
        .during(format!("make device {rank} of {} in one process", args.connected + 1))
}

fn pm(rank: u32, args: &ConnectArgs, job: &str, values: &Arc<std::sync::Mutex<Values>>) -> MemoryPm {
    MemoryPm {
        rank,
        size: args.connected + 1,
        job: job.into(),
        local_size: PROCESSES,
        values: values.clone(),
        stand_in: None,
        barrier: None,
    }
}

fn lead(dev: &mut Device, args: &ConnectArgs) -> Result<Vec<Row>> {
    let (comm, n) = (dev.world(), args.connected);
    let values = Arc::new(Values::default().into());
    let job = format!("second job of process {}", std::process::id());
    let pm = pm(0, args, &job, &values);
    let mut hub = second(dev, args, pm.clone())?;
    let before = Memory::now()?;
    let published = serde_json::to_vec(&(&job, &*pm.values())).during("encode the published values")?;
    dev.send(&(published.len() as u64).to_le_bytes(), 1, TAG, comm)?;
    dev.send(&published, 1, TAG, comm)?;
    let world = hub.world();
    for _ in 0..u64::from(n) * u64::from(MESSAGES) {
        let mut word = [0; WORD];
        let from = hub.recv(&mut word, ANY_SOURCE, TAG, world)?.source;
        if word != (from as u64).to_le_bytes() {
            return Err(Failure::new(format!("wrong data from rank {from}")));
        }
        hub.send(&word, from, TAG, world)?;
    }
    let after = Memory::now()?.since(before);
    let open = hub.report().iter().filter(|v| v.stats.connects > 0).count();
    if open != n as usize {
        return Err(Failure::new(format!("{open} of {n} VCs are connected")));
    }
    let netmod = hub.netmods().first().map(ToString::to_string);
    let mut rows = vec![Row {
        netmod: netmod.clone(),
        measured: Some(format!(
            "in the process with all connections, after {MESSAGES} messages in each direction of each"
        )),
        ..after.row("connected", n + 1, n)
    }];
    if args.latency {
        let (mut alone, mut among, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..args.rounds {
            let first = round % 2 == 0;
            let (mut one, mut many) = (0.0, 0.0);
            for own in [first, !first] {
                let (d, c) = if own { (&mut *dev, comm) } else { (&mut hub, world) };
                ping(d, c, args.iters / 10 + 1)?;
                let start = Instant::now();
                ping(d, c, args.iters)?;
                let took = start.elapsed().as_secs_f64() * 1e6 / (2.0 * f64::from(args.iters));
                *(if own { &mut one } else { &mut many }) = took;
            }
            alone.push(one);
            among.push(many);
            ratios.push(many / one);
        }
        rows.push(Row {
            test: super::TEST.into(),
            kind: Some("latency".into()),
            netmod,
            ranks: Some(n + 1),
            vcs: Some(n),
            bytes: Some(WORD),
            value: rounded(median(&among)),
            unit: "us".into(),
            floor: Some(rounded(median(&alone))),
            floor_kind: Some("the same two processes with one connection".into()),
            ratio: Some(rounded(median(&among) / median(&alone))),
            ratio_by_round: Some(rounded(median(&ratios))),
            rounds: Some(args.rounds as usize),
            ..Row::default()
        });
    }
    hub.finalize()?;
    Ok(rows)
}

fn follow(dev: &mut Device, args: &ConnectArgs) -> Result<Vec<Row>> {
    let comm = dev.world();
    let mut len = [0; 8];
    dev.recv(&mut len, 0, TAG, comm)?;
    let mut published = vec![0; u64::from_le_bytes(len) as usize];
    dev.recv(&mut published, 0, TAG, comm)?;
    let (job, values): (String, Values) =
        serde_json::from_slice(&published).during("parse the values that rank 0 has published")?;
    let values = Arc::new(values.into());
    let mut others = Vec::new();
    for rank in 1..=args.connected {
        let mut d = second(dev, args, pm(rank, args, &job, &values))?;
        talk(&mut d)?;
        others.push(d);
    }
    if args.latency {
        let Some(mate) = others.first_mut() else { return Ok(Vec::new()) };
        let world = mate.world();
        for round in 0..args.rounds {
            let first = round % 2 == 0;
            for own in [first, !first] {
                let (d, c) = if own { (&mut *dev, comm) } else { (&mut *mate, world) };
                pong(d, c, args.iters / 10 + 1)?;
                pong(d, c, args.iters)?;
            }
        }
    }
    for d in others {
        d.finalize()?;
    }
    Ok(Vec::new())
}

/// Exchanges a few messages with rank 0.
fn talk(d: &mut Device) -> Result<()> {
    let (world, word) = (d.world(), u64::from(d.rank()).to_le_bytes());
    for _ in 0..MESSAGES {
        d.send(&word, 0, TAG, world)?;
        let mut back = [0; WORD];
        d.recv(&mut back, 0, TAG, world)?;
        if back != word {
            return Err(Failure::new("rank 0 has sent back other data"));
        }
    }
    Ok(())
}

fn ping(d: &mut Device, comm: Comm, iters: u32) -> Result<()> {
    let mut word = [7; WORD];
    for _ in 0..iters {
        d.send(&word, 1, TAG, comm)?;
        d.recv(&mut word, 1, TAG, comm)?;
    }
    Ok(())
}

fn pong(d: &mut Device, comm: Comm, iters: u32) -> Result<()> {
    let mut word = [0; WORD];
    for _ in 0..iters {
        d.recv(&mut word, 0, TAG, comm)?;
        d.send(&word, 0, TAG, comm)?;
    }
    Ok(())
}

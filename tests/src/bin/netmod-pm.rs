//! `netmod-pm`: one rank of a job that tests the process manager alone, without a device.
//!
//! Ranks exchange values of several sizes over its key-value space and say where they are.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use netmod_pmi::ProcessManager;
use netmod_tests::jobs::{Result, pattern, sys};

/// Values that a rank publishes: shorter and longer than one message of PMI holds.
const SIZES: [usize; 4] = [0, 1, 1000, 100_000];

fn barrier(pm: &mut ProcessManager) -> Result<()> {
    pm.barrier_begin()?;
    let fd = pm.fd();
    while !pm.barrier_poll()? {
        let fd = fd.ok_or("a barrier that is not over, and no descriptor to wait for")?;
        if !sys::readable(fd, Duration::from_secs(30))? {
            return Err("the descriptor does not become readable at the end of a barrier".into());
        }
    }
    // Else whoever waits for it along with others would never sleep again.
    if let Some(fd) = fd
        && sys::readable(fd, Duration::ZERO)?
    {
        return Err("the descriptor is readable although the barrier is over".into());
    }
    Ok(())
}

/// Checks that the launcher tells the same of this process alone as of all ranks.
fn check_nodes(pm: &mut ProcessManager, round: u32) -> Result<()> {
    let me = pm.rank();
    let (Some(node), Some(own)) = (pm.node_of(me), pm.own_node()) else {
        return Err(format!("rank {me}: the node of this process is not known").into());
    };
    let before = (0..me).filter(|r| pm.node_of(*r) == Some(node)).count();
    if pm.local_rank().map(|r| r as usize) != Some(before) {
        return Err(format!("rank {me}: {before} ranks before it here, and {:?}", pm.local_rank()).into());
    }
    pm.put_bytes(&format!("node{round}-{me}"), &own.to_le_bytes())?;
    barrier(pm)?;
    for other in 0..pm.size() {
        let theirs = pm.get_bytes(&format!("node{round}-{other}"))?.ok_or("no value of a node")?;
        if (theirs == own.to_le_bytes()) != (pm.node_of(other) == Some(node)) {
            return Err(format!("rank {me} is on node {own}, rank {other} on {theirs:?}").into());
        }
    }
    Ok(())
}

fn run() -> Result<()> {
    let mut pm = ProcessManager::from_env()?;
    let (rank, size) = (pm.rank(), pm.size());
    let seed = |rank: u32, len: usize| u64::from(rank) << 32 | len as u64;
    if pm.get_bytes("key-0")?.is_some() {
        return Err("a value is there before anybody has put it".into());
    }
    for round in 0..2 {
        for len in SIZES {
            pm.put_bytes(&format!("r{round}-{len}-{rank}"), &pattern::bytes(seed(rank, len), len))?;
        }
        if rank == size - 1 {
            pm.put_bytes(&format!("last{round}"), b"whose key names no rank")?;
        }
        barrier(&mut pm)?;
        for other in 0..size {
            for len in SIZES {
                let key = format!("r{round}-{len}-{other}");
                let value = pm.get_bytes(&key)?.ok_or_else(|| format!("rank {rank}: no value of {key}"))?;
                if value.len() != len {
                    return Err(format!("rank {rank}: {key} has {} bytes", value.len()).into());
                }
                pattern::check(seed(other, len), &value).map_err(|e| format!("rank {rank}: {key}: {e}"))?;
            }
        }
        if pm.get_bytes(&format!("last{round}"))?.as_deref() != Some(b"whose key names no rank") {
            return Err(format!("rank {rank}: a key that names no rank is not found").into());
        }
        check_nodes(&mut pm, round)?;
        for nobodys in ["nobodys", "nobodys-1", "nobodys-77"] {
            if pm.get_bytes(nobodys)?.is_some() {
                return Err(format!("rank {rank}: {nobodys} has a value").into());
            }
        }
    }
    if !pm.failed_ranks()?.is_empty() {
        return Err("a rank is said to have failed".into());
    }
    barrier(&mut pm)?;
    let nodes: Vec<String> =
        (0..size).map(|r| pm.node_of(r).map_or_else(|| "?".into(), |n| n.to_string())).collect();
    let line = format!("rank {rank} of {size}: nodes {}, {} here\n", nodes.join(" "), pm.local_ranks());
    pm.finalize()?;
    // In one piece, so that the lines of ranks do not mix.
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("netmod-pm: {e}");
            ExitCode::FAILURE
        }
    }
}

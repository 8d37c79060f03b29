//! Traffic between all ranks while ranks are checkpointed in the middle of it: every message
//! arrives whole, once, and in order.

use ch3_shim::Device;

use super::basic::{context, place};
use super::pattern::{self, Random, seed};
use super::{Args, End, Result};
use netmod_tcp::TcpReport;

const SIZES: [usize; 8] = [0, 8, 2049, 16_385, 70_000, 131_073, 1 << 20, 2 << 20];

/// Seeds and lengths of what one rank sends to another in a round.
fn plan(run: u64, round: u64, from: i32, to: i32) -> Vec<(u64, usize)> {
    let of = seed(&[run, round, from as u64, to as u64, 0xc4]);
    let mut dice = Random::new(of);
    (0..6).map(|i| (seed(&[of, i]), SIZES[dice.below(SIZES.len())])).collect()
}

fn some_progress(dev: &mut Device, polls: usize) -> Result<()> {
    for _ in 0..polls {
        dev.progress()?;
    }
    Ok(())
}

/// Returns the inodes of the shared memory that this process has mapped, sorted.
fn shared_memory() -> Result<Vec<String>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let shared = maps.lines().filter(|l| l.contains("/dev/shm/"));
    let mut inodes: Vec<_> = shared.filter_map(|l| l.split_whitespace().nth(4)).map(str::to_owned).collect();
    inodes.sort();
    inodes.dedup();
    Ok(inodes)
}

/// Each rank leaves while all others stay, so it comes back to the memory that they have.
fn leave_in_turn(dev: &mut Device) -> Result<()> {
    let (world, (me, n)) = (dev.world(), place(dev));
    for turn in 0..n {
        dev.barrier(world)?;
        if turn == me {
            let before = shared_memory()?;
            leave(dev)?;
            dev.ckpt_restart()?;
            let now = shared_memory()?;
            if now != before {
                return Err(format!(
                    "inodes {before:?} were mapped before a checkpoint, and {now:?} are now"
                )
                .into());
            }
        }
        dev.barrier(world)?;
    }
    Ok(())
}

fn leave(dev: &mut Device) -> Result<()> {
    dev.ckpt_shutdown()?;
    if dev.netmod_report::<TcpReport>().map_or(0, |r| r.connections) != 0 {
        return Err("connections are open after ckpt_shutdown".into());
    }
    if !shared_memory()?.is_empty() {
        return Err("memory is shared after ckpt_shutdown".into());
    }
    Ok(())
}

pub(super) fn checkpoint(dev: &mut Device, args: &Args) -> Result<End> {
    let (run, rounds) = (args.get(0, 1), args.get(1, 10));
    let (world, (me, n)) = (dev.world(), place(dev));
    let mut dice = Random::new(seed(&[run, me as u64, 0xc4ec]));
    let mut checkpoints = 0;
    leave_in_turn(dev)?;
    for round in 0..rounds {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for peer in (0..n).filter(|p| *p != me) {
            for (of, len) in plan(run, round, peer, me) {
                receives.push((of, len, dev.irecv(vec![0xE5; len + 1], peer, 0, world)?));
            }
            for (of, len) in plan(run, round, me, peer) {
                sends.push(dev.isend(pattern::bytes(of, len), peer, 0, world)?);
            }
        }
        some_progress(dev, dice.below(60))?;
        if dice.below(2) == 0 {
            leave(dev)?;
            some_progress(dev, dice.below(20))?;
            dev.ckpt_restart()?;
            checkpoints += 1;
        }
        for (of, len, request) in receives {
            let what = || format!("seed {run}, round {round}, {len} bytes");
            let done = context(dev.wait(request), what)?;
            if done.status.len != len || done.buffer[len] != 0xE5 {
                return Err(format!("{}: {:?}", what(), done.status).into());
            }
            context(pattern::check(of, &done.buffer[..len]), what)?;
        }
        dev.wait_all(sends)?;
    }
    dev.barrier(world)?;
    let resumes = dev.netmod_report::<TcpReport>().unwrap_or_default().stats.resumes;
    let over_tcp = dev.report().iter().any(|vc| vc.netmod.starts_with("tcp"));
    if over_tcp && checkpoints > 0 && resumes == 0 {
        return Err("nothing was resumed".into());
    }
    println!("checkpoint: rank {me}: {checkpoints} checkpoints, {resumes} resumed");
    Ok(End::Finalize)
}

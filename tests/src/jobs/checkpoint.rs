//! Traffic between all ranks while ranks are checkpointed in the middle of it: every message arrives whole, once, and in
//! order.

use ch3_shim::Device;

use super::basic::{context, place};
use super::pattern::{self, Random, seed};
use super::{Args, End, Result};

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

pub(super) fn checkpoint(dev: &mut Device, args: &Args) -> Result<End> {
    let (run, rounds) = (args.get(0, 1), args.get(1, 10));
    let (world, (me, n)) = (dev.world(), place(dev));
    let mut dice = Random::new(seed(&[run, me as u64, 0xc4ec]));
    let mut checkpoints = 0;
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
            dev.ckpt_shutdown()?;
            if dev.tcp_connections() != Some(0) {
                return Err("connections are open after ckpt_shutdown".into());
            }
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
    let resumes = dev.tcp_stats().unwrap_or_default().resumes;
    if checkpoints > 0 && resumes == 0 {
        return Err("nothing was resumed".into());
    }
    println!("checkpoint: rank {me}: {checkpoints} checkpoints, {resumes} resumed");
    Ok(End::Finalize)
}

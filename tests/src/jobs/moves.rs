//! Traffic between all ranks while all are checkpointed at once, and come back at other ports.

use std::net::TcpListener;

use ch3_shim::Device;

use super::basic::{context, place};
use super::pattern::{self, seed};
use super::tap::home_in;
use super::{Args, End, Result};

const LENGTHS: [usize; 4] = [8, 5000, 70_000, 1 << 20];

/// The port of a card.
fn port_in(card: &[u8]) -> Result<u16> {
    Ok(home_in(card).ok_or("a card without an address of the loopback interface")?.port())
}

/// Leaves, and comes back while somebody else has the port. Returns the new one.
fn come_back_elsewhere(dev: &mut Device, port: u16) -> Result<u16> {
    dev.ckpt_shutdown()?;
    let taken = TcpListener::bind(("::", port))?;
    let now = port_in(&dev.ckpt_restart()?)?;
    drop(taken);
    dev.ckpt_rejoin()?;
    if now == port {
        Err(format!("port {port} was taken, and is this process's again").into())
    } else {
        Ok(now)
    }
}

pub(super) fn moves(dev: &mut Device, args: &Args) -> Result<End> {
    let (run, rounds) = (args.get(0, 1), args.get(1, 4));
    let (world, (me, n)) = (dev.world(), place(dev));
    let of =
        |round: u64, from: i32, to: i32, len: usize| seed(&[run, round, from as u64, to as u64, len as u64]);
    // The first card of this process is with the process manager.
    dev.ckpt_shutdown()?;
    let mut port = port_in(&dev.ckpt_restart()?)?;
    // Somebody else may have taken the port meanwhile.
    dev.ckpt_rejoin()?;
    for round in 0..rounds {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for peer in (0..n).filter(|p| *p != me) {
            for len in LENGTHS {
                receives.push((of(round, peer, me, len), len, dev.irecv(vec![0; len], peer, 0, world)?));
                sends.push(dev.isend(pattern::bytes(of(round, me, peer, len), len), peer, 0, world)?);
            }
        }
        for _ in 0..round * 11 {
            dev.progress()?;
        }
        port = come_back_elsewhere(dev, port)?;
        for (of, len, request) in receives {
            let what = || format!("seed {run}, round {round}, {len} bytes");
            let done = context(dev.wait(request), what)?;
            context(pattern::check(of, &done.buffer), what)?;
        }
        dev.wait_all(sends)?;
    }
    dev.barrier(world)?;
    println!("moves: rank {me}: at port {port} after {rounds} moves");
    Ok(End::Finalize)
}

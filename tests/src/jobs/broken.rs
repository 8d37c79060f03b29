//! Traffic between all ranks while their connections break, again and again, at random points:
//! every message arrives whole, once, and in order, and no rank is told that another one is down.

use ch3_shim::{Break, Device, Mode};

use super::basic::{context, place};
use super::pattern::{self, Random, seed};
use super::{Args, End, Result};
use netmod_tcp::TcpReport;

/// Around the limits of what is copied, kept, lent, announced; and a few others.
const SIZES: [usize; 18] = [
    0,
    1,
    16,
    17,
    100,
    1000,
    2048,
    2049,
    5000,
    16_384,
    16_385,
    40_000,
    70_000,
    131_072,
    131_073,
    300_000,
    1 << 20,
    4 << 20,
];

/// The length of a message. Large ones are rare, so that breaks are many.
fn length(dice: &mut Random) -> usize {
    let most = match dice.below(12) {
        0 => SIZES.len(),
        1..4 => SIZES.len() - 3,
        _ => SIZES.len() - 8,
    };
    SIZES[dice.below(most)]
}

/// Messages of one rank to another in a round: the seed and the length of each.
fn plan(run: u64, round: u64, from: i32, to: i32, each: usize) -> Vec<(u64, usize)> {
    let of = seed(&[run, round, from as u64, to as u64]);
    let mut dice = Random::new(of);
    (0..each).map(|i| (seed(&[of, i as u64]), length(&mut dice))).collect()
}

#[derive(Clone, Copy)]
enum Op {
    Send(i32, u64, usize),
    Receive(i32, u64, usize),
    Break(i32),
    Progress(usize),
}

/// Everything that a rank does in a round before it waits. Messages of a pair are in order; the
/// rest is random.
fn mixed(dice: &mut Random, run: u64, round: u64, me: i32, n: i32, each: usize) -> Vec<Op> {
    let mut lists: Vec<Vec<Op>> = Vec::new();
    for peer in (0..n).filter(|p| *p != me) {
        let send = |(of, len): (u64, usize)| Op::Send(peer, of, len);
        let receive = |(of, len): (u64, usize)| Op::Receive(peer, of, len);
        lists.push(plan(run, round, me, peer, each).into_iter().rev().map(send).collect());
        lists.push(plan(run, round, peer, me, each).into_iter().rev().map(receive).collect());
    }
    let other = |dice: &mut Random| (me + 1 + dice.below(n as usize - 1) as i32) % n;
    lists.push((0..=dice.below(2)).map(|_| Op::Break(other(dice))).collect());
    lists.push((0..dice.below(4)).map(|_| Op::Progress(dice.below(60))).collect());
    let mut ops = Vec::new();
    while !lists.is_empty() {
        let at = dice.below(lists.len());
        match lists[at].pop() {
            Some(op) => ops.push(op),
            None => drop(lists.swap_remove(at)),
        }
    }
    ops
}

pub(super) fn broken(dev: &mut Device, args: &Args) -> Result<End> {
    let (run, rounds, each) = (args.get(0, 1), args.get(1, 25), args.get(2, 5) as usize);
    let world = dev.world();
    let (me, n) = place(dev);
    // Messages and bytes received, connections broken.
    let mut totals = [0u64; 3];
    let mut dice = Random::new(seed(&[run, me as u64, 0xb0ca]));
    for round in 0..rounds {
        let tag = (round % 1000) as i32;
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for op in mixed(&mut dice, run, round, me, n, each) {
            match op {
                Op::Send(to, of, len) => {
                    let mode = if dice.below(4) == 0 { Mode::Sync } else { Mode::Standard };
                    let data = pattern::bytes(of, len);
                    sends.push(dev.isend_mode(data.into(), to, tag, world, mode)?);
                }
                Op::Receive(from, of, len) => {
                    receives.push((of, len, dev.irecv(vec![0xE5; len + 1], from, tag, world)?));
                }
                Op::Break(peer) => {
                    let how = if dice.below(3) == 0 { Break::Shut } else { Break::Reset };
                    totals[2] += u64::from(dev.break_connection(peer as u32, how)?);
                }
                Op::Progress(polls) => {
                    for _ in 0..polls {
                        dev.progress()?;
                    }
                }
            }
        }
        for (of, len, request) in receives {
            let what = || format!("seed {run}, round {round}, {len} bytes");
            let done = context(dev.wait(request), what)?;
            if done.status.len != len || done.buffer[len] != 0xE5 {
                return Err(format!("{}: {:?}", what(), done.status).into());
            }
            context(pattern::check(of, &done.buffer[..len]), what)?;
            totals[0] += 1;
            totals[1] += len as u64;
            if dice.below(8) == 0 {
                let peer = (me + 1 + dice.below(n as usize - 1) as i32) % n;
                totals[2] += u64::from(dev.break_connection(peer as u32, Break::Reset)?);
            }
        }
        dev.wait_all(sends)?;
    }
    dev.barrier(world)?;
    if (dev.live_requests(), dev.unexpected_len(), dev.posted_len()) != (0, 0, 0) {
        let (r, u, p) = (dev.live_requests(), dev.unexpected_len(), dev.posted_len());
        return Err(format!("{r} requests, {u} messages and {p} receives are left over").into());
    }
    let stats = dev.netmod_report::<TcpReport>().unwrap_or_default().stats;
    if totals[2] > 0 && stats.resumes == 0 {
        return Err(format!("{} connections were broken, and none was resumed", totals[2]).into());
    }
    println!(
        "broken: rank {me}: {} messages, {} bytes, {} breaks, {} resumed, {} bytes sent again",
        totals[0], totals[1], totals[2], stats.resumes, stats.resent_bytes
    );
    Ok(End::Finalize)
}

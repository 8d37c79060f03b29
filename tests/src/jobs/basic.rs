//! Cases in which everybody lives: patterns of traffic, each byte checked.

use std::io::Write as _;
use std::time::Duration;

use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Request};

use super::pattern::{self, Random, seed};
use super::{Args, End, Result, sys};

/// Beginning of an error, before its cause.
pub(super) fn context<T, E: std::fmt::Display>(
    result: std::result::Result<T, E>,
    what: impl FnOnce() -> String,
) -> Result<T> {
    result.map_err(|e| format!("{}: {e}", what()).into())
}

/// Rank and size as the device's calls want them.
pub(super) fn place(dev: &Device) -> (i32, i32) {
    (dev.rank() as i32, dev.size() as i32)
}

pub(super) fn ring(dev: &mut Device, args: &Args) -> Result<End> {
    let (laps, len) = (args.get(0, 200), args.get(1, 1000) as usize);
    let (me, n) = place(dev);
    let (next, prev, world) = ((me + 1) % n, (me + n - 1) % n, dev.world());
    let mut got = vec![0; len];
    for lap in 0..laps {
        let tag = (lap % 5) as i32;
        let bytes = |rank: i32| pattern::bytes(seed(&[lap, rank as u64]), len);
        // In the first laps a message is passed on rank by rank, in the others all move at once.
        let status = if lap < laps / 2 {
            let mine = bytes(0);
            if me == 0 && n > 1 {
                dev.send(&mine, next, tag, world)?;
                dev.recv(&mut got, prev, tag, world)?
            } else if n > 1 {
                let status = dev.recv(&mut got, prev, tag, world)?;
                dev.send(&got, next, tag, world)?;
                status
            } else {
                dev.sendrecv(&mine, next, tag, &mut got, prev, tag, world)?
            }
        } else {
            dev.sendrecv(&bytes(me), next, tag, &mut got, prev, tag, world)?
        };
        let origin = if lap < laps / 2 { 0 } else { prev as u64 };
        context(pattern::check(seed(&[lap, origin]), &got), || format!("lap {lap} from rank {prev}"))?;
        if (status.source, status.tag, status.len) != (prev, tag, len) {
            return Err(format!("lap {lap}: wrong envelope {status:?}").into());
        }
    }
    Ok(End::Finalize)
}

/// Every rank sends `len` bytes to every rank, itself included.
pub(super) fn exchange(dev: &mut Device, len: usize, round: u64) -> Result<()> {
    let (me, n) = place(dev);
    let world = dev.world();
    let tag = round as i32;
    let mut receives = Vec::new();
    for i in 0..n {
        let from = (me + n - i) % n;
        receives.push((from, dev.irecv(vec![0xEE; len + 1], from, tag, world)?));
    }
    let mut sends = Vec::new();
    for i in 0..n {
        let to = (me + i) % n;
        let data = pattern::bytes(seed(&[round, me as u64, to as u64, len as u64]), len);
        sends.push(dev.isend(data, to, tag, world)?);
    }
    for (from, receive) in receives {
        let done = context(dev.wait(receive), || format!("{len} bytes from rank {from}"))?;
        if (done.status.source, done.status.tag, done.status.len) != (from, tag, len) {
            return Err(format!("{len} bytes from rank {from}: wrong envelope {:?}", done.status).into());
        }
        let from_there = seed(&[round, from as u64, me as u64, len as u64]);
        context(pattern::check(from_there, &done.buffer[..len]), || format!("{len} bytes from rank {from}"))?;
        if done.buffer[len] != 0xEE {
            return Err(format!("{len} bytes from rank {from}: written behind the message").into());
        }
    }
    dev.wait_all(sends)?;
    Ok(())
}

pub(super) fn alltoall(dev: &mut Device, args: &Args) -> Result<End> {
    for (round, len) in [8, 4096, args.get(0, 200_000) as usize].into_iter().enumerate() {
        exchange(dev, len, round as u64)?;
    }
    Ok(End::Finalize)
}

pub(super) fn choices(dev: &mut Device, _: &Args) -> Result<End> {
    exchange(dev, 1000, 0)?;
    let me = dev.rank();
    // The card of a peer that has connected by itself comes later.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while dev.report().iter().any(|vc| vc.choice == "the peer connected by it") {
        if std::time::Instant::now() > limit {
            return Err("a choice was never explained".into());
        }
        dev.progress()?;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut text = String::new();
    let status = dev.status();
    for (netmod, opened) in status.netmods.iter().zip(&status.opened) {
        text.push_str(&format!("rank {me}: has opened {netmod}: {opened}\n"));
    }
    for vc in dev.report() {
        let netmod = vc.netmod.split(':').next().unwrap_or_default();
        text.push_str(&format!("rank {me}: with rank {} by {netmod}: {}\n", vc.rank, vc.choice));
        text.push_str(&format!("rank {me}: state of rank {}: {}\n", vc.rank, vc.netmod));
    }
    // In one piece, so that the lines of ranks do not mix.
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(End::Finalize)
}

/// Length of a message of [`many_to_one`].
fn length(source: i32, i: u64) -> usize {
    match Random::new(seed(&[source as u64, i])).below(8) {
        0 => 0,
        1 => 150_000,
        k => k * k * k * 7,
    }
}

/// Messages carry on from one phase to the next: any source and any tag, any source with a tag, a
/// probe for any source first.
pub(super) fn many_to_one(dev: &mut Device, args: &Args) -> Result<End> {
    let each = args.get(0, 200).next_multiple_of(3);
    let (me, n) = place(dev);
    let world = dev.world();
    let bytes = |source: i32, i: u64| seed(&[source as u64, i, 0x0e]);
    let tag = |i: u64| if i < each / 3 { (i % 4) as i32 } else { 9 };
    if me != 0 {
        let mut sends = Vec::new();
        for i in 0..each {
            let data = pattern::bytes(bytes(me, i), length(me, i));
            sends.push(dev.isend(data, 0, tag(i), world)?);
            if sends.len() == 16 {
                dev.wait_all(sends.drain(..))?;
            }
            // Those of the next phase must not match receives of this one.
            if (i + 1) % (each / 3) == 0 {
                dev.wait_all(sends.drain(..))?;
                dev.barrier(world)?;
            }
        }
        return Ok(End::Finalize);
    }
    let mut next = vec![0u64; n as usize];
    let mut check = |source: i32, status: &ch3_shim::Status, data: &[u8]| -> Result<()> {
        let i = next.get(source as usize).copied().ok_or("a source that is no rank")?;
        next[source as usize] += 1;
        if (status.tag, status.len) != (tag(i), length(source, i)) {
            return Err(format!("message {i} of rank {source}: wrong envelope {status:?}").into());
        }
        context(pattern::check(bytes(source, i), &data[..status.len]), || {
            format!("message {i} of rank {source}")
        })
    };
    for phase in 0..3 {
        let mut left = (each / 3) * (n as u64 - 1);
        while left > 0 && phase < 2 {
            let now = left.min(8);
            left -= now;
            let pattern = if phase == 0 { ANY_TAG } else { 9 };
            let receives = (0..now).map(|_| dev.irecv(vec![0; 150_000], ANY_SOURCE, pattern, world));
            let receives: Vec<Request> = receives.collect::<std::result::Result<_, _>>()?;
            for receive in receives {
                let done = dev.wait(receive)?;
                check(done.status.source, &done.status, &done.buffer)?;
            }
        }
        while left > 0 {
            let seen = dev.probe(ANY_SOURCE, 9, world)?;
            let mut data = vec![0; seen.len];
            let status = dev.recv(&mut data, seen.source, seen.tag, world)?;
            if status != seen {
                return Err(format!("probed {seen:?}, received {status:?}").into());
            }
            check(status.source, &status, &data)?;
            left -= 1;
        }
        dev.barrier(world)?;
    }
    Ok(End::Finalize)
}

/// Barriers, after which the ranks compare when they entered and left.
fn barrier_storm(dev: &mut Device, count: u64) -> Result<()> {
    let (me, n) = place(dev);
    let world = dev.world();
    let mut times = Vec::with_capacity(count as usize * 16);
    for i in 0..count {
        // Another rank is the last one each time.
        if i % 50 == 49 && i / 50 % n as u64 == me as u64 {
            std::thread::sleep(Duration::from_millis(5));
        }
        times.extend_from_slice(&sys::shared_clock().to_le_bytes());
        dev.barrier(world)?;
        times.extend_from_slice(&sys::shared_clock().to_le_bytes());
    }
    if me != 0 {
        dev.send(&times, 0, 1, world)?;
        return Ok(());
    }
    let mut all = vec![times.clone()];
    for rank in 1..n {
        let mut theirs = vec![0; times.len()];
        dev.recv(&mut theirs, rank, 1, world)?;
        all.push(theirs);
    }
    let time = |rank: usize, at: usize| -> u64 {
        let (words, _) = all[rank].as_chunks::<8>();
        words.get(at).map_or(0, |w| u64::from_le_bytes(*w))
    };
    for i in 0..count as usize {
        let last_in = (0..n as usize).map(|r| (time(r, 2 * i), r)).max().unwrap_or_default();
        let first_out = (0..n as usize).map(|r| (time(r, 2 * i + 1), r)).min().unwrap_or_default();
        if first_out.0 < last_in.0 {
            let (early, late) = (first_out.1, last_in.1);
            return Err(format!("rank {early} left barrier {i} before rank {late} had entered it").into());
        }
    }
    Ok(())
}

pub(super) fn barriers(dev: &mut Device, args: &Args) -> Result<End> {
    barrier_storm(dev, args.get(0, 500))?;
    Ok(End::Finalize)
}

pub(super) fn reuse(dev: &mut Device, args: &Args) -> Result<End> {
    let rounds = args.get(0, 10);
    let (me, n) = place(dev);
    let world = dev.world();
    let mut times = 0;
    for round in 0..rounds {
        // In each step of a round everybody has one partner, which is each other's.
        for step in 0..n {
            let partner = (step + n - me) % n;
            if partner == me {
                continue;
            }
            times += 1;
            let len = [40, 10_000, 300_000][(round % 3) as usize];
            let data = pattern::bytes(seed(&[round, me as u64]), len);
            let mut got = vec![0; len];
            let tag = step;
            context(dev.sendrecv(&data, partner, tag, &mut got, partner, tag, world), || {
                format!("round {round}: exchange with rank {partner}")
            })?;
            context(pattern::check(seed(&[round, partner as u64]), &got), || {
                format!("round {round} with rank {partner}")
            })?;
            context(dev.disconnect(partner as u32), || {
                format!("round {round}: disconnect from rank {partner}")
            })?;
        }
    }
    for way in dev.report() {
        if way.rank != me as u32 && u64::from(way.stats.connects) < rounds {
            let (rank, connects) = (way.rank, way.stats.connects);
            return Err(format!(
                "rank {rank}: {connects} connections in {rounds} rounds: the old one was used on"
            )
            .into());
        }
    }
    if times < rounds * (n as u64 - 1) {
        return Err("not everybody was met in each round".into());
    }
    exchange(dev, 5000, 99)?;
    Ok(End::Finalize)
}

pub(super) fn large(dev: &mut Device, args: &Args) -> Result<End> {
    let len = usize::try_from(args.get(0, (2 << 30) + (64 << 20) + (1 << 15) + 13))?;
    let world = dev.world();
    match dev.rank() {
        0 => dev.send(&pattern::bytes(77, len), 1, 3, world)?,
        1 => {
            let mut got = vec![0; len];
            let status = dev.recv(&mut got, 0, 3, world)?;
            if status.len != len {
                return Err(format!("{} bytes of {len} were received", status.len).into());
            }
            pattern::check(77, &got)?;
        }
        _ => {}
    }
    dev.barrier(world)?;
    Ok(End::Finalize)
}

pub(super) fn crowd(dev: &mut Device, args: &Args) -> Result<End> {
    exchange(dev, 8, 0)?;
    barrier_storm(dev, args.get(0, 20))?;
    exchange(dev, 4096, 1)?;
    Ok(End::Finalize)
}

pub(super) fn silent(_: &mut Device, _: &Args) -> Result<End> {
    Ok(End::Finalize)
}

//! A flood: all ranks send to one that receives nothing for long. Its memory stays bounded.

use std::time::Duration;

use ch3_shim::{ANY_SOURCE, ANY_TAG, Device};

use super::basic::{context, place};
use super::pattern::{self, seed};
use super::{Args, End, Result};

/// Bytes that flow control charges for a message besides its payload.
const ENTRY: u64 = 256;
/// Bytes beyond the charge: growth of queues by doubling, spare buffers, and the allocator.
const SLACK: u64 = 12 << 20;

fn length(i: u64) -> usize {
    [8, 8, 8, 0, 8, 100, 1800, 16][i as usize % 8]
}

/// Resident memory of this process that is its own, in bytes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line =
        text.lines().find_map(|l| l.strip_prefix("RssAnon:")).ok_or("no RssAnon in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

pub(super) fn flood(dev: &mut Device, args: &Args) -> Result<End> {
    let (each, pause) = (args.get(0, 1000), Duration::from_millis(args.get(1, 300)));
    let (me, n) = place(dev);
    let world = dev.world();
    let bytes = |source: i32, i: u64| seed(&[source as u64, i, 0xf1]);
    dev.barrier(world)?;
    if me != 0 {
        let mut sends = Vec::new();
        for i in 0..each {
            let data = pattern::bytes(bytes(me, i), length(i));
            sends.push(dev.isend(data, 0, (i % 1000) as i32, world)?);
        }
        dev.wait_all(sends)?;
        return Ok(End::Finalize);
    }
    let before = resident()?;
    let peers = n as u64 - 1;
    // First it makes no call at all, then it takes part, but receives nothing until all room is
    // used up, or all messages are here because they need less.
    std::thread::sleep(pause);
    let full = |dev: &Device| {
        if dev.unexpected_len() as u64 == each * peers {
            return true;
        }
        let flows: Vec<_> = dev.report().iter().map(|r| r.flow).collect();
        flows.len() == n as usize - 1 && flows.iter().all(|f| f.held_slots >= f.slots)
    };
    while !full(dev) {
        while dev.progress()? {}
        std::thread::sleep(Duration::from_millis(2));
    }
    let flow = dev.report().first().ok_or("nobody has sent anything")?.flow;
    let bound = |lent: u64| peers * (flow.window + u64::from(flow.slots) * ENTRY) + lent * ENTRY;
    let stats = dev.stats();
    if stats.unexpected_memory_high > bound(stats.slots_lent) {
        return Err(format!("more than {} bytes are charged: {stats:?}", bound(stats.slots_lent)).into());
    }
    let grown = resident()?.saturating_sub(before);
    if grown > bound(stats.slots_lent) + SLACK {
        return Err(format!("memory has grown by {grown} bytes; charged are {stats:?}").into());
    }
    let mut next = vec![0u64; n as usize];
    let mut got = vec![0; 1800];
    for _ in 0..each * peers {
        let status = dev.recv(&mut got, ANY_SOURCE, ANY_TAG, world)?;
        let i = next.get(status.source as usize).copied().ok_or("a source that is no rank")?;
        next[status.source as usize] += 1;
        if (status.tag, status.len) != ((i % 1000) as i32, length(i)) {
            return Err(format!("message {i} of rank {}: wrong envelope {status:?}", status.source).into());
        }
        context(pattern::check(bytes(status.source, i), &got[..status.len]), || {
            format!("message {i} of rank {}", status.source)
        })?;
    }
    println!(
        "flooded by {peers}: {} KiB charged, grown by {} KiB",
        stats.unexpected_memory_high >> 10,
        grown >> 10
    );
    Ok(End::Finalize)
}

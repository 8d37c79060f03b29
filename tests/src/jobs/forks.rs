//! A case of ranks that fork.

use std::time::Duration;

use ch3_shim::Device;

use super::basic::{context, exchange, place};
use super::pattern::{self, seed};
use super::{Args, End, Result, sys};

/// Ranks fork while messages are under way, and children that hold all memory live on for a while: nothing that is sent, put or got is
/// other than it should be.
pub(super) fn forks(dev: &mut Device, args: &Args) -> Result<End> {
    let (rounds, len) = (args.get(0, 6), args.get(1, 1 << 20) as usize);
    exchange(dev, 1000, 0)?;
    for round in 1..=rounds {
        // Before, while, and after there is a child.
        let child = sys::fork_sleeper(Duration::from_millis(200))?;
        for (i, len) in [8, 1000, 20_000, len].into_iter().enumerate() {
            exchange(dev, len, round * 8 + i as u64)?;
        }
        begin_and_fork(dev, len, round)?;
        sys::reap(child)?;
    }
    Ok(End::Finalize)
}

/// Messages are begun; then there is a fork; then they end.
fn begin_and_fork(dev: &mut Device, len: usize, round: u64) -> Result<()> {
    let ((me, n), world) = (place(dev), dev.world());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    let bytes = |rank: i32| pattern::bytes(seed(&[round, rank as u64, 0xf0]), len);
    let receive = dev.irecv(vec![0; len], from, 9, world)?;
    let send = dev.isend(bytes(me), to, 9, world)?;
    for _ in 0..50 {
        dev.progress()?;
    }
    let child = sys::fork_sleeper(Duration::from_millis(50))?;
    let done = dev.wait(receive)?;
    context(pattern::check(seed(&[round, from as u64, 0xf0]), &done.buffer), || {
        format!("round {round}: a message during which this process forked")
    })?;
    dev.wait(send)?;
    Ok(sys::reap(child)?)
}

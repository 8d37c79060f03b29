//! Cases of ranks that fork.

use std::time::Duration;

use ch3_shim::{Device, Error, Request};
use netmod_core::Arm;

use super::basic::{context, exchange, place};
use super::pattern::{self, seed};
use super::{Args, End, Result, sys};

/// Ranks fork while messages are under way, and children that hold all memory live on for a while:
/// nothing that is sent, put or got is other than it should be.
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

/// Ranks fork with messages under way, and without. Each child tries all calls, which are refused,
/// and drops the device. The parents go on as if there had been none.
pub(super) fn children(dev: &mut Device, args: &Args) -> Result<End> {
    let (rounds, len) = (args.get(0, 3), args.get(1, 1 << 20) as usize);
    let ((me, n), world) = (place(dev), dev.world());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    exchange(dev, 1000, 0)?;
    for round in 1..=rounds {
        let bytes = |rank: i32| pattern::bytes(seed(&[round, rank as u64, 0xf1]), len);
        let receive = dev.irecv(vec![0; len], from, 9, world)?;
        let send = dev.isend(bytes(me), to, 9, world)?;
        for _ in 0..round * 20 {
            dev.progress()?;
        }
        match sys::fork()? {
            0 => {
                is_refused(dev, receive, send, from)?;
                return Ok(End::Child);
            }
            child => sys::reap(child)?,
        }
        let done = dev.wait(receive)?;
        context(pattern::check(seed(&[round, from as u64, 0xf1]), &done.buffer), || {
            format!("round {round}: a message during which a child dropped the device")
        })?;
        dev.wait(send)?;
        // With nothing under way.
        match sys::fork()? {
            0 => return Ok(End::Child),
            child => sys::reap(child)?,
        }
        exchange(dev, len, round)?;
    }
    Ok(End::Finalize)
}

/// Checks in a forked child that each call is refused.
fn is_refused(dev: &mut Device, mut receive: Request, send: Request, from: i32) -> Result<()> {
    let world = dev.world();
    let mut refused = 0;
    let mut check = |what: &str, error: Option<Error>| match error {
        Some(Error::Forked) => {
            refused += 1;
            Ok(())
        }
        other => Err(format!("{what} of a forked child says {other:?}")),
    };
    dev.cancel(&receive);
    check("isend", dev.isend(vec![1], from, 1, world).err().map(Error::from))?;
    check("irecv", dev.irecv(vec![0], from, 1, world).err().map(Error::from))?;
    check("send", dev.send(&[1], from, 1, world).err())?;
    check("recv", dev.recv(&mut [0], from, 1, world).err())?;
    check("wait", dev.wait(&mut receive).err().map(Error::from))?;
    check("test", dev.test(&mut receive).err().map(Error::from))?;
    check("wait_any", dev.wait_any(&mut vec![send]).err().map(Error::from))?;
    check("progress", dev.progress().err())?;
    check("iprobe", dev.iprobe(from, 9, world).err())?;
    check("mprobe", dev.mprobe(from, 9, world).err())?;
    check("barrier", dev.barrier(world).err())?;
    check("dup", dev.dup(world).err())?;
    check("disconnect", dev.disconnect(from as u32).err())?;
    check("reconnect", dev.reconnect(from as u32).err())?;
    check("set_eager_max", dev.set_eager_max(from as u32, 1).err())?;
    check("open_port", dev.open_port().err())?;
    check("wait_fd", dev.wait_fd().err())?;
    check("ckpt_shutdown", dev.ckpt_shutdown().err())?;
    check("scope", dev.scope(|s| s.isend(&[1], from, 1, world).map(|_| ())).err())?;
    dev.finalize_begin();
    check("finalize_poll", dev.finalize_poll().err())?;
    if dev.arm() != Arm::Busy {
        return Err("arm of a forked child does not send it back to progress".into());
    }
    if refused == 20 { Ok(()) } else { Err(format!("{refused} calls were refused").into()) }
}

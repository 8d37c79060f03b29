//! Cases in which a process computes, and does not look after its messages, while others put to its
//! memory, get from it, and send to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ch3_shim::{Device, Request};

use super::basic::place;
use super::hanging::GO;
use super::pattern::{bytes, check};
use super::{Args, End, Result};

/// Bytes of a large message.
const LARGE: usize = 20 << 20;
/// Short messages that the sleeper finds when it wakes, and their bytes.
const SHORT: (u64, usize) = (2000, 1000);

/// Does nothing, for so long; or, where that is nothing, until the file `NETMOD_TEST_GO` exists.
fn nap(pause: Duration) -> Result<()> {
    if !pause.is_zero() {
        std::thread::sleep(pause);
        return Ok(());
    }
    let (file, end) = (go()?, Instant::now() + Duration::from_secs(30));
    while !file.exists() {
        if Instant::now() > end {
            return Err("rank 0 does not come to an end while this rank sleeps".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn go() -> Result<PathBuf> {
    Ok(std::env::var_os(GO).ok_or_else(|| format!("{GO} is not set"))?.into())
}

/// Checks the number of messages that this rank has put or got.
fn expect_one_sided(dev: &Device, messages: u64) -> Result<()> {
    match dev.stats().one_sided {
        n if n == messages => Ok(()),
        n => Err(format!("{n} messages were put or got, and not {messages}").into()),
    }
}

/// Rank 1 sleeps: while rank 0 moves a large message between both, and while it sends many short
/// ones.
pub(super) fn asleep(dev: &mut Device, args: &Args) -> Result<End> {
    let pause = Duration::from_millis(args.get(0, 1500));
    let (me, n) = place(dev);
    if n != 2 {
        return Err("this is for two ranks".into());
    }
    let world = dev.world();
    dev.barrier(world)?;
    let gets = dev.config().lmt == "get";
    let mut large = vec![0; LARGE];
    if me == 1 {
        let begun: Request =
            if gets { dev.isend(bytes(1, LARGE), 0, 1, world)? } else { dev.irecv(large, 0, 1, world)? };
        // Behind the announcement of what is sent.
        dev.send(&[], 0, 2, world)?;
        while !gets && dev.posted_len() > 0 {
            dev.progress()?;
        }
        nap(pause)?;
        let done = dev.wait(begun)?;
        if !gets {
            check(1, &done.buffer)?;
        }
        expect_one_sided(dev, 0)?;
        // Again, beside short messages.
        dev.send(&[], 0, 2, world)?;
        std::thread::sleep(if pause.is_zero() { Duration::from_millis(500) } else { pause });
        let mut short = [0; SHORT.1];
        for number in 0..SHORT.0 {
            dev.recv(&mut short, 0, 3, world)?;
            check(number, &short)?;
        }
    } else {
        dev.recv(&mut [], 1, 2, world)?;
        if gets {
            dev.recv(&mut large, 1, 1, world)?;
            check(1, &large)?;
        } else {
            dev.send(&bytes(1, LARGE), 1, 1, world)?;
        }
        expect_one_sided(dev, 1)?;
        if pause.is_zero() {
            std::fs::write(go()?, "")?;
        }
        dev.recv(&mut [], 1, 2, world)?;
        let sends = (0..SHORT.0).map(|number| dev.isend(bytes(number, SHORT.1), 1, 3, world));
        let sends = sends.collect::<std::result::Result<Vec<_>, _>>()?;
        dev.wait_all(sends)?;
    }
    dev.barrier(world)?;
    if !dev.failed().is_empty() {
        return Err(format!("it was taken for dead: {:?}", dev.failed()).into());
    }
    Ok(End::Finalize)
}

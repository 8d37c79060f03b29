//! A case of two ranks whose network's port goes away, and comes back.

use std::process::Command;
use std::time::{Duration, Instant};

use ch3_shim::{Device, Error};

use super::basic::{exchange, place};
use super::pattern;
use super::{Args, End, Result};

/// The variables with the commands of the shell by which rank 0 takes the port away, and gives it
/// back.
pub const UNPLUG: &str = "NETMOD_TEST_UNPLUG";
/// See [`UNPLUG`].
pub const PLUG: &str = "NETMOD_TEST_PLUG";

/// Time that a rank tries to be understood again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tags of questions and answers.
const ASK: i32 = 7;
const ANSWER: i32 = 8;

fn shell(variable: &str) -> Result<()> {
    let text = std::env::var(variable).map_err(|_| format!("{variable} has no command"))?;
    let status = Command::new("sh").args(["-c", &text]).status()?;
    if status.success() { Ok(()) } else { Err(format!("{variable}: {text}: {status}").into()) }
}

/// The port is away while everybody is silent: nobody notices.
fn in_silence(dev: &mut Device, away: Duration) -> Result<()> {
    let ((me, n), world) = (place(dev), dev.world());
    dev.barrier(world)?;
    if me != 0 {
        dev.recv(&mut [], 0, 1, world)?;
    } else {
        // The last words of the barrier are answered.
        let settled = Instant::now() + Duration::from_millis(200);
        while Instant::now() < settled {
            dev.progress()?;
        }
        shell(UNPLUG)?;
        let end = Instant::now() + away;
        while Instant::now() < end {
            dev.progress()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        shell(PLUG)?;
        for rank in 1..n {
            dev.send(&[], rank, 1, world)?;
        }
    }
    exchange(dev, 50_000, 2)?;
    dev.barrier(world)?;
    if dev.failed().is_empty() { Ok(()) } else { Err(format!("ranks were lost: {:?}", dev.failed()).into()) }
}

/// Both talk until they are told that the other one is out of reach.
fn until_lost(dev: &mut Device, other: i32) -> Result<()> {
    let (world, start) = (dev.world(), Instant::now());
    let mut got = vec![0; 60_000];
    let mine = pattern::bytes(1, got.len());
    loop {
        match dev.sendrecv(&mine, other, 3, &mut got, other, 3, world) {
            Ok(_) => pattern::check(1, &got)?,
            Err(Error::Peer(e)) if e.peer().is_some_and(|p| p.rank as i32 == other) => {
                // In one piece, so that the lines of ranks do not mix.
                println!("rank {}: lost: {e}", dev.rank());
                return Ok(());
            }
            Err(e) => return Err(format!("an error that is not rank {other}'s: {e}").into()),
        }
        if start.elapsed() > PATIENCE {
            return Err("the port is away, and everything arrives".into());
        }
    }
}

/// Asks, or answers. Errors are those of the peer.
fn ask(dev: &mut Device, other: i32, round: u8) -> std::result::Result<bool, Error> {
    let world = dev.world();
    let mut got = [0];
    if dev.rank() == 0 {
        dev.send(&[round], other, ASK, world)?;
        dev.recv(&mut got, other, ANSWER, world)?;
        // An answer to an earlier question may have been under way.
        return Ok(got == [round]);
    }
    dev.recv(&mut got, other, ASK, world)?;
    dev.send(&got, other, ANSWER, world)?;
    Ok(true)
}

/// Connects with the other rank again, as soon as that is possible.
fn begin_anew(dev: &mut Device, other: i32) -> Result<()> {
    let start = Instant::now();
    for round in 0..=u8::MAX {
        dev.ack_failures();
        let outcome = dev.reconnect(other as u32).and_then(|()| ask(dev, other, round));
        match outcome {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(e) if start.elapsed() > PATIENCE => return Err(format!("no connection any more: {e}").into()),
            Err(Error::Peer(_)) => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => return Err(e.into()),
        }
    }
    Err("too many questions".into())
}

/// The port goes while everybody is silent, unless that is forbidden, and then in mid-traffic:
/// ranks lose each other, and find each other again when it is back.
pub(super) fn unplugged(dev: &mut Device, args: &Args) -> Result<End> {
    let (silent, away) = (args.get(0, 1000), Duration::from_millis(args.get(1, 1000)));
    let (me, n) = place(dev);
    if n != 2 {
        return Err("this case is for 2 ranks".into());
    }
    let other = 1 - me;
    exchange(dev, 50_000, 1)?;
    if silent > 0 {
        in_silence(dev, Duration::from_millis(silent))?;
    }
    if me == 0 {
        shell(UNPLUG)?;
    }
    until_lost(dev, other)?;
    if me == 0 {
        std::thread::sleep(away);
        shell(PLUG)?;
    }
    begin_anew(dev, other)?;
    println!("rank {me}: found again");
    for round in 3..6 {
        exchange(dev, 100_000, round)?;
    }
    Ok(End::Finalize)
}

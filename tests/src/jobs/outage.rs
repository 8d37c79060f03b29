//! Cases of two ranks on two hosts whose network fails, or changes. Rank 1 cuts it, by sending all
//! that goes to rank 0 to a device that nobody has: neither side is told anything.

use std::process::Command;
use std::time::{Duration, Instant};

use ch3_shim::{Device, Error};

use super::pattern;
use super::{Args, End, Result};
use netmod_tcp::TcpReport;

/// The variable that tells rank 1 which address it is to cut off, and by which interface it is
/// reached: `ADDRESS INTERFACE`.
pub const CUT: &str = "NETMOD_TEST_CUT";

/// Makes the address of the variable unreachable, or reachable again.
fn neighbour(verb: &str) -> Result<()> {
    /// Locally administered.
    const NOBODY: [&str; 4] = ["lladdr", "02:00:00:00:00:01", "nud", "permanent"];
    let text = std::env::var(CUT).map_err(|_| format!("{CUT} names no address to cut off"))?;
    let Some((address, interface)) = text.split_once(' ') else {
        return Err(format!("{CUT}={text} is not an address and an interface").into());
    };
    let mut ip = Command::new("ip");
    ip.args(["neigh", verb, address, "dev", interface]);
    if verb == "replace" {
        ip.args(NOBODY);
    }
    let status = ip.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("ip neigh {verb} {address} dev {interface}: {status}").into())
    }
}

/// The variable that tells rank 0 what it moves from, and to: `INTERFACE FROM/BITS TO/BITS`.
pub const MOVE: &str = "NETMOD_TEST_MOVE";

/// Gives this host another address.
fn relocate() -> Result<()> {
    let text = std::env::var(MOVE).map_err(|_| format!("{MOVE} names no addresses"))?;
    let [interface, from, to] = text.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("{MOVE}={text} is not an interface and two addresses").into());
    };
    for (verb, address) in [("del", from), ("add", to)] {
        let status = Command::new("ip").args(["addr", verb, address, "dev", interface]).status()?;
        if !status.success() {
            return Err(format!("ip addr {verb} {address} dev {interface}: {status}").into());
        }
    }
    Ok(())
}

/// Rank 0, or both, is checkpointed in the middle of traffic, and comes back with another
/// address, where rank 1 finds it again when their connection breaks.
pub(super) fn moving(dev: &mut Device, args: &Args) -> Result<End> {
    let movers = args.get(0, 1);
    talk(dev, 5, 50_000)?;
    let world = dev.world();
    let (me, other) = (u64::from(dev.rank()), 1 - dev.rank() as i32);
    let receive = dev.irecv(vec![0; 4 << 20], other, 2, world)?;
    let send = dev.isend(pattern::bytes(me, 4 << 20), other, 2, world)?;
    for _ in 0..3 {
        dev.progress()?;
    }
    if me < movers {
        dev.ckpt_shutdown()?;
        relocate()?;
        dev.ckpt_restart()?;
    }
    if movers == 2 {
        dev.ckpt_rejoin()?;
    }
    pattern::check(1 - me, &dev.wait(receive)?.buffer)?;
    dev.wait(send)?;
    dev.barrier(world)?;
    if me == 1 {
        dev.break_connection(0, ch3_shim::Break::Reset)?;
        dev.send(&[7; 100], other, 3, world)?;
    } else {
        // It sees the break and rank 1's dial together.
        std::thread::sleep(Duration::from_millis(300));
        dev.recv(&mut [0; 100], other, 3, world)?;
    }
    talk(dev, 5, 50_000)?;
    let resumes = dev.netmod_report::<TcpReport>().unwrap_or_default().stats.resumes;
    if resumes < 2 {
        return Err(format!("resumed {resumes} times").into());
    }
    Ok(End::Finalize)
}

/// Messages go back and forth.
fn talk(dev: &mut Device, laps: u64, bytes: usize) -> Result<()> {
    let world = dev.world();
    let (me, other) = (u64::from(dev.rank()), 1 - dev.rank() as i32);
    for lap in 0..laps {
        let mut got = vec![0; bytes];
        dev.sendrecv(&pattern::bytes(lap << 1 | me, bytes), other, 1, &mut got, other, 1, world)?;
        pattern::check(lap << 1 | (1 - me), &got)?;
    }
    Ok(())
}

/// The network goes and does not come back: each side's receive ends with an error that names the
/// other. With `sending` rank 0 has bytes under way, otherwise the connection is idle.
pub(super) fn silence(dev: &mut Device, args: &Args) -> Result<End> {
    let (sending, limit) = (args.get(0, 0) > 0, Duration::from_secs(args.get(1, 30)));
    let world = dev.world();
    let other = 1 - dev.rank() as i32;
    talk(dev, 3, 1000)?;
    if dev.rank() == 1 {
        neighbour("replace")?;
    } else if sending {
        // Rank 1 cuts the network meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        let send = dev.isend(vec![1; 100], other, 9, world)?;
        // Nobody waits for it: it ends with the connection.
        drop(send);
    }
    let start = Instant::now();
    match dev.recv(&mut [0; 8], other, 5, world) {
        Err(Error::Peer(e)) if start.elapsed() < limit => {
            let text = e.to_string();
            if !text.contains(&format!("rank {other}")) {
                return Err(format!("an error that does not name rank {other}: {text}").into());
            }
            println!("rank {}: after {:?}: {text}", dev.rank(), start.elapsed());
            dev.ack_failures();
            Ok(End::Finalize)
        }
        outcome => Err(format!("after {:?}: {outcome:?}", start.elapsed()).into()),
    }
}

/// The network is away for a while, in mid-traffic: nobody notices.
pub(super) fn pause(dev: &mut Device, args: &Args) -> Result<End> {
    let away = Duration::from_millis(args.get(0, 1500));
    talk(dev, 10, 50_000)?;
    if dev.rank() == 1 {
        neighbour("replace")?;
    }
    let world = dev.world();
    let other = 1 - dev.rank() as i32;
    // Far more than the kernels keep, so that it cannot all be under way.
    let receive = dev.irecv(vec![0; 16 << 20], other, 2, world)?;
    let send = dev.isend(pattern::bytes(u64::from(dev.rank()), 16 << 20), other, 2, world)?;
    let start = Instant::now();
    while start.elapsed() < away {
        dev.progress()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    if dev.rank() == 1 {
        neighbour("del")?;
    }
    let done = dev.wait(receive)?;
    pattern::check(other as u64, &done.buffer)?;
    dev.wait(send)?;
    talk(dev, 10, 50_000)?;
    Ok(End::Finalize)
}

/// The variable that tells the ranks whose interface goes down: `RANK INTERFACE`.
pub const DOWN: &str = "NETMOD_TEST_DOWN";

/// An interface goes down in the middle of traffic each way: all of that arrives, by another
/// interface.
pub(super) fn departed(dev: &mut Device, args: &Args) -> Result<End> {
    depart(dev, args)?;
    Ok(End::Finalize)
}

/// The same. Returns a time before the interface went down.
fn depart(dev: &mut Device, args: &Args) -> Result<Instant> {
    let (laps, bytes) = (args.get(0, 40), args.get(1, 300_000) as usize);
    let text = std::env::var(DOWN).map_err(|_| format!("{DOWN} names no interface"))?;
    let Some((rank, interface)) = text.split_once(' ') else {
        return Err(format!("{DOWN}={text} is not a rank and an interface").into());
    };
    let mine = rank.parse() == Ok(dev.rank());
    let world = dev.world();
    let other = 1 - dev.rank() as i32;
    talk(dev, laps, bytes)?;
    let receive = dev.irecv(vec![0; 16 << 20], other, 2, world)?;
    let send = dev.isend(pattern::bytes(u64::from(dev.rank()), 16 << 20), other, 2, world)?;
    for _ in 0..20 {
        dev.progress()?;
    }
    let before = Instant::now();
    if mine {
        let status = Command::new("ip").args(["link", "set", interface, "down"]).status()?;
        if !status.success() {
            return Err(format!("ip link set {interface} down: {status}").into());
        }
    }
    let start = Instant::now();
    let done = dev.wait(receive)?;
    pattern::check(other as u64, &done.buffer)?;
    dev.wait(send)?;
    talk(dev, laps, bytes)?;
    println!("rank {}: went on after {:?}", dev.rank(), start.elapsed());
    Ok(before)
}

/// An interface goes down in the middle of traffic and comes up again, twice: connections leave it
/// and come back, and all arrives. The second time they stay away for longer.
pub(super) fn returned(dev: &mut Device, args: &Args) -> Result<End> {
    let text = std::env::var(DOWN).map_err(|_| format!("{DOWN} names no interface"))?;
    let Some((rank, interface)) = text.split_once(' ') else {
        return Err(format!("{DOWN}={text} is not a rank and an interface").into());
    };
    let mine = rank.parse() == Ok(dev.rank());
    for lap in 0..2 {
        let before = dev.netmod_report::<TcpReport>().unwrap_or_default().stats.moved;
        let down = depart(dev, args)?;
        if mine {
            let status = Command::new("ip").args(["link", "set", interface, "up"]).status()?;
            if !status.success() {
                return Err(format!("ip link set {interface} up: {status}").into());
            }
        }
        go_back(dev, before)?;
        let (took, least) = (down.elapsed(), Duration::from_secs(1 << lap));
        if mine && took < least {
            return Err(format!("back within {took:?}, {least:?} is the least").into());
        }
        talk(dev, 5, 300_000)?;
        let peer = 1 - dev.rank();
        let explained = dev.report().into_iter().find(|r| r.rank == peer).map(|r| r.netmod);
        let explained = explained.unwrap_or_default();
        if !explained.contains(&format!("to {interface}: ")) {
            return Err(format!("the change is not explained: {explained}").into());
        }
        println!("rank {}: back after {took:?}: {explained}", dev.rank());
    }
    Ok(End::Finalize)
}

/// Talks until a connection has gone back to a better interface: `before` of this side's had done
/// so already.
fn go_back(dev: &mut Device, before: u64) -> Result<()> {
    let (world, other) = (dev.world(), 1 - dev.rank() as i32);
    let (start, limit) = (Instant::now(), Duration::from_secs(60));
    loop {
        // Much is under way each way whenever the connection goes over.
        talk(dev, 3, 1_000_000)?;
        let moved = u8::from(dev.netmod_report::<TcpReport>().unwrap_or_default().stats.moved > before);
        let mut theirs = [0];
        dev.sendrecv(&[moved], other, 4, &mut theirs, other, 4, world)?;
        if moved + theirs[0] > 0 {
            return Ok(());
        }
        if start.elapsed() > limit {
            return Err(format!("no connection has gone back within {limit:?}").into());
        }
    }
}

/// Traffic, after which each rank says how many connections have come by another interface than
/// they were meant for.
pub(super) fn strays(dev: &mut Device, args: &Args) -> Result<End> {
    let first = args.get(2, u64::MAX);
    if first < 2 {
        // The other one does not dial.
        let (me, world) = (u64::from(dev.rank()), dev.world());
        let other = 1 - dev.rank() as i32;
        if me == first {
            dev.send(&[], other, 2, world)?
        } else {
            dev.recv(&mut [], other, 2, world).map(drop)?
        }
    }
    talk(dev, args.get(0, 40), args.get(1, 50_000) as usize)?;
    let strayed = dev.netmod_report::<TcpReport>().map_or(0, |r| r.stats.strayed);
    let ways: Vec<String> = dev.report().into_iter().map(|v| v.netmod).collect();
    println!("rank {}: {strayed} connections strayed; {}", dev.rank(), ways.join("; "));
    Ok(End::Finalize)
}

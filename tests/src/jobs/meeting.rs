//! Cases of two jobs that are started apart: they meet at a port whose name is in a file, exchange,
//! and part.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ch3_shim::{ANY_SOURCE, Device, InterComm, PortName};

use super::pattern::{bytes, seed};
use super::{Args, End, Result};

/// The environment variable with the file for the port's name.
pub const PORT_FILE: &str = "NETMOD_TEST_PORT_FILE";

/// Time limit of the other job.
const LIMIT: Duration = Duration::from_secs(50);
/// Rounds after which nothing more should be allocated.
const WARM: u64 = 10;
/// Allowed growth of a process in all the rounds after those, in KiB.
const GROWTH: u64 = 2048;

fn port_file() -> Result<PathBuf> {
    Ok(std::env::var_os(PORT_FILE).ok_or_else(|| format!("{PORT_FILE} is not set"))?.into())
}

/// Opens a port and writes its name to the file, whole or not at all.
fn publish(dev: &mut Device) -> Result<PortName> {
    let (file, port) = (port_file()?, dev.open_port()?);
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{port}\n"))?;
    std::fs::rename(&new, &file)?;
    Ok(port)
}

/// The port's name, as soon as it is there.
fn find() -> Result<PortName> {
    let (file, end) = (port_file()?, Instant::now() + LIMIT);
    loop {
        match std::fs::read_to_string(&file) {
            Ok(text) => return Ok(text.parse()?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(format!("{}: {e}", file.display()).into()),
        }
    }
}

/// A message each way between each two processes of the two jobs.
fn exchange(dev: &mut Device, inter: &InterComm, round: u64, len: usize) -> Result<()> {
    let (me, comm, n) = (dev.rank(), inter.comm(), inter.remote_size());
    let tag = (round % 1000) as i32;
    let mut receives = Vec::new();
    for peer in 0..n {
        receives.push((peer, dev.irecv(vec![0; len + 1], peer as i32, tag, comm)?));
    }
    let mut sends = Vec::new();
    for peer in 0..n {
        let data = bytes(seed(&[round, me.into(), peer.into()]), len);
        sends.push(dev.isend(data, peer as i32, tag, comm)?);
    }
    for (peer, receive) in receives {
        let done = dev.wait(receive)?;
        let want = bytes(seed(&[round, peer.into(), me.into()]), len);
        if done.status.len != len || done.buffer[..len] != want[..] {
            return Err(format!("round {round}: a wrong message from rank {peer} of the other job").into());
        }
    }
    dev.wait_all(sends)?;
    Ok(())
}

/// Resources that must not grow.
#[derive(Clone, Copy, Debug)]
struct Held {
    vcs: usize,
    requests: usize,
    unexpected: usize,
    posted: usize,
    descriptors: usize,
}

fn held(dev: &Device) -> Result<Held> {
    Ok(Held {
        vcs: dev.live_vcs(),
        requests: dev.live_requests(),
        unexpected: dev.unexpected_len(),
        posted: dev.posted_len(),
        descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
    })
}

/// Memory of the process in KiB.
fn memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Meets so many times as `meet` says, and checks that nothing is left of it.
fn rounds(
    dev: &mut Device,
    args: &Args,
    mut meet: impl FnMut(&mut Device) -> Result<InterComm>,
) -> Result<()> {
    let (rounds, large) = (args.get(0, 20), args.get(1, 50_000) as usize);
    let mut before = None;
    for round in 0..rounds {
        if round == WARM.min(rounds - 1) {
            before = Some((held(dev)?, memory()?));
        }
        let inter = meet(dev).map_err(|e| format!("round {round}: {e}"))?;
        for len in [8, large] {
            exchange(dev, &inter, round, len).map_err(|e| format!("round {round}: {e}"))?;
        }
        dev.disconnect_comm(inter).map_err(|e| format!("round {round}: {e}"))?;
    }
    let Some((before, memory_before)) = before else { return Ok(()) };
    // The last connections may linger until the other side has closed them.
    let end = Instant::now() + Duration::from_secs(10);
    let mut after = held(dev)?;
    while after.descriptors > before.descriptors && Instant::now() < end {
        dev.progress()?;
        std::thread::sleep(Duration::from_millis(10));
        after = held(dev)?;
    }
    // Before, a message of a member that was quicker may have been here.
    let idle = after.requests + after.unexpected + after.posted == 0;
    if after.descriptors > before.descriptors || after.vcs > before.vcs || !idle {
        return Err(format!("something is left: {before:?} before, {after:?} after").into());
    }
    let grown = memory()?.saturating_sub(memory_before);
    if grown > GROWTH {
        return Err(format!("grown by {grown} KiB in {rounds} rounds").into());
    }
    Ok(())
}

/// `[ROUNDS=20] [BYTES=50000]`: opens a port at rank 0 and accepts.
pub fn host(dev: &mut Device, args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(publish(dev)?) } else { None };
    let world = dev.world();
    rounds(dev, args, |dev| Ok(dev.accept(port.as_ref(), world, 0, LIMIT)?))?;
    if let Some(port) = port {
        dev.close_port(&port)?;
    }
    Ok(End::Finalize)
}

/// `[ROUNDS=20] [BYTES=50000]`: connects from the last rank.
pub fn guest(dev: &mut Device, args: &Args) -> Result<End> {
    let root = dev.size() - 1;
    let port = if dev.rank() == root { Some(find()?) } else { None };
    let world = dev.world();
    rounds(dev, args, |dev| Ok(dev.connect(port.as_ref(), world, root, LIMIT)?))?;
    Ok(End::Finalize)
}

/// Error of a call on a job that has died.
fn says_who(outcome: std::result::Result<impl Sized, ch3_shim::Error>, what: &str) -> Result<String> {
    match outcome {
        Ok(_) => Err(format!("{what}: it succeeded, though the other job is dead").into()),
        Err(e) => Ok(format!("{what}: {e}")),
    }
}

/// Opens a port at rank 0 and accepts a `victim`, which dies, and then an `heir`.
pub fn widow(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(publish(dev)?) } else { None };
    let world = dev.world();
    let inter = dev.accept(port.as_ref(), world, 0, LIMIT)?;
    exchange(dev, &inter, 1, 100)?;
    // The guest dies when all hosts have all it has sent. A receive from it fails, and so does
    // parting, which leaves nothing.
    let comm = inter.comm();
    for peer in 0..inter.remote_size() {
        dev.send(&[], peer as i32, 8, comm)?;
    }
    let text = says_who(dev.recv(&mut [0; 8], 0, 7, comm), "a receive from the dead job")?;
    println!("rank {}: {text}", dev.rank());
    let text = says_who(dev.disconnect_comm(inter), "parting from the dead job")?;
    println!("rank {}: {text}", dev.rank());
    let failed = dev.failed();
    if !failed.is_empty() {
        return Err(format!("the dead job was not forgotten: {failed:?}").into());
    }
    let inter = dev.accept(port.as_ref(), world, 0, LIMIT)?;
    exchange(dev, &inter, 2, 100)?;
    dev.disconnect_comm(inter)?;
    if dev.unexpected_len() + dev.posted_len() + dev.live_requests() > 0 {
        return Err(format!("something is left: {:?}", held(dev)?).into());
    }
    Ok(End::Finalize)
}

/// Connects to a `widow`; each rank is killed when all have exchanged.
pub fn victim(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(find()?) } else { None };
    let world = dev.world();
    let inter = dev.connect(port.as_ref(), world, 0, LIMIT)?;
    exchange(dev, &inter, 1, 100)?;
    for peer in 0..inter.remote_size() {
        dev.recv(&mut [], peer as i32, 8, inter.comm())?;
    }
    dev.barrier(world)?;
    super::sys::kill_self()
}

/// Connects to a `widow` whose `victim` is dead.
pub fn heir(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(find()?) } else { None };
    let world = dev.world();
    let inter = dev.connect(port.as_ref(), world, 0, LIMIT)?;
    exchange(dev, &inter, 2, 100)?;
    dev.disconnect_comm(inter)?;
    Ok(End::Finalize)
}

/// Accepts a `quitter`, of which no process ever sends a message, and waits for one.
pub fn stood_up(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(publish(dev)?) } else { None };
    let world = dev.world();
    let inter = dev.accept(port.as_ref(), world, 0, LIMIT)?;
    let (comm, last) = (inter.comm(), inter.remote_size() as i32 - 1);
    let text = match dev.rank() % 3 {
        0 => says_who(dev.recv(&mut [0; 8], last, 7, comm), "a receive from nobody")?,
        1 => says_who(dev.probe(last, 7, comm), "a probe for nobody")?,
        _ => says_who(dev.recv(&mut [0; 8], ANY_SOURCE, 7, comm), "a receive from nobody")?,
    };
    println!("rank {}: {text}", dev.rank());
    let text = says_who(dev.disconnect_comm(inter), "parting from nobody")?;
    println!("rank {}: {text}", dev.rank());
    Ok(End::Finalize)
}

/// Connects to a job that is `stood_up`, and ends without a word.
pub fn quitter(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(find()?) } else { None };
    let world = dev.world();
    let _inter = dev.connect(port.as_ref(), world, 0, LIMIT)?;
    dev.barrier(world)?;
    super::sys::kill_self()
}

/// Accepts whoever comes, until one has exchanged messages and parts: those before have died, at
/// whatever moment.
pub fn patient(dev: &mut Device, _args: &Args) -> Result<End> {
    let port = if dev.rank() == 0 { Some(publish(dev)?) } else { None };
    let world = dev.world();
    loop {
        let inter = dev.accept(port.as_ref(), world, 0, LIMIT)?;
        let exchanged = exchange(dev, &inter, 2, 100);
        let parted = dev.disconnect_comm(inter);
        match exchanged {
            Ok(()) => break parted?,
            Err(e) => println!("rank {}: a guest has died: {e}", dev.rank()),
        }
    }
    if !dev.failed().is_empty() {
        return Err(format!("dead jobs were not forgotten: {:?}", dev.failed()).into());
    }
    Ok(End::Finalize)
}

/// Connects to a `patient` job, and dies so many milliseconds after it has begun to.
pub fn hasty(dev: &mut Device, args: &Args) -> Result<End> {
    let delay = Duration::from_millis(args.get(0, 0));
    let port = if dev.rank() == 0 { Some(find()?) } else { None };
    let world = dev.world();
    dev.barrier(world)?;
    if dev.rank() == 0 {
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            super::sys::kill_self()
        });
    }
    let inter = dev.connect(port.as_ref(), world, 0, LIMIT)?;
    dev.recv(&mut [0; 8], 0, 7, inter.comm())?;
    Err("it is still alive".into())
}

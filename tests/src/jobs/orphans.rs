//! Cases in which the launcher is stopped or killed while its ranks talk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ch3_shim::{Comm, Device};

use super::basic::place;
use super::{Args, End, Result, sys};

/// The longest that the launcher stays stopped, and that a rank waits for anything here.
const LONG: Duration = Duration::from_secs(30);

/// Names of launchers, as the kernel has them (`comm` of `proc_pid_stat(5)`).
const LAUNCHERS: [&str; 5] = ["nmrun", "mpiexec.hydra", "mpirun.openmpi", "orterun", "prterun"];

/// The processes between this one and the launcher, such as Hydra's proxy, and then the launcher.
pub(super) fn launcher() -> Result<Vec<u32>> {
    let (mut pid, mut chain) = (std::os::unix::process::parent_id(), Vec::new());
    while pid > 1 {
        chain.push(pid);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (before, rest) = stat.rsplit_once(')').ok_or("no name")?;
        let name = before.split_once('(').ok_or("no name")?.1;
        if LAUNCHERS.contains(&name) {
            return Ok(chain);
        }
        pid = rest.split_whitespace().nth(1).ok_or("no parent")?.parse()?;
    }
    Err(format!("none of {LAUNCHERS:?} is an ancestor of this process").into())
}

/// Sends a signal to each of these processes.
pub(super) fn signal(chain: &[u32], signal: i32) -> std::io::Result<()> {
    chain.iter().try_for_each(|pid| sys::signal(*pid, signal))
}

/// `laps` times a number goes round among the ranks below `n`.
fn laps(dev: &mut Device, n: i32, laps: u32, world: Comm) -> Result<()> {
    let me = dev.rank() as i32;
    let (next, prev) = ((me + 1) % n, (me + n - 1) % n);
    for lap in 0..laps {
        let mut got = [0; 4];
        if me == 0 {
            dev.send(&lap.to_le_bytes(), next, 1, world)?;
            dev.recv(&mut got, prev, 1, world)?;
        } else {
            dev.recv(&mut got, prev, 1, world)?;
            dev.send(&got, next, 1, world)?;
        }
        if got != lap.to_le_bytes() {
            return Err(format!("lap {lap}: got {got:?}").into());
        }
    }
    Ok(())
}

/// The launcher is stopped while a ring of messages goes on, and while rank 0 sends to the last
/// rank, with which it has not talked before. Both go on for longer than several failure checks.
pub(super) fn stopped(dev: &mut Device, args: &Args) -> Result<End> {
    let (me, n) = place(dev);
    let (world, newcomer) = (dev.world(), n - 1);
    let ring = n - 1;
    let rounds = args.get(0, 20);
    if me == newcomer {
        let mut got = [0; 8];
        dev.recv(&mut got, 0, 2, world)?;
        return if got == *b"newcomer" { Ok(End::Finalize) } else { Err(format!("got {got:?}").into()) };
    }
    laps(dev, ring, 3, world)?;
    let mut late = None;
    let continued = Arc::new(AtomicBool::new(false));
    if me == 0 {
        let launcher = launcher()?;
        signal(&launcher, libc::SIGSTOP)?;
        // A rank that waits for the launcher would wait for ever.
        let (mine, end) = (Arc::clone(&continued), Instant::now() + LONG);
        std::thread::spawn(move || {
            while !mine.load(Ordering::Acquire) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            let forced = !mine.swap(true, Ordering::AcqRel);
            if forced {
                eprintln!("the ring stood still with its launcher");
            }
            signal(&launcher, libc::SIGCONT).expect("the launcher goes on");
            if forced {
                std::process::exit(1);
            }
        });
        late = Some(dev.isend(b"newcomer".to_vec(), newcomer, 2, world)?);
    }
    for _ in 0..rounds {
        laps(dev, ring, 50, world)?;
        // Longer than the failure check, in the middle of a wait of the others.
        if me == 1 {
            std::thread::sleep(Duration::from_millis(15));
        }
    }
    if let Some(late) = late {
        continued.store(true, Ordering::Release);
        dev.wait(late)?;
    }
    Ok(End::Finalize)
}

/// Rank 0 kills the launcher. Rank 1 waits for a message, rank 2 computes and then waits, rank 0
/// only polls; each gets an error. With 1, the job was told to go on, and does.
pub(super) fn orphaned(dev: &mut Device, args: &Args) -> Result<End> {
    let (me, n) = place(dev);
    let world = dev.world();
    laps(dev, n, 3, world)?;
    if me == 0 {
        let chain = launcher()?;
        sys::signal(*chain.last().ok_or("no launcher")?, libc::SIGKILL)?;
    }
    if args.get(0, 0) == 1 {
        for _ in 0..20 {
            laps(dev, n, 20, world)?;
            std::thread::sleep(Duration::from_millis(15));
        }
        println!("rank {me} goes on");
        return Ok(End::Leave);
    }
    let end = Instant::now() + LONG;
    match me {
        0 => {
            while Instant::now() < end {
                dev.progress()?;
                std::thread::yield_now();
            }
        }
        2 => {
            std::thread::sleep(Duration::from_millis(500));
            dev.recv(&mut [0], 1, 7, world)?;
        }
        _ => {
            dev.recv(&mut [0], 0, 7, world)?;
        }
    }
    Err("it was not told that the launcher is gone".into())
}

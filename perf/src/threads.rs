//! `rate --threads`: rate of small messages when several threads of each process send or receive
//! concurrently.
//!
//! The job's own devices have level Serialized. Both processes also join further jobs in memory,
//! whose devices have level Multiple: one with a single engine, and one with the requested number.
//! Thread i of rank 0 sends to thread i of rank 1, on its own communicator. A round runs each
//! variant once and the next round uses the opposite order, so that a slow moment of the machine
//! affects neighbours alike.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use bytes::Bytes;
use ch3_shim::Config;
use ch3_shim::{Builder, Comm, Device, Multiple};

use crate::cli::RateArgs;
use crate::error::{During, Failure, Result};
use crate::launch::{self, Role};
use crate::memory_pm::{MemoryPm, StartBarrier, Values};
use crate::progress::Progress;
use crate::report::{Row, median, rounded};
use crate::{fail_as_rank, print};

/// Tag of measured messages, and of those that synchronise the processes.
const TAG: i32 = 0;
const CONTROL: i32 = 1;
/// Number of processes of the job.
const PROCESSES: u32 = 2;
/// Default duration of a test, in seconds.
const SECONDS: f64 = 4.0;
/// Target duration of a run, in seconds.
const PHASE: f64 = 0.02;
const MIN_ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 1000;
const MAX_WINDOWS: u64 = 1 << 20;

/// Measures as the command line says.
///
/// # Errors
/// What failed, and in which rank.
pub(crate) fn run(args: &RateArgs, threads: usize) -> Result<()> {
    let job = &args.window.pair.job;
    let rows = match launch::role()? {
        Role::Parent => launch::run_job(args.window.pair.ranks, None)?.rows,
        Role::Rank(mut sink) => {
            let mut dev = launch::join_unbound(job.into())?;
            let lead = dev.rank() == 0;
            let rows = match Run::new(&mut dev, args, threads).and_then(Run::measure) {
                Ok(rows) => rows,
                Err(e) => fail_as_rank(dev, &e),
            };
            dev.finalize()?;
            if !lead || sink.deliver(&rows)? {
                return Ok(());
            }
            rows
        }
    };
    print(&rows, job.json)
}

/// A variant of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// One thread at level Serialized.
    Serialized,
    /// This many threads on one of the devices at level Multiple.
    Multiple { device: usize, threads: usize },
}

/// A thread's calls, at either level.
trait Caller {
    /// Sends a window of messages, waits for them, and then for the acknowledgement.
    fn send_window(&mut self, data: &Bytes, window: usize) -> ch3_shim::Result<()>;
    /// Receives a window of messages into the buffers of `room`, then acknowledges them.
    fn recv_window(&mut self, room: &mut Vec<Vec<u8>>) -> ch3_shim::Result<()>;
}

/// A device with the thread's communicator.
struct On<D> {
    dev: D,
    comm: Comm,
}

/// The two levels have the same calls with different types.
macro_rules! caller {
    ($device:ty) => {
        impl Caller for On<$device> {
            fn send_window(&mut self, data: &Bytes, window: usize) -> ch3_shim::Result<()> {
                let mut reqs = Vec::with_capacity(window);
                for _ in 0..window {
                    reqs.push(self.dev.isend(data.clone(), 1, TAG, self.comm)?);
                }
                self.dev.wait_all(reqs)?;
                self.dev.recv(&mut [0], 1, TAG, self.comm).map(drop)
            }

            fn recv_window(&mut self, room: &mut Vec<Vec<u8>>) -> ch3_shim::Result<()> {
                let mut reqs = Vec::with_capacity(room.len());
                for buffer in room.drain(..) {
                    reqs.push(self.dev.irecv(buffer, 0, TAG, self.comm)?);
                }
                room.extend(self.dev.wait_all(reqs)?.into_iter().map(|done| done.buffer));
                self.dev.send(&[1], 0, TAG, self.comm)
            }
        }
    };
}

caller!(&mut Device);
caller!(&Device<Multiple>);

/// Runs one thread: warm-up windows, then, after `ready`, the measured ones. Returns begin and end
/// by the thread itself, since another thread may read the clock late.
fn work(
    caller: &mut dyn Caller,
    lead: bool,
    (thread, bytes): (usize, usize),
    (window, windows): (usize, usize),
    ready: impl FnOnce(),
) -> Result<(Instant, Instant)> {
    let data = Bytes::from(vec![thread as u8; bytes]);
    let mut room = vec![vec![!thread as u8; bytes]; if lead { 0 } else { window }];
    let once = |caller: &mut dyn Caller, room: &mut Vec<Vec<u8>>| {
        if lead { caller.send_window(&data, window) } else { caller.recv_window(room) }
    };
    for i in 0..windows.div_ceil(10) {
        once(caller, &mut room)?;
        // The received data must be correct; the figures are worthless otherwise.
        if i == 0 && room.iter().any(|r| *r != data) {
            return Err(Failure::new(format!("wrong data in thread {thread}")));
        }
    }
    ready();
    let start = Instant::now();
    for _ in 0..windows {
        once(caller, &mut room)?;
    }
    Ok((start, Instant::now()))
}

/// The participants of the test, as one of the two processes sees them.
struct Run<'a> {
    dev: &'a mut Device,
    comm: Comm,
    args: &'a RateArgs,
    threads: usize,
    window: usize,
    shared: Vec<Device<Multiple>>,
    /// Communicators by device and thread.
    comms: Vec<Vec<Comm>>,
}

impl<'a> Run<'a> {
    /// Makes the devices at level Multiple.
    fn new(dev: &'a mut Device, args: &'a RateArgs, threads: usize) -> Result<Run<'a>> {
        if dev.size() != PROCESSES {
            return Err(Failure::new(format!(
                "rate --threads needs a job of two ranks, not of {}; start it with -n 2, or without a launcher",
                dev.size()
            )));
        }
        let world = dev.world();
        let comm = dev.dup(world)?;
        let window = args.window.window as usize;
        let mut run = Run { dev, comm, args, threads, window, shared: Vec::new(), comms: Vec::new() };
        let more = (args.engines > 1).then_some(args.engines);
        for engines in [1].into_iter().chain(more) {
            let shared = run.share(engines as usize)?;
            let world = shared.world();
            run.comms.push((0..threads).map(|_| shared.dup(world)).collect::<ch3_shim::Result<_>>()?);
            run.shared.push(shared);
        }
        Ok(run)
    }

    /// Makes one device at level Multiple, in a job of its own.
    fn share(&mut self, engines: usize) -> Result<Device<Multiple>> {
        let mut cfg = Config::from_env().map_err(|e| Failure::new(e.to_string()))?;
        let netmods = self.dev.config().netmods.join(",");
        // The sockets and files of this device would have the same names as those of the job's own
        // device.
        for (name, value) in [("NETMOD", &netmods[..]), ("NETMOD_STATUS", ""), ("NETMOD_CAPTURE", "")] {
            cfg.set(name, value).map_err(|e| Failure::new(e.to_string()))?;
        }
        let rank = self.dev.rank();
        let leader = self.agree(std::process::id().into())?;
        let job = format!("job of {engines} engines of process {leader}");
        let barrier = Arc::new(StartBarrier::default());
        let pm = MemoryPm {
            rank,
            size: PROCESSES,
            job,
            local_size: PROCESSES,
            values: Arc::default(),
            stand_in: None,
            barrier: Some(Arc::clone(&barrier)),
        };
        let builder = Builder::new(cfg, Box::new(pm.clone())).engines(engines)?;
        std::thread::scope(|s| {
            let making = s.spawn(|| {
                let made = builder.build_thread::<Multiple>();
                barrier.enter();
                made
            });
            barrier.entered();
            // Neither process continues before both have published everything.
            let exchanged = self.exchange(&pm);
            barrier.open();
            let made =
                making.join().map_err(|_| Failure::new("the thread that makes a device has panicked"))?;
            exchanged?;
            made.during(format!("make a device of {engines} engines at level Multiple"))
        })
    }

    /// Exchanges the published values with the other process.
    fn exchange(&mut self, pm: &MemoryPm) -> Result<()> {
        let ours = serde_json::to_vec(&*pm.values()).during("encode the published values")?;
        let theirs = if self.dev.rank() == 0 {
            self.send_bytes(&ours)?;
            self.recv_bytes()?
        } else {
            let theirs = self.recv_bytes()?;
            self.send_bytes(&ours)?;
            theirs
        };
        let theirs: Values =
            serde_json::from_slice(&theirs).during("parse the values that the other rank has published")?;
        pm.values().extend(theirs);
        Ok(())
    }

    /// Sends bytes to the other process.
    fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let peer = 1 - self.dev.rank() as i32;
        self.dev.send(&(bytes.len() as u64).to_le_bytes(), peer, CONTROL, self.comm)?;
        Ok(self.dev.send(bytes, peer, CONTROL, self.comm)?)
    }

    /// Receives bytes from the other process.
    fn recv_bytes(&mut self) -> Result<Vec<u8>> {
        let peer = 1 - self.dev.rank() as i32;
        let mut len = [0; 8];
        self.dev.recv(&mut len, peer, CONTROL, self.comm)?;
        let mut bytes = vec![0; u64::from_le_bytes(len) as usize];
        self.dev.recv(&mut bytes, peer, CONTROL, self.comm)?;
        Ok(bytes)
    }

    /// Makes a number of rank 0 known to both processes.
    fn agree(&mut self, mine: u64) -> Result<u64> {
        let mut word = mine.to_le_bytes();
        if self.dev.rank() == 0 {
            self.dev.send(&word, 1, CONTROL, self.comm)?;
        } else {
            self.dev.recv(&mut word, 0, CONTROL, self.comm)?;
        }
        Ok(u64::from_le_bytes(word))
    }

    /// Returns messages per second of one variant. All threads together send `windows` windows, at
    /// least one each.
    fn one(&mut self, variant: Variant, bytes: usize, windows: usize) -> Result<f64> {
        let (lead, window) = (self.dev.rank() == 0, self.window);
        let Variant::Multiple { device, threads } = variant else {
            let mut on = On { dev: &mut *self.dev, comm: self.comm };
            let (start, end) = work(&mut on, lead, (0, bytes), (window, windows), || {})?;
            return Ok((window * windows) as f64 / (end - start).as_secs_f64());
        };
        let each = windows.div_ceil(threads);
        let (shared, comms) = (&self.shared[device], &self.comms[device]);
        let together = Barrier::new(threads);
        let times = std::thread::scope(|s| {
            let all: Vec<_> = (0..threads)
                .map(|thread| {
                    let (together, comm) = (&together, comms[thread]);
                    s.spawn(move || {
                        let mut on = On { dev: shared, comm };
                        let ready = || {
                            together.wait();
                        };
                        match work(&mut on, lead, (thread, bytes), (window, each), ready) {
                            Ok(times) => times,
                            // The other threads, here and in the peer, would wait for this one for
                            // ever.
                            Err(e) => shared.abort(1, &format!("netmod-perf: thread {thread}: {e}")),
                        }
                    })
                })
                .collect();
            all.into_iter().map(|t| t.join().ok()).collect::<Option<Vec<_>>>()
        });
        let times = times.ok_or_else(|| Failure::new("a thread that measures has panicked"))?;
        let start = times.iter().map(|(start, _)| *start).min().unwrap_or_else(Instant::now);
        let end = times.iter().map(|(_, end)| *end).max().unwrap_or(start);
        let took = (end - start).as_secs_f64();
        Ok((window * each * threads) as f64 / took)
    }

    /// Measures all sizes. Rank 0 returns the rows.
    fn measure(mut self) -> Result<Vec<Row>> {
        let pair = &self.args.window.pair;
        let sizes = if pair.bytes.is_empty() { vec![8] } else { pair.bytes.clone() };
        let seconds = SECONDS / sizes.len() as f64;
        let lead = self.dev.rank() == 0;
        let progress = if lead { Progress::bar(SECONDS) } else { Progress::silent() };
        let mut variants: Vec<Variant> = [Variant::Serialized, Variant::Multiple { device: 0, threads: 1 }]
            .into_iter()
            .chain((0..self.shared.len()).map(|device| Variant::Multiple { device, threads: self.threads }))
            .collect();
        // With one thread on one engine the last variants are equal.
        variants.dedup();
        let mut rows = Vec::new();
        for bytes in sizes {
            progress.show(format!("rate {} in {} threads", crate::report::size(bytes), self.threads));
            let start = Instant::now();
            // The first run makes connections; its rate is discarded.
            for variant in &variants {
                self.one(*variant, bytes, 1)?;
            }
            let rate = self.one(Variant::Serialized, bytes, 100)?;
            let wanted = (PHASE * rate / self.window as f64).ceil().max(1.0) as u64;
            let wanted = pair.iters.map_or(wanted.min(MAX_WINDOWS), u64::from);
            let windows = self.agree(wanted)? as usize;
            let mut rates = vec![Vec::new(); variants.len()];
            loop {
                let round = rates[0].len();
                let more = match pair.rounds {
                    Some(n) => round < n as usize,
                    None => {
                        let spent = start.elapsed().as_secs_f64();
                        round < MAX_ROUNDS && (spent < seconds || round < MIN_ROUNDS)
                    }
                };
                if self.agree(u64::from(more))? == 0 {
                    break;
                }
                for i in 0..variants.len() {
                    let i = if round % 2 == 0 { i } else { variants.len() - 1 - i };
                    let rate = self.one(variants[i], bytes, windows)?;
                    rates[i].push(rate);
                }
            }
            progress.advance(seconds);
            if lead {
                rows.extend((0..variants.len()).map(|i| self.row(bytes, &variants, &rates, i)));
            }
        }
        for shared in std::mem::take(&mut self.shared) {
            shared.finalize()?;
        }
        Ok(rows)
    }

    /// Returns the result of variant `i`.
    fn row(&self, bytes: usize, variants: &[Variant], rates: &[Vec<f64>], i: usize) -> Row {
        // The median of each round's ratio.
        let to = |j: usize| {
            let ratios: Vec<f64> = rates[i].iter().zip(&rates[j]).map(|(a, b)| a / b).collect();
            rounded(median(&ratios))
        };
        let (level, threads, engines, floor) = match variants[i] {
            Variant::Serialized => ("Serialized", 1, 1, None),
            Variant::Multiple { device, threads: 1 } if i == 1 => {
                ("Multiple", 1, self.shared[device].engines(), Some((0, "one thread at level Serialized")))
            }
            Variant::Multiple { device, threads } => (
                "Multiple",
                threads,
                self.shared[device].engines(),
                Some((1, "one thread at level Multiple")),
            ),
        };
        Row {
            test: "rate".into(),
            netmod: self.dev.netmods().first().map(ToString::to_string),
            kind: Some(level.into()),
            bytes: Some(bytes),
            window: Some(self.window),
            threads: Some(threads),
            engines: Some(engines),
            value: rounded(median(&rates[i])),
            unit: "msg/s".into(),
            floor: floor.map(|(j, _)| rounded(median(&rates[j]))),
            floor_kind: floor.map(|(_, kind)| kind.into()),
            ratio: floor.map(|(j, _)| to(j)),
            ratio_to_serialized: floor.map(|_| to(0)),
            ranks: Some(PROCESSES),
            rounds: Some(rates[i].len()),
            best: Some(rounded(rates[i].iter().copied().fold(0.0, f64::max))),
            ..Row::default()
        }
    }
}

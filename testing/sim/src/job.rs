//! A simulated job: makes the ranks, and runs processes and network in a random order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ch3_shim::Config;
use ch3_shim::{Bootstrap, Builder, Device, VirtualClock};
use netmod_core::Time;
use netmod_tcp::link::LinkConfig;

use crate::bootstrap::{PmState, RankPm};
use crate::net::{Net, NetStats, Partition};
use crate::netmod::SimNetmod;
use crate::plan::{Fault, FaultKind, Plan};
use crate::program::{Program, Turn};
use crate::trace::Trace;
use crate::world::{World, Wrong, wrong};
use netmod_harness::Rng;
use netmod_harness::rng::mix;

/// Virtual time without any beginning or end of an operation after which a job is hung. Longer than
/// all timeouts of the device and the netmod together.
const PATIENCE: Duration = Duration::from_secs(300);
/// Maximum virtual time per step while a process has something to do.
const UNSERVED: Duration = Duration::from_millis(1);
/// Turns per rank without any beginning or end of an operation after which a job is in a livelock.
const LIVELOCK: u64 = 200_000;

/// Results of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Number of processes.
    pub ranks: u32,
    /// Kind of faults.
    pub fault_kind: FaultKind,
    /// Turns of processes and of the network.
    pub steps: u64,
    /// Messages received.
    pub messages: u64,
    /// Requests that failed because of a peer.
    pub failures: u64,
    /// Virtual time in nanoseconds until the last process has ended.
    pub virtual_ns: u64,
    /// Statistics of the network.
    pub net: NetStats,
    /// Maximum number of values that one rank asked the process manager for.
    pub fetched_high: u64,
}

/// A job that violates an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The violation, and the state of the processes.
    pub what: String,
    /// The last events, if requested.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

impl std::error::Error for Failed {}

/// A job in progress.
#[derive(Debug)]
pub(crate) struct Job {
    seed: u64,
    rng: Rng,
    net: Arc<Mutex<Net>>,
    pm: Arc<Mutex<PmState>>,
    clock: VirtualClock,
    world: World,
    programs: Vec<Program>,
    unfinished: usize,
    steps: u64,
    next_fault: usize,
    /// The world's last change of activity, with its time and step.
    last: (u64, Time, u64),
    /// The time at which the last process has ended.
    ended: Time,
}

impl Job {
    /// Makes all ranks of a plan's job.
    pub(crate) fn new(seed: u64, plan: Plan, trace: usize) -> Result<Job, Wrong> {
        let mut rng = Rng::new(mix(seed));
        let clock = VirtualClock::new();
        let n = plan.ranks;
        let net = Net::new(n, plan.profile.clone(), rng.fork(), clock.clone(), Trace::new(trace));
        let net = Arc::new(Mutex::new(net));
        let pm = Arc::new(Mutex::new(PmState::new(n, Arc::clone(&net))));
        let mut job = Job {
            seed,
            rng,
            net,
            pm,
            clock,
            programs: Vec::with_capacity(n as usize),
            unfinished: n as usize,
            world: World::new(plan),
            steps: 0,
            next_fault: 0,
            last: (0, Time::ZERO, 0),
            ended: Time::ZERO,
        };
        for rank in 0..n {
            let dev = job.device(rank)?;
            let rng = job.rng.fork();
            job.programs.push(Program::new(rank, dev, job.world.plan.comms, rng)?);
        }
        job.net().wake_all();
        Ok(job)
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pm(&self) -> MutexGuard<'_, PmState> {
        self.pm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn device(&self, rank: u32) -> Result<Device, Wrong> {
        let mut cfg = Config::default();
        cfg.netmods.clear();
        cfg.eager_max = self.world.plan.eager_max;
        // A rank may be late because the network is slow, or because it waits for a lost one until
        // all give up. A rank that never comes is found as a hang.
        cfg.close_timeout = PATIENCE * 10;
        let rank_pm: Box<dyn Bootstrap> = Box::new(RankPm { rank, pm: Arc::clone(&self.pm) });
        let builder = Builder::new(cfg, rank_pm).clock(self.clock.clone());
        let netmod = SimNetmod::new(Arc::clone(&self.net), builder.name(), LinkConfig::default());
        Ok(builder.netmod(Box::new(netmod)).build()?)
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<Report, Failed> {
        match self.go() {
            Ok(()) => Ok(self.report()),
            Err(Wrong(what)) => Err(self.failed(what)),
        }
    }

    fn failed(&self, what: String) -> Failed {
        let mut what =
            format!("{what}\nmood {:?}, {:?}", self.world.plan.fault_kind, self.world.plan.profile);
        for p in self.programs.iter().filter(|p| !p.is_done()).take(8) {
            what += &format!("\n  {}", p.describe(&self.world));
        }
        let net = self.net();
        what += &net.describe();
        Failed { seed: self.seed, what, trace: net.trace.lines().map(str::to_owned).collect() }
    }

    fn report(&self) -> Report {
        let net = self.net();
        Report {
            seed: self.seed,
            ranks: self.world.plan.ranks,
            fault_kind: self.world.plan.fault_kind,
            steps: self.steps,
            messages: self.world.received,
            failures: self.world.failures,
            virtual_ns: self.ended.0,
            net: net.stats,
            fetched_high: self.pm().fetched.iter().copied().max().unwrap_or(0),
        }
    }

    fn go(&mut self) -> Result<(), Wrong> {
        while self.unfinished > 0 {
            self.steps += 1;
            self.faults();
            let (ready, next) = {
                let net = self.net();
                (net.has_ready(), net.next_at())
            };
            // A process that has something to do gets its turn soon.
            let within = |time: Duration| next.is_some_and(|at| at.since(self.clock.now()) <= time);
            if within(UNSERVED) && self.rng.one_in(2) || !ready && within(self.pause()) {
                self.net().step();
            } else if ready {
                self.turn()?;
            } else {
                self.idle()?;
            }
            self.watch()?;
        }
        self.ended = self.clock.now();
        // Data in transit is discarded; then nothing may be left.
        while self.net().step() {}
        let left = self.net().connections();
        if left > 0 {
            return wrong(format!("{left} connections are left when all processes have ended"));
        }
        self.world.check()
    }

    /// Runs a turn of a random process that has something to do.
    fn turn(&mut self) -> Result<(), Wrong> {
        let Some(rank) = self.net().take_ready() else { return Ok(()) };
        let plan = &self.world.plan;
        let put_off = plan.laziness > 0 && self.rng.one_in(plan.laziness)
            || plan.slow == Some(rank) && !self.rng.one_in(10);
        if put_off {
            let longest = self.rng.pick(&[100, 10_000, 1_000_000]);
            let at = self.clock.now() + Duration::from_nanos(self.rng.below(longest));
            self.net().wake_at(rank, at);
            return Ok(());
        }
        let program = &mut self.programs[rank as usize];
        if program.is_done() {
            return Ok(());
        }
        let before = self.world.activity;
        let turn = program.turn(&mut self.world)?;
        let now = self.clock.now();
        self.net
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .trace
            .note(now, || format!("rank {rank}: {turn:?}"));
        if program.is_done() {
            self.unfinished -= 1;
        } else if turn == Turn::Busy {
            self.net().wake(rank);
        }
        if self.world.activity != before && self.world.plan.ranks <= 16 {
            // A rank's knowledge shared through the world may let any other rank continue.
            self.net().wake_all();
        }
        Ok(())
    }

    /// Handles a state in which no process has work and nothing comes soon: advances the time, or
    /// makes ranks give up.
    fn idle(&mut self) -> Result<(), Wrong> {
        let idle = self.clock.now().since(self.last.1);
        if idle >= PATIENCE {
            if !self.world.plan.fault_kind.is_lossy() || self.world.giving_up {
                return wrong("the job hangs: nothing is to come, and these ranks wait");
            }
            self.world.giving_up = true;
            self.world.activity += 1;
        }
        let pause = self.pause();
        let mut net = self.net();
        net.pass(pause);
        net.wake_all();
        Ok(())
    }

    /// Returns the time after which processes that wait look again, as each does in a wait: longer
    /// and longer, as nothing begins or ends.
    fn pause(&self) -> Duration {
        let idle = self.clock.now().since(self.last.1);
        (idle / 2).clamp(Duration::from_millis(1), Duration::from_secs(20))
    }

    /// Detects a livelock.
    fn watch(&mut self) -> Result<(), Wrong> {
        let now = self.clock.now();
        if self.world.activity != self.last.0 {
            self.last = (self.world.activity, now, self.steps);
            return Ok(());
        }
        if self.steps - self.last.2 > LIVELOCK * u64::from(self.world.plan.ranks)
            || now.since(self.last.1) > PATIENCE * 4
        {
            return wrong("the job is in a livelock: nothing has begun or ended for a long time");
        }
        Ok(())
    }

    /// Applies the due faults.
    fn faults(&mut self) {
        while let Some((_, fault)) =
            self.world.plan.faults.get(self.next_fault).filter(|(at, _)| *at <= self.steps).cloned()
        {
            self.next_fault += 1;
            let now = self.clock.now();
            self.net().trace.note(now, || format!("fault: {fault:?}"));
            match fault {
                Fault::Cut => {
                    if let Some((a, b)) = { self.net().sever_any() } {
                        self.world.cut(a, b);
                    }
                }
                Fault::Crash(rank) => self.crash(rank),
                Fault::Partition { side, lasts } => {
                    let until = lasts.map_or(Time::NEVER, |ns| now + Duration::from_nanos(ns));
                    self.net().partitions.push(Partition { from: now, until, side: side.clone() });
                    if lasts.is_none() {
                        self.net().split(&side);
                        self.cut_all(&side);
                    }
                }
            }
        }
    }

    fn cut_all(&mut self, side: &[bool]) {
        for a in 0..side.len() {
            for b in a + 1..side.len() {
                if side[a] != side[b] {
                    self.world.cut(a as u32, b as u32);
                }
            }
        }
    }

    fn crash(&mut self, rank: u32) {
        if self.programs[rank as usize].is_done() {
            return;
        }
        self.world.crashed[rank as usize] = true;
        self.world.activity += 1;
        self.programs[rank as usize].crash();
        self.unfinished -= 1;
        self.pm().fail(rank);
    }
}

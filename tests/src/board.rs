//! An in-memory job: the process manager of ranks that are threads of one process, and their
//! watchdog.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{Bootstrap, BootstrapError, Device};

use crate::factory::NetmodFactory;

/// Time after which a job counts as hung.
pub const JOB_LIMIT: Duration = Duration::from_secs(120);
/// Time that the others may go on after a rank has panicked.
const AFTER_PANIC: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    /// Put since the last barrier: visible after the next.
    fresh: HashMap<String, Vec<u8>>,
    /// Barriers that each rank has entered.
    entered: Vec<u64>,
    /// Barriers that have ended.
    ended: u64,
    /// Ranks that left without finalizing.
    died: Vec<u32>,
    finalized: Vec<bool>,
    aborted: Option<String>,
    /// Present activity of each rank, in its own words.
    doing: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    size: u32,
    job: String,
    state: Mutex<State>,
    /// One end of a pair for each rank; a byte in it wakes the rank.
    wake: Vec<UnixStream>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        for mut w in &self.wake {
            // A full pipe wakes just as well; a rank that is gone needs no waking.
            let _ = w.write(&[1]);
        }
    }
}

/// The job. Make one, then take the place of each rank once.
#[derive(Debug)]
pub struct Board {
    shared: Arc<Shared>,
    places: Vec<Option<UnixStream>>,
}

impl Board {
    /// A job of `size` ranks, with a name that no other job of this process has.
    ///
    /// # Panics
    /// If the system has no descriptors left.
    pub fn new(size: u32) -> Board {
        static JOBS: AtomicU64 = AtomicU64::new(0);
        let job = format!("board-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
        let mut wake = Vec::new();
        let mut places = Vec::new();
        for _ in 0..size {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets for the board");
            for s in [&ours, &theirs] {
                s.set_nonblocking(true).expect("a non-blocking socket");
            }
            wake.push(ours);
            places.push(Some(theirs));
        }
        let n = size as usize;
        let state = State {
            entered: vec![0; n],
            finalized: vec![false; n],
            doing: vec![String::new(); n],
            ..State::default()
        };
        Board { shared: Arc::new(Shared { size, job, state: Mutex::new(state), wake }), places }
    }

    /// The place of a rank.
    ///
    /// # Panics
    /// If there is no such rank, or its place is taken.
    pub fn place(&mut self, rank: u32) -> Place {
        let wake = self.places[rank as usize].take().expect("each place is taken once");
        Place { rank, shared: Arc::clone(&self.shared), wake, refuses: None }
    }

    /// The place of a rank that is refused what it looks up: it waits for the reason, and fails
    /// with it.
    ///
    /// # Panics
    /// As [`Board::place`].
    pub fn place_that_fails(&mut self, rank: u32, why: Receiver<String>) -> Place {
        let mut place = self.place(rank);
        place.refuses = Some(why);
        place
    }

    /// Returns each rank's last words to [`doing`].
    pub fn describe(&self) -> String {
        let state = self.shared.lock();
        let line = |(r, d): (usize, &String)| {
            let d = if d.is_empty() { "(nothing said)" } else { d };
            format!("\n  rank {r}: {d}, {} barriers entered", state.entered[r])
        };
        state.doing.iter().enumerate().map(line).collect()
    }
}

/// One rank's part of a board.
#[derive(Debug)]
pub struct Place {
    rank: u32,
    shared: Arc<Shared>,
    wake: UnixStream,
    /// The reason why no value can be looked up.
    refuses: Option<Receiver<String>>,
}

impl Bootstrap for Place {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.size
    }

    fn job_id(&self) -> String {
        self.shared.job.clone()
    }

    fn local_size(&self) -> u32 {
        self.shared.size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.shared.lock().fresh.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        match &self.refuses {
            None => Ok(self.shared.lock().values.get(key).cloned()),
            Some(why) => Err(BootstrapError::Refused(why.recv().unwrap_or_else(|e| e.to_string()))),
        }
    }

    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        let mut state = self.shared.lock();
        state.entered[self.rank as usize] += 1;
        let all = state.entered.iter().copied().min().unwrap_or(0);
        if all > state.ended {
            state.ended = all;
            let fresh = std::mem::take(&mut state.fresh);
            state.values.extend(fresh);
            drop(state);
            self.shared.wake_all();
        }
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        let mut sink = [0; 64];
        match self.wake.read(&mut sink) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
        let state = self.shared.lock();
        if state.ended >= state.entered[self.rank as usize] {
            return Ok(true);
        }
        if let Some(why) = &state.aborted {
            return Err(BootstrapError::Refused(format!("the job was aborted: {why}")));
        }
        if !state.died.is_empty() {
            let text = format!("ranks {:?} have ended without finalizing", state.died);
            return Err(BootstrapError::Refused(text));
        }
        Ok(false)
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.wake.as_raw_fd())
    }

    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        self.shared.lock().finalized[self.rank as usize] = true;
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        self.shared.lock().aborted.get_or_insert(format!("code {code}: {message}"));
        self.shared.wake_all();
        // The process is not this job's alone; the thread is the rank.
        panic!("rank {} aborted the job with code {code}: {message}", self.rank);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !state.finalized[self.rank as usize] {
            state.died.push(self.rank);
            drop(state);
            self.shared.wake_all();
        }
    }
}

thread_local! {
    static HERE: RefCell<Option<(Arc<Shared>, u32)>> = const { RefCell::new(None) };
}

/// Notes what the calling rank is about to do, for the message of a watchdog that bites.
pub fn doing(what: impl Into<String>) {
    HERE.with_borrow(|here| {
        if let Some((shared, rank)) = here {
            shared.lock().doing[*rank as usize] = what.into();
        }
    });
}

/// Runs a job of `ranks` threads, each with a device of its own that `body` uses and that is
/// finalized afterwards; results in the order of ranks.
///
/// # Panics
/// With a rank's panic; if a rank cannot finalize, or has requests left then; if the job takes
/// longer than [`JOB_LIMIT`].
pub fn run_job<R: Send + 'static>(
    factory: &dyn NetmodFactory,
    ranks: u32,
    body: impl Fn(&mut Device) -> R + Send + Sync + 'static,
) -> Vec<R> {
    run_job_with(factory, ranks, |_| {}, body)
}

/// Runs a job like [`run_job`], with a configuration that `tune` has changed.
///
/// # Panics
/// As [`run_job`].
pub fn run_job_with<R: Send + 'static>(
    factory: &dyn NetmodFactory,
    ranks: u32,
    tune: impl Fn(&mut Config),
    body: impl Fn(&mut Device) -> R + Send + Sync + 'static,
) -> Vec<R> {
    run_devices(factory, ranks, tune, move |mut dev| {
        let result = body(&mut dev);
        finish(dev);
        result
    })
}

/// Finalizes a rank when its last requests are over.
fn finish(mut dev: Device) {
    let rank = dev.rank();
    doing("waiting for requests that are left");
    settle(&mut dev);
    doing("finalize");
    dev.finalize().unwrap_or_else(|e| panic!("rank {rank}: finalize: {e}"));
}

/// Runs a job of `ranks` threads, each of which is given a device and does with it what it likes.
///
/// # Panics
/// With a rank's panic; if the job takes longer than [`JOB_LIMIT`].
pub fn run_devices<R: Send + 'static>(
    factory: &dyn NetmodFactory,
    ranks: u32,
    tune: impl Fn(&mut Config),
    body: impl Fn(Device) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let mut cfg = factory.config();
    tune(&mut cfg);
    let results = run_bodies(factory, ranks, &cfg, Arc::new(move |dev| Box::new(body(dev))));
    results.into_iter().map(|r| *r.downcast().expect("what the body returned")).collect()
}

/// A result of a rank, of the body's type.
type Returned = Box<dyn Any + Send>;
/// The body of each rank, behind a virtual call: the rest of a job is compiled only once.
type Body = Arc<dyn Fn(Device) -> Returned + Send + Sync>;

/// Runs a job like [`run_devices`].
fn run_bodies(factory: &dyn NetmodFactory, ranks: u32, cfg: &Config, body: Body) -> Vec<Returned> {
    let mut board = Board::new(ranks);
    let job = factory.job(ranks);
    let (tx, rx) = channel::<(u32, Result<Returned, Box<dyn Any + Send>>)>();
    for rank in 0..ranks {
        let place = board.place(rank);
        let (job, cfg, body, tx) = (Arc::clone(&job), cfg.clone(), Arc::clone(&body), tx.clone());
        let shared = Arc::clone(&board.shared);
        let run = move || {
            HERE.set(Some((shared, rank)));
            let result = catch_unwind(AssertUnwindSafe(|| {
                let dev = job.device(Box::new(place), cfg).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
                body(dev)
            }));
            // The job ends in the caller, so that what it checks then is heard of.
            drop((job, body));
            // The watchdog may have given up.
            let _ = tx.send((rank, result));
        };
        std::thread::Builder::new().name(format!("rank {rank}")).spawn(run).expect("a thread for each rank");
    }
    drop(tx);
    let mut results: Vec<Option<Returned>> = (0..ranks).map(|_| None).collect();
    let mut panicked = None;
    let mut end = Instant::now() + JOB_LIMIT;
    let mut left: Vec<u32> = (0..ranks).collect();
    while !left.is_empty() {
        match rx.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((rank, result)) => {
                left.retain(|r| *r != rank);
                match result {
                    Ok(r) => results[rank as usize] = Some(r),
                    Err(payload) => {
                        if panicked.is_none() {
                            panicked = Some((rank, payload));
                            end = end.min(Instant::now() + AFTER_PANIC);
                        }
                    }
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Some((rank, payload)) = panicked {
        eprintln!("{}: rank {rank} panicked; still running: {left:?}{}", factory.name(), board.describe());
        resume_unwind(payload);
    }
    assert!(
        left.is_empty(),
        "{}: ranks {left:?} hang after {JOB_LIMIT:?}:{}\n{}",
        factory.name(),
        board.describe(),
        job.describe()
    );
    results.into_iter().flatten().collect()
}

/// Makes progress until no request is left. A packet of the device's own may still wait for room in
/// the network when all messages of a case have been received.
///
/// # Panics
/// If some are left after a long time.
pub fn settle(dev: &mut Device) {
    let end = Instant::now() + Duration::from_secs(20);
    while dev.live_requests() > 0 {
        assert!(Instant::now() < end, "rank {} has {} requests left", dev.rank(), dev.live_requests());
        dev.progress().expect("progress");
    }
}

//! The level at which all threads use the device at once: its engines, and which of them a call
//! uses.
//!
//! One file a concern: `progress_lock` who makes progress, `engine` one engine of the device,
//! `calls` and `blocking` the operations, `pushes` the helper that sends what
//! they leave staged and `alarm` when it does, `leave` the end.

mod alarm;
#[cfg(test)]
mod alarm_model;
mod blocking;
mod calls;
mod engine;
mod leave;
mod progress_lock;
#[cfg(test)]
mod progress_lock_model;
mod pushes;
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Config;
use forks::Local;
use netmod_core::Time;

use super::levels::sealed::Sealed;
use super::{Builder, Comm, Device, Level, Message, Request, VcReport, Vci};
use crate::ch3::{DeviceStats, INTERNAL, WORLD};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::progress::HelperStats;
use crate::status::Status;

use engine::Engine;
type Pusher = pushes::Pusher<Engine>;

/// The time for which a thread may block.
#[derive(Clone, Debug)]
struct Nap {
    /// On the device's clock.
    until: Time,
    length: Duration,
}

/// A send or receive of a [`Multiple`] device under way, whose buffer the device keeps.
///
/// Any thread may wait for it. A dropped one finishes by itself: what it holds is freed then.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct SharedRequest {
    req: Request,
    engine: u8,
}

/// A message that was matched by [`Device::improbe`] of a [`Multiple`] device.
#[derive(Debug)]
#[must_use = "a matched message is lost to every other receive"]
pub struct SharedMessage {
    message: Message,
    engine: u8,
}

impl SharedMessage {
    /// Its envelope and length.
    pub fn status(&self) -> Status {
        self.message.status()
    }
}

impl SharedRequest {
    /// Takes the request out, and leaves one of nothing.
    fn take(&mut self) -> SharedRequest {
        SharedRequest { req: self.req.take(), engine: self.engine }
    }
}

/// Any number of threads use the device at once, through `&self` (`MPI_THREAD_MULTIPLE`).
///
/// A clone of the device is another handle of it.
///
/// ```
/// use ch3_shim::{ANY_TAG, Device, Multiple};
///
/// let dev = Device::init_thread::<Multiple>()?;
/// let (me, world) = (dev.rank() as i32, dev.world());
/// std::thread::scope(|s| {
///     for tag in 0..4 {
///         let dev = &dev;
///         s.spawn(move || -> ch3_shim::Result<()> {
///             let receive = dev.irecv(vec![0; 8], me, tag, world)?;
///             dev.send(&[tag as u8; 8], me, tag, world)?;
///             assert_eq!(dev.wait(receive)?.buffer, [tag as u8; 8]);
///             Ok(())
///         });
///     }
/// });
/// let other = dev.clone();
/// std::thread::spawn(move || other.progress()).join().expect("a thread that does not panic")?;
/// dev.finalize()?;
/// # Ok::<(), ch3_shim::Error>(())
/// ```
///
/// The methods of one thread's device, which trust that nobody else is there, it has not got:
///
/// ```compile_fail,E0599
/// use ch3_shim::{Device, Multiple};
/// # fn f(dev: &mut Device<Multiple>) {
/// dev.arm();
/// # }
/// ```
///
/// # Engines
/// A device has one engine, or `NETMOD_ENGINES` ([`Builder::engines`]). Each is a whole device
/// core, with netmods, connections and queues of its own, behind one lock. A communicator belongs
/// to one engine, by its context id: so matching, also with wildcards, stays within one engine, and
/// all processes agree on it. Threads that use communicators of different engines ([`Device::dup`])
/// do not meet.
///
/// A thread that is about to block makes progress on the other engines too, and wakes for them.
/// Dynamic processes are met, and event loops joined, at the other levels.
#[derive(Clone, Copy, Debug)]
pub enum Multiple {}

/// The state that the threads share.
pub struct Shared {
    engines: Local<Arc<[Engine]>>,
    pusher: Local<Arc<Pusher>>,
    cfg: Config,
    rank: u32,
    size: u32,
    /// True if the job has been left.
    left: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("rank", &self.rank)
            .field("engines", &self.engines.len())
            .finish_non_exhaustive()
    }
}

impl Sealed for Multiple {
    type Store = Arc<Shared>;

    fn build(builder: Builder) -> Result<Arc<Shared>> {
        let pusher = Arc::new(Pusher::new(builder.is_without_helper()));
        let mut cfg = None;
        let mut opened = Vec::new();
        for b in builder.split()? {
            opened.push(b.open()?);
        }
        for o in &mut opened {
            o.boot().barrier_begin()?;
        }
        let mut engines = Vec::new();
        let (mut rank, mut size) = (0, 0);
        for o in opened {
            let vci = o.join()?;
            (rank, size) = (vci.rank(), vci.size());
            cfg.get_or_insert_with(|| vci.config().clone());
            engines.push(Engine::new(vci, &pusher));
        }
        let Some(cfg) = cfg else { return Err(Error::Config("a device has at least one engine".into())) };
        let engines: Arc<[Engine]> = engines.into();
        pusher.serve(&engines);
        let shared = Shared {
            engines: Local::new(engines),
            pusher: Local::new(pusher),
            cfg,
            rank,
            size,
            left: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        if shared.engines.len() > 1 {
            shared.engines.iter().enumerate().for_each(|(i, e)| e.meet(&shared, i));
        }
        Ok(shared)
    }
}

/// The helper ends before the engines do.
impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child there is no helper, and its locks may be held for ever.
        if self.check_origin().is_ok() {
            self.pusher.stop();
        }
    }
}

impl Level for Multiple {
    const NAME: &'static str = "MPI_THREAD_MULTIPLE";
}

impl Clone for Device<Multiple> {
    fn clone(&self) -> Self {
        Device { store: Arc::clone(&self.store) }
    }
}

impl Shared {
    /// Returns an error in a forked child, in which nobody will ever give back the locks that other
    /// threads had.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    fn check_origin(&self) -> Result<()> {
        if self.engines.origin().is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// The engine of a number that a request has.
    fn engine(&self, number: u8) -> &Engine {
        &self.engines[usize::from(number)]
    }

    /// The number of the engine of a communicator.
    #[inline]
    fn number(&self, comm: Comm) -> Result<u8> {
        self.check_origin()?;
        if self.left.load(Ordering::Relaxed) {
            return Err(Error::Usage("the device was finalized; no thread may use it any more".into()));
        }
        if self.engines.len() == 1 || comm.group != WORLD {
            return Ok(0);
        }
        Ok(((comm.context & !INTERNAL) as usize % self.engines.len()) as u8)
    }

    /// Adds up a figure of all engines.
    fn sum<T: std::iter::Sum>(&self, of: impl Fn(&mut Vci) -> T) -> T {
        self.engines.iter().map(|e| e.lock.with(&of)).sum()
    }
}

/// Exits when the netmods of these engines have ended. No other thread gets the engines back.
fn exit_from(engines: &[Engine], exit: Exit) -> ! {
    match engines.split_first() {
        None => exit.now(),
        Some((engine, others)) => engine.lock.with(|v| {
            v.take_back();
            exit_from(others, exit)
        }),
    }
}

impl Device<Multiple> {
    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.store.rank
    }

    /// Number of processes of the job.
    pub fn size(&self) -> u32 {
        self.store.size
    }

    /// Number of engines.
    pub fn engines(&self) -> usize {
        self.store.engines.len()
    }

    /// The number of the engine that carries a communicator's messages.
    ///
    /// # Errors
    /// If the device was finalized.
    pub fn engine_of(&self, comm: Comm) -> Result<usize> {
        self.store.number(comm).map(usize::from)
    }

    /// The communicator of all processes.
    pub fn world(&self) -> Comm {
        Comm { context: 0, group: WORLD }
    }

    /// See [`Vci::dup`]. The next communicator belongs to the next engine.
    ///
    /// # Errors
    /// As it says.
    pub fn dup(&self, comm: Comm) -> Result<Comm> {
        self.store.number(comm)?;
        // One engine gives out the numbers of all.
        self.store.engine(0).lock.with(|v| v.dup(comm))
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.store.cfg
    }

    /// Counts of the engines, one after another.
    pub fn stats(&self) -> Vec<DeviceStats> {
        self.store.engines.iter().map(|e| e.lock.with(|v| v.stats())).collect()
    }

    /// Counts of the engines' helper thread, see [`Vci::helper_stats`].
    pub fn helper_stats(&self) -> HelperStats {
        self.store.pusher.stats()
    }

    /// Requests that are not used up, see [`Vci::live_requests`].
    pub fn live_requests(&self) -> usize {
        self.store.sum(|v| v.live_requests())
    }

    /// Messages that wait for a receive.
    pub fn unexpected_len(&self) -> usize {
        self.store.sum(|v| v.unexpected_len())
    }

    /// Receives that wait for a message.
    pub fn posted_len(&self) -> usize {
        self.store.sum(|v| v.posted_len())
    }

    /// Reports on the VCs with the peers, engine by engine.
    pub fn report(&self) -> Vec<VcReport> {
        self.store.engines.iter().flat_map(|e| e.lock.with(|v| v.report())).collect()
    }

    /// Makes progress once on each engine that no other thread is using. Whether anything happened.
    ///
    /// # Errors
    /// If a netmod fails as a whole.
    pub fn progress(&self) -> Result<bool> {
        let mut any = false;
        self.store.check_origin()?;
        for e in self.store.engines.iter() {
            any |= e.lock.try_with(Vci::progress).unwrap_or(Ok(false))?;
        }
        Ok(any)
    }

    /// Ends the whole job with an exit code; under a launcher that kills every process.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        if self.store.check_origin().is_err() {
            super::abort_child(code, message);
        }
        let code = self.store.engine(0).lock.with(|v| v.ch3.boot.abort(code, message));
        exit_from(&self.store.engines, Exit::with(code))
    }
}

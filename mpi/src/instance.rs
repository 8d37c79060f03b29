//! One MPI process: its device, its objects, and the lock around both.

use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use ch3_shim::{Builder, Device, OwnThread, Waker};
use netmod_core::tell::on_stderr;
use parking_lot::{Mutex, MutexGuard};

use crate::anytime::Anytime;
use crate::background::Background;
use crate::consts::{THREAD_MULTIPLE, THREAD_SINGLE};
use crate::errh::Handler;
use crate::error::{Class, Codes, MpiError, Result};
use crate::handle::Comm;
use crate::lock::{Guard, Lock};
use crate::log;
use crate::objects::Objects;
use crate::request::Requests;
use crate::streams::Streams;
use crate::threads::Regions;
use crate::tool::Running;
use crate::tool::controls::apply;
use crate::turns::Turns;

/// Longest wait of an abort for a thread that is inside a call.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// One MPI process.
///
/// All threads share it. Functions of the program (operations, attribute functions, error handlers)
/// are called while it is not locked, so they may call MPI.
#[derive(Debug)]
pub struct Mpi {
    state: Lock<Option<State>>,
    /// Tells a thread that waits with the lock that another wants it. `None` if there is no other:
    /// below the level MULTIPLE and without a thread for progress.
    waker: Option<Waker>,
    turns: Turns,
    progress: Background,
    anytime: Arc<Anytime>,
    streams: Streams,
    regions: Mutex<Regions>,
    level: i32,
    main: ThreadId,
    appnum: Option<i32>,
    universe: Option<u32>,
    last_handler: OnceLock<Handler>,
}

/// The device, the objects and the requests, which the lock protects.
#[derive(Debug)]
pub(crate) struct State {
    pub dev: Device,
    pub objects: Objects,
    pub requests: Requests,
}

#[cold]
pub(crate) fn finalized() -> Box<MpiError> {
    MpiError::new(Class::OTHER, "MPI was finalized: only functions that ask for its state may be called")
}

impl Mpi {
    /// Joins the job at a thread level (`MPI_Init_thread`), with the objects that may be there
    /// already.
    ///
    /// # Errors
    /// As [`Builder::build`] and [`Mpi::on`].
    pub fn init(builder: Builder, required: i32, anytime: Arc<Anytime>) -> Result<Mpi> {
        Mpi::on(builder.build()?, required, anytime)
    }

    /// Works like [`Mpi::init`] on a device that has joined its job and was not used yet.
    ///
    /// # Errors
    /// A level that MPI does not have; a device that has duplicated communicators.
    pub fn on(mut dev: Device, required: i32, anytime: Arc<Anytime>) -> Result<Mpi> {
        if !(THREAD_SINGLE..=THREAD_MULTIPLE).contains(&required) {
            let text = format!(
                "required thread level is {required}; levels are {THREAD_SINGLE} to {THREAD_MULTIPLE}"
            );
            return Err(MpiError::new(Class::ARG, text));
        }
        let progress = Background::new(dev.config());
        let has_threads = required == THREAD_MULTIPLE || progress.is_wanted();
        let waker = if has_threads { Some(dev.waker()?) } else { None };
        let size = dev.size();
        let objects = Objects::new(&mut dev, Arc::clone(&anytime))?;
        Ok(Mpi {
            state: Lock::new(Some(State { dev, objects, requests: Requests::default() })),
            waker,
            turns: Turns::default(),
            progress,
            anytime,
            streams: Streams::default(),
            regions: Mutex::default(),
            level: required,
            main: std::thread::current().id(),
            appnum: None,
            universe: Some(size),
            last_handler: OnceLock::new(),
        })
    }

    /// Works like [`Mpi::init`] in the job that the environment describes.
    ///
    /// # Errors
    /// As [`Mpi::init`].
    pub fn init_from_env(required: i32, anytime: Arc<Anytime>) -> Result<Mpi> {
        let mut builder = Builder::from_env()?;
        apply(anytime.tool(), builder.config())?;
        log::begin(&mut builder)?;
        let (launcher, appnum) = (builder.launcher(), builder.appnum());
        let universe = builder.universe_size()?;
        let spawned = builder.is_spawned();
        let parent_port = if spawned && builder.name().rank == 0 { builder.parent_port()? } else { None };
        let mut mpi = Mpi::init(builder, required, anytime)?;
        mpi.appnum = appnum;
        // A launcher may count processors, of which there may be fewer than processes.
        mpi.universe = universe.max(mpi.universe).filter(|_| universe.is_some());
        mpi.with(|s| {
            log::tell_start(&s.dev, launcher);
            Ok(())
        })?;
        if spawned {
            mpi.connect_to_parent(parent_port.as_deref())?;
        }
        if mpi.anytime.tool().watches() {
            mpi.watch_incidents()?;
        }
        Ok(mpi)
    }

    /// The number of this process's program in its job, if the process manager counts programs.
    pub(crate) fn appnum(&self) -> Option<i32> {
        self.appnum
    }

    /// The most processes that the launcher expects, if it tells and limits them.
    pub(crate) fn universe_size(&self) -> Option<u32> {
        self.universe
    }

    /// The handler of errors of [`Mpi::finalize`] itself, for which the objects are gone.
    pub(crate) fn last_handler(&self) -> Option<&Handler> {
        self.last_handler.get()
    }

    /// The error codes of this process.
    pub fn codes(&self) -> &Codes {
        self.anytime.codes()
    }

    /// The objects that may be used at any time.
    pub fn anytime(&self) -> &Anytime {
        &self.anytime
    }

    /// The streams of the program.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The communicators of threads. Who has them and the state has locked the state first.
    pub(crate) fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock()
    }

    /// The thread level.
    pub fn thread_level(&self) -> i32 {
        self.level
    }

    /// Lets the thread that calls first take the lock as others do. It is outside.
    pub(crate) fn end_bias(&self) {
        self.state.end_bias();
    }

    /// Returns the state if no call is inside, for the thread that makes progress meanwhile.
    pub(crate) fn try_state(&self) -> Option<Guard<'_, Option<State>>> {
        self.state.try_lock()
    }

    /// The thread that makes progress while the program computes.
    pub(crate) fn background(&self) -> &Background {
        &self.progress
    }

    /// Ends the thread that makes progress while the program computes, if there is one.
    fn end_progress(&self) {
        let thread = self.progress.runner().lock().thread.take();
        self.end_thread(thread);
    }

    /// Ends a thread that makes progress, which leaves the lock for that.
    pub(crate) fn end_thread(&self, thread: Option<OwnThread>) {
        if let Some(waker) = &self.waker {
            waker.want();
            drop(thread);
            waker.got();
        }
    }

    /// Returns true if a thread can make progress beside those of the program.
    pub(crate) fn has_waker(&self) -> bool {
        self.waker.is_some()
    }

    /// Returns true if several threads may call at once.
    #[inline]
    pub(crate) fn is_multiple(&self) -> bool {
        self.level == THREAD_MULTIPLE
    }

    /// Returns true if the calling thread is the one that called init (`MPI_Is_thread_main`).
    ///
    /// # Errors
    /// None; the signature is that of all functions.
    pub fn is_thread_main(&self) -> Result<bool> {
        Ok(std::thread::current().id() == self.main)
    }

    /// Returns the thread level (`MPI_Query_thread`).
    ///
    /// # Errors
    /// None; the signature is that of all functions.
    pub fn query_thread(&self) -> Result<i32> {
        Ok(self.level)
    }

    #[inline(always)]
    fn lock(&self) -> Guard<'_, Option<State>> {
        match self.state.try_lock() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    #[cold]
    fn lock_contended(&self) -> Guard<'_, Option<State>> {
        let Some(waker) = &self.waker else { return self.state.lock() };
        waker.want();
        let guard = self.state.lock();
        waker.got();
        guard
    }

    /// Returns true if one thread alone has called so far. It need not tell others of what it finds
    /// while it waits, until one wants the lock.
    #[inline]
    pub(crate) fn has_one_caller(&self) -> bool {
        !self.is_multiple() || self.state.is_biased()
    }

    /// Returns true if another thread waits for the lock.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.waker.as_ref().is_some_and(Waker::is_wanted)
    }

    /// The threads that wait.
    #[inline]
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Runs `f` on the locked state. No function of the program may be called in it.
    ///
    /// # Errors
    /// Those of `f`; after finalize.
    #[inline]
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut guard = self.lock();
        let Some(state) = guard.as_mut() else { return Err(finalized()) };
        self.progress.note_call();
        let result = f(state);
        state.dev.end_call();
        result
    }

    /// Works like [`Mpi::with`], and lets the thread that has waited longest go on afterwards.
    ///
    /// # Errors
    /// As [`Mpi::with`].
    pub(crate) fn with_turn<T>(&self, f: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut guard = self.lock();
        let Some(state) = guard.as_mut() else { return Err(finalized()) };
        self.progress.note_call();
        let result = f(state);
        state.dev.end_call();
        guard.unlock_fair();
        result
    }

    /// Deletes the attributes of `MPI_COMM_SELF`, as `MPI_Finalize` does first. Their functions may
    /// still call everything.
    ///
    /// # Errors
    /// What the function that deletes an attribute returns; after finalize.
    pub fn begin_finalize(&self) -> Result<()> {
        self.delete_all_attrs(Comm::SELF)
    }

    /// Leaves the job (`MPI_Finalize`): deletes the attributes of `MPI_COMM_SELF`, waits for
    /// asynchronous functions and for the other processes, and closes all connections.
    ///
    /// # Errors
    /// As [`Device::finalize`]; what the function that deletes an attribute returns, which is told
    /// first although everything is released all the same. A second call. Of a program that goes on
    /// after failures (ULFM), no failure of a process is an error here.
    pub fn finalize(&self) -> Result<()> {
        let handler = self.comm_handler(Comm::NULL);
        let deleted = self.begin_finalize().and(self.end_polled());
        let sent = self.flush_all_buffers();
        self.end_progress();
        let Some(mut state) = self.lock().take() else { return Err(finalized()) };
        self.last_handler.get_or_init(|| handler);
        self.anytime.tool().keep_figures(|| state.dev.counters());
        if state.dev.config().mpi_leaks == "yes" {
            let rank = state.dev.rank();
            for line in state.unfreed(self.streams.live(), self.regions().live()) {
                on_stderr(&format_args!("rank {rank}: MPI_Finalize: {line}"));
            }
        }
        let State { dev, objects, requests } = state;
        let goes_on = objects.ft.is_used();
        let left = dev.finalize();
        drop((objects, requests));
        deleted.and(sent)?;
        match left {
            Err(ch3_shim::Error::ProcessesFailed(_)) if goes_on => Ok(()),
            left => Ok(left?),
        }
    }

    /// Returns true after [`Mpi::finalize`].
    pub fn is_finalized(&self) -> bool {
        self.lock().is_none()
    }

    /// Ends the whole job with an exit code (`MPI_Abort`); tells why.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        // A thread below the level MULTIPLE may be inside for ever.
        if let Some(waker) = &self.waker {
            waker.want();
        }
        let state = self.state.try_lock_for(ABORT_PATIENCE).and_then(|mut state| state.take());
        match state {
            Some(State { dev, objects, requests }) => {
                // Buffers of the program stay what they are while the process ends.
                std::mem::forget((objects, requests));
                dev.abort(code, message)
            }
            None => {
                on_stderr(&format_args!("abort: {message}"));
                std::process::exit(if code == 0 { 1 } else { code })
            }
        }
    }
}

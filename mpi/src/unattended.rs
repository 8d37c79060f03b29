//! A thread that makes progress while the program computes (`NETMOD_PROGRESS=thread`, or
//! `MPIX_Start_progress_thread`).
//!
//! It shares the lock with the program's threads, and gives way to them. While their calls follow
//! each other it only looks now and then whether one has come since. When none has, it takes the
//! lock and waits in the device for whatever comes, until a call wants the lock.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ch3_shim::{OwnThread, Vci};
use netmod_core::Time;

use crate::error::{Class, MpiError, Result};
use crate::handle::Stream;
use crate::instance::{Mpi, State, finalized};
use crate::task::Call;
use crate::wait::news;

/// Time without a call after which the thread takes the lock: when it has been in use, and while
/// calls follow each other.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);
/// Empty polls that the device is told, so that it sleeps at once.
const MANY: u32 = 1 << 24;

impl Mpi {
    /// Starts the thread that makes progress while the program computes, if `NETMOD_PROGRESS` asks
    /// for it. It ends with [`Mpi::finalize`].
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn begin_progress(mpi: impl Deref<Target = Mpi> + Send + 'static) -> Result<()> {
        if !mpi.background().is_wanted() {
            return Ok(());
        }
        Mpi::start_progress_thread(mpi, Stream::NULL)
    }

    /// Starts a thread that makes progress while the program computes, for a stream or, with null,
    /// the whole library (`MPIX_Start_progress_thread`). One thread serves all. It ends with
    /// [`Mpi::finalize`].
    ///
    /// # Errors
    /// A bad stream; below the level MULTIPLE, where only `NETMOD_PROGRESS` gives such a thread; if
    /// the system has no thread left.
    pub fn start_progress_thread(
        mpi: impl Deref<Target = Mpi> + Send + 'static,
        stream: Stream,
    ) -> Result<()> {
        mpi.stream_check(stream)?;
        if !mpi.has_waker() {
            let text = "a thread for progress needs MPI_THREAD_MULTIPLE, and the program has asked for less; \
                        NETMOD_PROGRESS=thread starts one at any level";
            return Err(MpiError::new(Class::OTHER, text));
        }
        let place = mpi.background().runner();
        let mut runner = place.lock();
        if runner.thread.is_none() {
            mpi.end_bias();
            let started = OwnThread::start("netmod-mpi", move |quit| run(&mpi, quit));
            runner.thread = Some(started.map_err(|e| {
                let text = format!("no thread for progress: {e}; is the limit too low (ulimit -u)?");
                MpiError::new(Class::OTHER, text)
            })?);
        }
        runner.streams.insert(stream);
        Ok(())
    }

    /// Ends the thread that makes progress, unless it was started for other streams, too, or
    /// `NETMOD_PROGRESS` asks for it (`MPIX_Stop_progress_thread`). Nothing happens if it was not
    /// started for this one.
    ///
    /// # Errors
    /// A bad stream; if that thread calls it, in a function of the program.
    pub fn stop_progress_thread(&self, stream: Stream) -> Result<()> {
        self.stream_check(stream)?;
        let place = self.background().runner();
        let mut runner = place.lock();
        if runner.thread.as_ref().is_some_and(OwnThread::is_here) {
            let text = "the thread that makes progress cannot end itself";
            return Err(MpiError::new(Class::OTHER, text));
        }
        let was_started = runner.streams.remove(&stream);
        if !was_started || !runner.streams.is_empty() || self.background().is_wanted() {
            return Ok(());
        }
        let thread = runner.thread.take();
        drop(runner);
        self.end_thread(thread);
        Ok(())
    }
}

/// Runs the thread, for which calls are counted meanwhile.
fn run(mpi: &Mpi, quit: &AtomicBool) {
    mpi.background().count(true);
    let (mut calls, mut pause) = (0, SHORTEST);
    while !quit.load(Ordering::Acquire) {
        std::thread::park_timeout(pause);
        match stay(mpi, quit, &mut calls) {
            Ok(true) => pause = SHORTEST,
            Ok(false) => pause = (2 * pause).min(LONGEST),
            // The next call of the program finds it, too.
            Err(error) => {
                tracing::debug!(%error, "no progress by a thread any more");
                break;
            }
        }
    }
    mpi.background().count(false);
}

/// Makes progress until a call wants the lock. Returns false, and makes none, if a call is inside
/// or was made since the last look.
///
/// # Errors
/// If the device fails as a whole; after finalize.
fn stay(mpi: &Mpi, quit: &AtomicBool, calls: &mut u64) -> Result<bool> {
    let Some(mut guard) = mpi.try_state() else { return Ok(false) };
    let Some(state) = guard.as_mut() else { return Err(finalized()) };
    let now = mpi.background().calls();
    if std::mem::replace(calls, now) != now {
        return Ok(false);
    }
    let call = wait(mpi, quit, state)?;
    state.dev.end_call();
    drop(guard);
    call.map_or(Ok(()), |call| mpi.make_call(call))?;
    if mpi.is_multiple() {
        mpi.poll_functions()?;
        *calls = mpi.background().calls();
    }
    Ok(true)
}

/// Waits until a call wants the lock, or functions of the program are to be called. Only a program
/// with several threads has them called by this one, those that are polled after a while.
fn wait(mpi: &Mpi, quit: &AtomicBool, state: &mut State) -> Result<Option<Call>> {
    let State { dev, objects, requests } = state;
    let vci: &mut Vci = dev;
    loop {
        let (seen, mut call, mut leaves) = (news(vci, requests), None, false);
        let polls = mpi.is_multiple() && requests.polled.len() > 0;
        let until = if polls { vci.now() + LONGEST } else { Time::NEVER };
        vci.go_on_waiting(MANY, until, |vci| {
            objects.wins.serve(vci);
            if mpi.is_multiple() {
                call = requests.advance_tasks(vci, objects);
            } else {
                requests.advance_without_calls(vci, objects);
            }
            leaves = call.is_some() || mpi.is_wanted() || quit.load(Ordering::Acquire);
            leaves || seen != news(vci, requests)
        })?;
        if leaves || polls {
            return Ok(call);
        }
        mpi.turns().tell();
    }
}

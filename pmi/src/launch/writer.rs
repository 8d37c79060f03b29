//! The launcher's own stdout and stderr, each written by a thread.
//!
//! A write may block: the descriptors may be shared with other programs, so their flags are left
//! alone. Threads keep a slow reader from blocking anything else.

use crate::sys::{self, EventFd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most bytes of the launcher's own unwritten messages.
const MAX_OWN: usize = 64 * 1024;

/// The target: one of the launcher's own streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Stdout,
    Stderr,
}

/// The number of unwritten bytes of one source.
pub(super) type Unwritten = Arc<AtomicUsize>;

#[derive(Debug)]
struct Chunk {
    text: Vec<u8>,
    source: Unwritten,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Chunk>,
    /// Bytes queued or being written.
    unwritten: usize,
    closed: bool,
    failed: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the two streams; its thread starts with the first write.
#[derive(Debug)]
pub(super) struct Writer {
    target: Target,
    shared: Arc<Shared>,
    wake: Arc<EventFd>,
    started: bool,
    failure_taken: bool,
    own: Unwritten,
}

impl Writer {
    /// Creates a writer that makes `wake` readable after each write or failure.
    pub(super) fn new(target: Target, wake: Arc<EventFd>) -> Writer {
        let (shared, own) = (Arc::default(), Arc::default());
        Writer { target, shared, wake, started: false, failure_taken: false, own }
    }

    /// Queues a text of a source.
    pub(super) fn write(&mut self, text: Vec<u8>, source: &Unwritten) {
        if text.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        if state.failed.is_some() {
            return;
        }
        state.unwritten += text.len();
        source.fetch_add(text.len(), Ordering::Relaxed);
        state.queue.push_back(Chunk { text, source: Arc::clone(source) });
        drop(state);
        self.shared.changed.notify_one();
        if !std::mem::replace(&mut self.started, true) {
            let (target, shared, wake) = (self.target, Arc::clone(&self.shared), Arc::clone(&self.wake));
            let thread = std::thread::Builder::new().name("nmrun-output".to_owned());
            if let Err(error) = thread.spawn(move || write_all(target, &shared, &wake)) {
                fail(&self.shared, error);
                self.wake.signal();
            }
        }
    }

    /// Queues a message of the launcher itself; drops it if too many are waiting.
    pub(super) fn say(&mut self, text: String) {
        if self.own.load(Ordering::Relaxed) < MAX_OWN {
            let own = Arc::clone(&self.own);
            self.write(text.into_bytes(), &own);
        }
    }

    /// Returns the number of unwritten bytes.
    pub(super) fn unwritten(&self) -> usize {
        self.shared.lock().unwritten
    }

    /// Returns true if no more can be written.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.lock().failed.is_some()
    }

    /// Returns the reason why no more can be written, once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        let state = self.shared.lock();
        let error = state.failed.as_ref().filter(|_| !self.failure_taken)?;
        self.failure_taken = true;
        Some(error.to_string())
    }

    /// Returns true if the reader has closed, rather than the disk or terminal failed.
    pub(super) fn reader_is_gone(&self) -> bool {
        self.shared.lock().failed.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Drop for Writer {
    /// Detaches the thread. It ends after its present write, which may never finish, so nobody
    /// waits.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queue.clear();
        drop(state);
        self.shared.changed.notify_one();
    }
}

/// Records a failure, and drops the queue, which will never be written.
fn fail(shared: &Shared, error: io::Error) {
    let mut state = shared.lock();
    for chunk in state.queue.drain(..) {
        chunk.source.fetch_sub(chunk.text.len(), Ordering::Relaxed);
    }
    state.unwritten = 0;
    state.failed = Some(error);
}

/// Runs the writer thread.
fn write_all(target: Target, shared: &Shared, wake: &EventFd) {
    loop {
        let mut state = shared.lock();
        let chunk = loop {
            if state.closed || state.failed.is_some() {
                return;
            }
            match state.queue.pop_front() {
                Some(chunk) => break chunk,
                None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        let written = write_one(target, &chunk.text);
        chunk.source.fetch_sub(chunk.text.len(), Ordering::Relaxed);
        match written {
            Ok(()) => shared.lock().unwritten -= chunk.text.len(),
            Err(error) => fail(shared, error),
        }
        wake.signal();
    }
}

fn write_one(target: Target, mut text: &[u8]) -> io::Result<()> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let fd = match target {
        Target::Stdout => stdout.as_fd(),
        Target::Stderr => stderr.as_fd(),
    };
    while !text.is_empty() {
        match sys::write(fd, text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => text = &text[count..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // A process that shares the open file has set it non-blocking.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                sys::wait_fd(fd, true, None)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

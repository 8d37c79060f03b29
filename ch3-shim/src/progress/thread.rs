//! A thread of the library's own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::sys;

/// A thread of the library's own, in which no signal handler of the program runs. Dropping this
/// ends it, and waits for that.
#[derive(Debug)]
pub struct OwnThread {
    quit: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl OwnThread {
    /// Starts a thread, which returns from `run` when the flag is set. It looks at the flag when it
    /// is unparked.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(name: &str, run: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<OwnThread> {
        let quit = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&quit);
        let run = move || {
            sys::wake_on_time();
            run(&theirs);
        };
        let builder = std::thread::Builder::new().name(name.into());
        let thread = sys::without_signals(|| builder.spawn(run))?;
        Ok(OwnThread { quit, thread: Some(thread), process: std::process::id() })
    }

    /// Returns true if the calling thread is this one.
    pub fn is_here(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id())
    }

    /// Unparks the thread.
    pub fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if std::process::id() != self.process {
            // There is nobody to wait for.
            std::mem::forget(thread);
            return;
        }
        self.quit.store(true, Ordering::Release);
        thread.thread().unpark();
        // A thread that has panicked has said so.
        let _ = thread.join();
    }
}

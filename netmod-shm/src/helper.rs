//! A thread that is woken where this rank cannot be: peers in other PID namespaces do not find the
//! rank's pipe, but they can wake who waits for a word in the memory that they share. While the
//! rank sleeps the thread waits for that word, and then writes to the pipe.

use std::io;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::segment::raw::SleepWord;
use crate::sys::{self, Waker};

#[derive(Debug, Default)]
struct Orders {
    /// The rank sleeps, or has slept since.
    armed: bool,
    quit: bool,
}

#[derive(Debug)]
struct Shared {
    orders: Mutex<Orders>,
    given: Condvar,
    word: SleepWord,
}

// The word is an atomic in shared memory.
impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the thread.
    fn run(&self, pipe: &Waker) {
        loop {
            let mut orders = self.orders();
            while !orders.armed && !orders.quit {
                orders = self.given.wait(orders).unwrap_or_else(PoisonError::into_inner);
            }
            if orders.quit {
                return;
            }
            orders.armed = false;
            drop(orders);
            // The rank may have woken by itself and sleep again: then this goes on to wait for it.
            while self.word.word().load(Relaxed) == 1 {
                sys::wait_while(self.word.word(), 1);
                if self.orders().quit {
                    return;
                }
            }
            pipe.wake();
        }
    }
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Helper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(crate) fn start(word: SleepWord, pipe: Waker) -> io::Result<Helper> {
        let shared = Arc::new(Shared { orders: Mutex::default(), given: Condvar::new(), word });
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("netmod-shm".into()).spawn(move || theirs.run(&pipe))?;
        Ok(Helper { shared, thread: Some(thread) })
    }

    /// The rank has said that it sleeps.
    pub(crate) fn arm(&self) {
        self.shared.orders().armed = true;
        self.shared.given.notify_one();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.shared.orders().quit = true;
        self.shared.word.word().store(0, Release);
        self.shared.given.notify_one();
        sys::wake_waiters(self.shared.word.word());
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

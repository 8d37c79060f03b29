//! A watchdog for tests whose ranks are threads of the test's own process: one that hangs fails,
//! instead of holding up all that is behind it.
//!
//! A thread that hangs cannot be ended, so it is the process that ends: with the name of the test.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::board::JOB_LIMIT;

#[derive(Debug)]
struct Watched {
    id: u64,
    end: Instant,
    test: String,
}

#[derive(Debug)]
struct Kennel {
    next: u64,
    watched: Vec<Watched>,
}

static KENNEL: Mutex<Kennel> = Mutex::new(Kennel { next: 0, watched: Vec::new() });

fn kennel() -> MutexGuard<'static, Kennel> {
    KENNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kennel {
    fn watch(&mut self, test: &str, end: Instant) -> u64 {
        let id = self.next;
        self.next += 1;
        self.watched.push(Watched { id, end, test: test.to_owned() });
        id
    }

    fn release(&mut self, id: u64) {
        self.watched.retain(|w| w.id != id);
    }

    fn overdue(&self, now: Instant) -> Option<&str> {
        self.watched.iter().find(|w| w.end <= now).map(|w| w.test.as_str())
    }
}

/// While it lives, the test may run for [`JOB_LIMIT`] from when it was made; then the process ends.
#[derive(Debug)]
#[must_use = "what is not kept watches nothing"]
pub struct Watchdog {
    id: u64,
}

impl Watchdog {
    /// Watches the test of the calling thread.
    ///
    /// # Panics
    /// If there can be no further thread.
    pub fn new() -> Watchdog {
        static THREAD: Once = Once::new();
        THREAD.call_once(|| {
            std::thread::Builder::new()
                .name("watchdog".into())
                .spawn(patrol)
                .expect("a thread for the watchdog");
        });
        let thread = std::thread::current();
        Watchdog { id: kennel().watch(thread.name().unwrap_or("a test"), Instant::now() + JOB_LIMIT) }
    }
}

impl Default for Watchdog {
    fn default() -> Watchdog {
        Watchdog::new()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        kennel().release(self.id);
    }
}

fn patrol() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let overdue = kennel().overdue(Instant::now()).map(str::to_owned);
        if let Some(test) = overdue {
            eprintln!("{test} hangs after {JOB_LIMIT:?}; with it end all tests of its process");
            std::process::exit(101);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_released_in_time_is_not_bitten() {
        let mut k = Kennel { next: 0, watched: Vec::new() };
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let (slow, quick) = (k.watch("slow", at(3)), k.watch("quick", at(1)));
        assert_eq!(k.overdue(start), None);
        assert_eq!(k.overdue(at(1)), Some("quick"));
        k.release(quick);
        assert_eq!(k.overdue(at(2)), None);
        assert_eq!(k.overdue(at(3)), Some("slow"));
        k.release(slow);
        assert_eq!(k.overdue(at(9)), None);
    }

    #[test]
    fn a_watchdog_watches_while_it_lives() {
        let dog = Watchdog::new();
        let id = dog.id;
        let late = Instant::now() + 2 * JOB_LIMIT;
        assert!(
            kennel().watched.iter().any(|w| w.id == id && w.end <= late && w.test.contains("while_it_lives"))
        );
        drop(dog);
        assert!(kennel().watched.iter().all(|w| w.id != id));
    }
}

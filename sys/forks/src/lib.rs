//! Tells a forked child from the process that made a value, and keeps the child from ending it.
//!
//! A child of `fork(2)` has a copy of everything: sockets that its parent uses, memory that other processes see, handles
//! of devices. If it uses or closes these as the parent would, peers take its word for the parent's. An [`Origin`] says
//! whether this is still the process that made it, by one load; a [`Local`] is not dropped anywhere else.
//!
//! Children of `vfork(2)`, and threads that share their parent's memory in other ways, are the same process here. They
//! may do nothing but call `exec` anyway.

mod local;
mod sys;

pub use local::Local;

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// Numbers given to processes: a child goes on where its parent was, so that no process has the number of an ancestor.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// The process that made it.
#[derive(Clone, Copy)]
pub struct Origin {
    /// This process's number; 0 in a child until it has one.
    word: &'static AtomicU32,
    number: u32,
}

impl Origin {
    /// The calling process.
    pub fn here() -> Origin {
        let word = sys::word();
        let mut number = word.load(Ordering::Acquire);
        if number == 0 {
            let new = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread of this process may have been first.
            let was = word.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
            number = was.map_or_else(|theirs| theirs, |_| new);
        }
        Origin { word, number }
    }

    /// Returns true in the process that made it, and false in its children.
    #[inline]
    pub fn is_here(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_here() { "Origin(this process)" } else { "Origin(an ancestor)" })
    }
}

//! Tells a forked child from the process that made a value, and prevents the child from destroying
//! it.
//!
//! A child of `fork(2)` has a copy of everything: its parent's sockets, memory shared with other
//! processes, handles of devices. If the child used or closed them, peers would take that for the
//! parent's doing. An [`Origin`] tells, by one load, whether the caller is still the process that
//! made it. A [`Local`] is dropped only by the process that made it.
//!
//! Children of `vfork(2)`, and threads that share their parent's memory in other ways, count as the
//! same process. They may only call `exec` anyway.

mod local;
mod sys;

pub use local::Local;

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// The last process number given out. A child continues its parent's count, so no process has an
/// ancestor's number.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// Identifies the process that made it.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The number of the current process; 0 in a child that has none yet.
    word: &'static AtomicU32,
    number: u32,
}

impl Origin {
    /// Returns the calling process.
    pub fn here() -> Origin {
        let word = sys::word();
        let mut number = word.load(Ordering::Acquire);
        if number == 0 {
            let new = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread of this process may have set it first.
            let was = word.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
            number = was.map_or_else(|theirs| theirs, |_| new);
        }
        Origin { word, number }
    }

    /// Returns true in the process that made this value, and false in its children.
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

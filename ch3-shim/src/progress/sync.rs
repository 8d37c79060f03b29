//! Memory and threads, as the gate needs them. The model check puts its own in this module's place.

pub(super) use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::atomic::{compiler_fence, fence};

use crate::sys;

/// Looks at a claim before the thread lets others run, and runs of others before it asks whether
/// there is a helper at all.
const SPIN: u32 = 64;
const YIELDS: u32 = 1024;

/// The two barriers of an asymmetric fence, and the orders of loads and stores.
pub(super) struct Barriers {
    /// The kernel puts a fence into the other threads.
    asymmetric: bool,
    /// The process of the threads: a forked child has no helper.
    process: u32,
}

impl Barriers {
    /// Those of this system.
    pub(super) fn here() -> Barriers {
        Barriers { asymmetric: sys::can_fence_threads(), process: std::process::id() }
    }

    /// The owner's.
    #[inline(always)]
    pub(super) fn light(&self) {
        if self.asymmetric { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    /// The helper's.
    pub(super) fn heavy(&self) {
        fence(Ordering::SeqCst);
        if self.asymmetric {
            sys::fence_threads();
        }
    }

    #[inline(always)]
    pub(super) fn acquire(&self) -> Ordering {
        Ordering::Acquire
    }

    #[inline(always)]
    pub(super) fn release(&self) -> Ordering {
        Ordering::Release
    }

    /// Waits for a moment. False if it is of no use: this is a forked child, and the helper is in
    /// its parent.
    pub(super) fn pause(&self, tries: &mut u32) -> bool {
        *tries += 1;
        if *tries < SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        !tries.is_multiple_of(YIELDS) || std::process::id() == self.process
    }
}

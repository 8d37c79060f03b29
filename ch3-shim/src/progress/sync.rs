//! Memory and threads, as the gate needs them. The model check puts its own in this module's place.

pub(super) use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::atomic::{compiler_fence, fence};

use crate::sys;

/// Looks at a claim before the thread lets others run, and runs of others before it asks whether
/// there is a helper at all.
const SPIN: u32 = 64;
const YIELDS: u32 = 1024;

/// The two barriers of an asymmetric fence, and the orders of loads and stores.
///
/// The light barrier of one thread and the heavy one of another order as two full fences do.
#[derive(Debug)]
pub struct Barriers {
    /// The kernel puts a fence into the other threads.
    asymmetric: bool,
    /// The process of the threads: a forked child has no helper.
    process: u32,
}

impl Barriers {
    /// Creates those of this system.
    pub fn here() -> Barriers {
        Barriers { asymmetric: sys::can_fence_threads(), process: std::process::id() }
    }

    /// Sets the light barrier, of the thread that meets it often.
    #[inline(always)]
    pub fn light(&self) {
        if self.asymmetric { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    /// Sets the heavy barrier, of the other thread.
    pub fn heavy(&self) {
        fence(Ordering::SeqCst);
        if self.asymmetric {
            sys::fence_threads();
        }
    }

    /// Returns the order of loads.
    #[inline(always)]
    pub fn acquire(&self) -> Ordering {
        Ordering::Acquire
    }

    /// Returns the order of stores.
    #[inline(always)]
    pub fn release(&self) -> Ordering {
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

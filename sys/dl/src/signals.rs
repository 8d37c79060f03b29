//! What the process does on signals, kept while a library is loaded.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the process does on signals, kept while a library is loaded.
///
/// Libraries of providers change that when they are loaded: libinfinipath, which Debian's libfabric 1.17 is linked with, writes a
/// file into the current folder and calls `exit(1)` on faults and on SIGTERM and SIGINT, so that a job's launcher takes a crash or a signal
/// for an ordinary end.
pub(crate) struct Signals {
    before: [(c_int, Option<libc::sigaction>); 7],
    /// One at a time: another one would take what a library has set in between for the program's.
    _turn: MutexGuard<'static, ()>,
}

impl Signals {
    pub(crate) fn keep() -> Signals {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGABRT,
        ];
        Signals { before: all.map(|signal| (signal, action(signal))), _turn }
    }
}

/// What the process does on a signal.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and what is read has room; an action of zeros is a valid one.
    unsafe {
        (libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            let Some(before) = before else { continue };
            if action(*signal).is_some_and(|now| now.sa_sigaction != before.sa_sigaction) {
                // SAFETY: the action is the one that was in force before.
                unsafe { libc::sigaction(*signal, before, core::ptr::null_mut()) };
            }
        }
    }
}

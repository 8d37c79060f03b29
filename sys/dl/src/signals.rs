//! The process's signal actions, preserved while a library is loaded.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The process's signal actions; dropping it restores them.
///
/// Some libraries change signal actions when they are loaded. An example is libinfinipath, a
/// dependency of Debian's libfabric 1.17: on faults, SIGTERM and SIGINT it writes a file into the
/// current folder and calls `exit(1)`. A job's launcher would take a crash or a signal for an
/// ordinary exit.
pub(crate) struct Signals {
    before: [(c_int, Option<libc::sigaction>); 7],
    /// Serialises loads. A second load would save the actions that the first library has just set
    /// as the program's own.
    _guard: MutexGuard<'static, ()>,
}

impl Signals {
    pub(crate) fn keep() -> Signals {
        static LOADING: Mutex<()> = Mutex::new(());
        let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGABRT,
        ];
        Signals { before: all.map(|signal| (signal, action(signal))), _guard }
    }
}

/// Returns the process's action for a signal.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no action is set, and the result has room; an action of zeros is a valid one.
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

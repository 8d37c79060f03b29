//! States that the program gives with a function, and the functions that end them.

use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::convert::Function;

type AnyFn = unsafe extern "C-unwind" fn();
type Destructor = unsafe extern "C-unwind" fn(*mut c_void);

/// A state of the program. Its destructor is called once nobody uses the state any more.
pub struct State {
    at: usize,
    destructor: Option<Destructor>,
}

/// States that nobody uses any more. The library may be locked where the last user goes.
static UNUSED: Mutex<Vec<(Destructor, usize)>> = Mutex::new(Vec::new());

fn unused() -> MutexGuard<'static, Vec<(Destructor, usize)>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(at: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(at)
}

impl State {
    /// Takes a state and its destructor.
    ///
    /// # Safety
    /// The destructor is NULL or a function that takes an address, and may be called with this one.
    pub unsafe fn new(at: *mut c_void, destructor: Function) -> State {
        // SAFETY: as the caller promises.
        let destructor =
            destructor.map(|function| unsafe { core::mem::transmute::<AnyFn, Destructor>(function) });
        State { at: at.expose_provenance(), destructor }
    }

    /// Returns its address.
    pub fn address(&self) -> *mut c_void {
        address(self.at)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            unused().push((destructor, self.at));
        }
    }
}

/// Ends the states that nobody uses any more. Nothing may be locked: destructors may call MPI.
pub fn end_unused() {
    let all = std::mem::take(&mut *unused());
    for (destructor, at) in all {
        // SAFETY: the program gave this function for the end of this state, which comes once.
        unsafe { destructor(address(at)) }
    }
}

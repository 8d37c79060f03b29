//! Sessions.

use core::ffi::{c_char, c_int};

use netmod_mpi::consts::THREAD_MULTIPLE;
use netmod_mpi::handle::{Errhandler, Info, Session};
use netmod_mpi::{Mpi, Result};

pub use super::buffer::{session_attach_buffer, session_detach_buffer};
use super::env::start_library;
pub use super::error::{session_call_errhandler, session_create_errhandler};
use crate::calls::{self, Object};
use crate::convert::{get, put, put_text};

/// Opens a session. The first use of the library is at the highest thread level, since those that
/// follow may want any.
pub unsafe fn session_init(info: c_int, errhandler: c_int, session: *mut c_int) -> c_int {
    const NAME: &str = "MPI_Session_init";
    let held = calls::uses();
    start_library(NAME, THREAD_MULTIPLE);
    let made = calls::library().map(|mpi| mpi.session_init(Info(info as u32), Errhandler(errhandler as u32)));
    // One that is open keeps the library in use. An error handler may open others.
    drop(held);
    let code = calls::run(NAME, Object::New(errhandler), |_| match made {
        // SAFETY: the caller's memory.
        Some(made) => made.and_then(|made| unsafe { put(session, made) }),
        None => Ok(()),
    });
    if code != 0 {
        pause_if_unused();
    }
    code
}

pub unsafe fn session_finalize(mpi: &Mpi, session: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe {
        let mut handle = Session(get(session)? as u32);
        let done = mpi.session_finalize(&mut handle);
        put(session, handle)?;
        done?;
    }
    calls::end_if_unused(mpi)
}

/// Pauses a library that was begun for a session that could not be opened.
fn pause_if_unused() {
    if let Some(mpi) = calls::library() {
        // It can be used further: nothing is lost if it does not pause.
        let _ = calls::end_if_unused(mpi);
    }
}

pub unsafe fn session_get_nth_pset(
    mpi: &Mpi,
    session: c_int,
    info: c_int,
    n: c_int,
    length: *mut c_int,
    name: *mut c_char,
) -> Result<()> {
    let found = mpi.session_get_nth_pset(Session(session as u32), Info(info as u32), n)?;
    // SAFETY: the caller's memory, which has room for as many bytes as it says.
    unsafe {
        if let Some(room) = usize::try_from(get(length)?).ok().filter(|room| *room > 0) {
            put_text(name, room, found)?;
        }
        // With the byte at its end.
        put(length, found.len() as i64 + 1)
    }
}

//! The way of a call from C into the library, and that of an error back to the program.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use netmod_mpi::handle::Comm;
use netmod_mpi::{Class, Codes, Handler, Mpi, MpiError, Result, on_stderr};

/// The library of this process; it stays after its end, for calls that are allowed then.
static LIBRARY: OnceLock<Mpi> = OnceLock::new();
/// Codes of errors; they are known before the library is initialized and after its end.
pub static CODES: LazyLock<Arc<Codes>> = LazyLock::new(Arc::default);
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const AFTER: u8 = 2;

/// The object whose error handler is called.
#[derive(Clone, Copy)]
pub enum Object {
    /// None: errors go to the handler of `MPI_COMM_SELF`.
    None,
    Comm(c_int),
    Win,
    Session,
    File,
    Request,
}

/// Returns true if the library was initialized.
pub fn was_initialized() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Returns true if the library has ended.
pub fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == AFTER
}

/// Takes the library into use.
///
/// # Errors
/// If there is one already.
pub fn begin(mpi: Mpi) -> Result<()> {
    let again = |_| MpiError::new(Class::OTHER, "MPI was initialized before; a process does it once");
    LIBRARY.set(mpi).map_err(again)?;
    PHASE.store(RUNNING, Ordering::Release);
    Ok(())
}

/// Notes that the library has ended.
pub fn end() {
    PHASE.store(AFTER, Ordering::Release);
}

/// Returns the library while it runs.
pub fn library() -> Option<&'static Mpi> {
    if PHASE.load(Ordering::Acquire) == RUNNING { LIBRARY.get() } else { None }
}

/// Returns the code of a result without a library that has an error handler.
pub fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| CODES.code(&error), |()| 0)
}

/// Runs a function of the library, and returns its error code.
pub fn run(name: &str, object: Object, function: impl FnOnce(&'static Mpi) -> Result<()>) -> c_int {
    let Some(mpi) = library() else { outside(name) };
    match function(mpi) {
        Ok(()) => 0,
        Err(error) => failed(mpi, name, object, &error),
    }
}

/// Answers for a function that is not there yet, by the error handler of its object.
#[cold]
pub fn missing(name: &str, object: Object) -> c_int {
    let error = MpiError::unsupported(name);
    match library() {
        Some(mpi) => failed(mpi, name, object, &error),
        // Nobody could have set a handler.
        None => {
            on_stderr(&format_args!("{error}: the process ends"));
            std::process::abort()
        }
    }
}

/// Ends a process that calls a function while it must not.
#[cold]
fn outside(name: &str) -> ! {
    let when = match is_finalized() {
        true => "after MPI_Finalize",
        false => "before MPI_Init, MPI_Init_thread or MPI_Session_init",
    };
    on_stderr(&format_args!("{name} was called {when}: the process ends"));
    std::process::abort()
}

/// Gives an error to the handler of its object. Returns its code, if the handler returns.
#[cold]
fn failed(mpi: &Mpi, name: &str, object: Object, error: &MpiError) -> c_int {
    let code = CODES.code(error);
    dispatch(mpi, name, object, error, code);
    code
}

/// Calls the error handler of an object.
pub fn dispatch(mpi: &Mpi, name: &str, object: Object, error: &MpiError, code: c_int) {
    let comm = match object {
        Object::Comm(comm) => Comm(comm as u32),
        // Errors of files return unless the program says otherwise.
        Object::File => return,
        // The request is gone, and with it its communicator; most handlers are set on this one.
        Object::Request => Comm::WORLD,
        // No window and no session can exist.
        Object::None | Object::Win | Object::Session => Comm::SELF,
    };
    match mpi.comm_handler(comm) {
        Handler::Return => {}
        Handler::User(handler) => handler.call(comm.0, code),
        Handler::Abort | Handler::Fatal => fatal(mpi, name, comm, error, code),
    }
}

/// Says what has failed, and ends the job.
#[cold]
fn fatal(mpi: &Mpi, name: &str, comm: Comm, error: &MpiError, code: c_int) -> ! {
    let rank = mpi.comm_rank(Comm::WORLD).unwrap_or(-1);
    let said = format!("rank {rank}: {name} on {}: {:?}: {error}", mpi.comm_title(comm), error.class);
    mpi.abort(code & 0xff, &said)
}

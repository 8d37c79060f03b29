//! The way of a call from C into the library, and that of an error back to the program.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use netmod_mpi::handle::{Comm, Errhandler, File, Session, Win};
use netmod_mpi::{Anytime, Class, Codes, Handler, Mpi, MpiError, Result, on_stderr};

/// The library of this process; it stays after its end, for calls that are allowed then.
static LIBRARY: OnceLock<Mpi> = OnceLock::new();
/// Codes of errors; they are known before the library is initialized and after its end.
pub static CODES: LazyLock<Arc<Codes>> = LazyLock::new(Arc::default);
/// Objects that may be used before the library is initialized and after its end.
pub static ANYTIME: LazyLock<Arc<Anytime>> = LazyLock::new(|| Arc::new(Anytime::new(Arc::clone(&CODES))));
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// Phase of `MPI_COMM_WORLD`, between `MPI_Init` and `MPI_Finalize`; sessions may be outside.
static WORLD: AtomicU8 = AtomicU8::new(BEFORE);

/// Bits of a handle that tell its kind.
const KIND: u32 = 0xf << 26;

/// Taken while the library begins or ends to be used.
static USES: Mutex<()> = Mutex::new(());

const BEFORE: u8 = 0;
const RUNNING: u8 = 1;
const AFTER: u8 = 2;
/// No session is open, and `MPI_Init` was not called: the library can be used again.
const PAUSED: u8 = 3;

/// The object whose error handler is called.
#[derive(Clone, Copy)]
pub enum Object {
    /// None: errors go to the handler of `MPI_COMM_SELF`.
    None,
    Comm(c_int),
    Win(c_int),
    Session(c_int),
    /// A file; of one that is none, the handler of `MPI_FILE_NULL` is called.
    File(c_int),
    /// An object that the call makes: the error handler is an argument.
    New(c_int),
}

/// Returns true if `MPI_COMM_WORLD` was initialized.
pub fn was_initialized() -> bool {
    WORLD.load(Ordering::Acquire) != BEFORE
}

/// Returns true if `MPI_COMM_WORLD` has ended.
pub fn is_finalized() -> bool {
    WORLD.load(Ordering::Acquire) == AFTER
}

/// Notes that `MPI_COMM_WORLD` was initialized.
pub fn begin_world() {
    WORLD.store(RUNNING, Ordering::Release);
}

/// Notes that `MPI_COMM_WORLD` has ended.
pub fn end_world() {
    WORLD.store(AFTER, Ordering::Release);
}

/// Takes the library into use.
///
/// # Errors
/// If there was one already, or as [`Mpi::begin_progress`].
pub fn begin(mpi: Mpi) -> Result<()> {
    let again = |_| MpiError::new(Class::OTHER, "MPI was used to its end before; a process does it once");
    LIBRARY.set(mpi).map_err(again)?;
    PHASE.store(RUNNING, Ordering::Release);
    library().map_or(Ok(()), Mpi::begin_progress)
}

/// Holds off other threads while the library begins or ends to be used.
pub fn uses() -> MutexGuard<'static, ()> {
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a library that is paused into use again. Returns true if one is in use.
pub fn resume() -> bool {
    let resumed = PHASE.compare_exchange(PAUSED, RUNNING, Ordering::AcqRel, Ordering::Acquire);
    matches!(resumed, Ok(_) | Err(RUNNING))
}

/// Returns true if neither `MPI_COMM_WORLD` nor a session uses the library.
fn is_unused(mpi: &Mpi) -> Result<bool> {
    Ok(WORLD.load(Ordering::Acquire) != RUNNING && mpi.open_sessions()? == 0)
}

/// Ends the library if neither `MPI_COMM_WORLD` nor a session uses it. As long as `MPI_Init` may
/// still be called it only pauses, and ends with the process.
///
/// # Errors
/// As [`Mpi::finalize`].
pub fn end_if_unused(mpi: &Mpi) -> Result<()> {
    let mut held = uses();
    if is_unused(mpi)? && WORLD.load(Ordering::Acquire) == BEFORE {
        // Functions of the program are called, which may begin to use it.
        drop(held);
        mpi.end_polled()?;
        held = uses();
    }
    if !is_unused(mpi)? {
        return Ok(());
    }
    if WORLD.load(Ordering::Acquire) == BEFORE {
        static AT_EXIT: Once = Once::new();
        // SAFETY: the function takes nothing, and the library is never unloaded.
        AT_EXIT.call_once(|| unsafe {
            ORIGIN.store(std::process::id(), Ordering::Relaxed);
            libc::atexit(end_at_exit);
        });
        PHASE.store(PAUSED, Ordering::Release);
        return Ok(());
    }
    drop(held);
    let left = mpi.finalize();
    PHASE.store(AFTER, Ordering::Release);
    left
}

/// The process that ends a paused library; a forked child does not.
static ORIGIN: AtomicU32 = AtomicU32::new(0);

/// Ends a library that is paused, at the end of the process.
extern "C" fn end_at_exit() {
    let paused = PHASE.compare_exchange(PAUSED, AFTER, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !paused || ORIGIN.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if let Some(Err(error)) = LIBRARY.get().map(Mpi::finalize) {
        on_stderr(&format_args!("the end of MPI, at that of the process: {error}"));
    }
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

/// Runs a function of objects that may be used at any time, and returns its error code. Without the
/// library there is no error handler.
pub fn run_anytime(name: &str, function: impl FnOnce(&Anytime) -> Result<()>) -> c_int {
    match (function(&ANYTIME), library()) {
        (Ok(()), _) => 0,
        (Err(error), Some(mpi)) => failed(mpi, name, Object::None, &error),
        (Err(error), None) => CODES.code(&error),
    }
}

/// Answers for a function on queues of accelerators, which are not there, by the error handler of
/// its object.
#[cold]
pub fn missing(name: &str, object: Object) -> c_int {
    // MPICH answers with this class where no stream is of an accelerator.
    let text = format!("{name} needs a stream of an accelerator, and accelerators are not supported");
    let error = MpiError::new(Class::OTHER, text);
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
    let when = match PHASE.load(Ordering::Acquire) {
        BEFORE => "before MPI_Init, MPI_Init_thread or MPI_Session_init",
        _ => "after the end of MPI",
    };
    on_stderr(&format_args!("{name} was called {when}: the process ends"));
    std::process::abort()
}

/// Gives an error to the handler of its object. Returns its code, if the handler returns.
#[cold]
fn failed(mpi: &Mpi, name: &str, object: Object, error: &MpiError) -> c_int {
    let code = CODES.code(error);
    // An operation may be one of another communicator than the call.
    let object = match error.comm {
        _ if matches!(object, Object::New(_)) => object,
        None => object,
        Some(comm) if comm == Comm::NULL.0 => Object::None,
        Some(file) if file & KIND == File::NULL.0 => Object::File(file as c_int),
        Some(win) if win & KIND == Win::NULL.0 => Object::Win(win as c_int),
        Some(comm) => Object::Comm(comm as c_int),
    };
    dispatch(mpi, name, object, error, code)
}

/// Calls the error handler of an object. Returns the code that it leaves: `code`, unless the
/// program's function changes it.
pub fn dispatch(mpi: &Mpi, name: &str, object: Object, error: &MpiError, code: c_int) -> c_int {
    let of_comm = |comm: Comm| (mpi.comm_handler(comm), comm.0);
    let (handler, number) = match object {
        Object::Comm(comm) => of_comm(Comm(comm as u32)),
        Object::File(file) => (mpi.file_handler(File(file as u32)), file as u32),
        Object::Session(session) => (mpi.session_handler(Session(session as u32)), session as u32),
        Object::Win(win) => match mpi.win_handler(Win(win as u32)) {
            Some(handler) => (handler, win as u32),
            None => (mpi.comm_handler(Comm::NULL), Comm::SELF.0),
        },
        Object::New(handler) => match mpi.anytime().handler(Errhandler(handler as u32)) {
            Some(handler) => (handler, Comm::NULL.0),
            None => (mpi.comm_handler(Comm::NULL), Comm::SELF.0),
        },
        // The handler of MPI_COMM_SELF serves them only if the program has set it.
        Object::None => (mpi.comm_handler(Comm::NULL), Comm::SELF.0),
    };
    match handler {
        Handler::Return => code,
        Handler::User(handler) => handler.call(number, code),
        Handler::Abort | Handler::Fatal => {
            let title = match object {
                Object::File(file) => mpi.file_title(File(file as u32)),
                Object::Win(win) => mpi.win_title(Win(win as u32)),
                Object::Session(session) => format!("session {session:#010x}"),
                _ => mpi.comm_title(Comm(number)),
            };
            fatal(mpi, name, &title, error, code)
        }
    }
}

/// Says what has failed, and ends the job.
#[cold]
fn fatal(mpi: &Mpi, name: &str, title: &str, error: &MpiError, code: c_int) -> ! {
    let rank = mpi.comm_rank(Comm::WORLD).unwrap_or(-1);
    let said = format!("rank {rank}: {name} on {title}: {:?}: {error}", error.class);
    mpi.abort(code & 0xff, &said)
}

//! Begin and end of the library, and what it says of itself.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use netmod_mpi::consts::THREAD_SINGLE;
use netmod_mpi::handle::{Comm, Info};
use netmod_mpi::{Class, Mpi, MpiError, Result, env, on_stderr};

use super::mpix::end_unused;
use crate::Abi;
use crate::calls::{self, ANYTIME, code};
use crate::convert::{put, put_text};
use crate::{others, weights};

/// Rank of this process, for the words of a fault.
static RANK: AtomicI32 = AtomicI32::new(NO_RANK);
const NO_RANK: i32 = -1;

/// Bytes of `MPI_MAX_LIBRARY_VERSION_STRING`.
const VERSION_TEXT: usize = 8192;

/// Initializes `MPI_COMM_WORLD`. An error ends the process, since nobody could have set a handler.
fn start(name: &str, required: c_int) -> c_int {
    if calls::was_initialized() {
        on_stderr(&format_args!("{name} was called a second time: a process initializes MPI once"));
        std::process::exit(1)
    }
    let held = calls::uses();
    start_library(name, required);
    calls::begin_world();
    drop(held);
    0
}

/// Takes the library into use, unless a session has. An error ends the process.
pub(super) fn start_library(name: &str, required: c_int) {
    if calls::resume() {
        return;
    }
    panics_end_the_process();
    let started = Mpi::init_from_env(required, ANYTIME.clone()).and_then(|mpi| {
        let rank = mpi.comm_rank(Comm::WORLD)?;
        RANK.store(rank, Ordering::Relaxed);
        others::tell(rank);
        weights::tell_fortran();
        calls::begin(mpi)
    });
    if let Err(error) = started {
        on_stderr(&format_args!("{name}: {error}"));
        std::process::exit(1)
    }
}

/// Makes a fault of the library end the process with its words: C has no place for a panic.
fn panics_end_the_process() {
    std::panic::set_hook(Box::new(|what| {
        // The library may be locked: its rank is asked for beforehand.
        let rank = match RANK.load(Ordering::Relaxed) {
            NO_RANK => String::new(),
            rank => format!("rank {rank}: "),
        };
        on_stderr(&format_args!("{rank}the MPI library has a fault and ends the process: {what}"));
        std::process::abort()
    }));
}

pub fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    start("MPI_Init", THREAD_SINGLE)
}

pub unsafe fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    start("MPI_Init_thread", required);
    let level = calls::library().map_or(required, Mpi::thread_level);
    // SAFETY: the caller's memory.
    code(unsafe { put(provided, level) })
}

pub unsafe fn initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(flag, calls::was_initialized()) })
}

pub unsafe fn finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(flag, calls::is_finalized()) })
}

pub unsafe fn get_version<A: Abi>(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(version, A::VERSION.0).and_then(|()| put(subversion, A::VERSION.1)) })
}

pub unsafe fn get_library_version<A: Abi>(version: *mut c_char, length: *mut c_int) -> c_int {
    let text = env::library_version(A::VERSION, A::NAME);
    // SAFETY: the standard wants room for so many bytes.
    let written = unsafe { put_text(version, VERSION_TEXT, &text) };
    // SAFETY: the caller's memory.
    code(written.and_then(|written| unsafe { put(length, written as i64) }))
}

/// Tools may replace it; there is nothing to control here.
pub fn pcontrol(_level: c_int) -> c_int {
    0
}

pub fn wtime() -> f64 {
    env::wtime()
}

pub fn wtick() -> f64 {
    env::wtick()
}

/// Ends `MPI_COMM_WORLD` in this process, and the library unless a session uses it.
pub fn finalize(mpi: &Mpi) -> Result<()> {
    // `MPI_Finalized` is false for the functions that delete the attributes.
    let deleted = mpi.begin_finalize();
    calls::end_world();
    let ended = calls::end_if_unused(mpi);
    end_unused();
    deleted.and(ended)
}

/// Ends the job, whatever the communicator is: processes cannot go on without their peers.
pub fn abort(mpi: &Mpi, comm: c_int, number: c_int) -> Result<()> {
    let rank = mpi.comm_rank(Comm::WORLD).unwrap_or(-1);
    let title = mpi.comm_title(Comm(comm as u32));
    mpi.abort(number, &format!("rank {rank} called MPI_Abort on {title} with {number}"))
}

/// Bytes of `MPI_MAX_PROCESSOR_NAME`.
const PROCESSOR_NAME: usize = 128;

pub unsafe fn get_processor_name(mpi: &Mpi, name: *mut c_char, length: *mut c_int) -> Result<()> {
    let host = mpi.get_processor_name()?;
    // SAFETY: the standard wants room for so many bytes.
    let written = unsafe { put_text(name, PROCESSOR_NAME, &host)? };
    // SAFETY: the caller's memory.
    unsafe { put(length, written as i64) }
}

/// Alignment of memory that the library gives: that of everything, and of a cache line.
const ALIGNMENT: usize = 64;

/// Gives memory.
pub unsafe fn alloc_mem(mpi: &Mpi, size: i64, info: c_int, result: *mut c_void) -> Result<()> {
    let wrong = |_| MpiError::new(Class::ARG, format!("the size is {size}, and less than 0"));
    let size = usize::try_from(size).map_err(wrong)?;
    if result.is_null() {
        return Err(MpiError::new(Class::ARG, "the pointer for the address of the memory is NULL"));
    }
    let alignment = mpi.wanted_alignment(Info(info as u32))?.max(ALIGNMENT);
    let memory = match mpi.allocate_shared(size, alignment) {
        Some(shared) => shared.cast(),
        None => ordinary(size, alignment)?,
    };
    // SAFETY: the caller's variable, a pointer.
    unsafe { result.cast::<*mut c_void>().write(memory) };
    Ok(())
}

/// Gives memory that no other process can open.
fn ordinary(size: usize, alignment: usize) -> Result<*mut c_void> {
    let mut memory = core::ptr::null_mut();
    // SAFETY: the variable is there; the alignment is a power of two.
    match unsafe { libc::posix_memalign(&raw mut memory, alignment, size.max(1)) } {
        0 => Ok(memory),
        _ => {
            let text = format!("there is no memory of {size} bytes at a multiple of {alignment}");
            Err(MpiError::new(Class::NO_MEM, text))
        }
    }
}

/// Takes memory back.
pub unsafe fn free_mem(mpi: &Mpi, memory: *mut c_void) -> Result<()> {
    if !mpi.free_shared(memory.addr()) {
        // SAFETY: the caller has it of alloc_mem, which has taken it of the C library, and uses it
        // no more.
        unsafe { libc::free(memory) };
    }
    Ok(())
}

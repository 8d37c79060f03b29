//! Access to the memory of another process, by cross-memory attach, and its end.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use netmod_core::IoVec;

use crate::region;
use crate::segment::Segment;
use crate::sys::{self, Attach};

/// Looks of an owner at a region that a peer writes to before it sleeps in between; the length of a
/// sleep; looks after which it logs a warning.
const EAGER_LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(100);
const LONG: u32 = 10_000;

/// The reason why the memory of another process cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// The process with the peer's number is not the peer.
    #[error("process {pid} is another one here; are the ranks in different PID namespaces?")]
    Another { pid: u32 },
    /// The kernel does not permit it.
    #[error(
        "cross-memory attach to process {pid}: {error}; do the ranks have one user, and does the container or \
         kernel.yama.ptrace_scope forbid it?"
    )]
    Forbidden { pid: u32, error: io::Error },
}

/// Checks that this process may reach the memory of a slot's process; returns its process id.
///
/// # Errors
/// Says why not.
pub(crate) fn permitted(segment: &Segment, slot: usize) -> Result<u32, AttachError> {
    let (token, at, pid) = segment.probe(slot);
    let mut found = [0u8; 16];
    let local = IoVec { base: found.as_mut_ptr(), len: found.len() };
    match sys::attach(Attach::Read, pid, at, local) {
        Ok(n) if n == found.len() && found == token => Ok(pid),
        Ok(_) => Err(AttachError::Another { pid }),
        Err(error) => Err(AttachError::Forbidden { pid, error }),
    }
}

/// Reads memory of a slot's process, and by the same call its token; returns the bytes read.
///
/// # Errors
/// Says why not.
pub(crate) fn read(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, AttachError> {
    let (token, token_at, pid) = segment.probe(slot);
    let mut found = [0; 16];
    match sys::read_both(pid, (token_at, &mut found), (at, local)) {
        Ok(moved) if found == token => Ok(moved),
        Ok(_) => Err(AttachError::Another { pid }),
        Err(error) => Err(AttachError::Forbidden { pid, error }),
    }
}

/// Writes memory of a slot's process after a look at its token; returns the bytes written.
///
/// # Errors
/// Says why not.
pub(crate) fn write(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, AttachError> {
    let pid = permitted(segment, slot)?;
    sys::attach(Attach::Write, pid, at, local).map_err(|error| AttachError::Forbidden { pid, error })
}

/// Takes back memory that a peer may be writing into.
pub(crate) fn take_back(segment: &Segment, word: &AtomicU64, writer: usize) {
    region::end(word);
    let mut looks = 0;
    // The kernel ends a dead process's call before its lock.
    while !region::is_quiet(word) && (looks % EAGER_LOOKS != 1 || segment.lives(writer)) {
        looks += 1;
        if looks < EAGER_LOOKS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
        if looks == LONG {
            tracing::warn!(
                slot = writer,
                "a peer has stopped in the middle of writing into this process; its memory cannot be given \
                 back before the peer goes on or ends"
            );
        }
    }
    region::close(word);
}

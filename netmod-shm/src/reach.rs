//! Access to the memory of the process of a slot, and its end.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use netmod_core::IoVec;

use crate::attach::{AttachError, Extent, PeerMemory};
use crate::region;
use crate::segment::Segment;

/// Looks of an owner at a region that a peer writes to before it sleeps in between; the length of a
/// sleep; looks after which it logs a warning.
const EAGER_LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(100);
const LONG: u32 = 10_000;

/// Returns the memory of a slot's process.
fn memory(segment: &Segment, slot: usize) -> PeerMemory {
    let (token, token_at, pid) = segment.probe(slot);
    PeerMemory::new(pid, token, token_at)
}

/// Checks that this process may reach the memory of a slot's process; returns its process id.
///
/// # Errors
/// Says why not.
pub(crate) fn permitted(segment: &Segment, slot: usize) -> Result<u32, AttachError> {
    memory(segment, slot).check()
}

/// Reads memory of a slot's process; returns the bytes read.
///
/// # Errors
/// Says why not.
pub(crate) fn read(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, AttachError> {
    let there = Extent { at, len: local.len }.to_iovec();
    memory(segment, slot).read_into(&[local], &[there])
}

/// Writes memory of a slot's process; returns the bytes written.
///
/// # Errors
/// Says why not.
pub(crate) fn write(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, AttachError> {
    let there = Extent { at, len: local.len }.to_iovec();
    memory(segment, slot).write_from(&[local], &[there])
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

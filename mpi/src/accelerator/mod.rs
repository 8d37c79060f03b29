//! Memory of accelerators: a buffer in it is an error, where an access would end the process.
//!
//! Only the runtime library of an accelerator knows what an address is. A process that has loaded
//! none is not asked for; one that has is asked once for each range of addresses, and ranges that
//! the processor can access are remembered.

mod runtimes;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::{Class, MpiError};

/// An accelerator's runtime library. Copies to and from its memory would be functions of this, too.
pub(crate) trait Accelerator: Send + fmt::Debug {
    /// Returns its name for messages.
    fn name(&self) -> &'static str;

    /// Returns true if an address belongs to it, and the processor cannot access it. A library that
    /// does not know, or is not initialised, owns nothing.
    fn owns(&self, at: *const u8) -> bool;
}

/// The bits of an address within a range: runtimes reserve address space in units of 2 MiB.
const RANGE_BITS: u32 = 21;
/// Ranges that are remembered.
const RANGES: usize = 256;

/// Numbers of ranges that the processor can access, each at its number modulo [`RANGES`].
static ACCESSIBLE: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];

/// The runtime libraries of this process.
static RUNTIMES: Mutex<Runtimes> = Mutex::new(Runtimes { loads: 0, found: Vec::new() });

#[derive(Debug)]
struct Runtimes {
    /// The number of loads ([`dl::loads`]) when they were looked for.
    loads: u64,
    found: Vec<Box<dyn Accelerator>>,
}

impl Runtimes {
    /// Looks for runtimes that were loaded since the last time.
    fn look(&mut self) {
        let loads = dl::loads();
        if loads == self.loads {
            return;
        }
        self.loads = loads;
        let known: Vec<_> = self.found.iter().map(|runtime| runtime.name()).collect();
        let new = runtimes::loaded(&known);
        if !new.is_empty() {
            // Ranges that were accessible before may have been unmapped.
            ACCESSIBLE.iter().for_each(|range| range.store(0, Ordering::Relaxed));
        }
        self.found.extend(new);
    }

    fn owner(&self, at: *const u8) -> Option<&'static str> {
        self.found.iter().find(|runtime| runtime.owns(at)).map(|runtime| runtime.name())
    }
}

/// Returns the accelerator that owns an address; `None` if the processor can access it, as far as
/// runtimes know.
#[inline(always)]
fn owner(at: *const u8) -> Option<&'static str> {
    let range = at.addr() >> RANGE_BITS;
    if ACCESSIBLE[range % RANGES].load(Ordering::Relaxed) == range { None } else { ask(at, range) }
}

/// Returns true if the processor can access an address, as far as runtimes know.
#[inline(always)]
pub(crate) fn is_accessible(at: *const u8) -> bool {
    owner(at).is_none()
}

/// Checks that the processor can access an address.
///
/// # Errors
/// [`Class::BUFFER`] with the name of its owner.
#[inline]
pub(crate) fn check(at: *const u8) -> Result<(), Box<MpiError>> {
    owner(at).map_or(Ok(()), |owner| Err(refused(at, owner)))
}

/// Asks the runtimes who owns an address.
#[cold]
fn ask(at: *const u8, range: usize) -> Option<&'static str> {
    let mut runtimes = RUNTIMES.lock();
    runtimes.look();
    let owner = runtimes.owner(at);
    if owner.is_none() {
        ACCESSIBLE[range % RANGES].store(range, Ordering::Relaxed);
    }
    owner
}

#[cold]
fn refused(at: *const u8, owner: &str) -> Box<MpiError> {
    let text = format!(
        "the buffer at {at:p} is memory of an accelerator ({owner}), which this library does not access; \
         copy the data to memory of the processor, or let the program do so (without GPU-aware MPI)"
    );
    MpiError::new(Class::BUFFER, text)
}

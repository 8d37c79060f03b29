//! The shared file pointer: one number for all processes that have opened a file together.
//!
//! It lies in a hidden file of 8 bytes, which each use locks. No process has to make progress for
//! another one to use it. The hidden file is in shared memory if the processes are on one node, and
//! otherwise beside the file itself, which all of them reach. It has no name once all have opened
//! it, and in shared memory never had one: nothing is left behind, however the processes end then.

use parking_lot::Mutex;

use super::storage::Disk;
use super::sys::Lock;
use crate::error::{MpiError, Result};

/// Bytes of the pointer.
const LEN: usize = 8;

/// The shared file pointer of an open file, in etypes.
pub(super) enum Shared {
    /// The pointer of a file that one process has open.
    Own(Mutex<u64>),
    /// In a hidden file.
    Hidden(Disk),
    /// The hidden file could not be made.
    Missing(Box<MpiError>),
}

impl Shared {
    /// Replaces the pointer by what `next` makes of it. Returns what it was.
    ///
    /// # Errors
    /// The error of `next`; if there is no pointer; what the file system says.
    pub(super) fn update(&self, next: impl FnOnce(u64) -> Result<u64>) -> Result<u64> {
        match self {
            Shared::Own(place) => {
                let mut place = place.lock();
                let old = *place;
                *place = next(old)?;
                Ok(old)
            }
            Shared::Hidden(disk) => disk.locked(Lock::Exclusive, &(0..LEN as u64), || {
                let mut bytes = [0; LEN];
                disk.read(&mut bytes, 0)?;
                let old = u64::from_le_bytes(bytes);
                disk.write(&next(old)?.to_le_bytes(), 0)?;
                Ok(old)
            }),
            Shared::Missing(why) => Err(why.clone()),
        }
    }

    /// Moves the pointer by a number of etypes. Returns where it was.
    ///
    /// # Errors
    /// As [`Shared::update`].
    pub(super) fn add(&self, etypes: u64) -> Result<u64> {
        self.update(|old| Ok(old.saturating_add(etypes)))
    }

    /// Returns the pointer.
    ///
    /// # Errors
    /// As [`Shared::update`].
    pub(super) fn get(&self) -> Result<u64> {
        self.update(Ok)
    }

    /// Sets the pointer.
    ///
    /// # Errors
    /// As [`Shared::update`].
    pub(super) fn set(&self, etypes: u64) -> Result<()> {
        self.update(|_| Ok(etypes)).map(|_| ())
    }
}

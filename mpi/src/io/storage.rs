//! A file as the accesses see it: bytes at places, in whole reads and writes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::fault::{failed, not_locked};
use super::sys::{self, Lock};
use crate::consts::{MODE_RDONLY, MODE_WRONLY};
use crate::error::{Class, MpiError, Result};

/// The operations of a file system on one open file. Each may fail, or do less than it is asked to.
pub(crate) trait Storage: Send + Sync {
    /// Reads up to `into.len()` bytes, none behind the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes up to `data.len()` bytes.
    fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for the first `len` bytes.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Transfers all data to the device.
    fn sync(&self) -> io::Result<()>;

    /// Locks a range, and waits for those who have it.
    fn lock(&self, kind: Lock, range: &Range<u64>) -> io::Result<()>;

    /// Unlocks a range.
    fn unlock(&self, range: &Range<u64>) -> io::Result<()>;

    /// Closes the file.
    fn close(self: Box<Self>) -> io::Result<()>;
}

impl Storage for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, data, at)
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|m| m.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        sys::allocate(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn lock(&self, kind: Lock, range: &Range<u64>) -> io::Result<()> {
        sys::lock(self, kind, range)
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        sys::unlock(self, range)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        sys::close(*self)
    }
}

/// Opens a file of the system.
///
/// # Errors
/// Those of the system.
pub(super) fn open(name: &str, amode: i32, create: bool, exclusive: bool) -> Result<Box<dyn Storage>> {
    let mut options = OpenOptions::new();
    options.read(amode & MODE_WRONLY == 0).write(amode & MODE_RDONLY == 0);
    options.create(create && !exclusive).create_new(create && exclusive);
    let opened = again(|| options.open(name)).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        false => Ok(file),
    });
    match opened {
        Ok(file) => Ok(Box::new(file)),
        Err(e) => Err(failed(name, "opening it", &e)),
    }
}

/// Deletes a file.
///
/// # Errors
/// Those of the system.
pub(super) fn delete(name: &str) -> Result<()> {
    std::fs::remove_file(name).map_err(|e| failed(name, "deleting it", &e))
}

/// Repeats a call that a signal has interrupted.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// An open file with its name, for errors.
pub(crate) struct Disk {
    name: String,
    storage: Box<dyn Storage>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Disk {
    /// Takes an open file.
    pub(super) fn new(name: &str, storage: Box<dyn Storage>) -> Disk {
        Disk { name: name.to_owned(), storage }
    }

    /// Reads until the room is full or the file ends. Returns the bytes that were read.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn read(&self, into: &mut [u8], at: u64) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match again(|| self.storage.read_at(&mut into[done..], at + done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => {
                    let what = format!("reading {} bytes at byte {at}, after {done} of them", into.len());
                    return Err(failed(&self.name, &what, &e));
                }
            }
        }
        Ok(done)
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// Those of the file system. A part may be written then.
    pub(super) fn write(&self, data: &[u8], at: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let written = match again(|| self.storage.write_at(&data[done..], at + done as u64)) {
                // Nobody says why, and it may be so for ever.
                Ok(0) => Err(io::Error::from(io::ErrorKind::WriteZero)),
                written => written,
            };
            match written {
                Ok(n) => done += n,
                Err(e) => {
                    let what = format!("writing {} bytes at byte {at}, after {done} of them", data.len());
                    return Err(failed(&self.name, &what, &e));
                }
            }
        }
        Ok(())
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn len(&self) -> Result<u64> {
        again(|| self.storage.len()).map_err(|e| failed(&self.name, "asking for its size", &e))
    }

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn set_len(&self, len: u64) -> Result<()> {
        let done = again(|| self.storage.set_len(len));
        done.map_err(|e| failed(&self.name, &format!("setting its size to {len} bytes"), &e))
    }

    /// Reserves space for the first `len` bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn allocate(&self, len: u64) -> Result<()> {
        let done = again(|| self.storage.allocate(len));
        done.map_err(|e| failed(&self.name, &format!("reserving {len} bytes"), &e))
    }

    /// Transfers all data to the device.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn sync(&self) -> Result<()> {
        again(|| self.storage.sync()).map_err(|e| failed(&self.name, "transferring it to the device", &e))
    }

    /// Runs an access while a range is locked.
    ///
    /// # Errors
    /// Those of the lock and of the access.
    pub(super) fn locked<T>(
        &self,
        kind: Lock,
        range: &Range<u64>,
        access: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        again(|| self.storage.lock(kind, range)).map_err(|e| not_locked(&self.name, &e))?;
        let result = access();
        let unlocked = again(|| self.storage.unlock(range)).map_err(|e| not_locked(&self.name, &e));
        result.and_then(|value| unlocked.map(|()| value))
    }

    /// Closes the file.
    ///
    /// # Errors
    /// Those of the file system: data that was written earlier may be lost.
    pub(super) fn close(self) -> Result<()> {
        let Disk { name, storage } = self;
        storage.close().map_err(|e| failed(&name, "closing it", &e))
    }
}

/// Returns the error of a file that is used after it was closed.
#[cold]
pub(super) fn closed(name: &str) -> Box<MpiError> {
    MpiError::new(Class::FILE, format!("file {name} is closed"))
}

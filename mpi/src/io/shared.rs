//! The shared file pointer: one number for all processes that have opened a file together.
//!
//! It lies in a hidden file of 8 bytes, which each use locks. No process has to make progress for
//! another one to use it. The hidden file is in shared memory if the processes are on one node, and
//! otherwise beside the file itself, which all of them reach. All open it when the file is opened,
//! and then it has no name any more: nothing is left behind, however the processes end.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::fault::failed;
use super::port::Port;
use super::storage::{Disk, Storage, delete};
use super::sys::Lock;
use crate::error::{Class, MpiError, Result};

/// The folder of memory that the processes of a node share.
const MEMORY: &str = "/dev/shm";
/// Bytes of the pointer.
const LEN: usize = 8;

/// The shared file pointer of an open file, in etypes.
pub(super) enum Shared {
    /// Of a file that one process has open.
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
    /// That of `next`; if there is no pointer; what the file system says.
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

/// Returns a number that no other hidden file of the machine has.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let own = u64::from(std::process::id()) << 40 | NEXT.fetch_add(1, Ordering::Relaxed);
    // The highest bit stays free: the others get it as a signed number.
    (now ^ own.rotate_left(17)) >> 1
}

/// Opens the hidden file, which the first process creates.
fn open(path: &Path, start: Option<u64>) -> Result<Disk> {
    let (name, what) = (path.to_string_lossy(), "opening the file of the shared file pointer");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(start.is_some()).mode(0o600);
    let opened: io::Result<Box<dyn Storage>> = options.open(path).map(|file| Box::new(file) as _);
    let disk = Disk::new(&name, opened.map_err(|e| failed(&name, what, &e))?);
    match start.map(|start| disk.write(&start.to_le_bytes(), 0)) {
        Some(Err(e)) => {
            // What cannot be deleted either is empty.
            let _ = delete(&name);
            Err(e)
        }
        _ => Ok(disk),
    }
}

/// Makes the shared file pointer of a file that was opened: all processes call it.
///
/// # Errors
/// A process that is lost. That there is no place for the hidden file is an error of those who use
/// the pointer.
pub(super) async fn make(port: &Port, name: &str, one_node: bool, start: u64) -> Result<Shared> {
    if port.n == 1 {
        return Ok(Shared::Own(Mutex::new(start)));
    }
    let beside = Path::new(name).parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let folders = [one_node.then_some(Path::new(MEMORY)), Some(beside)];
    let mut why = None;
    for folder in folders.into_iter().flatten() {
        let number = port.numbers(unique().cast_signed()).await?[0];
        let path = folder.join(format!(".netmod-pointer-{number:016x}"));
        match shared(port, path, start).await {
            Ok(disk) => return Ok(Shared::Hidden(disk)),
            Err(e) if port.is_lost() => return Err(e),
            Err(e) => why = Some(e),
        }
    }
    match why {
        Some(e) => Ok(Shared::Missing(e.about("there is no shared file pointer"))),
        None => Ok(Shared::Own(Mutex::new(start))),
    }
}

/// Creates the hidden file at the first process, opens it at the others, and takes its name away.
async fn shared(port: &Port, path: PathBuf, start: u64) -> Result<Disk> {
    let first = port.me == 0;
    let mut disk: Option<Disk> = None;
    let mut failed = None;
    for turn in [true, false] {
        let place = path.clone();
        let work =
            move || if first == turn { open(&place, turn.then_some(start)).map(Some) } else { Ok(None) };
        let opened = port.outside(work).await;
        match port.settle(opened).await {
            Ok(opened) => disk = disk.or(opened),
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
    }
    if first && disk.is_some() {
        port.outside(move || delete(&path.to_string_lossy())).await?;
    }
    match (failed, disk) {
        (None, Some(disk)) => Ok(disk),
        (Some(e), _) => Err(e),
        (None, None) => Err(MpiError::new(Class::INTERN, "the hidden file was not opened")),
    }
}

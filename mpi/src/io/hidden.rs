//! The making of the hidden file of a shared file pointer, by all processes.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::fault::failed;
use super::port::Port;
use super::shared::Shared;
use super::storage::{Disk, Storage, delete};
use crate::error::{Class, MpiError, Result};

/// The folder of memory that the processes of a node share.
const MEMORY: &str = "/dev/shm";

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
            // It is empty if it cannot be deleted either.
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

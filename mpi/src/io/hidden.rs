//! The making of the hidden file of a shared file pointer, by all processes.
//!
//! Processes of one node open a file that never had a name, by the descriptor of the process that
//! makes it. So nothing is left of it, however the processes end. On several nodes the file has a
//! name beside the file itself until all have opened it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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
/// The step in which a hidden file is made, for errors.
const OPENING: &str = "opening the file of the shared file pointer";

/// Returns a number that no other hidden file of the machine has.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let own = u64::from(std::process::id()) << 40 | NEXT.fetch_add(1, Ordering::Relaxed);
    // The highest bit stays free: the others get it as a signed number.
    (now ^ own.rotate_left(17)) >> 1
}

/// A file without a name that another process of the node has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    pid: u32,
    fd: u32,
    /// The number behind the pointer in the file, which tells that it is the one that is meant.
    number: u64,
}

impl Ticket {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.pid.to_le_bytes().to_vec();
        bytes.extend(self.fd.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Ticket> {
        let word = |at| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
        let number = bytes.get(8..)?.first_chunk().map(|word| u64::from_le_bytes(*word))?;
        Some(Ticket { pid: word(0)?, fd: word(4)?, number })
    }
}

/// Makes a file without a name in memory.
fn make_unnamed(start: u64) -> io::Result<(File, Ticket)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(MEMORY)?;
    let number = unique();
    file.write_all_at(&[start.to_le_bytes(), number.to_le_bytes()].concat(), 0)?;
    let fd = file.as_raw_fd().cast_unsigned();
    Ok((file, Ticket { pid: std::process::id(), fd, number }))
}

/// Opens such a file of another process.
fn open_unnamed(ticket: Ticket) -> io::Result<File> {
    let path = format!("/proc/{}/fd/{}", ticket.pid, ticket.fd);
    let other =
        || io::Error::new(io::ErrorKind::InvalidData, format!("{path} is not the file that is meant"));
    // Another process's descriptor may be anything; this one is opened only if it is such a file.
    let target = std::fs::read_link(&path)?;
    if !target.as_os_str().as_encoded_bytes().starts_with(format!("{MEMORY}/#").as_bytes()) {
        return Err(other());
    }
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
    let mut number = [0; 8];
    file.read_exact_at(&mut number, 8)?;
    if u64::from_le_bytes(number) == ticket.number { Ok(file) } else { Err(other()) }
}

/// Makes a file without a name at the first process, and opens it at the others of its node.
async fn unnamed(port: &Port, start: u64) -> Result<Disk> {
    let first = port.me == 0;
    let failed = |e: io::Error| failed(MEMORY, OPENING, &e);
    let made = port.outside(move || first.then(|| make_unnamed(start)).transpose()).await.map_err(failed);
    let ticket = made.as_ref().ok().and_then(|made| made.as_ref().map(|(_, ticket)| *ticket));
    // Zeros are a process that has made none: no other one opens its descriptor.
    let told = ticket.map_or_else(|| vec![0; 16], Ticket::to_bytes);
    let tickets = port.gather(told).await?;
    let ticket = Ticket::from_bytes(&tickets[0]).filter(|ticket| ticket.pid != 0);
    let opened = match made {
        Ok(Some((file, _))) => Ok(file),
        Err(e) => Err(e),
        Ok(None) => {
            let missing = || io::Error::new(io::ErrorKind::NotFound, "the first process has made none");
            port.outside(move || ticket.ok_or_else(missing).and_then(open_unnamed)).await.map_err(failed)
        }
    };
    let opened = port.settle(opened).await?;
    Ok(Disk::new(MEMORY, Box::new(opened)))
}

/// Opens the hidden file, which the first process creates.
fn open(path: &Path, start: Option<u64>) -> Result<Disk> {
    let name = path.to_string_lossy();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(start.is_some()).mode(0o600);
    let opened: io::Result<Box<dyn Storage>> = options.open(path).map(|file| Box::new(file) as _);
    let disk = Disk::new(&name, opened.map_err(|e| failed(&name, OPENING, &e))?);
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
    if one_node {
        match unnamed(port, start).await {
            Ok(disk) => return Ok(Shared::Hidden(disk)),
            Err(e) if port.is_lost() => return Err(e),
            Err(e) => tracing::info!("the shared file pointer is beside its file: {}", e.text),
        }
    }
    let beside = Path::new(name).parent().filter(|folder| !folder.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let number = port.numbers(unique().cast_signed()).await?[0];
    let path = beside.join(format!(".netmod-pointer-{number:016x}"));
    match named(port, path, start).await {
        Ok(disk) => Ok(Shared::Hidden(disk)),
        Err(e) if port.is_lost() => Err(e),
        Err(e) => Ok(Shared::Missing(e.about("there is no shared file pointer"))),
    }
}

/// Creates the hidden file at the first process, opens it at the others, and takes its name away.
async fn named(port: &Port, path: PathBuf, start: u64) -> Result<Disk> {
    let first = port.me == 0;
    let mut disk: Option<Disk> = None;
    let (mut failed, mut created) = (None, false);
    for turn in [true, false] {
        let place = path.clone();
        let work =
            move || if first == turn { open(&place, turn.then_some(start)).map(Some) } else { Ok(None) };
        let opened = port.outside(work).await;
        created |= first && turn && opened.is_ok();
        match port.settle(opened).await {
            Ok(opened) => disk = disk.or(opened),
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
    }
    let name = path.to_string_lossy().into_owned();
    if created {
        port.outside(move || delete(&name)).await?;
    } else if failed.is_some() && port.is_lost() {
        // The first process may have died before it could; or it has done so, or created none.
        let _ = port.outside(move || delete(&name)).await;
    }
    match (failed, disk) {
        (None, Some(disk)) => Ok(disk),
        (Some(e), _) => Err(e),
        (None, None) => Err(MpiError::new(Class::INTERN, "the hidden file was not opened")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_the_ticket_is_opened() {
        let (file, ticket) = make_unnamed(7).expect("a file without a name");
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Some(ticket));
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()[1..]), None);
        let opened = open_unnamed(ticket).expect("the same file");
        file.write_all_at(&9u64.to_le_bytes(), 0).expect("a write");
        let mut pointer = [0; 8];
        opened.read_exact_at(&mut pointer, 0).expect("a read");
        assert_eq!(u64::from_le_bytes(pointer), 9);
        let (_other, of_other) = make_unnamed(7).expect("another one");
        let wrong = [
            Ticket { fd: of_other.fd, ..ticket },
            Ticket { number: ticket.number + 1, ..ticket },
            Ticket { fd: 0, ..ticket },
            Ticket { pid: 0, ..ticket },
        ];
        for wrong in wrong {
            assert!(open_unnamed(wrong).is_err(), "{wrong:?}");
        }
    }
}

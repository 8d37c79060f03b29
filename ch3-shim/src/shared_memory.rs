//! Memory that processes of one node share: one of them makes it, the others open it by a ticket.
//!
//! It has no name in any file system (`memfd_create(2)`), so nothing is left of it when the last
//! process ends, however it ends. A process that is told a [`Ticket`] opens the maker's descriptor
//! (`/proc/PID/fd`), which the maker keeps until it is told that all have it. A random number in
//! the memory tells that it is the one that is meant. Its size is sealed: nobody can take the
//! memory away from the others.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
#[cfg(feature = "shm")]
pub use netmod_shm::attach::{AttachError, Extent, PeerMemory};

use crate::sys;

/// Bytes at the start of the memory that belong to this module.
const HEADER: usize = 64;
/// Name that `/proc` shows.
const NAME: &str = "netmod-shared";

/// Registers this process for the fences of others ([`fence_all`]). False where the kernel has
/// none: then a process that writes for one that may sleep needs a fence of its own.
pub fn register_for_fences() -> bool {
    sys::register_for_fences()
}

/// Puts a full fence into every running thread of all registered processes (`membarrier(2)`), and
/// into this one. False if the kernel refuses.
pub fn fence_all() -> bool {
    std::sync::atomic::fence(Ordering::SeqCst);
    sys::fence_processes()
}

/// The means by which another process opens shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pid: u32,
    fd: u32,
    nonce: u64,
}

impl Ticket {
    /// Bytes of a ticket.
    pub const LEN: usize = 16;

    /// Returns it as bytes.
    pub fn to_bytes(self) -> [u8; Ticket::LEN] {
        let mut bytes = [0; Ticket::LEN];
        bytes[..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.fd.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// Reads what [`Ticket::to_bytes`] has written.
    pub fn from_bytes(bytes: [u8; Ticket::LEN]) -> Ticket {
        let [a, b, c, d, e, f, g, h, nonce @ ..] = bytes;
        Ticket {
            pid: u32::from_le_bytes([a, b, c, d]),
            fd: u32::from_le_bytes([e, f, g, h]),
            nonce: u64::from_le_bytes(nonce),
        }
    }
}

/// Memory that processes share.
///
/// Everybody may write to it at any time, so it is words and addresses, never a slice.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
    /// The maker's descriptor, until all have opened it.
    file: Option<File>,
}

impl SharedMemory {
    /// Makes memory of so many bytes, all zero.
    ///
    /// # Errors
    /// Those of the system: no descriptor, no memory.
    pub fn create(len: usize) -> io::Result<SharedMemory> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let total = HEADER.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        let file = sys::memory_file(NAME)?;
        file.set_len(total as u64)?;
        sys::seal_size(&file)?;
        let memory = SharedMemory { map: MmapOptions::new().len(total).map_raw(&file)?, file: Some(file) };
        memory.word_of_all(0).store(u64::from_le_bytes(nonce) | 1, Ordering::Release);
        Ok(memory)
    }

    /// The ticket by which others open it; `None` once it is closed to them.
    pub fn ticket(&self) -> Option<Ticket> {
        let fd = u32::try_from(self.file.as_ref()?.as_raw_fd()).ok()?;
        Some(Ticket { pid: std::process::id(), fd, nonce: self.identity() })
    }

    /// The number that tells it apart from all other memory. It is the same in all processes.
    pub fn identity(&self) -> u64 {
        self.word_of_all(0).load(Ordering::Acquire)
    }

    /// Opens memory that another process of this node has made, of so many bytes.
    ///
    /// # Errors
    /// Those of the system; another size, or other memory than that of the ticket.
    pub fn open(ticket: &Ticket, len: usize) -> io::Result<SharedMemory> {
        let path = format!("/proc/{}/fd/{}", ticket.pid, ticket.fd);
        // Another process's descriptor may be anything; this one is opened only if it is ours.
        let target = std::fs::read_link(&path)?;
        let other =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{path} is not the memory that is meant"));
        if !target.as_os_str().as_encoded_bytes().starts_with(format!("/memfd:{NAME}").as_bytes()) {
            return Err(other());
        }
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)?;
        if file.metadata()?.size() != (HEADER + len) as u64 {
            return Err(other());
        }
        let memory = SharedMemory { map: MmapOptions::new().len(HEADER + len).map_raw(&file)?, file: None };
        if memory.identity() != ticket.nonce {
            return Err(other());
        }
        Ok(memory)
    }

    /// Closes it to further processes.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.map.len() - HEADER
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of byte `at`, from which on there are `len` bytes.
    ///
    /// # Panics
    /// If they are not all within the memory.
    #[inline]
    pub fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len() && len <= self.len() - at, "bytes beyond the end of shared memory");
        self.map.as_mut_ptr().wrapping_add(HEADER + at)
    }

    /// The word at byte `at`.
    ///
    /// # Panics
    /// If it is not within the memory, or not aligned.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.len() && self.len() - at >= 8, "no word there");
        self.word_of_all(HEADER + at)
    }

    fn word_of_all(&self, at: usize) -> &AtomicU64 {
        sys::word_of(&self.map, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_ticket_sees_the_same_memory() {
        let mut made = SharedMemory::create(10_000).unwrap();
        let ticket = made.ticket().unwrap();
        assert_eq!(Ticket::from_bytes(ticket.to_bytes()), ticket);
        let opened = SharedMemory::open(&ticket, 10_000).unwrap();
        assert_eq!(made.identity(), opened.identity());
        made.word(64).store(7, Ordering::Relaxed);
        opened.word(9992).store(8, Ordering::Relaxed);
        assert_eq!(
            (opened.word(64).load(Ordering::Relaxed), made.word(9992).load(Ordering::Relaxed)),
            (7, 8)
        );
        assert!(SharedMemory::open(&ticket, 9_999).is_err(), "another size");
        let other = SharedMemory::create(10_000).unwrap();
        assert_ne!(made.identity(), other.identity());
        let wrong = Ticket { fd: other.ticket().unwrap().fd, ..ticket };
        assert!(SharedMemory::open(&wrong, 10_000).is_err(), "other memory");
        assert!(SharedMemory::open(&Ticket { fd: 0, ..ticket }, 10_000).is_err(), "no shared memory at all");
        made.close();
        assert_eq!(made.ticket(), None);
        assert!(SharedMemory::open(&ticket, 10_000).is_err(), "closed");
        assert_eq!(opened.word(64).load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "no word there")]
    fn words_beyond_the_end_are_refused() {
        let memory = SharedMemory::create(4096).unwrap();
        memory.word(4096);
    }
}

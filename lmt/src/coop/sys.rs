//! Ring files: unnamed, found by their owner's descriptor, and mapped.
//!
//! None is ever left behind, however its processes end. This is the unsafe part of the Cooperative
//! mode, except for the copying.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};
use netmod_core::card::NodeSection;

use super::RingError;
use crate::cookie::{RingName, ShmDomain};

/// The folder of ring files: a file system in memory that every process of a node sees.
const FOLDER: &str = "/dev/shm";

/// Returns the shared memory that this process can reach.
///
/// # Errors
///
/// Fails if there is none.
pub fn shm_domain() -> Result<ShmDomain, RingError> {
    let failed = |source| RingError::System {
        what: "look at",
        path: FOLDER.into(),
        source,
        hint: "without shared memory large messages go through the network module",
    };
    let folder = std::fs::metadata(FOLDER).map_err(failed)?;
    let node = NodeSection::of_this_process().map_err(|e| failed(io::Error::other(e)))?;
    // SAFETY: geteuid has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let pids = std::fs::metadata("/proc/self/ns/pid").map_err(failed)?.ino();
    Ok(ShmDomain { boot: node.boot_id, device: folder.dev(), pids, user })
}

/// Returns the path by which another process finds the file of a ring.
pub(super) fn path_of(name: RingName) -> PathBuf {
    let [a, b, c, d, e, f, g, h, ..] = name.0;
    let (pid, fd) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    format!("/proc/{pid}/fd/{fd}").into()
}

/// Returns the name of a ring of this process.
fn name_of(file: &File, number: [u8; 8]) -> RingName {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&std::process::id().to_le_bytes());
    name[4..8].copy_from_slice(&(file.as_raw_fd() as u32).to_le_bytes());
    name[8..].copy_from_slice(&number);
    RingName(name)
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(super) struct Mapping {
    map: MmapRaw,
    base: NonNull<u8>,
}

// SAFETY: a mapping belongs to the process, not to a thread, and its base is used by its one
// holder.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Returns the first byte, on a page boundary.
    ///
    /// The mapping is readable and writable for [`Mapping::len`] bytes while it lives.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    fn of(file: &File, len: usize) -> io::Result<Mapping> {
        let map = MmapOptions::new().len(len).map_raw(file)?;
        let base = NonNull::new(map.as_mut_ptr()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { map, base })
    }
}

/// Creates an unnamed file of `len` allocated bytes, for this user alone, and maps it.
///
/// It can be found as long as it is open, and recognised by the random `number` at offset
/// `number_at`.
pub(super) fn create(
    number: [u8; 8],
    number_at: u64,
    len: usize,
) -> Result<(Mapping, File, RingName), RingError> {
    let failed = |what, hint| {
        move |source| RingError::System { what, path: format!("a file in {FOLDER}"), source, hint }
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(FOLDER)
        .map_err(failed("create", "large messages go through the network module; is /dev/shm writable?"))?;
    // ftruncate alone is not enough: a write without memory behind it ends the process (SIGBUS).
    // SAFETY: a live descriptor.
    let e = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) };
    let full = "large messages go through the network module; is /dev/shm large enough (df /dev/shm)?";
    if e != 0 {
        return Err(failed("allocate memory for", full)(io::Error::from_raw_os_error(e)));
    }
    file.write_all_at(&number, number_at).map_err(failed("write to", full))?;
    let map = Mapping::of(&file, len).map_err(failed(
        "map",
        "large messages go through the network module; is memory limited (ulimit -v)?",
    ))?;
    let name = name_of(&file, number);
    Ok((map, file, name))
}

/// Maps the file of a peer on this node.
///
/// It must have one of these lengths, and its name's number at `number_at`.
pub(super) fn open(name: RingName, number_at: u64, lens: &[usize]) -> Result<Mapping, RingError> {
    let path = path_of(name);
    let failed = |what| {
        let path = path.display().to_string();
        let hint = "is the peer alive, and do both processes run as the same user?";
        move |source| RingError::System { what, path, source, hint }
    };
    let foreign = |why| RingError::Foreign { path: path.display().to_string(), why };
    // The path may lead to anything: it is checked before it is opened, and once more after that.
    let check = |meta: std::fs::Metadata| {
        // SAFETY: geteuid has no arguments and cannot fail.
        let user = unsafe { libc::geteuid() };
        if !meta.is_file() || meta.uid() != user || meta.mode() & 0o077 != 0 {
            return Err(foreign("it is not a file of this user alone"));
        }
        let Some(len) = lens.iter().copied().find(|len| *len as u64 == meta.len()) else {
            return Err(foreign("it has another length"));
        };
        Ok((meta.dev(), meta.ino(), len))
    };
    let first = check(std::fs::metadata(&path).map_err(failed("look at"))?)?;
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).map_err(failed("open"))?;
    let mut number = [0; 8];
    file.read_exact_at(&mut number, number_at).map_err(failed("read"))?;
    if check(file.metadata().map_err(failed("look at"))?)? != first || number != name.0[8..] {
        return Err(foreign("it has not the ring's number"));
    }
    Mapping::of(&file, first.2).map_err(failed("map"))
}

//! Ring files: made, mapped and unlinked. The unsafe part of the Cooperative mode but for the copying.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use netmod_core::card::NodeSection;

use super::RingError;
use crate::cookie::{Place, RingName};

/// Where ring files are made: a file system in memory that every process of a node sees.
const FOLDER: &str = "/dev/shm";

/// Where this process's shared memory is.
///
/// # Errors
/// If there is none.
pub fn place_here() -> Result<Place, RingError> {
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
    Ok(Place { boot: node.boot_id, device: folder.dev(), user })
}

/// The file of a ring.
pub(super) fn path_of(name: RingName) -> PathBuf {
    let hex: String = name.0.iter().map(|b| format!("{b:02x}")).collect();
    Path::new(FOLDER).join(format!("netmod-ring-{hex}"))
}

/// A mapping of a whole file, shared.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; what is read and written through it is
// the business of who holds it, and there is one holder.
unsafe impl Send for Mapping {}

impl Mapping {
    /// First byte, on a page boundary. Readable and writable for [`Mapping::len`] bytes while the mapping lives.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn of(file: &File, len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED;
        // SAFETY: a new mapping at an address that the kernel chooses, of a live descriptor.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(base) if at != libc::MAP_FAILED => Ok(Mapping { base, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `of` with this length, and unmapped once. Nothing that points into it outlives its holder.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A file that is unlinked when this is dropped, if the peer has not done so.
#[derive(Debug)]
pub(super) struct Named(CString);

impl Drop for Named {
    fn drop(&mut self) {
        // SAFETY: a live, terminated string. The peer unlinks the file as a rule, so that a failure is expected.
        unsafe { libc::unlink(self.0.as_ptr()) };
    }
}

/// Makes a file of `len` zero bytes, for this user alone, whose memory is there, and maps it.
pub(super) fn create(name: RingName, len: usize) -> Result<(Mapping, Named), RingError> {
    let path = path_of(name);
    let failed = |what, hint| {
        let path = path.display().to_string();
        move |source| RingError::System { what, path, source, hint }
    };
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(
            failed("create", "large messages go through the network module; is /dev/shm writable?"),
        )?;
    let named = CString::new(path.as_os_str().as_encoded_bytes())
        .map(Named)
        .map_err(|e| failed("create", "its name has a zero byte")(e.into()))?;
    // Not by ftruncate alone: memory that is not there when it is written to ends the process (SIGBUS).
    // SAFETY: a live descriptor.
    let e = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) };
    if e != 0 {
        let hint = "large messages go through the network module; is /dev/shm large enough (df /dev/shm)?";
        return Err(failed("allocate memory for", hint)(io::Error::from_raw_os_error(e)));
    }
    let map = Mapping::of(&file, len).map_err(failed(
        "map",
        "large messages go through the network module; is memory limited (ulimit -v)?",
    ))?;
    Ok((map, named))
}

/// Maps the file of a peer on this node, which is `len` bytes long, and unlinks it: both have it now.
pub(super) fn open(name: RingName, len: usize) -> Result<Mapping, RingError> {
    let path = path_of(name);
    let failed = |what| {
        let path = path.display().to_string();
        let hint = "do both processes see the same /dev/shm, as the same user?";
        move |source| RingError::System { what, path, source, hint }
    };
    let foreign = |why| RingError::Foreign { path: path.display().to_string(), why };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(&path)
        .map_err(failed("open"))?;
    let meta = file.metadata().map_err(failed("look at"))?;
    // SAFETY: geteuid has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    if !meta.is_file() || meta.uid() != user || meta.mode() & 0o077 != 0 {
        return Err(foreign("it is not a file of this user alone"));
    }
    if meta.len() != len as u64 {
        return Err(foreign("it has another length"));
    }
    let map = Mapping::of(&file, len).map_err(failed("map"))?;
    std::fs::remove_file(&path).map_err(failed("unlink"))?;
    Ok(map)
}

//! Errors of the file system as errors of MPI.

use std::io;

use crate::error::{Class, MpiError};

/// Returns the class of an error, and the way out.
fn meaning(e: &io::Error) -> (Class, &'static str) {
    match e.raw_os_error().unwrap_or(0) {
        libc::ENOSPC => (Class::NO_SPACE, "free space on the device, or write elsewhere"),
        libc::EDQUOT => (Class::QUOTA, "delete files, or ask for a larger quota"),
        libc::EROFS => (Class::READ_ONLY, "the file system is mounted read-only: write elsewhere"),
        libc::EACCES | libc::EPERM => (Class::ACCESS, "check the permissions of the file and its folder"),
        libc::ENOENT => (Class::NO_SUCH_FILE, "check the name, or open it with MPI_MODE_CREATE"),
        libc::EEXIST => (Class::FILE_EXISTS, "delete it, or open it without MPI_MODE_EXCL"),
        libc::EISDIR | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG | libc::EINVAL => {
            (Class::BAD_FILE, "give the name of a file")
        }
        libc::ETXTBSY | libc::EBUSY => (Class::FILE_IN_USE, "close it elsewhere first"),
        libc::EFBIG => {
            (Class::IO, "the file system or the limit of the process (ulimit -f) has no longer files")
        }
        libc::EMFILE | libc::ENFILE => {
            (Class::IO, "close files, or raise the limit of descriptors (ulimit -n)")
        }
        _ => (Class::IO, "look at the device and the log of the system"),
    }
}

/// Returns the error of an operation on a file, which `what` names as "writing 8 bytes at 0".
#[cold]
pub(super) fn failed(name: &str, what: &str, e: &io::Error) -> Box<MpiError> {
    let (class, way_out) = meaning(e);
    // An argument of an access cannot be the file's name.
    let class = if class == Class::BAD_FILE && !what.starts_with("opening") { Class::IO } else { class };
    MpiError::new(class, format!("file {name}: {what}: {e}; {way_out}"))
}

/// Returns the error of a lock.
#[cold]
pub(super) fn not_locked(name: &str, e: &io::Error) -> Box<MpiError> {
    let text = format!(
        "file {name}: locking a part of it: {e}; atomic mode, shared file pointers and data sieving need a file \
         system with locks"
    );
    MpiError::new(Class::IO, text)
}

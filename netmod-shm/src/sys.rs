//! System calls: the files that ranks share, locks that end with their process, the pipe that
//! wakes.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU32;

use netmod_core::IoVec;

/// Offset of the byte in the segment's file that rank number 0 of the segment locks: beyond any
/// content.
const LOCKS_AT: i64 = 1 << 40;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The effective user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// A new file in a folder, without a name, for this user alone.
pub(crate) fn create_unnamed(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(folder)
}

/// Opens a file that another process of this user may have made.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Gives an unnamed file a name that nobody has.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if somebody has.
pub(crate) fn name(file: &File, path: &Path) -> io::Result<()> {
    let from = std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let link = |from_dir, from: &std::ffi::CStr, flags| {
        // SAFETY: two strings that end with zero and outlive the call.
        check(unsafe { libc::linkat(from_dir, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags) })
    };
    match link(libc::AT_FDCWD, &from, libc::AT_SYMLINK_FOLLOW) {
        // /proc is that of another PID namespace. By the descriptor itself not every user may, on
        // every kernel.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            link(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH).map(|_| ()).map_err(|_| e)
        }
        result => result.map(|_| ()),
    }
}

/// Reserves memory for the first `len` bytes of a file, so that touching them never fails.
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    let len = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    loop {
        // SAFETY: a live descriptor and numbers.
        match check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| ()),
        }
    }
}

fn byte_lock(rank: u32) -> libc::flock {
    // SAFETY: `flock` of zeros is a valid value of the C struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = LOCKS_AT + i64::from(rank);
    lock.l_len = 1;
    lock
}

/// Locks a rank's byte until the file is closed, by whatever end of the process.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if somebody else has it.
pub(crate) fn lock_rank(file: &File, rank: u32) -> io::Result<()> {
    let lock = byte_lock(rank);
    // SAFETY: a live descriptor and a struct that outlives the call, which only reads it.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) }).map(|_| ())
}

/// Returns true if another process holds the lock of a rank's byte.
pub(crate) fn is_rank_locked(file: &File, rank: u32) -> io::Result<bool> {
    let mut lock = byte_lock(rank);
    // SAFETY: a live descriptor and a struct of our own that the call may write.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) })?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Returns the PID namespace of this process; 0 if it is unknown.
pub(crate) fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// Sleeps while a word that other processes see has this value, until somebody wakes those who wait
/// for it, or for no reason (`futex(2)`).
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    let forever: *const libc::timespec = std::ptr::null();
    // SAFETY: the address of a live, aligned word; whatever the call says, the caller looks at the
    // word again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, forever) };
}

/// Wakes those who wait for a word.
pub(crate) fn wake_waiters(word: &AtomicU32) {
    // SAFETY: the address of a live, aligned word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// A transfer between the memory of this process and that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// Out of the other.
    Read,
    /// Into the other.
    Write,
}

/// Copies pieces of this process's memory from or to pieces of process `pid`'s
/// (`process_vm_readv(2)`); returns the bytes copied.
///
/// # Errors
/// That of the system: the process may be gone, or this one may not.
pub(crate) fn attach(how: Attach, pid: u32, ours: &[IoVec], theirs: &[IoVec]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (near, far) = (vectors(ours), vectors(theirs));
    let (n, m) = (ours.len().min(PIECES) as libc::c_ulong, theirs.len().min(PIECES) as libc::c_ulong);
    // SAFETY: the pieces here are registered, or of a segment, and so lent under the contract of
    // `netmod_core::buf` (readable; writable if they are read into), or memory of the caller's own.
    // The other addresses mean nothing in this process.
    let moved = unsafe {
        match how {
            Attach::Read => libc::process_vm_readv(pid, near.as_ptr(), n, far.as_ptr(), m, 0),
            Attach::Write => libc::process_vm_writev(pid, near.as_ptr(), n, far.as_ptr(), m, 0),
        }
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Most pieces on each side of a copy between processes.
pub(crate) const PIECES: usize = 33;

fn vectors(pieces: &[IoVec]) -> [libc::iovec; PIECES] {
    let mut all = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES];
    for (to, piece) in all.iter_mut().zip(pieces) {
        *to = libc::iovec { iov_base: piece.base.cast(), iov_len: piece.len };
    }
    all
}

/// The place where others find the pipe that wakes a process: `/proc/<pid>/fd/<fd>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipeName {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    /// Identity of the pipe, so that another one in its place is not taken for it.
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

/// The pipe by which this process is woken.
#[derive(Debug)]
pub(crate) struct Pipe {
    read: File,
    /// Keeps the other end open, so that the pipe never looks closed.
    write: File,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Pipe> {
        let mut fds = [0; 2];
        // SAFETY: room for two descriptors.
        check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        // SAFETY: two new descriptors that nobody else owns.
        let [read, write] = fds.map(|fd| unsafe { File::from_raw_fd(fd) });
        Ok(Pipe { read, write })
    }

    /// Returns a handle by which this process itself makes it readable.
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        self.write.try_clone().map(Waker)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    pub(crate) fn name(&self) -> io::Result<PipeName> {
        let meta = self.read.metadata()?;
        Ok(PipeName {
            pid: std::process::id(),
            fd: self.read.as_raw_fd() as u32,
            inode: meta.ino(),
            device: meta.dev(),
        })
    }

    /// Takes out what is in it.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 64];
        // Nothing there is the ordinary end.
        while matches!(self.read.read(&mut bytes), Ok(n) if n == bytes.len()) {}
    }
}

/// The other end of another process's pipe.
#[derive(Debug)]
pub(crate) struct Waker(File);

impl Waker {
    /// Opens the pipe of this name.
    ///
    /// # Errors
    /// If it cannot be found from here, as from another PID namespace.
    pub(crate) fn open(name: &PipeName) -> io::Result<Waker> {
        let path = format!("/proc/{}/fd/{}", name.pid, name.fd);
        // The path may name anything by now; it is only opened for good if it is the pipe.
        let meta = std::fs::metadata(&path)?;
        if (meta.ino(), meta.dev()) != (name.inode, name.device) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another process has this number here"));
        }
        // For reading, too: then writing is never a SIGPIPE, which a program need not ignore.
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
        let meta = file.metadata()?;
        if (meta.ino(), meta.dev()) != (name.inode, name.device) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another process has this number here"));
        }
        Ok(Waker(file))
    }

    /// Makes the pipe readable. One that is full is; one that is closed has nobody to wake.
    pub(crate) fn wake(&self) {
        let _ = (&self.0).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_found_by_its_name_and_by_no_other() {
        let mut pipe = Pipe::new().unwrap();
        let name = pipe.name().unwrap();
        let waker = Waker::open(&name).unwrap();
        waker.wake();
        let mut byte = [0; 2];
        assert_eq!(pipe.read.read(&mut byte).unwrap(), 1);
        waker.wake();
        pipe.drain();
        assert_eq!(pipe.read.read(&mut byte).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(Waker::open(&PipeName { inode: name.inode + 1, ..name }).is_err());
        drop(pipe);
        assert!(Waker::open(&name).is_err());
    }

    #[test]
    fn a_lock_ends_with_its_file() {
        let a = create_unnamed(Path::new("/dev/shm")).unwrap();
        let b = open_existing(Path::new(&format!("/proc/self/fd/{}", a.as_raw_fd())));
        // A link of /proc is not followed; by its own path it can be opened again.
        assert!(b.is_err());
        let b =
            File::options().read(true).write(true).open(format!("/proc/self/fd/{}", a.as_raw_fd())).unwrap();
        assert!(!is_rank_locked(&b, 3).unwrap());
        lock_rank(&a, 3).unwrap();
        assert!(is_rank_locked(&b, 3).unwrap());
        assert!(!is_rank_locked(&b, 2).unwrap());
        assert!(lock_rank(&b, 3).is_err());
        drop(a);
        assert!(!is_rank_locked(&b, 3).unwrap());
    }
}

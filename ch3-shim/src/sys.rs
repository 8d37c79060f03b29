//! System calls of waiting: on several descriptors, on several as one, and being woken; of the
//! thread that sends what is staged; of memory that processes share; and of a process's end.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use memmap2::MmapRaw;

/// The descriptors that have become readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// One of the descriptors or more.
    pub(crate) any: bool,
    /// The first one.
    pub(crate) first: bool,
}

/// Waits until one of the descriptors is readable or the time is over (`ppoll(2)`). A signal ends
/// the wait early.
pub(crate) fn wait_readable(fds: &[RawFd], timeout: Duration) -> io::Result<Ready> {
    // Few descriptors, usually a netmod's and the process manager's, need no allocation.
    let mut few = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 8];
    let mut many = Vec::new();
    let polled = match few.get_mut(..fds.len()) {
        Some(few) => few,
        None => {
            many.resize(fds.len(), few[0]);
            &mut many[..]
        }
    };
    for (p, fd) in polled.iter_mut().zip(fds) {
        p.fd = *fd;
    }
    let ts =
        libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: `polled` is a live array of its length, `ts` a live struct; no signal mask is given.
    let n = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &ts, std::ptr::null()) };
    if n >= 0 {
        return Ok(Ready { any: n > 0, first: polled.first().is_some_and(|p| p.revents != 0) });
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::Interrupted => Ok(Ready::default()),
        e => Err(e),
    }
}

/// Sends to a socket (`send(2)`) without waiting and, if nobody reads it any more, without a
/// SIGPIPE: the program may be one that does not ignore that.
pub(crate) fn send_quietly(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is live and of its length.
    let n = unsafe {
        libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Ends this process at once, without what was registered for its exit.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: a number; it does not return.
    unsafe { libc::_exit(code) }
}

/// Listens at a new Unix socket to which nobody but this user can connect, from its first moment
/// on: Linux gives it the mode of the descriptor when it is bound (`unix(7)`), less the umask.
pub(crate) fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let name = path.as_os_str().as_bytes();
    // SAFETY: all zeros is an address.
    let mut at: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    at.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if name.len() >= at.sun_path.len() || name.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a socket"));
    }
    for (to, from) in at.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // SAFETY: takes no memory.
    let fd = owned(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    let check = |r: libc::c_int| if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: a live descriptor.
    check(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
    // SAFETY: a live descriptor, and a live address of the length that is passed.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const at).cast(), len) })?;
    // SAFETY: a live descriptor.
    check(unsafe { libc::listen(fd.as_raw_fd(), 128) })?;
    Ok(UnixListener::from(fd))
}

/// Takes over the descriptor that a system call has returned.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that is readable when one of several others is (`epoll(7)`, level-triggered).
#[derive(Debug)]
pub(crate) struct WaitSet(OwnedFd);

impl WaitSet {
    /// One that is never readable.
    pub(crate) fn new() -> io::Result<WaitSet> {
        // SAFETY: takes no memory.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(WaitSet)
    }

    /// Adds a descriptor, until it is closed.
    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut ev = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `ev` is a live value of the type that the call reads.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut ev) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for WaitSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that one thread makes readable to wake another (`eventfd(2)`).
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: takes no memory.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(EventFd)
    }

    /// Makes it readable.
    pub(crate) fn signal(&self) {
        let one = 1u64;
        // It fails only if it has been readable for 2^64 - 2 signals.
        // SAFETY: the call reads the 8 bytes of `one`.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable. Returns true if it was readable.
    pub(crate) fn drain(&self) -> bool {
        let mut count = 0u64;
        // It fails only if it was not readable.
        // SAFETY: the call fills the 8 bytes of `count`.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) == 8 }
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Returns true if [`fence_threads`] works (`membarrier(2)`, Linux 4.14). Asked of the kernel once.
pub(crate) fn can_fence_threads() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
}

/// Puts a full fence into every running thread of the process.
///
/// # Panics
/// If the kernel refuses what it has promised to [`can_fence_threads`].
pub(crate) fn fence_threads() {
    // A forked child registers again.
    let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert!(fenced, "membarrier: {}", io::Error::last_os_error());
}

/// Registers this process for [`fence_processes`] (Linux 4.16). False where the kernel has no such
/// fence.
pub(crate) fn register_for_fences() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED))
}

/// Puts a full fence into every running thread of all registered processes. False if the kernel
/// refuses.
pub(crate) fn fence_processes() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

fn membarrier(command: i32) -> bool {
    // SAFETY: takes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Makes an empty file that is memory and has no name (`memfd_create(2)`), but one that `/proc`
/// shows.
pub(crate) fn memory_file(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a live string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which is nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Lets nobody change the size of a memory file any more.
pub(crate) fn seal_size(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor and a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the word at byte `at` of a mapping.
///
/// # Panics
/// If it is not within the mapping, or not aligned.
#[inline]
pub(crate) fn word_of(map: &MmapRaw, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at < map.len() && map.len() - at >= 8, "no word there");
    // SAFETY: within the mapping, which lives as long as the result and starts at a page. Whoever
    // else has this memory uses it as atomic words, too, or not while it is used as words.
    unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(at).cast()) }
}

/// The calling thread's short sleeps end when they should: the kernel does not round them up.
pub(crate) fn wake_on_time() {
    let nanoseconds: libc::c_ulong = 1000;
    // It fails for no thread of its own process.
    // SAFETY: takes no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0) };
}

/// Calls `f` with all signals blocked in this thread, such as for threads that it starts.
pub(crate) fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills `all`, the second reads it and fills `before`; they fail only
    // for bad arguments.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = f();
    if blocked {
        // SAFETY: the call above has filled `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn nobody_else_can_connect_to_a_socket() {
        let path = std::env::temp_dir().join(format!("netmod-private-{}.sock", std::process::id()));
        let listener = listen_privately(&path).expect("a socket");
        let mode = std::fs::symlink_metadata(&path).expect("it is there").mode() & 0o7777;
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok() && listener.accept().is_ok());
        let again = listen_privately(&path).map(drop).map_err(|e| e.kind());
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!((mode & 0o077, again), (0, Err(io::ErrorKind::AddrInUse)));
        assert!(listen_privately(&path.join("x".repeat(200))).is_err());
    }
}

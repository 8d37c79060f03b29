//! Signals as bytes in a pipe, while a launcher forwards them.

use super::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptor that the handler writes to; -1 if there is none.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);

const FORWARDED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP];

/// The sender of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, for a terminal: the whole process group gets it.
    Terminal,
    /// A process.
    Other,
}

/// Added to a signal's number in the pipe if the kernel has sent it.
const BY_KERNEL: u8 = 0x80;

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let fd = WRITE_END.load(Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo_t.
        let code = unsafe { (*info).si_code };
        let byte = signal as u8 | if code == libc::SI_KERNEL { BY_KERNEL } else { 0 };
        // SAFETY: errno is thread-local, and a handler must preserve it. write(2) is
        // async-signal-safe, and reads the one byte given. If the pipe is full it fails, but then a
        // signal is waiting to be read anyway.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            libc::write(fd, (&raw const byte).cast(), 1);
            *errno = saved;
        }
    }
}

/// Catches SIGINT, SIGTERM, SIGQUIT and SIGHUP, unless ignored, and possibly another signal, until
/// dropped.
///
/// A process has at most one.
#[derive(Debug)]
pub(crate) struct SignalPipe {
    read: OwnedFd,
    write: OwnedFd,
    former: Vec<(libc::c_int, SavedAction)>,
}

struct SavedAction(libc::sigaction);

impl std::fmt::Debug for SavedAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SavedAction")
    }
}

impl SignalPipe {
    /// Starts catching, with `another` signal if given.
    pub(crate) fn new(another: Option<i32>) -> io::Result<SignalPipe> {
        let mut fds = [-1; 2];
        // SAFETY: `fds` has room for the two descriptors.
        check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        // SAFETY: the call has just created both descriptors, nobody else owns them.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        WRITE_END
            .compare_exchange(-1, write.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst)
            .map_err(|_| io::Error::other("another launcher of this process forwards signals"))?;
        let mut pipe = SignalPipe { read, write, former: Vec::new() };
        for signal in FORWARDED.into_iter().filter(|s| Some(*s) != another) {
            pipe.catch(signal, false)?;
        }
        if let Some(signal) = another {
            pipe.catch(signal, true)?;
        }
        Ok(pipe)
    }

    /// Catches a signal.
    ///
    /// An ignored one, as in background jobs and under nohup, is caught only if it is `wanted`.
    fn catch(&mut self, signal: libc::c_int, wanted: bool) -> io::Result<()> {
        // SAFETY: sigaction is plain data, all zeroes is a valid value of it; the handler is
        // async-signal-safe (see there).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                handler as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            libc::sigemptyset(&mut action.sa_mask);
            let mut former: libc::sigaction = std::mem::zeroed();
            check(libc::sigaction(signal, std::ptr::null(), &mut former))?;
            if !wanted && former.sa_sigaction == libc::SIG_IGN {
                return Ok(());
            }
            check(libc::sigaction(signal, &action, std::ptr::null_mut()))?;
            self.former.push((signal, SavedAction(former)));
        }
        Ok(())
    }

    /// Returns the next signal caught, if any, and its sender.
    pub(crate) fn take(&self) -> Option<(i32, Sender)> {
        let mut byte = [0u8];
        let [byte] = matches!(super::read(self.read.as_fd(), &mut byte), Ok(1)).then_some(byte)?;
        let sender = if byte & BY_KERNEL == 0 { Sender::Other } else { Sender::Terminal };
        Some((i32::from(byte & !BY_KERNEL), sender))
    }

    /// Returns a descriptor that is readable when a signal was caught.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for (signal, former) in self.former.drain(..) {
            // SAFETY: `former` is what an earlier sigaction call gave for this signal.
            unsafe { libc::sigaction(signal, &former.0, std::ptr::null_mut()) };
        }
        // A handler that has loaded the descriptor already may still write one byte to it as it is
        // closed; at worst that byte is lost.
        WRITE_END.compare_exchange(self.write.as_raw_fd(), -1, Ordering::SeqCst, Ordering::SeqCst).ok();
    }
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// Makes SIGUSR1 do nothing, unless the process has set it otherwise.
///
/// It gets a handler: programs started later would inherit "ignore".
pub(crate) fn defuse_sigusr1() -> io::Result<()> {
    // SAFETY: sigaction is plain data, all zeroes is a valid value of it; the handler does
    // nothing, so it is async-signal-safe; both calls only use the structures given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        check(libc::sigaction(libc::SIGUSR1, std::ptr::null(), &mut action))?;
        if action.sa_sigaction != libc::SIG_DFL {
            return Ok(());
        }
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        check(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())).map(drop)
    }
}

/// Returns the signal of a word, of those that programs may use for their own purposes.
pub(crate) fn by_name(word: &str) -> Option<i32> {
    match word {
        "usr1" => Some(libc::SIGUSR1),
        "usr2" => Some(libc::SIGUSR2),
        "hup" => Some(libc::SIGHUP),
        "quit" => Some(libc::SIGQUIT),
        _ => None,
    }
}

/// Returns the name of a signal, for messages.
pub(crate) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGSYS => "SIGSYS",
        _ => "another signal",
    }
}

//! Holds back a system call of a thread, so that a test can act between a claim and what follows it
//! (`seccomp_unotify(2)`).

#![allow(unsafe_code)]

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_long, seccomp_data, seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// A system call of one thread that waits each time until another thread lets it go on.
#[derive(Debug)]
pub struct Stall {
    listener: OwnedFd,
}

/// A call that is being held back.
#[derive(Debug)]
#[must_use = "its thread waits until it is let go"]
pub struct Held {
    id: u64,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Stall {
    /// Holds back the calls of this number that the calling thread makes from now on. When the
    /// value is dropped they fail with `ENOSYS`.
    ///
    /// # Errors
    /// If the kernel has no such notifications, or somebody else has asked for them already.
    pub fn this_thread(call: c_long) -> io::Result<Stall> {
        let op = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
        let number = offset_of!(seccomp_data, nr) as u32;
        let mut filter = [
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, number),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: numbers; it concerns this thread alone.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        // SAFETY: the program and its filter outlive the call, which copies them.
        let fd = check(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        })?;
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Stall { listener: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// The call that is being held back, if there is one.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn held(&self) -> io::Result<Option<Held>> {
        let mut fd = libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry that outlives the call.
        if check(unsafe { libc::poll(&raw mut fd, 1, 0) }.into())? == 0 || fd.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        // SAFETY: zeros are a valid value of the C struct, and what the kernel wants to be given.
        let mut call: seccomp_notif = unsafe { std::mem::zeroed() };
        let to = &raw mut call;
        // SAFETY: a live descriptor, and a struct that the kernel fills.
        let told = unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, to) };
        check(told.into())?;
        Ok(Some(Held { id: call.id }))
    }

    /// Lets a call go on.
    ///
    /// # Errors
    /// If its thread has ended.
    pub fn let_go(&self, held: Held) -> io::Result<()> {
        let mut answer = seccomp_notif_resp {
            id: held.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        let from = &raw mut answer;
        // SAFETY: a live descriptor, and a struct that outlives the call.
        let done = unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, from) };
        check(done.into())?;
        Ok(())
    }
}

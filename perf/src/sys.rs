//! The unsafe code: affinity, limits, inherited descriptors, and windows of requests on one buffer.
//! [`shared`] has memory of two processes, [`fabric`] an endpoint of libfabric, [`queue`] a queue
//! pair of verbs.

#![allow(unsafe_code)]

mod buffers;
mod fabric;
mod queue;
mod shared;

pub(crate) use fabric::Fabric;
pub(crate) use queue::{ADDRESS_LEN as QUEUE_ADDRESS_LEN, Queue};
pub(crate) use shared::Shared;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use ch3_shim::{Comm, Device, Mode, RawReq};
use netmod_core::Segment;

/// Destination of messages: rank, tag and communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To {
    /// Rank of the peer.
    pub(crate) peer: i32,
    /// Tag of the messages.
    pub(crate) tag: i32,
    /// Their communicator.
    pub(crate) comm: Comm,
}

/// Zeroed memory that starts on a page boundary.
#[derive(Debug)]
pub(crate) struct PageBuf {
    mem: NonNull<u8>,
    layout: Layout,
}

impl PageBuf {
    const PAGE: usize = 4096;

    /// Allocates `len` bytes, at least one page.
    pub(crate) fn new(len: usize) -> PageBuf {
        let layout = Layout::from_size_align(len.max(Self::PAGE), Self::PAGE)
            .expect("the command line takes no sizes near half the address space");
        // SAFETY: the size is not zero.
        let mem = unsafe { alloc_zeroed(layout) };
        PageBuf { mem: NonNull::new(mem).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }
}

impl Deref for PageBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is ours, initialised, and of that size.
        unsafe { std::slice::from_raw_parts(self.mem.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for PageBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.mem.as_ptr(), self.layout.size()) }
    }
}

impl Drop for PageBuf {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.mem.as_ptr(), self.layout) };
    }
}

/// One send buffer, one receive buffer, and windows of requests on them.
///
/// As in the OSU benchmarks, all requests of a window use the same memory. So the result is about
/// the transport, not about the cache misses of a program that uses more memory.
#[derive(Debug)]
pub(crate) struct Traffic {
    send: Option<PageBuf>,
    recv: Option<PageBuf>,
    reqs: Vec<RawReq>,
    /// True while requests may be in flight: the memory must not be accessed or freed.
    lent: bool,
}

impl Traffic {
    /// Makes buffers of `len` bytes for windows of at most `window` messages.
    pub(crate) fn new(len: usize, window: usize) -> Traffic {
        Traffic {
            send: Some(PageBuf::new(len)),
            recv: Some(PageBuf::new(len)),
            reqs: Vec::with_capacity(2 * window),
            lent: false,
        }
    }

    /// Returns the send buffer and the receive buffer.
    ///
    /// # Errors
    /// If the requests of a failed window may still use them.
    pub(crate) fn buffers(&mut self) -> io::Result<(&mut [u8], &mut [u8])> {
        match (&mut self.send, &mut self.recv) {
            (Some(s), Some(r)) if !self.lent => Ok((&mut s[..], &mut r[..])),
            _ => Err(io::Error::other("the buffers are in use by a window of messages that failed")),
        }
    }

    /// Sends `sends` and receives `recvs` messages of `len` bytes, all at once. Returns when all
    /// are complete.
    ///
    /// # Errors
    /// If a message fails; the buffers are then unusable.
    #[inline]
    pub(crate) fn window(
        &mut self,
        dev: &mut Device,
        to: To,
        len: usize,
        sends: usize,
        recvs: usize,
    ) -> ch3_shim::Result<()> {
        let (Ok((send, recv)), To { peer, tag, comm }) = (self.buffers(), to) else {
            return Err(ch3_shim::Error::Usage("the buffers of a failed window cannot be used again".into()));
        };
        let (send, recv) = (&mut send[..len], &mut recv[..len]);
        let (send, recv) = (send.as_mut_ptr(), recv.as_mut_ptr());
        self.lent = true;
        self.reqs.clear();
        for _ in 0..recvs {
            // SAFETY: `len` bytes that this object owns. While `lent` is set, until all requests
            // are complete, nobody accesses them through a reference or frees them. Several
            // receives may name them: all writes go through this one pointer, one message after
            // another, so only the content is arbitrary.
            let seg = unsafe { Segment::contig(recv, len) };
            let req = dev.irecv_raw(seg, peer, tag, comm)?;
            self.reqs.push(req);
        }
        for _ in 0..sends {
            // SAFETY: `len` bytes that this object owns. Nobody writes to them or frees them before
            // all requests are complete: see `lent` above.
            let seg = unsafe { Segment::contig(send, len) };
            let req = dev.isend_raw(seg, peer, tag, comm, Mode::Standard)?;
            self.reqs.push(req);
        }
        dev.wait_all_raw(&mut self.reqs, None)?;
        self.lent = false;
        Ok(())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if self.lent {
            // Incomplete requests may still use the memory, so it is leaked.
            std::mem::forget((self.send.take(), self.recv.take()));
        }
    }
}

/// Returns the processors that this process may run on (`sched_getaffinity(2)`).
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: a `cpu_set_t` of zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and of the size that is passed.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every index is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&i| unsafe { libc::CPU_ISSET(i, &set) }).collect())
}

/// Binds this process to one processor (`sched_setaffinity(2)`).
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a `cpu_set_t` of zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index was checked above.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is ours and of the size that is passed.
    let rc = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a descriptor inheritable by children.
pub(crate) fn inherit(fd: &impl AsRawFd) -> io::Result<RawFd> {
    let fd = fd.as_raw_fd();
    // SAFETY: changes a flag of a descriptor that the caller owns.
    let rc = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    if rc == 0 { Ok(fd) } else { Err(io::Error::last_os_error()) }
}

/// A limit of `getrlimit(2)`: soft and hard, `None` for unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The soft limit, which is in force.
    pub(crate) soft: Option<u64>,
    /// The hard limit, up to which the soft limit can be raised.
    pub(crate) hard: Option<u64>,
}

fn limit(resource: libc::__rlimit_resource_t) -> io::Result<Limit> {
    let mut l = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is ours.
    if unsafe { libc::getrlimit(resource, &mut l) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let known = |v: libc::rlim_t| (v != libc::RLIM_INFINITY).then_some(v);
    Ok(Limit { soft: known(l.rlim_cur), hard: known(l.rlim_max) })
}

/// Returns the limit of descriptors (`RLIMIT_NOFILE`).
pub(crate) fn descriptor_limit() -> io::Result<Limit> {
    limit(libc::RLIMIT_NOFILE)
}

/// Raises the soft limit of descriptors to `need`, if it is lower.
///
/// # Errors
/// If the hard limit is lower, or the system refuses.
pub(crate) fn raise_descriptor_limit(need: u64) -> io::Result<()> {
    let have = descriptor_limit()?;
    if have.soft.is_none_or(|s| s >= need) {
        return Ok(());
    }
    if let Some(hard) = have.hard
        && hard < need
    {
        return Err(io::Error::other(format!("the hard limit is {hard}")));
    }
    let l = libc::rlimit { rlim_cur: need, rlim_max: have.hard.unwrap_or(libc::RLIM_INFINITY) };
    // SAFETY: the struct is ours, and only read.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &l) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the bytes allocated by the C library, including its headers (`mallinfo2(3)`); `None`
/// with another C library.
pub(crate) fn heap_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes no arguments and returns plain integers.
        let m = unsafe { libc::mallinfo2() };
        Some((m.uordblks + m.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// Returns the limit of locked memory in bytes (`RLIMIT_MEMLOCK`).
pub(crate) fn memlock_limit() -> io::Result<Limit> {
    limit(libc::RLIMIT_MEMLOCK)
}

/// Returns size and free bytes of the file system at `path` (`statvfs(3)`).
pub(crate) fn file_system(path: &std::ffi::CStr) -> io::Result<(u64, u64)> {
    // SAFETY: the struct of zeros is a valid value of plain integers.
    let mut s: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte; the struct is ours.
    if unsafe { libc::statvfs(path.as_ptr(), &mut s) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize))
}

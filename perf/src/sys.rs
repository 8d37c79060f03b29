//! The unsafe part: affinity, limits, inherited descriptors, and windows of requests on one buffer; `shared` has memory
//! of two processes, `fabric` an endpoint of libfabric, `queue` a queue pair
//! of verbs.

#![allow(unsafe_code)]

mod buffers;
mod fabric;
mod queue;
mod shared;

pub(crate) use fabric::Fabric;
pub(crate) use queue::{Queue, WORDS as QUEUE_WORDS};
pub(crate) use shared::Shared;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use ch3_shim::{Comm, Device, Mode, RawReq};
use netmod_core::Segment;

/// Where the peer is: its rank, and the tag and communicator of the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To {
    /// Rank of the peer.
    pub(crate) peer: i32,
    /// Tag of the messages.
    pub(crate) tag: i32,
    /// Their communicator.
    pub(crate) comm: Comm,
}

/// Memory that starts on a page of its own, zeroed.
#[derive(Debug)]
pub(crate) struct PageBuf {
    mem: NonNull<u8>,
    layout: Layout,
}

impl PageBuf {
    const PAGE: usize = 4096;

    /// `len` bytes (one page at least).
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

/// One buffer to send from, one to receive into, and windows of requests on them.
///
/// As in the OSU benchmarks, all requests of a window name the same memory: what is measured is the
/// transport, not the cache misses of a program that uses more memory.
#[derive(Debug)]
pub(crate) struct Traffic {
    send: Option<PageBuf>,
    recv: Option<PageBuf>,
    reqs: Vec<RawReq>,
    /// Requests may be under way: the memory must not be touched or freed.
    lent: bool,
}

impl Traffic {
    /// Buffers of `len` bytes; a window has at most `window` messages.
    pub(crate) fn new(len: usize, window: usize) -> Traffic {
        Traffic {
            send: Some(PageBuf::new(len)),
            recv: Some(PageBuf::new(len)),
            reqs: Vec::with_capacity(2 * window),
            lent: false,
        }
    }

    /// Both buffers, to send from and to receive into.
    ///
    /// # Errors
    /// If requests of a window that failed may still use them.
    pub(crate) fn buffers(&mut self) -> io::Result<(&mut [u8], &mut [u8])> {
        match (&mut self.send, &mut self.recv) {
            (Some(s), Some(r)) if !self.lent => Ok((&mut s[..], &mut r[..])),
            _ => Err(io::Error::other("the buffers are in use by a window of messages that failed")),
        }
    }

    /// Sends `sends` messages of `len` bytes and receives `recvs`, all at once; returns when all are done.
    ///
    /// # Errors
    /// Of a message; the buffers are then lost.
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
            // SAFETY: `len` bytes of ours; while `lent` is set, which is until all requests are finished, nobody
            // touches them through a reference or frees them. Several receives may name them: all writes go
            // through this one pointer, one message after another, so only the content is arbitrary.
            let seg = unsafe { Segment::contig(recv, len) };
            let req = dev.irecv_raw(seg, peer, tag, comm)?;
            self.reqs.push(req);
        }
        for _ in 0..sends {
            // SAFETY: the memory is `len` bytes of ours, which nobody writes to, and which are not freed, before all requests are finished: see
            // `lent` above.
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
            // Requests that were never finished may still use the memory: it stays.
            std::mem::forget((self.send.take(), self.recv.take()));
        }
    }
}

/// The processors that this process may run on (`sched_getaffinity(2)`).
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

/// Lets children inherit a descriptor.
pub(crate) fn inherit(fd: &impl AsRawFd) -> io::Result<RawFd> {
    let fd = fd.as_raw_fd();
    // SAFETY: changes a flag of a descriptor that the caller owns.
    let rc = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
    if rc == 0 { Ok(fd) } else { Err(io::Error::last_os_error()) }
}

/// A limit of `getrlimit(2)`: soft and hard, `None` for unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// In force.
    pub(crate) soft: Option<u64>,
    /// As far as it can be raised.
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

/// Descriptors (`RLIMIT_NOFILE`).
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

/// Bytes that the C library's allocator has handed out, its headers included (`mallinfo2(3)`); `None` with
/// another C library.
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

/// Bytes of memory that may be locked (`RLIMIT_MEMLOCK`).
pub(crate) fn memlock_limit() -> io::Result<Limit> {
    limit(libc::RLIMIT_MEMLOCK)
}

/// Size and free bytes of the file system at `path` (`statvfs(3)`).
pub(crate) fn file_system(path: &std::ffi::CStr) -> io::Result<(u64, u64)> {
    // SAFETY: the struct of zeros is a valid value of plain integers.
    let mut s: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte; the struct is ours.
    if unsafe { libc::statvfs(path.as_ptr(), &mut s) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize))
}

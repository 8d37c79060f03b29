//! System calls with raw memory: the unsafe part of this crate.
//!
//! Everything else here is safe Rust over these wrappers. Errors are `io::Error`; `WouldBlock` is
//! turned into `None` where it is the ordinary case.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

use netmod_core::{IoVec, RxBuf};
use socket2::Socket;

/// Most iovecs in one call that we use (the kernel takes 1,024).
pub(crate) const MAX_IOV: usize = 64;

/// Most bytes that Linux moves in one call.
const MAX_RW: usize = 0x7fff_f000;

/// Result of a non-blocking transfer: `None` if nothing could move now.
pub(crate) type Moved = io::Result<Option<usize>>;

#[inline]
fn moved(n: isize) -> Moved {
    if n >= 0 {
        return Ok(Some(n as usize));
    }
    failed()
}

#[cold]
fn failed() -> Moved {
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        _ => Err(e),
    }
}

/// Sends bytes of ours (`send(2)`).
#[inline]
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> Moved {
    // SAFETY: the pointer and the length are those of a live slice; the kernel only reads.
    moved(unsafe {
        libc::send(
            fd,
            bytes.as_ptr().cast(),
            bytes.len().min(MAX_RW),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    })
}

/// Sends pieces that were lent under the contract of `netmod_core::buf`, or are ours
/// (`sendmsg(2)`).
///
/// The kernel caps one call at about 2 GiB; a shorter result is the ordinary case for callers.
#[inline]
pub(crate) fn send_iov(fd: RawFd, iov: &[IoVec]) -> Moved {
    // SAFETY: `msghdr` of zeros is a valid value of the C struct.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = iov.as_ptr().cast_mut().cast();
    msg.msg_iovlen = iov.len() as _;
    // SAFETY: `IoVec` is laid out as `struct iovec`; each piece is readable until its request is
    // finished (contract of `netmod_core::buf`), and the kernel does not write to the list.
    moved(unsafe { libc::sendmsg(fd, &msg, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) })
}

/// Cuts `iov` to its first `max` bytes. Returns the number of pieces and of bytes.
pub(crate) fn first(iov: &mut [IoVec], max: usize) -> (usize, usize) {
    let mut bytes = 0;
    for (i, piece) in iov.iter_mut().enumerate() {
        piece.len = piece.len.min(max - bytes);
        bytes += piece.len;
        if bytes == max {
            return (i + 1, bytes);
        }
    }
    (iov.len(), bytes)
}

/// Copies pieces that were lent under the contract of `netmod_core::buf`, or are ours.
pub(crate) fn copy_iov(iov: &[IoVec], out: &mut Vec<u8>) {
    for piece in iov.iter().filter(|p| p.len > 0) {
        // SAFETY: each piece is readable, and not written, until its request is finished (contract
        // of `netmod_core::buf`); the slice does not outlive this turn.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.base, piece.len) });
    }
}

/// Copies bytes to pieces that were lent under the contract of `netmod_core::buf`. Returns their
/// number.
pub(crate) fn scatter(bytes: &[u8], iov: &[IoVec]) -> usize {
    let mut rest = bytes;
    for piece in iov {
        let (now, later) = rest.split_at(piece.len.min(rest.len()));
        copy_to(now, *piece);
        rest = later;
    }
    bytes.len() - rest.len()
}

/// Copies bytes to memory that was lent under the contract of `netmod_core::buf`, and is not
/// shorter.
pub(crate) fn copy_to(bytes: &[u8], mem: IoVec) {
    let n = bytes.len().min(mem.len);
    // SAFETY: the memory is writable and untouched by others until its registration or its request
    // ends (contract of `netmod_core::buf`), so it is none of the slice's, which is shared.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mem.base, n) };
}

/// Returns the CRC32C of memory that was lent under the contract of `netmod_core::buf`.
pub(crate) fn checksum(mem: IoVec) -> u32 {
    if mem.len == 0 {
        return 0;
    }
    // SAFETY: the memory is readable until its registration or its request ends (contract of
    // `netmod_core::buf`), and nobody writes to it within this call: what is received is read by
    // this thread. The slice does not outlive this turn.
    crc32c::crc32c(unsafe { std::slice::from_raw_parts(mem.base, mem.len) })
}

/// Returns the bytes that were handed to the kernel for a connection and have not been sent for the
/// first time.
pub(crate) fn unsent(fd: RawFd) -> usize {
    /// `SIOCOUTQNSD` of `linux/sockios.h`.
    const SIOCOUTQNSD: libc::c_ulong = 0x894B;
    let mut n: libc::c_int = 0;
    // SAFETY: the kernel writes one integer to a live place of its size.
    let done = unsafe { libc::ioctl(fd, SIOCOUTQNSD as _, &raw mut n) };
    if done == 0 { usize::try_from(n).unwrap_or(0) } else { 0 }
}

/// Receives into memory of ours (`recv(2)`). `Some(0)` is the end of the stream.
#[inline]
pub(crate) fn recv(fd: RawFd, buf: &mut [u8]) -> Moved {
    // SAFETY: pointer and length of a live, exclusive slice.
    moved(unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) })
}

/// Receives into pieces lent for a receive, or of an [`RxArena`] (`readv(2)`). The socket is
/// non-blocking.
#[inline]
pub(crate) fn recv_iov(fd: RawFd, iov: &[IoVec]) -> Moved {
    // SAFETY: each piece is writable and untouched by others until its request is finished
    // (contract of `netmod_core::buf`) or is a free part of the arena.
    moved(unsafe { libc::readv(fd, iov.as_ptr().cast(), iov.len() as i32) })
}

/// The receive buffer that all connections of a netmod share.
///
/// Parts are handed out one after another and come back all together before the next poll.
#[derive(Debug)]
pub(crate) struct RxArena {
    mem: NonNull<u8>,
    len: usize,
    used: usize,
    lent: usize,
}

// SAFETY: the arena owns its memory exclusively; parts on loan are governed by `RxBuf`'s contract.
unsafe impl Send for RxArena {}

impl RxArena {
    pub(crate) fn new(len: usize) -> RxArena {
        let mem: Box<[u8]> = vec![0; len].into_boxed_slice();
        RxArena { mem: NonNull::from(Box::leak(mem)).cast(), len, used: 0, lent: 0 }
    }

    /// Starts over if every part has come back; otherwise goes on behind what is lent.
    #[inline]
    pub(crate) fn recycle(&mut self) {
        if self.lent == 0 {
            self.used = 0;
        }
    }

    /// Returns the number of free bytes.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.len - self.used
    }

    /// Returns the free part, at most `max` bytes of it, to be read into.
    #[inline]
    pub(crate) fn free(&mut self, max: usize) -> IoVec {
        // SAFETY: `used <= len`, so the address is in, or one past, the allocation.
        IoVec { base: unsafe { self.mem.as_ptr().add(self.used) }, len: self.room().min(max) }
    }

    /// Receives into the free part (`recv(2)`).
    #[inline]
    pub(crate) fn recv(&mut self, fd: RawFd, max: usize) -> Moved {
        let part = self.free(max);
        // SAFETY: the free part is ours and nobody else's; the kernel writes at most `part.len`.
        moved(unsafe { libc::recv(fd, part.base.cast(), part.len, libc::MSG_DONTWAIT) })
    }

    /// Lends the first `n` bytes of the free part, which have been read into.
    #[inline]
    pub(crate) fn lend(&mut self, n: usize) -> RxBuf {
        let part = self.free(n);
        // The next part starts on a cache line of its own.
        self.used = (self.used + n).next_multiple_of(64).min(self.len);
        self.lent += 1;
        // SAFETY: the part was within the free range and is now counted as used; it is neither
        // handed out again nor freed before `give_back` and `recycle`.
        unsafe { RxBuf::new(NonNull::new_unchecked(part.base), part.len, 0) }
    }

    /// Lends a copy of bytes that were read elsewhere; `None` if there is no room.
    pub(crate) fn copy_in(&mut self, bytes: &[u8]) -> Option<RxBuf> {
        if bytes.len() > self.room() {
            return None;
        }
        let part = self.free(bytes.len());
        // SAFETY: the free part is ours alone and at least as long as `bytes`, which is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.base, bytes.len()) };
        Some(self.lend(bytes.len()))
    }

    /// Takes a part back.
    #[inline]
    pub(crate) fn give_back(&mut self, _part: RxBuf) {
        self.lent = self.lent.saturating_sub(1);
    }
}

impl Drop for RxArena {
    fn drop(&mut self) {
        if self.lent > 0 {
            // Somebody still holds a part: leaking the arena keeps that sound.
            return;
        }
        // SAFETY: made by `Box::leak` of a boxed slice of this length, and not freed since.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.mem.as_ptr(), self.len)) });
    }
}

/// An epoll instance (level-triggered).
#[derive(Debug)]
pub(crate) struct Epoll {
    /// `None` while the process is being checkpointed.
    fd: Option<OwnedFd>,
}

/// Epoll's report of one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    pub(crate) key: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// The events that epoll is to report of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const READ: Interest = Interest { read: true, write: false };
    pub(crate) const BOTH: Interest = Interest { read: true, write: true };
    pub(crate) const WRITE: Interest = Interest { read: false, write: true };
    pub(crate) const NONE: Interest = Interest { read: false, write: false };

    fn bits(self) -> u32 {
        let mut b = 0;
        if self.read {
            b |= (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
        }
        if self.write {
            b |= libc::EPOLLOUT as u32;
        }
        b
    }
}

/// Descriptors that one `epoll_wait` reports at most.
pub(crate) const EPOLL_BATCH: usize = 32;

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Epoll { fd: Some(unsafe { OwnedFd::from_raw_fd(fd) }) })
    }

    /// Returns the descriptor, or -1 if it is closed.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, |fd| fd.as_raw_fd())
    }

    /// Gives the descriptor back; nothing is watched any more.
    pub(crate) fn close(&mut self) {
        self.fd = None;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    fn ctl(&self, op: i32, fd: RawFd, key: u64, interest: Interest) -> io::Result<()> {
        let mut ev = libc::epoll_event { events: interest.bits(), u64: key };
        // SAFETY: `ev` is a live struct that the kernel reads during the call.
        if unsafe { libc::epoll_ctl(self.raw_fd(), op, fd, &mut ev) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    pub(crate) fn add(&self, fd: RawFd, key: u64, interest: Interest) -> io::Result<()> {
        self.ctl(libc::EPOLL_CTL_ADD, fd, key, interest)
    }

    pub(crate) fn modify(&self, fd: RawFd, key: u64, interest: Interest) -> io::Result<()> {
        self.ctl(libc::EPOLL_CTL_MOD, fd, key, interest)
    }

    pub(crate) fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.ctl(libc::EPOLL_CTL_DEL, fd, 0, Interest::NONE)
    }

    /// Reports the descriptors that are ready now; never waits.
    pub(crate) fn ready(&self, out: &mut [Ready; EPOLL_BATCH]) -> io::Result<usize> {
        let mut evs = [libc::epoll_event { events: 0, u64: 0 }; EPOLL_BATCH];
        // SAFETY: `evs` has room for `EPOLL_BATCH` structs.
        let n = unsafe { libc::epoll_wait(self.raw_fd(), evs.as_mut_ptr(), EPOLL_BATCH as i32, 0) };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(e) };
        }
        let n = n as usize;
        for (o, e) in out.iter_mut().zip(&evs[..n]) {
            let bits = e.events;
            let fault = bits & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
            *o = Ready {
                key: e.u64,
                readable: fault || bits & (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 != 0,
                writable: fault || bits & libc::EPOLLOUT as u32 != 0,
            };
        }
        Ok(n)
    }
}

/// Has a socket choose its port when it connects, when the same port can serve for another peer,
/// instead of when it is bound (`IP_BIND_ADDRESS_NO_PORT`, ip(7)).
pub(crate) fn bind_without_port(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    // SAFETY: a value of the length that is given with it.
    let r = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            len,
        )
    };
    if r == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's view of a connection's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    /// Bytes, or a window probe, are on their way and not acknowledged.
    pub(crate) waiting: bool,
    /// Time since the peer's kernel last acknowledged anything.
    pub(crate) since_ack: Duration,
}

/// Returns the kernel's view of a TCP connection's peer (`TCP_INFO`).
pub(crate) fn pulse(fd: RawFd) -> io::Result<Pulse> {
    // SAFETY: the struct is of integers: zeros are a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let place = (&raw mut info).cast();
    // SAFETY: `place` has room for `len` bytes; the kernel writes at most so many.
    if unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pulse {
        waiting: info.tcpi_unacked > 0 || info.tcpi_probes > 0,
        since_ack: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

/// Bounds the pause between retransmissions, and between window probes. Whether the kernel can.
pub(crate) fn limit_retransmission_pause(fd: RawFd, longest: Duration) -> bool {
    /// Linux 6.15 and later; from 1 to 120 seconds, in milliseconds.
    const TCP_RTO_MAX_MS: libc::c_int = 44;
    let ms = longest.as_millis().clamp(1000, 120_000) as libc::c_int;
    // SAFETY: the option's value is a live integer of the length that is passed.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const ms).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}

/// Returns the number of the interface by which an incoming connection has come, if the system says
/// it: what `IP_PKTINFO` of the first packet would have been (ip(7), ipv6(7); `IP_PKTOPTIONS`).
pub(crate) fn came_by(socket: &Socket) -> Option<u32> {
    /// From `linux/in6.h`, for RFC 2292.
    const IPV6_2292PKTOPTIONS: libc::c_int = 6;
    const IP_PKTOPTIONS: libc::c_int = 9;
    #[repr(C, align(8))]
    struct Room([u8; 256]);
    let v4 = socket.peer_addr().ok()?.as_socket()?.ip().to_canonical().is_ipv4();
    let (level, want, get) = if v4 {
        (libc::SOL_IP, libc::IP_PKTINFO, IP_PKTOPTIONS)
    } else {
        (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, IPV6_2292PKTOPTIONS)
    };
    let on: libc::c_int = 1;
    let fd = socket.as_raw_fd();
    // SAFETY: a value of the length that is given with it.
    if unsafe {
        libc::setsockopt(fd, level, want, (&raw const on).cast(), size_of_val(&on) as libc::socklen_t)
    } != 0
    {
        return None;
    }
    let mut room = Room([0; 256]);
    let mut len = size_of::<Room>() as libc::socklen_t;
    // SAFETY: `room` has as many bytes as `len` says.
    if unsafe { libc::getsockopt(fd, level, get, (&raw mut room).cast(), &raw mut len) } != 0 {
        return None;
    }
    // SAFETY: all zeros is a message header; what it is to have follows.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = (&raw mut room).cast();
    header.msg_controllen = (len as usize).min(size_of::<Room>());
    // SAFETY: the header describes `room`, which is aligned for control messages, up to what the
    // kernel has written.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !at.is_null() {
        // SAFETY: the macros yield only messages that lie within the header's control bytes.
        let (kind, len, data) = unsafe { ((*at).cmsg_type, (*at).cmsg_len, libc::CMSG_DATA(at)) };
        let holds = |n: usize| len >= size_of::<libc::cmsghdr>() + n;
        if v4 && kind == libc::IP_PKTINFO && holds(size_of::<libc::in_pktinfo>()) {
            // SAFETY: the message is of that type and at least that long; read unaligned.
            let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
            return u32::try_from(info.ipi_ifindex).ok().filter(|i| *i != 0);
        }
        if !v4 && matches!(kind, libc::IPV6_PKTINFO) && holds(size_of::<libc::in6_pktinfo>()) {
            // SAFETY: as above.
            let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
            return Some(info.ipi6_ifindex).filter(|i| *i != 0);
        }
        // SAFETY: `at` is a message of this header.
        at = unsafe { libc::CMSG_NXTHDR(&raw const header, at) };
    }
    None
}

/// Resets a connection: both ends see `ECONNRESET`, and what was under way is lost.
pub(crate) fn reset(fd: RawFd) -> io::Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: a live address of the length that is passed; the kernel only reads it.
    if unsafe { libc::connect(fd, &raw const nowhere, len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the limit of open descriptors of this process.
pub(crate) fn descriptor_limit() -> u64 {
    let mut lim = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `lim` is a place for the result.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut lim) } != 0 {
        return 0;
    }
    lim.rlim_cur
}

/// Returns random bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut n = [0; N];
    getrandom::fill(&mut n).map_err(|e| io::Error::other(format!("no random numbers: {e}")))?;
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn arena_lends_disjoint_parts_and_recycles() {
        let (mut a, b) = UnixStream::pair().unwrap();
        b.set_nonblocking(true).unwrap();
        let mut arena = RxArena::new(256);
        assert!(matches!(arena.recv(b.as_raw_fd(), 256), Ok(None)));
        a.write_all(b"hello").unwrap();
        assert_eq!(arena.recv(b.as_raw_fd(), 256).unwrap(), Some(5));
        let one = arena.lend(5);
        a.write_all(b"world!").unwrap();
        assert_eq!(arena.recv(b.as_raw_fd(), 256).unwrap(), Some(6));
        let two = arena.lend(6);
        assert_eq!(one.bytes().first::<5>(), Some(*b"hello"));
        assert_eq!(two.bytes().first::<6>(), Some(*b"world!"));
        arena.recycle();
        assert!(arena.room() < 256);
        arena.give_back(one);
        arena.give_back(two);
        arena.recycle();
        assert_eq!(arena.room(), 256);
    }

    #[test]
    fn gathers_and_scatters() {
        let (a, b) = UnixStream::pair().unwrap();
        b.set_nonblocking(true).unwrap();
        let (mut x, mut y) = (*b"abc", *b"defg");
        let iov = [IoVec { base: x.as_mut_ptr(), len: 3 }, IoVec { base: y.as_mut_ptr(), len: 4 }];
        assert_eq!(send_iov(a.as_raw_fd(), &iov).unwrap(), Some(7));
        let (mut p, mut q) = ([0u8; 5], [0u8; 5]);
        let iov = [IoVec { base: p.as_mut_ptr(), len: 5 }, IoVec { base: q.as_mut_ptr(), len: 5 }];
        assert_eq!(recv_iov(b.as_raw_fd(), &iov).unwrap(), Some(7));
        assert_eq!((&p, &q[..2]), (b"abcde", &b"fg"[..]));
        assert_eq!(recv_iov(b.as_raw_fd(), &iov).unwrap(), None);
        drop(a);
        assert_eq!(recv(b.as_raw_fd(), &mut p).unwrap(), Some(0));
    }

    #[test]
    fn epoll_reports_level() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let ep = Epoll::new().unwrap();
        ep.add(b.as_raw_fd(), 42, Interest::READ).unwrap();
        let mut out = [Ready::default(); EPOLL_BATCH];
        assert_eq!(ep.ready(&mut out).unwrap(), 0);
        a.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(ep.ready(&mut out).unwrap(), 1);
            assert!(out[0].key == 42 && out[0].readable && !out[0].writable);
        }
        ep.modify(b.as_raw_fd(), 42, Interest::BOTH).unwrap();
        assert_eq!(ep.ready(&mut out).unwrap(), 1);
        assert!(out[0].writable);
        ep.remove(b.as_raw_fd()).unwrap();
        assert_eq!(ep.ready(&mut out).unwrap(), 0);
    }

    #[test]
    fn the_first_bytes_may_end_within_a_piece_or_between_two() {
        let of_first = |max| {
            let mut iov = [3, 0, 5].map(|len| IoVec { len, ..IoVec::EMPTY });
            let (n, bytes) = first(&mut iov, max);
            (iov[..n].iter().map(|p| p.len).collect::<Vec<_>>(), bytes)
        };
        assert_eq!(of_first(1), (vec![1], 1));
        assert_eq!(of_first(3), (vec![3], 3));
        assert_eq!(of_first(4), (vec![3, 0, 1], 4));
        assert_eq!(of_first(8), (vec![3, 0, 5], 8));
        assert_eq!(of_first(9), (vec![3, 0, 5], 8));
        assert_eq!(first(&mut [], 3), (0, 0));
    }
}

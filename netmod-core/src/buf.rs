//! Buffers that a request lends to a netmod, and received bytes that a netmod lends to the engine.
//!
//! # The safety contract of lent memory
//!
//! Whoever constructs a [`SendBuf`] or a [`RecvBuf`] (or a [`crate::Segment`], which consists of
//! the same raw memory) promises that from the moment it is given to a request until that request
//! is finished
//!
//! 1. the memory is allocated, and readable (send) or writable (receive), for its whole length;
//! 2. nobody writes to the memory of a send;
//! 3. nobody reads or writes the memory of a receive.
//!
//! A request is finished when [`crate::Core::is_finished`] says so, whatever its outcome: success,
//! truncation, cancellation, loss of the VC. A netmod may keep the pointers in its queues until
//! then and no longer. With a netmod that resumes lost connections, a send is finished when its
//! data was acknowledged or copied, not when it was sent. The upper layer must keep a buffer alive
//! when its owner drops the handle; `ch3-shim` does so by owning the buffer, or by not leaving the
//! scope that lent it.
//!
//! An [`RmaBuf`] is lent under the same points, but to a registration: until
//! [`crate::Rma::deregister`] has ended it, or its netmod has been dropped. Points 1 and 2 hold for
//! memory that is read by the peer or put from, points 1 and 3 for memory that is written by the
//! peer or got into.
//!
//! [`crate::Core::finish`], [`crate::Core::remove_req`] and their like touch no lent memory, and
//! are safe functions. Whoever lends memory also promises that only code that is bound by the
//! safety sections of [`crate::Netmod`] and [`crate::Upper`] calls them for the request. Programs
//! cannot: a device gives its `Core` to its netmods only.

#![allow(unsafe_code)]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::{apart, copy};

/// One piece of memory, laid out as POSIX `struct iovec` (`readv(2)`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// First byte.
    pub base: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

impl IoVec {
    /// A piece of length zero.
    pub const EMPTY: IoVec = IoVec { base: NonNull::<u8>::dangling().as_ptr(), len: 0 };
}

// SAFETY: an IoVec is an address and a length; its use is governed by this module's contract, which
// does not depend on threads.
unsafe impl Send for IoVec {}

/// Contiguous data to send, lent under this module's contract.
///
/// It is not `Copy`: whoever gives it away has it no more.
pub struct SendBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: see `IoVec`; the contract holds wherever the value is.
unsafe impl Send for SendBuf {}

impl SendBuf {
    /// An empty buffer.
    pub const EMPTY: SendBuf = SendBuf { ptr: NonNull::dangling(), len: 0 };

    /// Lends `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// This module's contract (points 1 and 2) must hold until the request that gets the buffer is
    /// finished.
    #[inline]
    pub const unsafe fn new(ptr: *const u8, len: usize) -> SendBuf {
        match NonNull::new(ptr.cast_mut()) {
            Some(ptr) => SendBuf { ptr, len },
            None => SendBuf::EMPTY,
        }
    }

    /// Lends a slice that outlives every request.
    pub const fn from_static(data: &'static [u8]) -> SendBuf {
        // SAFETY: a static slice is valid and unwritten for ever.
        unsafe { SendBuf::new(data.as_ptr(), data.len()) }
    }

    /// Returns the address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Returns the length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is nothing to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes, to be copied or passed to the kernel at once.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: by `new`'s contract the bytes are readable and unwritten while the request lives.
        // The borrow does not outlive `self`, which the netmod drops when the request is finished.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// Drops the first `n` bytes, or all if there are fewer.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        let n = n.min(self.len);
        // SAFETY: `n <= len`, so the address is within or one past the lent memory.
        self.ptr = unsafe { self.ptr.add(n) };
        self.len -= n;
    }

    /// Returns an iovec for a gathering system call.
    #[inline]
    pub const fn iov(&self) -> IoVec {
        IoVec { base: self.ptr.as_ptr(), len: self.len }
    }

    /// Returns an iovec of the bytes from `at` on; empty if `at` is past the end.
    #[inline]
    pub fn iov_from(&self, at: usize) -> IoVec {
        let at = at.min(self.len);
        IoVec { base: self.ptr.as_ptr().wrapping_add(at), len: self.len - at }
    }
}

impl fmt::Debug for SendBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendBuf({} bytes)", self.len)
    }
}

/// Contiguous memory to receive into, lent under this module's contract.
pub struct RecvBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: see `IoVec`.
unsafe impl Send for RecvBuf {}

impl RecvBuf {
    /// A buffer without room.
    pub const EMPTY: RecvBuf = RecvBuf { ptr: NonNull::dangling(), len: 0 };

    /// Lends `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// This module's contract (points 1 and 3) must hold until the request that gets the buffer is
    /// finished.
    #[inline]
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> RecvBuf {
        match NonNull::new(ptr) {
            Some(ptr) => RecvBuf { ptr, len },
            None => RecvBuf::EMPTY,
        }
    }

    /// Returns the address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Returns the length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no room.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies as much of `src` as fits; returns the number of bytes.
    #[inline]
    pub fn fill(&mut self, src: RxBytes<'_>) -> usize {
        let n = src.len().min(self.len);
        // SAFETY: `n` bytes are writable here by `new`'s contract and readable there by that of
        // `RxBytes`. Nobody else accesses the memory of a receive, so the ranges do not overlap.
        unsafe { copy::copy(src.as_ptr(), self.ptr.as_ptr(), n) };
        n
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvBuf({} bytes)", self.len)
    }
}

/// Contiguous memory to be registered for one-sided transfers, lent under this module's contract.
///
/// Safe code cannot make one of arbitrary memory, so it cannot let a peer access such memory:
///
/// ```compile_fail,E0133
/// let mut word = 0u64;
/// let lent = netmod_core::RmaBuf::new((&raw mut word).cast(), 8);
/// ```
///
/// [`crate::Rma::register`] takes nothing else:
///
/// ```compile_fail,E0308
/// # use netmod_core::rma::{Access, RegionId, RemoteKey};
/// # use netmod_core::{Core, IoVec, Rma, VcError, VcId};
/// type Exposed = Result<(RegionId, RemoteKey), VcError>;
/// fn expose(rma: &mut dyn Rma, core: &mut Core, vc: VcId) -> Exposed {
///     let mut word = 0u64;
///     let anywhere = IoVec { base: (&raw mut word).cast(), len: 8 };
///     rma.register(core, vc, anywhere, Access::RemoteWrite)
/// }
/// ```
///
/// Memory that nobody else can reach may be registered by safe code:
///
/// ```
/// # use netmod_core::rma::{Access, RegionId, RemoteKey};
/// # use netmod_core::{Core, Rma, RmaBuf, VcError, VcId};
/// type Exposed = Result<(RegionId, RemoteKey), VcError>;
/// fn expose(rma: &mut dyn Rma, core: &mut Core, vc: VcId) -> Exposed {
///     let own = RmaBuf::from_static(Box::leak(Box::new([0; 8])));
///     rma.register(core, vc, own, Access::RemoteWrite)
/// }
/// ```
pub struct RmaBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: see `IoVec`.
unsafe impl Send for RmaBuf {}

impl RmaBuf {
    /// A piece of length zero.
    pub const EMPTY: RmaBuf = RmaBuf { ptr: NonNull::dangling(), len: 0 };

    /// Lends `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// This module's contract must hold until the registration that gets the memory has ended.
    #[inline]
    pub const unsafe fn new(base: *mut u8, len: usize) -> RmaBuf {
        match NonNull::new(base) {
            Some(ptr) => RmaBuf { ptr, len },
            None => RmaBuf::EMPTY,
        }
    }

    /// Lends a slice that outlives every registration, and that nobody else can use.
    pub const fn from_static(mem: &'static mut [u8]) -> RmaBuf {
        // SAFETY: a static slice is valid for ever, and its only reference is given up here.
        unsafe { RmaBuf::new(mem.as_mut_ptr(), mem.len()) }
    }

    /// Returns the address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Returns the length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns `len` bytes at offset `at`; `None` if they are not all within the memory.
    #[inline]
    pub fn part(&self, at: usize, len: usize) -> Option<RmaPart<'_>> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        let base = self.ptr.as_ptr().wrapping_add(at);
        is_inside.then_some(RmaPart { iov: IoVec { base, len }, _lent: PhantomData })
    }
}

impl fmt::Debug for RmaBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RmaBuf({} bytes)", self.len)
    }
}

/// A part of the memory of an [`RmaBuf`], borrowed from it, so that it cannot be registered and
/// does not outlive the registration:
///
/// ```compile_fail,E0505
/// # use netmod_core::{RmaBuf, RmaPart};
/// fn keep(mem: RmaBuf) -> (RmaBuf, usize) {
///     let part: Option<RmaPart<'_>> = mem.part(0, 8);
///     (mem, part.map_or(0, |part| part.len()))
/// }
/// ```
#[derive(Clone, Copy)]
pub struct RmaPart<'a> {
    iov: IoVec,
    _lent: PhantomData<&'a RmaBuf>,
}

impl RmaPart<'_> {
    /// Returns the address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.iov.base
    }

    /// Returns the length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.iov.len
    }

    /// Returns true if there are no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.iov.len == 0
    }

    /// Returns address and length, for the system or a device.
    #[inline]
    pub const fn as_iovec(&self) -> IoVec {
        self.iov
    }
}

impl fmt::Debug for RmaPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RmaPart({} bytes)", self.iov.len)
    }
}

/// Received bytes, possibly in memory that an untrusted peer can still write.
///
/// They can be copied out, but never borrowed as a slice, so every check is on a copy.
#[derive(Clone, Copy)]
pub struct RxBytes<'a> {
    ptr: NonNull<u8>,
    len: usize,
    _lent: PhantomData<&'a ()>,
}

impl<'a> RxBytes<'a> {
    /// Wraps bytes in memory of this process.
    #[inline]
    pub fn from_slice(bytes: &'a [u8]) -> RxBytes<'a> {
        RxBytes { ptr: NonNull::from(bytes).cast(), len: bytes.len(), _lent: PhantomData }
    }

    /// Wraps bytes in memory that may change while they are read.
    ///
    /// # Safety
    ///
    /// `len` bytes at `ptr` must stay mapped and readable during `'a`.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<u8>, len: usize) -> RxBytes<'a> {
        RxBytes { ptr, len, _lent: PhantomData }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first byte.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Splits off the first `n` bytes (at most all).
    #[inline]
    pub fn split_at(self, n: usize) -> (RxBytes<'a>, RxBytes<'a>) {
        let n = n.min(self.len);
        // SAFETY: `n <= len`, so the address is within or one past the range.
        let tail = unsafe { self.ptr.add(n) };
        (
            RxBytes { ptr: self.ptr, len: n, _lent: PhantomData },
            RxBytes { ptr: tail, len: self.len - n, _lent: PhantomData },
        )
    }

    /// Returns the bytes without the first `n`.
    #[inline]
    pub fn skip(self, n: usize) -> RxBytes<'a> {
        self.split_at(n).1
    }

    /// Returns at most the first `n` bytes.
    #[inline]
    pub fn take(self, n: usize) -> RxBytes<'a> {
        self.split_at(n).0
    }

    /// Returns a copy of the first `N` bytes, if there are that many.
    #[inline]
    pub fn first<const N: usize>(&self) -> Option<[u8; N]> {
        if self.len < N {
            return None;
        }
        let mut out = [0; N];
        // SAFETY: `N <= len` bytes are readable by the constructor's contract; `out` is a local
        // array.
        unsafe { ptr::copy_nonoverlapping(self.ptr.as_ptr(), out.as_mut_ptr(), N) };
        Some(out)
    }

    /// Copies as much as fits into `dst`; returns the number of bytes.
    #[inline]
    pub fn copy_to(&self, dst: &mut [u8]) -> usize {
        let n = self.len.min(dst.len());
        // SAFETY: `n` bytes are readable here and writable there, and a `&mut` overlaps nothing.
        unsafe { copy::copy(self.ptr.as_ptr(), dst.as_mut_ptr(), n) };
        n
    }

    /// Appends all bytes to `dst`.
    pub fn append_to(&self, dst: &mut Vec<u8>) {
        dst.reserve(self.len);
        let old = dst.len();
        // SAFETY: `reserve` made room for `len` bytes after `old`. They are initialised by the
        // copy, so the new length is true.
        unsafe {
            copy::copy(self.ptr.as_ptr(), dst.as_mut_ptr().add(old), self.len);
            dst.set_len(old + self.len);
        }
    }
}

impl fmt::Debug for RxBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxBytes({} bytes)", self.len)
    }
}

/// Received bytes lent by a netmod: a whole buffer, or a part of a larger one.
///
/// The engine returns it with [`crate::Netmod::release`]; the netmod identifies it by its token.
/// Dropping one instead leaks the netmod's buffer.
#[must_use = "give it back with Netmod::release"]
pub struct RxBuf {
    ptr: NonNull<u8>,
    len: usize,
    token: u64,
}

// SAFETY: see `IoVec`; the netmod promises validity until release, in any thread.
unsafe impl Send for RxBuf {}

impl RxBuf {
    /// Lends `len` received bytes at `ptr` to the engine.
    ///
    /// # Safety
    ///
    /// They must stay mapped and readable until the netmod gets this value back by `release`.
    #[inline]
    pub unsafe fn new(ptr: NonNull<u8>, len: usize, token: u64) -> RxBuf {
        RxBuf { ptr, len, token }
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> RxBytes<'_> {
        // SAFETY: `new`'s contract covers the time until `release` consumes `self`.
        unsafe { RxBytes::from_raw(self.ptr, self.len) }
    }

    /// Returns the same buffer, read word by word because it was just written ([`apart`]).
    #[inline]
    pub(crate) fn by_words(self) -> RxBuf {
        RxBuf { len: apart(self.len as u64) as usize, ..self }
    }

    /// Returns the token by which the netmod identifies the buffer.
    #[inline]
    pub fn token(&self) -> u64 {
        self.token
    }
}

#[cfg(test)]
impl RxBuf {
    /// Lends bytes that need not be given back.
    pub(crate) fn from_static(bytes: &'static [u8], token: u64) -> RxBuf {
        // SAFETY: static bytes stay readable for ever, and nobody writes to them.
        unsafe { RxBuf::new(NonNull::from(bytes).cast(), bytes.len(), token) }
    }
}

impl fmt::Debug for RxBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxBuf({} bytes, token {})", self.len, self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rx_bytes_are_cut_and_copied() {
        let data = [1u8, 2, 3, 4, 5];
        let rx = RxBytes::from_slice(&data);
        let (a, b) = rx.split_at(2);
        assert_eq!((a.len(), b.len()), (2, 3));
        assert_eq!(b.first::<3>(), Some([3, 4, 5]));
        assert_eq!(b.first::<4>(), None);
        assert_eq!(rx.split_at(9).1.len(), 0);
        let mut v = vec![9];
        b.append_to(&mut v);
        assert_eq!(v, [9, 3, 4, 5]);
        let mut dst = [0; 2];
        assert_eq!(rx.skip(1).copy_to(&mut dst), 2);
        assert_eq!(dst, [2, 3]);
    }

    #[test]
    fn send_buf_advances_within_bounds() {
        static DATA: [u8; 4] = [1, 2, 3, 4];
        let mut s = SendBuf::from_static(&DATA);
        assert_eq!((s.iov_from(3).len, s.iov_from(7).len), (1, 0));
        s.advance(3);
        assert_eq!(s.bytes(), [4]);
        s.advance(7);
        assert!(s.is_empty());
    }

    #[test]
    fn a_part_of_registered_memory_is_within_it() {
        let mem = RmaBuf::from_static(Box::leak(Box::new([0; 10])));
        for (at, len) in [(0, 10), (9, 1), (10, 0), (4, 3)] {
            let part = mem.part(at, len).expect("a part");
            assert_eq!((part.as_ptr(), part.len()), (mem.as_ptr().wrapping_add(at), len));
        }
        for (at, len) in [(0, 11), (10, 1), (11, 0), (1, usize::MAX), (usize::MAX, 1)] {
            assert!(mem.part(at, len).is_none(), "{at} {len}");
        }
        assert!(RmaBuf::EMPTY.is_empty());
    }

    #[test]
    fn recv_buf_takes_what_fits() {
        let mut mem = [0u8; 3];
        // SAFETY: `mem` outlives `buf` and is not touched meanwhile.
        let mut buf = unsafe { RecvBuf::new(mem.as_mut_ptr(), 3) };
        assert_eq!(buf.fill(RxBytes::from_slice(&[7, 8, 9, 10])), 3);
        assert_eq!(mem, [7, 8, 9]);
    }
}

//! Memory that the application has lent: buffers of operations, regions, contexts, arrays of
//! iovecs.
//!
//! A call of libfabric lends memory until the operation's completion has been read, or until the
//! region or endpoint is closed. The model drops a [`Lent`] by then, so its methods can be safe.

#![allow(unsafe_code)]

use core::ffi::c_void;

/// A piece of lent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    addr: usize,
    len: usize,
}

impl Lent {
    /// Wraps lent memory.
    ///
    /// # Safety
    /// Until the last clone is dropped, the bytes can be read. They can also be written, unless the
    /// piece is the data of a send or write, an array of iovecs, or a region without write access.
    pub(crate) unsafe fn new(base: *const c_void, len: usize) -> Lent {
        Lent { addr: base.expose_provenance(), len }
    }

    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a part, if it is within the piece.
    pub(crate) fn part(&self, at: usize, len: usize) -> Option<Lent> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Lent { addr: self.addr + at, len })
    }

    /// Returns up to `len` bytes from `at` on.
    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let at = at.min(self.len);
        let len = len.min(self.len - at);
        let mut bytes = vec![0; len];
        if len != 0 {
            let from = core::ptr::with_exposed_provenance::<u8>(self.addr + at);
            // SAFETY: `from..from + len` lies within the piece, which can be read (contract of
            // `new`); the Vec is new.
            unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        }
        bytes
    }

    /// Writes as many bytes as fit from `at` on; only for writable pieces.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let at = at.min(self.len);
        let len = bytes.len().min(self.len - at);
        if len != 0 {
            let to = core::ptr::with_exposed_provenance_mut::<u8>(self.addr + at);
            // SAFETY: `to..to + len` lies within the piece, which can be written: the model writes
            // only to buffers of receives and reads, to contexts, and to regions with remote write
            // access (contract of `new`). `bytes` is the model's own memory.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        }
    }

    /// Returns true if all of it is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        const PAGE: usize = 4096;
        let first = self.addr & !(PAGE - 1);
        let Some(end) = self.addr.checked_add(self.len) else { return false };
        // Asked in parts, so that the result has a bounded size; it is larger than needed if pages
        // are larger than assumed.
        let (mut at, mut residency) = (first, [0u8; 256]);
        while at < end {
            let part = (end - at).min(PAGE * residency.len());
            // SAFETY: the vector has a byte for each page of the part; the call only looks at page
            // tables.
            let rc = unsafe {
                libc::mincore(core::ptr::with_exposed_provenance_mut(at), part, residency.as_mut_ptr())
            };
            if rc != 0 {
                return false;
            }
            at += part;
        }
        true
    }
}

/// Concatenates the bytes of pieces.
pub(crate) fn gather(pieces: &[Lent]) -> Vec<u8> {
    let mut all = Vec::with_capacity(pieces.iter().map(Lent::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(&piece.read(0, piece.len)));
    all
}

/// Writes bytes to consecutive pieces, from offset `at` on.
pub(crate) fn scatter(pieces: &[Lent], mut at: usize, mut bytes: &[u8]) {
    for piece in pieces {
        if at >= piece.len {
            at -= piece.len;
            continue;
        }
        let part = bytes.len().min(piece.len - at);
        piece.write(at, &bytes[..part]);
        bytes = &bytes[part..];
        at = 0;
    }
}

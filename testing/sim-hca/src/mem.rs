//! Memory that processes have lent to the devices: registrations, and inline data.

#![allow(unsafe_code)]

use hca::Piece;

/// Registered memory.
#[derive(Debug)]
pub(crate) struct Lent {
    addr: u64,
    len: u64,
}

impl Lent {
    /// Wraps registered memory.
    ///
    /// # Safety
    /// The contract of [`hca::Hca::register`], until this value is dropped.
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Lent {
        Lent { addr: base.expose_provenance() as u64, len: len as u64 }
    }

    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the bytes lie within.
    pub(crate) fn contains(&self, addr: u64, len: u64) -> bool {
        addr.checked_sub(self.addr).is_some_and(|at| at <= self.len && len <= self.len - at)
    }

    /// Appends bytes to a vector; returns `None` if they do not lie within.
    pub(crate) fn read(&self, addr: u64, len: u64, to: &mut Vec<u8>) -> Option<()> {
        if !self.contains(addr, len) {
            return None;
        }
        let len = len as usize;
        to.reserve(len);
        let (from, old) = (core::ptr::with_exposed_provenance::<u8>(addr as usize), to.len());
        // SAFETY: the bytes lie within registered memory, which can be read (contract of `new`);
        // there is room for as many behind `old`, which the copy initialises.
        unsafe {
            core::ptr::copy_nonoverlapping(from, to.as_mut_ptr().add(old), len);
            to.set_len(old + len);
        }
        Some(())
    }

    /// Writes bytes; returns `None` if they do not fit. Callers have checked that the registration
    /// permits writing.
    pub(crate) fn write(&self, addr: u64, bytes: &[u8]) -> Option<()> {
        if !self.contains(addr, bytes.len() as u64) {
            return None;
        }
        let to = core::ptr::with_exposed_provenance_mut::<u8>(addr as usize);
        // SAFETY: the bytes lie within registered memory that can be written (contract of `new`,
        // access checked by the callers); `bytes` is the simulation's own memory.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some(())
    }
}

/// Returns the bytes of inline data.
pub(crate) fn gather(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for sge in pieces.iter().map(Piece::sge) {
        let from = core::ptr::with_exposed_provenance::<u8>(sge.addr as usize);
        // SAFETY: a piece is made only of a slice that it borrows; an empty slice's address is not
        // null.
        all.extend_from_slice(unsafe { core::slice::from_raw_parts(from, sge.len as usize) });
    }
    all
}

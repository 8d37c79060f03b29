//! Places for results that the library writes in its own way, and which are written to C's memory
//! when the call ends.

use core::ffi::{c_int, c_void};

use netmod_mpi_common::convert::MpiStatus;

use crate::convert::{Handle, Status, outer};
use crate::handles::Kind;

/// Content of a place that the library has not written.
const UNWRITTEN: c_int = c_int::MIN;

/// A place for one handle.
pub(crate) struct OutHandle {
    to: *mut Handle,
    value: c_int,
    kind: Kind,
}

impl OutHandle {
    /// Creates a place for a result.
    ///
    /// # Safety
    /// `to` is NULL or points to memory of the caller, until the place is gone.
    #[inline]
    pub(crate) unsafe fn new(to: *mut Handle, kind: Kind) -> OutHandle {
        OutHandle { to, value: UNWRITTEN, kind }
    }

    /// Creates a place with the handle that is there.
    ///
    /// # Safety
    /// As for [`OutHandle::new`].
    #[inline]
    pub(crate) unsafe fn of(to: *mut Handle, kind: Kind) -> OutHandle {
        // SAFETY: as the caller promises.
        let value = if to.is_null() { UNWRITTEN } else { unsafe { to.read() }.number() };
        OutHandle { to, value, kind }
    }

    /// Returns its address for the library; NULL if the caller's is.
    #[inline]
    pub(crate) fn at(&mut self) -> *mut c_int {
        if self.to.is_null() { core::ptr::null_mut() } else { &raw mut self.value }
    }
}

impl Drop for OutHandle {
    #[inline]
    fn drop(&mut self) {
        if !self.to.is_null() && self.value != UNWRITTEN {
            // SAFETY: the caller's memory, as promised.
            unsafe { self.to.write(self.kind.handle(self.value as u32)) };
        }
    }
}

/// A place for one number.
pub(crate) struct OutInt {
    to: *mut c_int,
    value: c_int,
    translate: fn(c_int) -> c_int,
}

impl OutInt {
    /// Creates a place for a result.
    ///
    /// # Safety
    /// `to` is NULL or points to memory of the caller, until the place is gone.
    #[inline]
    pub(crate) unsafe fn new(to: *mut c_int, translate: fn(c_int) -> c_int) -> OutInt {
        OutInt { to, value: UNWRITTEN, translate }
    }

    /// Creates a place with the number that is there.
    ///
    /// # Safety
    /// As for [`OutInt::new`].
    pub(crate) unsafe fn of(
        to: *mut c_int,
        inside: fn(c_int) -> c_int,
        translate: fn(c_int) -> c_int,
    ) -> OutInt {
        // SAFETY: as the caller promises.
        let value = if to.is_null() { UNWRITTEN } else { inside(unsafe { to.read() }) };
        OutInt { to, value, translate }
    }

    /// Returns its address for the library; NULL if the caller's is.
    #[inline]
    pub(crate) fn at(&mut self) -> *mut c_int {
        if self.to.is_null() { core::ptr::null_mut() } else { &raw mut self.value }
    }
}

impl Drop for OutInt {
    #[inline]
    fn drop(&mut self) {
        if !self.to.is_null() && self.value != UNWRITTEN {
            // SAFETY: the caller's memory, as promised.
            unsafe { self.to.write((self.translate)(self.value)) };
        }
    }
}

/// A place for a status.
pub(crate) struct OutStatus {
    to: *mut Status,
    value: MpiStatus,
    /// True if the error is the program's number, not the library's.
    plain: bool,
}

impl OutStatus {
    /// Creates a place for a result.
    ///
    /// # Safety
    /// `to` is `MPI_STATUS_IGNORE` or points to a status of the caller, until the place is gone.
    #[inline]
    pub(crate) unsafe fn new(to: *mut Status) -> OutStatus {
        OutStatus { to, value: Status::unwritten(), plain: false }
    }

    /// Creates a place with the status that is there.
    ///
    /// # Safety
    /// As for [`OutStatus::new`].
    pub(crate) unsafe fn of(to: *mut Status) -> OutStatus {
        // SAFETY: as the caller promises.
        let value = if to.is_null() { Status::unwritten() } else { unsafe { to.read() }.plain() };
        OutStatus { to, value, plain: true }
    }

    /// Returns its address for the library; NULL if the status is ignored.
    #[inline]
    pub(crate) fn at(&mut self) -> *mut MpiStatus {
        if self.to.is_null() { core::ptr::null_mut() } else { &raw mut self.value }
    }
}

impl Drop for OutStatus {
    #[inline]
    fn drop(&mut self) {
        if !self.to.is_null() {
            // SAFETY: the caller's memory, as promised.
            unsafe {
                match self.plain {
                    true => Status::write_plain(self.to, &self.value),
                    false => Status::write(self.to, &self.value),
                }
            }
        }
    }
}

/// A status that is only read.
pub(crate) struct InStatus(Option<MpiStatus>);

impl InStatus {
    /// Reads a status.
    ///
    /// # Safety
    /// `at` is NULL or points to a status of the caller.
    pub(crate) unsafe fn of(at: *const Status) -> InStatus {
        // SAFETY: as the caller promises.
        InStatus((!at.is_null()).then(|| unsafe { at.read() }.plain()))
    }

    /// Returns its address for the library; NULL if the caller's is.
    pub(crate) fn at(&mut self) -> *const MpiStatus {
        self.0.as_ref().map_or(core::ptr::null(), |status| status)
    }
}

/// A place for the address of a buffer that the library gives back.
pub(crate) struct OutBuffer(*mut c_void);

impl OutBuffer {
    /// Creates the place.
    ///
    /// # Safety
    /// `to` is NULL or points to a pointer of the caller, until the place is gone.
    pub(crate) unsafe fn new(to: *mut c_void) -> OutBuffer {
        OutBuffer(to)
    }

    /// Returns the address for the library.
    pub(crate) fn at(&mut self) -> *mut c_void {
        self.0
    }
}

impl Drop for OutBuffer {
    fn drop(&mut self) {
        let to = self.0.cast::<*mut c_void>();
        if to.is_null() {
            return;
        }
        // SAFETY: the caller's pointer, as promised.
        unsafe {
            if let Some(address) = outer(to.read().addr()) {
                to.write(core::ptr::without_provenance_mut(address));
            }
        }
    }
}

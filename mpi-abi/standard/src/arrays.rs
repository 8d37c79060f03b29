//! Arrays of handles, numbers and statuses, as copies for the library. Short ones need no memory
//! of the heap.

use core::ffi::c_int;

use netmod_mpi_common::convert::{MpiStatus, Types};

use crate::convert::{Handle, Status, number};
use crate::handles::Kind;

/// Elements that have room in the frame of the call.
const SHORT: usize = 32;

/// Room for a copy of an array.
enum Room<T> {
    Short([T; SHORT], usize),
    Long(Vec<T>),
}

impl<T: Copy> Room<T> {
    /// Creates a room of a length with the elements that a function tells.
    fn of(length: usize, empty: T, element: impl Fn(usize) -> T) -> Room<T> {
        if length > SHORT {
            return Room::Long((0..length).map(element).collect());
        }
        let mut short = [empty; SHORT];
        for (at, place) in short[..length].iter_mut().enumerate() {
            *place = element(at);
        }
        Room::Short(short, length)
    }

    fn elements(&mut self) -> &mut [T] {
        match self {
            Room::Short(all, length) => &mut all[..*length],
            Room::Long(all) => all,
        }
    }
}

/// Returns the length of an array that is there, else 0.
fn length<T>(at: *const T, length: c_int) -> usize {
    if at.is_null() { 0 } else { usize::try_from(length).unwrap_or(0) }
}

/// Returns datatypes of the caller.
pub(crate) fn types(at: *const Handle) -> Types {
    Types::Handles(at.cast(), number)
}

/// A number that is no handle of the library.
const UNWRITTEN: c_int = 0;

/// Handles of the caller, which are written back unless they are only read.
pub(crate) struct Handles {
    to: *mut Handle,
    room: Room<c_int>,
    kind: Option<Kind>,
}

impl Handles {
    /// Copies handles that the library may change.
    ///
    /// # Safety
    /// `to` is NULL or points to so many handles of the caller, until the copy is gone.
    pub(crate) unsafe fn of(to: *mut Handle, n: c_int, kind: Kind) -> Handles {
        // SAFETY: as the caller promises.
        let mut handles = unsafe { Handles::read(to, n) };
        handles.kind = Some(kind);
        handles
    }

    /// Copies handles that the library only reads.
    ///
    /// # Safety
    /// As for [`Handles::of`].
    pub(crate) unsafe fn read(to: *const Handle, n: c_int) -> Handles {
        // SAFETY: as the caller promises.
        let element = |at| unsafe { to.wrapping_add(at).read() }.number();
        let room = Room::of(length(to, n), UNWRITTEN, element);
        Handles { to: to.cast_mut(), room, kind: None }
    }

    /// Creates room for handles that the library makes.
    ///
    /// # Safety
    /// As for [`Handles::of`].
    pub(crate) unsafe fn new(to: *mut Handle, n: c_int, kind: Kind) -> Handles {
        Handles { to, room: Room::of(length(to, n), UNWRITTEN, |_| UNWRITTEN), kind: Some(kind) }
    }

    /// Returns their address for the library; NULL if the caller's is.
    pub(crate) fn at(&mut self) -> *mut c_int {
        if self.to.is_null() { core::ptr::null_mut() } else { self.room.elements().as_mut_ptr() }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let Some(kind) = self.kind else { return };
        for (at, number) in self.room.elements().iter().enumerate().filter(|(_, n)| **n != UNWRITTEN) {
            // SAFETY: the caller's array has so many handles, as promised.
            unsafe { self.to.wrapping_add(at).write(kind.handle(*number as u32)) };
        }
    }
}

/// Numbers that the library only reads.
pub(crate) struct Ints {
    from: *const c_int,
    room: Room<c_int>,
}

impl Ints {
    /// Translates numbers.
    ///
    /// # Safety
    /// `from` is NULL or points to so many numbers of the caller.
    pub(crate) unsafe fn of(from: *const c_int, n: c_int, inside: fn(c_int) -> c_int) -> Ints {
        // SAFETY: as the caller promises.
        let element = |at| inside(unsafe { from.wrapping_add(at).read() });
        Ints { from, room: Room::of(length(from, n), 0, element) }
    }

    /// Returns their address for the library; NULL if the caller's is.
    pub(crate) fn at(&mut self) -> *const c_int {
        if self.from.is_null() { core::ptr::null() } else { self.room.elements().as_ptr() }
    }
}

/// Numbers that the library writes to the caller's array, where they are translated afterwards.
pub(crate) struct OutInts {
    to: *mut c_int,
    room: Room<c_int>,
    translate: fn(c_int) -> c_int,
}

impl OutInts {
    /// Creates room for numbers.
    ///
    /// # Safety
    /// `to` is NULL or has room for so many numbers, until this is gone.
    pub(crate) unsafe fn new(to: *mut c_int, n: c_int, translate: fn(c_int) -> c_int) -> OutInts {
        OutInts { to, room: Room::of(length(to, n), c_int::MIN, |_| c_int::MIN), translate }
    }

    /// Returns their address for the library; NULL if the caller's is.
    pub(crate) fn at(&mut self) -> *mut c_int {
        if self.to.is_null() { core::ptr::null_mut() } else { self.room.elements().as_mut_ptr() }
    }
}

impl Drop for OutInts {
    fn drop(&mut self) {
        for (at, value) in self.room.elements().iter().enumerate().filter(|(_, n)| **n != c_int::MIN) {
            // SAFETY: the caller's array has so many numbers, as promised.
            unsafe { self.to.wrapping_add(at).write((self.translate)(*value)) };
        }
    }
}

/// Statuses that the library writes.
pub(crate) struct OutStatuses {
    to: *mut Status,
    room: Room<MpiStatus>,
}

impl OutStatuses {
    /// Creates room for statuses.
    ///
    /// # Safety
    /// `to` is `MPI_STATUSES_IGNORE` or has room for so many statuses, until this is gone.
    pub(crate) unsafe fn new(to: *mut Status, n: c_int) -> OutStatuses {
        let empty = Status::unwritten();
        OutStatuses { to, room: Room::of(length(to, n), empty, |_| empty) }
    }

    /// Returns their address for the library; NULL if they are ignored.
    pub(crate) fn at(&mut self) -> *mut MpiStatus {
        if self.to.is_null() { core::ptr::null_mut() } else { self.room.elements().as_mut_ptr() }
    }
}

impl Drop for OutStatuses {
    fn drop(&mut self) {
        for (at, status) in self.room.elements().iter().enumerate() {
            // SAFETY: the caller's array has so many statuses, as promised.
            unsafe { Status::write(self.to.wrapping_add(at), status) };
        }
    }
}

//! The interface that the common code is used in: how functions of the program see handles.

use core::ffi::c_int;

use netmod_mpi::Status;
use netmod_mpi::handle::{Comm, Datatype, File, Keyval, Win};

/// A binary interface, as functions of the program and the user's codes of errors see it.
///
/// The library has the handles and numbers of MPICH's interface. Arguments of calls are translated
/// at the exported functions, by their roles; what is here is needed inside of them.
pub trait Abi: 'static {
    /// A handle in C.
    type Handle: Copy + 'static;
    /// A handle of a file in C.
    type File: Copy + 'static;
    /// A status in C.
    type Status: Copy + 'static;
    /// Version of the standard that the header has.
    const VERSION: (c_int, c_int);
    /// Name of the interface, for people.
    const NAME: &'static str;
    /// A status without a message.
    const EMPTY_STATUS: Self::Status;

    /// Returns the handle of a communicator.
    fn comm(comm: Comm) -> Self::Handle;

    /// Returns the handle of a file.
    fn file(file: File) -> Self::File;

    /// Returns the handle of a window.
    fn win(win: Win) -> Self::Handle;

    /// Returns the handle of a datatype.
    fn datatype(datatype: Datatype) -> Self::Handle;

    /// Returns the number of a key of attributes.
    fn keyval(keyval: Keyval) -> c_int;

    /// Returns the value of an attribute that the library sets.
    fn attribute(keyval: Keyval, value: i64) -> i64;

    /// Returns what the program sees of an error code or class of the library.
    fn code_out(code: c_int) -> c_int;

    /// Returns the error code or class of the library that the program means.
    fn code_in(code: c_int) -> c_int;

    /// Reads a status that the program has written.
    fn read_status(status: &Self::Status) -> Status;

    /// Translates the integers that made a datatype, by its combiner.
    fn contents(combiner: c_int, integers: &mut [c_int]);
}

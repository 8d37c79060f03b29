//! Ports, and processes of other jobs. Arguments that count at the root alone are read there.

use core::ffi::{c_char, c_int};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;

use netmod_mpi::consts::MAX_PORT_NAME;
use netmod_mpi::handle::{Comm, Info};
use netmod_mpi::{Class, Mpi, MpiError, Result};

use crate::convert::{put, put_text, text};

fn comm_of(handle: c_int) -> Comm {
    Comm(handle as u32)
}

/// Returns true at the root of a call. A bad communicator is found later.
fn is_root(mpi: &Mpi, comm: c_int, root: c_int) -> bool {
    mpi.comm_rank(comm_of(comm)).is_ok_and(|rank| rank == root)
}

/// Reads a string that counts at the root.
///
/// # Safety
/// A string of the caller, at the root.
unsafe fn text_at_root<'a>(mpi: &Mpi, comm: c_int, root: c_int, at: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's string.
    if is_root(mpi, comm, root) { unsafe { text(at) } } else { Ok("") }
}

pub unsafe fn open_port(mpi: &Mpi, info: c_int, port_name: *mut c_char) -> Result<()> {
    let name = mpi.open_port(Info(info as u32))?;
    // SAFETY: the standard wants room for the longest name.
    unsafe { put_text(port_name, MAX_PORT_NAME, &name) }.map(|_| ())
}

pub unsafe fn comm_accept(
    mpi: &Mpi,
    port_name: *const c_char,
    info: c_int,
    root: c_int,
    comm: c_int,
    newcomm: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string and memory.
    unsafe {
        let name = text_at_root(mpi, comm, root, port_name)?;
        put(newcomm, mpi.comm_accept(name, Info(info as u32), root, comm_of(comm))?)
    }
}

pub unsafe fn comm_connect(
    mpi: &Mpi,
    port_name: *const c_char,
    info: c_int,
    root: c_int,
    comm: c_int,
    newcomm: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string and memory.
    unsafe {
        let name = text_at_root(mpi, comm, root, port_name)?;
        put(newcomm, mpi.comm_connect(name, Info(info as u32), root, comm_of(comm))?)
    }
}

pub unsafe fn comm_join(mpi: &Mpi, fd: c_int, intercomm: *mut c_int) -> Result<()> {
    if fd < 0 {
        return Err(MpiError::new(Class::ARG, format!("fd is {fd}; it is an open socket")));
    }
    // SAFETY: the caller's descriptor, which is open during the call and is not closed by it.
    let mut socket = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let made = mpi.comm_join(&mut *socket)?;
    // SAFETY: the caller's memory.
    unsafe { put(intercomm, made) }
}

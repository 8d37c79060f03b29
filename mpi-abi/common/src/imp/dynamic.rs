//! Ports, and processes of other jobs. Arguments that count at the root alone are read there.

use core::cell::Cell;
use core::ffi::{c_char, c_int};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;

use netmod_mpi::consts::MAX_PORT_NAME;
use netmod_mpi::handle::{Comm, Info};
use netmod_mpi::{Class, Command, Mpi, MpiError, Result};

use crate::abi::Abi;
use crate::convert::{Types, put, put_text, slice, text};

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

pub unsafe fn lookup_name(
    mpi: &Mpi,
    service_name: *const c_char,
    info: c_int,
    port_name: *mut c_char,
) -> Result<()> {
    // SAFETY: the caller's string, and room for the longest name.
    unsafe {
        let found = mpi.lookup_name(text(service_name)?, Info(info as u32))?;
        put_text(port_name, MAX_PORT_NAME, &found).map(|_| ())
    }
}

/// Reads arguments of a program, which end with NULL; none if the array is NULL, as
/// `MPI_ARGV_NULL` is.
///
/// # Safety
/// Such an array of the caller.
unsafe fn args(argv: *mut *mut c_char) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if argv.is_null() {
        return Ok(all);
    }
    // SAFETY: elements up to the NULL are strings.
    unsafe {
        while let at = *argv.add(all.len())
            && !at.is_null()
        {
            all.push(text(at)?.to_owned());
        }
    }
    Ok(all)
}

/// Writes the error code of each process that was to be started, unless the program ignores them.
unsafe fn put_codes(codes: *mut c_int, count: usize, code: c_int) {
    if codes.is_null() {
        return;
    }
    // SAFETY: the caller's array, with one element for each process.
    (0..count).for_each(|at| unsafe { codes.add(at).write(code) });
}

/// Starts programs; `commands` is called at the root.
unsafe fn spawn<A: Abi>(
    mpi: &Mpi,
    commands: impl FnOnce() -> Result<Vec<Command>>,
    root: c_int,
    comm: c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
) -> Result<()> {
    let asked = Cell::new(0);
    let made = mpi.comm_spawn_multiple(commands, root, comm_of(comm), &asked);
    // SAFETY: the caller's memory, which has as many elements as processes were asked for.
    unsafe {
        match made {
            Ok(made) => {
                put_codes(codes, usize::try_from(mpi.comm_remote_size(made)?).unwrap_or(0), 0);
                put(intercomm, made)
            }
            Err(e) => {
                put_codes(codes, asked.get() as usize, A::code_out(Class::SPAWN.0));
                Err(e)
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn comm_spawn<A: Abi>(
    mpi: &Mpi,
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: c_int,
    root: c_int,
    comm: c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's strings and memory.
    unsafe {
        let commands = || {
            let (program, args) = (text(command)?.to_owned(), args(argv)?);
            Ok(vec![Command { program, args, maxprocs, info: Info(info as u32) }])
        };
        spawn::<A>(mpi, commands, root, comm, intercomm, codes)
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn comm_spawn_multiple<A: Abi>(
    mpi: &Mpi,
    count: c_int,
    commands: *mut *mut c_char,
    argvs: *mut *mut *mut c_char,
    maxprocs: *const c_int,
    infos: impl Into<Types>,
    root: c_int,
    comm: c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
) -> Result<()> {
    let described = || {
        let count = usize::try_from(count)
            .map_err(|_| MpiError::new(Class::COUNT, format!("count is {count}, and less than 0")))?;
        // SAFETY: arrays of the caller with as many elements; that of arguments may be NULL.
        unsafe {
            let (commands, ranks) = (slice(commands, count), slice(maxprocs, count));
            let infos = infos.into().numbers(count);
            let command = |at: usize| {
                let args = if argvs.is_null() { Vec::new() } else { args(*argvs.add(at))? };
                let program = text(commands[at])?.to_owned();
                Ok(Command { program, args, maxprocs: ranks[at], info: Info(infos[at]) })
            };
            (0..count.min(ranks.len()).min(infos.len())).map(command).collect()
        }
    };
    // SAFETY: the caller's memory.
    unsafe { spawn::<A>(mpi, described, root, comm, intercomm, codes) }
}

//! Other MPI libraries in the process: their functions have the same names, and calls may go to
//! either.

use core::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};

use netmod_mpi::on_stderr;

/// Beginnings of the files that MPI libraries are in, as programs ask for them.
const LIBRARIES: [&str; 3] = ["libmpi.so", "libmpich.so", "libmpi_abi.so"];

/// Returns true if a file has the name of an MPI library.
fn is_mpi(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| LIBRARIES.iter().any(|start| name.starts_with(start)))
}

/// Returns true if an address is in an object that is loaded.
///
/// # Safety
/// `object` is what `dl_iterate_phdr` tells.
unsafe fn has(object: &libc::dl_phdr_info, address: usize) -> bool {
    // SAFETY: the object has so many headers.
    let headers = unsafe { core::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
        let begin = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        address.wrapping_sub(begin) < header.p_memsz as usize
    })
}

/// Notes an object that is an MPI library, and not this one.
///
/// # Safety
/// `object` is what `dl_iterate_phdr` tells, and `found` points to a list of paths.
unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Vec<PathBuf>>()) };
    if object.dlpi_name.is_null() || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's string.
    let name = unsafe { CStr::from_ptr(object.dlpi_name) }.to_string_lossy();
    let file = PathBuf::from(name.as_ref());
    // SAFETY: it is what the loader tells.
    if is_mpi(&file) && !unsafe { has(object, is_mpi as fn(&Path) -> bool as usize) } {
        found.push(file);
    }
    0
}

/// Returns the files of the MPI libraries in this process, without the one that this code is in.
pub fn loaded() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: the function gets the list, and does not call the loader.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// Tells which MPI libraries are in the process beside this one.
pub fn tell(rank: i32) {
    for file in loaded() {
        on_stderr(&format_args!(
            "rank {rank}: another MPI library is loaded beside this one, {}: calls may go to either, and \
             handles of one mean nothing to the other; see who needs it (ldd, LD_DEBUG=libs)",
            file.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_files() {
        for name in ["/usr/lib/libmpich.so.12", "libmpi.so.40.30.4", "/opt/lib/libmpi_abi.so.1"] {
            assert!(is_mpi(Path::new(name)), "{name}");
        }
        for name in ["", "/usr/lib/libmpichfort.so.12", "/libmpi.so.d/libm.so.6", "libmpiP.so"] {
            assert!(!is_mpi(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_program_without_mpi_has_none() {
        assert_eq!(loaded(), Vec::<PathBuf>::new());
    }
}

//! The files that the loader has mapped: the program and its libraries.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use std::path::{Path, PathBuf};

/// A file that the loader has mapped.
#[derive(Clone, Debug)]
pub struct Loaded {
    file: PathBuf,
    segments: Vec<Range<usize>>,
}

impl Loaded {
    /// Returns true if an address is in it.
    pub fn has(&self, address: usize) -> bool {
        self.segments.iter().any(|segment| segment.contains(&address))
    }

    /// Returns its path as the loader knows it: empty for the program.
    pub fn path(&self) -> &Path {
        &self.file
    }
}

/// Returns true if the last part of a path begins in this way.
pub fn begins(file: &Path, start: &str) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(start.as_bytes()))
}

/// Notes a file.
///
/// # Safety
/// `object` is what `dl_iterate_phdr` tells, and `found` points to a list.
unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Vec<Loaded>>()) };
    let mut segments = Vec::new();
    if !object.dlpi_phdr.is_null() {
        // SAFETY: the file has so many headers.
        let headers = unsafe { core::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        segments.extend(headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let begin = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            begin..begin.saturating_add(header.p_memsz as usize)
        }));
    }
    let name = if object.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: the loader's string.
        unsafe { CStr::from_ptr(object.dlpi_name) }.to_string_lossy().into_owned()
    };
    found.push(Loaded { file: name.into(), segments });
    0
}

/// Returns all files that are loaded now.
pub fn loaded() -> Vec<Loaded> {
    let mut found: Vec<Loaded> = Vec::new();
    // SAFETY: the function gets the list, and does not call the loader.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// Reads the number of loads from the first file, and ends the iteration.
///
/// # Safety
/// `object` is what `dl_iterate_phdr` tells, and `count` points to a number.
unsafe extern "C" fn count(object: *mut libc::dl_phdr_info, _size: usize, count: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { *count.cast::<u64>() = (*object).dlpi_adds };
    1
}

/// Returns the number of files that were loaded since the process began: while it is the same, none
/// has been loaded.
pub fn loads() -> u64 {
    let mut loads = 0u64;
    // SAFETY: the function gets the number, and does not call the loader.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut loads).cast()) };
    loads
}

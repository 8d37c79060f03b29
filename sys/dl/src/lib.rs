//! Shared libraries that are loaded at run time, and their symbols by version.
//!
//! A binary that loads its optional libraries starts on every machine. A symbol is looked up with
//! the version whose layouts the caller declares. So a later library with other layouts is not
//! called by mistake.

#![allow(unsafe_code)]
mod loaded;
mod mapped;
mod signals;
#[cfg(test)]
mod tests;

use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::path::Path;

pub use loaded::{Loaded, begins, loaded, loads};
pub use mapped::file_at;
use signals::Signals;

/// The reason why a library is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The path is no C string.
    #[error("a path with a zero byte in it")]
    ZeroByte,
    /// The system's loader refuses it: the loader's message.
    #[error("{0}")]
    Loader(String),
}

/// A shared library that is never unloaded, so that its symbols can be used at any time.
#[derive(Clone, Copy, Debug)]
pub struct Shared(*mut c_void);

// SAFETY: a loader's handle may be used by any thread, and the loader does its own locking.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Loads a library by path, or by a name that the system's loader looks up.
    ///
    /// The library's initialisers run, and those of its dependencies. Signal actions that they
    /// change are restored afterwards.
    ///
    /// # Errors
    /// If the path has a zero byte in it, or the loader refuses the library.
    pub fn open(path: &Path) -> Result<Shared, OpenError> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| OpenError::ZeroByte)?;
        let handle = {
            let _signals = Signals::keep();
            // SAFETY: loading a library runs its initialisers, which is what the caller wants; the
            // name is a C string.
            unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
        };
        if !handle.is_null() {
            return Ok(Shared(handle));
        }
        // SAFETY: after a failure the loader has a message, a C string that lives until its next
        // call in this thread.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                "unknown reason".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(OpenError::Loader(why))
    }

    /// Returns the symbol of this version. If the library or the system does not know the version,
    /// or none is named, returns the default symbol of that name.
    pub fn symbol(self, name: &CStr, version: &CStr) -> Option<*mut c_void> {
        self.versioned(name, version).or_else(|| {
            // SAFETY: the handle is live for ever, the name is a C string.
            let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        })
    }

    /// Returns the symbol of exactly this version.
    #[cfg(target_env = "gnu")]
    pub fn versioned(self, name: &CStr, version: &CStr) -> Option<*mut c_void> {
        if version.is_empty() {
            return None;
        }
        // SAFETY: as above, and so is the version.
        let found = unsafe { libc::dlvsym(self.0, name.as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// Returns nothing: the system has no symbol versions.
    #[cfg(not(target_env = "gnu"))]
    pub fn versioned(self, _name: &CStr, _version: &CStr) -> Option<*mut c_void> {
        None
    }
}

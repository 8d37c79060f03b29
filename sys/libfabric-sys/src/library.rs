//! Loads the library at run time.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use dl::{OpenError, Shared};

use crate::attr::{fi_fabric_attr, fi_info};
use crate::fid::fid_fabric;
use crate::{OLDEST, version};

/// Reason why libfabric cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The library was not found or does not load.
    #[error(
        "no libfabric: {why}; install it (Debian: apt-get install libfabric1) or say where it is with {}",
        Library::VARIABLE
    )]
    Missing {
        /// The cause.
        why: OpenError,
    },
    /// The library lacks a function.
    #[error("{path} is no libfabric: it has no {name}")]
    Symbol {
        /// The file.
        path: PathBuf,
        /// The function's name.
        name: &'static str,
    },
    /// The library is too old.
    #[error(
        "{path} is libfabric {}.{}, and at least 1.9 is needed: install a newer one (apt-get install libfabric1), or name one in {}",
        .found >> 16,
        .found & 0xffff,
        Library::VARIABLE
    )]
    Old {
        /// The file.
        path: PathBuf,
        /// Its version, in the form of `FI_VERSION`.
        found: u32,
    },
}

/// The functions that libfabric exports. The library is never unloaded, so they can be called at
/// any time.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Library {
    pub fi_version: unsafe extern "C" fn() -> u32,
    pub fi_getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const fi_info,
        *mut *mut fi_info,
    ) -> c_int,
    pub fi_freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub fi_dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub fi_fabric: unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    pub fi_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    shared: Shared,
}

impl Library {
    /// Environment variable with the path of the library.
    pub const VARIABLE: &'static str = "NETMOD_OFI_LIBRARY";

    /// Loads this file, or the system's `libfabric.so.1`, or else its `libfabric.so.2`.
    ///
    /// # Errors
    /// If no usable library is found.
    pub fn load(path: Option<&Path>) -> Result<Library, LoadError> {
        if let Some(path) = path {
            return Library::open(path);
        }
        let first = Library::open(Path::new("libfabric.so.1"));
        match first {
            Err(LoadError::Missing { .. }) => Library::open(Path::new("libfabric.so.2")).or(first),
            other => other,
        }
    }

    fn open(path: &Path) -> Result<Library, LoadError> {
        let shared = Shared::open(path).map_err(|why| LoadError::Missing { why })?;
        let symbol = |name: &'static CStr, of: &'static CStr| {
            shared.symbol(name, of).ok_or(LoadError::Symbol {
                path: path.to_path_buf(),
                name: name.to_str().unwrap_or("a function"),
            })
        };
        // SAFETY: each function has the type that the headers of every version since 1.9 declare.
        // The symbols' versions are those whose structures are declared here.
        let library = unsafe {
            Library {
                fi_version: core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(symbol(
                    c"fi_version",
                    c"FABRIC_1.0",
                )?),
                fi_getinfo: core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(
                        u32,
                        *const c_char,
                        *const c_char,
                        u64,
                        *const fi_info,
                        *mut *mut fi_info,
                    ) -> c_int,
                >(symbol(c"fi_getinfo", c"FABRIC_1.3")?),
                fi_freeinfo: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut fi_info)>(symbol(
                    c"fi_freeinfo",
                    c"FABRIC_1.3",
                )?),
                fi_dupinfo: core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
                >(symbol(c"fi_dupinfo", c"FABRIC_1.3")?),
                fi_fabric: core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
                >(symbol(c"fi_fabric", c"FABRIC_1.1")?),
                fi_strerror: core::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(
                    symbol(c"fi_strerror", c"FABRIC_1.0")?,
                ),
                shared,
            }
        };
        let found = library.version();
        if found < OLDEST {
            return Err(LoadError::Old { path: path.to_path_buf(), found });
        }
        Ok(library)
    }

    /// Returns the library's version, in the form of `FI_VERSION`.
    pub fn version(&self) -> u32 {
        // SAFETY: the function takes no arguments and may be called at any time.
        unsafe { (self.fi_version)() }
    }

    /// Returns the version to request: the library's own, but at most the one whose layouts are
    /// declared.
    pub fn api(&self) -> u32 {
        self.version().min(crate::API)
    }

    /// Returns the meaning of an error number of either sign.
    pub fn error(&self, number: i64) -> String {
        let number = i32::try_from(number.unsigned_abs()).unwrap_or(0);
        // SAFETY: the function takes any number, and returns a static C string.
        unsafe {
            let text = (self.fi_strerror)(number);
            if text.is_null() {
                return format!("error {number}");
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// Returns another function or variable of the library. A test library has some beside
    /// libfabric's.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        self.shared.symbol(name, c"")
    }
}

const _: () = assert!(OLDEST == version(1, 9));

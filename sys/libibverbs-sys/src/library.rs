//! Loads the library at run time.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use dl::{OpenError, Shared};

use crate::attr::*;
use crate::call;
use crate::consts::IBV_ACCESS_OPTIONAL_RANGE;
use crate::object::*;
use crate::work::ibv_async_event;

/// Reason why libibverbs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The library was not found or does not load.
    #[error(
        "no libibverbs: {why}; install it with the drivers of devices \
         (Debian: apt-get install libibverbs1 ibverbs-providers)"
    )]
    Missing {
        /// The cause.
        why: OpenError,
    },
    /// The library lacks a function.
    #[error("{path} is no libibverbs, or one from before 2006: it has no {name}")]
    Symbol {
        /// The file.
        path: PathBuf,
        /// The function's name.
        name: &'static str,
    },
}

/// Declares the table of functions and loads it: name, signature and version of each. A library may
/// lack the later ones.
macro_rules! exported {
    (
        always { $($name:ident: fn($($arg:ty),*) $(-> $result:ty)?, $version:literal;)* }
        late { $($late:ident: fn($($late_arg:ty),*) $(-> $late_result:ty)?, $late_version:literal;)* }
    ) => {
        /// The functions that libibverbs exports. The library is never unloaded, so they can be
        /// called at any time.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
            $(pub $late: Option<unsafe extern "C" fn($($late_arg),*) $(-> $late_result)?>,)*
        }

        impl Library {
            fn fill(shared: Shared, path: &Path) -> Result<Library, LoadError> {
                Ok(Library {
                    $($name: {
                        let found = symbol(shared, stringify!($name), $version);
                        let found = found.ok_or(LoadError::Symbol { path: path.into(), name: stringify!($name) })?;
                        // SAFETY: the function has the type that the header gives to it in this
                        // version.
                        unsafe {
                            core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(found)
                        }
                    },)*
                    $($late: symbol(shared, stringify!($late), $late_version).map(|found| {
                        // SAFETY: as above.
                        unsafe {
                            core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($late_arg),*) $(-> $late_result)?>(found)
                        }
                    }),)*
                })
            }

            /// Name and version of each function, the required ones first.
            #[cfg(test)]
            pub(crate) const SYMBOLS: &[(&str, &str)] =
                &[$((stringify!($name), $version),)* $((stringify!($late), $late_version),)*];
        }
    };
}

exported! {
    always {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device, "IBVERBS_1.1";
        ibv_free_device_list: fn(*mut *mut ibv_device), "IBVERBS_1.1";
        ibv_get_device_name: fn(*mut ibv_device) -> *const c_char, "IBVERBS_1.1";
        ibv_get_device_guid: fn(*mut ibv_device) -> u64, "IBVERBS_1.1";
        ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context, "IBVERBS_1.1";
        ibv_close_device: fn(*mut ibv_context) -> c_int, "IBVERBS_1.1";
        ibv_get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int, "IBVERBS_1.1";
        ibv_ack_async_event: fn(*mut ibv_async_event), "IBVERBS_1.1";
        ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int, "IBVERBS_1.1";
        ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int, "IBVERBS_1.1";
        ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int, "IBVERBS_1.1";
        ibv_query_pkey: fn(*mut ibv_context, u8, c_int, *mut u16) -> c_int, "IBVERBS_1.1";
        ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd, "IBVERBS_1.1";
        ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int, "IBVERBS_1.1";
        ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr, "IBVERBS_1.1";
        ibv_dereg_mr: fn(*mut ibv_mr) -> c_int, "IBVERBS_1.1";
        ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel, "IBVERBS_1.0";
        ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int, "IBVERBS_1.0";
        ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq, "IBVERBS_1.1";
        ibv_resize_cq: fn(*mut ibv_cq, c_int) -> c_int, "IBVERBS_1.1";
        ibv_destroy_cq: fn(*mut ibv_cq) -> c_int, "IBVERBS_1.1";
        ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int, "IBVERBS_1.1";
        ibv_ack_cq_events: fn(*mut ibv_cq, u32), "IBVERBS_1.1";
        ibv_create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq, "IBVERBS_1.1";
        ibv_modify_srq: fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int, "IBVERBS_1.1";
        ibv_query_srq: fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int, "IBVERBS_1.1";
        ibv_destroy_srq: fn(*mut ibv_srq) -> c_int, "IBVERBS_1.1";
        ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp, "IBVERBS_1.1";
        ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int, "IBVERBS_1.1";
        ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int, "IBVERBS_1.1";
        ibv_destroy_qp: fn(*mut ibv_qp) -> c_int, "IBVERBS_1.1";
        ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah, "IBVERBS_1.1";
        ibv_destroy_ah: fn(*mut ibv_ah) -> c_int, "IBVERBS_1.1";
        ibv_fork_init: fn() -> c_int, "IBVERBS_1.1";
        ibv_wc_status_str: fn(u32) -> *const c_char, "IBVERBS_1.1";
        ibv_event_type_str: fn(u32) -> *const c_char, "IBVERBS_1.1";
        ibv_port_state_str: fn(u32) -> *const c_char, "IBVERBS_1.1";
    }
    late {
        ibv_reg_mr_iova2: fn(*mut ibv_pd, *mut c_void, usize, u64, u32) -> *mut ibv_mr, "IBVERBS_1.8";
        _ibv_query_gid_ex: fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int, "IBVERBS_1.11";
    }
}

fn symbol(shared: Shared, name: &str, version: &str) -> Option<*mut c_void> {
    let text = |s: &str| std::ffi::CString::new(s).unwrap_or_default();
    shared.symbol(&text(name), &text(version))
}

impl Library {
    /// Loads this file, or the system's `libibverbs.so.1`. Succeeds without any device.
    ///
    /// # Errors
    /// If no usable library is found.
    pub fn load(path: Option<&Path>) -> Result<Library, LoadError> {
        let path = path.unwrap_or(Path::new("libibverbs.so.1"));
        let shared = Shared::open(path).map_err(|why| LoadError::Missing { why })?;
        Library::fill(shared, path)
    }

    /// Queries a device like `ibv_query_device_ex` of the header. Without driver support, the
    /// extensions are zero.
    ///
    /// # Safety
    /// As for all functions of [`call`]; `attr` has room.
    pub unsafe fn query_device_ex(&self, context: *mut ibv_context, attr: *mut ibv_device_attr_ex) -> c_int {
        // SAFETY: the caller's promise. The longer record begins with the shorter one, and zeros
        // are valid in all of it.
        unsafe {
            match call::later_query_device(context, attr) {
                None | Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                    attr.write_bytes(0, 1);
                    (self.ibv_query_device)(context, (&raw mut (*attr).orig_attr).cast())
                }
                Some(done) => done,
            }
        }
    }

    /// Queries a port like `ibv_query_port` of the header. Fields that an old library does not know
    /// are zero.
    ///
    /// # Safety
    /// As for all functions of [`call`]; `attr` has room.
    pub unsafe fn query_port(&self, context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int {
        // SAFETY: the caller's promise; zeros are valid in the record, and the exported function
        // writes its beginning.
        unsafe {
            match call::later_query_port(context, port, attr) {
                Some(done) => done,
                None => {
                    attr.write_bytes(0, 1);
                    (self.ibv_query_port)(context, port, attr)
                }
            }
        }
    }

    /// Queries a GID like `ibv_query_gid_ex` of the header. Returns `EOPNOTSUPP` if the library has
    /// none.
    ///
    /// # Safety
    /// As for all functions of [`call`]; `entry` has room.
    pub unsafe fn query_gid_ex(
        &self,
        context: *mut ibv_context,
        port: u8,
        index: u32,
        entry: *mut ibv_gid_entry,
    ) -> c_int {
        match self._ibv_query_gid_ex {
            // SAFETY: the caller's promise, and no more than the length is written.
            Some(function) => unsafe {
                function(context, port.into(), index, entry, 0, size_of::<ibv_gid_entry>())
            },
            None => libc::EOPNOTSUPP,
        }
    }

    /// Registers memory like `ibv_reg_mr` of the header: optional access flags are omitted for a
    /// library that does not know them.
    ///
    /// # Safety
    /// As for all functions of [`call`]; the memory stays mapped as long as it is registered.
    pub unsafe fn reg_mr(
        &self,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: u32,
    ) -> *mut ibv_mr {
        // SAFETY: the caller's promise.
        unsafe {
            match self.ibv_reg_mr_iova2 {
                Some(function) if access & IBV_ACCESS_OPTIONAL_RANGE != 0 => {
                    function(pd, addr, length, addr.addr() as u64, access)
                }
                _ => (self.ibv_reg_mr)(pd, addr, length, (access & !IBV_ACCESS_OPTIONAL_RANGE) as c_int),
            }
        }
    }

    /// Returns the meaning of a completion's status.
    pub fn status(&self, status: u32) -> String {
        text(self.ibv_wc_status_str, status)
    }

    /// Returns the name of an asynchronous event.
    pub fn event(&self, event: u32) -> String {
        text(self.ibv_event_type_str, event)
    }

    /// Returns the name of a port's state.
    pub fn port_state(&self, state: u32) -> String {
        text(self.ibv_port_state_str, state)
    }
}

/// Returns the text that a function of the library has for a number.
fn text(function: unsafe extern "C" fn(u32) -> *const c_char, number: u32) -> String {
    // SAFETY: the functions take any number, and return a static C string.
    unsafe {
        let text = function(number);
        if text.is_null() {
            return format!("number {number}");
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;

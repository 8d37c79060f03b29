//! Requests and statuses.

use core::ffi::c_int;

use netmod_mpi::error::Class;

use crate::convert::MpiStatus;

/// Functions that read or write one field of a status.
macro_rules! fields {
    ($($get:ident $set:ident $field:ident;)*) => {
        $(
            pub(crate) unsafe fn $get(status: *const MpiStatus, value: *mut c_int) -> c_int {
                if MpiStatus::is_ignored(status) || value.is_null() {
                    return Class::ARG.0;
                }
                // SAFETY: the caller's memory.
                unsafe { value.write((*status).$field) };
                0
            }

            pub(crate) unsafe fn $set(status: *mut MpiStatus, value: c_int) -> c_int {
                if MpiStatus::is_ignored(status) {
                    return Class::ARG.0;
                }
                // SAFETY: the caller's memory.
                unsafe { (*status).$field = value };
                0
            }
        )*
    };
}

fields! {
    status_get_source status_set_source source;
    status_get_tag status_set_tag tag;
    status_get_error status_set_error error;
}

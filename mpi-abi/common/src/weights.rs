//! Addresses that mean something where a graph's weights are expected.

use core::ffi::{CStr, c_int};

/// Its address means that the graph has no weights.
pub static UNWEIGHTED: c_int = 0;
/// Its address means that there are no edges to weigh.
pub static WEIGHTS_EMPTY: c_int = 0;

/// Variables of the library of Fortran's module `mpi_f08`, which MPI is to set to these addresses.
const OF_FORTRAN: [(&CStr, &c_int); 2] =
    [(c"MPIR_C_MPI_UNWEIGHTED", &UNWEIGHTED), (c"MPIR_C_MPI_WEIGHTS_EMPTY", &WEIGHTS_EMPTY)];

/// Sets the variables of Fortran's library, if it is loaded.
pub fn tell_fortran() {
    for (name, address) in OF_FORTRAN {
        // SAFETY: the variables of these names are pointers of Fortran's library, or the constants
        // of this one, which have the value already.
        unsafe {
            let at: *mut *const c_int = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).cast();
            if !at.is_null() && at.read() != core::ptr::from_ref(address) {
                at.write(address);
            }
        }
    }
}

/// Returns true for the address that means no weights.
pub fn is_unweighted(at: *const c_int) -> bool {
    core::ptr::eq(at, &raw const UNWEIGHTED)
}

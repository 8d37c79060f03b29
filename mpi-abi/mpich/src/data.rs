//! Exported data: addresses with a meaning, and what Fortran's bindings share with C.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicPtr};

use netmod_mpi_common::imp::tool;
use netmod_mpi_common::weights::{UNWEIGHTED, WEIGHTS_EMPTY};

/// An address that programs compare.
#[repr(transparent)]
pub struct Address(*const c_void);

// SAFETY: it is never written, and nobody reads what it points to.
unsafe impl Sync for Address {}

/// A status of Fortran's module `mpi_f08`; only its address means something.
#[repr(transparent)]
pub struct FortranStatus([AtomicI32; 5]);

const fn no_status() -> FortranStatus {
    FortranStatus([const { AtomicI32::new(0) }; 5])
}

const fn address(of: &'static c_int) -> Address {
    Address(core::ptr::from_ref(of).cast())
}

/// The weights of a graph without weights.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Address = address(&UNWEIGHTED);
/// The weights of a graph without edges.
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Address = address(&WEIGHTS_EMPTY);
/// The same for Fortran's module `mpi_f08`.
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_UNWEIGHTED: Address = address(&UNWEIGHTED);
/// The same for Fortran's module `mpi_f08`.
#[unsafe(no_mangle)]
pub static MPIR_C_MPI_WEIGHTS_EMPTY: Address = address(&WEIGHTS_EMPTY);
/// All handles of a session of the tool interface.
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Address = address(&tool::ALL_HANDLES);

/// Fortran's `MPI_STATUS_IGNORE`; its library sets it when it starts.
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(core::ptr::null_mut());
/// Fortran's `MPI_STATUSES_IGNORE`; its library sets it when it starts.
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(core::ptr::null_mut());

/// The status that Fortran's module `mpi_f08` passes for none.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUS_IGNORE_OBJ: FortranStatus = no_status();
/// The statuses that Fortran's module `mpi_f08` passes for none.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: FortranStatus = no_status();
/// Fortran's `MPI_IN_PLACE`.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_IN_PLACE: AtomicI32 = AtomicI32::new(0);
/// Fortran's `MPI_BOTTOM`.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_BOTTOM: AtomicI32 = AtomicI32::new(0);
/// The address of the status for none, for C.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Address =
    Address(core::ptr::from_ref(&MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast());
/// The address of the statuses for none, for C.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Address =
    Address(core::ptr::from_ref(&MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast());

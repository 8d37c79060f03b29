//! Functions outside the standard that bindings of this interface call.

use crate::prelude::*;

/// A copy function of attributes that copies the value.
///
/// # Safety
/// `value_out` and `flag` point to memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra_state: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        value_out.write(value_in);
        flag.write(1);
    }
    0
}

/// Functions that are not there yet.
macro_rules! absent {
    ($($name:ident ($($argument:ident: $type:ty),*);)*) => {
        $(exported! { $name ($($argument: $type),*) -> c_int {
            let _ = ($($argument,)*);
            calls::missing(stringify!($name), Object::None)
        } })*
    };
}

exported! { MPII_Op_set_cxx(op: c_int, function: Function) -> c_int {
    calls::run("MPII_Op_set_cxx", Object::None, |mpi| {
        // SAFETY: the bindings pass their function for operations.
        unsafe { imp::op::op_set_cxx::<Interface>(mpi, op, function) }
    })
} }
exported! { MPII_Errhandler_set_cxx(errhandler: c_int, function: Function) -> c_int {
    calls::run("MPII_Errhandler_set_cxx", Object::None, |mpi| {
        // SAFETY: the bindings pass their function for error handlers.
        unsafe { imp::error::errhandler_set_cxx::<Interface>(mpi, errhandler, function) }
    })
} }
exported! { MPII_Keyval_set_proxy(keyval: c_int, copy: Function, delete: Function) -> c_int {
    calls::run("MPII_Keyval_set_proxy", Object::None, |mpi| {
        // SAFETY: the bindings pass their functions for those of keyvals.
        unsafe { imp::attr::keyval_set_proxy::<Interface>(mpi, keyval, copy, delete) }
    })
} }
exported! { MPII_Grequest_set_lang_f77(request: c_int) -> c_int {
    calls::run("MPII_Grequest_set_lang_f77", Object::None, |mpi| {
        // SAFETY: the bindings say so of a request whose functions are in Fortran.
        unsafe { imp::request::grequest_set_fortran::<Interface>(mpi, request) }
    })
} }
exported! { MPII_Comm_get_attr(
    comm: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int, kind: c_int
) -> c_int {
    calls::run("MPI_Comm_get_attr", Object::Comm(comm), |mpi| {
        // SAFETY: the bindings pass memory of theirs.
        unsafe { imp::attr::comm_get_attr_of_kind::<Interface>(mpi, comm, keyval, value, flag, kind) }
    })
} }
exported! { MPII_Comm_set_attr(comm: c_int, keyval: c_int, value: *mut c_void, kind: c_int) -> c_int {
    calls::run("MPI_Comm_set_attr", Object::Comm(comm), |mpi| {
        imp::attr::comm_set_attr_of_kind(mpi, comm, keyval, value, kind)
    })
} }
exported! { MPII_Type_get_attr(
    datatype: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int, kind: c_int
) -> c_int {
    calls::run("MPI_Type_get_attr", Object::None, |mpi| {
        // SAFETY: the bindings pass memory of theirs.
        unsafe { imp::attr::type_get_attr_of_kind::<Interface>(mpi, datatype, keyval, value, flag, kind) }
    })
} }
exported! { MPII_Type_set_attr(datatype: c_int, keyval: c_int, value: *mut c_void, kind: c_int) -> c_int {
    calls::run("MPI_Type_set_attr", Object::None, |mpi| {
        imp::attr::type_set_attr_of_kind(mpi, datatype, keyval, value, kind)
    })
} }

exported! { MPII_Win_get_attr(
    win: c_int, keyval: c_int, value: *mut c_void, flag: *mut c_int, kind: c_int
) -> c_int {
    calls::run("MPI_Win_get_attr", Object::Win(win), |mpi| {
        // SAFETY: the bindings pass memory of theirs.
        unsafe { imp::attr::win_get_attr_of_kind::<Interface>(mpi, win, keyval, value, flag, kind) }
    })
} }
exported! { MPII_Win_set_attr(win: c_int, keyval: c_int, value: *mut c_void, kind: c_int) -> c_int {
    calls::run("MPI_Win_set_attr", Object::Win(win), |mpi| {
        imp::attr::win_set_attr_of_kind(mpi, win, keyval, value, kind)
    })
} }

absent! {
    QMPI_Register_tool_name(name: *const c_char, init: Function);
    QMPI_Register_tool_storage(tool: c_int, storage: *mut c_void);
    QMPI_Register_function(tool: c_int, function: c_int, pointer: Function);
    QMPI_Get_function(tool: c_int, function: c_int, pointer: *mut Function, next: *mut c_int);
    QMPI_Get_tool_storage(context: *mut c_void, tool: c_int, storage: *mut *mut c_void);
    QMPI_Get_calling_address(context: *mut c_void, address: *mut *mut c_void);
}

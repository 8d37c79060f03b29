//! Operations of the program.

use core::ffi::{c_int, c_void};
use std::any::Any;
use std::sync::{Arc, OnceLock};

use netmod_mpi::handle::{Datatype, Op};
use netmod_mpi::op::UserOp;
use netmod_mpi::{Class, Mpi, MpiError, Result, on_stderr};

use super::mpix::{State, end_unused};
use crate::Abi;
use crate::convert::{Function, get, put};

type UserFn<H> = unsafe extern "C-unwind" fn(*mut u8, *mut u8, *mut c_int, *mut H);
type LargeUserFn<H> = unsafe extern "C-unwind" fn(*mut u8, *mut u8, *mut i64, *mut H);

/// A function of the bindings of C++, which calls an operation of the program in that language.
type CxxFn<H> = unsafe extern "C-unwind" fn(*const u8, *mut u8, c_int, H, UserFn<H>);

/// A function of the program, in the form that it was given in.
enum Operation<A: Abi> {
    /// Once the bindings of C++ have said so, they call it.
    Int(UserFn<A::Handle>, OnceLock<CxxFn<A::Handle>>),
    Large(LargeUserFn<A::Handle>),
}

impl<A: Abi> UserOp for Operation<A> {
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype) {
        let mut handle = A::datatype(datatype);
        let input = input.cast_mut();
        match *self {
            Operation::Large(function) => {
                let mut count = count as i64;
                // SAFETY: the program gave this function for such types; the memory is there, as
                // the caller promises.
                unsafe { function(input, inout, &raw mut count, &raw mut handle) }
            }
            Operation::Int(function, ref cxx) => {
                let Ok(mut count) = c_int::try_from(count) else {
                    on_stderr(&format_args!(
                        "an operation that was made by MPI_Op_create gets {count} elements at once, \
                         more than an int holds: make it by MPI_Op_create_c"
                    ));
                    std::process::abort()
                };
                // SAFETY: as above.
                unsafe {
                    match cxx.get() {
                        Some(cxx) => cxx(input, inout, count, handle, function),
                        None => function(input, inout, &raw mut count, &raw mut handle),
                    }
                }
            }
        }
    }
}

pub unsafe fn op_create<A: Abi>(
    mpi: &Mpi,
    (function, large): (Function, bool),
    commutes: c_int,
    result: *mut c_int,
) -> Result<()> {
    type AnyFn = unsafe extern "C-unwind" fn();
    let function =
        function.ok_or_else(|| MpiError::new(Class::ARG, "the function of the operation is NULL"))?;
    // SAFETY: the program passes a function of this type, as the standard wants it.
    let operation = unsafe {
        match large {
            true => Operation::<A>::Large(core::mem::transmute::<AnyFn, LargeUserFn<A::Handle>>(function)),
            false => {
                let function = core::mem::transmute::<AnyFn, UserFn<A::Handle>>(function);
                Operation::Int(function, OnceLock::new())
            }
        }
    };
    let made = mpi.op_create(Arc::new(operation), commutes != 0)?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// An operation with a state: it gets both buffers, the count, the type and the state.
type WithStateFn<H> = unsafe extern "C-unwind" fn(*mut u8, *mut u8, i64, H, *mut c_void);

/// A function of the program that has a state.
struct WithState<A: Abi> {
    function: WithStateFn<A::Handle>,
    state: State,
}

impl<A: Abi> UserOp for WithState<A> {
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype) {
        let (input, state) = (input.cast_mut(), self.state.address());
        // SAFETY: the program gave this function for such types; the memory is there, as the caller
        // promises.
        unsafe { (self.function)(input, inout, count as i64, A::datatype(datatype), state) }
    }
}

pub unsafe fn op_create_x<A: Abi>(
    mpi: &Mpi,
    function: Function,
    destructor: Function,
    commutes: c_int,
    state: *mut c_void,
    result: *mut c_int,
) -> Result<()> {
    type AnyFn = unsafe extern "C-unwind" fn();
    let function =
        function.ok_or_else(|| MpiError::new(Class::ARG, "the function of the operation is NULL"))?;
    // SAFETY: the program passes functions of these types, as the interface wants it.
    let operation = unsafe {
        let function = core::mem::transmute::<AnyFn, WithStateFn<A::Handle>>(function);
        WithState::<A> { function, state: State::new(state, destructor) }
    };
    let made = mpi.op_create(Arc::new(operation), commutes != 0)?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Frees an operation, and ends the state of one that no call uses any more.
pub unsafe fn op_free(mpi: &Mpi, op: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    let mut handle = Op(unsafe { get(op)? } as u32);
    let done = mpi.op_free(&mut handle);
    end_unused();
    // SAFETY: the caller's memory.
    unsafe { put(op, handle)? };
    done
}

/// Makes the bindings of C++ call the function of an operation.
///
/// # Safety
/// `cxx` calls such functions: with both buffers, the count, the type, and the function.
pub unsafe fn op_set_cxx<A: Abi>(mpi: &Mpi, op: c_int, cxx: Function) -> Result<()> {
    type AnyFn = unsafe extern "C-unwind" fn();
    let cxx = cxx.ok_or_else(|| MpiError::new(Class::ARG, "the function of the bindings is NULL"))?;
    // SAFETY: as the caller promises.
    let cxx = unsafe { core::mem::transmute::<AnyFn, CxxFn<A::Handle>>(cxx) };
    let function = mpi.op_function(Op(op as u32))?;
    let function: &dyn Any = &*function;
    match function.downcast_ref::<Operation<A>>() {
        Some(Operation::Int(_, slot)) => {
            // A second call is the same bindings'.
            let _ = slot.set(cxx);
            Ok(())
        }
        _ => Err(MpiError::new(Class::OP, "the bindings of C++ have no operations with large counts")),
    }
}

//! Attributes: keys with the program's copy and delete functions, and values that are addresses.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

use netmod_mpi::handle::{Comm, Datatype, Keyval};
use netmod_mpi::{AttrFns, AttrValue, Class, Mpi, MpiError, Result};

use crate::Abi;
use crate::calls::CODES;
use crate::convert::{Function, get, put};

type CopyFn<H> =
    unsafe extern "C-unwind" fn(H, c_int, *mut c_void, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;
type DeleteFn<H> = unsafe extern "C-unwind" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// The functions of a key; a function that is NULL does nothing.
struct Functions<A: Abi> {
    copy: Option<CopyFn<A::Handle>>,
    delete: Option<DeleteFn<A::Handle>>,
    /// Makes a handle of the object that the key is for.
    handle: fn(u32) -> A::Handle,
    /// The address that the program gave with them.
    extra_state: usize,
}

/// Returns an address that was kept as a number.
fn address(number: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(number)
}

/// Returns an error if a function of the program returned a code.
fn returned<A: Abi>(code: c_int, function: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let code = A::code_in(code);
    let class = Class(CODES.class(code).unwrap_or(Class::OTHER.0));
    let why = format!("the {function} function of an attribute returned {code}");
    Err(MpiError::of_user(class, code, why))
}

impl<A: Abi> AttrFns for Functions<A> {
    fn copy(&self, object: u32, keyval: Keyval, value: usize) -> Result<Option<usize>> {
        let Some(copy) = self.copy else { return Ok(None) };
        let (mut result, mut flag) = (core::ptr::null_mut(), 0);
        let (object, key) = ((self.handle)(object), A::keyval(keyval));
        // SAFETY: the program gave this function for objects of this kind; the results are of this
        // frame.
        let code = unsafe {
            copy(object, key, address(self.extra_state), address(value), &raw mut result, &raw mut flag)
        };
        returned::<A>(code, "copy")?;
        Ok((flag != 0).then(|| result.expose_provenance()))
    }

    fn delete(&self, object: u32, keyval: Keyval, value: usize) -> Result<()> {
        let Some(delete) = self.delete else { return Ok(()) };
        let (object, key) = ((self.handle)(object), A::keyval(keyval));
        // SAFETY: the program gave this function for objects of this kind.
        let code = unsafe { delete(object, key, address(value), address(self.extra_state)) };
        returned::<A>(code, "delete")
    }
}

fn functions<A: Abi>(
    handle: fn(u32) -> A::Handle,
    copy: Function,
    delete: Function,
    extra_state: *mut c_void,
) -> Arc<dyn AttrFns> {
    type Any = unsafe extern "C-unwind" fn();
    // SAFETY: the program passes functions of these types, as the standard wants it.
    let (copy, delete) = unsafe {
        (
            copy.map(|f| core::mem::transmute::<Any, CopyFn<A::Handle>>(f)),
            delete.map(|f| core::mem::transmute::<Any, DeleteFn<A::Handle>>(f)),
        )
    };
    Arc::new(Functions::<A> { copy, delete, handle, extra_state: extra_state.expose_provenance() })
}

/// Integers of the library that programs read by their address: for each key the latest value.
static INTEGERS: [AtomicI32; 16] = [const { AtomicI32::new(0) }; 16];

/// Writes what an attribute is: an address of the program, or that of an integer of the library.
///
/// # Safety
/// `value` points to a pointer of the caller, and `flag` to an integer, if they are not NULL.
unsafe fn found<A: Abi>(
    keyval: c_int,
    attribute: Option<AttrValue>,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { put(flag, attribute.is_some())? };
    let Some(attribute) = attribute else { return Ok(()) };
    if value.is_null() {
        return Err(MpiError::new(Class::ARG, "the pointer for the value of the attribute is NULL"));
    }
    let at = match attribute {
        AttrValue::Pointer(number) => address(number),
        AttrValue::Integer(number) => {
            let kept = &INTEGERS[(keyval & 15) as usize];
            kept.store(A::attribute(Keyval(keyval as u32), number) as i32, Ordering::Relaxed);
            kept.as_ptr().cast()
        }
    };
    // SAFETY: as the caller promises.
    unsafe { value.cast::<*mut c_void>().write(at) };
    Ok(())
}

/// The functions of one kind of object.
macro_rules! attributes {
    ($kind:ident $handle:ident: $create:ident $set:ident $get:ident) => {
        pub unsafe fn $create<A: Abi>(
            mpi: &Mpi,
            copy: Function,
            delete: Function,
            keyval: *mut c_int,
            extra_state: *mut c_void,
        ) -> Result<()> {
            let made =
                mpi.$create(functions::<A>(|object| A::$handle($kind(object)), copy, delete, extra_state))?;
            // SAFETY: the caller's memory.
            unsafe { put(keyval, made) }
        }

        pub fn $set(mpi: &Mpi, object: c_int, keyval: c_int, value: *mut c_void) -> Result<()> {
            mpi.$set($kind(object as u32), Keyval(keyval as u32), value.expose_provenance())
        }

        pub unsafe fn $get<A: Abi>(
            mpi: &Mpi,
            object: c_int,
            keyval: c_int,
            value: *mut c_void,
            flag: *mut c_int,
        ) -> Result<()> {
            let attribute = mpi.$get($kind(object as u32), Keyval(keyval as u32))?;
            // SAFETY: the caller's memory.
            unsafe { found::<A>(keyval, attribute, value, flag) }
        }
    };
}

attributes! { Comm comm: comm_create_keyval comm_set_attr comm_get_attr }
attributes! { Datatype datatype: type_create_keyval type_set_attr type_get_attr }

/// The names of MPI-1 for the functions of communicators.
pub unsafe fn keyval_create<A: Abi>(
    mpi: &Mpi,
    copy: Function,
    delete: Function,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { comm_create_keyval::<A>(mpi, copy, delete, keyval, extra_state) }
}

pub unsafe fn keyval_free(mpi: &Mpi, keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    let mut key = Keyval(unsafe { get(keyval)? } as u32);
    let done = mpi.comm_free_keyval(&mut key);
    // SAFETY: the caller's memory.
    unsafe { put(keyval, key)? };
    done
}

pub fn attr_put(mpi: &Mpi, comm: c_int, keyval: c_int, value: *mut c_void) -> Result<()> {
    comm_set_attr(mpi, comm, keyval, value)
}

pub unsafe fn attr_get<A: Abi>(
    mpi: &Mpi,
    comm: c_int,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { comm_get_attr::<A>(mpi, comm, keyval, value, flag) }
}

pub fn attr_delete(mpi: &Mpi, comm: c_int, keyval: c_int) -> Result<()> {
    mpi.comm_delete_attr(Comm(comm as u32), Keyval(keyval as u32))
}

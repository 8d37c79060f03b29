//! Attributes: keys with the program's copy and delete functions, and values that are addresses.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::any::Any;
use std::sync::{Arc, OnceLock};

use netmod_mpi::handle::{Comm, Datatype, Keyval, Win};
use netmod_mpi::{AttrFns, AttrValue, Class, Mpi, MpiError, Result, SetValue};

use crate::Abi;
use crate::calls::CODES;
use crate::convert::{Function, get, put};

type AnyFn = unsafe extern "C-unwind" fn();
type CopyFn<H> =
    unsafe extern "C-unwind" fn(H, c_int, *mut c_void, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;
type DeleteFn<H> = unsafe extern "C-unwind" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// Functions of the bindings of another language, which call those that the program gave there.
/// They get that function, its arguments, and before the value what kind it has.
type CopyProxy<H> = unsafe extern "C-unwind" fn(
    CopyFn<H>,
    H,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
type DeleteProxy<H> =
    unsafe extern "C-unwind" fn(DeleteFn<H>, H, c_int, c_int, *mut c_void, *mut c_void) -> c_int;

/// Both functions of the bindings.
struct Proxies<H> {
    copy: CopyProxy<H>,
    delete: DeleteProxy<H>,
}

/// The kind of values that are addresses.
const ADDRESS: c_int = 0;
/// The kind of values that are numbers of the size of addresses, those of Fortran.
const NUMBER: c_int = 1;

/// The functions of a key; a function that is NULL does nothing.
struct Functions<A: Abi> {
    copy: Option<CopyFn<A::Handle>>,
    delete: Option<DeleteFn<A::Handle>>,
    /// Makes a handle of the object that the key is for.
    handle: fn(u32) -> A::Handle,
    /// The address that the program gave with them.
    extra_state: usize,
    /// Once the bindings of another language have said so, they call the functions.
    proxies: OnceLock<Proxies<A::Handle>>,
}

/// Returns an address that was kept as a number.
fn address(number: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(number)
}

/// A value as functions of the program get it.
struct Passed {
    kind: c_int,
    /// The address or the number.
    word: *mut c_void,
    /// The place of a copy of the number, whose address functions in C get.
    place: Option<Arc<AtomicI64>>,
}

impl Passed {
    fn new(value: &SetValue) -> Passed {
        match value {
            SetValue::Address(at) => Passed { kind: ADDRESS, word: address(*at), place: None },
            SetValue::Number(place) => {
                let number = place.load(Ordering::Relaxed);
                let place = Some(Arc::new(AtomicI64::new(number)));
                Passed { kind: NUMBER, word: core::ptr::without_provenance_mut(number as usize), place }
            }
        }
    }

    /// Returns what a function in C gets.
    fn in_c(&self) -> *mut c_void {
        self.place.as_ref().map_or(self.word, |place| place.as_ptr().cast())
    }

    /// Returns the value that a copy function has made of this one.
    fn made(&self, result: *mut c_void) -> SetValue {
        match &self.place {
            None => SetValue::Address(result.expose_provenance()),
            Some(place) if result == self.in_c() => SetValue::Number(Arc::clone(place)),
            Some(_) => SetValue::number(result.addr() as i64),
        }
    }
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
    fn copy(&self, object: u32, keyval: Keyval, value: &SetValue) -> Result<Option<SetValue>> {
        let Some(copy) = self.copy else { return Ok(None) };
        let (mut result, mut flag) = (core::ptr::null_mut(), 0);
        let (object, key) = ((self.handle)(object), A::keyval(keyval));
        let (state, value) = (address(self.extra_state), Passed::new(value));
        let (kind, word) = (value.kind, value.word);
        // SAFETY: the program gave this function for objects of this kind; the results are of this
        // frame.
        let code = unsafe {
            match self.proxies.get() {
                Some(proxies) => {
                    (proxies.copy)(copy, object, key, state, kind, word, &raw mut result, &raw mut flag)
                }
                None => copy(object, key, state, value.in_c(), &raw mut result, &raw mut flag),
            }
        };
        returned::<A>(code, "copy")?;
        Ok((flag != 0).then(|| value.made(result)))
    }

    fn delete(&self, object: u32, keyval: Keyval, value: &SetValue) -> Result<()> {
        let Some(delete) = self.delete else { return Ok(()) };
        let (object, key) = ((self.handle)(object), A::keyval(keyval));
        let (state, value) = (address(self.extra_state), Passed::new(value));
        // SAFETY: the program gave this function for objects of this kind.
        let code = unsafe {
            match self.proxies.get() {
                Some(proxies) => (proxies.delete)(delete, object, key, value.kind, value.word, state),
                None => delete(object, key, value.in_c(), state),
            }
        };
        returned::<A>(code, "delete")
    }
}

fn functions<A: Abi>(
    handle: fn(u32) -> A::Handle,
    copy: Function,
    delete: Function,
    extra_state: *mut c_void,
) -> Arc<dyn AttrFns> {
    // SAFETY: the program passes functions of these types, as the standard wants it.
    let (copy, delete) = unsafe {
        (
            copy.map(|f| core::mem::transmute::<AnyFn, CopyFn<A::Handle>>(f)),
            delete.map(|f| core::mem::transmute::<AnyFn, DeleteFn<A::Handle>>(f)),
        )
    };
    let extra_state = extra_state.expose_provenance();
    Arc::new(Functions::<A> { copy, delete, handle, extra_state, proxies: OnceLock::new() })
}

/// Makes the bindings of another language call the functions of a key.
///
/// # Safety
/// `copy` and `delete` call such functions, as MPICH's bindings before 5.0 do.
pub unsafe fn keyval_set_proxy<A: Abi>(
    mpi: &Mpi,
    keyval: c_int,
    copy: Function,
    delete: Function,
) -> Result<()> {
    let (Some(copy), Some(delete)) = (copy, delete) else {
        return Err(MpiError::new(Class::ARG, "a function of the bindings is NULL"));
    };
    // SAFETY: as the caller promises.
    let proxies = unsafe {
        Proxies {
            copy: core::mem::transmute::<AnyFn, CopyProxy<A::Handle>>(copy),
            delete: core::mem::transmute::<AnyFn, DeleteProxy<A::Handle>>(delete),
        }
    };
    let functions = mpi.keyval_functions(Keyval(keyval as u32))?;
    let functions: &dyn Any = &*functions;
    let Some(functions) = functions.downcast_ref::<Functions<A>>() else {
        return Err(MpiError::new(Class::KEYVAL, "the keyval is not one of this interface"));
    };
    // A second call is the same bindings'.
    let _ = functions.proxies.set(proxies);
    Ok(())
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
        AttrValue::Placed { number, place, is_wide } => {
            let (at, number) = (address(place), A::attribute(Keyval(keyval as u32), number));
            // SAFETY: the object has a place of 8 bytes there.
            unsafe {
                if is_wide {
                    at.cast::<isize>().write(number as isize)
                } else {
                    at.cast::<c_int>().write(number as c_int)
                }
            };
            at
        }
    };
    // SAFETY: as the caller promises.
    unsafe { value.cast::<*mut c_void>().write(at) };
    Ok(())
}

/// Writes an attribute as Fortran reads it: as a number of 64 bits.
///
/// # Safety
/// `value` points to such a number of the caller, and `flag` to an integer.
unsafe fn found_number<A: Abi>(
    keyval: Keyval,
    attribute: Option<AttrValue>,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { put(flag, attribute.is_some())? };
    let number = match attribute {
        None => return Ok(()),
        Some(AttrValue::Pointer(number)) => number as i64,
        Some(AttrValue::Integer(number) | AttrValue::Placed { number, .. }) => A::attribute(keyval, number),
    };
    // SAFETY: as the caller promises.
    unsafe { put(value.cast::<i64>(), number) }
}

/// Returns the keyval of C for one of Fortran. Of the predefined ones Fortran has the next number.
fn of_fortran(keyval: c_int) -> Keyval {
    let keyval = Keyval(keyval as u32);
    let is_predefined = keyval.0 >> 30 == 1;
    if is_predefined && keyval.0.is_multiple_of(2) { Keyval(keyval.0 - 1) } else { keyval }
}

/// Reads and sets an attribute for the bindings of another language, as an address or as a number.
macro_rules! of_kinds {
    ($name:ident $kind:ident $get:ident, $set_name:ident $set:ident) => {
        pub fn $set_name(
            mpi: &Mpi,
            object: c_int,
            keyval: c_int,
            value: *mut c_void,
            kind: c_int,
        ) -> Result<()> {
            let value = match kind {
                ADDRESS => SetValue::Address(value.expose_provenance()),
                _ => SetValue::number(value.addr() as i64),
            };
            mpi.$set($kind(object as u32), Keyval(keyval as u32), value)
        }

        pub unsafe fn $name<A: Abi>(
            mpi: &Mpi,
            object: c_int,
            keyval: c_int,
            value: *mut c_void,
            flag: *mut c_int,
            kind: c_int,
        ) -> Result<()> {
            if kind == ADDRESS {
                // SAFETY: as the caller promises.
                return unsafe { $get::<A>(mpi, object, keyval, value, flag) };
            }
            let keyval = of_fortran(keyval);
            let attribute = mpi.$get($kind(object as u32), keyval)?;
            // SAFETY: the caller's memory.
            unsafe { found_number::<A>(keyval, attribute, value, flag) }
        }
    };
}

of_kinds! { comm_get_attr_of_kind Comm comm_get_attr, comm_set_attr_of_kind comm_set_attr }
of_kinds! { type_get_attr_of_kind Datatype type_get_attr, type_set_attr_of_kind type_set_attr }
of_kinds! { win_get_attr_of_kind Win win_get_attr, win_set_attr_of_kind win_set_attr }

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
            let value = SetValue::Address(value.expose_provenance());
            mpi.$set($kind(object as u32), Keyval(keyval as u32), value)
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
attributes! { Win win: win_create_keyval win_set_attr win_get_attr }

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

//! Requests and statuses.

use core::ffi::{c_int, c_void};
use std::any::Any;
use std::sync::{Arc, OnceLock};

use netmod_mpi::consts::UNDEFINED;
use netmod_mpi::handle::Request;
use netmod_mpi::{Class, GreqFunctions, Mpi, MpiError, Result, Status};

use super::group::length;
use crate::Abi;
use crate::calls::CODES;
use crate::convert::{Function, MpiStatus, get, put, requests, slice};

/// Functions that read or write one field of a status.
macro_rules! fields {
    ($($get:ident $set:ident $field:ident;)*) => {
        $(
            pub unsafe fn $get(status: *const MpiStatus, value: *mut c_int) -> c_int {
                if MpiStatus::is_ignored(status) || value.is_null() {
                    return Class::ARG.0;
                }
                // SAFETY: the caller's memory.
                unsafe { value.write((*status).$field) };
                0
            }

            pub unsafe fn $set(status: *mut MpiStatus, value: c_int) -> c_int {
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

/// A listener for each finished request: its index, its status, and its error.
type Each<'a> = dyn FnMut(usize, Status, Option<&MpiError>) + 'a;

/// Writes the statuses of requests, in the order in which they are told. If one has failed, those
/// that have not get the error 0, as the standard wants it.
///
/// # Safety
/// `statuses` is `MPI_STATUSES_IGNORE`, or has room for every request that is told.
unsafe fn told<T>(
    statuses: *mut MpiStatus,
    by_index: bool,
    run: impl FnOnce(&mut Each<'_>) -> Result<T>,
) -> Result<T> {
    let mut failed = Vec::new();
    let mut count = 0;
    let result = run(&mut |index, status, error| {
        let at = if by_index { index } else { count };
        count += 1;
        if MpiStatus::is_ignored(statuses) {
            return;
        }
        let place = statuses.wrapping_add(at);
        // SAFETY: as the caller promises.
        unsafe { MpiStatus::write(place, &status) };
        if let Some(error) = error {
            failed.push((at, CODES.code(error)));
        }
    });
    if !failed.is_empty() {
        for at in 0..count {
            // SAFETY: as the caller promises.
            unsafe { (*statuses.wrapping_add(at)).error = 0 };
        }
        for (at, code) in failed {
            // SAFETY: as the caller promises.
            unsafe { (*statuses.wrapping_add(at)).error = code };
        }
    }
    result
}

/// Writes the status of an operation that is over, also that of one that has failed.
///
/// # Safety
/// `place` is `MPI_STATUS_IGNORE` or the caller's memory.
///
/// # Errors
/// The operation's failure.
unsafe fn over(place: *mut MpiStatus, said: Result<Status>) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        match said {
            Ok(status) => put(place, status),
            Err(error) => put(place, Status::of_failure(&error)).and(Err(error)),
        }
    }
}

pub unsafe fn test(mpi: &Mpi, request: *mut c_int, flag: *mut c_int, status: *mut MpiStatus) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe {
        let mut handle = Request(get(request)? as u32);
        let ended = mpi.test(&mut handle);
        put(request, handle)?;
        let ended = ended?;
        put(flag, ended.is_some())?;
        ended.map_or(Ok(()), |said| over(status, said))
    }
}

pub unsafe fn request_get_status(
    mpi: &Mpi,
    request: c_int,
    flag: *mut c_int,
    status: *mut MpiStatus,
) -> Result<()> {
    let seen = mpi.request_get_status(Request(request as u32))?;
    // SAFETY: the caller's memory.
    unsafe {
        put(flag, seen.is_some())?;
        seen.map_or(Ok(()), |said| over(status, said))
    }
}

pub unsafe fn waitall(mpi: &Mpi, n: c_int, all: *mut c_int, statuses: *mut MpiStatus) -> Result<()> {
    // SAFETY: the caller's arrays.
    unsafe {
        let all = requests(all, n)?;
        told(statuses, true, |each| mpi.waitall(all, each))
    }
}

pub unsafe fn testall(
    mpi: &Mpi,
    n: c_int,
    all: *mut c_int,
    flag: *mut c_int,
    statuses: *mut MpiStatus,
) -> Result<()> {
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let all = requests(all, n)?;
        let done = told(statuses, true, |each| mpi.testall(all, each));
        // All are finished if one of them has failed, too.
        put(flag, *done.as_ref().unwrap_or(&true))?;
        done.map(|_| ())
    }
}

pub unsafe fn waitany(
    mpi: &Mpi,
    n: c_int,
    all: *mut c_int,
    at: *mut c_int,
    status: *mut MpiStatus,
) -> Result<()> {
    // SAFETY: the caller's array and memory.
    unsafe {
        let (found, said) = mpi.waitany(requests(all, n)?)?;
        put(at, found)?;
        over(status, said)
    }
}

pub unsafe fn testany(
    mpi: &Mpi,
    n: c_int,
    all: *mut c_int,
    at: *mut c_int,
    flag: *mut c_int,
    status: *mut MpiStatus,
) -> Result<()> {
    // SAFETY: the caller's array and memory.
    unsafe {
        let ended = mpi.testany(requests(all, n)?)?;
        put(flag, ended.is_some())?;
        let Some((found, said)) = ended else { return put(at, UNDEFINED) };
        put(at, found)?;
        over(status, said)
    }
}

/// Functions that finish some requests.
macro_rules! some {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            n: c_int,
            all: *mut c_int,
            count: *mut c_int,
            indices: *mut c_int,
            statuses: *mut MpiStatus,
        ) -> Result<()> {
            let mut next = 0;
            // SAFETY: the caller's arrays and memory.
            unsafe {
                let all = requests(all, n)?;
                let done = told(statuses, false, |each| {
                    mpi.$name(all, |at, status, error| {
                        indices.wrapping_add(next).write(at as c_int);
                        next += 1;
                        each(at, status, error);
                    })
                });
                let found = match &done {
                    Ok(found) => *found,
                    Err(_) => next as i32,
                };
                put(count, found)?;
                done.map(|_| ())
            }
        })*
    };
}

some! { waitsome testsome }

pub unsafe fn startall(mpi: &Mpi, n: c_int, all: *mut c_int) -> Result<()> {
    // SAFETY: the caller's array.
    mpi.startall(unsafe { requests(all, n)? })
}

/// Reads a status of the caller.
///
/// # Safety
/// It is `MPI_STATUS_IGNORE`, NULL, or a status.
///
/// # Errors
/// If it is ignored or NULL.
pub unsafe fn status(at: *const MpiStatus) -> Result<Status> {
    if MpiStatus::is_ignored(at) {
        return Err(MpiError::new(Class::ARG, "the status is NULL or MPI_STATUS_IGNORE; give one"));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { (*at).read() })
}

/// Changes a status of the caller.
///
/// # Safety
/// As for [`status`].
///
/// # Errors
/// As for [`status`].
pub unsafe fn change(at: *mut MpiStatus, how: impl FnOnce(&mut Status)) -> Result<()> {
    // SAFETY: the caller's status.
    unsafe {
        let mut new = status(at)?;
        how(&mut new);
        // The error is the program's: the status of nothing, when it is written, has none.
        let error = (*at).error;
        put(at, new)?;
        (*at).error = error;
        Ok(())
    }
}

pub unsafe fn test_cancelled(_mpi: &Mpi, at: *const MpiStatus, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe { put(flag, status(at)?.cancelled) }
}

pub unsafe fn status_set_cancelled(_mpi: &Mpi, at: *mut MpiStatus, flag: c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe { change(at, |status| status.cancelled = flag != 0) }
}

/// Returns C's array of requests that are only asked about.
///
/// # Safety
/// It has `length` requests, or is NULL.
///
/// # Errors
/// If the length is negative.
unsafe fn asked<'a>(all: *const c_int, n: c_int) -> Result<&'a [Request]> {
    // SAFETY: as the caller promises; a request is a transparent number.
    Ok(unsafe { slice(all.cast::<Request>(), length(n)?) })
}

/// Writes a status in an array, unless the program ignores them.
///
/// # Safety
/// `statuses` is `MPI_STATUSES_IGNORE`, or has a place of this number.
unsafe fn note(statuses: *mut MpiStatus, at: usize, status: Status) {
    if !MpiStatus::is_ignored(statuses) {
        // SAFETY: as the caller promises.
        unsafe { MpiStatus::write(statuses.wrapping_add(at), &status) };
    }
}

pub unsafe fn request_get_status_all(
    mpi: &Mpi,
    n: c_int,
    all: *const c_int,
    flag: *mut c_int,
    statuses: *mut MpiStatus,
) -> Result<()> {
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let done = mpi.request_get_status_all(asked(all, n)?, |at, status| note(statuses, at, status))?;
        put(flag, done)
    }
}

pub unsafe fn request_get_status_any(
    mpi: &Mpi,
    n: c_int,
    all: *const c_int,
    at: *mut c_int,
    flag: *mut c_int,
    status: *mut MpiStatus,
) -> Result<()> {
    // SAFETY: the caller's array and memory.
    unsafe {
        let (found, done, said) = mpi.request_get_status_any(asked(all, n)?)?;
        put(at, found)?;
        put(flag, done)?;
        if done { put(status, said) } else { Ok(()) }
    }
}

pub unsafe fn request_get_status_some(
    mpi: &Mpi,
    n: c_int,
    all: *const c_int,
    count: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MpiStatus,
) -> Result<()> {
    let mut next = 0;
    // SAFETY: the caller's arrays and memory.
    unsafe {
        let found = mpi.request_get_status_some(asked(all, n)?, |at, status| {
            indices.wrapping_add(next).write(at as c_int);
            note(statuses, next, status);
            next += 1;
        })?;
        put(count, found)
    }
}

type QueryFn<S> = unsafe extern "C-unwind" fn(*mut c_void, *mut S) -> c_int;
type FreeFn = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type CancelFn = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;

/// Functions of Fortran get their arguments by address, and return the code in the last one.
type FortranQueryFn<S> = unsafe extern "C-unwind" fn(*mut c_void, *mut S, *mut c_int);
type FortranFreeFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_int);
type FortranCancelFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_int, *mut c_int);

/// The functions of a generalized request in C.
pub(super) struct Functions<A: Abi> {
    query: QueryFn<A::Status>,
    free: FreeFn,
    cancel: CancelFn,
}

/// The same functions if they are of Fortran.
struct FortranFunctions<A: Abi> {
    query: FortranQueryFn<A::Status>,
    free: FortranFreeFn,
    cancel: FortranCancelFn,
}

/// The functions of a generalized request.
pub(super) struct Greq<A: Abi> {
    functions: Functions<A>,
    /// Set once the bindings of Fortran have said that they are of that language.
    fortran: OnceLock<FortranFunctions<A>>,
    /// The address that the program gave with them.
    extra_state: usize,
}

impl<A: Abi> Greq<A> {
    /// Takes the functions of a request and the address that the program gave with them.
    ///
    /// # Safety
    /// The functions are of the types that the standard names, or NULL.
    ///
    /// # Errors
    /// If one is NULL.
    pub(super) unsafe fn new(
        query: Function,
        free: Function,
        cancel: Function,
        extra_state: *mut c_void,
    ) -> Result<Greq<A>> {
        type AnyFn = unsafe extern "C-unwind" fn();
        let (Some(query), Some(free), Some(cancel)) = (query, free, cancel) else {
            return Err(MpiError::new(Class::ARG, "a function of the generalized request is NULL"));
        };
        // SAFETY: as the caller promises.
        let functions = unsafe {
            Functions::<A> {
                query: core::mem::transmute::<AnyFn, QueryFn<A::Status>>(query),
                free: core::mem::transmute::<AnyFn, FreeFn>(free),
                cancel: core::mem::transmute::<AnyFn, CancelFn>(cancel),
            }
        };
        Ok(Greq { functions, fortran: OnceLock::new(), extra_state: extra_state.expose_provenance() })
    }

    pub(super) fn state(&self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.extra_state)
    }
}

/// Returns an error if a function of the program returned a code.
pub(super) fn returned<A: Abi>(code: c_int, function: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let code = A::code_in(code);
    let class = Class(CODES.class(code).unwrap_or(Class::OTHER.0));
    Err(MpiError::of_user(class, code, format!("the {function} function of a request returned {code}")))
}

impl<A: Abi> GreqFunctions for Greq<A> {
    fn query(&self) -> Result<Status> {
        let mut status = A::EMPTY_STATUS;
        let mut code = 0;
        // SAFETY: the program gave this function with this address; status and code are of this
        // frame.
        unsafe {
            match self.fortran.get() {
                Some(f) => (f.query)(self.state(), &raw mut status, &raw mut code),
                None => code = (self.functions.query)(self.state(), &raw mut status),
            }
        }
        returned::<A>(code, "query")?;
        Ok(A::read_status(&status))
    }

    fn free(&self) -> Result<()> {
        let mut code = 0;
        // SAFETY: the program gave this function with this address; the code is of this frame.
        unsafe {
            match self.fortran.get() {
                Some(f) => (f.free)(self.state(), &raw mut code),
                None => code = (self.functions.free)(self.state()),
            }
        }
        returned::<A>(code, "free")
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        let (mut complete, mut code) = (c_int::from(complete), 0);
        // SAFETY: the program gave this function with this address; the others are of this frame.
        unsafe {
            match self.fortran.get() {
                Some(f) => (f.cancel)(self.state(), &raw mut complete, &raw mut code),
                None => code = (self.functions.cancel)(self.state(), complete),
            }
        }
        returned::<A>(code, "cancel")
    }
}

pub unsafe fn grequest_start<A: Abi>(
    mpi: &Mpi,
    query: Function,
    free: Function,
    cancel: Function,
    extra_state: *mut c_void,
    request: *mut c_int,
) -> Result<()> {
    // SAFETY: the program passes functions of these types; the caller's memory.
    unsafe {
        let functions = Greq::<A>::new(query, free, cancel, extra_state)?;
        put(request, mpi.grequest_start(Arc::new(functions))?)
    }
}

/// Notes that the functions of a generalized request are of Fortran.
///
/// # Safety
/// They are.
pub unsafe fn grequest_set_fortran<A: Abi>(mpi: &Mpi, request: c_int) -> Result<()> {
    let functions = mpi.grequest_functions(Request(request as u32))?;
    let functions: &dyn Any = &*functions;
    let Some(greq) = functions.downcast_ref::<Greq<A>>() else {
        return Err(MpiError::new(Class::REQUEST, "the request is not one of this interface"));
    };
    let Functions { query, free, cancel } = greq.functions;
    // SAFETY: as the caller promises.
    let fortran = unsafe {
        FortranFunctions::<A> {
            query: core::mem::transmute::<QueryFn<A::Status>, FortranQueryFn<A::Status>>(query),
            free: core::mem::transmute::<FreeFn, FortranFreeFn>(free),
            cancel: core::mem::transmute::<CancelFn, FortranCancelFn>(cancel),
        }
    };
    // A second call says the same.
    let _ = greq.fortran.set(fortran);
    Ok(())
}

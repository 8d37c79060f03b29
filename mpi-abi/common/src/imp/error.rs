//! Error handlers, codes and texts.

use core::ffi::{c_char, c_int, c_void};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use netmod_mpi::handle::{Comm, Errhandler, File, Session, Win};
use netmod_mpi::{Anytime, Class, Mpi, MpiError, Result, UserErrhandler};

use super::mpix::{State, end_unused};
use crate::Abi;
use crate::calls::{self, CODES, Object, code};
use crate::convert::{Function, get, put, put_text, text};

/// Bytes of `MPI_MAX_ERROR_STRING`.
const ERROR_TEXT: usize = 512;

/// An error handler in C: it gets the object and the code by address.
type ErrhandlerFn<H> = unsafe extern "C-unwind" fn(*mut H, *mut c_int, ...);

/// A function of the bindings of C++, which calls an error handler of the program in that language:
/// with the kind of the object, the object, the code, and the function.
type CxxFn<H> = unsafe extern "C-unwind" fn(c_int, *mut H, *mut c_int, ErrhandlerFn<H>);

/// A kind of objects whose error handlers are called.
trait Of<A: Abi>: Send + Sync + 'static {
    /// The handle in C.
    type Handle: Copy + 'static;
    /// The number of the kind for the bindings of C++.
    const KIND: c_int;

    /// Returns the handle in C of an object.
    fn handle(number: u32) -> Self::Handle;
}

/// Communicators, and objects whose handlers are not called otherwise.
struct Comms;

impl<A: Abi> Of<A> for Comms {
    type Handle = A::Handle;
    const KIND: c_int = 0;

    fn handle(number: u32) -> A::Handle {
        A::comm(Comm(number))
    }
}

/// Files.
struct Files;

impl<A: Abi> Of<A> for Files {
    type Handle = A::File;
    const KIND: c_int = 1;

    fn handle(number: u32) -> A::File {
        A::file(if number == 0 { File::NULL } else { File(number) })
    }
}

/// Windows.
struct Wins;

impl<A: Abi> Of<A> for Wins {
    type Handle = A::Handle;
    const KIND: c_int = 2;

    fn handle(number: u32) -> A::Handle {
        A::win(Win(number))
    }
}

/// An error handler of the program.
struct InC<A: Abi, K: Of<A>> {
    function: ErrhandlerFn<K::Handle>,
    /// Once the bindings of C++ have said so, they call it.
    cxx: OnceLock<CxxFn<K::Handle>>,
    kind: PhantomData<K>,
}

impl<A: Abi, K: Of<A>> UserErrhandler for InC<A, K> {
    fn call(&self, object: u32, code: i32) -> i32 {
        let (mut object, mut code) = (K::handle(object), A::code_out(code));
        // SAFETY: the program gave this function for objects of this kind; both addresses are of
        // this frame.
        unsafe {
            match self.cxx.get() {
                Some(cxx) => cxx(K::KIND, &raw mut object, &raw mut code, self.function),
                None => (self.function)(&raw mut object, &raw mut code),
            }
        }
        A::code_in(code)
    }
}

/// Makes an error handler of a function of the program.
fn handler<A: Abi, K: Of<A>>(function: Function) -> Result<Arc<dyn UserErrhandler>> {
    let function = function.ok_or_else(|| MpiError::new(Class::ARG, "the error handler is NULL"))?;
    // SAFETY: the program passes a function of this type, as the standard wants it.
    let function =
        unsafe { core::mem::transmute::<unsafe extern "C-unwind" fn(), ErrhandlerFn<K::Handle>>(function) };
    Ok(Arc::new(InC::<A, K> { function, cxx: OnceLock::new(), kind: PhantomData }))
}

/// An error handler with a state: it gets the object, the code and the state.
type WithStateFn<H> = unsafe extern "C-unwind" fn(H, c_int, *mut c_void);

/// An error handler of the program that has a state.
struct WithState<A: Abi, K: Of<A>> {
    function: WithStateFn<K::Handle>,
    state: State,
}

impl<A: Abi, K: Of<A>> UserErrhandler for WithState<A, K> {
    fn call(&self, object: u32, code: i32) -> i32 {
        // SAFETY: the program gave this function and its state for objects of this kind.
        unsafe { (self.function)(K::handle(object), A::code_out(code), self.state.address()) }
        code
    }
}

/// Makes an error handler of a function of the program with a state.
///
/// # Safety
/// The destructor may be called with the state.
unsafe fn handler_with_state<A: Abi, K: Of<A>>(
    function: Function,
    destructor: Function,
    state: *mut c_void,
) -> Result<Arc<dyn UserErrhandler>> {
    let function = function.ok_or_else(|| MpiError::new(Class::ARG, "the error handler is NULL"))?;
    // SAFETY: the program passes functions of these types, as the interface wants it.
    unsafe {
        let function =
            core::mem::transmute::<unsafe extern "C-unwind" fn(), WithStateFn<K::Handle>>(function);
        Ok(Arc::new(WithState::<A, K> { function, state: State::new(state, destructor) }))
    }
}

/// Makes the bindings of C++ call the function of an error handler.
///
/// # Safety
/// `cxx` calls such functions.
pub unsafe fn errhandler_set_cxx<A: Abi>(mpi: &Mpi, errhandler: c_int, cxx: Function) -> Result<()> {
    let cxx = cxx.ok_or_else(|| MpiError::new(Class::ARG, "the function of the bindings is NULL"))?;
    let function = mpi.errhandler_function(Errhandler(errhandler as u32))?;
    let function: &dyn Any = &*function;
    // SAFETY: as the caller promises.
    if unsafe {
        set_cxx::<A, Comms>(function, cxx)
            || set_cxx::<A, Files>(function, cxx)
            || set_cxx::<A, Wins>(function, cxx)
    } {
        return Ok(());
    }
    Err(MpiError::new(Class::ERRHANDLER, "the error handler is not one of this interface"))
}

/// Makes the bindings of C++ call the function of an error handler, if it is one of a kind. Returns
/// true if it is.
///
/// # Safety
/// `cxx` calls such functions.
unsafe fn set_cxx<A: Abi, K: Of<A>>(function: &dyn Any, cxx: unsafe extern "C-unwind" fn()) -> bool {
    let Some(handler) = function.downcast_ref::<InC<A, K>>() else { return false };
    // SAFETY: as the caller promises.
    let cxx = unsafe { core::mem::transmute::<unsafe extern "C-unwind" fn(), CxxFn<K::Handle>>(cxx) };
    // A second call is the same bindings'.
    let _ = handler.cxx.set(cxx);
    true
}

/// Functions that make an error handler; its object is of the kind that the program uses it for.
macro_rules! creates {
    ($($name:ident)*) => {
        $(pub unsafe fn $name<A: Abi>(mpi: &Mpi, function: Function, result: *mut c_int) -> Result<()> {
            let made = mpi.comm_create_errhandler(handler::<A, Comms>(function)?)?;
            // SAFETY: the caller's memory.
            unsafe { put(result, made) }
        })*
    };
}

creates! { comm_create_errhandler errhandler_create }

/// Makes an error handler of files.
pub unsafe fn file_create_errhandler<A: Abi>(
    mpi: &Mpi,
    function: Function,
    result: *mut c_int,
) -> Result<()> {
    let made = mpi.file_create_errhandler(handler::<A, Files>(function)?)?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Makes an error handler of windows.
pub unsafe fn win_create_errhandler<A: Abi>(mpi: &Mpi, function: Function, result: *mut c_int) -> Result<()> {
    let made = mpi.win_create_errhandler(handler::<A, Wins>(function)?)?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Makes an error handler of sessions, which may be wanted before the first one.
pub unsafe fn session_create_errhandler<A: Abi>(
    anytime: &Anytime,
    function: Function,
    result: *mut c_int,
) -> Result<()> {
    let made = anytime.session_create_errhandler(handler::<A, Comms>(function)?)?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Functions that make an error handler with a state.
macro_rules! creates_with_state {
    ($($name:ident $owner:ident $of:ident $create:ident;)*) => {
        $(pub unsafe fn $name<A: Abi>(
            owner: &$owner,
            function: Function,
            destructor: Function,
            state: *mut c_void,
            result: *mut c_int,
        ) -> Result<()> {
            // SAFETY: the caller's function, its destructor, and memory.
            unsafe {
                let handler = handler_with_state::<A, $of>(function, destructor, state)?;
                put(result, owner.$create(handler)?)
            }
        })*
    };
}

creates_with_state! {
    comm_create_errhandler_x Mpi Comms comm_create_errhandler;
    file_create_errhandler_x Mpi Files file_create_errhandler;
    win_create_errhandler_x Mpi Wins win_create_errhandler;
    session_create_errhandler_x Anytime Comms session_create_errhandler;
}

/// Frees an error handler, and ends the state of one that nobody has any more.
pub unsafe fn errhandler_free(anytime: &Anytime, errhandler: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    let mut handle = Errhandler(unsafe { get(errhandler)? } as u32);
    let done = anytime.errhandler_free(&mut handle);
    end_unused();
    // SAFETY: the caller's memory.
    unsafe { put(errhandler, handle)? };
    done
}

/// The name of MPI-1 for `comm_set_errhandler`.
pub fn errhandler_set(mpi: &Mpi, comm: c_int, errhandler: c_int) -> Result<()> {
    mpi.comm_set_errhandler(Comm(comm as u32), Errhandler(errhandler as u32))
}

/// The name of MPI-1 for `comm_get_errhandler`.
pub unsafe fn errhandler_get(mpi: &Mpi, comm: c_int, errhandler: *mut c_int) -> Result<()> {
    // SAFETY: the caller's memory.
    unsafe { put(errhandler, mpi.comm_get_errhandler(Comm(comm as u32))?) }
}

pub fn comm_call_errhandler(mpi: &Mpi, comm: c_int, code: c_int) -> Result<()> {
    // An object that does not exist is an error of this call.
    mpi.comm_get_errhandler(Comm(comm as u32))?;
    let error = MpiError::new(Class(CODES.class(code)?), CODES.string(code)?);
    calls::dispatch(mpi, "MPI_Comm_call_errhandler", Object::Comm(comm), &error, code);
    Ok(())
}

pub fn session_call_errhandler(mpi: &Mpi, session: c_int, code: c_int) -> Result<()> {
    // An object that does not exist is an error of this call.
    let mut handler = mpi.session_get_errhandler(Session(session as u32))?;
    mpi.anytime().errhandler_free(&mut handler)?;
    let error = MpiError::new(Class(CODES.class(code)?), CODES.string(code)?);
    calls::dispatch(mpi, "MPI_Session_call_errhandler", Object::Session(session), &error, code);
    Ok(())
}

pub fn file_call_errhandler(mpi: &Mpi, file: c_int, code: c_int) -> Result<()> {
    // An object that does not exist is an error of this call.
    let mut handler = mpi.file_get_errhandler(File(file as u32))?;
    mpi.anytime().errhandler_free(&mut handler)?;
    let error = MpiError::new(Class(CODES.class(code)?), CODES.string(code)?);
    calls::dispatch(mpi, "MPI_File_call_errhandler", Object::File(file), &error, code);
    Ok(())
}

pub fn win_call_errhandler(mpi: &Mpi, win: c_int, code: c_int) -> Result<()> {
    // An object that does not exist is an error of this call.
    let mut handler = mpi.win_get_errhandler(Win(win as u32))?;
    mpi.anytime().errhandler_free(&mut handler)?;
    let error = MpiError::new(Class(CODES.class(code)?), CODES.string(code)?);
    calls::dispatch(mpi, "MPI_Win_call_errhandler", Object::Win(win), &error, code);
    Ok(())
}

pub unsafe fn error_string(number: c_int, text: *mut c_char, length: *mut c_int) -> c_int {
    code(CODES.string(number).and_then(|words| {
        // SAFETY: the standard wants room for so many bytes, and for the length.
        unsafe { put_text(text, ERROR_TEXT, &words).and_then(|written| put(length, written as i64)) }
    }))
}

pub unsafe fn error_class(number: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(CODES.class(number).and_then(|found| unsafe { put(class, found) }))
}

pub unsafe fn add_error_class(class: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(class, CODES.add_class()) })
}

pub unsafe fn add_error_code(class: c_int, number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(CODES.add_code(class).and_then(|made| unsafe { put(number, made) }))
}

pub unsafe fn add_error_string(number: c_int, words: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    code(unsafe { text(words) }.and_then(|words| CODES.add_string(number, words)))
}

/// Functions that take out what was added.
macro_rules! removes {
    ($($name:ident $method:ident;)*) => {
        $(pub fn $name(number: c_int) -> c_int {
            code(CODES.$method(number))
        })*
    };
}

removes! {
    remove_error_class remove_class;
    remove_error_code remove_code;
    remove_error_string remove_string;
}

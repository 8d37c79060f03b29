//! Errors: a class that MPI names, and a text that says what is wrong and what would be right.
//!
//! In C an error is a number. [`Codes`] makes one of an error and keeps the texts of the latest.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ch3_shim::Error as DeviceError;

use crate::consts::LASTCODE;

/// An error class of MPI, or one of the user's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(pub i32);

macro_rules! classes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        #[allow(missing_docs)]
        impl Class {
            $(pub const $name: Class = Class($value);)*

            /// Returns the name of the class in MPI, without `MPI_ERR_`, and what it means. `None`
            /// for a number that is no class of this library.
            fn known(self) -> Option<(&'static str, &'static str)> {
                match self {
                    $(Class::$name => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

classes! {
    SUCCESS = 0, "no error";
    BUFFER = 1, "invalid buffer pointer";
    COUNT = 2, "invalid count";
    TYPE = 3, "invalid datatype";
    TAG = 4, "invalid tag";
    COMM = 5, "invalid communicator";
    RANK = 6, "invalid rank";
    ROOT = 7, "invalid root";
    GROUP = 8, "invalid group";
    OP = 9, "invalid operation, or one that the datatype does not have";
    TOPOLOGY = 10, "invalid topology";
    DIMS = 11, "invalid dimensions";
    ARG = 12, "invalid argument";
    UNKNOWN = 13, "unknown error";
    TRUNCATE = 14, "the message is longer than the buffer of its receive";
    OTHER = 15, "another error, which the text tells";
    INTERN = 16, "an error inside of the library";
    IN_STATUS = 17, "the error is in the status of each request";
    PENDING = 18, "the request is not finished";
    REQUEST = 19, "invalid request";
    ACCESS = 20, "access denied";
    AMODE = 21, "invalid access mode of a file";
    BAD_FILE = 22, "invalid file name";
    CONVERSION = 23, "data cannot be converted";
    DUP_DATAREP = 24, "the data representation is registered already";
    FILE_EXISTS = 25, "the file exists";
    FILE_IN_USE = 26, "the file is open in a process";
    FILE = 27, "invalid file handle";
    INFO = 28, "invalid info";
    INFO_KEY = 29, "invalid key of an info";
    INFO_VALUE = 30, "invalid value of an info";
    INFO_NOKEY = 31, "the info has no such key";
    IO = 32, "input or output failed";
    NAME = 33, "the service name is not published";
    NO_MEM = 34, "no memory is left";
    NOT_SAME = 35, "the processes did not give the same argument";
    NO_SPACE = 36, "no space is left on the device";
    NO_SUCH_FILE = 37, "the file does not exist";
    PORT = 38, "invalid port name";
    QUOTA = 39, "the quota is exceeded";
    READ_ONLY = 40, "the file or file system is read-only";
    SERVICE = 41, "invalid service name";
    SPAWN = 42, "processes could not be started";
    UNSUPPORTED_DATAREP = 43, "the data representation is not supported";
    UNSUPPORTED_OPERATION = 44, "the operation is not supported";
    WIN = 45, "invalid window";
    BASE = 46, "invalid base address";
    LOCKTYPE = 47, "invalid type of a lock";
    KEYVAL = 48, "invalid keyval";
    RMA_CONFLICT = 49, "conflicting accesses to a window";
    RMA_SYNC = 50, "wrong synchronization of a window";
    SIZE = 51, "invalid size";
    DISP = 52, "invalid displacement";
    ASSERT = 53, "invalid assertion";
    RMA_RANGE = 55, "the target memory is not part of the window";
    RMA_ATTACH = 56, "the memory cannot be attached";
    RMA_SHARED = 57, "the memory cannot be shared";
    RMA_FLAVOR = 58, "the window has the wrong flavor";
    T_MEMORY = 59, "no memory is left for the tool interface";
    T_NOT_INITIALIZED = 60, "the tool interface is not initialized";
    T_CANNOT_INIT = 61, "the tool interface cannot be initialized now";
    T_INVALID_INDEX = 62, "the index is not one of a variable, category, event or source";
    T_INVALID_ITEM = 63, "the index is not one of an item";
    T_INVALID_HANDLE = 64, "invalid handle of the tool interface";
    T_OUT_OF_HANDLES = 65, "no handle of the tool interface is left";
    T_OUT_OF_SESSIONS = 66, "no session of the tool interface is left";
    T_INVALID_SESSION = 67, "invalid session of the tool interface";
    T_CVAR_SET_NOT_NOW = 68, "the control variable cannot be set now";
    T_CVAR_SET_NEVER = 69, "the control variable can never be set";
    T_PVAR_NO_STARTSTOP = 70, "the performance variable cannot be started or stopped";
    T_PVAR_NO_WRITE = 71, "the performance variable cannot be written or reset";
    T_PVAR_NO_ATOMIC = 72, "the performance variable cannot be read and written at once";
    T_INVALID_NAME = 73, "the name is not one of a variable, category or event";
    T_INVALID = 74, "invalid argument of a function of the tool interface";
    SESSION = 75, "invalid session";
    PROC_ABORTED = 76, "a process has aborted";
    VALUE_TOO_LARGE = 77, "the value does not fit";
    T_NOT_SUPPORTED = 78, "the tool interface does not support what was asked for";
    T_NOT_ACCESSIBLE = 79, "the tool interface cannot be used now";
    ERRHANDLER = 80, "invalid error handler";
    ABI = 81, "the ABIs do not fit";
    PROC_FAILED = 101, "a process has failed";
    PROC_FAILED_PENDING = 102, "a process has failed that the request may wait for";
    REVOKED = 103, "the communicator was revoked";
    EAGAIN = 104, "a resource is missing for now; call again";
    NOREQ = 105, "no request is left";
    STREAM = 106, "invalid stream";
    TIMEOUT = 107, "the time is over";
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((name, _)) => f.write_str(&self.title(name)),
            None => write!(f, "Class({})", self.0),
        }
    }
}

impl Class {
    /// Returns the full name of a class. Those of the tool interface, and those beyond MPI, have
    /// prefixes of their own.
    fn title(self, name: &str) -> String {
        match name.strip_prefix("T_") {
            Some(of_tools) => format!("MPI_T_ERR_{of_tools}"),
            None if self.0 >= Class::PROC_FAILED.0 => format!("MPIX_ERR_{name}"),
            None => format!("MPI_ERR_{name}"),
        }
    }
}

/// The message of an operation that has failed though it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Rank of the sender in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes that were received.
    pub bytes: i64,
}

/// An error of an MPI call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiError {
    /// The class.
    pub class: Class,
    /// The argument or object, its value or the cause, and what would be right.
    pub text: String,
    /// The code that a function of the user has returned; 0 if the error is the library's.
    pub user_code: i32,
    /// Number of the communicator of the operation that has failed, whose error handler is called.
    /// `None` if it is that of the call, or if there is none.
    pub comm: Option<u32>,
    /// The message that has come all the same.
    pub arrived: Option<Arrived>,
}

impl MpiError {
    /// Creates an error; `text` says object, cause and way out.
    #[cold]
    pub fn new(class: Class, text: impl Into<String>) -> Box<MpiError> {
        Box::new(MpiError { class, text: text.into(), user_code: 0, comm: None, arrived: None })
    }

    /// Creates the error of a call that was given up since a function of the user returned `code`.
    #[cold]
    pub fn of_user(class: Class, code: i32, text: impl Into<String>) -> Box<MpiError> {
        Box::new(MpiError { class, text: text.into(), user_code: code, comm: None, arrived: None })
    }

    /// Returns the error with what it is about before its text.
    #[cold]
    pub(crate) fn about(mut self: Box<Self>, what: &str) -> Box<MpiError> {
        self.text = format!("{what}: {}", self.text);
        self
    }
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for MpiError {}

/// Result of the library's operations.
pub type Result<T> = core::result::Result<T, Box<MpiError>>;

/// Returns the class of an error of the device.
fn class_of(error: &DeviceError) -> Class {
    match error {
        DeviceError::Rank { .. } => Class::RANK,
        DeviceError::Tag(_) => Class::TAG,
        DeviceError::Truncated { .. } => Class::TRUNCATE,
        DeviceError::Peer(_) | DeviceError::ProcessesFailed(_) => Class::PROC_FAILED,
        DeviceError::PendingFailed { .. } => Class::PROC_FAILED_PENDING,
        DeviceError::Revoked => Class::REVOKED,
        DeviceError::Netmod(_) | DeviceError::Launcher(_) | DeviceError::Config(_) => Class::OTHER,
        DeviceError::Meet(_) => Class::PORT,
        DeviceError::Forked | DeviceError::Timeout(_) | DeviceError::Usage(_) => Class::OTHER,
    }
}

impl From<DeviceError> for Box<MpiError> {
    #[cold]
    fn from(error: DeviceError) -> Box<MpiError> {
        MpiError::new(class_of(&error), error.to_string())
    }
}

/// Texts that are kept.
const RECENT: usize = 256;
/// Bits of a code below the number of its text.
const TEXT_SHIFT: u32 = 8;
/// Numbers of texts: from 1 on, so that a bare class has none.
const TEXTS: u32 = (LASTCODE as u32 >> TEXT_SHIFT) + 1;
/// Bits of a code with the class.
const CLASS: i32 = 0x7f;

/// A class or code that the user has added. Its number is [`LASTCODE`] + 1 + its index.
#[derive(Debug)]
struct Added {
    class: i32,
    text: String,
    /// False once it was removed.
    live: bool,
}

impl Added {
    /// Checks that it has no text, as one has to be that is removed.
    fn check_text(&self, code: i32) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text =
            format!("errorcode {code} has the text {:?}; call MPI_Remove_error_string first", self.text);
        Err(MpiError::new(Class::ARG, text))
    }
}

#[derive(Debug, Default)]
struct Known {
    /// Number of the latest text.
    latest: u32,
    /// The texts with their numbers and classes, each at its number modulo [`RECENT`].
    recent: Vec<(u32, i32, String)>,
    added: Vec<Added>,
}

/// Error codes: numbers that stand for errors, and the classes, codes and texts of the user.
///
/// A code is the class and, from bit 8 on, the number of a text. The latest 256 texts are
/// kept; of an older code only the class is known.
#[derive(Debug, Default)]
pub struct Codes {
    known: Mutex<Known>,
}

impl Codes {
    /// Creates the codes of a process that has added none.
    pub const fn new() -> Codes {
        Codes { known: Mutex::new(Known { latest: 0, recent: Vec::new(), added: Vec::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a code for an error: the user's own if a function of the user returned one.
    pub fn code(&self, error: &MpiError) -> i32 {
        if error.user_code != 0 {
            return error.user_code;
        }
        if error.class.0 & !CLASS != 0 {
            return error.class.0;
        }
        let known = &mut *self.lock();
        known.latest = (known.latest + 1) % TEXTS;
        let number = known.latest.max(1);
        known.latest = number;
        let place = number as usize % RECENT;
        if known.recent.len() <= place {
            known.recent.resize_with(place + 1, Default::default);
        }
        known.recent[place] = (number, error.class.0, error.text.clone());
        error.class.0 | (number << TEXT_SHIFT).cast_signed()
    }

    /// Returns the class of a code of the library and the number of its text; 0 if it has none.
    pub fn parts(code: i32) -> (Class, u32) {
        (Class(code & CLASS), code.cast_unsigned() >> TEXT_SHIFT)
    }

    /// Returns the latest code of whose text only the remainder of its number is known, as one of
    /// the class that an interface shows for it; the class alone if its text is not kept any more.
    pub fn latest(&self, class: Class, shown: fn(Class) -> Class, remainder: u32, divisor: u32) -> i32 {
        let known = self.lock();
        let back = (known.latest + divisor - remainder % divisor) % divisor;
        let number = known.latest.saturating_sub(back);
        let kept = known.recent.get(number as usize % RECENT);
        match kept.filter(|(n, of, _)| number > 0 && *n == number && shown(Class(*of)) == class) {
            Some(_) => class.0 | (number << TEXT_SHIFT).cast_signed(),
            None => class.0,
        }
    }

    /// Returns the class of a code (`MPI_Error_class`).
    ///
    /// # Errors
    /// A number that is no code.
    pub fn class(&self, code: i32) -> Result<i32> {
        if let Some(index) = added_index(code) {
            return self.lock().get(index, code).map(|a| a.class);
        }
        known_class(code).map(|(class, ..)| class.0)
    }

    /// Returns the text of a code (`MPI_Error_string`).
    ///
    /// # Errors
    /// A number that is no code.
    pub fn string(&self, code: i32) -> Result<String> {
        if let Some(index) = added_index(code) {
            return self.lock().get(index, code).map(|a| a.text.clone());
        }
        let (class, name, meaning) = known_class(code)?;
        if class == Class::SUCCESS {
            return Ok(meaning.to_owned());
        }
        let number = (code.cast_unsigned()) >> TEXT_SHIFT;
        let known = self.lock();
        let recent = known.recent.get(number as usize % RECENT).filter(|r| number > 0 && r.0 == number);
        Ok(match recent {
            Some((.., text)) => format!("{}: {text}", class.title(name)),
            None => format!("{}: {meaning}", class.title(name)),
        })
    }

    /// Returns the greatest code in use (the attribute `MPI_LASTUSEDCODE`).
    pub fn last_used(&self) -> i32 {
        let known = self.lock();
        let last = known.added.iter().rposition(|a| a.live).map_or(0, |i| i as i32 + 1);
        LASTCODE + last
    }

    /// Adds an error class (`MPI_Add_error_class`).
    pub fn add_class(&self) -> i32 {
        let mut known = self.lock();
        let class = LASTCODE + 1 + known.added.len() as i32;
        known.added.push(Added { class, text: String::new(), live: true });
        class
    }

    /// Adds a code of a class (`MPI_Add_error_code`).
    ///
    /// # Errors
    /// A number that is no class.
    pub fn add_code(&self, class: i32) -> Result<i32> {
        if self.class(class)? != class {
            let text = format!("errorclass {class} is a code, not a class; give what MPI_Error_class says");
            return Err(MpiError::new(Class::ARG, text));
        }
        let mut known = self.lock();
        known.added.push(Added { class, text: String::new(), live: true });
        Ok(LASTCODE + known.added.len() as i32)
    }

    /// Sets the text of a class or code of the user (`MPI_Add_error_string`).
    ///
    /// # Errors
    /// A number that the user has not added.
    pub fn add_string(&self, code: i32, text: &str) -> Result<()> {
        self.change(code, |a| text.clone_into(&mut a.text))
    }

    /// Removes a class of the user (`MPI_Remove_error_class`).
    ///
    /// # Errors
    /// A number that is no class of the user, or one of which codes or the text are left.
    pub fn remove_class(&self, class: i32) -> Result<()> {
        let mut known = self.lock();
        let index = added_index(class).ok_or_else(|| not_added(class))?;
        let added = known.get(index, class)?;
        added.check_text(class)?;
        if added.class != class {
            let text = format!("errorclass {class} is a code of the user, not a class; give a class");
            return Err(MpiError::new(Class::ARG, text));
        }
        let codes = known.added.iter().enumerate().filter(|(i, a)| *i != index && a.live && a.class == class);
        let codes = codes.count();
        if codes > 0 {
            let text = format!("errorclass {class} has {codes} codes; remove these first");
            return Err(MpiError::new(Class::ARG, text));
        }
        known.remove(index);
        Ok(())
    }

    /// Removes a code of the user (`MPI_Remove_error_code`).
    ///
    /// # Errors
    /// A number that is no code of the user, or is a class, or one whose text is left.
    pub fn remove_code(&self, code: i32) -> Result<()> {
        let index = added_index(code).ok_or_else(|| not_added(code))?;
        let mut known = self.lock();
        let added = known.get(index, code)?;
        if added.class == code {
            let text = format!("errorcode {code} is a class of the user; call MPI_Remove_error_class");
            return Err(MpiError::new(Class::ARG, text));
        }
        added.check_text(code)?;
        known.remove(index);
        Ok(())
    }

    /// Removes the text of a class or code of the user (`MPI_Remove_error_string`).
    ///
    /// # Errors
    /// A number that the user has not added.
    pub fn remove_string(&self, code: i32) -> Result<()> {
        self.change(code, |a| a.text.clear())
    }

    fn change(&self, code: i32, change: impl FnOnce(&mut Added)) -> Result<()> {
        let index = added_index(code).ok_or_else(|| not_added(code))?;
        let known = &mut *self.lock();
        known.get(index, code)?;
        change(&mut known.added[index]);
        Ok(())
    }
}

impl Known {
    /// Removes a class or code. Its number is given again if none above it is in use.
    fn remove(&mut self, index: usize) {
        self.added[index].live = false;
        while self.added.last().is_some_and(|last| !last.live) {
            self.added.pop();
        }
    }

    fn get(&self, index: usize, code: i32) -> Result<&Added> {
        self.added.get(index).filter(|a| a.live).ok_or_else(|| no_code(code))
    }
}

/// Returns the class of a code of the library with its name and meaning.
fn known_class(code: i32) -> Result<(Class, &'static str, &'static str)> {
    let class = Class(code & CLASS);
    // No error has no text of its own.
    let sound = code >= 0 && (class != Class::SUCCESS || code == 0);
    let known = class.known().filter(|_| sound).ok_or_else(|| no_code(code))?;
    Ok((class, known.0, known.1))
}

/// Returns the index among the user's classes and codes; `None` for one of the library's.
fn added_index(code: i32) -> Option<usize> {
    usize::try_from(code.checked_sub(LASTCODE + 1)?).ok()
}

#[cold]
fn no_code(code: i32) -> Box<MpiError> {
    let text = format!("errorcode {code} is no error code or class: give one that a call has returned");
    MpiError::new(Class::ARG, text)
}

#[cold]
fn not_added(code: i32) -> Box<MpiError> {
    let text = format!(
        "errorcode {code} is not one of the user's: give what MPI_Add_error_class or MPI_Add_error_code returned"
    );
    MpiError::new(Class::ARG, text)
}

#[cfg(test)]
mod tests;

//! Objects that may be used at any time: before MPI is initialized, and after its end.
//!
//! MPI allows it of infos, of error handlers of sessions and of error codes (MPI 4.1, section
//! 11.4.1). They have locks of their own, which are taken last.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::allocated::Allocated;
use crate::errh::{Errhandlers, Handler, UserErrhandler};
use crate::error::{Codes, Result};
use crate::handle::{Errhandler, Info};
use crate::info::Infos;
use crate::tool::Tool;

/// The objects of a process that live longer than its [`Mpi`](crate::Mpi), which shares them.
#[derive(Debug)]
pub struct Anytime {
    codes: Arc<Codes>,
    infos: Mutex<Infos>,
    errhandlers: Mutex<Errhandlers>,
    allocated: Mutex<Allocated>,
    tool: Arc<Tool>,
}

impl Anytime {
    /// Creates the objects of a process whose error codes are `codes`.
    pub fn new(codes: Arc<Codes>) -> Anytime {
        Anytime {
            codes,
            infos: Mutex::default(),
            errhandlers: Mutex::default(),
            allocated: Mutex::default(),
            tool: Arc::default(),
        }
    }

    /// The error codes.
    pub fn codes(&self) -> &Codes {
        &self.codes
    }

    /// The tool interface.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    pub(crate) fn infos(&self) -> MutexGuard<'_, Infos> {
        self.infos.lock()
    }

    /// The memory that other processes of the node can open.
    pub(crate) fn allocated(&self) -> MutexGuard<'_, Allocated> {
        self.allocated.lock()
    }

    pub(crate) fn errhandlers(&self) -> MutexGuard<'_, Errhandlers> {
        self.errhandlers.lock()
    }

    /// Creates an error handler of a function (`MPI_Session_create_errhandler`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn session_create_errhandler(&self, function: Arc<dyn UserErrhandler>) -> Result<Errhandler> {
        self.errhandlers().create(function)
    }

    /// Returns what an error handler does; `None` if it does not exist.
    pub fn handler(&self, errhandler: Errhandler) -> Option<Handler> {
        self.errhandlers().get(errhandler).ok()
    }

    /// Frees a handle of an error handler and sets it to null. Objects that have it keep it.
    ///
    /// # Errors
    /// A bad handle.
    pub fn errhandler_free(&self, errhandler: &mut Errhandler) -> Result<()> {
        self.errhandlers().free(errhandler)
    }

    /// Creates an empty info.
    ///
    /// # Errors
    /// If there are too many.
    pub fn info_create(&self) -> Result<Info> {
        self.infos().create()
    }

    /// Creates an info that tells how this process was started.
    ///
    /// # Errors
    /// If there are too many.
    pub fn info_create_env(&self) -> Result<Info> {
        self.infos().create_env()
    }

    /// Creates a copy of an info.
    ///
    /// # Errors
    /// A bad handle.
    pub fn info_dup(&self, info: Info) -> Result<Info> {
        self.infos().dup(info)
    }

    /// Frees an info and sets the handle to null.
    ///
    /// # Errors
    /// A bad or predefined handle.
    pub fn info_free(&self, info: &mut Info) -> Result<()> {
        self.infos().free(info)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// A bad handle, key or value.
    pub fn info_set(&self, info: Info, key: &str, value: &str) -> Result<()> {
        self.infos().set(info, key, value)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// A bad handle; a key that the info has not got.
    pub fn info_delete(&self, info: Info, key: &str) -> Result<()> {
        self.infos().delete(info, key)
    }

    /// Returns the value of a key, if the info has it.
    ///
    /// # Errors
    /// A bad handle or key.
    pub fn info_get(&self, info: Info, key: &str) -> Result<Option<String>> {
        Ok(self.infos().get(info, key)?.map(str::to_owned))
    }

    /// Returns the number of keys.
    ///
    /// # Errors
    /// A bad handle.
    pub fn info_get_nkeys(&self, info: Info) -> Result<i32> {
        self.infos().get_nkeys(info)
    }

    /// Returns the `n`-th key.
    ///
    /// # Errors
    /// A bad handle or number.
    pub fn info_get_nthkey(&self, info: Info, n: i32) -> Result<String> {
        Ok(self.infos().get_nthkey(info, n)?.to_owned())
    }
}

//! Generalized requests: operations that the program carries out itself.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{MpiError, Result};
use crate::guest;
use crate::status::Status;

/// The functions of a generalized request.
pub trait GreqFunctions: Any + Send + Sync {
    /// Returns the status of the operation, which is over.
    ///
    /// # Errors
    /// The call that asks fails with it.
    fn query(&self) -> Result<Status>;

    /// Frees what belongs to the operation.
    ///
    /// # Errors
    /// The call that frees the request fails with it.
    fn free(&self) -> Result<()>;

    /// Cancels the operation; `complete` says whether it is over.
    ///
    /// # Errors
    /// The call that cancels fails with it.
    fn cancel(&self, complete: bool) -> Result<()>;
}

/// A function that waits for the operation, for about so many seconds, and completes the request if
/// it is over. The wait for the request fails with its error.
pub type WaitFunction = Box<dyn Fn(f64) -> Result<()> + Send + Sync>;

/// A generalized request.
pub(crate) struct Generalized {
    functions: Arc<dyn GreqFunctions>,
    waiter: Option<WaitFunction>,
    complete: AtomicBool,
    /// The failure of a function that was to let the operation go on.
    failure: OnceLock<Box<MpiError>>,
}

impl Generalized {
    /// Creates a request of an operation that is not over.
    pub(crate) fn new(functions: Arc<dyn GreqFunctions>, waiter: Option<WaitFunction>) -> Generalized {
        Generalized { functions, waiter, complete: AtomicBool::new(false), failure: OnceLock::new() }
    }

    /// The program's functions.
    pub(crate) fn functions(&self) -> &Arc<dyn GreqFunctions> {
        &self.functions
    }

    /// Notes that the operation is over.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Release);
    }

    /// Notes that the operation is over, and has failed.
    pub(crate) fn fail(&self, error: Box<MpiError>) {
        // The first failure is told.
        let _ = self.failure.set(error);
        self.complete();
    }

    /// Returns true if the program has said that the operation is over.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Asks for the status, and frees the operation. Nothing may be locked.
    ///
    /// # Errors
    /// Those of the functions.
    pub(crate) fn end(&self) -> Result<Status> {
        let status = self.query();
        self.free()?;
        status
    }

    /// Asks for the status alone.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn query(&self) -> Result<Status> {
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        guest::call("the query function of a generalized request", || self.functions.query())
    }

    /// Frees the operation alone.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn free(&self) -> Result<()> {
        guest::call("the free function of a generalized request", || self.functions.free())
    }

    /// Returns true if a wait for the request calls a function of the program.
    pub(crate) fn has_waiter(&self) -> bool {
        self.waiter.is_some()
    }

    /// Waits by the function of the program for about so many seconds. Nothing may be locked.
    pub(crate) fn wait(&self, seconds: f64) {
        let Some(waiter) = &self.waiter else { return };
        if let Err(error) = guest::call("the wait function of a generalized request", || waiter(seconds)) {
            self.fail(error);
        }
    }

    /// Cancels the operation.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn cancel(&self) -> Result<()> {
        guest::call("the cancel function of a generalized request", || {
            self.functions.cancel(self.is_complete())
        })
    }
}

impl fmt::Debug for Generalized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generalized").field("complete", &self.complete).finish_non_exhaustive()
    }
}

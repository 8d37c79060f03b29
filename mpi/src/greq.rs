//! Generalized requests: operations that the program carries out itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Class, MpiError, Result};
use crate::guest;
use crate::handle::Request;
use crate::instance::Mpi;
use crate::request::Kind;
use crate::status::Status;

/// The functions of a generalized request.
pub trait GreqFunctions: Send + Sync {
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

/// A generalized request.
pub(crate) struct Generalized {
    functions: Arc<dyn GreqFunctions>,
    complete: AtomicBool,
}

impl Generalized {
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
        guest::call("the query function of a generalized request", || self.functions.query())
    }

    /// Frees the operation alone.
    ///
    /// # Errors
    /// Those of the function.
    pub(crate) fn free(&self) -> Result<()> {
        guest::call("the free function of a generalized request", || self.functions.free())
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

impl Mpi {
    /// Creates the request of an operation of the program's (`MPI_Grequest_start`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn grequest_start(&self, functions: Arc<dyn GreqFunctions>) -> Result<Request> {
        let request = Generalized { functions, complete: AtomicBool::new(false) };
        self.with(|s| s.objects.requests.insert(Kind::Generalized(Arc::new(request))))
    }

    /// Says that the operation of a generalized request is over.
    ///
    /// # Errors
    /// A request that is not one.
    pub fn grequest_complete(&self, request: Request) -> Result<()> {
        self.with(|s| match &s.objects.requests.table.get(request)?.kind {
            Kind::Generalized(g) => {
                g.complete.store(true, Ordering::Release);
                Ok(())
            }
            other => {
                let text =
                    format!("request {:#010x} is a {other:?}, not one of MPI_Grequest_start", request.0);
                Err(MpiError::new(Class::REQUEST, text))
            }
        })
    }
}

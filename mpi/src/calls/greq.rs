//! Operations of the program: generalized requests, and functions that are polled.

use std::sync::Arc;

use crate::error::{Class, MpiError, Result};
use crate::greq::{Generalized, GreqFunctions, WaitFunction};
use crate::handle::Request;
use crate::instance::Mpi;
use crate::polled::{Operation, PollFunction};
use crate::request::Kind;

impl Mpi {
    /// Creates the request of an operation of the program's (`MPI_Grequest_start`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn grequest_start(&self, functions: Arc<dyn GreqFunctions>) -> Result<Request> {
        let request = Arc::new(Generalized::new(functions, None));
        self.with(|s| s.requests.insert(Kind::Generalized(request)))
    }

    /// Creates the request of an operation of the program's that goes on when a function is called
    /// (`MPIX_Grequest_start`).
    ///
    /// Waits and tests of all kinds call the function until the request is complete.
    ///
    /// # Errors
    /// If there are too many.
    pub fn grequest_start_polled(
        &self,
        functions: Arc<dyn GreqFunctions>,
        function: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<Request> {
        let greq = Arc::new(Generalized::new(functions, None));
        self.with(|s| {
            let request = s.requests.insert(Kind::Generalized(Arc::clone(&greq)))?;
            s.requests.polled.begin(Operation::Request(request, greq, Box::new(function)));
            Ok(request)
        })
    }

    /// Creates the request of an operation of the program's that a function waits for
    /// (`MPIX_Grequest_start`).
    ///
    /// Only waits for this request, alone or among all of several, call the function.
    ///
    /// # Errors
    /// If there are too many.
    pub fn grequest_start_waited(
        &self,
        functions: Arc<dyn GreqFunctions>,
        waiter: WaitFunction,
    ) -> Result<Request> {
        let request = Arc::new(Generalized::new(functions, Some(waiter)));
        self.with(|s| s.requests.insert(Kind::Generalized(request)))
    }

    /// Begins an operation without a request, whose function waits and tests call until it is over
    /// (`MPIX_Async_start`). `MPI_Finalize` waits for its end.
    ///
    /// # Errors
    /// After finalize.
    pub fn async_start(&self, function: Box<dyn PollFunction>) -> Result<()> {
        self.with(|s| {
            s.requests.polled.begin(Operation::Thing(function));
            Ok(())
        })
    }

    /// Makes progress once, also for what is polled.
    ///
    /// # Errors
    /// If the device fails as a whole.
    pub(crate) fn progress(&self) -> Result<()> {
        self.test_until::<()>(|_, _, _| None).map(|_| ())
    }

    /// Says that the operation of a generalized request is over, and frees it if the program has
    /// given the request up.
    ///
    /// # Errors
    /// A request that is not one; that of the function that frees the operation.
    pub fn grequest_complete(&self, request: Request) -> Result<()> {
        self.with_generalized(request, Generalized::complete)?;
        self.free_given_up(request)
    }

    /// Says that the operation of a generalized request is over, and has failed.
    ///
    /// # Errors
    /// As [`Mpi::grequest_complete`].
    pub(crate) fn fail_generalized(
        &self,
        request: Request,
        greq: &Generalized,
        error: Box<MpiError>,
    ) -> Result<()> {
        greq.fail(error);
        self.free_given_up(request)
    }

    /// Frees an operation that is over if the program has given its request up meanwhile.
    fn free_given_up(&self, request: Request) -> Result<()> {
        let given_up = self.with(|s| {
            if !s.requests.table.find(request).is_some_and(|entry| entry.freed) {
                return Ok(None);
            }
            Ok(match s.requests.table.remove(request)?.kind {
                Kind::Generalized(greq) => Some(greq),
                _ => None,
            })
        })?;
        given_up.map_or(Ok(()), |greq| greq.free())
    }

    /// Returns the functions of a generalized request.
    ///
    /// # Errors
    /// A request that is not one.
    pub fn grequest_functions(&self, request: Request) -> Result<Arc<dyn GreqFunctions>> {
        self.with_generalized(request, |g| Arc::clone(g.functions()))
    }

    fn with_generalized<T>(&self, request: Request, f: impl FnOnce(&Generalized) -> T) -> Result<T> {
        self.with(|s| match &s.requests.table.get(request)?.kind {
            Kind::Generalized(g) => Ok(f(g)),
            other => {
                let text =
                    format!("request {:#010x} is a {other:?}, not one of MPI_Grequest_start", request.0);
                Err(MpiError::new(Class::REQUEST, text))
            }
        })
    }
}

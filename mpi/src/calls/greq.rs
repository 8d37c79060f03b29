//! Generalized requests: starting and completing them.

use std::sync::Arc;

use crate::error::{Class, MpiError, Result};
use crate::greq::{Generalized, GreqFunctions};
use crate::handle::Request;
use crate::instance::Mpi;
use crate::request::Kind;

impl Mpi {
    /// Creates the request of an operation of the program's (`MPI_Grequest_start`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn grequest_start(&self, functions: Arc<dyn GreqFunctions>) -> Result<Request> {
        let request = Arc::new(Generalized::new(functions));
        self.with(|s| s.requests.insert(Kind::Generalized(request)))
    }

    /// Says that the operation of a generalized request is over.
    ///
    /// # Errors
    /// A request that is not one.
    pub fn grequest_complete(&self, request: Request) -> Result<()> {
        self.with_generalized(request, Generalized::complete)
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

//! Error handlers of communicators.
//!
//! The library returns errors as values. The facade asks for the handler of the object that a call
//! was about, and runs it when the call has ended and nothing is locked.

use std::sync::Arc;

use crate::errh::{Handler, UserErrhandler};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Errhandler};
use crate::instance::Mpi;
use crate::objects::Objects;

fn handler(objects: &Objects, comm: Comm) -> Option<Handler> {
    objects.anytime.errhandlers().get(objects.comms.find(comm)?.errhandler).ok()
}

impl Mpi {
    /// Returns the function of an error handler of the program.
    ///
    /// # Errors
    /// A bad handle, a predefined error handler.
    pub fn errhandler_function(&self, errhandler: Errhandler) -> Result<Arc<dyn UserErrhandler>> {
        match self.anytime().errhandlers().get(errhandler)? {
            Handler::User(function) => Ok(function),
            predefined => {
                let text = format!("the error handler {predefined:?} is predefined: it has no function");
                Err(MpiError::new(Class::ERRHANDLER, text))
            }
        }
    }

    /// Creates an error handler of a function (`MPI_Comm_create_errhandler`).
    ///
    /// # Errors
    /// If there are too many.
    pub fn comm_create_errhandler(&self, function: Arc<dyn UserErrhandler>) -> Result<Errhandler> {
        self.with(|s| s.objects.anytime.errhandlers().create(function))
    }

    /// Sets the error handler of a communicator.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_set_errhandler(&self, comm: Comm, errhandler: Errhandler) -> Result<()> {
        self.with(|s| {
            let place = &mut s.objects.comms.get_mut(comm)?.errhandler;
            s.objects.anytime.errhandlers().replace(place, errhandler)
        })
    }

    /// Returns the error handler of a communicator, as a handle to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_errhandler(&self, comm: Comm) -> Result<Errhandler> {
        self.with(|s| {
            let handle = s.objects.comms.get(comm)?.errhandler;
            s.objects.anytime.errhandlers().hold(handle)?;
            Ok(handle)
        })
    }

    /// Returns what is done about an error of a call on this communicator.
    ///
    /// For one that does not exist, and for calls without a communicator, it is that of
    /// `MPI_COMM_SELF`; while that is the initial one, that of `MPI_COMM_WORLD`, where programs
    /// set it that were written before MPI 4.
    pub fn comm_handler(&self, comm: Comm) -> Handler {
        let found = self.with(|s| {
            let of = |comm| handler(&s.objects, comm).or_else(|| s.objects.contexts.handler(comm));
            Ok(of(comm).or_else(|| match of(Comm::SELF) {
                Some(Handler::Fatal) | None => of(Comm::WORLD),
                other => other,
            }))
        });
        found.ok().flatten().or_else(|| self.last_handler().cloned()).unwrap_or(Handler::Fatal)
    }
}

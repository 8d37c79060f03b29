//! Error handlers: what is done with an error of a call.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::handle::{Errhandler, Table};

/// An error handler of the program.
pub trait UserErrhandler: Any + Send + Sync {
    /// Handles an error of an object, by its handle and the error's code. Returns the code that the
    /// call gives back.
    fn call(&self, object: u32, code: i32) -> i32;
}

/// The answer to an error.
#[derive(Clone)]
pub enum Handler {
    /// The job ends, after the error was told.
    Fatal,
    /// The processes of the communicator end.
    Abort,
    /// The call returns the error's code.
    Return,
    /// A function of the program is called first.
    User(Arc<dyn UserErrhandler>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Handler::Fatal => "Fatal",
            Handler::Abort => "Abort",
            Handler::Return => "Return",
            Handler::User(_) => "User",
        })
    }
}

/// A handler and how often it is used: by its handle, and by objects.
#[derive(Debug)]
struct Counted {
    handler: Handler,
    uses: usize,
}

/// All error handlers of a process.
#[derive(Debug)]
pub struct Errhandlers {
    table: Table<Errhandler, Counted>,
}

impl Default for Errhandlers {
    fn default() -> Errhandlers {
        Errhandlers::new()
    }
}

impl Errhandlers {
    /// Creates the predefined handlers.
    pub fn new() -> Errhandlers {
        let handler = |handler| Some(Counted { handler, uses: 1 });
        // The third is MPICH's for C++, whose bindings throw once the call has returned.
        let predefined = [Handler::Fatal, Handler::Return, Handler::Return, Handler::Abort].map(handler);
        Errhandlers { table: Table::with_predefined(predefined) }
    }

    /// Creates a handler of a function.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn create(&mut self, function: Arc<dyn UserErrhandler>) -> Result<Errhandler> {
        self.table.insert(Counted { handler: Handler::User(function), uses: 1 })
    }

    /// Returns what a handler does.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn get(&self, errhandler: Errhandler) -> Result<Handler> {
        self.table.get(errhandler).map(|counted| counted.handler.clone())
    }

    /// Adds a use: an object has this handler, or the program another copy of it.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn hold(&mut self, errhandler: Errhandler) -> Result<()> {
        self.table.get_mut(errhandler)?.uses += 1;
        Ok(())
    }

    /// Gives an object another handler in place of the one that it has.
    ///
    /// # Errors
    /// If the new one does not exist.
    pub(crate) fn replace(&mut self, place: &mut Errhandler, errhandler: Errhandler) -> Result<()> {
        self.hold(errhandler)?;
        self.release(std::mem::replace(place, errhandler));
        Ok(())
    }

    /// Ends a use. The handler goes with its last one.
    pub fn release(&mut self, errhandler: Errhandler) {
        let Some(counted) = self.table.find_mut(errhandler) else { return };
        // Predefined handlers stay.
        if !matches!(counted.handler, Handler::User(_)) {
            return;
        }
        counted.uses -= 1;
        if counted.uses == 0 && self.table.remove(errhandler).is_err() {
            unreachable!("it was found above");
        }
    }

    /// Ends the use of a handle, and makes it null (`MPI_Errhandler_free`). Objects keep their
    /// handler.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn free(&mut self, errhandler: &mut Errhandler) -> Result<()> {
        self.table.get(*errhandler)?;
        self.release(*errhandler);
        *errhandler = Errhandler::NULL;
        Ok(())
    }

    /// Returns the handlers of the program that are in use.
    pub fn live(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;

    struct Nothing;

    impl UserErrhandler for Nothing {
        fn call(&self, _object: u32, code: i32) -> i32 {
            code
        }
    }

    #[test]
    fn a_handler_lives_as_long_as_an_object_has_it() {
        let mut all = Errhandlers::new();
        let mine = all.create(Arc::new(Nothing)).expect("room");
        all.hold(mine).expect("it is there");
        let mut handle = mine;
        all.free(&mut handle).expect("it is there");
        assert_eq!((handle, all.live()), (Errhandler::NULL, 1));
        assert!(matches!(all.get(mine), Ok(Handler::User(_))));
        all.release(mine);
        assert_eq!(all.live(), 0);
        assert_eq!(all.get(mine).expect_err("it is gone").class, Class::ERRHANDLER);
    }

    #[test]
    fn predefined_handlers_stay() {
        let mut all = Errhandlers::new();
        for _ in 0..3 {
            let mut handle = Errhandler::RETURN;
            all.free(&mut handle).expect("it is there");
            assert_eq!(handle, Errhandler::NULL);
        }
        assert!(matches!(all.get(Errhandler::RETURN), Ok(Handler::Return)));
        assert!(matches!(all.get(Errhandler::ARE_FATAL), Ok(Handler::Fatal)));
        assert!(matches!(all.get(Errhandler::ABORT), Ok(Handler::Abort)));
        assert_eq!(all.free(&mut Errhandler::NULL.clone()).expect_err("null").class, Class::ERRHANDLER);
    }
}

//! Operations that go on in steps: a collective, the making of a communicator.
//!
//! A task is kept in its request. Every call that makes progress advances all of them.

use std::fmt;

use ch3_shim::Vci;

use crate::comm::CommCore;
use crate::error::Result;
use crate::handle::Request;
use crate::objects::Objects;
use crate::status::Status;

/// The state of a task after it has gone as far as it can.
pub(crate) enum Progress {
    /// It waits for messages, or for another task.
    Blocked,
    /// It waits for a function of the program to be called, after which [`Task::called`] is.
    Call(Box<dyn FnOnce() + Send>),
    /// It is over.
    Done(Result<Status>),
}

/// An operation that goes on in steps.
pub(crate) trait Task: Send {
    /// Goes on as far as it can without waiting. It is not called again after its end.
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress;

    /// Returns the communicator that it is an operation of; `None` if it has none.
    fn core(&self) -> Option<&CommCore>;

    /// Notes that the function of the program was called.
    fn called(&mut self) {}

    /// Returns its partitions, if it has some.
    fn partitions(&mut self) -> Option<&mut dyn Partitions> {
        None
    }

    /// Leaves what later operations can use, at its end; it is not started again.
    fn retire(self: Box<Self>, _objects: &Objects) {}

    /// Gives up what it waits for while it is not under way, since its request is freed.
    fn leave(&mut self, _vci: &mut Vci) {}

    /// Prepares a task that is over for its next run, of a persistent operation.
    ///
    /// # Errors
    /// If it cannot begin.
    fn restart(&mut self, objects: &mut Objects) -> Result<()>;
}

/// The partitions of a task of partitioned communication.
pub(crate) trait Partitions {
    /// Notes that one may be sent.
    ///
    /// # Errors
    /// A task that receives or is not under way; one that it does not have, or that is ready
    /// already.
    fn ready(&mut self, vci: &mut Vci, partition: i32) -> Result<()>;

    /// Returns true if one has been received. All have if the task is not under way.
    ///
    /// # Errors
    /// A task that sends; one that it does not have.
    fn has_arrived(&self, vci: &Vci, partition: i32) -> Result<bool>;
}

impl fmt::Debug for dyn Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// A call of a function of the program, for a task.
pub(crate) struct Call {
    pub request: Request,
    pub task: Box<dyn Task>,
    pub function: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("request", &self.request).finish_non_exhaustive()
    }
}

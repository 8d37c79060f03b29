//! Operations of the program that go on when one of its functions is called.
//!
//! Waits and tests call these functions, all of them, one after the other and outside of the lock.
//! Whoever calls one has taken it off the list, so that no two threads are in the same one. It may
//! call MPI, and a call that waits calls the others, down to a certain depth.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::greq::Generalized;
use crate::guest;
use crate::handle::Request;

/// Functions that a thread is in at the same time, each called by a wait or test of the one before.
const DEEPEST: u32 = 8;

thread_local! {
    /// Functions that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The state of an operation after its function was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The function is to be called again.
    Pending,
    /// The operation is over. The function is not called again.
    Over,
}

/// An operation of the program that goes on when its function is called.
pub trait PollFunction: Send {
    /// Calls the function. Nothing is locked, so it may call MPI. Operations that it begins are
    /// added to `new`, and polled afterwards.
    fn poll(&mut self, new: &mut Vec<Box<dyn PollFunction>>) -> Polled;
}

/// A function that lets a generalized request go on. The request fails with its error.
pub(crate) type RequestFunction = Box<dyn FnMut() -> Result<()> + Send>;

/// An operation on the list.
pub(crate) enum Operation {
    /// A generalized request.
    Request(Request, Arc<Generalized>, RequestFunction),
    /// One without a request, for whose end `MPI_Finalize` waits.
    Thing(Box<dyn PollFunction>),
}

impl Operation {
    /// Calls the function, and adds to `new` what that begins. Nothing may be locked.
    ///
    /// # Errors
    /// The failure of a generalized request.
    pub(crate) fn poll(&mut self, new: &mut Vec<Box<dyn PollFunction>>) -> Result<Polled> {
        match self {
            Operation::Thing(thing) => Ok(guest::call("an asynchronous function", || thing.poll(new))),
            Operation::Request(_, greq, _) if greq.is_complete() => Ok(Polled::Over),
            Operation::Request(_, greq, function) => {
                guest::call("the poll function of a generalized request", function)?;
                Ok(if greq.is_complete() { Polled::Over } else { Polled::Pending })
            }
        }
    }
}

/// The operations that are polled, in the order in which their functions are called next.
#[derive(Default)]
pub(crate) struct PollList {
    /// Those whose function is not being called.
    idle: VecDeque<Operation>,
    /// Those without a request, also while their function is being called.
    things: usize,
    /// Operations that were over so far, modulo 2^64.
    ended: u64,
}

impl PollList {
    /// Adds an operation.
    pub(crate) fn begin(&mut self, operation: Operation) {
        self.things += usize::from(matches!(operation, Operation::Thing(_)));
        self.idle.push_back(operation);
    }

    /// Takes the next operation, whose function is called by the thread that takes it.
    pub(crate) fn take(&mut self) -> Option<Operation> {
        self.idle.pop_front()
    }

    /// Takes an operation back that goes on.
    pub(crate) fn put_back(&mut self, operation: Operation) {
        self.idle.push_back(operation);
    }

    /// Notes that an operation which was taken is over.
    pub(crate) fn end(&mut self, operation: &Operation) {
        self.things -= usize::from(matches!(operation, Operation::Thing(_)));
        self.ended = self.ended.wrapping_add(1);
    }

    /// Number of operations whose function can be called.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.idle.len()
    }

    /// Number of operations without a request.
    pub(crate) fn things(&self) -> usize {
        self.things
    }

    /// Operations that were over so far, modulo 2^64.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }
}

impl fmt::Debug for PollList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollList").field("idle", &self.idle.len()).field("things", &self.things).finish()
    }
}

/// Returns true if this thread may call functions that are polled: it is not in too many of them.
pub(crate) fn may_call() -> bool {
    DEPTH.get() < DEEPEST
}

/// Returns true if this thread is in a function that is polled.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Notes that the thread calls functions that are polled, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// Enters; `None` if the thread is in too many of them.
    pub(crate) fn enter() -> Option<Inside> {
        may_call().then(|| {
            DEPTH.set(DEPTH.get() + 1);
            Inside(())
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

//! Runs schedules: one step after the other, over anything that carries messages.
//!
//! Every message has the length that its receiver expects. Another length tells that processes have
//! given different arguments, or that the sender has failed. The same holds for what a process
//! sends to itself. A process that has failed goes on, and sends empty messages in place of its
//! data. All that depend on it fail, too, and nobody waits for a message that does not come.

use std::sync::Arc;

use netmod_core::Segment;

use super::memory::{Memory, Work};
use super::schedule::{Data, Schedule, Step};
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::op::{Kernel, UserOp};

/// The carrier of a collective operation's messages, each to the process of a rank.
pub trait Wire {
    /// A message under way.
    type Req: Copy;

    /// Starts to send.
    ///
    /// # Errors
    /// Nothing was started.
    fn send(&mut self, to: u32, data: Segment) -> Result<Self::Req>;

    /// Starts to receive.
    ///
    /// # Errors
    /// Nothing was started.
    fn recv(&mut self, from: u32, room: Segment) -> Result<Self::Req>;

    /// Uses a message up if it is over, and returns its bytes; `None` if it is not.
    fn take(&mut self, req: Self::Req) -> Option<Result<usize>>;
}

/// The state of a run after it has gone as far as it can.
#[derive(Debug)]
pub enum Advance {
    /// It waits for messages.
    Blocked,
    /// It waits for this call, which is to be made outside of all locks; then [`Active::resume`].
    UserOp(Work),
    /// It is over.
    Done,
    /// It is over, and has failed.
    Failed(Box<MpiError>),
}

/// The operation of a reduction, ready to be done.
#[derive(Clone)]
pub enum Reducer {
    /// No reduction.
    None,
    /// A loop over the elements.
    Kernel(Kernel),
    /// A function of the program, and the datatype that it is told.
    User(Arc<dyn UserOp>, Datatype),
}

impl core::fmt::Debug for Reducer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Reducer::None => "none",
            Reducer::Kernel(_) => "predefined",
            Reducer::User(..) => "user",
        })
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Pending<R> {
    req: R,
    /// Bytes that are expected; `None` for one that leaves.
    bytes: Option<usize>,
}

/// A schedule that is run.
#[derive(Debug)]
pub struct Active<R> {
    schedule: Arc<Schedule>,
    memory: Memory,
    reducer: Reducer,
    next: usize,
    pending: Vec<Pending<R>>,
    failed: Option<Box<MpiError>>,
}

impl<R: Copy> Active<R> {
    /// Prepares a run.
    pub fn new(schedule: Arc<Schedule>, memory: Memory, reducer: Reducer) -> Active<R> {
        Active { schedule, memory, reducer, next: 0, pending: Vec::new(), failed: None }
    }

    /// Prepares the next run of a schedule that is over.
    pub fn restart(&mut self) {
        debug_assert!(self.pending.is_empty(), "a run is restarted before its end");
        self.next = 0;
        self.failed = None;
    }

    /// Goes on after the user's operation was called.
    pub fn resume(&mut self) {
        self.next += 1;
    }

    /// Goes as far as it can without waiting. Once it is over, it must not be called again.
    pub fn advance<W: Wire<Req = R>>(&mut self, wire: &mut W) -> Advance {
        while let Some(step) = self.schedule.steps.get(self.next) {
            match step {
                Step::Send { to, from } => {
                    let count = if self.failed.is_none() { from.count } else { 0 };
                    let data = self.memory.segment(&Data { count, ..*from });
                    let begun = wire.send(*to, data);
                    self.started(begun, None);
                }
                Step::Recv { from, into } => {
                    let room = self.memory.segment(into);
                    let begun = wire.recv(*from, room);
                    let bytes = into.bytes();
                    self.started(begun, Some(bytes));
                }
                Step::Copy { .. } | Step::Reduce { .. } if self.failed.is_some() => {}
                Step::Copy { from, into } if from.bytes() != into.bytes() => {
                    self.failed.get_or_insert(other_block(from.bytes(), into.bytes()));
                }
                Step::Copy { from, into } => self.memory.copy(from, into),
                Step::Reduce { from, into } => match &self.reducer {
                    Reducer::Kernel(kernel) => self.memory.reduce(*kernel, from, into),
                    Reducer::User(function, datatype) => {
                        let work = self.memory.work(Arc::clone(function), *datatype, from, into);
                        return Advance::UserOp(work);
                    }
                    Reducer::None => debug_assert!(false, "a reduction without an operation"),
                },
                Step::Fence => {
                    if !self.settle(wire) {
                        return Advance::Blocked;
                    }
                }
            }
            self.next += 1;
        }
        if !self.settle(wire) {
            return Advance::Blocked;
        }
        match self.failed.take() {
            Some(e) => Advance::Failed(e),
            None => Advance::Done,
        }
    }

    fn started(&mut self, begun: Result<R>, bytes: Option<usize>) {
        match begun {
            Ok(req) => self.pending.push(Pending { req, bytes }),
            Err(e) => {
                self.failed.get_or_insert(e);
            }
        }
    }

    /// Uses up the messages that are over. Returns true if none is left.
    fn settle<W: Wire<Req = R>>(&mut self, wire: &mut W) -> bool {
        let failed = &mut self.failed;
        self.pending.retain(|Pending { req, bytes }| {
            let fault = match (wire.take(*req), *bytes) {
                (None, _) => return true,
                (Some(Ok(got)), Some(wanted)) if got != wanted => other_length(got, wanted),
                (Some(Ok(_)), _) => return false,
                (Some(Err(e)), _) => e,
            };
            failed.get_or_insert(fault);
            false
        });
        self.pending.is_empty()
    }
}

#[cold]
fn other_length(got: usize, wanted: usize) -> Box<MpiError> {
    let text = format!(
        "a process has sent {got} bytes where {wanted} are expected: it has given another count or datatype, or the \
         operation has failed there"
    );
    MpiError::new(Class::TRUNCATE, text)
}

#[cold]
fn other_block(has: usize, wanted: usize) -> Box<MpiError> {
    let text = format!(
        "this process sends itself {has} bytes where it receives {wanted}: its counts or datatypes of both sides differ"
    );
    MpiError::new(Class::TRUNCATE, text)
}

impl<R> Drop for Active<R> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.memory.leak();
        }
    }
}

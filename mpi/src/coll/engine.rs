//! Runs schedules: one step after the other, over anything that carries messages, and over memory
//! that the processes share.
//!
//! Every message has the length that its receiver expects. Another length tells that processes have
//! given different arguments, or that the sender has failed. The same holds for what a process
//! sends to itself. A process that has failed goes on, and sends empty messages in place of its
//! data, or single bytes if another process has failed before. All that depend on it fail, too, and
//! nobody waits for a message that does not come. Slots of shared memory are posted as failed in
//! the same case. The operation's signature stands beside the flag; if two processes differ in it,
//! who looks fails.

use std::sync::Arc;

use super::memory::{KEPT, Memory, Work, other_length};
use super::node_memory::{NodeMemory, Place};
use super::node_run::{self, NodeRun, Outcome};
use super::schedule::{Data, Elem, Schedule, Step};
use super::signature;
use super::wire::Wire;
use crate::datatype::{Buf, TypeDesc};
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::op::{Kernel, UserOp};

/// Returns true if an operation has failed since a process has, or was lost.
#[cold]
fn is_loss(error: &MpiError) -> bool {
    [Class::PROC_FAILED, Class::REVOKED].contains(&error.class)
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

/// Most steps of a run that is kept for the next one like it.
const MOST_STEPS: usize = 256;

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
    schedule: Schedule,
    memory: Memory,
    reducer: Reducer,
    next: usize,
    pending: Vec<Pending<R>>,
    node_run: NodeRun<R>,
    failed: Option<Box<MpiError>>,
}

impl<R: Copy> Active<R> {
    /// Makes a run without steps.
    pub(super) fn empty() -> Active<R> {
        Active::new(Schedule::default(), Memory::empty(), Reducer::None)
    }

    /// Prepares a run.
    pub fn new(schedule: Schedule, memory: Memory, reducer: Reducer) -> Active<R> {
        let (pending, node_run) = (Vec::new(), NodeRun::default());
        Active { schedule, memory, reducer, next: 0, pending, node_run, failed: None }
    }

    /// Takes the lists of a run that is over, to be filled for the next one: its steps and types.
    pub(super) fn take_lists(&mut self) -> (Schedule, Vec<Arc<TypeDesc>>) {
        (core::mem::take(&mut self.schedule), self.memory.take_types())
    }

    /// Prepares a run in the memory of one that is over.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub(super) fn prepare(
        &mut self,
        schedule: Schedule,
        (send, recv): (Buf, Buf),
        types: Vec<Arc<TypeDesc>>,
        reducer: Reducer,
    ) -> Result<()> {
        self.schedule = schedule;
        self.reducer = reducer;
        self.memory.prepare(send, recv, types, &self.schedule)?;
        self.restart();
        Ok(())
    }

    /// Lets a run that is over, and is kept as a whole, have its buffers elsewhere.
    pub(super) fn move_to(&mut self, send: Buf, recv: Buf) {
        self.memory.move_to(send, recv);
    }

    /// Keeps what the next run can use, of a run that is over: all of it if that `repeats` this
    /// one.
    pub(super) fn leave(&mut self, repeats: bool) {
        debug_assert!(self.pending.is_empty(), "a run is left before its end");
        self.memory.leave(repeats);
        if !repeats {
            self.reducer = Reducer::None;
        }
    }

    /// Returns true if it is small enough to be kept as a whole.
    pub(super) fn is_small(&self) -> bool {
        self.schedule.steps.len() <= MOST_STEPS && self.memory.room() <= KEPT
    }

    /// Slots that the operation takes.
    pub fn slots(&self) -> u32 {
        self.schedule.slots
    }

    /// Gives the run its place in the memory that the processes share.
    pub fn use_node(&mut self, node: &Arc<NodeMemory>, place: Place) {
        self.memory.use_node(node, place);
    }

    /// Prepares the next run of a schedule that is over.
    pub fn restart(&mut self) {
        debug_assert!(self.pending.is_empty(), "a run is restarted before its end");
        self.next = 0;
        self.failed = None;
        self.node_run.restart();
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
                    let data = match &self.failed {
                        None => self.memory.segment(from),
                        Some(e) if is_loss(e) && from.elem.plain && from.bytes() > 1 => {
                            self.memory.segment(&Data { count: 1, elem: Elem::BYTE, ..*from })
                        }
                        Some(_) => self.memory.segment(&Data { count: 0, ..*from }),
                    };
                    let begun = wire.send(*to, data);
                    self.started(begun, None);
                }
                Step::Recv { from, into } => {
                    let room = self.memory.segment(into);
                    let begun = wire.recv(*from, room);
                    let bytes = into.bytes();
                    self.started(begun, Some(bytes));
                }
                Step::Copy { .. }
                | Step::Pack { .. }
                | Step::Unpack { .. }
                | Step::Reduce { .. }
                | Step::ReduceApart { .. }
                    if self.failed.is_some() => {}
                Step::Pack { from, at, into } => self.memory.pack(from, *at, into),
                Step::Unpack { from, into, at } => self.memory.unpack(from, into, *at),
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
                Step::ReduceApart { left, right, into } => match &self.reducer {
                    Reducer::Kernel(kernel) => self.memory.reduce_apart(*kernel, left, right, into),
                    Reducer::User(function, datatype) => {
                        self.memory.copy(right, into);
                        let work = self.memory.work(Arc::clone(function), *datatype, left, into);
                        return Advance::UserOp(work);
                    }
                    Reducer::None => debug_assert!(false, "a reduction without an operation"),
                },
                Step::Fence => {
                    if !self.settle(wire) {
                        return Advance::Blocked;
                    }
                }
                Step::AwaitRoom { .. } | Step::AwaitPost { .. } => {
                    let Some(node) = self.memory.node() else { return Advance::Failed(no_node()) };
                    match self.node_run.wait(node, *step, self.schedule.signature, wire) {
                        Outcome::Blocked => return Advance::Blocked,
                        Outcome::Done => {}
                        Outcome::Failed(e) => {
                            self.failed.get_or_insert(e);
                        }
                    }
                }
                Step::Give { .. } | Step::Take { .. } if self.failed.is_some() => {}
                Step::Give { slot, entry, from } => self.memory.give(*slot, *entry, from),
                Step::Take { rank, slot, entry, into } => {
                    if let Err(e) = self.memory.take(*rank as usize, *slot, *entry, into) {
                        // The pieces behind the entry have another length, too.
                        self.node_run.lose(*rank as usize);
                        self.failed.get_or_insert(e);
                    }
                }
                Step::Post { .. } | Step::Release { .. } => {
                    let Some(node) = self.memory.node() else { return Advance::Failed(no_node()) };
                    let signature = match &self.failed {
                        Some(e) if is_loss(e) => signature::LOST,
                        _ => self.schedule.signature,
                    };
                    let state = (signature, self.failed.is_some());
                    for begun in node_run::tell(node, *step, state, wire) {
                        self.started(begun, None);
                    }
                }
            }
            self.next += 1;
        }
        if !self.settle(wire) {
            return Advance::Blocked;
        }
        debug_assert!(self.node_run.is_awake(), "a run has ended in its sleep");
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
fn no_node() -> Box<MpiError> {
    MpiError::new(Class::INTERN, "an operation with slots has no shared memory")
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

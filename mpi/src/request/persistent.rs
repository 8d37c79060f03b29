//! Persistent requests: operations that are started again and again with the same arguments.

use ch3_shim::Vci;

use super::{Ends, Kind, Requests};
use crate::buffers;
use crate::comm::{CommRef, Comms};
use crate::datatype::Bound;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Request};
use crate::objects::Objects;
use crate::status::Status;
use crate::target::{OwnTarget, SendMode, begin_recv, begin_send};
use crate::task::Task;

/// The operation of a persistent request.
pub(crate) enum Operation {
    /// A send; its mode and arguments.
    Send(SendMode, Bound, OwnTarget),
    /// A receive.
    Recv(Bound, OwnTarget),
    /// A task; `None` while it runs.
    Task(Option<Box<dyn Task>>),
}

/// A persistent request.
pub(crate) struct Persistent {
    operation: Operation,
    /// The operation under way; `None` while the request is inactive.
    pub current: Option<Kind>,
}

impl Persistent {
    /// Creates an inactive request.
    pub(crate) fn new(operation: Operation) -> Persistent {
        Persistent { operation, current: None }
    }

    /// Returns the handle of the operation's communicator.
    pub(crate) fn comm(&self) -> Option<Comm> {
        match &self.operation {
            Operation::Send(_, _, target) | Operation::Recv(_, target) => target.core.handle(),
            Operation::Task(Some(task)) => task.core()?.handle(),
            Operation::Task(None) => self.current.as_ref()?.comm(),
        }
    }

    /// Returns its task, if it has one at hand: idle, or under way.
    pub(crate) fn task_mut(&mut self) -> Option<&mut Box<dyn Task>> {
        match (&mut self.current, &mut self.operation) {
            (Some(Kind::Task(task)), _) | (_, Operation::Task(task)) => task.as_mut(),
            _ => None,
        }
    }

    /// Lets an idle task give up what it waits for, since the request is freed.
    pub(crate) fn leave(&mut self, vci: &mut Vci) {
        if let Operation::Task(Some(task)) = &mut self.operation {
            task.leave(vci);
        }
    }

    /// Keeps a task that is over for its next run.
    pub(crate) fn task_over(&mut self, task: Box<dyn Task>, result: Result<Status>) {
        self.operation = Operation::Task(Some(task));
        self.current = Some(Kind::Over(result));
    }

    /// Ends a run that is settled; the request is inactive afterwards, unless its run goes on.
    pub(crate) fn end(&mut self, vci: &mut Vci, comms: &Comms) -> Result<Status> {
        let Some(current) = &self.current else { return Ok(Status::EMPTY) };
        if let Some(e) = current.why_pending(vci, comms) {
            return Err(e);
        }
        self.current.take().map_or(Ok(Status::EMPTY), |current| current.result(vci, comms))
    }
}

#[cold]
fn is_active(request: Request) -> Box<MpiError> {
    let text = format!("request {:#010x} is active: wait for it before it is started again", request.0);
    MpiError::new(Class::REQUEST, text)
}

#[cold]
fn not_persistent(request: Request) -> Box<MpiError> {
    let text = format!("request {:#010x} is not persistent: only what MPI_X_init made is started", request.0);
    MpiError::new(Class::REQUEST, text)
}

impl Requests {
    /// Starts a persistent request.
    ///
    /// # Errors
    /// A request that is not persistent, or is active; what the operation says.
    pub(crate) fn start(&mut self, vci: &mut Vci, objects: &mut Objects, request: Request) -> Result<()> {
        let entry = self.table.get_mut(request)?;
        let Kind::Persistent(p) = &mut entry.kind else {
            return Err(entry.kind.raised(not_persistent(request)));
        };
        if p.current.is_some() {
            return Err(entry.kind.raised(is_active(request)));
        }
        let current = match &mut p.operation {
            Operation::Send(SendMode::Buffered, buf, target) => {
                let data = buf.segment();
                buffers::send(vci, &mut objects.buffers, data, target.lend()?)?;
                Kind::Over(Ok(Status::EMPTY))
            }
            Operation::Send(mode, buf, target) => {
                let data = buf.segment();
                let raw = begin_send(vci, data, target.lend()?, *mode)?;
                Kind::Send(raw, CommRef::Held(target.core.clone()))
            }
            Operation::Recv(buf, target) => {
                let room = buf.segment();
                let raw = begin_recv(vci, room, target.lend()?)?;
                Kind::Recv(raw, CommRef::Held(target.core.clone()), Ends::of(buf.desc()))
            }
            Operation::Task(task) => {
                let Some(idle) = task else { return Err(is_active(request)) };
                idle.restart(objects)?;
                p.current = Some(Kind::Task(task.take()));
                self.begin_task(request);
                return Ok(());
            }
        };
        p.current = Some(current);
        Ok(())
    }
}

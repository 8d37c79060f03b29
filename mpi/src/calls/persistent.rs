//! Persistent requests: making and starting them.

use crate::datatype::Buf;
use crate::error::Result;
use crate::handle::{Comm, Request};
use crate::instance::{Mpi, State};
use crate::request::{Kind, Operation, Persistent};
use crate::target::{SendMode, Target};
use crate::task::Task;

impl Mpi {
    fn persistent(&self, make: impl FnOnce(&mut State) -> Result<Operation>) -> Result<Request> {
        self.with(|s| {
            let operation = make(s)?;
            s.requests.insert(Kind::Persistent(Box::new(Persistent::new(operation))))
        })
    }

    fn persistent_send(&self, mode: SendMode, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent(|s| {
            let target = Target::of_send(&s.objects.comms, dest, tag, comm)?.own();
            Ok(Operation::Send(mode, s.objects.types.bound(&buf)?, target))
        })
    }

    /// Makes a persistent send in standard mode.
    ///
    /// # Errors
    /// A bad argument.
    pub fn send_init(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent_send(SendMode::Standard, buf, dest, tag, comm)
    }

    /// Makes a persistent buffered send.
    ///
    /// # Errors
    /// A bad argument.
    pub fn bsend_init(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent_send(SendMode::Buffered, buf, dest, tag, comm)
    }

    /// Makes a persistent synchronous send.
    ///
    /// # Errors
    /// A bad argument.
    pub fn ssend_init(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent_send(SendMode::Synchronous, buf, dest, tag, comm)
    }

    /// Makes a persistent ready send.
    ///
    /// # Errors
    /// A bad argument.
    pub fn rsend_init(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent_send(SendMode::Ready, buf, dest, tag, comm)
    }

    /// Makes a persistent receive.
    ///
    /// # Errors
    /// A bad argument.
    pub fn recv_init(&self, buf: Buf, source: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.persistent(|s| {
            let target = Target::of_recv(&s.objects.comms, source, tag, comm)?.own();
            Ok(Operation::Recv(s.objects.types.bound(&buf)?, target))
        })
    }

    /// Makes a persistent request of a task, such as a collective operation.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn persistent_task(&self, task: Box<dyn Task>) -> Result<Request> {
        self.persistent(|_| Ok(Operation::Task(Some(task))))
    }

    /// Starts a persistent request (`MPI_Start`).
    ///
    /// # Errors
    /// A request that is not persistent, or is active; what the operation says.
    pub fn start(&self, request: &mut Request) -> Result<()> {
        self.with(|s| s.requests.start(&mut s.dev, &mut s.objects, *request))
    }

    /// Starts several persistent requests (`MPI_Startall`).
    ///
    /// # Errors
    /// As [`Mpi::start`]; those before the request at fault are started.
    pub fn startall(&self, requests: &mut [Request]) -> Result<()> {
        self.with(|s| {
            let State { dev, objects, requests: known } = s;
            requests.iter().try_for_each(|request| known.start(dev, objects, *request))
        })
    }
}

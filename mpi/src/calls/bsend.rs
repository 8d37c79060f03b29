//! Buffers for buffered sends: attaching, flushing and detaching.

use ch3_shim::Vci;

use crate::buffers::{Buffer, Owner};
use crate::comm::CommCore;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Request, Session};
use crate::instance::Mpi;
use crate::objects::Objects;
use crate::request::Kind;
use crate::status::Status;
use crate::task::{Progress, Task};

/// A nonblocking flush: it is over when the messages have left that were sent before it.
struct Flush {
    owner: Owner,
    first: u64,
}

impl Task for Flush {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        let buffer = objects.buffers.of(self.owner);
        if !buffer.is_flushed(vci, self.first) {
            return Progress::Blocked;
        }
        Progress::Done(buffer.tell_failure().map(|()| Status::EMPTY))
    }

    fn core(&self) -> Option<&CommCore> {
        None
    }

    fn restart(&mut self, _: &mut Objects) -> Result<()> {
        Err(MpiError::new(Class::REQUEST, "a flush is not persistent"))
    }
}

impl Mpi {
    /// Checks that the owner of a buffer exists.
    fn check_owner(&self, owner: Owner) -> Result<()> {
        self.with(|s| match owner {
            Owner::Process => Ok(()),
            Owner::Session(session) => s.objects.sessions.get(session).map(|_| ()),
            Owner::Comm(comm) => s.objects.comms.get(comm).map(|_| ()),
        })
    }

    fn attach(&self, owner: Owner, at: usize, size: i64) -> Result<()> {
        self.check_owner(owner)?;
        self.with(|s| s.objects.buffers.of(owner).attach(at, size))
    }

    fn flush(&self, owner: Owner) -> Result<()> {
        self.check_owner(owner)?;
        self.wait_until(|vci, objects, _| {
            objects.buffers.of(owner).is_flushed(vci, u64::MAX).then_some(Ok(()))
        })?;
        self.with(|s| s.objects.buffers.of(owner).tell_failure())
    }

    fn iflush(&self, owner: Owner) -> Result<Request> {
        self.check_owner(owner)?;
        self.with(|s| {
            let first = s.objects.buffers.sent();
            s.requests.insert(Kind::Task(Some(Box::new(Flush { owner, first }))))
        })
    }

    fn detach(&self, owner: Owner) -> Result<(usize, i64)> {
        self.check_owner(owner)?;
        let sent = self.flush(owner);
        let detached = self.with(|s| Ok(s.objects.buffers.of(owner).detach()))?;
        sent.map(|()| detached)
    }

    /// Attaches a buffer of `size` bytes at an address, or without a limit at
    /// [`BUFFER_AUTOMATIC`](crate::consts::BUFFER_AUTOMATIC) (`MPI_Buffer_attach`).
    ///
    /// # Errors
    /// A bad size; a buffer that is attached already.
    pub fn buffer_attach(&self, at: usize, size: i64) -> Result<()> {
        self.attach(Owner::Process, at, size)
    }

    /// Waits until all buffered messages have left (`MPI_Buffer_flush`).
    ///
    /// # Errors
    /// The failure of one of them.
    pub fn buffer_flush(&self) -> Result<()> {
        self.flush(Owner::Process)
    }

    /// Starts to wait until all buffered messages have left (`MPI_Buffer_iflush`).
    ///
    /// # Errors
    /// If there are too many requests.
    pub fn buffer_iflush(&self) -> Result<Request> {
        self.iflush(Owner::Process)
    }

    /// Waits until all buffered messages have left, and detaches the buffer
    /// (`MPI_Buffer_detach`). Returns its address and size, which are 0 if there is none.
    ///
    /// # Errors
    /// The failure of a message; the buffer is detached all the same.
    pub fn buffer_detach(&self) -> Result<(usize, i64)> {
        self.detach(Owner::Process)
    }

    /// Attaches a buffer for the messages of a communicator (`MPI_Comm_attach_buffer`).
    ///
    /// # Errors
    /// A bad handle; as [`Mpi::buffer_attach`].
    pub fn comm_attach_buffer(&self, comm: Comm, at: usize, size: i64) -> Result<()> {
        self.attach(Owner::Comm(comm.in_tables()), at, size)
    }

    /// Works like [`Mpi::buffer_flush`] for the buffer of a communicator (`MPI_Comm_flush_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn comm_flush_buffer(&self, comm: Comm) -> Result<()> {
        self.flush(Owner::Comm(comm.in_tables()))
    }

    /// Works like [`Mpi::buffer_iflush`] for the buffer of a communicator
    /// (`MPI_Comm_iflush_buffer`).
    ///
    /// # Errors
    /// A bad handle; if there are too many requests.
    pub fn comm_iflush_buffer(&self, comm: Comm) -> Result<Request> {
        self.iflush(Owner::Comm(comm.in_tables()))
    }

    /// Works like [`Mpi::buffer_detach`] for the buffer of a communicator
    /// (`MPI_Comm_detach_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn comm_detach_buffer(&self, comm: Comm) -> Result<(usize, i64)> {
        self.detach(Owner::Comm(comm.in_tables()))
    }

    /// Attaches a buffer for the messages of the communicators that were made of a session
    /// (`MPI_Session_attach_buffer`).
    ///
    /// # Errors
    /// A bad handle; as [`Mpi::buffer_attach`].
    pub fn session_attach_buffer(&self, session: Session, at: usize, size: i64) -> Result<()> {
        self.attach(Owner::Session(session), at, size)
    }

    /// Works like [`Mpi::buffer_flush`] for the buffer of a session (`MPI_Session_flush_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn session_flush_buffer(&self, session: Session) -> Result<()> {
        self.flush(Owner::Session(session))
    }

    /// Works like [`Mpi::buffer_iflush`] for the buffer of a session
    /// (`MPI_Session_iflush_buffer`).
    ///
    /// # Errors
    /// A bad handle; if there are too many requests.
    pub fn session_iflush_buffer(&self, session: Session) -> Result<Request> {
        self.iflush(Owner::Session(session))
    }

    /// Works like [`Mpi::buffer_detach`] for the buffer of a session
    /// (`MPI_Session_detach_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn session_detach_buffer(&self, session: Session) -> Result<(usize, i64)> {
        self.detach(Owner::Session(session))
    }

    /// Waits for the messages of all buffers at the end.
    ///
    /// # Errors
    /// The failure of one of them.
    pub(crate) fn flush_all_buffers(&self) -> Result<()> {
        self.wait_until(|vci, objects, _| {
            objects.buffers.all().all(|buffer| buffer.is_flushed(vci, u64::MAX)).then_some(Ok(()))
        })?;
        self.with(|s| s.objects.buffers.all().try_for_each(Buffer::tell_failure))
    }
}

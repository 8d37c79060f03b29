//! Buffered sends, and the buffers that programs attach for them: one for the process, and one for
//! each communicator that has its own.
//!
//! The attached memory is counted, not used: each message is kept by the device in memory of its
//! own. So a message that finds room in the count finds memory, however the others lie.

use std::collections::HashMap;

use ch3_shim::{Request as Message, Vci};
use netmod_core::Segment;

use crate::comm::CommCore;
use crate::consts::{BSEND_OVERHEAD, BUFFER_AUTOMATIC};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Request};
use crate::instance::{Mpi, Objects};
use crate::request::Kind;
use crate::status::{Status, failure};
use crate::target::Target;
use crate::task::{Progress, Task};

/// A buffered message under way.
#[derive(Debug)]
struct Sent {
    message: Message,
    /// Its share of the buffer in bytes.
    charge: i64,
    /// Its place among all buffered messages of the process.
    number: u64,
}

/// An attached buffer, and the messages in it.
#[derive(Debug, Default)]
struct Buffer {
    /// Address and size.
    attached: Option<(usize, i64)>,
    used: i64,
    sent: Vec<Sent>,
    /// The first failure of a message, which the next detach or flush tells.
    failed: Option<Box<MpiError>>,
}

/// The buffers of a process.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    process: Buffer,
    /// Those of communicators.
    comms: HashMap<Comm, Buffer>,
    /// Messages in buffers of communicators that were freed.
    ending: Buffer,
    /// Buffered messages that were sent.
    sent: u64,
}

impl Buffer {
    /// Gives back the room of messages that have left.
    fn reap(&mut self, vci: &mut Vci) {
        for at in (0..self.sent.len()).rev() {
            if !vci.is_settled(self.sent[at].message.raw()) {
                continue;
            }
            let Sent { message, charge, .. } = self.sent.swap_remove(at);
            self.used -= charge;
            if let Err(e) = vci.wait(message) {
                self.failed.get_or_insert(e.error.into());
            }
        }
    }

    /// Returns true if no message is left of the first so many of the process.
    fn is_flushed(&mut self, vci: &mut Vci, first: u64) -> bool {
        self.reap(vci);
        self.sent.iter().all(|sent| sent.number >= first)
    }

    /// Bytes that are free; any number if the library provides the memory.
    fn room(&self) -> i64 {
        match self.attached {
            Some((BUFFER_AUTOMATIC, _)) => i64::MAX,
            Some((_, size)) => size - self.used,
            None => 0,
        }
    }

    fn attach(&mut self, at: usize, size: i64) -> Result<()> {
        if size < 0 && at != BUFFER_AUTOMATIC {
            return Err(MpiError::new(Class::ARG, format!("size is {size}; it must be 0 or more")));
        }
        if let Some((_, size)) = self.attached {
            let text = format!("a buffer of {size} bytes is attached already; detach it first");
            return Err(MpiError::new(Class::BUFFER, text));
        }
        self.attached = Some((at, if at == BUFFER_AUTOMATIC { 0 } else { size }));
        Ok(())
    }
}

impl Buffers {
    /// Returns the buffer that messages of a communicator are sent from: its own, or that of the
    /// process.
    fn of_messages(&mut self, core: &CommCore) -> &mut Buffer {
        let own = core.handle().and_then(|comm| self.comms.get_mut(&comm));
        own.filter(|buffer| buffer.attached.is_some()).unwrap_or(&mut self.process)
    }

    /// Returns the buffer of a communicator, or that of the process.
    fn of(&mut self, comm: Option<Comm>) -> &mut Buffer {
        match comm {
            Some(comm) => self.comms.entry(comm).or_default(),
            None => &mut self.process,
        }
    }

    /// Detaches the buffer of a communicator that is freed; its messages leave as usual.
    pub(crate) fn end(&mut self, comm: Comm) {
        if let Some(buffer) = self.comms.remove(&comm) {
            self.ending.sent.extend(buffer.sent);
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.process, &mut self.ending].into_iter().chain(self.comms.values_mut())
    }
}

/// Sends a message from the attached buffer.
///
/// # Errors
/// [`Class::BUFFER`] if it does not fit; those of the device.
pub(crate) fn send(vci: &mut Vci, buffers: &mut Buffers, mut data: Segment, to: &Target) -> Result<()> {
    let number = buffers.sent;
    let len = data.total();
    let charge = i64::try_from(len).unwrap_or(i64::MAX).saturating_add(BSEND_OVERHEAD);
    let buffer = buffers.of_messages(&to.core);
    if charge > buffer.room() {
        // Messages may have left without anybody looking.
        vci.test_until(|_| false)?;
        buffer.reap(vci);
    }
    if charge > buffer.room() {
        let text = match buffer.attached {
            None => format!("no buffer is attached; attach one of at least {charge} bytes for this message"),
            Some((_, size)) => format!(
                "the message needs {charge} bytes of the attached buffer ({len} and MPI_BSEND_OVERHEAD), of whose {size} \
                 bytes {} are in use; attach a larger one, or flush it",
                buffer.used
            ),
        };
        return Err(to.core.raised(MpiError::new(Class::BUFFER, text)));
    }
    let mut packed = Vec::with_capacity(len);
    data.pack_vec(len, &mut packed);
    let message = vci.isend(packed, to.place, to.tag, to.core.out).map_err(|e| failure(e.error, &to.core))?;
    if vci.is_finished(message.raw()) {
        vci.wait(message).map_err(|e| failure(e.error, &to.core))?;
        return Ok(());
    }
    buffer.used += charge;
    buffer.sent.push(Sent { message, charge, number });
    buffers.sent += 1;
    Ok(())
}

/// A nonblocking flush: it is over when the messages have left that were sent before it.
struct Flush {
    comm: Option<Comm>,
    first: u64,
}

impl Task for Flush {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        let buffer = objects.buffers.of(self.comm);
        if !buffer.is_flushed(vci, self.first) {
            return Progress::Blocked;
        }
        Progress::Done(buffer.failed.take().map_or(Ok(Status::EMPTY), Err))
    }

    fn core(&self) -> Option<&CommCore> {
        None
    }

    fn restart(&mut self, _: &mut Objects) -> Result<()> {
        Err(MpiError::new(Class::REQUEST, "a flush is not persistent"))
    }
}

impl Mpi {
    /// Checks that a communicator exists.
    fn check_comm(&self, comm: Option<Comm>) -> Result<()> {
        self.with(|s| comm.map_or(Ok(()), |comm| s.objects.comms.get(comm).map(|_| ())))
    }

    fn attach(&self, comm: Option<Comm>, at: usize, size: i64) -> Result<()> {
        self.check_comm(comm)?;
        self.with(|s| s.objects.buffers.of(comm).attach(at, size))
    }

    fn flush(&self, comm: Option<Comm>) -> Result<()> {
        self.check_comm(comm)?;
        self.wait_until(|vci, objects| objects.buffers.of(comm).is_flushed(vci, u64::MAX).then_some(Ok(())))?;
        self.with(|s| s.objects.buffers.of(comm).failed.take().map_or(Ok(()), Err))
    }

    fn iflush(&self, comm: Option<Comm>) -> Result<Request> {
        self.check_comm(comm)?;
        self.with(|s| {
            let first = s.objects.buffers.sent;
            s.objects.requests.insert(Kind::Task(Some(Box::new(Flush { comm, first }))))
        })
    }

    fn detach(&self, comm: Option<Comm>) -> Result<(usize, i64)> {
        let sent = self.flush(comm);
        let detached = self.with(|s| Ok(s.objects.buffers.of(comm).attached.take().unwrap_or((0, 0))))?;
        sent.map(|()| detached)
    }

    /// Attaches a buffer of `size` bytes at an address, or without a limit at
    /// [`BUFFER_AUTOMATIC`] (`MPI_Buffer_attach`).
    ///
    /// # Errors
    /// A bad size; a buffer that is attached already.
    pub fn buffer_attach(&self, at: usize, size: i64) -> Result<()> {
        self.attach(None, at, size)
    }

    /// Waits until all buffered messages have left (`MPI_Buffer_flush`).
    ///
    /// # Errors
    /// The failure of one of them.
    pub fn buffer_flush(&self) -> Result<()> {
        self.flush(None)
    }

    /// Starts to wait until all buffered messages have left (`MPI_Buffer_iflush`).
    ///
    /// # Errors
    /// If there are too many requests.
    pub fn buffer_iflush(&self) -> Result<Request> {
        self.iflush(None)
    }

    /// Waits until all buffered messages have left, and detaches the buffer
    /// (`MPI_Buffer_detach`). Returns its address and size, which are 0 if there is none.
    ///
    /// # Errors
    /// The failure of a message; the buffer is detached all the same.
    pub fn buffer_detach(&self) -> Result<(usize, i64)> {
        self.detach(None)
    }

    /// Attaches a buffer for the messages of a communicator (`MPI_Comm_attach_buffer`).
    ///
    /// # Errors
    /// A bad handle; as [`Mpi::buffer_attach`].
    pub fn comm_attach_buffer(&self, comm: Comm, at: usize, size: i64) -> Result<()> {
        self.attach(Some(comm), at, size)
    }

    /// Works like [`Mpi::buffer_flush`] for the buffer of a communicator (`MPI_Comm_flush_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn comm_flush_buffer(&self, comm: Comm) -> Result<()> {
        self.flush(Some(comm))
    }

    /// Works like [`Mpi::buffer_iflush`] for the buffer of a communicator
    /// (`MPI_Comm_iflush_buffer`).
    ///
    /// # Errors
    /// A bad handle; if there are too many requests.
    pub fn comm_iflush_buffer(&self, comm: Comm) -> Result<Request> {
        self.iflush(Some(comm))
    }

    /// Works like [`Mpi::buffer_detach`] for the buffer of a communicator
    /// (`MPI_Comm_detach_buffer`).
    ///
    /// # Errors
    /// A bad handle; the failure of a message.
    pub fn comm_detach_buffer(&self, comm: Comm) -> Result<(usize, i64)> {
        self.check_comm(Some(comm))?;
        self.detach(Some(comm))
    }

    /// Waits for the messages of all buffers at the end.
    ///
    /// # Errors
    /// The failure of one of them.
    pub(crate) fn flush_all_buffers(&self) -> Result<()> {
        self.wait_until(|vci, objects| {
            objects.buffers.all().all(|buffer| buffer.is_flushed(vci, u64::MAX)).then_some(Ok(()))
        })?;
        self.with(|s| s.objects.buffers.all().find_map(|buffer| buffer.failed.take()).map_or(Ok(()), Err))
    }
}

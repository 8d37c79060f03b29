//! Buffered sends, and the buffers that programs attach for them: one for the process, and one for
//! each session and each communicator that has its own.
//!
//! The attached memory is counted, not used: each message is kept by the device in memory of its
//! own. So a message that finds room in the count finds memory, however the others lie.

use std::collections::HashMap;

use ch3_shim::{Request as Message, Vci};
use netmod_core::Segment;

use crate::comm::CommCore;
use crate::consts::{BSEND_OVERHEAD, BUFFER_AUTOMATIC};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Session};
use crate::status::failure;
use crate::target::Target;

/// The object that a buffer is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// All communicators without a buffer of their own or of their session.
    Process,
    /// The communicators that were made of a session and have none of their own.
    Session(Session),
    /// One communicator.
    Comm(Comm),
}

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
pub(crate) struct Buffer {
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
    /// Those of sessions and communicators.
    others: HashMap<Owner, Buffer>,
    /// Messages in buffers whose owners are gone.
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
    pub(crate) fn is_flushed(&mut self, vci: &mut Vci, first: u64) -> bool {
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

    /// Attaches memory: `size` bytes at an address, or without a limit at [`BUFFER_AUTOMATIC`].
    ///
    /// # Errors
    /// A bad size; a buffer that is attached already.
    pub(crate) fn attach(&mut self, at: usize, size: i64) -> Result<()> {
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

    /// Detaches the memory. Returns its address and size, which are 0 if there is none.
    pub(crate) fn detach(&mut self) -> (usize, i64) {
        self.attached.take().unwrap_or((0, 0))
    }

    /// Tells the first failure of a message, once.
    ///
    /// # Errors
    /// That failure.
    pub(crate) fn tell_failure(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Buffers {
    /// Returns the buffer that messages of a communicator are sent from: its own, that of its
    /// session, or that of the process.
    fn of_messages(&mut self, core: &CommCore) -> &mut Buffer {
        let own = core.handle().map(Owner::Comm);
        let mut owners = own.into_iter().chain([Owner::Session(core.session)]);
        let is_attached = |owner: &Owner| self.others.get(owner).is_some_and(|b| b.attached.is_some());
        let owner = owners.find(is_attached).unwrap_or(Owner::Process);
        self.of(owner)
    }

    /// Returns the buffer of an owner.
    pub(crate) fn of(&mut self, owner: Owner) -> &mut Buffer {
        match owner {
            Owner::Process => &mut self.process,
            owner => self.others.entry(owner).or_default(),
        }
    }

    /// Detaches the buffer of an owner that is gone; its messages leave as usual, and a failure of
    /// one is told at the end of MPI.
    pub(crate) fn end(&mut self, owner: Owner) {
        if let Some(buffer) = self.others.remove(&owner) {
            self.ending.sent.extend(buffer.sent);
            self.ending.failed = self.ending.failed.take().or(buffer.failed);
        }
    }

    /// Returns the number of buffered messages that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns all buffers.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.process, &mut self.ending].into_iter().chain(self.others.values_mut())
    }
}

/// Sends a message from the attached buffer.
///
/// # Errors
/// [`Class::BUFFER`] if it does not fit; those of the device.
pub(crate) fn send(vci: &mut Vci, buffers: &mut Buffers, mut data: Segment, to: Target<'_>) -> Result<()> {
    let number = buffers.sent;
    let len = data.total();
    let charge = i64::try_from(len).unwrap_or(i64::MAX).saturating_add(BSEND_OVERHEAD);
    let buffer = buffers.of_messages(to.core);
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
    let message = vci.isend(packed, to.place, to.tag, to.core.out).map_err(|e| failure(e.error, to.core))?;
    if vci.is_finished(message.raw()) {
        vci.wait(message).map_err(|e| failure(e.error, to.core))?;
        return Ok(());
    }
    buffer.used += charge;
    buffer.sent.push(Sent { message, charge, number });
    buffers.sent += 1;
    Ok(())
}

//! Buffered sends, and the buffer that programs attach for them.
//!
//! The attached memory is counted, not used: each message is kept by the device in memory of its
//! own. So a message that finds room in the count finds memory, however the others lie.

use ch3_shim::{Request, Vci};
use netmod_core::Segment;

use crate::consts::BSEND_OVERHEAD;
use crate::error::{Class, MpiError, Result};
use crate::instance::Mpi;
use crate::pt2pt::Target;
use crate::request::failure;

/// A buffered message under way.
#[derive(Debug)]
struct Sent {
    request: Request,
    /// Its share of the buffer in bytes.
    charge: i64,
}

/// The attached buffer, and the messages in it.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Address and size.
    attached: Option<(usize, i64)>,
    used: i64,
    sent: Vec<Sent>,
    /// The first failure of a message, which the next detach or flush tells.
    failed: Option<Box<MpiError>>,
}

impl Buffers {
    /// Gives back the room of messages that have left.
    fn reap(&mut self, vci: &mut Vci) {
        for at in (0..self.sent.len()).rev() {
            if !vci.is_settled(self.sent[at].request.raw()) {
                continue;
            }
            let Sent { request, charge } = self.sent.swap_remove(at);
            self.used -= charge;
            if let Err(e) = vci.wait(request) {
                self.failed.get_or_insert(e.error.into());
            }
        }
    }

    /// Returns true if no message is left.
    fn is_empty(&mut self, vci: &mut Vci) -> bool {
        self.reap(vci);
        self.sent.is_empty()
    }
}

/// Sends a message from the attached buffer.
///
/// # Errors
/// [`Class::BUFFER`] if it does not fit; those of the device.
pub(crate) fn send(vci: &mut Vci, buffers: &mut Buffers, mut data: Segment, to: &Target) -> Result<()> {
    let len = data.total();
    let charge = i64::try_from(len).unwrap_or(i64::MAX).saturating_add(BSEND_OVERHEAD);
    let size = buffers.attached.map_or(0, |(_, size)| size);
    if charge > size - buffers.used {
        // Messages may have left without anybody looking.
        vci.test_until(|_| false)?;
        buffers.reap(vci);
    }
    if charge > size - buffers.used {
        let text = match buffers.attached {
            None => format!("no buffer is attached; attach one of at least {charge} bytes for this message"),
            Some(_) => format!(
                "the message needs {charge} bytes of the attached buffer ({len} and MPI_BSEND_OVERHEAD), of whose {size} \
                 bytes {} are in use; attach a larger one, or flush it",
                buffers.used
            ),
        };
        return Err(MpiError::new(Class::BUFFER, text));
    }
    let mut packed = Vec::with_capacity(len);
    data.pack_vec(len, &mut packed);
    let request = vci.isend(packed, to.place, to.tag, to.core.out).map_err(|e| failure(e.error, &to.core))?;
    if vci.is_finished(request.raw()) {
        vci.wait(request).map_err(|e| failure(e.error, &to.core))?;
        return Ok(());
    }
    buffers.used += charge;
    buffers.sent.push(Sent { request, charge });
    Ok(())
}

impl Mpi {
    /// Attaches a buffer of `size` bytes at an address (`MPI_Buffer_attach`).
    ///
    /// # Errors
    /// A bad size; a buffer that is attached already.
    pub fn buffer_attach(&self, at: usize, size: i64) -> Result<()> {
        if size < 0 {
            return Err(MpiError::new(Class::ARG, format!("size is {size}; it must be 0 or more")));
        }
        self.with(|s| {
            let buffers = &mut s.objects.buffers;
            if let Some((_, size)) = buffers.attached {
                let text = format!("a buffer of {size} bytes is attached already; detach it first");
                return Err(MpiError::new(Class::BUFFER, text));
            }
            buffers.attached = Some((at, size));
            Ok(())
        })
    }

    /// Waits until all buffered messages have left (`MPI_Buffer_flush`).
    ///
    /// # Errors
    /// The failure of one of them.
    pub fn buffer_flush(&self) -> Result<()> {
        self.wait_until(|vci, objects| objects.buffers.is_empty(vci).then_some(Ok(())))?;
        self.with(|s| s.objects.buffers.failed.take().map_or(Ok(()), Err))
    }

    /// Waits until all buffered messages have left, and detaches the buffer
    /// (`MPI_Buffer_detach`). Returns its address and size, which are 0 if there is none.
    ///
    /// # Errors
    /// The failure of a message; the buffer is detached all the same.
    pub fn buffer_detach(&self) -> Result<(usize, i64)> {
        let sent = self.buffer_flush();
        let detached = self.with(|s| Ok(s.objects.buffers.attached.take().unwrap_or((0, 0))))?;
        sent.map(|()| detached)
    }

    /// Waits for buffered messages at the end.
    ///
    /// # Errors
    /// As [`Mpi::buffer_flush`].
    pub(crate) fn flush_all_buffers(&self) -> Result<()> {
        self.buffer_flush()
    }
}

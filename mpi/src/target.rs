//! The other side of a message, and the beginning of messages to it.

use std::sync::Arc;

use ch3_shim::{Mode, RawReq, Vci};
use netmod_core::Segment;

use crate::comm::{CommCore, Comms};
use crate::consts::{ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB};
use crate::error::{Class, MpiError, Result};
use crate::handle::Comm;
use crate::status::failure;

/// The mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// Over when the buffer may be used again.
    Standard,
    /// Copied to the attached buffer.
    Buffered,
    /// Over when the receiver has matched it.
    Synchronous,
    /// Its receive has been posted.
    Ready,
}

/// The other side of a message, checked: its rank in the job, tag and communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// Rank in the job, or [`PROC_NULL`] or [`ANY_SOURCE`].
    pub place: i32,
    pub tag: i32,
    pub core: &'a Arc<CommCore>,
}

/// A [`Target`] that holds its communicator.
#[derive(Clone, Debug)]
pub(crate) struct OwnTarget {
    pub place: i32,
    pub tag: i32,
    pub core: Arc<CommCore>,
}

impl OwnTarget {
    /// Returns it as one that holds nothing.
    ///
    /// # Errors
    /// If the communicator was revoked meanwhile.
    #[inline]
    pub(crate) fn lend(&self) -> Result<Target<'_>> {
        let OwnTarget { place, tag, core } = self;
        if core.is_revoked() {
            return Err(failure(ch3_shim::Error::Revoked, core));
        }
        Ok(Target { place: *place, tag: *tag, core })
    }
}

#[cold]
fn bad_rank(what: &str, rank: i32, core: &CommCore, more: &str) -> Box<MpiError> {
    let size = core.peers().size();
    let text = format!(
        "{what} is {rank}; the communicator has {size} processes there, so that ranks are 0 to {}, {more}MPI_PROC_NULL ({PROC_NULL})",
        i64::from(size) - 1
    );
    MpiError::new(Class::RANK, text)
}

#[cold]
fn bad_tag(what: &str, tag: i32, more: &str) -> Box<MpiError> {
    MpiError::new(Class::TAG, format!("{what} is {tag}; tags are 0 to {TAG_UB}{more}"))
}

impl<'a> Target<'a> {
    /// Returns it as one that holds its communicator.
    #[inline]
    pub(crate) fn own(self) -> OwnTarget {
        let Target { place, tag, core } = self;
        OwnTarget { place, tag, core: Arc::clone(core) }
    }

    /// Checks the arguments of a send.
    ///
    /// # Errors
    /// A bad communicator, rank or tag.
    #[inline(always)]
    pub(crate) fn of_send(comms: &'a Comms, dest: i32, tag: i32, comm: Comm) -> Result<Target<'a>> {
        let core = &comms.get(comm)?.core;
        let place = match u32::try_from(dest).ok().and_then(|rank| core.peers().place(rank)) {
            Some(place) => place.cast_signed(),
            None if dest == PROC_NULL => PROC_NULL,
            None => return Err(bad_rank("dest", dest, core, "or ")),
        };
        if tag < 0 {
            return Err(bad_tag("tag", tag, ""));
        }
        Ok(Target { place, tag, core })
    }

    /// Checks the arguments of a receive or a probe.
    ///
    /// # Errors
    /// As [`Target::of_send`].
    #[inline(always)]
    pub(crate) fn of_recv(comms: &'a Comms, source: i32, tag: i32, comm: Comm) -> Result<Target<'a>> {
        let core = &comms.get(comm)?.core;
        let place = match u32::try_from(source).ok().and_then(|rank| core.peers().place(rank)) {
            Some(place) => place.cast_signed(),
            None if source == PROC_NULL || source == ANY_SOURCE => source,
            None => return Err(bad_rank("source", source, core, "MPI_ANY_SOURCE (-2) or ")),
        };
        if tag < 0 && tag != ANY_TAG {
            return Err(bad_tag("tag", tag, ", or MPI_ANY_TAG (-1)"));
        }
        Ok(Target { place, tag, core })
    }
}

/// Starts a send that is not buffered.
///
/// # Errors
/// Those of the device.
#[inline]
pub(crate) fn begin_send(vci: &mut Vci, data: Segment, to: Target<'_>, mode: SendMode) -> Result<RawReq> {
    let mode = match mode {
        SendMode::Standard | SendMode::Buffered => Mode::Standard,
        SendMode::Synchronous => Mode::Sync,
        SendMode::Ready => Mode::Ready,
    };
    vci.isend_raw(data, to.place, to.tag, to.core.out, mode).map_err(|e| failure(e, to.core))
}

/// Starts a receive.
///
/// # Errors
/// Those of the device.
#[inline]
pub(crate) fn begin_recv(vci: &mut Vci, room: Segment, from: Target<'_>) -> Result<RawReq> {
    vci.irecv_raw(room, from.place, from.tag, from.core.inn).map_err(|e| failure(e, from.core))
}

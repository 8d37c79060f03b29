//! Contexts of communicators that may lose processes: whose messages come in them, those that are
//! revoked, and one that is watched for messages to the library itself.

use std::sync::Arc;

use super::{Comm, Vci};
use crate::error::{Error, Result};
use crate::tagmatch::{ANY_SOURCE, ANY_TAG, Pattern};

impl Comm {
    /// A communicator in which nothing can be started: it was revoked.
    pub const REVOKED: Comm = Comm { context: 0, group: u32::MAX };
}

/// A message of the watched context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Place of the sender: its rank, if it is of this job.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its data.
    pub data: Vec<u8>,
}

impl Vci {
    /// Says of which processes messages come in a context, by their places. A receive from any
    /// source in it heeds failures of these alone, which [`Vci::ack_failures_in`] acknowledges.
    pub fn set_senders(&mut self, comm: Comm, places: Arc<[u32]>) {
        self.ch3.contexts.set_senders(comm.context, places);
    }

    /// Acknowledges the failures of processes at these places for a context, so that receives from
    /// any source in it wait for the others again.
    pub fn ack_failures_in(&mut self, comm: Comm, places: Vec<u32>) {
        self.ch3.contexts.acknowledge(comm.context, places);
    }

    /// Returns the places of processes whose failure was acknowledged for a context.
    pub fn acked_failures_in(&self, comm: Comm) -> Vec<u32> {
        self.ch3.contexts.acknowledged(comm.context).collect()
    }

    /// Returns true if something has happened that a layer above that heeds failures is to look at:
    /// a process has failed, or a message has come in the watched context.
    #[inline]
    pub fn has_alarm(&self) -> bool {
        self.ch3.failures.alarm()
    }

    /// Keeps the alarm raised while `more` is to be done that failures or messages of the watched
    /// context have brought.
    pub fn keep_alarm(&mut self, more: bool) {
        self.ch3.keep_alarm(more);
    }

    /// Watches a context: messages that come in it raise the alarm, and [`Vci::take_note`] takes
    /// them.
    pub fn watch(&mut self, comm: Comm) {
        self.ch3.contexts.watch(comm.context);
        // Any process may send, and no failure keeps a receive from the others.
        self.ch3.contexts.set_senders(comm.context, Arc::new([]));
    }

    /// Returns the first message that has come in the watched context, if it is here whole.
    ///
    /// # Errors
    /// A message that was lost with its connection.
    pub fn take_note(&mut self, comm: Comm) -> Result<Option<Note>> {
        let pattern = Pattern::new(comm.context, ANY_SOURCE, ANY_TAG);
        let Some(message) = self.take_unexpected(&pattern) else { return Ok(None) };
        self.ch3.note_taken();
        let status = message.status();
        let mut data = vec![0; status.len];
        self.mrecv(&mut data, message)?;
        Ok(Some(Note { source: status.source.cast_unsigned(), tag: status.tag, data }))
    }

    /// Ends everything unfinished that was started in a communicator with [`Error::Revoked`]:
    /// receives in `inn` that no message has matched, and sends in `out` to the processes at these
    /// places that no receive has matched.
    pub fn revoke(&mut self, inn: Comm, out: Comm, peers: &[u32]) {
        let now = self.now;
        self.ch3.revoke(&mut self.engine.io(now), inn.context, (out.context, peers));
    }

    /// Returns those of these places whose processes have failed.
    pub fn failed_among(&self, places: &[u32]) -> Vec<u32> {
        self.ch3.failed_places().map(|(place, _)| place).filter(|place| places.contains(place)).collect()
    }
}

/// Returns the error of a call on a communicator without a group.
#[cold]
pub(super) fn unusable(comm: Comm) -> Error {
    if comm.group == u32::MAX { Error::Revoked } else { super::disconnected() }
}

//! Contexts of which the layer above has said more: whose messages come in them, which one it
//! watches, and which ones it has revoked.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use netmod_core::ReqId;

/// The processes whose messages come in a context.
#[derive(Debug)]
pub(super) struct Senders {
    /// Their places.
    places: Arc<[u32]>,
    /// Those whose failure is acknowledged for this context.
    acknowledged: BTreeSet<u32>,
}

impl Senders {
    /// Returns true if the process at a place is one of them.
    pub(super) fn have(&self, place: u32) -> bool {
        self.places.contains(&place)
    }

    /// Returns true if the process at a place is one of them and its failure was not acknowledged.
    pub(super) fn have_lost(&self, place: u32) -> bool {
        self.have(place) && !self.acknowledged.contains(&place)
    }

    /// Returns the number of them but for one process.
    pub(super) fn others_than(&self, place: u32) -> usize {
        self.places.len() - usize::from(self.have(place))
    }
}

/// Knowledge of contexts.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    senders: HashMap<u32, Senders>,
    watched: Option<u32>,
    /// Messages that have come in the watched context and were not taken.
    unread: usize,
    /// The layer above has more to do.
    kept: bool,
    /// Unfinished requests of contexts that were revoked.
    revoked: HashSet<ReqId>,
}

impl Contexts {
    /// Returns the processes whose messages come in a context, if that was said.
    pub(super) fn senders(&self, context: u32) -> Option<&Senders> {
        self.senders.get(&context)
    }

    /// Returns true if it was said for a context.
    pub(super) fn has_senders(&self) -> bool {
        !self.senders.is_empty()
    }

    /// Says whose messages come in a context.
    pub(crate) fn set_senders(&mut self, context: u32, places: Arc<[u32]>) {
        self.senders.insert(context, Senders { places, acknowledged: BTreeSet::new() });
    }

    /// Acknowledges the failures of processes for a context.
    pub(crate) fn acknowledge(&mut self, context: u32, places: impl IntoIterator<Item = u32>) {
        if let Some(senders) = self.senders.get_mut(&context) {
            senders.acknowledged.extend(places);
        }
    }

    /// Returns the places of processes whose failure is acknowledged for a context.
    pub(crate) fn acknowledged(&self, context: u32) -> impl Iterator<Item = u32> {
        self.senders.get(&context).into_iter().flat_map(|s| s.acknowledged.iter().copied())
    }

    /// Watches a context.
    pub(crate) fn watch(&mut self, context: u32) {
        self.watched = Some(context);
    }

    /// Notes a message that no receive waits for. Returns true if it is one of the watched context.
    #[inline]
    pub(super) fn note_kept(&mut self, context: u32) -> bool {
        let watched = self.watched == Some(context);
        self.unread += usize::from(watched);
        watched
    }

    /// Returns true if messages of the watched context were not taken, or the layer above has more
    /// to do.
    pub(super) fn has_work(&self) -> bool {
        self.unread > 0 || self.kept
    }

    /// Notes whether the layer above has more to do.
    pub(super) fn keep(&mut self, more: bool) {
        self.kept = more;
    }

    /// Notes that a message of the watched context was taken.
    pub(crate) fn note_taken(&mut self) {
        self.unread = self.unread.saturating_sub(1);
    }

    /// Notes unfinished requests of a context that was revoked.
    pub(super) fn note_revoked(&mut self, reqs: &[ReqId]) {
        self.revoked.extend(reqs);
    }

    /// Returns true if a request that is used up was of a context that was revoked.
    pub(crate) fn was_revoked(&mut self, req: ReqId) -> bool {
        !self.revoked.is_empty() && self.revoked.remove(&req)
    }
}

//! The endings of VCs and of the netmod: in order, by failure, with the process.

use netmod_core::{Core, Event, VcError, VcId};

use crate::channel::Incoming;
use crate::netmod::{Ending, ShmNetmod};
use crate::ring::Kind;

impl ShmNetmod {
    /// Takes a VC down: its requests fail, both directions end.
    pub(crate) fn fail(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        l.queue.fail(core, &error);
        l.ready = false;
        l.terminating = false;
        l.up = false;
        let first = l.down.replace(error.clone()).is_none();
        if let Some(slot) = l.slot {
            self.end_stream(slot, Kind::Reset);
        }
        if first {
            self.pending.push_back(Event::Down { vc, error });
        }
    }

    /// Ends our stream, if there is one, and what is left of the peer's is of no interest.
    pub(crate) fn end_stream(&mut self, slot: usize, how: Kind) {
        let channel = &mut self.channels[slot];
        if channel.streams.is_reading() {
            channel.streams.incoming = Incoming::Discarded;
        }
        if std::mem::take(&mut channel.streams.writing) {
            // A peer that has broken its ring cannot be told, and has nobody to blame.
            let _ = channel.event(how);
            self.touch(slot);
        }
    }

    /// Ends our stream after the last queued message, and reports it.
    pub(crate) fn terminated(&mut self, vc: VcId) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        l.ready = false;
        l.up = false;
        l.terminating = false;
        l.down = None;
        if let Some(slot) = l.slot {
            self.end_stream(slot, Kind::Fin);
        }
        self.pending.push_back(Event::Terminated { vc });
    }

    pub(crate) fn has_queued(&self) -> bool {
        self.vcs.iter().any(|(_, l)| !l.queue.is_empty())
            || self.channels.iter().any(|l| l.owes() && !l.peer.is_gone())
    }

    /// Ends all reading and writing on this side, and tells peers. All registered memory is its
    /// owners' again.
    pub(crate) fn leave(&mut self) {
        if let Ok(segment) = &self.segment {
            self.transfers.close_all(segment);
        }
        if self.ending == Ending::Over {
            return;
        }
        self.ending = Ending::Over;
        let Ok(segment) = &self.segment else { return };
        segment.leave();
        for slot in 0..self.channels.len() {
            if self.channels[slot].tx.is_some() || self.channels[slot].rx.is_some() {
                self.ring_bell(slot);
            }
        }
    }
}

impl Drop for ShmNetmod {
    /// Handles a process that ends without finalizing: its peers find their connections broken.
    fn drop(&mut self) {
        for slot in 0..self.channels.len() {
            if let Some(tx) = &mut self.channels[slot].tx {
                tx.publish();
            }
        }
        self.leave();
    }
}

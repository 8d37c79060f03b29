//! Work that a poll has left, or that arose outside a poll.

use std::collections::VecDeque;

use netmod_core::{Event, VcId, WorkList};

use crate::device::Done;
use crate::loss_probe::SuspectPort;

/// The work of the next polls.
#[derive(Debug)]
pub(crate) struct Work {
    /// Completions found by polls and not handled yet, each with the index of its port.
    pub(crate) backlog: VecDeque<(usize, Done)>,
    /// Events that arose outside `poll`.
    pub(crate) events: VecDeque<Event>,
    /// VCs whose queue a poll must try again.
    pub(crate) wanting: WorkList,
    /// VCs with a frame that is being filled.
    pub(crate) staged: WorkList,
    /// Ports that may have lost frames.
    pub(crate) suspects: Vec<SuspectPort>,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work {
            backlog: VecDeque::with_capacity(256),
            events: VecDeque::with_capacity(64),
            wanting: WorkList::default(),
            staged: WorkList::default(),
            suspects: Vec::new(),
        }
    }

    /// Adds a port that may have lost frames, once.
    pub(crate) fn suspect(&mut self, port: SuspectPort) {
        if !self.suspects.contains(&port) {
            self.suspects.push(port);
        }
    }

    /// Drops the events of a VC that is destroyed.
    pub(crate) fn drop_events(&mut self, vc: VcId) {
        self.events.retain(|ev| ev.vc() != Some(vc));
    }
}

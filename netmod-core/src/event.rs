//! Events: what a netmod found when it was polled.

use std::collections::VecDeque;

use crate::buf::RxBuf;
use crate::error::VcError;
use crate::netmod::PeerName;
use crate::slab::VcId;

/// One thing that happened. The engine handles events of one VC in the order they were pushed.
#[derive(Debug)]
pub enum Event {
    /// Bytes arrived.
    Rx {
        /// On which VC.
        vc: VcId,
        /// The bytes, on loan.
        buf: RxBuf,
    },
    /// The active receive of the VC was filled directly ([`crate::Core::recv_advance`]).
    RecvDone {
        /// On which VC.
        vc: VcId,
    },
    /// A connection was made; the peer may have made it.
    Up {
        /// Of which VC.
        vc: VcId,
    },
    /// `vc_terminate` has run its course; the VC is as after `vc_init`.
    Terminated {
        /// Of which VC.
        vc: VcId,
    },
    /// The VC failed; every request that the netmod had of it has been failed with the same error.
    Down {
        /// Which VC.
        vc: VcId,
        /// Why.
        error: VcError,
    },
    /// The netmod must connect and has no card of the peer: answer with `set_card`.
    NeedCard {
        /// Of which VC.
        vc: VcId,
    },
    /// An authenticated peer without a VC wants to connect: answer with `vc_init` or
    /// `refuse_peer`.
    NewPeer {
        /// Its name.
        peer: PeerName,
        /// Which netmod of a set it came by.
        netmod: u8,
    },
    /// A process of another job has come to a port and has proved to know its key: answer with `meet_group`
    /// and `vc_init`, or `refuse_peer`.
    PortPeer {
        /// The name that it has chosen for this connection.
        peer: PeerName,
        /// The port.
        port: u64,
        /// Which netmod of a set it came by.
        netmod: u8,
    },
    /// A put or get ended ([`crate::Rma`]).
    RmaDone {
        /// On which VC.
        vc: VcId,
        /// The caller's number for the operation.
        op: u64,
        /// How it ended.
        result: Result<(), VcError>,
    },
}

/// A bounded batch of events.
#[derive(Debug)]
pub struct Events {
    queue: VecDeque<Event>,
    limit: usize,
    /// VCs of which a wrapper holds bytes back.
    held: Vec<VcId>,
    moved: bool,
}

impl Events {
    /// A batch of at most `limit` events, give or take those that cannot wait.
    pub fn with_limit(limit: usize) -> Events {
        Events { queue: VecDeque::with_capacity(limit + limit / 2), limit, held: Vec::new(), moved: false }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, ev: Event) {
        self.queue.push_back(ev);
    }

    /// Something moved that is no event: a part of a message that went straight to its place. Whoever waits
    /// then does not take the poll for one in vain.
    #[inline]
    pub fn note_progress(&mut self) {
        self.moved = true;
    }

    /// Whether [`Events::note_progress`] was called since this was asked last.
    #[inline]
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Whether [`Events::note_progress`] was called, without taking that.
    #[inline]
    pub fn has_progress(&self) -> bool {
        self.moved
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Says of the events from the `from`-th on which netmod of a set they came by.
    pub fn tag_netmod(&mut self, from: usize, number: u8) {
        for ev in self.queue.iter_mut().skip(from) {
            if let Event::NewPeer { netmod, .. } | Event::PortPeer { netmod, .. } = ev {
                *netmod = number;
            }
        }
    }

    /// Whether bytes of a VC are among the events, or held back by a wrapper, so that its present state is
    /// not the last word.
    pub fn concern(&self, vc: VcId) -> bool {
        self.held.contains(&vc)
            || self
                .queue
                .iter()
                .any(|ev| matches!(ev, Event::Rx { vc: v, .. } | Event::RecvDone { vc: v } if *v == vc))
    }

    /// For wrappers: sets the VCs of which bytes are held back, beside those that `outer` names, so that
    /// the wrapped netmod does not take a VC's end for known before they have been handled.
    pub fn hold(&mut self, vcs: impl Iterator<Item = VcId>, outer: &Events) {
        self.held.clear();
        self.held.extend(vcs);
        self.held.extend_from_slice(&outer.held);
    }

    /// The events from the `from`-th on, in order.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = &Event> {
        self.queue.iter().skip(from)
    }

    /// How many more a netmod should find in this poll.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.queue.len())
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Default for Events {
    fn default() -> Self {
        Events::with_limit(64)
    }
}

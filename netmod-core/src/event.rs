//! Events: the findings of a poll.

use std::collections::VecDeque;

use crate::buf::RxBuf;
use crate::error::VcError;
use crate::peer::PeerName;
use crate::slab::VcId;

/// An event. The engine handles the events of one VC in the order in which they were pushed.
#[derive(Debug)]
pub enum Event {
    /// Bytes arrived.
    Rx {
        /// Their VC.
        vc: VcId,
        /// The bytes, lent by the netmod.
        buf: RxBuf,
    },
    /// The active receive of the VC was filled directly ([`crate::Core::recv_advance`]).
    RecvDone {
        /// Its VC.
        vc: VcId,
    },
    /// A connection was established, by either side. A VC that was down is usable again.
    Up {
        /// Its VC.
        vc: VcId,
    },
    /// A connection that was lost goes on as another one, without loss. The upper layer need not do
    /// anything.
    Resumed {
        /// Its VC.
        vc: VcId,
    },
    /// `vc_terminate` is complete; the VC is as after `vc_init`.
    Terminated {
        /// Its VC.
        vc: VcId,
    },
    /// The VC failed; all its requests in the netmod have failed with the same error.
    Down {
        /// The VC.
        vc: VcId,
        /// The reason.
        error: VcError,
    },
    /// The netmod must connect and has no card of the peer: call `set_card`.
    NeedCard {
        /// Its VC.
        vc: VcId,
    },
    /// An authenticated peer without a VC requests a connection: call `vc_init` or `refuse_peer`.
    NewPeer {
        /// Name of the peer.
        peer: PeerName,
        /// Number of the netmod of a set that it uses.
        netmod: u8,
    },
    /// A process of another job has come to a port and has proved that it knows the port's key.
    ///
    /// Call `join_group` and `vc_init`, or `refuse_peer`.
    PortPeer {
        /// Name that it has chosen for this connection.
        peer: PeerName,
        /// The port.
        port: u64,
        /// Number of the netmod of a set that it uses.
        netmod: u8,
    },
    /// A put or get has ended ([`crate::Rma`]).
    RmaDone {
        /// Its VC.
        vc: VcId,
        /// Number of the operation, given by the caller.
        op: u64,
        /// Its result.
        result: Result<(), VcError>,
    },
}

impl Event {
    /// Returns the VC that it concerns; `None` if its peer has none yet.
    pub fn vc(&self) -> Option<VcId> {
        match self {
            Event::Rx { vc, .. }
            | Event::RecvDone { vc }
            | Event::Up { vc }
            | Event::Resumed { vc }
            | Event::Terminated { vc }
            | Event::Down { vc, .. }
            | Event::NeedCard { vc }
            | Event::RmaDone { vc, .. } => Some(*vc),
            Event::NewPeer { .. } | Event::PortPeer { .. } => None,
        }
    }
}

/// A slot of a batch: received bytes, or a reference to the next event of another kind.
///
/// Small messages are frequent, so slots are written and read part by part. An enum would be
/// assembled elsewhere first, and copied.
#[derive(Debug)]
struct Slot {
    /// The VC, or [`NOBODY`] for an event of another kind.
    vc: VcId,
    /// The bytes; `None` for an event of another kind.
    buf: Option<RxBuf>,
}

impl Slot {
    const EMPTY: Slot = Slot { vc: NOBODY, buf: None };

    /// Returns true if it stands for an event of another kind.
    #[inline]
    fn is_others(&self) -> bool {
        self.buf.is_none()
    }
}

/// A bounded batch of events.
#[derive(Debug)]
pub struct Events {
    /// Slots; those from `head` to `tail` are in use.
    slots: Vec<Slot>,
    head: usize,
    tail: usize,
    /// Events other than bytes.
    others: VecDeque<Event>,
    limit: usize,
    /// VCs of which a wrapper holds bytes back.
    held: Vec<VcId>,
    moved: bool,
}

const NOBODY: VcId = VcId::from_wire(0);

impl Events {
    /// Creates a batch of about `limit` events; some that cannot wait may exceed it.
    pub fn with_limit(limit: usize) -> Events {
        let mut slots = Vec::new();
        slots.resize_with(limit + limit / 2, || Slot::EMPTY);
        let others = VecDeque::with_capacity(limit + limit / 2);
        Events { slots, head: 0, tail: 0, others, limit, held: Vec::new(), moved: false }
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, ev: Event) {
        match ev {
            Event::Rx { vc, buf } => self.push_rx(vc, buf),
            other => {
                let slot = self.next_place();
                (slot.vc, slot.buf) = (NOBODY, None);
                self.others.push_back(other);
            }
        }
    }

    /// Adds an [`Event::Rx`].
    #[inline]
    pub fn push_rx(&mut self, vc: VcId, buf: RxBuf) {
        let slot = self.next_place();
        slot.vc = vc;
        slot.buf = Some(buf);
    }

    #[inline]
    fn next_place(&mut self) -> &mut Slot {
        if self.tail == self.slots.len() {
            self.grow();
        }
        self.tail += 1;
        &mut self.slots[self.tail - 1]
    }

    #[cold]
    fn grow(&mut self) {
        // The slots are reused from the first one after the batch.
        self.slots.push(Slot::EMPTY);
    }

    /// Notes progress without an event: a part of a message that went straight to its memory.
    ///
    /// The poll then does not count as empty.
    #[inline]
    pub fn note_progress(&mut self) {
        self.moved = true;
    }

    /// Returns and clears the flag of [`Events::note_progress`].
    #[inline]
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns the flag of [`Events::note_progress`].
    #[inline]
    pub fn has_progress(&self) -> bool {
        self.moved
    }

    /// Takes the first event, if it is an [`Event::Rx`].
    #[inline]
    pub fn pop_rx(&mut self) -> Option<(VcId, RxBuf)> {
        if self.head == self.tail {
            return None;
        }
        let slot = &mut self.slots[self.head];
        // Nothing is written before its kind is known.
        slot.buf.as_ref()?;
        let buf = slot.buf.take()?.by_words();
        let vc = slot.vc;
        self.passed();
        Some((vc, buf))
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        if self.head == self.tail {
            return None;
        }
        if let Some((vc, buf)) = self.pop_rx() {
            return Some(Event::Rx { vc, buf });
        }
        self.passed();
        self.others.pop_front()
    }

    #[inline]
    fn passed(&mut self) {
        self.head += 1;
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    fn waiting(&self) -> &[Slot] {
        &self.slots[self.head..self.tail]
    }

    /// Sets the number of the netmod (of a set) in the events from the `from`-th on.
    pub fn tag_netmod(&mut self, from: usize, number: u8) {
        let others = self.waiting().iter().skip(from).filter(|p| p.is_others()).count();
        for ev in self.others.iter_mut().rev().take(others) {
            if let Event::NewPeer { netmod, .. } | Event::PortPeer { netmod, .. } = ev {
                *netmod = number;
            }
        }
    }

    /// Returns true if the events, or a wrapper, hold bytes of the VC, so that its state is not
    /// final.
    pub fn concern(&self, vc: VcId) -> bool {
        self.held.contains(&vc)
            || vc != NOBODY && self.waiting().iter().any(|p| p.vc == vc)
            || self.others.iter().any(|ev| matches!(ev, Event::RecvDone { vc: v } if *v == vc))
    }

    /// Sets the VCs of which bytes are held back, in addition to those of `outer`. For wrappers.
    ///
    /// The wrapped netmod then does not take a VC's end for final before they have been handled.
    pub fn hold(&mut self, vcs: impl Iterator<Item = VcId>, outer: &Events) {
        self.held.clear();
        self.held.extend(vcs);
        self.held.extend_from_slice(&outer.held);
    }

    /// Iterates over the events from the `from`-th on, in order.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = Seen<'_>> {
        let waiting = self.waiting();
        let before = waiting.iter().take(from).filter(|p| p.is_others()).count();
        let mut others = self.others.iter().skip(before);
        waiting.iter().skip(from).filter_map(move |p| match &p.buf {
            Some(buf) => Some(Seen::Rx(p.vc, buf)),
            None => others.next().map(Seen::Other),
        })
    }

    /// Returns how many more events a netmod should add in this poll.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    /// Returns the number of events.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Returns true if there are no events.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }
}

/// An event as [`Events::iter_from`] returns it.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'e> {
    /// [`Event::Rx`].
    Rx(VcId, &'e RxBuf),
    /// Another event.
    Other(&'e Event),
}

impl Default for Events {
    fn default() -> Self {
        Events::with_limit(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and other events come out, and are shown, as they went in.
    #[test]
    fn bytes_and_other_events_keep_their_order() {
        let vc = |n: u64| VcId::from_wire(1 << 32 | n);
        let bytes = |token| RxBuf::from_static(&[7; 5], token);
        let token = |rx: Option<(VcId, RxBuf)>| rx.map(|(vc, buf)| (vc, buf.token()));
        let mut events = Events::with_limit(8);
        for whole in [true, false] {
            events.push_rx(vc(1), bytes(10));
            events.push(Event::Up { vc: vc(2) });
            events.push(Event::Rx { vc: vc(3), buf: bytes(30) });
            events.push(Event::Terminated { vc: vc(4) });
            assert_eq!((events.len(), events.is_empty()), (4, false));
            assert_eq!([1, 2, 3, 4].map(|n| events.concern(vc(n))), [true, false, true, false]);
            let seen: Vec<String> = events.iter_from(1).map(|ev| format!("{ev:?}")).collect();
            assert_eq!(seen.len(), 3, "{seen:?}");
            for (shown, form) in seen.iter().zip(["Other(Up", "Rx(", "Other(Terminated"]) {
                assert!(shown.starts_with(form), "{shown}");
            }
            if whole {
                assert!(
                    matches!(events.pop(), Some(Event::Rx { vc: v, buf }) if (v, buf.token()) == (vc(1), 10))
                );
            } else {
                assert_eq!(token(events.pop_rx()), Some((vc(1), 10)));
            }
            assert!(events.pop_rx().is_none(), "another event is first");
            assert!(matches!(events.pop(), Some(Event::Up { vc: v }) if v == vc(2)));
            assert_eq!(token(events.pop_rx()), Some((vc(3), 30)));
            assert!(matches!(events.pop(), Some(Event::Terminated { vc: v }) if v == vc(4)));
            assert!(events.pop().is_none() && events.pop_rx().is_none() && events.is_empty());
        }
    }
}

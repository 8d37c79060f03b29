//! Events: what a netmod found when it was polled.

use std::collections::VecDeque;

use crate::apart::{Halves, halves, whole};
use crate::buf::RxBuf;
use crate::error::VcError;
use crate::netmod::{Header, PeerName};
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
    /// As many bytes as a header has arrived, and most likely one, of a message that has nothing behind it. The same as [`Event::Rx`] with these bytes, but nothing
    /// is on loan.
    Header {
        /// On which VC.
        vc: VcId,
        /// The bytes.
        hdr: Header,
    },
    /// The active receive of the VC was filled directly ([`crate::Core::recv_advance`]).
    RecvDone {
        /// On which VC.
        vc: VcId,
    },
    /// A connection was made; the peer may have made it. If the VC was down, it is of use again.
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
    /// A process of another job has come to a port and has proved to know its key: answer with `join_group`
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

/// A place in a batch: received bytes, a header, or the turn of the next event of another kind.
///
/// The bytes of small messages come by the million: their places are written and read part by part, never as a
/// value of many forms that is put together elsewhere first.
#[derive(Debug)]
struct Slot {
    /// [`NOBODY`] if it is the turn of another event.
    vc: VcId,
    /// If there is none, `hdr` means something.
    buf: Option<RxBuf>,
    hdr: Halves,
}

impl Slot {
    const EMPTY: Slot = Slot { vc: NOBODY, buf: None, hdr: [[0; 2]; 2] };

    /// Whether it is the turn of another event.
    #[inline]
    fn is_others(&self) -> bool {
        self.vc == NOBODY
    }
}

/// A bounded batch of events.
#[derive(Debug)]
pub struct Events {
    /// Those from `head` to `tail` wait; the others are memory.
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
    /// A batch of at most `limit` events, give or take those that cannot wait.
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
            Event::Header { vc, hdr } => {
                self.push_header(vc, halves(&hdr));
            }
            other => {
                let slot = self.next_place();
                (slot.vc, slot.buf) = (NOBODY, None);
                self.others.push_back(other);
            }
        }
    }

    /// Adds [`Event::Rx`].
    #[inline]
    pub fn push_rx(&mut self, vc: VcId, buf: RxBuf) {
        let slot = self.next_place();
        slot.vc = vc;
        slot.buf = Some(buf);
    }

    /// Adds [`Event::Header`], by its halves in words.
    #[inline]
    pub fn push_header(&mut self, vc: VcId, halves: Halves) {
        let slot = self.next_place();
        (slot.vc, slot.buf, slot.hdr) = (vc, None, halves);
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
        // Once the batch has been handled, its places are used from the first again.
        self.slots.push(Slot::EMPTY);
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

    /// Takes the first event, if it is [`Event::Rx`].
    #[inline]
    pub fn pop_rx(&mut self) -> Option<(VcId, RxBuf)> {
        if self.head == self.tail {
            return None;
        }
        let slot = &mut self.slots[self.head];
        // Nothing is written before it is known what it is.
        slot.buf.as_ref()?;
        let buf = slot.buf.take()?.by_words();
        let vc = slot.vc;
        self.passed();
        Some((vc, buf))
    }

    /// Takes the first event, if it is [`Event::Header`].
    #[inline]
    pub fn pop_header(&mut self) -> Option<(VcId, Header)> {
        if self.head == self.tail {
            return None;
        }
        let slot = &self.slots[self.head];
        if slot.is_others() || slot.buf.is_some() {
            return None;
        }
        let found = (slot.vc, whole(&slot.hdr));
        self.passed();
        Some(found)
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
        if let Some((vc, hdr)) = self.pop_header() {
            return Some(Event::Header { vc, hdr });
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

    /// Says of the events from the `from`-th on which netmod of a set they came by.
    pub fn tag_netmod(&mut self, from: usize, number: u8) {
        let others = self.waiting().iter().skip(from).filter(|p| p.is_others()).count();
        for ev in self.others.iter_mut().rev().take(others) {
            if let Event::NewPeer { netmod, .. } | Event::PortPeer { netmod, .. } = ev {
                *netmod = number;
            }
        }
    }

    /// Whether bytes of a VC are among the events, or held back by a wrapper, so that its present state is
    /// not the last word.
    pub fn concern(&self, vc: VcId) -> bool {
        self.held.contains(&vc)
            || vc != NOBODY && self.waiting().iter().any(|p| p.vc == vc)
            || self.others.iter().any(|ev| matches!(ev, Event::RecvDone { vc: v } if *v == vc))
    }

    /// For wrappers: sets the VCs of which bytes are held back, beside those that `outer` names, so that
    /// the wrapped netmod does not take a VC's end for known before they have been handled.
    pub fn hold(&mut self, vcs: impl Iterator<Item = VcId>, outer: &Events) {
        self.held.clear();
        self.held.extend(vcs);
        self.held.extend_from_slice(&outer.held);
    }

    /// The events from the `from`-th on, in order.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = Seen<'_>> {
        let waiting = self.waiting();
        let before = waiting.iter().take(from).filter(|p| p.is_others()).count();
        let mut others = self.others.iter().skip(before);
        waiting.iter().skip(from).filter_map(move |p| match &p.buf {
            Some(buf) => Some(Seen::Rx(p.vc, buf)),
            None if !p.is_others() => Some(Seen::Header(p.vc, whole(&p.hdr))),
            None => others.next().map(Seen::Other),
        })
    }

    /// How many more a netmod should find in this poll.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.len())
    }

    /// Number of events.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }
}

/// An event as [`Events::iter_from`] shows it.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'e> {
    /// [`Event::Rx`].
    Rx(VcId, &'e RxBuf),
    /// [`Event::Header`].
    Header(VcId, Header),
    /// Another one.
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

    /// Headers and other events come out as they went in, and are shown so.
    #[test]
    fn headers_keep_their_place() {
        let vc = |n: u64| VcId::from_wire(1 << 32 | n);
        let hdr: Header = core::array::from_fn(|i| i as u8);
        let mut events = Events::with_limit(8);
        for whole in [true, false] {
            events.push_header(vc(1), halves(&hdr));
            events.push(Event::Up { vc: vc(2) });
            events.push(Event::Header { vc: vc(3), hdr });
            events.push(Event::Terminated { vc: vc(4) });
            assert_eq!((events.len(), events.is_empty()), (4, false));
            assert_eq!([1, 2, 3, 4].map(|n| events.concern(vc(n))), [true, false, true, false]);
            let seen: Vec<String> = events.iter_from(1).map(|ev| format!("{ev:?}")).collect();
            assert_eq!(seen.len(), 3, "{seen:?}");
            for (shown, form) in seen.iter().zip(["Other(Up", "Header(", "Other(Terminated"]) {
                assert!(shown.starts_with(form), "{shown}");
            }
            assert!(events.pop_rx().is_none(), "a header lends nothing");
            if whole {
                assert!(
                    matches!(events.pop(), Some(Event::Header { vc: v, hdr: h }) if (v, h) == (vc(1), hdr))
                );
            } else {
                assert_eq!(events.pop_header(), Some((vc(1), hdr)));
            }
            assert!(events.pop_header().is_none(), "another event is first");
            assert!(matches!(events.pop(), Some(Event::Up { vc: v }) if v == vc(2)));
            assert_eq!(events.pop_header(), Some((vc(3), hdr)));
            assert!(matches!(events.pop(), Some(Event::Terminated { vc: v }) if v == vc(4)));
            assert!(events.pop().is_none() && events.pop_header().is_none() && events.is_empty());
        }
    }
}

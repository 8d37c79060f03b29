//! Flow control of a VC: one object for each direction, which only counts.
//!
//! [`Outgoing`] decides how a message goes: eagerly if the peer's window has room, else announced
//! (RTS) if a slot is left, else it waits, and everything behind it. [`Incoming`] counts what a
//! peer's messages occupy here, and when which part of it is given back.
//!
//! For bytes and for slots: left at the sender + in flight + held + owed = granted. A notice
//! carries the total given back so far, modulo 2^32, so a notice that is lost with a cancelled
//! message, or comes twice, does no harm.

use std::collections::VecDeque;

use netmod_core::ReqId;

use crate::Config;

/// Charge of an unexpected message besides its payload, in bytes: its entry in the queue and the
/// queue's indices, with the slack of tables that grow by doubling.
pub(crate) const ENTRY: u32 = 256;
/// The smallest window, whatever the settings.
pub(crate) const LEAST_WINDOW: u32 = 16 << 10;
/// Least slots of a peer, unless the settings ask for fewer.
const LEAST_SLOTS: u32 = 64;
/// Bound of every window, and of the totals that a peer may claim.
const MOST: u32 = 1 << 30;

/// Returns the charge of an eager message, in bytes.
#[inline]
pub(crate) fn charge(len: u32) -> u32 {
    ENTRY.saturating_add(len)
}

/// The credit that each process of a group grants each other one at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Bytes of eager messages.
    pub window: u32,
    /// Announced messages.
    pub slots: u32,
}

impl Terms {
    /// Bytes of [`Terms::to_bytes`].
    pub(crate) const LEN: usize = 8;
    /// Terms of processes that have not agreed on others.
    pub(crate) const DEFAULT: Terms = Terms { window: LEAST_WINDOW, slots: LEAST_SLOTS };

    /// Returns the terms of a job of `ranks`. The peers share half of `NETMOD_UNEXPECTED_MAX`: a
    /// quarter of it for eager messages and a quarter for announced ones.
    pub(crate) fn of(cfg: &Config, ranks: u32) -> Terms {
        let peers = ranks.saturating_sub(1).max(1) as usize;
        let share = u32::try_from(cfg.unexpected_max / 4 / peers).unwrap_or(MOST);
        let window = u32::try_from(cfg.eager_window).unwrap_or(MOST).min(share.max(LEAST_WINDOW));
        let slots = u32::try_from(cfg.rts_max).unwrap_or(MOST).min((share / ENTRY).max(LEAST_SLOTS));
        Terms { window: window.clamp(LEAST_WINDOW, MOST), slots: slots.clamp(1, MOST / ENTRY) }
    }

    /// Returns the longest eager message, in bytes. Two fit in the window, so that one can go when
    /// the receiver has taken everything, though it returns no less than half a window at once.
    pub(crate) fn eager_max(self) -> usize {
        (self.window / 2 - ENTRY) as usize
    }

    pub(crate) fn to_bytes(self) -> [u8; Terms::LEN] {
        let mut out = [0; Terms::LEN];
        out[..4].copy_from_slice(&self.window.to_le_bytes());
        out[4..].copy_from_slice(&self.slots.to_le_bytes());
        out
    }

    /// Parses terms; `None` if these are none.
    pub(crate) fn from_bytes(bytes: [u8; Terms::LEN]) -> Option<Terms> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let terms =
            Terms { window: u32::from_le_bytes([a, b, c, d]), slots: u32::from_le_bytes([e, f, g, h]) };
        let sane = (LEAST_WINDOW..=MOST).contains(&terms.window) && (1..=MOST / ENTRY).contains(&terms.slots);
        sane.then_some(terms)
    }
}

/// Both directions of a VC.
#[derive(Debug)]
pub(crate) struct Flow {
    pub out: Outgoing<ReqId>,
    pub inc: Incoming,
}

impl Flow {
    /// Makes the state of a new VC.
    pub(super) fn new(terms: Terms) -> Flow {
        Flow { out: Outgoing::new(terms), inc: Incoming::new(terms) }
    }
}

/// The protocol of a message that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Its data is sent.
    Eager,
    /// An RTS is sent.
    Announced,
}

/// The sending side: what the peer has granted, and the messages that wait for more.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    /// Bytes that may still be sent eagerly. Zero while messages wait, so that one comparison tells
    /// both; `waiting` has the number then.
    left: u32,
    /// Messages that may still be announced, likewise.
    slots: u32,
    /// Last totals of the peer.
    seen_bytes: u32,
    seen_slots: u32,
    /// Made when the first message waits, which most VCs never see.
    waiting: Option<Box<Waiting<T>>>,
}

/// Messages that wait at the sender.
#[derive(Debug)]
struct Waiting<T> {
    /// Bytes and slots left while there are any.
    kept: (u32, u32),
    /// The messages with their charges; 0 for those that are announced.
    queue: VecDeque<(T, u32)>,
    /// Cancelled messages in the queue.
    dead: usize,
    /// The peer was told that messages wait, and has granted no slot since.
    told: bool,
}

/// Cancelled messages that are kept in a queue: fewer than this, or than those that wait.
const DEAD: usize = 32;

impl<T> Outgoing<T> {
    pub(crate) fn new(terms: Terms) -> Outgoing<T> {
        Outgoing { left: terms.window, slots: terms.slots, seen_bytes: 0, seen_slots: 0, waiting: None }
    }

    /// Takes the charge of an eager message. Returns false if the message must be announced.
    #[inline]
    pub(crate) fn take(&mut self, charge: u32) -> bool {
        let enough = self.left >= charge;
        if enough {
            self.left -= charge;
        }
        enough
    }

    /// Takes a slot for an RTS. Returns false if the message must wait.
    #[inline]
    pub(crate) fn take_slot(&mut self) -> bool {
        let enough = self.slots > 0;
        if enough {
            self.slots -= 1;
        }
        enough
    }

    /// Returns the charge of an eager message that did not leave.
    pub(crate) fn refund(&mut self, charge: u32) {
        self.add(charge, 0);
    }

    fn add(&mut self, bytes: u32, slots: u32) {
        let (b, s) = match &mut self.waiting {
            Some(w) if !w.queue.is_empty() => (&mut w.kept.0, &mut w.kept.1),
            _ => (&mut self.left, &mut self.slots),
        };
        *b = b.saturating_add(bytes).min(MOST);
        *s = s.saturating_add(slots).min(MOST);
    }

    /// Returns true if a total of bytes is news.
    #[inline]
    pub(crate) fn is_news(&self, bytes: u32) -> bool {
        bytes != self.seen_bytes
    }

    /// Returns true if a total of bytes is news for messages that wait.
    #[inline]
    pub(crate) fn is_waited_for(&self, bytes: u32) -> bool {
        self.is_news(bytes) && self.waiting() > 0
    }

    /// Adds what the peer's totals grant. Older totals than the last do not count.
    pub(crate) fn granted(&mut self, bytes: u32, slots: Option<u32>) {
        let newer = |total: u32, seen: &mut u32| {
            let n = total.wrapping_sub(*seen);
            if n > i32::MAX as u32 {
                return 0;
            }
            *seen = total;
            n
        };
        let more = newer(bytes, &mut self.seen_bytes);
        let slots = slots.map_or(0, |s| newer(s, &mut self.seen_slots));
        if slots > 0
            && let Some(w) = &mut self.waiting
        {
            w.told = false;
        }
        self.add(more, slots);
    }

    /// Queues a message. Returns true if the peer should be told: it is the first since the peer
    /// has granted slots.
    pub(crate) fn wait(&mut self, message: T, charge: u32) -> bool {
        let new = || Box::new(Waiting { kept: (0, 0), queue: VecDeque::new(), dead: 0, told: false });
        let w = self.waiting.get_or_insert_with(new);
        let first = w.queue.is_empty();
        if first {
            w.kept = (std::mem::take(&mut self.left), std::mem::take(&mut self.slots));
        }
        w.queue.push_back((message, charge));
        first && !std::mem::replace(&mut w.told, true)
    }

    /// Notes that a waiting message was cancelled. `live` returns false for such messages.
    pub(crate) fn cancelled(&mut self, live: impl Fn(&T) -> bool) {
        let Some(w) = self.waiting.as_deref_mut() else { return };
        w.dead += 1;
        if w.dead >= DEAD && w.dead > w.queue.len() / 2 {
            w.queue.retain(|(message, _)| live(message));
            w.dead = 0;
        }
    }

    /// The next message that can go now, and how. Those of which `live` says no are forgotten.
    pub(crate) fn next(&mut self, mut live: impl FnMut(&T) -> bool) -> Option<(T, Protocol)> {
        let w = self.waiting.as_deref_mut()?;
        let mut next = None;
        while let Some((message, charge)) = w.queue.front() {
            if live(message) {
                let protocol = if *charge > 0 && *charge <= w.kept.0 {
                    w.kept.0 -= charge;
                    Protocol::Eager
                } else if w.kept.1 > 0 {
                    w.kept.1 -= 1;
                    Protocol::Announced
                } else {
                    return None;
                };
                next = w.queue.pop_front().map(|(message, _)| (message, protocol));
                break;
            }
            w.queue.pop_front();
            w.dead = w.dead.saturating_sub(1);
        }
        if w.queue.is_empty() {
            let (bytes, slots) = std::mem::take(&mut w.kept);
            self.add(bytes, slots);
        }
        next
    }

    /// Returns the number of messages that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.as_ref().map_or(0, |w| w.queue.len())
    }

    /// Bytes and slots left.
    pub(crate) fn left(&self) -> (u32, u32) {
        match &self.waiting {
            Some(w) if !w.queue.is_empty() => w.kept,
            _ => (self.left, self.slots),
        }
    }
}

/// A peer that has sent more than it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdrawn;

/// The receiving side: what the peer was granted, and what became of it.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Bytes that were used up and not given back yet. Half the window of them calls for a Credit.
    owed: u32,
    /// Bytes of messages that wait for their receive.
    held: u32,
    /// All bytes that were given back.
    bytes: u32,
    terms: Terms,
    /// Counts the losses of the VC: messages from before one owe nothing to the peer after it.
    pub(crate) epoch: u32,
    /// Made with the first announced message: on most VCs there never is one.
    announced: Option<Box<Announced>>,
}

/// The use of the peer's slots.
#[derive(Clone, Copy, Debug, Default)]
struct Announced {
    held: u32,
    owed: u32,
    /// Lent beyond the terms; those come back first.
    lent: u32,
    /// Slots of them that the peer was not told of.
    untold: u32,
    /// All slots that were given back.
    told: u32,
    /// The peer has messages that wait for slots.
    wanting: bool,
    /// The total of bytes that was told last by a Credit, which is never taken back.
    said: u32,
}

impl Incoming {
    pub(crate) fn new(terms: Terms) -> Incoming {
        Incoming { owed: 0, held: 0, bytes: 0, terms, epoch: 0, announced: None }
    }

    fn announced(&self) -> Announced {
        self.announced.as_deref().copied().unwrap_or_default()
    }

    fn announced_mut(&mut self) -> &mut Announced {
        self.announced.get_or_insert_default()
    }

    /// Checks that the peer could send an eager message of this charge.
    ///
    /// # Errors
    /// A message beyond the peer's credit.
    #[inline]
    pub(crate) fn admit(&self, charge: u32) -> Result<(), Overdrawn> {
        let used = self.owed.saturating_add(self.held).saturating_add(charge);
        if used <= self.terms.window { Ok(()) } else { Err(Overdrawn) }
    }

    /// Notes an eager message that was received at once. Returns true if a Credit is due.
    #[inline]
    pub(crate) fn pass(&mut self, charge: u32) -> bool {
        self.owed = self.owed.wrapping_add(charge);
        self.owed >= self.terms.window / 2
    }

    /// An eager message waits for its receive.
    pub(crate) fn hold(&mut self, charge: u32) {
        self.held += charge;
    }

    /// A message that was held has gone. True if a Credit is due.
    pub(crate) fn release(&mut self, charge: u32) -> bool {
        debug_assert!(self.held >= charge, "more is released than was held");
        self.held = self.held.saturating_sub(charge);
        self.pass(charge)
    }

    /// Checks that the peer could announce another message.
    ///
    /// # Errors
    /// A message beyond the peer's credit.
    pub(crate) fn admit_slot(&self) -> Result<(), Overdrawn> {
        let a = self.announced();
        if a.held + a.owed < self.terms.slots + a.lent { Ok(()) } else { Err(Overdrawn) }
    }

    /// Notes an announced message that was received at once. Returns true if a Credit is due.
    pub(crate) fn pass_slot(&mut self) -> bool {
        let least = self.least_slots();
        let a = self.announced_mut();
        if a.lent > 0 {
            a.lent -= 1;
            return false;
        }
        a.owed += 1;
        a.owed >= least
    }

    /// Owed slots that call for a Credit.
    fn least_slots(&self) -> u32 {
        (self.terms.slots / 2).max(1)
    }

    /// An announced message waits for its receive.
    pub(crate) fn hold_slot(&mut self) {
        self.announced_mut().held += 1;
    }

    /// Frees the slot of a held message that is received or cancelled. Returns true if a Credit is
    /// due.
    pub(crate) fn release_slot(&mut self) -> bool {
        let a = self.announced_mut();
        debug_assert!(a.held > 0, "more slots are released than were held");
        a.held = a.held.saturating_sub(1);
        self.pass_slot()
    }

    /// Lends slots beyond the terms. They go with the next Credit.
    pub(crate) fn lend(&mut self, slots: u32) {
        let a = self.announced_mut();
        a.lent += slots;
        a.untold += slots;
    }

    /// Returns true if the peer has messages that wait for slots.
    pub(crate) fn is_wanting(&self) -> bool {
        self.announced.as_ref().is_some_and(|a| a.wanting)
    }

    /// Sets whether the peer has messages that wait for slots; whether that was so before.
    pub(crate) fn set_wanting(&mut self, wanting: bool) -> bool {
        std::mem::replace(&mut self.announced_mut().wanting, wanting)
    }

    /// Gives back all that is owed: the totals of bytes and slots for a Credit, and whether there
    /// are more slots than the peer knew of, so that it wants none until it says so again.
    pub(crate) fn settle(&mut self) -> (u32, u32, bool) {
        let (mut slots, mut more) = (0, 0);
        if let Some(a) = &mut self.announced {
            more = std::mem::take(&mut a.owed) + std::mem::take(&mut a.untold);
            a.told = a.told.wrapping_add(more);
            slots = a.told;
        }
        let bytes = self.settle_bytes();
        if let Some(a) = &mut self.announced {
            a.said = bytes;
        }
        (bytes, slots, more > 0)
    }

    /// Notes that a message was taken back, which may have carried bytes given back. Returns true
    /// if a Credit must carry them.
    pub(crate) fn must_say(&mut self) -> bool {
        let bytes = self.bytes;
        self.announced_mut().said != bytes
    }

    /// Returns the total of bytes given back, for a message that goes to the peer anyway.
    #[inline]
    pub(crate) fn settle_bytes(&mut self) -> u32 {
        self.bytes = self.bytes.wrapping_add(std::mem::take(&mut self.owed));
        self.bytes
    }

    /// Returns true if a Credit is due.
    pub(crate) fn is_due(&self) -> bool {
        self.owed >= self.terms.window / 2 || self.announced().owed >= self.least_slots()
    }

    /// Bytes held and owed.
    pub(crate) fn bytes(&self) -> (u32, u32) {
        (self.held, self.owed)
    }

    /// Slots held, owed and lent.
    pub(crate) fn slots(&self) -> (u32, u32, u32) {
        let a = self.announced();
        (a.held, a.owed, a.lent)
    }

    /// Returns the terms at the beginning.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }
}

#[cfg(test)]
#[path = "credit_tests.rs"]
mod tests;

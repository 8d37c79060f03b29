//! Flow control of a VC: two objects, one for each direction, that know numbers and nothing else.
//!
//! [`Outgoing`] decides how a message goes: eagerly if the peer's window has room, else announced
//! (RTS) if a slot is left, else it waits, and everything behind it. [`Incoming`] counts what a peer's
//! messages occupy here, and when which part of it is given back.
//!
//! For bytes and for slots: left at the sender + in flight + held + owed = granted. What is told to the peer
//! is the total of what was given back so far, modulo 2³², so that a notice that was lost with a
//! cancelled message, or comes twice, does no harm.

use std::collections::VecDeque;

use netmod_core::ReqId;

use crate::Config;

/// Bytes that an unexpected message is charged besides its payload: its place in the queue and in the
/// queue's indices, with the slack of what grows by doubling.
pub(crate) const ENTRY: u32 = 256;
/// The smallest window, whatever the settings.
pub(crate) const LEAST_WINDOW: u32 = 16 << 10;
/// So many slots a peer has in any case, unless the settings ask for fewer.
const LEAST_SLOTS: u32 = 64;
/// More than any window: what a peer may claim to have given.
const MOST: u32 = 1 << 30;

/// What an eager message of so many bytes is charged.
#[inline]
pub(crate) fn charge(len: u32) -> u32 {
    ENTRY.saturating_add(len)
}

/// What each process of a group grants each other one to begin with.
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
    /// Between processes that have not agreed on anything else.
    pub(crate) const STRANGERS: Terms = Terms { window: LEAST_WINDOW, slots: LEAST_SLOTS };

    /// Those of a job of `ranks`: half of `NETMOD_UNEXPECTED_MAX` is shared out among the peers, a quarter of
    /// it for eager messages and a quarter for announced ones.
    pub(crate) fn of(cfg: &Config, ranks: u32) -> Terms {
        let peers = ranks.saturating_sub(1).max(1) as usize;
        let share = u32::try_from(cfg.unexpected_max / 4 / peers).unwrap_or(MOST);
        let window = u32::try_from(cfg.eager_window).unwrap_or(MOST).min(share.max(LEAST_WINDOW));
        let slots = u32::try_from(cfg.rts_max).unwrap_or(MOST).min((share / ENTRY).max(LEAST_SLOTS));
        Terms { window: window.clamp(LEAST_WINDOW, MOST), slots: slots.clamp(1, MOST / ENTRY) }
    }

    /// The longest eager message: two of them fit in the window, so that one can always go when the
    /// receiver has taken everything, although it gives back no less than half a window at once.
    pub(crate) fn eager_max(self) -> usize {
        (self.window / 2 - ENTRY) as usize
    }

    pub(crate) fn to_bytes(self) -> [u8; Terms::LEN] {
        let mut out = [0; Terms::LEN];
        out[..4].copy_from_slice(&self.window.to_le_bytes());
        out[4..].copy_from_slice(&self.slots.to_le_bytes());
        out
    }

    /// `None` if these are no terms.
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

/// How a message that has waited goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With its data.
    Eager,
    /// By an RTS.
    Announced,
}

/// The sending side: what the peer has granted, and the messages that wait for more.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    /// Bytes that may still be sent eagerly. Zero while messages wait, so that one comparison tells
    /// both; then the true number is in `waiting`.
    left: u32,
    /// Messages that may still be announced, likewise.
    slots: u32,
    /// The totals that the peer told last.
    seen_bytes: u32,
    seen_slots: u32,
    /// Made when a message first has to wait: on most VCs none ever has.
    waiting: Option<Box<Waiting<T>>>,
}

/// Messages that wait at the sender.
#[derive(Debug)]
struct Waiting<T> {
    /// Bytes and slots left while there are any.
    kept: (u32, u32),
    /// With what each is charged if it goes eagerly; 0 for those that do not.
    queue: VecDeque<(T, u32)>,
    /// How many of them were cancelled.
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

    /// Takes the charge of an eager message. If there is not enough, the message must be announced.
    #[inline]
    pub(crate) fn take(&mut self, charge: u32) -> bool {
        let enough = self.left >= charge;
        if enough {
            self.left -= charge;
        }
        enough
    }

    /// Takes a slot for an RTS. If there is none, the message must wait.
    #[inline]
    pub(crate) fn take_slot(&mut self) -> bool {
        let enough = self.slots > 0;
        if enough {
            self.slots -= 1;
        }
        enough
    }

    /// An eager message did not leave after all.
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

    /// Whether a total of bytes says anything new.
    #[inline]
    pub(crate) fn is_news(&self, bytes: u32) -> bool {
        bytes != self.seen_bytes
    }

    /// The peer's totals. Older ones than the last are of no account.
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

    /// Puts a message behind those that wait. True if the peer should be told: it is the first since the peer has granted slots.
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

    /// One of the messages that wait was cancelled. Of those `live` says no.
    pub(crate) fn cancelled(&mut self, live: impl Fn(&T) -> bool) {
        let Some(w) = self.waiting.as_deref_mut() else { return };
        w.dead += 1;
        if w.dead >= DEAD && w.dead > w.queue.len() / 2 {
            w.queue.retain(|(message, _)| live(message));
            w.dead = 0;
        }
    }

    /// The next message that can go now, and how. Those of which `live` says no are forgotten.
    pub(crate) fn next(&mut self, mut live: impl FnMut(&T) -> bool) -> Option<(T, Way)> {
        let w = self.waiting.as_deref_mut()?;
        let mut next = None;
        while let Some((message, charge)) = w.queue.front() {
            if live(message) {
                let way = if *charge > 0 && *charge <= w.kept.0 {
                    w.kept.0 -= charge;
                    Way::Eager
                } else if w.kept.1 > 0 {
                    w.kept.1 -= 1;
                    Way::Announced
                } else {
                    return None;
                };
                next = w.queue.pop_front().map(|(message, _)| (message, way));
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

    /// How many messages wait.
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

/// What became of the peer's slots. As it is made, nothing has.
#[derive(Clone, Copy, Debug, Default)]
struct Announced {
    held: u32,
    owed: u32,
    /// Lent beyond the terms; those come back first.
    lent: u32,
    /// Of them, those that the peer was not told of yet.
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

    /// Whether the peer may have sent an eager message of this charge.
    ///
    /// # Errors
    /// If it exceeds what was granted.
    #[inline]
    pub(crate) fn admit(&self, charge: u32) -> Result<(), Overdrawn> {
        let used = self.owed.saturating_add(self.held).saturating_add(charge);
        if used <= self.terms.window { Ok(()) } else { Err(Overdrawn) }
    }

    /// An eager message has met its receive at once. True if a Credit is due.
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

    /// Whether the peer may have announced another message.
    ///
    /// # Errors
    /// If it exceeds what was granted.
    pub(crate) fn admit_slot(&self) -> Result<(), Overdrawn> {
        let a = self.announced();
        if a.held + a.owed < self.terms.slots + a.lent { Ok(()) } else { Err(Overdrawn) }
    }

    /// An announced message has met its receive at once. True if a Credit is due.
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

    /// An announced message that was held has met its receive, or was cancelled. True if a Credit is due.
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

    /// Whether the peer has messages that wait for slots.
    pub(crate) fn is_wanting(&self) -> bool {
        self.announced.as_ref().is_some_and(|a| a.wanting)
    }

    /// Sets whether the peer has messages that wait for slots; whether that was so before.
    pub(crate) fn set_wanting(&mut self, wanting: bool) -> bool {
        std::mem::replace(&mut self.announced_mut().wanting, wanting)
    }

    /// Gives back all that is owed: the totals of bytes and slots for a Credit, and whether there are more
    /// slots than the peer knew of, so that it wants none until it says so again.
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

    /// A message was taken back that may have told the peer of the bytes that were given back. Returns true if a Credit must tell it.
    pub(crate) fn must_say(&mut self) -> bool {
        let bytes = self.bytes;
        self.announced_mut().said != bytes
    }

    /// Gives back the bytes that are owed, with a message that goes to the peer anyway: their total.
    #[inline]
    pub(crate) fn settle_bytes(&mut self) -> u32 {
        self.bytes = self.bytes.wrapping_add(std::mem::take(&mut self.owed));
        self.bytes
    }

    /// Whether a Credit is due.
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

    /// What was granted to begin with.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }
}

#[cfg(test)]
#[path = "credit_tests.rs"]
mod tests;

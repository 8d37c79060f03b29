//! Windows: a message whose memory cannot be registered all at once moves part by part, the next one being
//! registered while the last one moves.
//!
//! One side, the exposer, registers windows and tells their keys; the other one, the mover, puts or gets. `At(i)` says that all windows
//! before `i` have moved: the exposer ends their registrations, and registers `i + 1` while `i` moves. So
//! two are registered at most, and no window is deregistered that is still moving.

use crate::mutant::{Mutant, mutated};
use crate::table::{Access, Action, Actions, Fault};

/// Windows are not made smaller than this, in bytes, when memory cannot be registered.
pub const MIN_WINDOW: u64 = if cfg!(test) { 1 } else { 64 << 10 };

/// A part of a message, in bytes of its packed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Its number, from 0.
    pub index: u32,
    /// Where it begins.
    pub at: u64,
    /// Its length.
    pub len: u64,
}

impl Window {
    /// One past its last byte.
    pub const fn end(self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposed {
    /// Its key can be told.
    Yes(Window),
    /// Another attempt is made, now or when a window has moved.
    Later,
    /// Nothing can be registered, and nothing is.
    Never,
}

/// The side whose memory is reached by the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exposer {
    access: Access,
    total: u64,
    window: u64,
    /// The next window to be registered.
    next: u32,
    next_at: u64,
    /// Registered, by number modulo 2.
    live: [Option<Window>; 2],
    /// Being registered.
    asked: Option<Window>,
    /// The last `At`, plus one.
    reached: u32,
}

impl Exposer {
    pub(crate) fn new(access: Access, total: u64, window: u64) -> Exposer {
        let window = window.max(MIN_WINDOW);
        Exposer { access, total, window, next: 0, next_at: 0, live: [None; 2], asked: None, reached: 0 }
    }

    /// Whether the mover has said that it began.
    pub(crate) fn is_untouched(&self) -> bool {
        self.reached <= 1
    }

    /// Asks for the next window's registration, if it is due.
    pub(crate) fn expose(&mut self, acts: &mut Actions) {
        let ahead = if mutated(Mutant::ExposeAhead) { 1 } else { 0 };
        if self.asked.is_some() || self.next_at >= self.total || self.next > self.reached + ahead {
            return;
        }
        let len = self.window.min(self.total - self.next_at);
        let window = Window { index: self.next, at: self.next_at, len };
        self.asked = Some(window);
        acts.push(Action::Register(window, self.access));
    }

    /// The answer. With `Yes` the caller tells the key, then calls [`Exposer::expose`].
    pub(crate) fn registered(&mut self, ok: bool, acts: &mut Actions) -> Exposed {
        let Some(window) = self.asked.take() else { return Exposed::Later };
        if ok {
            self.live[window.index as usize % 2] = Some(window);
            self.next += 1;
            self.next_at = window.end();
            return Exposed::Yes(window);
        }
        if window.len > MIN_WINDOW {
            self.window = (window.len / 2).max(MIN_WINDOW);
            self.expose(acts);
            return Exposed::Later;
        }
        if self.live.iter().any(Option::is_some) {
            return Exposed::Later;
        }
        Exposed::Never
    }

    /// The mover has moved all windows before `index`.
    pub(crate) fn at(&mut self, index: u32, acts: &mut Actions) -> Result<(), Fault> {
        let exposed = index < self.next || (index == self.next && self.next_at < self.total);
        if index != self.reached || !exposed {
            return Err(Fault::Violation("a window that was not exposed is said to have moved"));
        }
        self.reached = index.saturating_add(1);
        let through = if mutated(Mutant::ReleaseEarly) { index + 1 } else { index };
        for place in &mut self.live {
            if let Some(w) = place.take_if(|w| w.index < through) {
                acts.push(Action::Deregister(w.index));
            }
        }
        if !mutated(Mutant::NeverRekey) {
            self.expose(acts);
        }
        Ok(())
    }

    /// Whether all windows were exposed, as they must have been when all has moved.
    pub(crate) fn is_through(&self) -> bool {
        self.next_at >= self.total
    }

    /// Ends all registrations.
    pub(crate) fn close(&mut self, acts: &mut Actions) {
        for place in &mut self.live {
            if let Some(w) = place.take() {
                acts.push(Action::Deregister(w.index));
            }
        }
        self.asked = None;
    }
}

/// The side that puts or gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    total: u64,
    /// Bytes of windows that have come, moved or not.
    known: u64,
    /// Windows that have come.
    count: u32,
    moving: Option<Window>,
    ready: Option<Window>,
    moved: u64,
    /// Whether the exposer knows that the message is cut to `total`.
    agreed: bool,
}

impl Mover {
    /// Begins with the first window. `agreed`: the other side exposes no more than `total` bytes.
    pub(crate) fn start(total: u64, first: Window, agreed: bool, acts: &mut Actions) -> Result<Mover, Fault> {
        let mut m = Mover { total, known: 0, count: 0, moving: None, ready: None, moved: 0, agreed };
        if first.len < total {
            acts.push(Action::SendAt(0));
        }
        m.window(first, acts)?;
        Ok(m)
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    pub(crate) fn has_moved_nothing(&self) -> bool {
        self.moved == 0
    }

    /// A window has come.
    pub(crate) fn window(&mut self, w: Window, acts: &mut Actions) -> Result<(), Fault> {
        let end = w.at.checked_add(w.len);
        let follows = w.index == self.count && w.at == self.known && w.len > 0;
        let fits = end.is_some_and(|end| !self.agreed || end <= self.total);
        if !follows || !fits || self.ready.is_some() {
            return Err(Fault::Violation("a window that does not follow the last one, or is out of bounds"));
        }
        // Behind a message that was cut here: the other side has not heard of that yet.
        if w.at >= self.total {
            return Ok(());
        }
        self.count += 1;
        self.known = w.end();
        let w = Window { len: w.len.min(self.total - w.at), ..w };
        if self.moving.is_some() {
            self.ready = Some(w);
        } else {
            self.begin(w, acts);
        }
        Ok(())
    }

    fn begin(&mut self, w: Window, acts: &mut Actions) {
        self.moving = Some(w);
        acts.push(Action::Move(w));
    }

    /// A window has moved. Whether that was the last one.
    pub(crate) fn ended(&mut self, acts: &mut Actions) -> bool {
        let Some(w) = self.moving.take() else { return false };
        self.moved = w.end();
        if self.moved >= self.total || (mutated(Mutant::EarlyDone) && w.index > 0) {
            return true;
        }
        if !(mutated(Mutant::MuteMover) && self.ready.is_none()) {
            acts.push(Action::SendAt(w.index + 1));
        }
        if let Some(next) = self.ready.take() {
            self.begin(next, acts);
        }
        false
    }

    /// The move under way has failed.
    pub(crate) fn failed(&mut self) {
        self.moving = None;
    }
}

//! Windows: a message whose memory cannot be registered at once moves part by part.
//!
//! One part is registered while the part before it moves. One side, the exposer, registers windows
//! and sends their keys; the other one, the mover, puts or gets. `WindowAck(i)` says that all
//! windows before `i` have moved: the exposer ends their registrations, and registers `i + 1` while
//! `i` moves. So at most two are registered, and no window is deregistered while it moves.

use crate::mutant::{Mutant, mutated};
use crate::table::{Access, Action, Actions, Fault, Window};

/// Least size of a window in bytes, even if memory cannot be registered.
pub const MIN_WINDOW: u64 = if cfg!(test) { 1 } else { 64 << 10 };

/// The result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposed {
    /// It is registered, and its key can be sent.
    Yes(Window),
    /// Another attempt follows, now or when a window has moved.
    Later,
    /// No memory can be registered, and none is.
    Never,
}

/// The side whose memory the other one accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exposer {
    access: Access,
    total: u64,
    window: u64,
    /// Number of the next window to register.
    next: u32,
    next_at: u64,
    /// Registered windows, by number modulo 2.
    live: [Option<Window>; 2],
    /// Window being registered.
    asked: Option<Window>,
    /// The last `WindowAck`, plus one.
    reached: u32,
}

impl Exposer {
    pub(crate) fn new(access: Access, total: u64, window: u64) -> Exposer {
        let window = window.max(MIN_WINDOW);
        Exposer { access, total, window, next: 0, next_at: 0, live: [None; 2], asked: None, reached: 0 }
    }

    /// Returns true if the mover has not begun.
    pub(crate) fn is_untouched(&self) -> bool {
        self.reached <= 1
    }

    /// Requests the next window's registration, if it is due.
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

    /// Handles the result. With `Yes` the caller sends the key, then calls [`Exposer::expose`].
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

    /// Handles the mover's message that all windows before `index` have moved.
    pub(crate) fn window_ack(&mut self, index: u32, acts: &mut Actions) -> Result<(), Fault> {
        let exposed = index < self.next || (index == self.next && self.next_at < self.total);
        if index != self.reached || !exposed {
            return Err(Fault::Violation("a window that was not exposed is said to have moved"));
        }
        self.reached = index.saturating_add(1);
        let through = if mutated(Mutant::ReleaseEarly) { index + 1 } else { index };
        for slot in &mut self.live {
            if let Some(w) = slot.take_if(|w| w.index < through) {
                acts.push(Action::Deregister(w.index));
            }
        }
        if !mutated(Mutant::NeverRekey) {
            self.expose(acts);
        }
        Ok(())
    }

    /// Returns true if all windows were exposed, as they must have been when all has moved.
    pub(crate) fn is_through(&self) -> bool {
        self.next_at >= self.total
    }

    /// Ends all registrations.
    pub(crate) fn close(&mut self, acts: &mut Actions) {
        for slot in &mut self.live {
            if let Some(w) = slot.take() {
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
    /// Bytes of the windows that have come, moved or not.
    known: u64,
    /// Number of windows that have come.
    count: u32,
    moving: Option<Window>,
    ready: Option<Window>,
    moved: u64,
    /// True if the exposer knows that the message is cut to `total`.
    agreed: bool,
}

impl Mover {
    /// Begins with the first window. `agreed`: the other side exposes no more than `total` bytes.
    pub(crate) fn start(total: u64, first: Window, agreed: bool, acts: &mut Actions) -> Result<Mover, Fault> {
        let mut m = Mover { total, known: 0, count: 0, moving: None, ready: None, moved: 0, agreed };
        if first.len < total {
            acts.push(Action::SendWindowAck(0));
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

    /// Handles a window that has come.
    pub(crate) fn window(&mut self, w: Window, acts: &mut Actions) -> Result<(), Fault> {
        let end = w.at.checked_add(w.len);
        let follows = w.index == self.count && w.at == self.known && w.len > 0;
        let fits = end.is_some_and(|end| !self.agreed || end <= self.total);
        if !follows || !fits || self.ready.is_some() {
            return Err(Fault::Violation("a window that does not follow the last one, or is out of bounds"));
        }
        // Behind the end of a message that was cut here, which the other side does not know yet.
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

    /// Handles the end of a window's move; returns true if it was the last one.
    pub(crate) fn ended(&mut self, acts: &mut Actions) -> bool {
        let Some(w) = self.moving.take() else { return false };
        self.moved = w.end();
        if self.moved >= self.total || (mutated(Mutant::EarlyDone) && w.index > 0) {
            return true;
        }
        if !(mutated(Mutant::MuteMover) && self.ready.is_none()) {
            acts.push(Action::SendWindowAck(w.index + 1));
        }
        if let Some(next) = self.ready.take() {
            self.begin(next, acts);
        }
        false
    }

    /// Handles the failure of the move in progress.
    pub(crate) fn failed(&mut self) {
        self.moving = None;
    }
}

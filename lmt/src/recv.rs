//! The receiver's side of a transfer, from the match on.

use crate::mode::Mode;
use crate::mutant::{Mutant, mutated};
use crate::send::close;
use crate::table::{Access, Action, Actions, Ending, Event, Fault, Window};
use crate::window::{Exposed, Exposer, Mover};

/// The phase of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvPhase {
    /// Put: the first window is being registered; CTS was not sent.
    Opening(Exposer),
    /// Null: CTS was sent.
    Cleared,
    /// Null: the data is arriving.
    Streaming,
    /// Cooperative: so many bytes are still to be copied out of the ring.
    Copying(u64),
    /// Put: the sender writes.
    Putting(Exposer),
    /// Get: this side reads.
    Getting(Mover),
    /// Ended, except for a get in progress.
    Draining(Ending),
    /// Ended.
    Over(Ending),
}

/// The receiver of a large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvLmt {
    total: u64,
    phase: RecvPhase,
}

impl RecvLmt {
    /// Starts the transfer of a message that has matched a receive with room for `total` bytes.
    ///
    /// `mode` is the chosen mode, `window` the most bytes registered at once (Put), and `first` the
    /// sender's first window (Get). Without bytes to move, Null is used.
    pub fn start(total: u64, mode: Mode, window: u64, first: Option<Window>) -> (RecvLmt, Actions) {
        let mut acts = Actions::default();
        let phase = match (mode, first) {
            (Mode::Put, _) if total > 0 => {
                let mut e = Exposer::new(Access::RemoteWrite, total, window);
                e.expose(&mut acts);
                RecvPhase::Opening(e)
            }
            (Mode::Get, Some(first)) if total > 0 => {
                match Mover::start(total, first, false, &mut acts) {
                    Ok(m) => RecvPhase::Getting(m),
                    // The first window is invalid: the data can come as a message.
                    Err(_) => {
                        acts = Actions::default();
                        null(&mut acts)
                    }
                }
            }
            (Mode::Coop, _) if total > 0 => {
                acts.push(Action::Copy(total));
                acts.push(Action::SendCts(Mode::Coop, None));
                RecvPhase::Copying(total)
            }
            _ => null(&mut acts),
        };
        (RecvLmt { total, phase }, acts)
    }

    /// Returns its phase.
    pub fn phase(&self) -> &RecvPhase {
        &self.phase
    }

    /// Returns the bytes to move.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        match self.phase {
            RecvPhase::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// Returns the response to an event for a receive that has ended and is forgotten.
    ///
    /// Other events that cross the end are dropped.
    pub fn answer_when_gone(event: Event) -> Option<Action> {
        // The sender waits for another mode, and nobody is left to choose it.
        (event == Event::Refused && !mutated(Mutant::MuteGone)).then_some(Action::SendAbort)
    }

    /// Handles an event.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] and changes nothing.
    pub fn on(&mut self, event: Event) -> Result<Actions, Fault> {
        let mut acts = Actions::default();
        self.phase = step(self.phase, self.total, event, &mut acts)?;
        Ok(acts)
    }
}

/// The transition table: a row for each phase and event that may meet.
fn step(phase: RecvPhase, total: u64, event: Event, acts: &mut Actions) -> Result<RecvPhase, Fault> {
    use RecvPhase as P;
    Ok(match (phase, event) {
        // Events that crossed the end.
        (P::Over(_), _) => return Err(Fault::Late),

        (P::Opening(mut e), Event::Registered(ok)) => match e.registered(ok, acts) {
            Exposed::Yes(w) => {
                acts.push(Action::SendCts(Mode::Put, Some(w)));
                P::Putting(e)
            }
            Exposed::Later => P::Opening(e),
            Exposed::Never => null(acts),
        },

        (P::Cleared, Event::Data(len)) if len == total => P::Streaming,
        (P::Cleared, Event::Data(_)) => {
            return Err(Fault::Violation("more or less data than was asked for"));
        }
        (P::Streaming, Event::Moved) => over(Ending::Done, acts),
        (P::Streaming, Event::Abandon) => {
            acts.push(Action::Discard);
            over(Ending::Cancelled, acts)
        }
        // The sender's windows that crossed the choice of Null.
        (P::Cleared, Event::Window(_)) => phase,
        (P::Cleared, Event::Abort) => over(Ending::Aborted, acts),
        // Data that comes for a request that is gone is discarded.
        (P::Cleared, Event::Abandon) => over(Ending::Cancelled, acts),

        (P::Copying(left), Event::Copied(n)) if n <= left => match left - n {
            0 => over(Ending::Done, acts),
            left => P::Copying(left),
        },
        (P::Copying(left), Event::Refused) if left == total => {
            acts.push(Action::LeaveRing);
            if mutated(Mutant::MuteRefused) { P::Cleared } else { null(acts) }
        }
        // The message's bytes are in the ring and must be taken out of it.
        (P::Copying(_), Event::Abandon) => {
            acts.push(Action::Discard);
            over(Ending::Cancelled, acts)
        }
        (P::Copying(_), Event::Lost) => {
            acts.push(Action::LeaveRing);
            over(Ending::Lost, acts)
        }

        (P::Putting(mut e), Event::WindowAck(i)) => {
            e.window_ack(i, acts)?;
            P::Putting(e)
        }
        (P::Putting(mut e), Event::Registered(ok)) => match e.registered(ok, acts) {
            Exposed::Yes(w) => {
                acts.push(Action::SendWindow(w));
                e.expose(acts);
                P::Putting(e)
            }
            Exposed::Later => P::Putting(e),
            Exposed::Never => {
                acts.push(Action::SendAbort);
                over(Ending::Aborted, acts)
            }
        },
        (P::Putting(e), Event::Done) if e.is_through() || mutated(Mutant::EarlyDone) => {
            close(Some(e), Mutant::KeepDone, acts);
            over(Ending::Done, acts)
        }
        (P::Putting(e), Event::Refused) if e.is_untouched() => {
            close(Some(e), Mutant::KeepRefused, acts);
            null(acts)
        }
        (P::Putting(e), Event::Abort) => {
            close(Some(e), Mutant::KeepAborted, acts);
            over(Ending::Aborted, acts)
        }
        (P::Putting(e), Event::Abandon) => {
            close(Some(e), Mutant::KeepAbandoned, acts);
            acts.push(Action::SendAbort);
            over(Ending::Cancelled, acts)
        }

        (P::Getting(mut m), Event::Window(w)) => {
            m.window(w, acts)?;
            P::Getting(m)
        }
        (P::Getting(mut m), Event::Ended(true)) => {
            if m.ended(acts) {
                acts.push(Action::SendDone);
                over(Ending::Done, acts)
            } else {
                P::Getting(m)
            }
        }
        (P::Getting(m), Event::Ended(false)) if m.has_moved_nothing() => null(acts),
        (P::Getting(_), Event::Ended(false)) => {
            if !mutated(Mutant::MuteFailure) {
                acts.push(Action::SendAbort);
            }
            over(Ending::Aborted, acts)
        }
        (P::Getting(m), Event::Abort) => drain(m, Ending::Aborted, acts),
        (P::Getting(m), Event::Lost) => drain(m, Ending::Lost, acts),
        (P::Getting(m), Event::Abandon) => {
            acts.push(Action::SendAbort);
            drain(m, Ending::Cancelled, acts)
        }

        (P::Draining(ending), Event::Ended(_)) => over(ending, acts),
        // Other events no longer matter.
        (P::Draining(_), _) => phase,

        (P::Opening(e) | P::Putting(e), Event::Lost) => {
            close(Some(e), Mutant::KeepLost, acts);
            over(Ending::Lost, acts)
        }
        (P::Opening(mut e), Event::Abandon) => {
            e.close(acts);
            acts.push(Action::SendAbort);
            over(Ending::Cancelled, acts)
        }
        (P::Cleared | P::Streaming, Event::Lost) => over(Ending::Lost, acts),

        (_, Event::Done) => {
            return Err(Fault::Violation("DONE from the sender before all of the message was asked for"));
        }
        (_, Event::Refused) => return Err(Fault::Violation("a mode was refused after data had moved")),
        _ => return Err(Fault::Violation("a large message's packet in a phase where it has no meaning")),
    })
}

/// Requests the data as a message.
fn null(acts: &mut Actions) -> RecvPhase {
    acts.push(Action::SendCts(Mode::Null, None));
    RecvPhase::Cleared
}

fn over(ending: Ending, acts: &mut Actions) -> RecvPhase {
    acts.push(Action::Finish(ending));
    RecvPhase::Over(ending)
}

fn drain(m: Mover, ending: Ending, acts: &mut Actions) -> RecvPhase {
    if m.is_moving() && !mutated(Mutant::NoDrain) { RecvPhase::Draining(ending) } else { over(ending, acts) }
}

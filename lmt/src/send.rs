//! The sender's side of a transfer.

use crate::mode::Mode;
use crate::mutant::{Mutant, mutated};
use crate::table::{Access, Action, Actions, Ending, Event, Fault};
use crate::window::{Exposed, Exposer, Mover};

/// The phase of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendPhase {
    /// Get: its first window is being registered; RTS was not sent.
    Opening(Exposer),
    /// RTS was sent, with Get's first window or without.
    Offered(Option<Exposer>),
    /// Null: the netmod has the data.
    Streaming,
    /// Cooperative: the ring is being mapped.
    Attaching,
    /// Cooperative: so many bytes are still to be copied into the ring.
    Copying(u64),
    /// Put: this side writes.
    Putting(Mover),
    /// Get: the receiver reads.
    Getting(Exposer),
    /// Ended, except for a put in progress.
    Draining(Ending),
    /// Ended.
    Over(Ending),
}

/// The sender of a large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendLmt {
    total: u64,
    phase: SendPhase,
}

impl SendLmt {
    /// Announces a message of `total` bytes.
    ///
    /// With `get` the receiver may read it, in windows of at most so many bytes.
    pub fn start(total: u64, get: Option<u64>) -> (SendLmt, Actions) {
        let mut acts = Actions::default();
        let phase = match get.filter(|_| total > 0) {
            Some(window) => {
                let mut e = Exposer::new(Access::RemoteRead, total, window);
                e.expose(&mut acts);
                SendPhase::Opening(e)
            }
            None => {
                acts.push(Action::SendRts(None));
                SendPhase::Offered(None)
            }
        };
        (SendLmt { total, phase }, acts)
    }

    /// Returns its phase.
    pub fn phase(&self) -> &SendPhase {
        &self.phase
    }

    /// Returns how it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        match self.phase {
            SendPhase::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] and changes nothing.
    pub fn on(&mut self, event: Event) -> Result<Actions, Fault> {
        let mut acts = Actions::default();
        let (phase, total) = step(self.phase, self.total, event, &mut acts)?;
        *self = SendLmt { total, phase };
        Ok(acts)
    }
}

/// The transition table: a row for each phase and event that may meet.
fn step(phase: SendPhase, total: u64, event: Event, acts: &mut Actions) -> Result<(SendPhase, u64), Fault> {
    use SendPhase as P;
    let next = match (phase, event) {
        // Events that crossed the end.
        (P::Over(_), _) => return Err(Fault::Late),

        (P::Opening(mut e), Event::Registered(ok)) => match e.registered(ok, acts) {
            Exposed::Yes(w) => {
                acts.push(Action::SendRts(Some(w)));
                P::Offered(Some(e))
            }
            Exposed::Later => P::Opening(e),
            Exposed::Never => {
                acts.push(Action::SendRts(None));
                P::Offered(None)
            }
        },

        (P::Offered(e), Event::Cts { mode, total: room, first }) => {
            if room > total {
                return Err(Fault::Violation("CTS for more bytes than the message has"));
            }
            close(e, Mutant::KeepOffer, acts);
            return granted(mode, room, first, acts).map(|phase| (phase, room));
        }
        // Get: the receiver has begun.
        (P::Offered(Some(mut e)), Event::WindowAck(i)) => {
            e.window_ack(i, acts)?;
            P::Getting(e)
        }
        (P::Offered(Some(e)), Event::Done) => through(Some(e), acts),
        (P::Offered(e), Event::Withdrawn) => {
            close(e, Mutant::KeepWithdrawn, acts);
            over(Ending::Cancelled, acts)
        }
        // The receiver's windows that crossed the refusal of Put.
        (P::Offered(None), Event::Window(_)) => phase,
        // The receiver aborts.
        (P::Offered(e), Event::Abort) => {
            close(e, Mutant::KeepAborted, acts);
            over(Ending::Aborted, acts)
        }
        // The receiver knows of the message, and may begin at any time.
        (P::Offered(e), Event::Abandon) => {
            close(e, Mutant::KeepAbandoned, acts);
            acts.push(Action::Sever);
            over(Ending::Cancelled, acts)
        }

        (P::Streaming, Event::Moved) => over(Ending::Done, acts),
        (P::Streaming, Event::Abandon) => {
            acts.push(Action::Sever);
            over(Ending::Cancelled, acts)
        }

        (P::Attaching, Event::Attached(true)) => {
            acts.push(Action::Copy(total));
            P::Copying(total)
        }
        (P::Attaching, Event::Attached(false)) => {
            acts.push(Action::SendRefuse);
            P::Offered(None)
        }
        (P::Copying(left), Event::Copied(n)) if n <= left => match left - n {
            0 => over(Ending::Done, acts),
            left => P::Copying(left),
        },
        (P::Copying(_), Event::Abandon) => {
            acts.push(Action::LeaveRing);
            acts.push(Action::Sever);
            over(Ending::Cancelled, acts)
        }
        (P::Copying(_), Event::Lost) => {
            acts.push(Action::LeaveRing);
            over(Ending::Lost, acts)
        }

        (P::Putting(mut m), Event::Window(w)) => {
            m.window(w, acts)?;
            P::Putting(m)
        }
        (P::Putting(mut m), Event::Ended(true)) => {
            if m.ended(acts) {
                acts.push(Action::SendDone);
                over(Ending::Done, acts)
            } else {
                P::Putting(m)
            }
        }
        (P::Putting(mut m), Event::Ended(false)) if m.has_moved_nothing() => {
            m.failed();
            acts.push(Action::SendRefuse);
            P::Offered(None)
        }
        (P::Putting(_), Event::Ended(false)) => {
            if !mutated(Mutant::MuteFailure) {
                acts.push(Action::SendAbort);
            }
            over(Ending::Aborted, acts)
        }
        (P::Putting(m), Event::Abort) => drain(m, Ending::Aborted, acts),
        (P::Putting(m), Event::Lost) => drain(m, Ending::Lost, acts),
        (P::Putting(m), Event::Abandon) => {
            acts.push(Action::SendAbort);
            drain(m, Ending::Cancelled, acts)
        }

        (P::Getting(mut e), Event::WindowAck(i)) => {
            e.window_ack(i, acts)?;
            P::Getting(e)
        }
        (P::Getting(mut e), Event::Registered(ok)) => match e.registered(ok, acts) {
            Exposed::Yes(w) => {
                acts.push(Action::SendWindow(w));
                e.expose(acts);
                P::Getting(e)
            }
            Exposed::Later => P::Getting(e),
            Exposed::Never => {
                acts.push(Action::SendAbort);
                over(Ending::Aborted, acts)
            }
        },
        // The receiver may take less than was offered.
        (P::Getting(e), Event::Done) => through(Some(e), acts),
        // Its first read has failed: it requests the data as a message.
        (P::Getting(e), Event::Cts { mode, total: room, first }) if e.is_untouched() && room <= total => {
            close(Some(e), Mutant::KeepOffer, acts);
            return granted(mode, room, first, acts).map(|phase| (phase, room));
        }
        (P::Getting(e), Event::Abort) => {
            close(Some(e), Mutant::KeepAborted, acts);
            over(Ending::Aborted, acts)
        }
        (P::Getting(e), Event::Abandon) => {
            close(Some(e), Mutant::KeepAbandoned, acts);
            acts.push(Action::SendAbort);
            over(Ending::Cancelled, acts)
        }

        (P::Draining(ending), Event::Ended(_)) => over(ending, acts),
        // Other events no longer matter.
        (P::Draining(_), _) => phase,

        (P::Opening(e) | P::Offered(Some(e)) | P::Getting(e), Event::Lost) => {
            close(Some(e), Mutant::KeepLost, acts);
            over(Ending::Lost, acts)
        }
        (P::Opening(mut e), Event::Abandon) => {
            e.close(acts);
            over(Ending::Cancelled, acts)
        }
        (P::Offered(None) | P::Streaming | P::Attaching, Event::Lost) => over(Ending::Lost, acts),

        (_, Event::Cts { .. }) => return Err(Fault::Violation("CTS for a message that was granted already")),
        (_, Event::Done) => {
            return Err(Fault::Violation("DONE from the receiver of a message that it does not read"));
        }
        (_, Event::Withdrawn) => {
            return Err(Fault::Violation("a message was taken back after it was granted"));
        }
        _ => return Err(Fault::Violation("a large message's packet in a phase where it has no meaning")),
    };
    Ok((next, total))
}

/// Handles CTS: the receiver has chosen.
fn granted(
    mode: Mode,
    total: u64,
    first: Option<crate::Window>,
    acts: &mut Actions,
) -> Result<SendPhase, Fault> {
    Ok(match (mode, first) {
        (Mode::Null, None) => {
            acts.push(Action::SendData(total));
            SendPhase::Streaming
        }
        (Mode::Coop, None) if total > 0 => {
            acts.push(Action::Attach);
            SendPhase::Attaching
        }
        (Mode::Put, Some(first)) if total > 0 => SendPhase::Putting(Mover::start(total, first, true, acts)?),
        _ => return Err(Fault::Violation("CTS for a mode that it does not go with")),
    })
}

fn over(ending: Ending, acts: &mut Actions) -> SendPhase {
    acts.push(Action::Finish(ending));
    SendPhase::Over(ending)
}

fn through(e: Option<Exposer>, acts: &mut Actions) -> SendPhase {
    close(e, Mutant::KeepDone, acts);
    over(Ending::Done, acts)
}

/// Ends the registrations, except with the mutant.
pub(crate) fn close(e: Option<Exposer>, unless: Mutant, acts: &mut Actions) {
    if let Some(mut e) = e
        && !mutated(unless)
    {
        e.close(acts);
    }
}

fn drain(m: Mover, ending: Ending, acts: &mut Actions) -> SendPhase {
    if m.is_moving() && !mutated(Mutant::NoDrain) { SendPhase::Draining(ending) } else { over(ending, acts) }
}

//! The next steps of a world: messages come, time passes, programs send, and things break.

use super::model::{Fail, Model, Stop, World, send};
use super::size::Network;
use super::wire::{End, Msg};
use crate::establish::{Event, Phase};

type Step = Result<World, Stop>;

impl Model {
    /// All steps from a world; and true if something has to happen yet.
    pub(super) fn next(&self, w: &World) -> (Vec<Step>, bool) {
        let mut steps = vec![];
        for x in 0..2 {
            for c in 0..w.conns.len() {
                if !w.conns[c].to[x].is_empty() {
                    steps.push(step(w, |w| self.deliver(w, x, c as u8)));
                }
            }
            self.program(w, x, &mut steps);
        }
        for x in 0..2 {
            let m = &w.sides[x].machine;
            let due = m.phase == Phase::Backoff && m.deadline().is_some();
            if due && (!self.size.long_pauses || steps.is_empty()) {
                steps.push(step(w, |w| self.time_out(w, x)));
            }
        }
        let frames = self.size.network == Network::Frames;
        let waits = |x: usize| matches!(w.sides[x].machine.phase, Phase::Dialing | Phase::Promised);
        for x in (0..2).filter(|x| waits(*x)) {
            if frames && (w.is_silent() || w.repeats > 0) {
                steps.push(step(w, |w| {
                    w.repeats -= u8::from(!w.is_silent());
                    self.on(w, x, Event::Timer)
                }));
            }
        }
        // A message without an answer times out.
        let last = w.faulty && w.is_silent() && (!frames || w.crashed);
        for x in (0..2).filter(|x| waits(*x) && last) {
            steps.push(step(w, |w| self.time_out(w, x)));
        }
        let late = |x: usize| w.sides[x].parting || w.sides[x].waiting.is_some();
        for x in (0..2).filter(|x| late(*x) && w.crashed && w.is_silent()) {
            // The word of a process that is dead does not come.
            steps.push(step(w, |w| {
                let c = w.sides[x].machine.conn.unwrap_or(0);
                self.close(w, x, c)?;
                self.ended(w, x)
            }));
        }
        let must = !steps.is_empty();
        for x in (0..2).filter(|x| waits(*x) && w.faults > 0 && !last) {
            steps.push(step(w, |w| {
                w.faults -= 1;
                w.faulty = true;
                self.time_out(w, x)
            }));
        }
        self.fate(w, &mut steps);
        (steps, must)
    }

    /// Adds what the program above a side does.
    fn program(&self, w: &World, x: usize, steps: &mut Vec<Step>) {
        let s = &w.sides[x];
        if s.wishes > 0 {
            steps.push(step(w, |w| self.wish(w, x)));
        }
        if s.cancels > 0 && s.queued > 0 {
            steps.push(step(w, |w| {
                w.sides[x].cancels -= 1;
                w.sides[x].queued = 0;
                self.on(w, x, Event::Cancel)
            }));
        }
        if let (true, Phase::Made, Some(c)) = (s.ends > 0 && !s.parting, s.machine.phase, s.machine.conn) {
            steps.push(step(w, |w| {
                w.sides[x].ends -= 1;
                w.sides[x].parting = true;
                send(w, x, c, Msg::Ended)
            }));
        }
        if s.aborts > 0 && matches!(s.machine.phase, Phase::Dialing | Phase::Promised | Phase::Backoff) {
            steps.push(step(w, |w| {
                w.sides[x].aborts -= 1;
                w.sides[x].queued = 0;
                self.on(w, x, Event::Abort)
            }));
        }
        if s.asleep {
            steps.push(step(w, |w| {
                w.sides[x].asleep = false;
                self.on(w, x, Event::Wake)
            }));
        } else if s.sleeps > 0 {
            steps.push(step(w, |w| {
                let s = &mut w.sides[x];
                s.sleeps -= 1;
                s.asleep = true;
                let waits = s.machine.phase == Phase::Backoff;
                if waits { self.on(w, x, Event::Wait) } else { Ok(()) }
            }));
        }
    }

    /// Adds faults.
    fn fate(&self, w: &World, steps: &mut Vec<Step>) {
        for x in 0..2 {
            for c in 0..w.conns.len() {
                if w.drops > 0 && w.conns[c].to[x].front().is_some_and(|m| m.may_be_lost()) {
                    steps.push(step(w, |w| {
                        w.drops -= 1;
                        w.conns[c].to[x].pop_front();
                        Ok(())
                    }));
                }
            }
            if w.sides[x].restarts > 0 {
                for lost in [false, true] {
                    steps.push(step(w, |w| self.restart(w, x, lost)));
                }
            }
        }
        for c in (0..w.conns.len()).filter(|_| w.faults > 0) {
            self.breaks(w, c, steps);
        }
    }

    /// A stream breaks: what is on its way is lost or not.
    fn breaks(&self, w: &World, c: usize, steps: &mut Vec<Step>) {
        let conn = &w.conns[c];
        if self.size.network == Network::Frames || conn.broken || conn.ends == [End::Closed; 2] {
            return;
        }
        for lost in [[false, false], [true, false], [false, true], [true, true]] {
            steps.push(step(w, |w| {
                w.faults -= 1;
                w.faulty = true;
                let conn = &mut w.conns[c];
                conn.broken = true;
                for (to, lost) in conn.to.iter_mut().zip(lost) {
                    if lost {
                        to.clear();
                    }
                    to.push_back(Msg::Reset);
                }
                Ok(())
            }));
        }
        let x = conn.dialer;
        if conn.ends[1 - x] == End::Unknown && conn.ends[x] == End::Open {
            // The peer's host is silent.
            steps.push(step(w, |w| {
                w.faults -= 1;
                w.faulty = true;
                let conn = &mut w.conns[c];
                (conn.broken, conn.to, conn.ends[1 - x]) = (true, Default::default(), End::Closed);
                Ok(())
            }));
            // Refused at once: nothing of it reaches the peer.
            steps.push(step(w, |w| {
                w.faults -= 1;
                w.faulty = true;
                let conn = &mut w.conns[c];
                (conn.broken, conn.to, conn.ends) = (true, Default::default(), [End::Closed; 2]);
                let failure = Fail::Lost;
                self.on(w, x, Event::Failed { conn: Some(c as u8), failure, permanent: false })
            }));
        }
    }
}

fn step(w: &World, f: impl FnOnce(&mut World) -> Result<(), Stop>) -> Step {
    let mut next = w.clone();
    f(&mut next)?;
    Ok(next)
}

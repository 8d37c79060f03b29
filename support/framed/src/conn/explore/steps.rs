//! The possible next steps of a world: frames arrive, time passes, programs act, faults strike.

use netmod_core::{Time, VcError, VcErrorKind};

use super::frame::Frame;
use super::model::{Model, Stop, World};
use super::size::Timeouts;
use crate::conn::link::Phase;
use crate::conn::machine::Machine;

impl Model {
    /// Returns the possible next worlds, and true if the world must go on.
    pub(super) fn next(&self, w: &World) -> (Vec<Result<World, Stop>>, bool) {
        let mut steps = vec![];
        let mut must = false;
        for x in 0..2 {
            for d in 0..2 {
                if !w.wires[x][d].is_empty() {
                    must = true;
                    steps.push(self.step(w, |w| self.deliver(w, x, d)));
                }
            }
            let side = &w.sides[x];
            let long = match side.phase() {
                Phase::Backoff => self.size.long_pauses,
                _ => self.size.timeouts == Timeouts::Long,
            };
            if self.is_due(w, x) && (!long || w.is_empty()) {
                must = true;
                steps.push(self.step(w, |w| {
                    w.faulty |= self.size.timeouts == Timeouts::Any;
                    self.time_out(w, x)
                }));
            }
            let waits = matches!(side.phase(), Phase::Dialing | Phase::Promised);
            if waits && self.size.drops > 0 && (w.is_empty() || w.repeats > 0) {
                must |= w.is_empty();
                steps.push(self.step(w, |w| {
                    w.repeats -= u8::from(!w.is_empty());
                    self.call(w, x, "repeat", |m, _, env| m.timer(env))
                }));
            }
            if (side.asked || side.wishes > 0) && side.vc.is_none() {
                must = true;
                steps.push(self.step(w, |w| self.add(w, x)));
            }
            self.wishes(w, x, &mut steps, &mut must);
        }
        for (x, d) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            if w.drops > 0 && w.wires[x][d].front().is_some_and(Frame::may_be_lost) {
                steps.push(self.step(w, |w| {
                    w.drops -= 1;
                    w.wires[x][d].pop_front();
                    Ok(())
                }));
            }
        }
        if w.losses > 0 && !w.is_empty() {
            steps.push(self.step(w, |w| {
                w.losses -= 1;
                w.faulty = true;
                w.wires = Default::default();
                Ok(())
            }));
        }
        (steps, must)
    }

    /// Returns true if something a side waits for may be late.
    fn is_due(&self, w: &World, x: usize) -> bool {
        let Some(l) = w.sides[x].link() else { return w.sides[x].has_inbound() };
        let ends = self.size.timeouts != Timeouts::Never;
        let gives_up = self.size.impatient && l.establish.is_wanted();
        let making = match l.phase() {
            Phase::Dialing => ends || gives_up,
            Phase::Promised => ends && self.size.drops == 0 || gives_up,
            Phase::Backoff => true,
            _ => false,
        };
        making || l.timer != Time::NEVER || w.sides[x].has_inbound()
    }

    /// Adds the actions of a side's program and its faults. Planned messages and terminations must
    /// happen.
    fn wishes(&self, w: &World, x: usize, steps: &mut Vec<Result<World, Stop>>, must: &mut bool) {
        let side = &w.sides[x];
        let failed = side.phase() == Phase::Failed;
        if side.wishes > 0 && side.vc.is_some() && !failed {
            *must = true;
            steps.push(self.step(w, |w| self.wish(w, x)));
        }
        if side.terminates > 0 && side.vc.is_some() && !side.terminating && side.queued == 0 {
            *must = true;
            steps.push(self.step(w, |w| {
                w.sides[x].terminates -= 1;
                w.sides[x].terminating = true;
                self.call(w, x, "terminate", |m, vc, env| m.terminate(vc, env))
            }));
        }
        if side.aborts > 0 && side.vc.is_some() && !failed {
            steps.push(self.step(w, |w| {
                w.sides[x].aborts -= 1;
                w.faulty = true;
                let error = VcError::new(VcErrorKind::Aborted, None, "");
                self.call(w, x, "abort", |m, vc, env| m.abort(vc, error, env))
            }));
        }
        if failed && side.revivals > 0 {
            *must = true;
            steps.push(self.step(w, |w| {
                w.sides[x].revivals -= 1;
                self.call(w, x, "revive", |m, vc, _| m.revive(vc))
            }));
        }
        if side.removals > 0 && side.vc.is_some() {
            steps.push(self.step(w, |w| {
                let s = &mut w.sides[x];
                s.removals -= 1;
                (s.queued, s.terminating) = (0, false);
                w.faulty = true;
                self.call(w, x, "", |m, vc, env| m.remove(vc, env))?;
                w.sides[x].vc = None;
                Ok(())
            }));
        }
        if side.restarts > 0 {
            for lost in [false, true] {
                steps.push(self.step(w, |w| self.restart(w, x, lost)));
            }
        }
    }

    /// A process dies, and another one takes its name.
    fn restart(&self, w: &mut World, x: usize, lost: bool) -> Result<(), Stop> {
        w.faulty = true;
        let s = &mut w.sides[x];
        s.restarts -= 1;
        s.incarnation += 1;
        s.machine = Machine::new(self.params());
        (s.queued, s.sent, s.terminating, s.asked) = (0, 0, false, false);
        if !self.size.same_address {
            w.wires[x] = Default::default();
        }
        if lost {
            w.wires[1 - x] = Default::default();
        }
        self.add(w, x)
    }

    fn step(&self, w: &World, f: impl FnOnce(&mut World) -> Result<(), Stop>) -> Result<World, Stop> {
        let mut next = w.clone();
        f(&mut next)?;
        Ok(next)
    }
}

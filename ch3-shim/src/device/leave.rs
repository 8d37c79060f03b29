//! Leaving: one peer by agreement, or the whole job. Each is a state machine that a poll moves on;
//! the blocking forms drive it.

use std::time::Duration;

use netmod_core::{Arm, Finalize, Module, PollOrder, Time, VcId};

use super::Vci;
use crate::bootstrap::BootstrapError;
use crate::ch3::{Failure, WORLD};
use crate::error::{Error, Result};
use crate::sys;
use crate::tagmatch::{ANY_TAG, Pattern};
use crate::tell::warn;

/// A [`Vci::disconnect_begin`] under way.
#[derive(Clone, Copy, Debug)]
#[must_use = "poll it, or nobody learns whether the peer has closed"]
pub struct Disconnecting {
    rank: u32,
    /// `None` if there never was a connection.
    vc: Option<VcId>,
    /// Closes that had ended before. A peer that is quick has made the VC active again before this
    /// side looks, so that it is not enough to look for a VC at rest.
    before: Option<u8>,
    deadline: Time,
}

impl Disconnecting {
    /// The rank whose connection is being closed.
    pub fn rank(&self) -> u32 {
        self.rank
    }
}

/// The stage of finalize.
#[derive(Debug, Default)]
pub(super) enum Leaving {
    /// Not begun.
    #[default]
    No,
    /// In the process manager's barrier; from the first failure of a process on, for a limited
    /// time.
    Barrier { limit: Option<Time> },
    /// The close protocol is under way on these VCs.
    Closing { vcs: Vec<VcId>, deadline: Time },
    /// The netmods let go of everything.
    Parting { limit: Time },
    /// The process manager is to answer that it knows; nothing else is left.
    Goodbye(Goodbye),
    /// Nothing is left.
    Done,
}

/// The way out of the job.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// Stage of finalize.
    pub(super) stage: Leaving,
    /// The last step moved something, so that the next one is due at once.
    pub(super) goes_on: bool,
    /// First error on the way out.
    error: Option<Error>,
}

/// The wait for the process manager's answer, when the netmods have let go of everything.
#[derive(Debug)]
pub(super) struct Goodbye {
    since: Time,
    /// The user knows that this takes long.
    told: bool,
    /// The answer, or why none will come.
    answer: Option<std::result::Result<(), BootstrapError>>,
}

/// Time without an answer of the process manager after which the user is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time limit of that answer: a launcher may be stopped with its job and go on later.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Between two questions of a process manager without a descriptor.
const BLIND_PAUSE: Duration = Duration::from_millis(1);

/// The result of one step of finalize.
pub(super) enum Step {
    /// It is over.
    Done,
    /// Something moved.
    Busy,
    /// Nothing did; waiting any longer than this is of no use.
    Idle(Time),
}

impl Vci {
    fn closes(&self, vc: VcId) -> Option<u8> {
        self.ch3.vcs.get(vc).map(|s| s.closes)
    }

    pub(super) fn at_rest(&self, vc: VcId) -> bool {
        self.engine.core.vc(vc).is_none_or(|v| v.state.is_at_rest())
    }

    fn closed(&self, d: &Disconnecting) -> bool {
        d.vc.is_none_or(|vc| self.at_rest(vc) || self.closes(vc) != d.before)
    }

    /// Begins to close the connection to a rank by agreement, see [`Vci::disconnect`]; continued by
    /// [`Vci::disconnect_poll`].
    pub fn disconnect_begin(&mut self, rank: u32) -> Disconnecting {
        let vc = self.ch3.groups.world.vcs.get(rank);
        let deadline = self.deadline_in(self.cfg.close_timeout);
        let d = Disconnecting { rank, vc, before: vc.and_then(|vc| self.closes(vc)), deadline };
        if let Some(vc) = vc.filter(|_| self.origin.is_here()) {
            let now = self.now;
            self.ch3.vc_close(&mut self.engine.io(now), vc);
        }
        d
    }

    /// One step of progress; whether the connection is closed.
    ///
    /// # Errors
    /// If the peer has not closed within `NETMOD_CLOSE_TIMEOUT`, or is lost; of a netmod.
    pub fn disconnect_poll(&mut self, d: &Disconnecting) -> Result<bool> {
        self.check_origin()?;
        if !self.closed(d) {
            self.tick();
            self.poll(PollOrder::OutFirst)?;
        }
        self.disconnected(d)
    }

    fn disconnected(&self, d: &Disconnecting) -> Result<bool> {
        let closed = self.closed(d);
        if let Some(cause) = self.ch3.source_lost(&Pattern::new(self.world().context, d.rank as i32, ANY_TAG))
        {
            return Err(cause.into());
        }
        if closed || self.now < d.deadline {
            return Ok(closed);
        }
        Err(Error::Timeout(format!(
            "rank {} did not close its side within {:?} (NETMOD_CLOSE_TIMEOUT); does it call disconnect or finalize?",
            d.rank, self.cfg.close_timeout
        )))
    }

    /// Closes the connection to a rank by agreement: it must call this too, at about the same time.
    /// Afterwards the VC is as if it had never been used, and may be used again.
    ///
    /// # Errors
    /// If the peer does not close within `NETMOD_CLOSE_TIMEOUT`, or is lost meanwhile.
    pub fn disconnect(&mut self, rank: u32) -> Result<()> {
        let d = self.disconnect_begin(rank);
        self.wait_until(d.deadline, |dev| dev.closed(&d))?;
        self.disconnected(&d).map(|_| ())
    }

    /// Finalize, in its blocking form.
    pub(super) fn finalize_in_place(&mut self) -> Result<()> {
        self.finalize_begin();
        let mut idle = 0;
        loop {
            match self.leave_step()? {
                Step::Done => return Ok(()),
                Step::Busy => idle = self.idle_after(idle, true),
                Step::Idle(until) => {
                    idle = self.idle_after(idle, false);
                    // A close is answered at once as a rule; all other steps take their time.
                    if matches!(self.departure.stage, Leaving::Goodbye(_)) {
                        self.await_goodbye()?;
                    } else if !matches!(self.departure.stage, Leaving::Closing { .. }) {
                        self.block(until)?;
                    } else if idle >= self.waiting.spin {
                        self.give_way(idle - self.waiting.spin, until)?;
                    }
                }
            }
        }
    }

    /// Begins to leave the job, see [`Vci::finalize`](super::Device::finalize); continued by
    /// [`Vci::finalize_poll`]. A second call does nothing.
    pub fn finalize_begin(&mut self) {
        if !matches!(self.departure.stage, Leaving::No) || !self.origin.is_here() {
            return;
        }
        self.free_dropped();
        self.flush();
        self.departure.stage = Leaving::Barrier { limit: None };
        if let Err(e) = self.ch3.boot.barrier_begin() {
            self.part(Some(e.into()));
        }
    }

    /// One step of leaving the job; whether it is over. After an error it is over, too.
    ///
    /// # Errors
    /// As [`Vci::finalize`](super::Device::finalize), reported when everything local has been
    /// released.
    pub fn finalize_poll(&mut self) -> Result<bool> {
        self.departure.goes_on = false;
        let step = self.leave_step()?;
        self.departure.goes_on = matches!(step, Step::Busy);
        Ok(matches!(step, Step::Done))
    }

    pub(super) fn leave_step(&mut self) -> Result<Step> {
        self.check_origin()?;
        self.tick();
        match &self.departure.stage {
            Leaving::No => Err(Error::Usage("finalize_poll was called before finalize_begin".into())),
            Leaving::Done => Ok(Step::Done),
            Leaving::Barrier { limit } => {
                let limit = *limit;
                Ok(self.barrier_step(limit))
            }
            Leaving::Closing { .. } => Ok(self.closing_step()),
            Leaving::Parting { limit } => {
                let limit = *limit;
                self.parting_step(limit)
            }
            Leaving::Goodbye(_) => self.goodbye_step(),
        }
    }

    /// Goes on to the last stage. Whatever went wrong, the netmods let go of everything.
    fn part(&mut self, failed: Option<Error>) {
        let limit = self.deadline_in(self.cfg.close_timeout);
        self.departure.stage = Leaving::Parting { limit };
        self.departure.error = self.departure.error.take().or(failed);
    }

    /// A step of progress on the way out; a netmod that fails as a whole ends the stage.
    fn progress_or_part(&mut self, order: PollOrder, until: Time) -> Step {
        match self.poll(order) {
            Ok(true) => Step::Busy,
            Ok(false) => Step::Idle(until),
            Err(e) => {
                self.part(Some(e.into()));
                Step::Busy
            }
        }
    }

    /// A failed rank never enters the barrier. There are process managers that do without it, and
    /// others.
    fn barrier_limit(&mut self, known: Option<Time>) -> Time {
        match known {
            Some(limit) => limit,
            None if self.ch3.failures.is_empty() => Time::NEVER,
            None => {
                let limit = self.deadline_in(self.cfg.close_timeout);
                self.departure.stage = Leaving::Barrier { limit: Some(limit) };
                limit
            }
        }
    }

    fn barrier_step(&mut self, limit: Option<Time>) -> Step {
        let limit = self.barrier_limit(limit);
        match self.ch3.boot.barrier_poll() {
            Ok(false) if self.now >= limit => {
                let failed: Vec<String> = self.ch3.failures.iter().map(|f| f.cause.to_string()).collect();
                let text = format!(
                    "finalize: the process manager's barrier was not over {:?} (NETMOD_CLOSE_TIMEOUT) after a \
                     process had failed; does the launcher let jobs go on then (nmrun --no-kill)? Failed: {}",
                    self.cfg.close_timeout,
                    failed.join("; ")
                );
                self.departure.error.get_or_insert(Error::Timeout(text));
            }
            Ok(false) => return self.progress_or_part(PollOrder::InFirst, limit),
            Ok(true) => {}
            Err(e) => {
                self.part(Some(e.into()));
                return Step::Busy;
            }
        }
        self.ask_for_failures();
        self.ch3.closing.finalizing = true;
        let now = self.now;
        self.ch3.close_ports(&mut self.engine.io(now));
        let world = &self.ch3.groups.world;
        // Each process starts with its successor, so that not all close the same peer at once.
        let (before, behind): (Vec<_>, Vec<_>) = world.vcs.iter().partition(|(rank, _)| *rank < world.me);
        // Other jobs that were not disconnected.
        let met = self.ch3.groups.iter().filter(|(n, _)| *n != WORLD);
        let met = met.flat_map(|(_, g)| g.vcs.iter().map(|(_, vc)| vc));
        let vcs = behind.into_iter().chain(before).map(|(_, vc)| vc).chain(met);
        let vcs: Vec<VcId> =
            vcs.filter(|vc| !self.ch3.has_nothing_to_close(&self.engine.core, *vc)).collect();
        for vc in &vcs {
            self.ch3.vc_close(&mut self.engine.io(now), *vc);
        }
        self.flush();
        let deadline = self.deadline_in(self.cfg.close_timeout);
        self.departure.stage = Leaving::Closing { vcs, deadline };
        Step::Busy
    }

    fn closing_step(&mut self) -> Step {
        let Leaving::Closing { vcs, deadline } = &mut self.departure.stage else { return Step::Busy };
        let (deadline, all) = (*deadline, vcs.len());
        let mut vcs = std::mem::take(vcs);
        // Nothing is sent any more, and no new peer is taken in; but one that was known may have
        // had something to say.
        for vc in std::mem::take(&mut self.ch3.closing.connected_late) {
            let now = self.now;
            self.ch3.vc_close(&mut self.engine.io(now), vc);
            vcs.push(vc);
        }
        vcs.retain(|vc| !self.at_rest(*vc));
        if vcs.is_empty() {
            debug_assert_eq!(self.ch3.closing.ops, 0);
            self.part(None);
            return Step::Busy;
        }
        if self.now >= deadline {
            let open = vcs.iter().filter_map(|vc| self.engine.core.vc(*vc));
            let open: Vec<String> = open.map(|v| format!("rank {} ({})", v.peer.rank, v.state)).collect();
            let text = format!(
                "finalize: {} connections were not closed by their peers within {:?} (NETMOD_CLOSE_TIMEOUT): {}",
                open.len(),
                self.cfg.close_timeout,
                open.join(", ")
            );
            self.part(Some(Error::Timeout(text)));
            return Step::Busy;
        }
        let shrunk = vcs.len() < all;
        self.departure.stage = Leaving::Closing { vcs, deadline };
        match self.progress_or_part(PollOrder::OutFirst, deadline) {
            Step::Idle(_) if shrunk => Step::Busy,
            step => step,
        }
    }

    fn finalize_netmods(&mut self) -> Finalize {
        let engine = &mut *self.engine;
        engine.netmod.finalize(&mut engine.core, self.now)
    }

    /// The netmods are gone: the VCs, too.
    fn gone(&mut self, next: Leaving) {
        self.departure.stage = next;
        let now = self.now;
        self.ch3.destroy_vcs(&mut self.engine.io(now));
    }

    fn parting_step(&mut self, limit: Time) -> Result<Step> {
        let mut pending = self.finalize_netmods() == Finalize::Pending;
        let mut busy = false;
        if pending && self.now < limit {
            busy = self.poll(PollOrder::OutFirst).inspect_err(|_| self.gone(Leaving::Done))?;
            pending = self.finalize_netmods() == Finalize::Pending;
        }
        if pending && self.now < limit {
            return Ok(if busy { Step::Busy } else { Step::Idle(limit) });
        }
        self.gone(Leaving::Goodbye(Goodbye { since: self.now, told: false, answer: None }));
        self.goodbye_step()
    }

    /// Asks the process manager for its answer, without waiting.
    fn ask_goodbye(&mut self) {
        if let Leaving::Goodbye(goodbye) = &mut self.departure.stage
            && goodbye.answer.is_none()
        {
            goodbye.answer = match self.ch3.boot.finalize_poll() {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(why) => Some(Err(why)),
            };
        }
    }

    /// Arms as [`Vci::arm`] does, when only the process manager's answer is left to wait for.
    pub(super) fn arm_for_goodbye(&mut self) -> Option<Arm> {
        self.ask_goodbye();
        match &self.departure.stage {
            Leaving::Goodbye(goodbye) if goodbye.answer.is_some() => Some(Arm::Busy),
            Leaving::Goodbye(_) => Some(Arm::Armed),
            _ => None,
        }
    }

    /// Returns the time at which the last stage goes on without an answer; `None` in other stages.
    pub(super) fn goodbye_deadline(&self) -> Option<Time> {
        let Leaving::Goodbye(goodbye) = &self.departure.stage else { return None };
        let next = goodbye.since + if goodbye.told { ANSWER_LIMIT } else { PATIENCE };
        let blind = self.ch3.boot.fd().is_none().then(|| self.now + BLIND_PAUSE);
        Some(blind.map_or(next, |blind| blind.min(next)))
    }

    /// Sleeps until the process manager may have answered.
    fn await_goodbye(&mut self) -> Result<()> {
        let until = self.goodbye_deadline().unwrap_or(self.now);
        let fds: Vec<_> = self.descriptors().collect();
        sys::wait_readable(&fds, until.since(self.now)).map_err(|e| Error::Launcher(format!("poll: {e}")))?;
        if self.served.server.is_some() {
            self.serve_status(true);
        }
        Ok(())
    }

    /// The process manager's answer is what ends finalize.
    fn goodbye_step(&mut self) -> Result<Step> {
        self.ask_goodbye();
        let now = self.now;
        let Leaving::Goodbye(goodbye) = &mut self.departure.stage else { return Ok(Step::Busy) };
        let parted = match goodbye.answer.take() {
            Some(answer) => answer.map_err(Error::from),
            None if now < goodbye.since + ANSWER_LIMIT => {
                if !goodbye.told && now >= goodbye.since + PATIENCE {
                    goodbye.told = true;
                    warn(&format_args!(
                        "finalize: the launcher has not answered for {PATIENCE:?} that this process is done, which \
                         waits for it. Is it stopped, or busy? All messages have arrived"
                    ));
                }
                return Ok(Step::Idle(self.goodbye_deadline().unwrap_or(now)));
            }
            None => Err(Error::Timeout(format!(
                "finalize: the launcher did not answer within {ANSWER_LIMIT:?} that this process is done; is it \
                 stopped? All messages have arrived"
            ))),
        };
        self.departure.stage = Leaving::Done;
        let unseen: Vec<Failure> = self.ch3.failures.iter().filter(|f| !f.acknowledged).cloned().collect();
        let failed = if unseen.is_empty() { Ok(()) } else { Err(Error::ProcessesFailed(unseen)) };
        self.departure.error.take().map_or(Ok(()), Err).and(parted).and(failed).map(|()| Step::Done)
    }
}

#[cfg(test)]
#[path = "leave_tests.rs"]
pub(super) mod tests;

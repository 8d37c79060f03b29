//! An engine that several threads use: what they wait for, and where the one that makes progress
//! blocks.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use forks::Origin;
use netmod_core::{Arm, CompletionTable, PollOrder, Time};

use super::progress_lock::{ProgressLock, Sleeper, Work};
use super::pushes::Push;
use super::{Nap, Pusher, Shared};
use crate::device::probe::Seen;
use crate::device::{RawReq, Vci};
use crate::error::{Error, Result};
use crate::progress::Staging;
use crate::sys::{EventFd, wait_readable};

/// Longest time blocked at once.
pub(super) const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Longest time blocked at once on one of several engines: what other threads begin on the others
/// undoes their arming. So rarely that it costs an idle process nothing to speak of.
const SIBLING_NAP: Duration = Duration::from_millis(10);
/// The longest nap of a thread that no other thread can wake.
const UNWOKEN_NAP: Duration = Duration::from_millis(1);

/// The goal of a waiting thread.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// A request is finished, or a failure keeps it from finishing.
    Done(RawReq),
    /// One of them is.
    Any(Arc<[RawReq]>),
    /// A probe that has found nothing may find something now.
    News(Seen),
}

impl Work for Vci {
    type Goal = Goal;
    type Error = Error;

    #[inline]
    fn met(&self, goal: &Goal) -> bool {
        match goal {
            Goal::Done(req) => self.is_settled(*req),
            Goal::Any(reqs) => self.first_settled(reqs.iter().copied()).is_some(),
            Goal::News(seen) => self.has_news(seen),
        }
    }

    #[inline]
    fn poll(&mut self) -> Result<bool> {
        Ok(self.poll_to_wait(PollOrder::InFirst)?)
    }

    fn may_yield(&mut self, n: u32) -> bool {
        Vci::may_yield(self, n)
    }

    fn yields_brought(&mut self, n: u32) {
        self.waiting.yields.brought(n);
    }

    fn arm(&mut self) -> Option<Nap> {
        if Vci::arm(self) == Arm::Busy {
            return None;
        }
        let until = self.deadline().unwrap_or(Time::NEVER);
        Some(Nap { until, length: until.since(self.now).min(LONGEST_NAP) })
    }

    #[inline]
    fn is_staged(&self) -> bool {
        self.engine.is_staged()
    }
}

/// The descriptors of an engine, and one by which other threads wake the one that waits on them.
pub(super) struct Descriptors {
    fds: Vec<RawFd>,
    /// `None` if the system had no descriptor for it: then the wait is short.
    event: Option<EventFd>,
    pusher: Arc<Pusher>,
    /// The device, if it has further engines, and which of them is this.
    siblings: OnceLock<(Weak<Shared>, usize)>,
}

impl Descriptors {
    /// One step of progress on the engines that no thread is using: a peer may wait for one of them
    /// before it does what this thread waits for. Their descriptors are added to `fds`. Whether
    /// anything happened, or `None` if there are no others.
    fn help_siblings(&self, fds: &mut Vec<RawFd>) -> Result<Option<bool>> {
        let Some((shared, this)) = self.siblings.get() else { return Ok(None) };
        let Some(shared) = shared.upgrade() else { return Ok(None) };
        let mut any = false;
        for (_, e) in shared.engines.iter().enumerate().filter(|(i, _)| i != this) {
            let helped: Option<Result<()>> = e.lock.try_with(|v| {
                any |= v.progress()? || v.arm() == Arm::Busy;
                fds.extend(v.descriptors());
                Ok(())
            });
            helped.unwrap_or(Ok(()))?;
        }
        Ok(Some(any))
    }
}

impl Sleeper for Descriptors {
    type Error = Error;

    fn sleep(&self, nap: &Nap) -> Result<()> {
        let mut all = Vec::new();
        let (fds, length) = match self.help_siblings(&mut all)? {
            None => (&self.fds, nap.length),
            Some(true) => return Ok(()),
            Some(false) => {
                all.extend(&self.fds);
                (&all, nap.length.min(SIBLING_NAP))
            }
        };
        let length = if self.event.is_some() { length } else { length.min(UNWOKEN_NAP) };
        wait_readable(fds, length).map(drop).map_err(|e| Error::Launcher(format!("poll: {e}")))
    }

    fn wake(&self) {
        if let Some(event) = &self.event {
            event.signal();
        }
    }

    fn calm(&self) {
        if let Some(event) = &self.event {
            let _ = event.drain();
        }
    }

    #[inline]
    fn offer(&self) {
        self.pusher.offer();
    }
}

/// An engine of a [`super::Multiple`] device.
pub(super) struct Engine {
    pub(super) lock: ProgressLock<Vci, Descriptors>,
    completions: Arc<CompletionTable>,
    spin: u32,
    origin: Origin,
}

impl Push for Engine {
    fn push(&self) -> Option<bool> {
        self.lock.try_with(|v| v.engine.is_staged() && v.engine.push())
    }
}

impl Engine {
    pub(super) fn new(vci: Vci, pusher: &Arc<Pusher>) -> Engine {
        let event = EventFd::new();
        if let Err(e) = &event {
            tracing::warn!(%e, "no descriptor to wake threads by, which makes waits slower; raise the limit with ulimit -n");
        }
        Engine::waking_by(vci, event.ok(), pusher)
    }

    /// Makes an engine with an event that wakes the thread that waits on its descriptors.
    fn waking_by(mut vci: Vci, event: Option<EventFd>, pusher: &Arc<Pusher>) -> Engine {
        let completions = Arc::new(CompletionTable::new());
        vci.engine.core.keep_completions(Arc::clone(&completions));
        vci.engine.keep_alone();
        let mut fds: Vec<RawFd> = vci.descriptors().collect();
        fds.extend(event.as_ref().map(AsRawFd::as_raw_fd));
        let spin = vci.waiting.spin;
        let sleeper = Descriptors { fds, event, pusher: Arc::clone(pusher), siblings: OnceLock::new() };
        Engine { lock: ProgressLock::new(vci, sleeper), completions, spin, origin: Origin::here() }
    }

    /// Makes the device's other engines known, of which this is number `this`.
    pub(super) fn meet(&self, shared: &Arc<Shared>, this: usize) {
        // A second time would say the same.
        let _ = self.lock.sleeper().siblings.set((Arc::downgrade(shared), this));
    }

    /// Waits for a goal, then uses the engine; what was staged has left when this returns.
    #[inline]
    fn wait_for<R>(
        &self,
        goal: &Goal,
        seen: impl Fn() -> bool,
        then: impl FnOnce(&mut Vci) -> R,
    ) -> Result<R> {
        if !self.origin.is_here() {
            return Err(Error::Forked);
        }
        self.lock.wait(goal, seen, self.spin, |v| {
            v.flush();
            then(v)
        })
    }

    /// Waits for a request.
    #[inline]
    pub(super) fn wait<R>(&self, req: RawReq, then: impl FnOnce(&mut Vci) -> R) -> Result<R> {
        self.wait_for(&Goal::Done(req), || self.is_finished(req), then)
    }

    /// Returns true if a request is known to be finished, without the lock.
    #[inline]
    pub(super) fn is_finished(&self, req: RawReq) -> bool {
        req.is_over() || self.completions.is_finished(req.0)
    }

    /// Waits for one of several requests, of which not all are null.
    pub(super) fn wait_any<R>(&self, reqs: Arc<[RawReq]>, then: impl FnOnce(&mut Vci) -> R) -> Result<R> {
        let goal = Goal::Any(Arc::clone(&reqs));
        self.wait_for(&goal, || reqs.iter().any(|r| !r.is_null() && self.is_finished(*r)), then)
    }

    /// Waits until a probe that has found nothing should look again.
    pub(super) fn wait_news(&self, seen: Seen) -> Result<()> {
        self.wait_for(&Goal::News(seen), || false, |_| ())
    }

    /// Returns true if a wait for a request is over, after one step of progress if no other thread
    /// is using the engine.
    pub(super) fn test(&self, req: RawReq) -> Result<bool> {
        if !self.origin.is_here() {
            return Err(Error::Forked);
        }
        if self.is_finished(req) {
            return Ok(true);
        }
        let tried = self.lock.try_with(|v| {
            v.test_once(|v| v.is_finished(req))?;
            Ok(v.is_settled(req))
        });
        tried.unwrap_or(Ok(false))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use crate::Config;
    use forks::Local;

    use super::super::Shared;
    use super::*;
    use crate::bootstrap::process_manager;
    use crate::{Builder, Device, Multiple};

    /// A thread that waits on the engine's descriptors sees what another one has done, though
    /// nothing wakes it.
    #[test]
    fn threads_go_on_without_a_descriptor_to_be_woken_by() {
        let mut cfg = Config::default();
        cfg.netmods = vec!["tcp".into()];
        cfg.set("NETMOD_SPIN", "0").expect("a number of polls");
        let pm = process_manager(&cfg).expect("a job of one");
        let vci = Builder::new(cfg.clone(), Box::new(pm)).build_vci().expect("a device");
        let pusher = Arc::new(Pusher::new(true));
        let engines: Arc<[Engine]> = [Engine::waking_by(vci, None, &pusher)].into();
        let (engines, pusher) = (Local::new(engines), Local::new(pusher));
        let store = Arc::new(Shared { engines, pusher, cfg, rank: 0, size: 1, left: AtomicBool::new(false) });
        let dev = Device::<Multiple> { store };
        let world = dev.world();
        let other = dev.clone();
        let waits = std::thread::spawn(move || other.recv(&mut [0; 4], 0, 1, world).map(|s| s.len));
        // Once the thread has posted its receive it soon blocks.
        while dev.posted_len() == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        dev.send(&[1, 2, 3], 0, 1, world).expect("a message to this process");
        assert_eq!(waits.join().expect("no panic").expect("a message"), 3);
    }
}

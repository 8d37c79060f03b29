//! Waiting: spin, then yield, then block; or let an event loop of the program's own block.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::time::Duration;

use netmod_core::config::Spin;
use netmod_core::{Arm, DeviceError, Netmod, PollOrder, Time};

use super::Vci;
use super::leave::Leaving;
use super::waker::Waker;
use super::yielding::Yields;
use crate::error::{Error, Result};
use crate::sys::{self, WaitSet};

/// Shortest and longest sleep of a wait for a netmod that has no descriptor to wait on.
const SHORTEST_BLIND: Duration = Duration::from_micros(4);
const LONGEST_BLIND: Duration = Duration::from_millis(16);
/// Such a sleep takes one part in so many of the time that nothing has come so far. By as little
/// the wait is late, and as little it costs its core.
const BLIND_PART: u32 = 32;
/// Sleeps in a row that ended at once although nothing came, or that a netmod did not allow, until
/// what caused that is no longer heeded. A message that comes in many pieces causes some, too.
const MISLED: u32 = 200;
/// Longest time blocked at once then while memory is moved that nobody sees moving: what a device
/// cannot take, since nobody looks, is sent again.
const LONGEST_BLIND_MOVING: Duration = Duration::from_micros(20);
/// Longest time blocked at once in any case.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Waits: spinning, yielding, blocking.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Empty polls before a wait yields its core, or blocks.
    pub(super) spin: u32,
    /// Empty polls that do not count while memory moves.
    patience: u32,
    /// Empty polls of that kind since the last event.
    unseen: u32,
    pub(super) yields: Yields,
    /// Sleeps since the last event.
    sleeps: u32,
    /// Start of the first of them.
    idle_since: Time,
    /// Sleeps that ended at once, or could not begin, since the last event.
    misled: u32,
    /// Descriptors that are not waited on because they ended such sleeps.
    unheeded: Vec<RawFd>,
    /// Descriptors of a blocked wait; kept for its memory.
    fds: Vec<RawFd>,
    /// The descriptor for event loops, once it was asked for.
    pub(super) wait_set: Option<WaitSet>,
    /// The waker that ends the sleeps of a wait, once it was asked for.
    pub(super) waker: Option<Waker>,
    /// Polls that have found something.
    pub(super) busy_polls: u64,
    /// Sleeps.
    pub(super) blocks: u64,
    /// A wait asks its condition for the last time before it sleeps.
    drowsy: bool,
    /// The condition has asked for another poll instead.
    kept_awake: bool,
}

impl Waiting {
    pub(super) fn new(spin: Spin, crowded: bool, now: Time) -> Waiting {
        let polls = spin.polls(crowded);
        Waiting {
            spin: polls,
            patience: spin.patience(polls),
            unseen: 0,
            yields: Yields::new(crowded && spin == Spin::Auto),
            sleeps: 0,
            idle_since: now,
            misled: 0,
            unheeded: Vec::new(),
            fds: Vec::with_capacity(4),
            wait_set: None,
            waker: None,
            busy_polls: 0,
            blocks: 0,
            drowsy: false,
            kept_awake: false,
        }
    }

    /// Begins anew after an event.
    #[inline]
    pub(super) fn found(&mut self) {
        (self.unseen, self.sleeps, self.misled) = (0, 0, 0);
        self.busy_polls = self.busy_polls.wrapping_add(1);
    }
}

impl Vci {
    /// Makes progress until `done` returns true or the deadline, on the clock of [`Vci::now`], has
    /// passed. Sends that were staged have been handed to the network when `done` ended it.
    ///
    /// `done` is asked before each poll. It may start and use up requests; a call that waits inside
    /// of it makes the two waits nest.
    ///
    /// # Errors
    /// If a netmod or the process manager fails as a whole; in a forked child.
    #[inline]
    pub fn wait_until(&mut self, deadline: Time, done: impl FnMut(&mut Vci) -> bool) -> Result<()> {
        self.go_on_waiting(0, deadline, done)
    }

    /// Works like [`Vci::wait_until`] for a caller that has waited before, with `idle` empty polls
    /// in a row at last: it sleeps so much earlier.
    ///
    /// # Errors
    /// As [`Vci::wait_until`].
    #[inline]
    pub fn go_on_waiting(
        &mut self,
        mut idle: u32,
        deadline: Time,
        mut done: impl FnMut(&mut Vci) -> bool,
    ) -> Result<()> {
        self.check_origin()?;
        self.engine.stay();
        if self.ch3.failures.alarm() {
            self.take_what_is_there()?;
        }
        let (mut order, mut busy) = (PollOrder::OutFirst, true);
        loop {
            // Asked in one place, so that it is no call.
            if done(self) {
                self.note_end(idle);
                self.flush();
                return Ok(());
            }
            if order == PollOrder::InFirst {
                idle = self.idle_after(idle, busy);
                if idle >= self.waiting.spin && !busy {
                    let yields = self.may_yield(idle - self.waiting.spin);
                    if yields {
                        std::thread::yield_now();
                    } else if self.ask_before_sleep(&mut done) {
                        self.flush();
                        return Ok(());
                    } else if !std::mem::take(&mut self.waiting.kept_awake) {
                        self.block(deadline)?;
                    }
                }
                if self.now >= deadline {
                    self.tick();
                    return Ok(());
                }
            }
            busy = self.poll_to_wait(order)?;
            order = PollOrder::InFirst;
        }
    }

    /// Asks the condition of a wait once more, and lets it know that a sleep follows.
    #[cold]
    fn ask_before_sleep(&mut self, done: &mut impl FnMut(&mut Vci) -> bool) -> bool {
        (self.waiting.drowsy, self.waiting.kept_awake) = (true, false);
        let over = done(self);
        self.waiting.drowsy = false;
        over
    }

    /// Returns true if the condition of a wait is asked for the last time before the process
    /// sleeps, in which only what a netmod or the process manager brings wakes it. A condition that
    /// depends on memory that other processes write arranges now to be woken by a message, or calls
    /// [`Vci::stay_awake`].
    #[inline]
    pub fn is_going_to_sleep(&self) -> bool {
        self.waiting.drowsy
    }

    /// Keeps a wait from the sleep that it was going to begin.
    pub fn stay_awake(&mut self) {
        self.waiting.kept_awake = true;
    }

    /// Empty polls in a row after which a wait yields its core, or sleeps.
    #[inline]
    pub fn polls_before_rest(&self) -> u32 {
        self.waiting.spin
    }

    /// Empty polls since the last event, after one more poll.
    #[inline]
    pub(super) fn idle_after(&mut self, idle: u32, busy: bool) -> u32 {
        if !busy {
            return idle.saturating_add(1);
        }
        self.note_end(idle);
        0
    }

    /// Notes that something has come after so many empty polls: an event, or what a wait is for in
    /// memory that processes share.
    #[inline]
    fn note_end(&mut self, idle: u32) {
        if idle >= self.waiting.spin {
            self.waiting.yields.brought(idle - self.waiting.spin);
        }
    }

    /// Lets others have the core: yields, or blocks after so many yields in a row as are
    /// worthwhile. `n` were made.
    #[cold]
    pub(super) fn give_way(&mut self, n: u32, deadline: Time) -> Result<()> {
        if self.may_yield(n) {
            std::thread::yield_now();
            return Ok(());
        }
        self.block(deadline)
    }

    /// Returns true if the caller is to yield its core, after `n` yields in a row that brought
    /// nothing; false if it is to block.
    pub(super) fn may_yield(&mut self, n: u32) -> bool {
        self.tick();
        self.waiting.yields.goes_on(n, self.now)
    }

    /// Polls for a caller that blocks after so many empty polls. Returns false if the poll was
    /// empty. While memory moves that this process does not see moving, empty polls count as busy
    /// up to a limit: to be woken takes longer than the device's next step.
    #[inline]
    pub(super) fn poll_to_wait(&mut self, order: PollOrder) -> std::result::Result<bool, DeviceError> {
        Ok(self.poll(order)? || self.ch3.is_moving() && self.has_patience())
    }

    #[inline(never)]
    fn has_patience(&mut self) -> bool {
        self.waiting.unseen = self.waiting.unseen.saturating_add(1);
        self.waiting.unseen <= self.waiting.patience
    }

    /// A descriptor that is readable when the device should be polled, for event loops that wait
    /// for other things too. It contains all netmods' descriptors and the process manager's; of a
    /// netmod that has none [`Vci::deadline`] takes care, by a small part of the time that nothing
    /// came (libfabric's has one for certain with `NETMOD_OFI_WAIT=fd`). A loop that wants to own
    /// it takes a copy ([`BorrowedFd::try_clone_to_owned`]), as `examples/tokio.rs` shows.
    ///
    /// The loop, for ever or until a request is finished:
    ///
    /// 1. [`Vci::progress`], or tests of requests, until nothing happens any more;
    /// 2. [`Vci::arm`]; after [`Arm::Busy`] go to 1;
    /// 3. wait until the descriptor is readable, at most until [`Vci::deadline`]; go to 1.
    ///
    /// No event is missed: what has come before `arm` makes it say `Busy` or the descriptor
    /// readable, what comes later makes the descriptor readable. Any other call on the device
    /// between 2 and 3, such as one that starts a send, undoes `arm`. The descriptor stays readable
    /// until the device was polled; it is not to be read.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn wait_fd(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_origin()?;
        let set = match self.waiting.wait_set.take() {
            Some(set) => set,
            None => self.new_wait_set()?,
        };
        let set: &WaitSet = self.waiting.wait_set.insert(set);
        Ok(set.as_fd())
    }

    fn new_wait_set(&self) -> Result<WaitSet> {
        let failed =
            |e| Error::Usage(format!("no descriptor to wait on: {e}; is the limit too low (ulimit -n)?"));
        let set = WaitSet::new().map_err(failed)?;
        for fd in self.descriptors() {
            set.add(fd).map_err(failed)?;
        }
        Ok(set)
    }

    /// The descriptors of all netmods that have one, the process manager's, and those by which
    /// somebody asks for the device's state.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let asked = self.served.server.iter().flat_map(|s| s.fds());
        // Netmods that have let go have nothing to say.
        let gone = matches!(self.departure.stage, Leaving::Goodbye(_));
        let nets = self.engine.netmod.netmods().filter(move |_| !gone).filter_map(|m| m.wait_fd());
        nets.chain(self.ch3.boot.fd()).chain(asked)
    }

    /// Prepares for waiting on [`Vci::wait_fd`]: sends that were staged go out.
    pub fn arm(&mut self) -> Arm {
        // The next call that makes progress says what is wrong in a forked child.
        if !self.origin.is_here() {
            return Arm::Busy;
        }
        if let Some(armed) = self.arm_for_goodbye() {
            return armed;
        }
        // Its descriptor may be why a loop was woken.
        if self.hear_launcher() {
            return Arm::Busy;
        }
        self.prepare_to_sleep()
    }

    /// Arms as [`Vci::arm`] does, for a caller that looks at the process manager's descriptor after
    /// the sleep.
    pub(super) fn prepare_to_sleep(&mut self) -> Arm {
        self.free_dropped();
        self.tick();
        if self.failure_deadline() <= self.now {
            self.look_for_failures();
            return Arm::Busy;
        }
        // A step of finalize that led to the next stage needs nothing to arrive to go on.
        if self.departure.goes_on {
            return Arm::Busy;
        }
        if !self.ch3.prepare_to_sleep() {
            return Arm::Busy;
        }
        // A look for the end of a barrier, or another question, may have read an answer: then the
        // descriptor is readable no more.
        if self.has_questions() && self.hear_launcher() {
            return Arm::Busy;
        }
        let engine = &mut *self.engine;
        engine.core.clear_staged();
        let armed = engine.netmod.arm(&mut engine.core);
        if armed == Arm::Busy {
            self.waiting.misled = self.waiting.misled.saturating_add(1);
            if !self.is_misled() {
                return Arm::Busy;
            }
        }
        if self.waiting.sleeps == 0 {
            self.waiting.idle_since = self.now;
        }
        self.waiting.sleeps = self.waiting.sleeps.saturating_add(1);
        Arm::Armed
    }

    /// Returns true if what says that something is to be done has said so in vain for long.
    fn is_misled(&self) -> bool {
        self.waiting.misled > MISLED
    }

    /// Returns the longest sleep of a wait that nothing wakes.
    fn blind_sleep(&self) -> Duration {
        let moves = self.ch3.is_moving() || self.ch3.onesided.is_used();
        let longest = if moves { LONGEST_BLIND_MOVING } else { LONGEST_BLIND };
        let waited =
            if self.waiting.sleeps == 0 { Duration::ZERO } else { self.now.since(self.waiting.idle_since) };
        (waited / BLIND_PART).clamp(SHORTEST_BLIND, longest)
    }

    /// Returns the time at which the device must be polled although its descriptor is not readable;
    /// on the clock that [`Vci::now`] reads. `None` if never.
    pub fn deadline(&self) -> Option<Time> {
        if let Some(goodbye) = self.goodbye_deadline() {
            return Some(goodbye);
        }
        let nets = &self.engine.netmod;
        // A netmod without a descriptor must be asked again and again.
        let blind = self.is_misled() || nets.netmods().any(|m| m.wait_fd().is_none());
        let blind = blind.then(|| self.now + self.blind_sleep());
        let failures = Some(self.failure_deadline()).filter(|t| *t != Time::NEVER);
        let answers = self.served.server.as_ref().and_then(|s| s.deadline(self.now));
        nets.deadline().into_iter().chain(blind).chain(failures).chain(answers).min()
    }

    /// The device's time: since it was made, or that of a simulation.
    pub fn now(&mut self) -> Time {
        self.tick();
        self.now
    }

    /// Blocks until something may have happened.
    #[cold]
    pub(super) fn block(&mut self, deadline: Time) -> Result<()> {
        self.check_launcher()?;
        if self.prepare_to_sleep() == Arm::Busy {
            return Ok(());
        }
        let until = deadline.min(self.deadline().unwrap_or(Time::NEVER));
        let mut fds = std::mem::take(&mut self.waiting.fds);
        let launcher = self.ch3.boot.fd();
        fds.extend(launcher);
        fds.extend(self.descriptors().filter(|fd| Some(*fd) != launcher));
        if self.waiting.misled == 0 {
            self.waiting.unheeded.clear();
        }
        fds.retain(|fd| !self.waiting.unheeded.contains(fd));
        let waker = self.waiting.waker.clone();
        if let Some(waker) = &waker {
            let Some(fd) = waker.begin_sleep() else {
                fds.clear();
                self.waiting.fds = fds;
                return Ok(());
            };
            fds.push(fd);
        }
        self.waiting.blocks += 1;
        let waited = sys::wait_readable(&fds, until.since(self.now).min(LONGEST_NAP));
        // Another thread ends a sleep for a good reason.
        let woken = waker.is_some_and(|waker| waker.end_sleep());
        if !woken && waited.as_ref().is_ok_and(|ready| ready.any) {
            self.waiting.misled = self.waiting.misled.saturating_add(1);
            if self.is_misled() {
                // All but those that were readable now are still waited on, and the launcher's.
                let readable = |fd: &RawFd| sys::wait_readable(&[*fd], Duration::ZERO).is_ok_and(|r| r.any);
                self.waiting.unheeded.extend(fds.iter().filter(|fd| Some(**fd) != launcher && readable(fd)));
            }
        }
        fds.clear();
        self.waiting.fds = fds;
        let first = waited.map_err(|e| Error::Launcher(format!("poll: {e}")))?.first;
        self.tick();
        if first && launcher.is_some() && self.hear_launcher() {
            self.check_launcher()?;
        }
        if self.served.server.is_some() {
            self.served.blocked = true;
            self.serve_status(true);
            self.served.blocked = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::leave::tests::alone;

    /// Memory that processes share changes without an event of a netmod.
    #[test]
    fn yields_that_end_a_wait_are_worthwhile_without_an_event() {
        let (mut dev, office, _clock) = alone();
        let begun = dev.now();
        dev.waiting = Waiting::new(Spin::Auto, true, begun);
        let each = Duration::from_micros(500);
        let goes_on = |dev: &mut Vci, n: u32| dev.waiting.yields.goes_on(n, begun + each * n);
        let row = |dev: &mut Vci| (0..).take_while(|n| goes_on(dev, *n)).count() as u32;
        let rows: Vec<u32> = (0..6).map(|_| row(&mut dev)).collect();
        let least = rows[5];
        assert!(rows[0] > 2 * least && rows[4] == least, "{rows:?}");
        let ends_after = |dev: &mut Vci, yields: u32| {
            let (mut asked, first) = (0, dev.waiting.spin + 2);
            let over = |_: &mut Vci| {
                asked += 1;
                asked > first + yields
            };
            dev.wait_until(Time::NEVER, over).expect("a wait");
        };
        ends_after(&mut dev, 2);
        assert_eq!(row(&mut dev), 2 * least);
        office.answer();
        dev.finalize().expect("the end");
    }
}

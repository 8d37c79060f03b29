//! Waiting for something, while everything else that is under way goes on.

use std::time::{Duration, Instant};

use ch3_shim::Vci;
use netmod_core::Time;
use netmod_core::tell::on_stderr;

use crate::error::{Class, MpiError, Result};
use crate::instance::{Mpi, State};
use crate::objects::Objects;
use crate::polled::{Inside, Operation, Polled, is_inside, may_call};
use crate::request::Requests;
use crate::task::Call;

/// Polls of a wait before it lets a thread in that waits for the lock, and empty ones before it
/// lets another thread have its core.
const POLLS: u32 = 16;
/// The same where processes share cores: one more than the one after which a wait may sleep.
const CROWDED_POLLS: u32 = 2;
/// Times in a row that each of the threads that wait does so. Then one of them polls for all.
const RESTS: u32 = 64;

/// Longest sleep of a wait with a deadline, after which its condition is asked although nothing has
/// come; and its sleep between two looks where several threads call.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
const SHORT_SLEEP: Duration = Duration::from_micros(100);

/// Rests for which a thread that sleeps for all stays awake when another thread has called. Threads
/// that follow look now and then, so it is little.
const AWAKE: u32 = 16;

/// Time without news for which a wait calls the functions that are polled again and again. It does
/// not where processes share cores.
const EAGER: Duration = Duration::from_millis(20);
/// Longest time between two rounds of these calls otherwise, in which a wait may sleep.
const REST: Duration = Duration::from_micros(50);
/// Time after which finalize tells what it waits for.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pace at which a wait without other threads calls the functions that are polled.
#[derive(Default)]
struct Pace {
    /// Time since which nothing has come, and the count of what had.
    idle: Option<(Time, u64)>,
}

impl Pace {
    /// Returns the time until which a wait makes progress, at most `until`, before it calls them.
    #[inline]
    fn until(&mut self, s: &mut State, until: Time) -> Time {
        if has_polled(&s.requests) { self.next(s).min(until) } else { until }
    }

    #[cold]
    fn next(&mut self, s: &mut State) -> Time {
        let now = s.dev.now();
        let seen = news(&s.dev, &s.requests).wrapping_add(s.requests.polled.ended());
        let since = self.idle.filter(|(_, before)| *before == seen).map_or(now, |(since, _)| since);
        self.idle = Some((since, seen));
        if now < since + EAGER && !s.dev.shares_cores() { now } else { now + REST }
    }
}

/// Returns true if this thread may call functions that are polled.
#[inline]
fn has_polled(requests: &Requests) -> bool {
    requests.polled.len() > 0 && may_call()
}

/// The end of one part of a wait.
enum Part<T> {
    /// The result of the wait.
    Ready(Result<T>),
    /// A function of the program is to be called.
    Call(Call),
    /// Others may have the lock.
    Again,
    /// The functions that are polled are to be called.
    Poll,
}

impl<T> Part<T> {
    /// Returns this part; if nothing has come, one that calls the functions that are polled.
    #[inline]
    fn or_poll(self, requests: &Requests) -> Part<T> {
        match self {
            Part::Again if has_polled(requests) => Part::Poll,
            part => part,
        }
    }
}

/// A condition of a wait: what it returns is what was waited for.
trait Ready<T>: FnMut(&mut Vci, &mut Objects, &mut Requests) -> Option<Result<T>> {}

impl<T, F: FnMut(&mut Vci, &mut Objects, &mut Requests) -> Option<Result<T>>> Ready<T> for F {}

/// Serves windows, advances the tasks, and asks the condition.
#[inline]
fn look<T>(
    vci: &mut Vci,
    objects: &mut Objects,
    requests: &mut Requests,
    ready: &mut impl Ready<T>,
) -> Part<T> {
    objects.wins.serve(vci);
    if vci.has_alarm() {
        objects.ft.serve(vci, &mut objects.comms);
    }
    if let Some(call) = requests.advance_tasks(vci, objects) {
        return Part::Call(call);
    }
    ready(vci, objects, requests).map_or(Part::Again, Part::Ready)
}

/// Empty polls before a thread lets another one have its core.
fn polls_of(vci: &Vci) -> u32 {
    if vci.shares_cores() { CROWDED_POLLS } else { POLLS }
}

/// A count that changes when something that a thread may wait for has happened.
pub(crate) fn news(vci: &Vci, requests: &Requests) -> u64 {
    vci.busy_polls().wrapping_add(requests.ended_tasks())
}

impl Mpi {
    /// Makes progress until `ready` returns something. It is asked under the lock, before each
    /// poll.
    ///
    /// # Errors
    /// What `ready` returns; if the device fails as a whole; after finalize.
    pub(crate) fn wait_until<T>(
        &self,
        mut ready: impl FnMut(&mut Vci, &mut Objects, &mut Requests) -> Option<Result<T>>,
    ) -> Result<T> {
        let mut pace = Pace::default();
        // Another thread may call for the first time meanwhile.
        while self.has_one_caller() {
            let part = self.with(|s| {
                let until = pace.until(s, Time::NEVER);
                self.wait_part(s, until, &mut ready)
            })?;
            match part {
                Part::Ready(result) => return result,
                Part::Call(call) => self.make_call(call)?,
                Part::Again => {}
                Part::Poll => self.poll_functions()?,
            }
        }
        self.wait_among_threads(&mut ready)
    }

    /// Works like [`Mpi::wait_until`], with other threads that may wait, too.
    ///
    /// There may be more threads than cores. What this one waits for may then be waiting for its
    /// core, so it yields between its polls, without the lock and without a lead.
    fn wait_among_threads<T>(&self, ready: &mut impl Ready<T>) -> Result<T> {
        let mut rests = 0;
        loop {
            let part = if rests < RESTS {
                self.with_turn(|s| self.wait_briefly(s, ready, &mut rests))?
            } else {
                self.wait_in_turns(ready, &mut rests)?
            };
            match part {
                Part::Ready(result) => return result,
                Part::Call(call) => self.make_call(call)?,
                Part::Again => std::thread::yield_now(),
                Part::Poll => {
                    self.poll_functions()?;
                    // Afterwards it sleeps between the calls.
                    if rests < RESTS {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    /// Sleeps, or polls for all threads and sleeps with the device, until `ready` returns something
    /// or something has come.
    fn wait_in_turns<T>(&self, ready: &mut impl Ready<T>, rests: &mut u32) -> Result<Part<T>> {
        let mut sleeps = 0;
        let _lead = loop {
            let part = self.with(|s| {
                let State { dev, objects, requests } = s;
                Ok(look(dev, objects, requests, ready))
            })?;
            if !matches!(part, Part::Again) {
                return Ok(part);
            }
            match self.turns().lead(sleeps) {
                Some(lead) => break lead,
                None => sleeps += 1,
            }
        };
        let before_sleep = self.with(|s| Ok(s.dev.polls_before_rest() / polls_of(&s.dev)))?;
        loop {
            let part = self.with_turn(|s| self.wait_briefly(s, ready, rests))?;
            // Functions are called without the lead: they may wait.
            if !matches!(part, Part::Again) || *rests < RESTS {
                return Ok(part);
            }
            // A thread that calls finds this one awake for a moment.
            if self.is_wanted() {
                *rests = (*rests).min(before_sleep).saturating_sub(AWAKE).max(RESTS);
            }
            std::thread::yield_now();
        }
    }

    /// Waits until `ready` returns something, another thread wants the lock, or some polls in a row
    /// were empty. `rests` counts the calls since something has come; after [`RESTS`] the device
    /// sleeps when it has polled in vain for long enough.
    fn wait_briefly<T>(&self, s: &mut State, ready: &mut impl Ready<T>, rests: &mut u32) -> Result<Part<T>> {
        let State { dev, objects, requests } = s;
        let vci: &mut Vci = dev;
        let until = if has_polled(requests) { vci.now() + REST } else { Time::NEVER };
        let most = polls_of(vci);
        let before = if *rests < RESTS { 0 } else { rests.saturating_mul(most) };
        let (mut part, mut asked, mut empty, mut seen) = (Part::Again, 0, 0, news(vci, requests));
        *rests = rests.saturating_add(1);
        vci.go_on_waiting(before, until, |vci| {
            part = look(vci, objects, requests, ready);
            if !matches!(part, Part::Again) {
                return true;
            }
            if seen != news(vci, requests) {
                seen = news(vci, requests);
                self.turns().tell();
                // A task that was asked before may go on now.
                vci.stay_awake();
                (*rests, empty) = (0, 0);
            } else if asked > 0 {
                empty += 1;
            }
            asked += 1;
            // The device has polled for long enough when it is going to sleep.
            !vci.is_going_to_sleep() && (empty >= most || asked > POLLS && self.is_wanted())
        })?;
        Ok(part.or_poll(requests))
    }

    /// Waits like [`Mpi::wait_until`]; `None` if `ready` has returned nothing at the deadline.
    ///
    /// # Errors
    /// As [`Mpi::wait_until`].
    pub(crate) fn wait_until_time<T>(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut Vci, &mut Objects) -> Option<Result<T>>,
    ) -> Result<Option<T>> {
        let mut ready = |vci: &mut Vci, objects: &mut Objects, _: &mut Requests| ready(vci, objects);
        let mut pace = Pace::default();
        loop {
            let part = if self.has_one_caller() {
                self.with(|s| {
                    let most = s.dev.now() + LONGEST_SLEEP;
                    let until = pace.until(s, most);
                    self.wait_part(s, until, &mut ready)
                })?
            } else {
                self.with_turn(|s| self.wait_briefly(s, &mut ready, &mut 0))?
            };
            if matches!(part, Part::Poll) {
                self.poll_functions()?;
            }
            match part {
                Part::Ready(result) => return result.map(Some),
                Part::Call(call) => self.make_call(call)?,
                Part::Again | Part::Poll if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Ok(None);
                }
                Part::Again | Part::Poll if self.has_one_caller() => {}
                Part::Again | Part::Poll => std::thread::sleep(SHORT_SLEEP),
            }
        }
    }

    /// Waits until `ready` returns something, another thread wants the lock, or it is `until`.
    fn wait_part<T>(&self, s: &mut State, until: Time, ready: &mut impl Ready<T>) -> Result<Part<T>> {
        let State { dev, objects, requests } = s;
        let vci: &mut Vci = dev;
        let (mut part, mut asked, mut seen) = (Part::Again, 0, news(vci, requests));
        vci.wait_until(until, |vci| {
            part = look(vci, objects, requests, ready);
            if !matches!(part, Part::Again) {
                return true;
            }
            if seen != news(vci, requests) {
                seen = news(vci, requests);
                self.turns().tell();
                vci.stay_awake();
            }
            asked += 1;
            asked > POLLS && self.is_wanted()
        })?;
        Ok(part.or_poll(requests))
    }

    /// Asks `ready`, makes progress once, and asks again. If nothing was found, calls the functions
    /// that are polled, and does it once more. `None` if there was nothing then, either.
    ///
    /// # Errors
    /// As [`Mpi::wait_until`].
    pub(crate) fn test_until<T>(
        &self,
        mut ready: impl FnMut(&mut Vci, &mut Objects, &mut Requests) -> Option<Result<T>>,
    ) -> Result<Option<T>> {
        let mut has_polled = false;
        loop {
            let part = self.with(|s| {
                let State { dev, objects, requests } = s;
                let vci: &mut Vci = dev;
                let mut part = Part::Again;
                vci.test_until(|vci| {
                    part = look(vci, objects, requests, &mut ready);
                    !matches!(part, Part::Again)
                })?;
                Ok(part.or_poll(requests))
            })?;
            match part {
                Part::Ready(result) => return result.map(Some),
                Part::Call(call) => self.make_call(call)?,
                Part::Poll if !std::mem::replace(&mut has_polled, true) => self.poll_functions()?,
                Part::Again | Part::Poll => return Ok(None),
            }
        }
    }

    /// Calls each function that is polled once, but those that are being called.
    ///
    /// # Errors
    /// After finalize.
    pub(crate) fn poll_functions(&self) -> Result<()> {
        let Some(_inside) = Inside::enter() else { return Ok(()) };
        // One by one: a function may wait for what another one lets go on.
        let mut left = self.with(|s| Ok(s.requests.polled.len()))?;
        while left > 0
            && let Some(operation) = self.with(|s| Ok(s.requests.polled.take()))?
        {
            left -= 1;
            self.poll_one(operation)?;
        }
        Ok(())
    }

    /// Calls the function of an operation that was taken, and puts it back if it goes on.
    fn poll_one(&self, mut operation: Operation) -> Result<()> {
        let mut new = Vec::new();
        let polled = match operation.poll(&mut new) {
            Ok(polled) => polled,
            Err(error) => {
                if let Operation::Request(request, greq, _) = &operation {
                    self.fail_generalized(*request, greq, error)?;
                }
                Polled::Over
            }
        };
        self.with(|s| {
            let list = &mut s.requests.polled;
            new.into_iter().for_each(|function| list.begin(Operation::Thing(function)));
            match polled {
                Polled::Pending => list.put_back(operation),
                Polled::Over => list.end(&operation),
            }
            Ok(())
        })
    }

    /// Waits for the operations that are polled and have no request, which `MPI_Finalize` does
    /// first. Tells if it takes long: nothing ends a wait for one that never ends.
    ///
    /// # Errors
    /// In a function that is polled; if the device fails as a whole.
    pub fn end_polled(&self) -> Result<()> {
        let left = self.with(|s| Ok(s.requests.polled.things()))?;
        if left == 0 {
            return Ok(());
        }
        if is_inside() {
            let text = "MPI was ended by an asynchronous function, for whose end it waits";
            return Err(MpiError::new(Class::OTHER, text));
        }
        let deadline = Instant::now() + PATIENCE;
        self.wait_until(|_, _, requests| {
            let over = requests.polled.things() == 0 || Instant::now() >= deadline;
            over.then_some(Ok(()))
        })?;
        let (left, rank) = self.with(|s| Ok((s.requests.polled.things(), s.dev.rank())))?;
        if left > 0 {
            on_stderr(&format_args!(
                "rank {rank}: MPI_Finalize waits for {left} asynchronous things, whose functions have not returned \
                 MPIX_ASYNC_DONE"
            ));
        }
        self.wait_until(|_, _, requests| (requests.polled.things() == 0).then_some(Ok(())))
    }

    /// Calls a function of the program for a task, and lets the task go on.
    pub(crate) fn make_call(&self, call: Call) -> Result<()> {
        let Call { request, mut task, function } = call;
        function();
        task.called();
        self.with(|s| {
            s.requests.put_task_back(request, task);
            Ok(())
        })
    }
}

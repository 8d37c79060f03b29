//! Waiting for something, while everything else that is under way goes on.

use std::time::Duration;

use ch3_shim::Vci;
use netmod_core::Time;

use crate::error::Result;
use crate::instance::{Mpi, Objects, State};
use crate::task::Call;

/// Longest time for which a thread keeps others out at level MULTIPLE when nothing comes: it may
/// sleep meanwhile.
const SLICE: Duration = Duration::from_micros(250);
/// Polls of a wait before it lets a thread in that waits for the lock.
const POLLS: u32 = 16;

/// The end of one part of a wait.
enum Part<T> {
    /// What was waited for.
    Ready(Result<T>),
    /// A function of the program is to be called.
    Call(Call),
    /// Others may have the lock.
    Again,
}

impl Mpi {
    /// Makes progress until `ready` returns something. It is asked under the lock, before each
    /// poll.
    ///
    /// # Errors
    /// What `ready` returns; if the device fails as a whole; after finalize.
    pub(crate) fn wait_until<T>(
        &self,
        mut ready: impl FnMut(&mut Vci, &mut Objects) -> Option<Result<T>>,
    ) -> Result<T> {
        loop {
            let part = if self.is_multiple() {
                self.with_turn(|s| self.wait_part(s, &mut ready))?
            } else {
                self.with(|s| self.wait_part(s, &mut ready))?
            };
            match part {
                Part::Ready(result) => return result,
                Part::Call(call) => self.make_call(call)?,
                Part::Again => std::thread::yield_now(),
            }
        }
    }

    fn wait_part<T>(
        &self,
        s: &mut State,
        ready: &mut impl FnMut(&mut Vci, &mut Objects) -> Option<Result<T>>,
    ) -> Result<Part<T>> {
        let State { dev, objects } = s;
        let vci: &mut Vci = dev;
        let multiple = self.is_multiple();
        let limit = if multiple { vci.now() + SLICE } else { Time::NEVER };
        let (mut part, mut asked) = (Part::Again, 0);
        vci.wait_until(limit, |vci| {
            if let Some(call) = objects.advance_tasks(vci) {
                part = Part::Call(call);
                return true;
            }
            if let Some(result) = ready(vci, objects) {
                part = Part::Ready(result);
                return true;
            }
            asked += 1;
            multiple && asked > POLLS && self.is_wanted()
        })?;
        Ok(part)
    }

    /// Asks `ready`, makes progress once, and asks again. `None` if both found nothing.
    ///
    /// # Errors
    /// As [`Mpi::wait_until`].
    pub(crate) fn test_until<T>(
        &self,
        mut ready: impl FnMut(&mut Vci, &mut Objects) -> Option<Result<T>>,
    ) -> Result<Option<T>> {
        loop {
            let part = self.with(|s| {
                let State { dev, objects } = s;
                let vci: &mut Vci = dev;
                let mut part = Part::Again;
                vci.test_until(|vci| {
                    if let Some(call) = objects.advance_tasks(vci) {
                        part = Part::Call(call);
                    } else if let Some(result) = ready(vci, objects) {
                        part = Part::Ready(result);
                    }
                    !matches!(part, Part::Again)
                })?;
                Ok(part)
            })?;
            match part {
                Part::Ready(result) => return result.map(Some),
                Part::Call(call) => self.make_call(call)?,
                Part::Again => return Ok(None),
            }
        }
    }

    /// Calls a function of the program for a task, and lets the task go on.
    fn make_call(&self, call: Call) -> Result<()> {
        let Call { request, mut task, function } = call;
        function();
        task.called();
        self.with(|s| {
            s.objects.requests.put_task_back(request, task);
            Ok(())
        })
    }
}

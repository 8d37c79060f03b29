//! Requests: one kind of object for all operations that end later.

mod persistent;
mod settled;

pub(crate) use persistent::{Operation, Persistent};
pub(crate) use settled::{Ended, is_nothing, status_of_nothing};

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use ch3_shim::{RawReq, Vci};
use netmod_core::Segment;

use crate::comm::{CommCore, CommRef, Comms, raised};
use crate::datatype::{Buf, TypeDesc, Types};
use crate::error::{Arrived, Class, MpiError, Result};
use crate::greq::Generalized;
use crate::handle::{Comm, Request, Table};
use crate::objects::Objects;
use crate::polled::PollList;
use crate::status::{Status, failure, take};
use crate::task::{Call, Progress, Task};

/// The operation of a request.
pub(crate) enum Kind {
    /// A send of the device.
    Send(RawReq, CommRef),
    /// A receive of the device.
    Recv(RawReq, CommRef, Ends),
    /// A send and a receive, whose status counts.
    Both(RawReq, RawReq, Arc<CommCore>, Ends),
    /// A send whose data the device keeps, and a receive, whose status counts.
    Replace(Box<ch3_shim::Request>, RawReq, Arc<CommCore>, Ends),
    /// A task; `None` while a function of the program is called for it.
    Task(Option<Box<dyn Task>>),
    /// An operation that is over, with its result.
    Over(Result<Status>),
    /// An operation that can be started again and again.
    Persistent(Box<Persistent>),
    /// An operation of the program's.
    Generalized(Arc<Generalized>),
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Send(..) => "Send",
            Kind::Recv(..) => "Recv",
            Kind::Both(..) | Kind::Replace(..) => "Both",
            Kind::Task(_) => "Task",
            Kind::Over(_) => "Over",
            Kind::Persistent(_) => "Persistent",
            Kind::Generalized(_) => "Generalized",
        })
    }
}

/// A request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub kind: Kind,
    /// True if the program has freed it: nobody asks for its result.
    pub freed: bool,
}

/// The requests of a process.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub table: Table<Request, Entry>,
    /// Those whose task is not over.
    tasks: Vec<Request>,
    /// Functions of the program that tasks wait for.
    calls: VecDeque<Call>,
    ended_tasks: u64,
    /// Windows, whose requests are served by whoever waits.
    pub windows: usize,
    /// Operations of the program that go on when a function is called.
    pub polled: PollList,
}

impl Requests {
    /// Adds a request. That of a task is advanced from now on.
    ///
    /// # Errors
    /// If there are too many.
    #[inline]
    pub(crate) fn insert(&mut self, kind: Kind) -> Result<Request> {
        let is_task = matches!(kind, Kind::Task(_));
        let request = self.table.insert(Entry { kind, freed: false })?;
        if is_task {
            self.tasks.push(request);
        }
        Ok(request)
    }

    /// Returns true if a task is under way.
    #[inline]
    fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns true if a wait has more to do than to make progress on messages.
    #[inline]
    pub(crate) fn has_other_work(&self) -> bool {
        self.has_tasks() || self.windows > 0 || self.polled.len() > 0
    }

    /// Advances the task of a persistent request from now on.
    pub(crate) fn begin_task(&mut self, request: Request) {
        self.tasks.push(request);
    }

    /// Advances all tasks, for a thread that calls functions of the program. Returns the first call
    /// that one of them needs.
    #[inline]
    pub(crate) fn advance_tasks(&mut self, vci: &mut Vci, objects: &mut Objects) -> Option<Call> {
        if !self.has_tasks() {
            return None;
        }
        self.advance_without_calls(vci, objects);
        self.calls.pop_front()
    }

    /// Advances all tasks. One that needs a function of the program waits for a thread that calls
    /// it.
    pub(crate) fn advance_without_calls(&mut self, vci: &mut Vci, objects: &mut Objects) {
        let mut at = 0;
        while let Some(&request) = self.tasks.get(at) {
            let place = self.table.find_mut(request).and_then(Entry::task_place);
            let Some(place) = place else {
                self.tasks.swap_remove(at);
                continue;
            };
            at += 1;
            // One that a function of the program is called for goes on later.
            let Some(mut task) = place.take() else { continue };
            match task.advance(vci, objects) {
                Progress::Blocked => self.put_task_back(request, task),
                Progress::Call(function) => self.calls.push_back(Call { request, task, function }),
                Progress::Done(result) => {
                    at -= 1;
                    self.tasks.swap_remove(at);
                    self.end_task(objects, request, task, result);
                }
            }
        }
    }

    /// Tasks that have ended, for who looks whether one has since.
    #[inline]
    pub(crate) fn ended_tasks(&self) -> u64 {
        self.ended_tasks
    }

    fn end_task(&mut self, objects: &Objects, request: Request, task: Box<dyn Task>, result: Result<Status>) {
        self.ended_tasks += 1;
        let Some(entry) = self.table.find_mut(request) else { return };
        if let Some(task) = entry.task_over(task, result) {
            task.retire(objects);
        }
        if entry.freed {
            // It was found above.
            let _ = self.table.remove(request);
        }
    }

    /// Returns a task to its request after a function of the program was called for it.
    pub(crate) fn put_task_back(&mut self, request: Request, task: Box<dyn Task>) {
        if let Some(entry) = self.table.find_mut(request)
            && let Some(place) = entry.task_place()
        {
            *place = Some(task);
        }
    }

    /// Lets requests of a communicator hold it, whose handle names nothing from now on.
    pub(crate) fn hold(&mut self, comm: Comm, core: &Arc<CommCore>) {
        for entry in self.table.values_mut() {
            if let Kind::Send(_, own) | Kind::Recv(_, own, _) = &mut entry.kind {
                own.hold(comm, core);
            }
        }
    }

    /// Returns true if messages of a communicator are under way.
    pub(crate) fn has_messages(&self, vci: &Vci, core: &Arc<CommCore>) -> bool {
        self.table.iter().any(|(_, entry)| entry.kind.is_on(core) && !entry.kind.is_settled(vci))
    }
}

/// The places where a message may end in the buffer of a receive.
///
/// These are all if elements are one run of bytes, and otherwise those between two basic elements
/// of this datatype.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(Option<Arc<TypeDesc>>);

impl Ends {
    /// Those of a buffer of a datatype.
    #[inline]
    pub(crate) fn of(desc: &Arc<TypeDesc>) -> Ends {
        Ends((!desc.is_plain()).then(|| Arc::clone(desc)))
    }

    /// Returns true if these are all places.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the memory of a receive, and where its message may end.
    ///
    /// # Errors
    /// As [`Types::checked`].
    #[inline]
    pub(crate) fn of_room(types: &Types, room: &Buf) -> Result<(Segment, Ends)> {
        match room.plain() {
            Some(data) => Ok((data, Ends(None))),
            None => types.typed_segment(room).map(|(data, desc)| (data, Ends::of(desc))),
        }
    }

    /// Checks a message that has come.
    ///
    /// # Errors
    /// [`Class::TYPE`] if it ends within a basic element: its sender has other types.
    #[inline]
    pub(crate) fn check(&self, status: Status, core: &CommCore) -> Result<Status> {
        let Some(desc) = &self.0 else { return Ok(status) };
        let bytes = status.count_bytes.unsigned_abs();
        let whole = desc.count_of(bytes).is_some() || desc.elements_of(bytes).is_some();
        if whole { Ok(status) } else { Err(core.raised(other_types(status))) }
    }
}

#[cold]
fn other_types(status: Status) -> Box<MpiError> {
    let Status { source, tag, count_bytes: bytes, .. } = status;
    let text = format!(
        "the message of {bytes} bytes from rank {source} with tag {tag} ends within an element of the receive's \
         datatype; send and receive the same types"
    );
    let arrived = Some(Arrived { source, tag, bytes });
    Box::new(MpiError { arrived, ..*MpiError::new(Class::TYPE, text) })
}

impl Entry {
    fn task_place(&mut self) -> Option<&mut Option<Box<dyn Task>>> {
        match &mut self.kind {
            Kind::Task(place) => Some(place),
            Kind::Persistent(p) => match p.current.as_mut() {
                Some(Kind::Task(place)) => Some(place),
                _ => None,
            },
            _ => None,
        }
    }

    /// Sets the result of its task, and returns the task unless it can be started again.
    fn task_over(&mut self, task: Box<dyn Task>, result: Result<Status>) -> Option<Box<dyn Task>> {
        match &mut self.kind {
            Kind::Persistent(p) => {
                p.task_over(task, result);
                None
            }
            kind => {
                *kind = Kind::Over(result);
                Some(task)
            }
        }
    }
}

impl Kind {
    /// Returns true if the operation is over, or a wait for it has to end. An inactive persistent
    /// request is over.
    #[inline]
    pub(crate) fn is_settled(&self, vci: &Vci) -> bool {
        match self {
            Kind::Send(raw, _) | Kind::Recv(raw, ..) => vci.is_settled(*raw),
            Kind::Both(send, recv, ..) => vci.is_settled(*send) && vci.is_settled(*recv),
            Kind::Replace(send, recv, ..) => vci.is_settled(send.raw()) && vci.is_settled(*recv),
            Kind::Task(_) => false,
            Kind::Over(_) => true,
            Kind::Persistent(p) => p.current.as_ref().is_none_or(|current| current.is_settled(vci)),
            Kind::Generalized(g) => g.is_complete(),
        }
    }

    /// Returns true if the operation is over, so that its request can be used up.
    pub(crate) fn is_over(&self, vci: &Vci) -> bool {
        match self {
            Kind::Send(raw, _) | Kind::Recv(raw, ..) => vci.is_finished(*raw),
            Kind::Both(send, recv, ..) => vci.is_finished(*send) && vci.is_finished(*recv),
            Kind::Replace(send, recv, ..) => vci.is_finished(send.raw()) && vci.is_finished(*recv),
            Kind::Persistent(p) => p.current.as_ref().is_none_or(|current| current.is_over(vci)),
            other => other.is_settled(vci),
        }
    }

    /// Returns true if it is a message of this communicator.
    fn is_on(&self, core: &Arc<CommCore>) -> bool {
        match self {
            Kind::Send(_, own) | Kind::Recv(_, own, _) => own.is(core),
            Kind::Both(_, _, own, _) | Kind::Replace(_, _, own, _) => Arc::ptr_eq(own, core),
            Kind::Persistent(p) => p.current.as_ref().is_some_and(|current| current.is_on(core)),
            Kind::Task(_) | Kind::Over(_) | Kind::Generalized(_) => false,
        }
    }

    /// Returns the handle of the operation's communicator, as far as it is known: a failure that is
    /// kept has its own.
    pub(crate) fn comm(&self) -> Option<Comm> {
        match self {
            Kind::Send(_, own) | Kind::Recv(_, own, _) => own.handle(),
            Kind::Both(_, _, own, _) | Kind::Replace(_, _, own, _) => own.handle(),
            Kind::Task(task) => task.as_ref()?.core()?.handle(),
            Kind::Persistent(p) => p.comm(),
            Kind::Over(_) | Kind::Generalized(_) => None,
        }
    }

    /// Returns true if waiting for any request passes this one over: an inactive persistent one.
    pub(crate) fn is_inactive(&self) -> bool {
        matches!(self, Kind::Persistent(p) if p.current.is_none())
    }

    /// Takes the result of an operation that is over.
    pub(crate) fn result(self, vci: &mut Vci, comms: &Comms) -> Result<Status> {
        match self {
            Kind::Send(raw, comm) => take(vci, raw, comms.of(&comm)).map(|s| Status::of_send(s.cancelled)),
            Kind::Recv(raw, comm, ends) => {
                let core = comms.of(&comm);
                take(vci, raw, core).and_then(|s| ends.check(s, core))
            }
            Kind::Both(send, recv, core, ends) => {
                let sent = take(vci, send, &core);
                let received = take(vci, recv, &core).and_then(|s| ends.check(s, &core));
                sent.and(received)
            }
            Kind::Replace(send, recv, core, ends) => {
                let sent = vci.wait(*send).map_err(|failed| failure(failed.error, &core));
                let received = take(vci, recv, &core).and_then(|s| ends.check(s, &core));
                sent.and(received)
            }
            Kind::Over(result) => result,
            Kind::Task(_) | Kind::Persistent(_) | Kind::Generalized(_) => Ok(Status::EMPTY),
        }
    }

    /// Notes in an error the communicator of the operation.
    #[cold]
    pub(crate) fn raised(&self, error: Box<MpiError>) -> Box<MpiError> {
        raised(error, self.comm())
    }

    /// Asks for the operation to be cancelled. It still has to be waited for.
    pub(crate) fn cancel(&self, vci: &mut Vci) -> Result<()> {
        match self {
            Kind::Send(raw, _) | Kind::Recv(raw, ..) => vci.cancel_raw(*raw),
            Kind::Both(send, recv, ..) => {
                vci.cancel_raw(*send);
                vci.cancel_raw(*recv);
            }
            Kind::Replace(send, recv, ..) => {
                vci.cancel(send);
                vci.cancel_raw(*recv);
            }
            Kind::Over(_) | Kind::Generalized(_) => {}
            Kind::Persistent(p) => match &p.current {
                Some(current) => return current.cancel(vci),
                None => {
                    let text = "the persistent request is not active: start it before it is cancelled";
                    return Err(self.raised(MpiError::new(Class::REQUEST, text)));
                }
            },
            Kind::Task(_) => {
                let text = "the request is that of a collective or partitioned operation, which cannot be cancelled: wait for it";
                return Err(self.raised(MpiError::new(Class::REQUEST, text)));
            }
        }
        Ok(())
    }

    /// Ends the messages whose memory is wanted back at once.
    pub(crate) fn end_now(self, vci: &mut Vci) {
        match self {
            Kind::Send(raw, _) | Kind::Recv(raw, ..) | Kind::Replace(_, raw, ..) => vci.end_raw(raw),
            Kind::Both(send, recv, ..) => {
                vci.end_raw(send);
                vci.end_raw(recv);
            }
            Kind::Task(_) | Kind::Over(_) | Kind::Persistent(_) | Kind::Generalized(_) => {}
        }
    }

    /// Lets the operation end by itself. Returns false if it needs its request until then.
    pub(crate) fn let_go(&mut self, vci: &mut Vci) -> bool {
        match self {
            Kind::Send(raw, _) | Kind::Recv(raw, ..) => vci.free_raw(*raw),
            Kind::Both(send, recv, ..) => {
                vci.free_raw(*send);
                vci.free_raw(*recv);
            }
            // The device frees the send when its handle is dropped.
            Kind::Replace(_, recv, ..) => vci.free_raw(*recv),
            Kind::Persistent(p) => {
                p.leave(vci);
                return p.current.as_mut().is_none_or(|current| current.let_go(vci));
            }
            Kind::Task(_) => return false,
            // The program tells its end by the request.
            Kind::Generalized(g) => return g.is_complete(),
            Kind::Over(_) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is over.
    struct Over;

    impl Task for Over {
        fn advance(&mut self, _vci: &mut Vci, _objects: &mut Objects) -> Progress {
            Progress::Done(Ok(Status::EMPTY))
        }

        fn core(&self) -> Option<&CommCore> {
            None
        }

        fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_task_that_is_over_is_given_up_unless_it_is_started_again() {
        let persistent = Persistent::new(Operation::Task(None));
        for (kind, stays) in [(Kind::Task(None), false), (Kind::Persistent(Box::new(persistent)), true)] {
            let mut entry = Entry { kind, freed: false };
            let given_up = entry.task_over(Box::new(Over), Ok(Status::EMPTY));
            assert_eq!(given_up.is_none(), stays, "{:?}", entry.kind);
        }
    }
}

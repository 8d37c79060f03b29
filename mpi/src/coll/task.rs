//! Collective operations over the device: a schedule's messages on a communicator.

use std::sync::Arc;

use ch3_shim::{Comm as Channel, Mode, RawReq, Vci};
use netmod_core::Segment;

use super::call::{Call, Peers};
use super::choice::{Forced, Setting};
use super::engine::Advance;
use super::node_memory::Lane;
use super::node_setup;
use super::node_state::Decision;
use super::operation::Operation;
use super::wire::Wire;
use crate::comm::{CommCore, wake_tag};
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::objects::Objects;
use crate::status::{Status, failure};
use crate::task::{Progress, Task};

/// A collective operation of a communicator.
#[derive(Debug)]
pub(crate) struct Running(Box<Operation>);

/// The form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It ends when the operation does.
    Blocking,
    /// It starts the operation and returns a request.
    Request,
    /// It makes an operation that is started again and again. Processes may start such ones in
    /// different orders (MPI 5.0, section 6.13), so their tags tell them apart, or their lanes.
    Persistent,
}

impl Form {
    /// Returns the lane of all operations of a form; persistent ones have lanes of their own.
    fn lane(self) -> Option<Lane> {
        match self {
            Form::Blocking => Some(Lane::BLOCKING),
            Form::Request => Some(Lane::REQUEST),
            Form::Persistent => None,
        }
    }
}

/// The device, for the messages of one operation.
struct Carrier<'a> {
    vci: &'a mut Vci,
    core: &'a CommCore,
    tag: i32,
}

impl Running {
    /// Checks the arguments of a call, prepares its run, and gives it its place among those of the
    /// communicator.
    ///
    /// # Errors
    /// As [`Call::plan`].
    pub(crate) fn new(objects: &Objects, form: Form, core: &Arc<CommCore>, call: &Call) -> Result<Running> {
        let peers = core.remote().map_or(Peers::Group, |r| Peers::Remote(r.size() as usize));
        Running::with(objects, form, core, call, peers)
    }

    /// Does the same with the given processes.
    ///
    /// # Errors
    /// As [`Call::plan`].
    pub(crate) fn with(
        objects: &Objects,
        form: Form,
        core: &Arc<CommCore>,
        call: &Call,
        peers: Peers<'_>,
    ) -> Result<Running> {
        let is_group = matches!(peers, Peers::Group);
        let agrees = is_group && node_setup::agrees(core);
        let decided = core.node.decided().filter(|_| agrees);
        if let Some(fault) = decided.and_then(|d| d.fault.clone()) {
            return Err(fault);
        }
        let (mut op, same) = match form {
            // It is kept for long.
            Form::Persistent => (Box::new(Operation::new(core)), false),
            _ => objects.spares.take(core, call, is_group),
        };
        (op.lane, op.agrees, op.forced) = (form.lane(), agrees, objects.forced);
        if same {
            op.active.restart();
        } else {
            op.number = call.number();
            op.plan(objects, form, call, peers, decided)?;
        }
        op.tag = match form {
            Form::Blocking => core.next_tag(),
            Form::Request | Form::Persistent => core.next_request_tag(),
        };
        if form != Form::Persistent {
            op.enter();
        }
        Ok(Running(op))
    }

    /// Returns it as a task.
    #[inline]
    pub(crate) fn task(&mut self) -> &mut impl Task {
        &mut *self.0
    }

    /// Returns it as the task of a request.
    #[inline]
    pub(crate) fn into_task(self) -> Box<impl Task> {
        self.0
    }
}

impl Operation {
    /// Checks the arguments of a call, and prepares its run if the processes have agreed.
    fn plan(
        &mut self,
        objects: &Objects,
        form: Form,
        call: &Call,
        peers: Peers<'_>,
        decided: Option<&Decision>,
    ) -> Result<()> {
        let is_group = matches!(peers, Peers::Group);
        let place = (self.core.rank() as usize, self.core.size() as usize);
        (self.call, self.checked, self.operand) = (None, None, None);
        let made = call.check(&mut self.active, &objects.types, &objects.ops, place, peers)?;
        if made.calls_program() {
            let types = &objects.types;
            let operand = call.operand_type().and_then(|h| Some((h, types.find(h)?)));
            self.operand = operand.map(|(h, entry)| (h, Arc::clone(&entry.desc)));
        }
        if form == Form::Persistent && self.agrees {
            self.lane = self.core.node.persistent_lane();
        }
        match decided {
            Some(decision) => made.build(&mut self.active, &decision.setting(self.lane))?,
            None if self.agrees => {
                self.checked = Some(Ok(Box::new(made)));
                return Ok(());
            }
            None => made.build(&mut self.active, &Setting::unknown(place.1, Forced::default()))?,
        }
        if is_group && form != Form::Persistent && call.can_be_repeated() && self.active.is_small() {
            self.call = Some(call.clone());
        }
        Ok(())
    }

    /// Gives the operation its place among those that have not begun.
    #[inline]
    fn enter(&mut self) {
        if self.agrees {
            self.turn = Some(self.lane.map_or(0, |lane| self.core.node.enter(lane)));
        }
    }

    /// Begins the operation. False if it must wait for others that come before it.
    ///
    /// # Errors
    /// Settings that differ; no memory.
    fn begin(&mut self, vci: &mut Vci, objects: &mut Objects) -> Result<bool> {
        let Some(turn) = self.turn else { return Ok(true) };
        let node = &self.core.node;
        if node.decided().is_none()
            && !node
                .decide(vci, |vci| node_setup::begin(vci, &self.core, self.forced, objects.contexts.pool()))
        {
            return Ok(false);
        }
        if let Some(lane) = self.lane {
            if !node.is_next(lane, turn) {
                return Ok(false);
            }
            node.has_begun(lane);
            // The next one may have been asked before.
            vci.stay_awake();
        }
        self.turn = None;
        let Some(decision) = node.decided() else { return Ok(false) };
        if let Some(fault) = &decision.fault {
            return Err(fault.clone());
        }
        if let Some(checked) = self.checked.take() {
            let setting = decision.setting(self.lane);
            if let Err(e) = checked.and_then(|checked| checked.build(&mut self.active, &setting)) {
                self.checked = Some(Err(e.clone()));
                return Err(e);
            }
        }
        if let (Some(memory), Some(lane)) = (&decision.memory, self.lane) {
            let with_slots = self.active.slots() > 0;
            let place = memory.begin(lane, with_slots);
            if with_slots {
                self.active.use_node(memory, place);
                self.place = Some(place);
            }
        }
        Ok(true)
    }

    /// Returns true if the operations before it that use the same slots are over.
    #[inline]
    fn is_first(&self) -> bool {
        self.place.is_none_or(|place| self.core.node.memory().is_none_or(|node| node.is_first(place)))
    }

    /// Lets the operations behind it have the slots.
    fn leave(&mut self, has_failed: bool) {
        if let (Some(place), Some(node)) = (self.place.take(), self.core.node.memory()) {
            if has_failed {
                node.spoil();
            }
            node.end(place);
        }
    }

    /// Returns a new handle of the reduction's type if that of the call was freed.
    fn another_handle(&mut self, objects: &mut Objects) -> Result<Option<Datatype>> {
        let Some((handle, desc)) = &self.operand else { return Ok(None) };
        if objects.types.find(*handle).is_some_and(|entry| Arc::ptr_eq(&entry.desc, desc)) {
            return Ok(None);
        }
        self.alias = Some(objects.types.lend(desc)?);
        Ok(self.alias)
    }
}

impl Task for Operation {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        if let Some(alias) = self.alias.take()
            && let Err(e) = objects.types.remove(alias)
        {
            return Progress::Done(Err(e));
        }
        match self.begin(vci, objects) {
            Ok(true) if self.is_first() => {}
            Ok(_) => return Progress::Blocked,
            Err(e) => return Progress::Done(Err(self.core.raised(e))),
        }
        let mut carrier = Carrier { vci, core: &self.core, tag: self.tag };
        let advanced = self.active.advance(&mut carrier);
        if matches!(advanced, Advance::Done | Advance::Failed(_)) {
            self.leave(matches!(advanced, Advance::Failed(_)));
        }
        match advanced {
            Advance::Blocked => Progress::Blocked,
            Advance::UserOp(mut work) => match self.another_handle(objects) {
                Ok(other) => {
                    if let Some(other) = other {
                        work.set_datatype(other);
                    }
                    Progress::Call(Box::new(move || work.run()))
                }
                Err(e) => Progress::Done(Err(e)),
            },
            Advance::Done => Progress::Done(Ok(Status::EMPTY)),
            Advance::Failed(e) => Progress::Done(Err(self.core.raised(e))),
        }
    }

    fn core(&self) -> Option<&CommCore> {
        Some(&self.core)
    }

    fn called(&mut self) {
        self.active.resume();
    }

    /// Keeps what the next operation can use.
    #[inline]
    fn retire(self: Box<Self>, objects: &Objects) {
        if objects.comms.have(&self.core) {
            objects.spares.keep(self);
        }
    }

    fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
        self.active.restart();
        self.enter();
        Ok(())
    }
}

impl Carrier<'_> {
    /// Returns the rank in the job of a process of the schedule, and its channel if it is of the
    /// remote group.
    fn peer(&self, rank: u32) -> Result<(i32, bool)> {
        let local = self.core.size();
        let (place, remote) = match self.core.remote() {
            Some(remote) if rank >= local => (remote.place(rank - local), true),
            _ => (self.core.group().place(rank), false),
        };
        let missing =
            || MpiError::new(Class::INTERN, format!("a schedule names process {rank}, which is not there"));
        Ok((place.ok_or_else(missing)?.cast_signed(), remote))
    }

    /// Returns the same, unless the communicator was revoked.
    #[inline]
    fn usable_peer(&self, rank: u32) -> Result<(i32, bool)> {
        if self.core.is_revoked() { Err(self.revoked()) } else { self.peer(rank) }
    }

    #[cold]
    fn revoked(&self) -> Box<MpiError> {
        failure(ch3_shim::Error::Revoked, self.core)
    }

    fn channel(&self, remote: bool) -> Channel {
        if remote { self.core.coll_out } else { self.core.coll }
    }
}

impl Wire for Carrier<'_> {
    type Req = RawReq;

    fn send(&mut self, to: u32, data: Segment) -> Result<RawReq> {
        let (place, remote) = self.usable_peer(to)?;
        Ok(self.vci.isend_raw(data, place, self.tag, self.channel(remote), Mode::Standard)?)
    }

    fn recv(&mut self, from: u32, room: Segment) -> Result<RawReq> {
        let (place, _) = self.usable_peer(from)?;
        Ok(self.vci.irecv_raw(room, place, self.tag, self.core.coll)?)
    }

    fn await_wake(&mut self, lane: Lane, from: u32) -> Result<RawReq> {
        let (place, _) = self.peer(from)?;
        Ok(self.vci.irecv_raw(Segment::empty(), place, wake_tag(lane), self.core.coll)?)
    }

    fn wake(&mut self, lane: Lane, to: u32) -> Result<RawReq> {
        let (place, remote) = self.peer(to)?;
        let (tag, channel) = (wake_tag(lane), self.channel(remote));
        Ok(self.vci.isend_raw(Segment::empty(), place, tag, channel, Mode::Standard)?)
    }

    fn withdraw(&mut self, req: RawReq) {
        self.vci.cancel_raw(req);
        self.vci.free_raw(req);
    }

    fn shares_cores(&self) -> bool {
        self.vci.shares_cores()
    }

    fn is_going_to_sleep(&self) -> bool {
        self.vci.is_going_to_sleep()
    }

    fn given_up(&self) -> Option<Box<MpiError>> {
        self.core.is_revoked().then(|| self.revoked())
    }

    fn stay_awake(&mut self) {
        self.vci.stay_awake();
    }

    fn take(&mut self, req: RawReq) -> Option<Result<usize>> {
        if !self.vci.is_finished(req) {
            return None;
        }
        Some(self.vci.take_raw(req).map(|status| status.len).map_err(|e| failure(e, self.core)))
    }
}

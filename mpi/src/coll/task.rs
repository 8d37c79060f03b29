//! Collective operations over the device: a schedule's messages on a communicator.

use std::sync::Arc;

use ch3_shim::{Comm as Channel, Mode, RawReq, Vci};
use netmod_core::Segment;

use super::call::{Call, Peers};
use super::engine::{Active, Advance, Wire};
use crate::comm::CommCore;
use crate::datatype::TypeDesc;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::objects::Objects;
use crate::status::{Status, failure};
use crate::task::{Progress, Task};

/// A collective operation of a communicator.
#[derive(Debug)]
pub(crate) struct Running {
    active: Active<RawReq>,
    core: Arc<CommCore>,
    /// The tag of its messages, which no other operation of the communicator has.
    tag: i32,
    /// The type of a reduction, by the handle that the call gave.
    operand: Option<(Datatype, Arc<TypeDesc>)>,
    /// A handle that an operation of the program is given, since the call's was freed.
    alias: Option<Datatype>,
}

/// The device, for the messages of one operation.
struct Carrier<'a> {
    vci: &'a mut Vci,
    core: &'a CommCore,
    tag: i32,
}

impl Running {
    /// Checks the arguments of a call and prepares its run.
    ///
    /// # Errors
    /// As [`Call::plan`].
    pub(crate) fn new(objects: &Objects, core: Arc<CommCore>, call: &Call) -> Result<Running> {
        let peers = core.remote().map_or(Peers::Group, |r| Peers::Remote(r.size() as usize));
        Running::with(objects, core, call, peers)
    }

    /// Does the same with the given processes.
    ///
    /// # Errors
    /// As [`Call::plan`].
    pub(crate) fn with(
        objects: &Objects,
        core: Arc<CommCore>,
        call: &Call,
        peers: Peers<'_>,
    ) -> Result<Running> {
        let place = (core.rank() as usize, core.size() as usize);
        let active = call.plan(&objects.types, &objects.ops, place, peers)?;
        let found = |h| objects.types.find(h).map(|entry| (h, Arc::clone(&entry.desc)));
        let operand = call.operand_type().and_then(found);
        Ok(Running { active, core, tag: 0, operand, alias: None })
    }

    /// Gives a blocking operation its place among those of the communicator.
    pub(super) fn place(&mut self) {
        self.tag = self.core.next_tag();
    }

    /// Gives an operation with a request its place among those of the communicator.
    pub(super) fn place_request(&mut self) {
        self.tag = self.core.next_request_tag();
    }
}

impl Running {
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

impl Task for Running {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        if let Some(alias) = self.alias.take()
            && let Err(e) = objects.types.remove(alias)
        {
            return Progress::Done(Err(e));
        }
        let mut carrier = Carrier { vci, core: &self.core, tag: self.tag };
        match self.active.advance(&mut carrier) {
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

    fn restart(&mut self, _objects: &mut Objects) -> Result<()> {
        self.active.restart();
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

    fn channel(&self, remote: bool) -> Channel {
        if remote { self.core.coll_out } else { self.core.coll }
    }
}

impl Wire for Carrier<'_> {
    type Req = RawReq;

    fn send(&mut self, to: u32, data: Segment) -> Result<RawReq> {
        let (place, remote) = self.peer(to)?;
        Ok(self.vci.isend_raw(data, place, self.tag, self.channel(remote), Mode::Standard)?)
    }

    fn recv(&mut self, from: u32, room: Segment) -> Result<RawReq> {
        let (place, _) = self.peer(from)?;
        Ok(self.vci.irecv_raw(room, place, self.tag, self.core.coll)?)
    }

    fn take(&mut self, req: RawReq) -> Option<Result<usize>> {
        if !self.vci.is_finished(req) {
            return None;
        }
        Some(self.vci.take_raw(req).map(|status| status.len).map_err(|e| failure(e, self.core)))
    }
}

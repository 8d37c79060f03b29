//! Probes, and the reception of messages that they have matched.

use netmod_core::Segment;

use crate::comm::CommRef;
use crate::datatype::Buf;
use crate::error::Result;
use crate::handle::{Comm, Message, Request};
use crate::instance::{Mpi, State};
use crate::matched::{Matched, Received, look, take};
use crate::request::{Ends, Kind};
use crate::status::Status;
use crate::target::Target;

impl Mpi {
    /// Looks for a message that a receive with these arguments would match (`MPI_Iprobe`). Returns
    /// true and its status if there is one.
    ///
    /// # Errors
    /// A bad argument; a source that is lost.
    pub fn iprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<(bool, Status)> {
        let from = self.with(|s| Ok(Target::of_recv(&s.objects.comms, source, tag, comm)?.own()))?;
        let found = self.test_until(|vci, _, _| from.lend().and_then(|from| look(vci, from)).transpose())?;
        Ok((found.is_some(), found.unwrap_or(Status::EMPTY)))
    }

    /// Waits for such a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`Mpi::iprobe`].
    pub fn probe(&self, source: i32, tag: i32, comm: Comm) -> Result<Status> {
        let from = self.with(|s| Ok(Target::of_recv(&s.objects.comms, source, tag, comm)?.own()))?;
        self.wait_until(|vci, _, _| from.lend().and_then(|from| look(vci, from)).transpose())
    }

    /// Works like [`Mpi::iprobe`]; the message is matched, and is received by its handle alone
    /// (`MPI_Improbe`).
    ///
    /// # Errors
    /// As [`Mpi::iprobe`].
    pub fn improbe(&self, source: i32, tag: i32, comm: Comm) -> Result<(bool, Message, Status)> {
        let from = self.with(|s| Ok(Target::of_recv(&s.objects.comms, source, tag, comm)?.own()))?;
        let found = self.test_until(|vci, objects, _| {
            from.lend().and_then(|from| take(vci, &mut objects.messages, from)).transpose()
        })?;
        Ok(match found {
            Some((message, status)) => (true, message, status),
            None => (false, Message::NULL, Status::EMPTY),
        })
    }

    /// Waits for a message and matches it (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`Mpi::iprobe`].
    pub fn mprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<(Message, Status)> {
        let from = self.with(|s| Ok(Target::of_recv(&s.objects.comms, source, tag, comm)?.own()))?;
        self.wait_until(|vci, objects, _| {
            from.lend().and_then(|from| take(vci, &mut objects.messages, from)).transpose()
        })
    }

    /// Starts to receive a matched message, whose handle becomes null (`MPI_Imrecv`).
    ///
    /// # Errors
    /// A bad argument.
    pub fn imrecv(&self, buf: Buf, message: &mut Message) -> Result<Request> {
        self.with(|s| match claim(s, &buf, message)? {
            Some((matched, room, ends)) => {
                let (raw, core) = matched.receive(&mut s.dev, room);
                s.requests.insert(Kind::Recv(raw, CommRef::Held(core), ends))
            }
            None => Ok(Request::FROM_NOBODY),
        })
    }

    /// Receives a matched message, whose handle becomes null (`MPI_Mrecv`).
    ///
    /// # Errors
    /// A bad argument; a message that does not fit; a peer that is lost.
    pub fn mrecv(&self, buf: Buf, message: &mut Message) -> Result<Status> {
        let begun = self.with(|s| {
            let Some((matched, room, ends)) = claim(s, &buf, message)? else { return Ok(None) };
            Ok(Some((matched.receive_at_once(&mut s.dev, room), ends)))
        })?;
        let Some(((received, core), ends)) = begun else { return Ok(Status::OF_NOBODY) };
        let status = match received {
            Received::Over(status) => Status::of_message(status, &core),
            Received::UnderWay(raw) => self.wait_raw(raw, &core)?,
        };
        ends.check(status, &core)
    }
}

/// Takes a matched message, whose handle becomes null, with the memory for it. `None` for one of
/// nobody.
fn claim(s: &mut State, buf: &Buf, message: &mut Message) -> Result<Option<(Matched, Segment, Ends)>> {
    let objects = &mut s.objects;
    let of_message = |e| match objects.messages.find(*message) {
        Some(matched) => matched.raised(e),
        None => e,
    };
    let (room, ends) = Ends::of_room(&objects.types, buf).map_err(of_message)?;
    if *message == Message::NO_PROC {
        *message = Message::NULL;
        return Ok(None);
    }
    let matched = objects.messages.remove(*message)?;
    *message = Message::NULL;
    Ok(Some((matched, room, ends)))
}

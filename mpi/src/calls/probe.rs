//! Probes, and the reception of messages that they have matched.

use std::sync::Arc;

use ch3_shim::RawReq;

use crate::comm::{CommCore, CommRef};
use crate::datatype::Buf;
use crate::error::Result;
use crate::handle::{Comm, Message, Request};
use crate::instance::{Mpi, State};
use crate::matched::{look, take};
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
        self.with(|s| match begin(s, &buf, message)? {
            Some((raw, core, ends)) => s.requests.insert(Kind::Recv(raw, CommRef::Held(core), ends)),
            None => Ok(Request::FROM_NOBODY),
        })
    }

    /// Receives a matched message, whose handle becomes null (`MPI_Mrecv`).
    ///
    /// # Errors
    /// A bad argument; a message that does not fit; a peer that is lost.
    pub fn mrecv(&self, buf: Buf, message: &mut Message) -> Result<Status> {
        let Some((raw, core, ends)) = self.with(|s| begin(s, &buf, message))? else {
            return Ok(Status::OF_NOBODY);
        };
        self.wait_raw(raw, &core).and_then(|status| ends.check(status, &core))
    }
}

/// Starts to receive a matched message, whose handle becomes null. `None` for one of nobody.
fn begin(s: &mut State, buf: &Buf, message: &mut Message) -> Result<Option<(RawReq, Arc<CommCore>, Ends)>> {
    let State { dev, objects, .. } = s;
    let of_message = |e| match objects.messages.find(*message) {
        Some(matched) => matched.raised(e),
        None => e,
    };
    let (room, desc) = objects.types.typed_segment(buf).map_err(of_message)?;
    let ends = Ends::of(desc);
    if *message == Message::NO_PROC {
        *message = Message::NULL;
        return Ok(None);
    }
    let matched = objects.messages.remove(*message)?;
    *message = Message::NULL;
    let (raw, core) = matched.receive(dev, room);
    Ok(Some((raw, core, ends)))
}

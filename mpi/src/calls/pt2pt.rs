//! Messages between two processes.

use std::sync::Arc;

use ch3_shim::{RawReq, Vci};
use netmod_core::Time;

use crate::buffers;
use crate::comm::{CommCore, CommRef};
use crate::datatype::Buf;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Request};
use crate::instance::{Mpi, State};
use crate::request::{Ends, Kind, Requests};
use crate::status::{Status, failure, take};
use crate::target::{SendMode, Target, begin_recv, begin_send};

/// A receive after its start.
enum Got {
    Over(Status),
    /// It goes on.
    UnderWay(RawReq, Arc<CommCore>, Ends),
}

/// A send and a receive that were begun.
struct Both<'a> {
    send: RawReq,
    receive: RawReq,
    core: &'a Arc<CommCore>,
    ends: Ends,
}

/// Returns the error of a receive that is over with its call: it does not wait for the processes
/// that live, as one with a request does.
#[cold]
fn ended(mut error: Box<MpiError>) -> Box<MpiError> {
    if error.class == Class::PROC_FAILED_PENDING {
        error.class = Class::PROC_FAILED;
    }
    error
}

impl Mpi {
    /// Waits for a message of this call as long as nothing else needs the thread, and returns its
    /// status.
    ///
    /// `None` if the wait is to go on by [`Mpi::wait_raw`]: other threads, tasks or windows may
    /// want their part, or the message has not ended as usual.
    #[inline]
    fn wait_alone(
        &self,
        vci: &mut Vci,
        requests: &Requests,
        raw: RawReq,
    ) -> Result<Option<ch3_shim::Status>> {
        if !self.has_one_caller() || requests.has_other_work() {
            return Ok(vci.take_plain(raw));
        }
        let mut status = None;
        let waited = vci.wait_until(Time::NEVER, |vci| {
            status = vci.take_plain(raw);
            status.is_some() || vci.is_settled(raw) || vci.has_alarm() || self.is_wanted()
        });
        if let Err(e) = waited {
            vci.end_raw(raw);
            return Err(e.into());
        }
        Ok(status)
    }

    /// Waits for a message whose memory is the caller's for the length of this call.
    ///
    /// # Errors
    /// The failure of the message, which is over in any case.
    pub(crate) fn wait_raw(&self, raw: RawReq, core: &CommCore) -> Result<Status> {
        let waited = self.wait_until(|vci, _, _| vci.is_settled(raw).then(|| Ok(take(vci, raw, core))));
        match waited {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(e)) | Err(e) => {
                // It may go on: after a failure that others than this process must know of, or if
                // the device has failed as a whole.
                let _ = self.with(|s| {
                    s.dev.end_raw(raw);
                    Ok(())
                });
                Err(e)
            }
        }
    }

    fn send_in_mode(&self, mode: SendMode, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<()> {
        let under_way = self.with(|s| {
            let State { dev, objects, .. } = s;
            let target = Target::of_send(&objects.comms, dest, tag, comm)?;
            let data = objects.types.segment(&buf)?;
            if mode == SendMode::Buffered {
                buffers::send(dev, &mut objects.buffers, data, target)?;
                return Ok(None);
            }
            let raw = begin_send(dev, data, target, mode)?;
            if raw.is_over() {
                dev.flush();
                return Ok(None);
            }
            Ok(Some((raw, Arc::clone(target.core))))
        })?;
        under_way.map_or(Ok(()), |(raw, core)| self.wait_raw(raw, &core).map(|_| ()))
    }

    fn isend_in_mode(&self, mode: SendMode, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let target = Target::of_send(&objects.comms, dest, tag, comm)?;
            let data = objects.types.segment(&buf)?;
            if mode == SendMode::Buffered {
                buffers::send(dev, &mut objects.buffers, data, target)?;
                return Ok(Request::COMPLETE);
            }
            let raw = begin_send(dev, data, target, mode)?;
            if raw.is_over() {
                return Ok(Request::COMPLETE);
            }
            requests.insert(Kind::Send(raw, CommRef::of_call(comm)))
        })
    }

    /// Sends a message (`MPI_Send`).
    ///
    /// # Errors
    /// A bad argument; a peer that is lost.
    #[inline]
    pub fn send(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_in_mode(SendMode::Standard, buf, dest, tag, comm)
    }

    /// Sends a message that is copied to the attached buffer (`MPI_Bsend`).
    ///
    /// # Errors
    /// As [`Mpi::send`]; a buffer without room.
    pub fn bsend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_in_mode(SendMode::Buffered, buf, dest, tag, comm)
    }

    /// Sends a message and waits until its receiver has matched it (`MPI_Ssend`).
    ///
    /// # Errors
    /// As [`Mpi::send`].
    pub fn ssend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_in_mode(SendMode::Synchronous, buf, dest, tag, comm)
    }

    /// Sends a message whose receive is posted (`MPI_Rsend`).
    ///
    /// # Errors
    /// As [`Mpi::send`].
    pub fn rsend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<()> {
        self.send_in_mode(SendMode::Ready, buf, dest, tag, comm)
    }

    /// Starts to send a message (`MPI_Isend`).
    ///
    /// # Errors
    /// As [`Mpi::send`].
    #[inline]
    pub fn isend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.isend_in_mode(SendMode::Standard, buf, dest, tag, comm)
    }

    /// Starts a buffered send (`MPI_Ibsend`).
    ///
    /// # Errors
    /// As [`Mpi::bsend`].
    pub fn ibsend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.isend_in_mode(SendMode::Buffered, buf, dest, tag, comm)
    }

    /// Starts a synchronous send (`MPI_Issend`).
    ///
    /// # Errors
    /// As [`Mpi::send`].
    pub fn issend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.isend_in_mode(SendMode::Synchronous, buf, dest, tag, comm)
    }

    /// Starts a ready send (`MPI_Irsend`).
    ///
    /// # Errors
    /// As [`Mpi::send`].
    pub fn irsend(&self, buf: Buf, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.isend_in_mode(SendMode::Ready, buf, dest, tag, comm)
    }

    /// Receives a message (`MPI_Recv`).
    ///
    /// # Errors
    /// A bad argument; a message that does not fit; a peer that is lost.
    #[inline]
    pub fn recv(&self, buf: Buf, source: i32, tag: i32, comm: Comm) -> Result<Status> {
        let got = self.with(|s| {
            let State { dev, objects, requests } = s;
            let target = Target::of_recv(&objects.comms, source, tag, comm)?;
            let (room, ends) = Ends::of_room(&objects.types, &buf)?;
            let raw = begin_recv(dev, room, target)?;
            if raw.is_over() {
                return Ok(Got::Over(Status::OF_NOBODY));
            }
            match self.wait_alone(dev, requests, raw)? {
                Some(status) => {
                    ends.check(Status::of_message(status, target.core), target.core).map(Got::Over)
                }
                None => Ok(Got::UnderWay(raw, Arc::clone(target.core), ends)),
            }
        });
        match got.map_err(ended)? {
            Got::Over(status) => Ok(status),
            Got::UnderWay(raw, core, ends) => {
                self.wait_raw(raw, &core).map_err(ended).and_then(|status| ends.check(status, &core))
            }
        }
    }

    /// Starts to receive a message (`MPI_Irecv`).
    ///
    /// # Errors
    /// A bad argument; a peer that is lost.
    #[inline]
    pub fn irecv(&self, buf: Buf, source: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let target = Target::of_recv(&objects.comms, source, tag, comm)?;
            let (room, ends) = Ends::of_room(&objects.types, &buf)?;
            let raw = begin_recv(dev, room, target)?;
            if raw.is_over() {
                return Ok(Request::FROM_NOBODY);
            }
            requests.insert(Kind::Recv(raw, CommRef::of_call(comm), ends))
        })
    }

    /// Starts a receive and a send, and gives both to `then`.
    #[inline(always)]
    fn begin_both<T>(
        &self,
        (data, dest, send_tag): (Buf, i32, i32),
        (room, source, recv_tag): (Buf, i32, i32),
        comm: Comm,
        then: impl FnOnce(&mut Vci, &mut Requests, Both<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let to = Target::of_send(&objects.comms, dest, send_tag, comm)?;
            let from = Target::of_recv(&objects.comms, source, recv_tag, comm)?;
            let data = objects.types.segment(&data)?;
            let (room, ends) = Ends::of_room(&objects.types, &room)?;
            let receive = begin_recv(dev, room, from)?;
            match begin_send(dev, data, to, SendMode::Standard) {
                Ok(send) => then(dev, requests, Both { send, receive, core: to.core, ends }),
                Err(e) => {
                    dev.end_raw(receive);
                    Err(e)
                }
            }
        })
    }

    /// Sends a message and receives one (`MPI_Sendrecv`).
    ///
    /// # Errors
    /// As [`Mpi::send`] and [`Mpi::recv`].
    #[allow(clippy::too_many_arguments)]
    pub fn sendrecv(
        &self,
        data: Buf,
        dest: i32,
        send_tag: i32,
        room: Buf,
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Status> {
        let data = (data, dest, send_tag);
        let done = self.begin_both(data, (room, source, recv_tag), comm, |dev, requests, both| {
            let Both { send, receive, core, ends } = both;
            let received = match receive.is_over() {
                true => Some(Ok(Status::OF_NOBODY)),
                false => self
                    .wait_alone(dev, requests, receive)
                    .inspect_err(|_| dev.end_raw(send))
                    .map_err(ended)?
                    .map(|status| ends.check(Status::of_message(status, core), core)),
            };
            match received {
                Some(received) if send.is_over() => received.map(Ok),
                received => Ok(Err((received, send, receive, Arc::clone(core), ends))),
            }
        })?;
        let (received, send, receive, core, ends) = match done {
            Ok(status) => return Ok(status),
            Err(under_way) => under_way,
        };
        let received = received
            .unwrap_or_else(|| self.wait_raw(receive, &core).and_then(|status| ends.check(status, &core)))
            .map_err(ended);
        let sent = if send.is_over() { Ok(Status::EMPTY) } else { self.wait_raw(send, &core) };
        sent.and(received)
    }

    /// Starts to send a message and to receive one (`MPI_Isendrecv`).
    ///
    /// # Errors
    /// As [`Mpi::isend`] and [`Mpi::irecv`].
    #[allow(clippy::too_many_arguments)]
    pub fn isendrecv(
        &self,
        data: Buf,
        dest: i32,
        send_tag: i32,
        room: Buf,
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Request> {
        let data = (data, dest, send_tag);
        self.begin_both(data, (room, source, recv_tag), comm, |_, requests, both| {
            let Both { send, receive, core, ends } = both;
            requests.insert(Kind::Both(send, receive, Arc::clone(core), ends))
        })
    }

    /// Sends a message and receives one into the same buffer (`MPI_Sendrecv_replace`).
    ///
    /// # Errors
    /// As [`Mpi::sendrecv`].
    pub fn sendrecv_replace(
        &self,
        buf: Buf,
        dest: i32,
        send_tag: i32,
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Status> {
        let mut request = self.isendrecv_replace(buf, dest, send_tag, source, recv_tag, comm)?;
        let result = self.wait(&mut request);
        if !request.is_null() {
            // It goes on after a failure that this process must know of; its memory is wanted back.
            self.with(|s| {
                let entry = s.requests.table.remove(request)?;
                entry.kind.end_now(&mut s.dev);
                Ok(())
            })?;
        }
        result
    }

    /// Starts both for a replacement: the data is copied first, and the device keeps it.
    fn begin_replace(
        &self,
        buf: Buf,
        (dest, send_tag): (i32, i32),
        (source, recv_tag): (i32, i32),
        comm: Comm,
    ) -> Result<(ch3_shim::Request, RawReq, Arc<CommCore>, Ends)> {
        self.with(|s| {
            let State { dev, objects, .. } = s;
            let to = Target::of_send(&objects.comms, dest, send_tag, comm)?;
            let from = Target::of_recv(&objects.comms, source, recv_tag, comm)?;
            let mut data = objects.types.segment(&buf)?;
            let mut packed = Vec::with_capacity(data.total());
            data.pack_vec(data.total(), &mut packed);
            let (room, ends) = Ends::of_room(&objects.types, &buf)?;
            let receive = begin_recv(dev, room, from)?;
            match dev.isend(packed, to.place, to.tag, to.core.out) {
                Ok(send) => Ok((send, receive, Arc::clone(to.core), ends)),
                Err(failed) => {
                    dev.end_raw(receive);
                    Err(failure(failed.error, to.core))
                }
            }
        })
    }

    /// Starts to send a message and to receive one into the same buffer
    /// (`MPI_Isendrecv_replace`).
    ///
    /// # Errors
    /// As [`Mpi::isendrecv`].
    pub fn isendrecv_replace(
        &self,
        buf: Buf,
        dest: i32,
        send_tag: i32,
        source: i32,
        recv_tag: i32,
        comm: Comm,
    ) -> Result<Request> {
        let (send, receive, core, ends) =
            self.begin_replace(buf, (dest, send_tag), (source, recv_tag), comm)?;
        self.with(|s| s.requests.insert(Kind::Replace(Box::new(send), receive, core, ends)))
    }
}

//! Streams, communicators that belong to them, and messages between them.

use std::sync::Arc;

use ch3_shim::{Comm as Channel, Mode, RawReq, Vci};

use crate::comm::{CommCore, CommRef};
use crate::datatype::Buf;
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::{Comm, Info, Request, Stream};
use crate::instance::{Mpi, State};
use crate::objects::Objects;
use crate::request::{Ends, Kind};
use crate::status::{Status, failure};
use crate::streams::{CommStreams, HeldStream, MOST, not_multiplex};
use crate::target::Target;

/// Types of streams that are queues of accelerators, as an info names them.
const QUEUES: [&str; 3] = ["cudaStream_t", "hipStream_t", "ze_command_queue_handle_t"];

/// The streams between which a message goes, by their indices.
#[derive(Clone, Copy)]
struct Pair {
    source: i32,
    dest: i32,
}

/// Checks the indices of a message, and returns the channel for it. `ranks` are those of sender and
/// receiver; `None` for any, or nobody.
fn channel(
    vci: &mut Vci,
    objects: &mut Objects,
    comm: Comm,
    pair: Pair,
    [source, dest]: [Option<u32>; 2],
) -> Result<Channel> {
    let comm = objects.comms.get_mut(comm)?;
    let streams = comm.streams.as_mut().ok_or_else(not_multiplex)?;
    let from = streams.index("source_stream_index", source, pair.source)?;
    let to = streams.index("dest_stream_index", dest, pair.dest)?;
    let core = &comm.core;
    if core.is_revoked() {
        return Err(failure(ch3_shim::Error::Revoked, core));
    }
    let others = core.others(vci.size());
    streams.channel(vci, (from, to), core.out, others)
}

/// Returns a rank that is that of a process.
fn process(rank: i32) -> Option<u32> {
    u32::try_from(rank).ok()
}

impl Mpi {
    /// Makes a stream (`MPIX_Stream_create`).
    ///
    /// # Errors
    /// A bad info, or one that asks for the queue of an accelerator; too many streams.
    pub fn stream_create(&self, info: Info) -> Result<Stream> {
        let kind = self.with(|s| {
            let infos = s.objects.anytime.infos();
            let pairs = infos.pairs(info)?;
            Ok(pairs.iter().find(|(key, _)| key == "type").map(|(_, value)| value.clone()))
        })?;
        match kind {
            Some(kind) if QUEUES.contains(&kind.as_str()) => {
                let text =
                    format!("a stream of the type {kind} is not to be had: accelerators are not supported");
                Err(MpiError::new(Class::UNSUPPORTED_OPERATION, text))
            }
            _ => self.streams().create(),
        }
    }

    /// Frees a stream (`MPIX_Stream_free`), and sets it to null.
    ///
    /// # Errors
    /// If it is none, or a communicator has it.
    pub fn stream_free(&self, stream: &mut Stream) -> Result<()> {
        self.streams().free(*stream)?;
        *stream = Stream::NULL;
        Ok(())
    }

    /// Checks that a stream is one, or null.
    ///
    /// # Errors
    /// If it is neither.
    pub fn stream_check(&self, stream: Stream) -> Result<()> {
        self.streams().hold(stream).map(|_| ())
    }

    /// Makes progress once, also for what is polled (`MPIX_Stream_progress`).
    ///
    /// # Errors
    /// A bad stream; if the device fails as a whole.
    pub fn stream_progress(&self, stream: Stream) -> Result<()> {
        self.stream_check(stream)?;
        self.progress()
    }

    /// Duplicates a communicator, without its attributes, for a stream of each process
    /// (`MPIX_Stream_comm_create`).
    ///
    /// # Errors
    /// A bad handle; no context id.
    pub fn stream_comm_create(&self, comm: Comm, stream: Stream) -> Result<Comm> {
        let stream = self.streams().hold(stream)?;
        self.dup_for(comm, CommStreams::single(stream))
    }

    /// Duplicates an intracommunicator, without its attributes, for several streams of each process
    /// (`MPIX_Stream_comm_create_multiplex`). A process that names none has the null stream.
    ///
    /// # Errors
    /// A bad handle; too many streams; no context id.
    pub fn stream_comm_create_multiplex(&self, comm: Comm, streams: &[Stream]) -> Result<Comm> {
        if streams.len() > MOST {
            let text = format!(
                "{} streams are given; a communicator has at most {MOST} of a process",
                streams.len()
            );
            return Err(MpiError::new(Class::ARG, text));
        }
        let null = [Stream::NULL];
        let streams = if streams.is_empty() { &null } else { streams };
        let own: Vec<HeldStream> =
            streams.iter().map(|stream| self.streams().hold(*stream)).collect::<Result<_>>()?;
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        let party = Party::of_all(&core);
        let told = self.gather_records(party, (own.len() as u32).to_le_bytes().to_vec());
        if told.is_err() {
            self.refuse_agreement(&Party::of_all(&core))?;
        }
        let counts = told?.as_chunks().0.iter().map(|count| u32::from_le_bytes(*count)).collect();
        self.dup_for(comm, CommStreams::multiplex(own, counts))
    }

    /// Returns the stream of a communicator with an index in this process; null if there is none
    /// (`MPIX_Comm_get_stream`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_stream(&self, comm: Comm, index: i32) -> Result<Stream> {
        self.with(|s| {
            let streams = &s.objects.comms.get(comm)?.streams;
            Ok(streams.as_ref().map_or(Stream::NULL, |streams| streams.stream(index)))
        })
    }

    /// Starts a send between streams.
    fn begin_between(
        s: &mut State,
        (buf, dest, tag, comm): (Buf, i32, i32, Comm),
        pair: Pair,
    ) -> Result<(RawReq, Arc<CommCore>)> {
        let State { dev, objects, .. } = s;
        let to = Target::of_send(&objects.comms, dest, tag, comm)?.own();
        let data = objects.types.segment(&buf)?;
        let channel = channel(dev, objects, comm, pair, [Some(to.core.rank()), process(dest)])?;
        let raw = dev.isend_raw(data, to.place, to.tag, channel, Mode::Standard);
        raw.map(|raw| (raw, Arc::clone(&to.core))).map_err(|e| failure(e, &to.core))
    }

    /// Starts a receive between streams.
    fn await_between(
        s: &mut State,
        (buf, source, tag, comm): (Buf, i32, i32, Comm),
        pair: Pair,
    ) -> Result<(RawReq, Arc<CommCore>, Ends)> {
        let State { dev, objects, .. } = s;
        let from = Target::of_recv(&objects.comms, source, tag, comm)?.own();
        let (room, ends) = Ends::of_room(&objects.types, &buf)?;
        let channel = channel(dev, objects, comm, pair, [process(source), Some(from.core.rank())])?;
        let raw = dev.irecv_raw(room, from.place, from.tag, channel);
        raw.map(|raw| (raw, Arc::clone(&from.core), ends)).map_err(|e| failure(e, &from.core))
    }

    /// Sends a message from a stream of this process to one of another (`MPIX_Stream_send`).
    ///
    /// # Errors
    /// As [`Mpi::send`]; a communicator that is not multiplex, or has no such stream.
    pub fn stream_send(&self, buf: Buf, dest: i32, tag: i32, comm: Comm, from: i32, to: i32) -> Result<()> {
        let under_way = self.with(|s| {
            let (raw, core) = Mpi::begin_between(s, (buf, dest, tag, comm), Pair { source: from, dest: to })?;
            if raw.is_over() {
                s.dev.flush();
                return Ok(None);
            }
            Ok(Some((raw, core)))
        })?;
        under_way.map_or(Ok(()), |(raw, core)| self.wait_raw(raw, &core).map(|_| ()))
    }

    /// Works like [`Mpi::stream_send`] with a request (`MPIX_Stream_isend`).
    ///
    /// # Errors
    /// As [`Mpi::stream_send`].
    pub fn stream_isend(
        &self,
        buf: Buf,
        dest: i32,
        tag: i32,
        comm: Comm,
        from: i32,
        to: i32,
    ) -> Result<Request> {
        self.with(|s| {
            let (raw, _) = Mpi::begin_between(s, (buf, dest, tag, comm), Pair { source: from, dest: to })?;
            if raw.is_over() {
                return Ok(Request::COMPLETE);
            }
            s.requests.insert(Kind::Send(raw, CommRef::Named(comm)))
        })
    }

    /// Receives a message from a stream of another process in one of this (`MPIX_Stream_recv`).
    ///
    /// # Errors
    /// As [`Mpi::recv`]; a communicator that is not multiplex, or has no such stream.
    pub fn stream_recv(
        &self,
        buf: Buf,
        source: i32,
        tag: i32,
        comm: Comm,
        from: i32,
        to: i32,
    ) -> Result<Status> {
        let begun =
            self.with(|s| Mpi::await_between(s, (buf, source, tag, comm), Pair { source: from, dest: to }))?;
        let (raw, core, ends) = begun;
        if raw.is_over() {
            return Ok(Status::OF_NOBODY);
        }
        self.wait_raw(raw, &core).and_then(|status| ends.check(status, &core))
    }

    /// Works like [`Mpi::stream_recv`] with a request (`MPIX_Stream_irecv`).
    ///
    /// # Errors
    /// As [`Mpi::stream_recv`].
    pub fn stream_irecv(
        &self,
        buf: Buf,
        source: i32,
        tag: i32,
        comm: Comm,
        from: i32,
        to: i32,
    ) -> Result<Request> {
        self.with(|s| {
            let pair = Pair { source: from, dest: to };
            let (raw, _, ends) = Mpi::await_between(s, (buf, source, tag, comm), pair)?;
            if raw.is_over() {
                return Ok(Request::FROM_NOBODY);
            }
            s.requests.insert(Kind::Recv(raw, CommRef::Named(comm), ends))
        })
    }
}

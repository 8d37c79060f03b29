//! The origin's side: operations on memory that this process can access, and requests for others.

use std::sync::Arc;

use ch3_shim::shared_memory::PeerMemory;
use ch3_shim::{Failed, RawReq, Request as Message, Vci};
use netmod_core::{RxBytes, Segment};

use super::apply::{self, Accumulation, NoLock, Old};
use super::exclusion::InNode;
use super::memory::{self, SharedParts, Span, Way};
use super::object::{Flavor, Pending, Window};
use super::reach::{Agent, Reach};
use super::wire::{self, ANSWER, DATA, HEADER, Kind, REQUEST, ROOM, Request, VERDICT};
use crate::datatype::basic::Basic;
use crate::datatype::{Buf, TypeDesc};
use crate::error::{Class, MpiError, Result};
use crate::handle::Op;
use crate::op::Builtin;

/// Requests to a window after which this process makes progress once.
pub(super) const BURST: u32 = 32;

/// Bytes from which on a copy is made while the library is not locked.
const LONG: usize = 64 << 10;

/// The rest of an operation that was begun.
pub(super) enum Left {
    /// Nothing.
    Done,
    /// An answer that is waited for.
    Answer(RawReq),
    /// A copy, which the calling thread makes without the library's lock.
    Copy(Box<LongCopy>),
}

/// A copy of many bytes between two places.
pub(super) struct LongCopy {
    from: Segment,
    to: Segment,
    /// The memory that the places may be of.
    _memory: SharedParts,
}

impl LongCopy {
    /// Makes the copy.
    pub(super) fn run(mut self) {
        memory::copy(&mut self.from, &mut self.to);
    }
}

/// The elements of a target that an operation is on.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    pub rank: u32,
    /// Displacement in units of the target.
    pub disp: i64,
    pub desc: &'a Arc<TypeDesc>,
    pub count: usize,
}

impl Elements<'_> {
    /// Returns the bytes of data.
    pub(super) fn bytes(&self) -> usize {
        self.desc.size() * self.count
    }
}

#[cold]
fn no_room(what: &str, has: usize, room: usize) -> Box<MpiError> {
    let text = format!(
        "{what} {has} bytes, for which there is room of {room} bytes at the other side; give the same \
                        number of elements at origin and target"
    );
    MpiError::new(Class::TRUNCATE, text)
}

/// The way to the elements of a target.
pub(super) enum Located {
    /// Loads and stores.
    Here(Segment),
    /// The kernel, or requests for their place in bytes.
    Elsewhere(PeerMemory, Segment, i64),
    /// Requests for their place in bytes.
    Asked(i64),
}

impl Window {
    /// Returns the place of elements in bytes.
    #[inline]
    fn byte_place(&self, elements: &Elements<'_>) -> Result<i64> {
        let unit = self.targets[elements.rank as usize].unit;
        elements.disp.checked_mul(unit).ok_or_else(|| {
            let text =
                format!("displacement {} in units of {unit} bytes is beyond all memory", elements.disp);
            MpiError::new(Class::DISP, text)
        })
    }

    /// Returns the way to elements.
    ///
    /// # Errors
    /// [`Class::RMA_RANGE`] if they are not within the target's memory.
    #[inline]
    fn locate(&mut self, elements: &Elements<'_>) -> Result<Located> {
        let at = self.byte_place(elements)?;
        let Elements { rank, desc, count, .. } = *elements;
        let target = &self.targets[rank as usize];
        let segment = |span: &Span| match desc.is_plain() {
            true => span.run(at, elements.bytes()),
            false => span.elements(at, &desc.layout, count),
        };
        match &target.reach {
            Reach::Memory(span) => segment(span).map(Located::Here),
            Reach::Attach(peer, span) => Ok(Located::Elsewhere(*peer, segment(span)?, at)),
            Reach::Requests if self.flavor == Flavor::Dynamic => self.locate_attached(elements, at),
            Reach::Requests => {
                memory::check_elements(target.size, at, &desc.layout, count)?;
                Ok(Located::Asked(at))
            }
        }
    }

    /// Returns the way to elements that are combined with data. Requests that are under way may be
    /// on a part of them that lies in attached memory; what comes behind them is a request, too.
    #[inline]
    fn locate_in_order(&mut self, elements: &Elements<'_>) -> Result<Located> {
        let target = &self.targets[elements.rank as usize];
        if target.is_dirty && target.parts.is_some() {
            return self.byte_place(elements).map(Located::Asked);
        }
        self.locate(elements)
    }

    /// Copies between two places, one of which is a rank's, at once if it is short.
    #[inline]
    fn copy(&self, rank: u32, mut from: Segment, mut to: Segment) -> Left {
        if from.total().min(to.total()) < LONG {
            memory::copy(&mut from, &mut to);
            return Left::Done;
        }
        let parts = self.targets[rank as usize].parts.as_ref();
        let memory = parts.map_or_else(|| Arc::clone(&self.memory), |parts| parts.kept());
        Left::Copy(Box::new(LongCopy { from, to, _memory: memory }))
    }

    /// Writes data to a target.
    ///
    /// # Errors
    /// A range that is not the target's; more data than elements; a target that is lost.
    #[inline]
    pub(super) fn put(&mut self, vci: &mut Vci, mut data: Segment, elements: &Elements<'_>) -> Result<Left> {
        if data.total() > elements.bytes() {
            return Err(no_room("the origin has", data.total(), elements.bytes()));
        }
        match self.locate(elements)? {
            Located::Here(target) => return Ok(self.copy(elements.rank, data, target)),
            Located::Elsewhere(peer, mut target, _) => {
                memory::exchange(&peer, Way::Write, &mut data, &mut target)?;
            }
            Located::Asked(at) if data.total() > 0 => match self.put_far(vci, data, elements, at) {
                Ok(raw) => return Ok(Left::Answer(raw)),
                Err(data) => {
                    self.request(vci, elements, Request { at, ..Request::bare(Kind::Put) }, Some(data))?;
                }
            },
            Located::Asked(_) => {}
        }
        Ok(Left::Done)
    }

    /// Reads data of a target.
    ///
    /// # Errors
    /// As [`Window::put`].
    #[inline]
    pub(super) fn get(&mut self, vci: &mut Vci, mut room: Segment, elements: &Elements<'_>) -> Result<Left> {
        if elements.bytes() > room.total() {
            return Err(no_room("the target has", elements.bytes(), room.total()));
        }
        match self.locate(elements)? {
            Located::Here(target) => return Ok(self.copy(elements.rank, target, room)),
            Located::Elsewhere(peer, mut target, _) => {
                memory::exchange(&peer, Way::Read, &mut room, &mut target)?;
            }
            Located::Asked(at) if elements.bytes() > 0 => {
                let answer = match self.get_far(vci, room, elements, at) {
                    Ok(raw) => raw,
                    Err(room) => {
                        let answer = self.expect(vci, elements.rank, room)?;
                        self.request(vci, elements, Request { at, ..Request::bare(Kind::Get) }, None)?;
                        answer
                    }
                };
                return Ok(Left::Answer(answer));
            }
            Located::Asked(_) => {}
        }
        Ok(Left::Done)
    }

    /// Combines data with the elements of a target.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub(super) fn accumulate(
        &mut self,
        vci: &mut Vci,
        accumulation: Accumulation,
        data: Segment,
        elements: &Elements<'_>,
    ) -> Result<()> {
        if data.total() > elements.bytes() {
            return Err(no_room("the origin has", data.total(), elements.bytes()));
        }
        match self.locate_in_order(elements)? {
            Located::Here(mut target) => {
                target.truncate(data.total());
                memory::with_bytes(data, |bytes| {
                    self.apply(vci, elements.rank, accumulation, &mut target, bytes, Old::Dropped)
                })
            }
            Located::Elsewhere(_, _, at) | Located::Asked(at) if data.total() > 0 => {
                let request = self.accumulating(Kind::Accumulate, accumulation, at);
                self.request(vci, elements, request, Some(data))
            }
            _ => Ok(()),
        }
    }

    /// Combines data with the elements of a target, and fetches what was there.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub(super) fn get_accumulate(
        &mut self,
        vci: &mut Vci,
        accumulation: Accumulation,
        data: Segment,
        mut result: Segment,
        elements: &Elements<'_>,
    ) -> Result<Left> {
        if elements.bytes() > result.total() {
            return Err(no_room("the target has", elements.bytes(), result.total()));
        }
        if !accumulation.only_reads() && data.total() != elements.bytes() {
            return Err(no_room("the origin has", data.total(), elements.bytes()));
        }
        match self.locate_in_order(elements)? {
            Located::Here(mut target) => {
                let is_done = match self.is_direct(elements.rank) {
                    true => {
                        accumulation.one(&target, &data, &result, &mut InNode::of(self, vci, elements.rank))
                    }
                    false => accumulation.one(&target, &data, &result, &mut NoLock),
                };
                if !is_done? {
                    memory::with_bytes(data, |bytes| {
                        let old = Old::Room(&mut result);
                        self.apply(vci, elements.rank, accumulation, &mut target, bytes, old)
                    })?;
                }
                Ok(Left::Done)
            }
            Located::Elsewhere(_, _, at) | Located::Asked(at) if elements.bytes() > 0 => {
                let answer = self.expect(vci, elements.rank, result)?;
                let request = self.accumulating(Kind::GetAccumulate, accumulation, at);
                let data = (!accumulation.only_reads()).then_some(data);
                self.request(vci, elements, request, data)?;
                Ok(Left::Answer(answer))
            }
            _ => Ok(Left::Done),
        }
    }

    /// Combines a single element of the program with a target's of the same type, and fetches what
    /// was there, if the processor does so by one atomic operation. Returns false otherwise.
    ///
    /// # Errors
    /// An operation that is none for the type; those of an [`apply::Exclusion`].
    #[inline]
    pub(super) fn fetch_quickly(
        &self,
        vci: &mut Vci,
        (op, basic): (Op, &'static Basic),
        buffers: [&Buf; 2],
        elements: &Elements<'_>,
    ) -> Result<bool> {
        let target = &self.targets[elements.rank as usize];
        let (Reach::Memory(span), Some(op)) = (&target.reach, Builtin::of(op)) else { return Ok(false) };
        if target.agent != Agent::Processor {
            return Ok(false);
        }
        let place = (span, self.byte_place(elements)?);
        let accumulation = Accumulation::new(op, basic)?;
        accumulation.quick(place, buffers, &mut InNode::of(self, vci, elements.rank))
    }

    fn apply(
        &self,
        vci: &mut Vci,
        rank: u32,
        accumulation: Accumulation,
        target: &mut Segment,
        data: &[u8],
        old: Old<'_>,
    ) -> Result<()> {
        match self.is_direct(rank) {
            true => accumulation.run(target, data, old, &mut InNode::of(self, vci, rank)),
            false => accumulation.run(target, data, old, &mut NoLock),
        }
    }

    fn accumulating(&self, kind: Kind, accumulation: Accumulation, at: i64) -> Request {
        let (op, basic) = (accumulation.op() as u32 as u8, accumulation.basic().handle.0);
        Request { op, basic, at, ..Request::bare(kind) }
    }

    /// Sets an element of a target if it has the expected value, and fetches what was there.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub(super) fn compare_and_swap(
        &mut self,
        vci: &mut Vci,
        basic: &'static Basic,
        [new, expected]: [Segment; 2],
        mut result: Segment,
        elements: &Elements<'_>,
    ) -> Result<Left> {
        match self.locate_in_order(elements)? {
            Located::Here(target) => {
                let direct = self.is_direct(elements.rank);
                let was = memory::with_bytes(new, |new| {
                    memory::with_bytes(expected, |expected| match direct {
                        true => {
                            let mut lock = InNode::of(self, vci, elements.rank);
                            apply::compare_and_swap(basic, &target, expected, new, &mut lock)
                        }
                        false => apply::compare_and_swap(basic, &target, expected, new, &mut NoLock),
                    })
                })?;
                result.unpack(RxBytes::from_slice(was.bytes()));
                Ok(Left::Done)
            }
            Located::Elsewhere(_, _, at) | Located::Asked(at) => {
                let answer = self.expect(vci, elements.rank, result)?;
                let mut values = memory::packed(expected);
                values.extend(memory::packed(new));
                let request = Request { basic: basic.handle.0, at, ..Request::bare(Kind::CompareAndSwap) };
                self.send(vci, elements.rank, Request { count: basic.size as u64, ..request }, &[], &values)?;
                Ok(Left::Answer(answer))
            }
        }
    }

    /// Waits for an answer of a target into a place.
    fn expect(&mut self, vci: &mut Vci, rank: u32, room: Segment) -> Result<RawReq> {
        let raw = vci.irecv_raw(room, self.place(rank), ANSWER, self.core.inn)?;
        self.epochs.in_use = true;
        self.targets[rank as usize].pending.push_back(Pending { raw, is_ours: true, is_far: false });
        Ok(raw)
    }

    /// Leaves the result of an answer to a request of the program.
    pub(super) fn give_away(&mut self, rank: u32, raw: RawReq) {
        let pending = &mut self.targets[rank as usize].pending;
        if let Some(answer) = pending.iter_mut().rev().find(|answer| answer.raw == raw) {
            answer.is_ours = false;
        }
    }

    /// Sends a request about elements, with data.
    fn request(
        &mut self,
        vci: &mut Vci,
        elements: &Elements<'_>,
        request: Request,
        data: Option<Segment>,
    ) -> Result<()> {
        let Elements { rank, desc, count, .. } = *elements;
        let data = data.map_or_else(Vec::new, memory::packed);
        if desc.is_plain() {
            return self.send(vci, rank, Request { count: elements.bytes() as u64, ..request }, &[], &data);
        }
        self.send(vci, rank, Request { count: count as u64, ..request }, &wire::describe(desc), &data)
    }

    /// Sends a request.
    pub(super) fn send(
        &mut self,
        vci: &mut Vci,
        rank: u32,
        request: Request,
        described: &[u8],
        data: &[u8],
    ) -> Result<()> {
        let is_apart = HEADER + described.len() + data.len() > ROOM;
        let request =
            Request { is_apart, described: described.len() as u32, data: data.len() as u64, ..request };
        let mut message =
            Vec::with_capacity(HEADER + if is_apart { 0 } else { described.len() + data.len() });
        request.write(&mut message);
        let to = self.place(rank);
        if is_apart {
            leave(vci.isend(message, to, REQUEST, self.core.out))?;
            leave(vci.isend([described, data].concat(), to, DATA, self.core.out))?;
        } else {
            message.extend(described);
            message.extend(data);
            leave(vci.isend(message, to, REQUEST, self.core.out))?;
        }
        self.epochs.in_use = true;
        self.targets[rank as usize].is_dirty = true;
        self.sent = self.sent.wrapping_add(1);
        if self.sent.is_multiple_of(BURST) {
            vci.progress()?;
        }
        Ok(())
    }

    /// Sends a request that the target answers by how it has ended.
    pub(super) fn ask(&mut self, vci: &mut Vci, rank: u32, kind: Kind) -> Result<Message> {
        self.ask_for(vci, rank, kind, VERDICT)
    }

    /// Sends a request that the target answers by some bytes.
    pub(super) fn ask_for(&mut self, vci: &mut Vci, rank: u32, kind: Kind, len: usize) -> Result<Message> {
        let answer = vci.irecv(vec![0; len], self.place(rank), ANSWER, self.core.inn);
        let answer = answer.map_err(|e| Box::<MpiError>::from(e.error))?;
        self.send(vci, rank, Request::bare(kind), &[], &[])?;
        Ok(answer)
    }

    /// Ends the receives of all answers that have not come: their memory is the program's again.
    pub(super) fn give_up_answers(&mut self, vci: &mut Vci) {
        for target in &mut self.targets {
            for answer in target.pending.drain(..).filter(|answer| answer.is_ours) {
                vci.end_raw(answer.raw);
            }
        }
    }

    /// Returns true if all answers of a target have come, whose failures are noted. They come
    /// mostly in order: one that has not come hides those behind it, so that a look is short.
    pub(super) fn has_answers(&mut self, vci: &mut Vci, rank: u32) -> bool {
        let target = &mut self.targets[rank as usize];
        let failure = &mut target.failure;
        while let Some(answer) = target.pending.pop_front_if(|answer| vci.is_finished(answer.raw)) {
            if answer.is_ours
                && let Err(e) = vci.take_raw(answer.raw)
            {
                failure.get_or_insert_with(|| e.into());
            }
        }
        target.pending.is_empty()
    }
}

/// Lets a send, whose data the device keeps, end by itself.
fn leave(begun: std::result::Result<Message, Box<Failed>>) -> Result<()> {
    begun.map(drop).map_err(|e| e.error.into())
}

/// Returns the result of a request that a target has answered.
pub(super) fn judged(vci: &mut Vci, answer: Message, rank: u32) -> Result<()> {
    let done = vci.wait(answer).map_err(|e| Box::<MpiError>::from(e.error))?;
    match wire::verdict(&done.buffer) {
        0 => Ok(()),
        class => {
            let text = format!(
                "rank {rank} of the window could not execute an operation of this epoch; are the target's memory, \
                 displacement, datatype and operation right?"
            );
            Err(MpiError::new(Class(class), text))
        }
    }
}

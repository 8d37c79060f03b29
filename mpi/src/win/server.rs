//! The target's side: requests of other processes, and what becomes of them.
//!
//! A receive for requests of any process is posted all the time. Whoever makes progress executes
//! those that have come, under the library's lock. Those of one process are executed in its order:
//! one that waits for its data, or for the lock, holds up those behind it.

use ch3_shim::{ANY_SOURCE, Request as Message, Vci};
use netmod_core::{RxBytes, Segment};

use super::apply::{self, Accumulation, NoLock, Old};
use super::exclusion::InNode;
use super::memory;
use super::object::Window;
use super::queue::{Origin, Waiting};
use super::tickets::{LockKind, Ticket};
use super::wire::{self, ANSWER, DATA, HEADER, Kind, REQUEST, ROOM, Request};
use crate::datatype::basic::{Basic, basic};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, Op};
use crate::op::Builtin;

impl Window {
    /// Begins to take requests.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn begin_service(&mut self, vci: &mut Vci) -> Result<()> {
        self.server.origins.resize_with(self.targets.len(), Origin::default);
        if self.targets.len() > 1 {
            self.server.receive = Some(self.post(vci, vec![0; ROOM])?);
        }
        Ok(())
    }

    fn post(&self, vci: &mut Vci, room: Vec<u8>) -> Result<Message> {
        vci.irecv(room, ANY_SOURCE, REQUEST, self.core.inn).map_err(|e| e.error.into())
    }

    /// Ends the service: no requests come any more.
    pub(super) fn end_service(&mut self, vci: &mut Vci) {
        if let Some(receive) = self.server.receive.take() {
            vci.cancel(&receive);
            // A cancelled receive ends at once, whatever its result is.
            let _ = vci.wait(receive);
        }
    }

    /// Executes the requests that have come.
    #[inline]
    pub(super) fn serve(&mut self, vci: &mut Vci) {
        while let Some(receive) = &self.server.receive
            && vci.is_finished(receive.raw())
        {
            self.take_request(vci);
        }
        if !self.server.busy.is_empty() {
            self.serve_waiting(vci);
        }
    }

    /// Takes the message that has come, and posts the next receive.
    #[inline(never)]
    fn take_request(&mut self, vci: &mut Vci) {
        let Some(receive) = self.server.receive.take() else { return };
        // Without any peer left there is nobody to serve.
        let Ok(done) = vci.wait(receive) else { return };
        let taken = self.parse(vci, &done.buffer[..done.status.len.min(ROOM)], done.status.source);
        match self.post(vci, done.buffer) {
            Ok(receive) => self.server.receive = Some(receive),
            Err(e) => tracing::warn!("requests to a window: {}; none are served any more", e.text),
        }
        match taken {
            Ok((rank, waiting)) => self.enter(vci, rank, waiting),
            Err(e) => tracing::warn!("a request to a window: {}; it is ignored", e.text),
        }
    }

    fn parse(&self, vci: &mut Vci, bytes: &[u8], source: i32) -> Result<(u32, Waiting)> {
        let rank = u32::try_from(source).ok().and_then(|place| self.core.group().rank(place));
        let rank = rank.ok_or_else(|| MpiError::new(Class::INTERN, "it comes from outside of the group"))?;
        let request = Request::read(bytes)?;
        let length = u64::from(request.described).saturating_add(request.data);
        let body = bytes.get(HEADER..).unwrap_or_default();
        if !request.is_apart {
            if body.len() as u64 != length {
                return Err(MpiError::new(Class::INTERN, "its data has another length than it says"));
            }
            return Ok((rank, Waiting { request, body: body.to_vec(), apart: None, ticket: None }));
        }
        let length = usize::try_from(length).map_err(|_| MpiError::new(Class::INTERN, "it is too long"))?;
        let room = vec![0; length];
        let apart =
            vci.irecv(room, source, DATA, self.core.inn).map_err(|e| Box::<MpiError>::from(e.error))?;
        Ok((rank, Waiting { request, body: Vec::new(), apart: Some(apart), ticket: None }))
    }

    /// Executes a request, or puts it behind those of its origin that wait.
    fn enter(&mut self, vci: &mut Vci, rank: u32, waiting: Waiting) {
        if !self.server.origins[rank as usize].waiting.is_empty() {
            self.server.origins[rank as usize].waiting.push_back(waiting);
        } else if let Some(waiting) = self.try_execute(vci, rank, waiting) {
            self.server.origins[rank as usize].waiting.push_back(waiting);
            self.server.busy.push(rank);
        }
    }

    /// Goes on with the requests that wait.
    fn serve_waiting(&mut self, vci: &mut Vci) {
        let mut index = 0;
        let mut wants_lock = false;
        while let Some(&rank) = self.server.busy.get(index) {
            while let Some(waiting) = self.server.origins[rank as usize].waiting.pop_front() {
                if let Some(waiting) = self.try_execute(vci, rank, waiting) {
                    let kind = waiting.request.kind;
                    wants_lock |= matches!(kind, Kind::LockExclusive | Kind::LockShared);
                    self.server.origins[rank as usize].waiting.push_front(waiting);
                    break;
                }
            }
            if self.server.origins[rank as usize].waiting.is_empty() {
                self.server.busy.swap_remove(index);
            } else {
                index += 1;
            }
        }
        self.note_sleep(vci, wants_lock);
    }

    /// Lets those who give this process's lock back wake it, if others wait for the lock by
    /// messages.
    fn note_sleep(&mut self, vci: &mut Vci, wants_lock: bool) {
        let me = self.own_place();
        if !wants_lock {
            if std::mem::take(&mut self.server.sleeps) {
                self.control.end_sleep(me);
            }
        } else if vci.is_going_to_sleep() {
            if !std::mem::replace(&mut self.server.sleeps, true) {
                self.control.begin_sleep(me);
            }
            // The lock may have become free before the note was there.
            if self.control.note_sleep(self.own_place()) {
                vci.stay_awake();
            }
        }
    }

    /// Executes a request. Returns it if it has to wait.
    fn try_execute(&mut self, vci: &mut Vci, rank: u32, mut waiting: Waiting) -> Option<Waiting> {
        if let Some(apart) = waiting.apart.take() {
            if !vci.is_finished(apart.raw()) {
                waiting.apart = Some(apart);
                return Some(waiting);
            }
            match vci.wait(apart) {
                Ok(done) => waiting.body = done.buffer,
                // The origin has failed: nobody asks how it ends.
                Err(_) => return None,
            }
        }
        let Waiting { request, body, ticket, .. } = &mut waiting;
        if let Kind::LockExclusive | Kind::LockShared = request.kind {
            if !self.lock_for(vci, lock_kind(request.kind), ticket) {
                return Some(waiting);
            }
            // One that waits for a lock and has failed must not keep it.
            if self.lost(vci, |r| r == rank).is_some() {
                self.unlock_word(vci, self.me(), lock_kind(request.kind));
                return None;
            }
        }
        if let Err(e) = self.execute(vci, rank, request, body) {
            let failed = &mut self.server.origins[rank as usize].failed;
            *failed = if *failed == 0 { e.class.0 } else { *failed };
        }
        None
    }

    /// Takes this process's lock for an origin. Returns false if that has to wait, by its ticket.
    fn lock_for(&mut self, vci: &mut Vci, kind: LockKind, ticket: &mut Option<Ticket>) -> bool {
        let me = self.own_place();
        match ticket {
            Some(ticket) => self.try_enter(vci, me, kind, *ticket),
            None => {
                *ticket = self.control.lock(me, kind).err();
                ticket.is_none()
            }
        }
    }

    fn execute(&mut self, vci: &mut Vci, rank: u32, request: &Request, body: &[u8]) -> Result<()> {
        let (described, data) = body.split_at_checked(request.described as usize).unwrap_or((&[], body));
        match request.kind {
            Kind::Put => {
                self.target(request, described)?.unpack(RxBytes::from_slice(data));
            }
            Kind::Get => {
                let data = self.target(request, described).map(memory::packed);
                // A failing get is answered, too, by nothing.
                let (data, done) = data.map_or_else(|e| (Vec::new(), Err(e)), |data| (data, Ok(())));
                self.answer(vci, rank, data);
                return done;
            }
            Kind::Accumulate => self.combine(vci, request, described, data, Old::Dropped)?,
            Kind::GetAccumulate => {
                let mut old = Vec::new();
                let done = self.combine(vci, request, described, data, Old::Bytes(&mut old));
                self.answer(vci, rank, old);
                return done;
            }
            Kind::CompareAndSwap => {
                let was = self.swap(vci, request, data);
                let (data, done) = was.map_or_else(|e| (Vec::new(), Err(e)), |data| (data, Ok(())));
                self.answer(vci, rank, data);
                return done;
            }
            Kind::Flush | Kind::LockExclusive | Kind::LockShared => self.tell(vci, rank),
            Kind::UnlockExclusive | Kind::UnlockShared => {
                self.unlock_word(vci, self.me(), lock_kind(request.kind));
                self.tell(vci, rank);
            }
            Kind::Post => self.epochs.posts[rank as usize] += 1,
            Kind::Complete => self.epochs.completes[rank as usize] += 1,
            Kind::Wake => self.server.woken += 1,
            Kind::Key => {
                let key = self.expose_to(vci, rank);
                self.answer(vci, rank, key);
            }
        }
        Ok(())
    }

    /// Returns the place of a request's target.
    fn target(&self, request: &Request, described: &[u8]) -> Result<Segment> {
        let (span, at) = self.own_memory(request.at)?;
        let count = usize::try_from(request.count)
            .map_err(|_| MpiError::new(Class::COUNT, "a request has more elements than memory"))?;
        if described.is_empty() {
            span.run(at, count)
        } else {
            span.elements(at, &wire::layout(described)?, count)
        }
    }

    fn combine(
        &mut self,
        vci: &mut Vci,
        request: &Request,
        described: &[u8],
        data: &[u8],
        old: Old<'_>,
    ) -> Result<()> {
        let op = Builtin::of(Op(0x5800_0000 | u32::from(request.op)));
        let op = op.ok_or_else(|| MpiError::new(Class::OP, "a request has an operation that is none"))?;
        let accumulation = Accumulation::new(op, element(request)?)?;
        let mut target = self.target(request, described)?;
        let me = self.me();
        match self.is_direct(me) {
            true => accumulation.run(&mut target, data, old, &mut InNode::of(self, vci, me)),
            false => accumulation.run(&mut target, data, old, &mut NoLock),
        }
    }

    fn swap(&mut self, vci: &mut Vci, request: &Request, data: &[u8]) -> Result<Vec<u8>> {
        let (basic, target) = (element(request)?, self.target(request, &[])?);
        let (expected, new) = data.split_at_checked(basic.size).unwrap_or((data, &[]));
        let me = self.me();
        let was = match self.is_direct(me) {
            true => apply::compare_and_swap(basic, &target, expected, new, &mut InNode::of(self, vci, me)),
            false => apply::compare_and_swap(basic, &target, expected, new, &mut NoLock),
        };
        was.map(|was| was.bytes().to_vec())
    }

    /// Answers an origin. If it is lost nobody waits for the answer.
    fn answer(&self, vci: &mut Vci, rank: u32, data: Vec<u8>) {
        if let Err(e) = vci.isend(data, self.place(rank), ANSWER, self.core.out) {
            tracing::debug!("an answer of a window to rank {rank}: {}", e.error);
        }
    }

    /// Tells an origin how its requests have ended.
    fn tell(&mut self, vci: &mut Vci, rank: u32) {
        let failed = std::mem::take(&mut self.server.origins[rank as usize].failed);
        self.answer(vci, rank, failed.to_le_bytes().to_vec());
    }
}

fn lock_kind(kind: Kind) -> LockKind {
    match kind {
        Kind::LockShared | Kind::UnlockShared => LockKind::Shared,
        _ => LockKind::Exclusive,
    }
}

/// Returns the type of a request's elements.
fn element(request: &Request) -> Result<&'static Basic> {
    let missing = || MpiError::new(Class::TYPE, "a request has a type that is not predefined");
    basic(Datatype(request.basic)).ok_or_else(missing)
}

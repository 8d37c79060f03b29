//! Completion queues: times of completions, and the checks when the application reads them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};

use super::{Face, Id, State};
use crate::errno::{FI_EAGAIN, FI_EAVAIL, FI_ECANCELED, FI_EIO};
use crate::request::Operation;
use libfabric_sys::consts::{FI_ATOMIC, FI_MSG, FI_MULTI_RECV, FI_READ, FI_RECV, FI_RMA, FI_SEND, FI_WRITE};

/// A completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) op: Option<u64>,
    port: usize,
    /// True if it is the operation's last one.
    last: bool,
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: usize,
    /// 0, or a positive error number.
    pub(crate) error: i32,
    /// Bytes that had no room.
    pub(crate) olen: usize,
}

/// A completion that is not visible yet.
#[derive(Debug)]
struct Pending {
    due: u64,
    sequence: u64,
    entry: Entry,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) format: i32,
    size: usize,
    /// A non-blocking eventfd.
    event: Option<File>,
    pending: Vec<Pending>,
    ready: VecDeque<Entry>,
    ports: Vec<usize>,
    /// Time of its latest completion, where none may be reordered.
    latest: u64,
}

impl Queue {
    pub(crate) fn new(format: i32, size: usize, event: Option<File>) -> Queue {
        Queue {
            format,
            size,
            event,
            pending: Vec::new(),
            ready: VecDeque::new(),
            ports: Vec::new(),
            latest: 0,
        }
    }

    pub(crate) fn event(&self) -> Option<&File> {
        self.event.as_ref()
    }

    pub(crate) fn add_port(&mut self, port: usize) {
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    pub(crate) fn remove_port(&mut self, port: usize) {
        self.ports.retain(|other| *other != port);
    }

    /// Returns the endpoints bound to it.
    pub(crate) fn ports(&self) -> &[usize] {
        &self.ports
    }

    /// Discards completions of an endpoint's operations: the application owns contexts and buffers
    /// again.
    pub(crate) fn forget(&mut self, port: usize) {
        self.pending.retain(|pending| pending.entry.port != port);
        self.ready.retain(|entry| entry.port != port);
    }

    pub(crate) fn forget_op(&mut self, op: u64) {
        self.pending.retain(|pending| pending.entry.op != Some(op));
        self.ready.retain(|entry| entry.op != Some(op));
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.ready.clear();
    }

    /// Makes its descriptor readable.
    pub(crate) fn wake(&self) {
        if let Some(mut event) = self.event.as_ref() {
            // Fails only if the counter is full; then the descriptor is readable anyway.
            let _ = event.write(&1u64.to_ne_bytes());
        }
    }

    fn quiet(&self) {
        if let Some(mut event) = self.event.as_ref() {
            // Fails if the descriptor was not readable.
            let _ = event.read(&mut [0; 8]);
        }
    }

    /// Makes due completions visible, as far as there is room.
    fn promote(&mut self, tick: u64) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_by_key(|pending| (pending.due, pending.sequence));
        let due = self.pending.iter().take_while(|pending| pending.due <= tick).count();
        let room = self.size.saturating_sub(self.ready.len());
        self.ready.extend(self.pending.drain(..due.min(room)).map(|pending| pending.entry));
    }
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Failed, with a positive error number.
    Failed(i32),
}

impl State {
    fn due(&mut self) -> u64 {
        self.tick + self.rng.below(self.settings.completion_delay + 1)
    }

    fn push(&mut self, queue: Option<Id>, due: u64, entry: Entry) {
        let sequence = self.next();
        let reorder = self.settings.reorder;
        let Some(queue) = queue.and_then(|queue| self.queues.get_mut(&queue)) else { return };
        let due = if reorder { due } else { due.max(queue.latest) };
        queue.latest = queue.latest.max(due);
        queue.pending.push(Pending { due, sequence, entry });
        queue.wake();
    }

    /// Completes a send, read or write.
    pub(crate) fn complete(&mut self, id: u64, outcome: Outcome) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let (face, wanted, context, kind, sent) = (op.face, op.wanted, op.context, op.kind, op.len);
        let counted = std::mem::take(&mut op.counted);
        let Some(tx) = face.tx.and_then(|index| self.ports[face.port].tx.get_mut(index)) else { return };
        if counted {
            tx.outstanding -= 1;
        }
        let queue = tx.queue;
        self.trace(2, id);
        let error = match outcome {
            Outcome::Failed(error) => error,
            Outcome::Done if !wanted => return self.forget(id),
            Outcome::Done => 0,
        };
        let flags = match kind {
            Operation::Send | Operation::Recv => FI_SEND | FI_MSG,
            Operation::Read => FI_READ | FI_RMA,
            Operation::Write => FI_WRITE | FI_RMA,
            Operation::Atomic => FI_WRITE | FI_ATOMIC,
        };
        let mut len = if error == 0 { sent } else { 0 };
        if kind == Operation::Send && len != 0 && self.rng.chance(self.settings.short_length) {
            len = self.rng.below(len as u64) as usize;
            self.stats.short += 1;
        }
        let due = self.due();
        let entry = Entry {
            op: Some(id),
            port: face.port,
            last: true,
            context,
            flags,
            len,
            error,
            ..Entry::default()
        };
        self.push(queue, due, entry);
    }

    /// Reports the failure of an injected message, which has no operation.
    pub(crate) fn fail_inject(&mut self, face: Face, index: usize) {
        let queue = self.ports[face.port].tx[index].queue;
        let due = self.due();
        let entry = Entry { port: face.port, flags: FI_SEND | FI_MSG, error: FI_EIO, ..Entry::default() };
        self.push(queue, due, entry);
    }

    /// Completes a message in a receive buffer. `not_before`: time of the previous message's
    /// completion. Returns the time of this one.
    pub(crate) fn complete_recv(
        &mut self,
        id: u64,
        not_before: u64,
        at: usize,
        len: usize,
        release: bool,
    ) -> u64 {
        // A single-message buffer is free with that message.
        let multi = self.ops.get(&id).is_some_and(|op| op.multi);
        let alone = release && multi && self.rng.chance(self.settings.release_alone);
        let due = self.due().max(not_before);
        let Some(op) = self.ops.get_mut(&id) else { return due };
        // The entry that releases the buffer is its last one.
        let due = if release { due.max(op.latest) } else { due };
        op.latest = op.latest.max(due);
        let (face, context) = (op.face, op.context);
        let buf = op.pieces.first().map_or(0, |piece| piece.addr() + at);
        let queue = face.rx.and_then(|index| self.ports[face.port].rx[index].queue);
        let ends = release && !alone;
        let entry = Entry {
            op: Some(id),
            port: face.port,
            last: ends,
            context,
            flags: FI_RECV | FI_MSG | if ends && multi { FI_MULTI_RECV } else { 0 },
            len,
            buf,
            ..Entry::default()
        };
        self.push(queue, due, entry);
        if alone {
            let entry = Entry {
                op: Some(id),
                port: face.port,
                last: true,
                context,
                flags: FI_MULTI_RECV,
                ..Entry::default()
            };
            self.push(queue, due, entry);
        }
        due
    }

    /// Fails a receive. `release`: the buffer is released; `says`: the entry has `FI_MULTI_RECV` in
    /// that case.
    pub(crate) fn fail_recv(
        &mut self,
        id: u64,
        error: i32,
        len: usize,
        olen: usize,
        release: bool,
        says: bool,
    ) {
        let due = self.due();
        let Some(op) = self.ops.get_mut(&id) else { return };
        let (face, context, due) = (op.face, op.context, due.max(op.latest));
        op.latest = due;
        let says = says && op.multi;
        let queue = face.rx.and_then(|index| self.ports[face.port].rx[index].queue);
        let flags = FI_RECV | FI_MSG | if says { FI_MULTI_RECV } else { 0 };
        let entry = Entry {
            op: Some(id),
            port: face.port,
            last: release,
            context,
            flags,
            len,
            error,
            olen,
            ..Entry::default()
        };
        self.push(queue, due, entry);
    }

    /// Begins `fi_cq_read`: advances the world by a tick.
    pub(crate) fn poll(&mut self, id: Id) {
        self.tick += 1;
        self.stats.polls += 1;
        self.step(id);
        let spurious = self.rng.chance(self.settings.spurious);
        let tick = self.tick;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.promote(tick);
        if spurious {
            queue.ready.push_back(Entry { port: usize::MAX, ..Entry::default() });
            self.stats.spurious += 1;
        }
    }

    /// Takes up to `most` completions without error; returns an error if there are none.
    pub(crate) fn take(&mut self, id: Id, most: usize) -> Result<Vec<Entry>, i32> {
        let mut taken = Vec::new();
        let Some(queue) = self.queues.get_mut(&id) else { return Err(FI_EAGAIN) };
        if most == 0 {
            return if queue.ready.is_empty() { Err(FI_EAGAIN) } else { Ok(taken) };
        }
        while taken.len() < most && queue.ready.front().is_some_and(|entry| entry.error == 0) {
            taken.extend(queue.ready.pop_front());
        }
        if taken.is_empty() {
            return Err(if queue.ready.is_empty() { FI_EAGAIN } else { FI_EAVAIL });
        }
        self.stats.completions += taken.len() as u64;
        for entry in &taken {
            if entry.flags == FI_MULTI_RECV {
                self.stats.releases += 1;
            }
            self.hand_over(entry);
        }
        Ok(taken)
    }

    /// Takes the error entry at the front of the queue.
    pub(crate) fn take_error(&mut self, id: Id) -> Option<Entry> {
        let queue = self.queues.get_mut(&id)?;
        if queue.ready.front()?.error == 0 {
            return None;
        }
        let mut entry = queue.ready.pop_front()?;
        self.stats.errors += 1;
        self.hand_over(&entry);
        // Cancelled operations are always identified, or their memory could never be freed. So are
        // sends, or their buffers could never be reused: no provider is known that fails to
        // identify them.
        let says = entry.error == FI_ECANCELED || entry.flags & FI_SEND != 0;
        if self.settings.anonymous_errors && !says {
            entry.context = 0;
        }
        if self.settings.negative_errors {
            entry.error = -entry.error;
        }
        Some(entry)
    }

    /// Hands a completion to the application, and checks that it has not modified lent memory
    /// before.
    fn hand_over(&mut self, entry: &Entry) {
        self.trace(3, entry.op.unwrap_or(0));
        self.trace(entry.flags, entry.len as u64);
        let Some(id) = entry.op else { return };
        let Some(op) = self.ops.get(&id) else { return };
        let mut wrong = Vec::new();
        if let Some((storage, pattern)) = &op.storage
            && storage.read(0, pattern.len()) != *pattern
        {
            wrong.push("its context was written to");
        }
        if entry.last {
            if !op.sent.is_empty() && crate::mem::gather(&op.pieces) != op.sent {
                wrong.push("its data was changed");
            }
            if op.arrays.iter().any(|(array, was)| array.read(0, was.len()) != *was) {
                wrong.push("its array of iovecs or descriptors was changed");
            }
        }
        let kind = op.kind;
        for what in wrong {
            self.violation(format!("{kind:?} under way: {what} before its completion was read"));
        }
        if entry.last {
            self.forget(id);
        }
    }

    /// Checks whether the application may block on a queue's descriptor now.
    pub(crate) fn may_wait(&mut self, id: Id) -> Result<(), i32> {
        let Some(queue) = self.queues.get(&id) else { return Ok(()) };
        if !queue.ready.is_empty() || !queue.pending.is_empty() || self.could_move(id) {
            return Err(FI_EAGAIN);
        }
        queue.quiet();
        Ok(())
    }

    pub(crate) fn wake_port(&self, port: usize) {
        let mine = self.queues.values().filter(|queue| queue.ports.contains(&port));
        mine.for_each(Queue::wake);
    }

    pub(crate) fn wake_all(&self) {
        self.queues.values().for_each(Queue::wake);
    }
}

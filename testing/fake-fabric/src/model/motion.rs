//! Moves data when a queue is read: messages into receive buffers, reads and writes.

use super::queue::Outcome;
use super::region::Remote;
use super::word::Atomic;
use super::{Id, State};
use crate::errno::{FI_EIO, FI_ENOTCONN, FI_ETRUNC};
use crate::mem::{gather, scatter};
use crate::request::Operation;
use crate::settings::{Progress, ToTheDead};

/// A flow from one context to one context, which stays in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub(crate) from: usize,
    pub(crate) tx: usize,
    pub(crate) to: usize,
    pub(crate) rx: usize,
}

/// A message in transit.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) due: u64,
    pub(crate) sequence: u64,
    pub(crate) data: Vec<u8>,
    /// The send that completes with its arrival.
    pub(crate) op: Option<u64>,
}

/// A read, write or atomic operation in transit.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) due: u64,
    pub(crate) sequence: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Operation,
    pub(crate) remote: Vec<Remote>,
    /// Data of a write.
    pub(crate) data: Vec<u8>,
    /// The operation on the peer's word.
    pub(crate) atomic: Option<Atomic>,
    /// The operation that completes with it.
    pub(crate) op: Option<u64>,
}

/// Work that can be done now.
#[derive(Clone, Copy, Debug)]
enum Work {
    Flow(FlowKey),
    Transfer(u64),
}

impl State {
    /// Returns true if data may move to a port while these ports' queues are read.
    fn reaches(&self, to: usize, polling: &[usize]) -> bool {
        // Traffic to a port that is gone ends by itself.
        !self.is_up(to)
            || !self.ports[to].stalled && (self.settings.progress == Progress::Auto || polling.contains(&to))
    }

    fn has_buffer(&self, key: &FlowKey) -> bool {
        !self.is_up(key.to) || !self.ports[key.to].rx[key.rx].posted.is_empty()
    }

    /// Does all due work.
    pub(crate) fn step(&mut self, queue: Id) {
        if self.flows.is_empty() && self.transfers.is_empty() {
            return;
        }
        let polling: Vec<usize> = self.queues.get(&queue).map_or(Vec::new(), |queue| queue.ports().to_vec());
        self.flows.retain(|_, flow| !flow.is_empty());
        let mut work: Vec<(u64, Work)> = Vec::new();
        for (key, flow) in &self.flows {
            if let Some(head) = flow.front()
                && head.due <= self.tick
                && self.reaches(key.to, &polling)
                && self.has_buffer(key)
            {
                work.push((head.sequence, Work::Flow(*key)));
            }
        }
        for transfer in &self.transfers {
            if transfer.due <= self.tick && self.reaches(transfer.to, &polling) {
                work.push((transfer.sequence, Work::Transfer(transfer.sequence)));
            }
        }
        if self.settings.reorder {
            self.rng.shuffle(&mut work);
        } else {
            work.sort_by_key(|(sequence, _)| *sequence);
        }
        for (_, work) in work {
            match work {
                Work::Flow(key) => self.flow(key),
                Work::Transfer(sequence) => {
                    if let Some(index) = self.transfers.iter().position(|other| other.sequence == sequence) {
                        let transfer = self.transfers.remove(index);
                        self.transfer(transfer);
                    }
                }
            }
        }
    }

    /// Returns true if reading a queue could move data, now or after a delay.
    pub(crate) fn could_move(&self, queue: Id) -> bool {
        let polling = self.queues.get(&queue).map_or(&[][..], |queue| queue.ports());
        let concerns = |from: usize, to: usize| {
            (polling.contains(&from) || polling.contains(&to)) && self.reaches(to, polling)
        };
        self.flows
            .iter()
            .any(|(key, flow)| !flow.is_empty() && concerns(key.from, key.to) && self.has_buffer(key))
            || self.transfers.iter().any(|transfer| concerns(transfer.from, transfer.to))
    }

    /// Delivers the due messages of a flow, as far as they have buffers.
    fn flow(&mut self, key: FlowKey) {
        while let Some(flow) = self.flows.get_mut(&key)
            && flow.front().is_some_and(|head| head.due <= self.tick)
        {
            if !self.is_up(key.to) {
                if let Some(message) = self.pop(key) {
                    self.miss(message.op);
                }
                continue;
            }
            if self.ports[key.to].rx[key.rx].posted.is_empty() {
                return;
            }
            if let Some(message) = self.pop(key) {
                self.deliver(key, message);
            }
        }
    }

    fn pop(&mut self, key: FlowKey) -> Option<Message> {
        let message = self.flows.get_mut(&key)?.pop_front()?;
        self.ports[key.to].rx[key.rx].coming -= 1;
        Some(message)
    }

    /// Handles a message without a receiver.
    fn miss(&mut self, op: Option<u64>) {
        self.stats.lost += 1;
        let Some(op) = op else { return };
        match self.settings.to_the_dead {
            ToTheDead::Silence => self.complete(op, Outcome::Done),
            ToTheDead::Again => (),
            ToTheDead::Error => self.complete(op, Outcome::Failed(FI_ENOTCONN)),
        }
    }

    fn deliver(&mut self, key: FlowKey, message: Message) {
        self.trace(4, message.sequence);
        if let Some(op) = message.op {
            self.complete(op, Outcome::Done);
        }
        let align = self.settings.multi_recv_align.max(1);
        let fails = self.recv_fails();
        let rx = &mut self.ports[key.to].rx[key.rx];
        let (Some(&id), least) = (rx.posted.front(), rx.min_multi_recv) else { return };
        let Some(op) = self.ops.get_mut(&id) else { return };
        let room: usize = op.pieces.iter().map(|piece| piece.len()).sum();
        let at = op.used.next_multiple_of(align);
        let len = message.data.len();
        if fails {
            // A multi-receive buffer may stay posted; the entry's flags tell.
            let release = !op.multi || self.rng.chance(0.5);
            if release {
                rx.posted.pop_front();
            }
            self.stats.lost += 1;
            return self.fail_recv(id, FI_EIO, 0, 0, release, release);
        }
        if at + len > room {
            rx.posted.pop_front();
            let room = room.saturating_sub(at);
            self.violation(format!(
                "truncated: a message of {len} bytes, and the buffer has room for {room}"
            ));
            // The buffer gets the part that has room.
            scatter(&self.ops[&id].pieces, at, &message.data[..room]);
            return self.fail_recv(id, FI_ETRUNC, room, len - room, true, true);
        }
        scatter(&op.pieces, at, &message.data);
        op.used = at + len;
        // The next message must have room after the padding.
        let left = room.saturating_sub(op.used.next_multiple_of(align));
        let release = !op.multi || left < least.max(1);
        if release {
            rx.posted.pop_front();
        }
        self.stats.delivered += 1;
        let not_before = self.flow_due.get(&key).copied().unwrap_or(0);
        let due = self.complete_recv(id, not_before, at, len, release);
        self.flow_due.insert(key, due);
    }

    fn transfer(&mut self, transfer: Transfer) {
        self.trace(5, transfer.sequence);
        if !self.is_up(transfer.to) {
            // Otherwise it never completes.
            if let (Some(op), ToTheDead::Error) = (transfer.op, self.settings.to_the_dead) {
                self.complete(op, Outcome::Failed(FI_ENOTCONN));
            }
            return;
        }
        let outcome = match self.remote(transfer.to, &transfer.remote, transfer.kind) {
            Err(error) => Outcome::Failed(error),
            Ok(memory) => {
                if let Some(atomic) = &transfer.atomic {
                    let old = memory.first().map_or(Vec::new(), |word| atomic.apply(word));
                    let op = transfer.op.and_then(|op| self.ops.get(&op));
                    scatter(op.filter(|_| atomic.fetches).map_or(&[], |op| &op.pieces[..1]), 0, &old);
                } else if transfer.kind == Operation::Write {
                    scatter(&memory, 0, &transfer.data);
                } else if let Some(op) = transfer.op.and_then(|op| self.ops.get(&op)) {
                    scatter(&op.pieces, 0, &gather(&memory));
                }
                Outcome::Done
            }
        };
        if let Some(op) = transfer.op {
            self.complete(op, outcome);
        }
    }

    /// Handles a closed port: its reads end, while its messages, writes and
    /// atomic operations are still in transit.
    pub(crate) fn settle_closed(&mut self, port: usize) {
        self.transfers.retain(|transfer| transfer.from != port || transfer.kind != Operation::Read);
        let loses = self.settings.close_loses;
        for (key, flow) in &mut self.flows {
            if loses && key.from == port {
                self.stats.lost += flow.len() as u64;
                self.ports[key.to].rx[key.rx].coming -= flow.len();
                flow.clear();
            }
        }
        if loses {
            self.transfers.retain(|transfer| transfer.from != port);
        }
    }
}

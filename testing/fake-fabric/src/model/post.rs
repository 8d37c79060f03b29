//! Posting of operations: checks, refusals, and the start of transfers.

use super::motion::{FlowKey, Message, Transfer};
use super::queue::Outcome;
use super::region::Remote;
use super::vector::Destination;
use super::word::Atomic;
use super::{Face, Id, Op, State};
use crate::errno::{
    FI_EAGAIN, FI_EBADFLAGS, FI_ECANCELED, FI_EINVAL, FI_EIO, FI_EMSGSIZE, FI_ENOENT, FI_ENOMEM, FI_ENOTCONN,
    FI_EOPBADSTATE,
};
use crate::mem::{Lent, gather};
use crate::request::Operation;
use crate::settings::ToTheDead;
use libfabric_sys::consts::{
    FI_ASYNC_IOV, FI_ATOMIC, FI_COMPLETION, FI_CONTEXT, FI_CONTEXT2, FI_DELIVERY_COMPLETE, FI_INJECT,
    FI_MULTI_RECV, FI_READ, FI_RECV, FI_RMA, FI_SEND, FI_WRITE,
};

/// Parameters of an operation.
#[derive(Debug, Default)]
pub(crate) struct Posting {
    pub(crate) call: &'static str,
    pub(crate) pieces: Vec<Lent>,
    /// Descriptors of the pieces' regions.
    pub(crate) descs: Vec<usize>,
    /// The application's arrays of more than one piece.
    pub(crate) arrays: Vec<Lent>,
    pub(crate) peer: u64,
    pub(crate) context: usize,
    /// The context's memory, with the maximum length that a provider may require.
    pub(crate) storage: Option<Lent>,
    /// Flags of this call; `None`: those of the endpoint.
    pub(crate) flags: Option<u64>,
    /// True if the memory is free when the call returns, and there is no completion (`fi_inject`).
    pub(crate) inject: bool,
}

/// The content of a transfer.
#[derive(Debug)]
pub(super) enum Moved {
    /// The data of a write; none of a read.
    Bytes(Vec<u8>),
    /// An operation on a word.
    Atomic(Atomic),
}

impl Posting {
    fn len(&self) -> usize {
        self.pieces.iter().map(Lent::len).sum()
    }
}

impl State {
    /// Returns the number of bytes that an operation lends of its context.
    fn storage_len(&self) -> usize {
        if self.settings.mode & FI_CONTEXT2 != 0 {
            64
        } else if self.settings.mode & FI_CONTEXT != 0 {
            32
        } else {
            0
        }
    }

    pub(super) fn wrong(&mut self, error: i32, text: String) -> Result<(), i32> {
        self.violation(text);
        Err(error)
    }

    /// Checks that the endpoint supports the operation.
    pub(super) fn usable(&mut self, id: Id, posting: &Posting, kind: Operation) -> Result<Face, i32> {
        let call = posting.call;
        let face = self.faces[&id];
        let port = &self.ports[face.port];
        let enabled = if kind == Operation::Recv {
            face.rx.map(|index| port.rx[index].enabled)
        } else {
            face.tx.map(|index| port.tx[index].enabled)
        };
        if enabled != Some(true) || !port.enabled {
            let object = self.describe(id);
            self.wrong(FI_EOPBADSTATE, format!("{call}: {object} is not enabled, or not made for it"))?;
        }
        let (needs, name) = match kind {
            Operation::Read | Operation::Write => (FI_RMA, "FI_RMA"),
            Operation::Atomic => (FI_ATOMIC, "FI_ATOMIC"),
            Operation::Send | Operation::Recv => (0, ""),
        };
        if self.ports[face.port].caps & needs != needs {
            let object = self.describe(id);
            self.wrong(FI_EINVAL, format!("{call}: {object} was opened without {name}"))?;
        }
        Ok(face)
    }

    /// Checks sizes, registrations and the context. Returns the regions in use.
    pub(super) fn sound(
        &mut self,
        face: Face,
        posting: &Posting,
        kind: Operation,
        wanted: bool,
        inject: bool,
    ) -> Result<Vec<Id>, i32> {
        let call = posting.call;
        let len = posting.len();
        if posting.pieces.len() > self.settings.iov_limit {
            let most = self.settings.iov_limit;
            self.wrong(
                FI_EINVAL,
                format!("{call}: {} pieces, and {most} are the limit", posting.pieces.len()),
            )?;
        }
        if inject && len > self.settings.inject_size {
            let most = self.settings.inject_size;
            self.wrong(FI_EMSGSIZE, format!("{call}: {len} bytes are injected, and {most} are the limit"))?;
        }
        if kind != Operation::Recv && len > self.settings.max_msg_size {
            let most = self.settings.max_msg_size;
            self.wrong(FI_EMSGSIZE, format!("{call}: {len} bytes, and {most} are the limit"))?;
        }
        let size = self.storage_len();
        if size != 0 && wanted {
            if posting.context == 0 || !posting.context.is_multiple_of(align_of::<usize>()) {
                self.wrong(FI_EINVAL, format!("{call}: {:#x} is no context to write to", posting.context))?;
            }
            let from = posting.context.saturating_sub(size - 1);
            if self.contexts.range(from..posting.context.saturating_add(size)).next().is_some() {
                self.wrong(
                    FI_EINVAL,
                    format!("{call}: the context {:#x} is lent to another operation", posting.context),
                )?;
            }
        }
        if inject {
            return Ok(Vec::new());
        }
        let access = match kind {
            Operation::Send => FI_SEND,
            Operation::Recv => FI_RECV,
            Operation::Read => FI_READ,
            Operation::Write => FI_WRITE,
            Operation::Atomic => FI_READ | FI_WRITE,
        };
        self.local(face, &posting.pieces, &posting.descs, access, call)
    }

    /// Returns `FI_EAGAIN` at random, or if there is no room.
    pub(super) fn again(&mut self, probability: f64, full: bool) -> Result<(), i32> {
        if full || self.rng.chance(probability) {
            self.stats.again += 1;
            return Err(FI_EAGAIN);
        }
        Ok(())
    }

    pub(super) fn fails(&mut self, kind: Operation) -> bool {
        let (slot, probability) = match kind {
            Operation::Send => (0, self.settings.failure.send),
            Operation::Recv => (1, self.settings.failure.recv),
            Operation::Read => (2, self.settings.failure.read),
            Operation::Write => (3, self.settings.failure.write),
            Operation::Atomic => (4, self.settings.failure.write),
        };
        let ordered = self.fail_next[slot] != 0;
        if ordered {
            self.fail_next[slot] -= 1;
        }
        let fails = ordered || self.rng.chance(probability);
        self.stats.failed += u64::from(fails);
        fails
    }

    /// Returns true if the next message for a receive shall be lost with an error.
    pub(crate) fn recv_fails(&mut self) -> bool {
        self.fails(Operation::Recv)
    }

    pub(crate) fn order_failure(&mut self, kind: Operation, count: u64) {
        let slot = match kind {
            Operation::Send => 0,
            Operation::Recv => 1,
            Operation::Read => 2,
            Operation::Write => 3,
            Operation::Atomic => 4,
        };
        self.fail_next[slot] = count;
    }

    /// Starts an operation, which lends its memory and context from now on.
    pub(super) fn begin(
        &mut self,
        face: Face,
        posting: Posting,
        kind: Operation,
        regions: Vec<Id>,
        wanted: bool,
        inject: bool,
    ) -> u64 {
        let id = self.next();
        for region in &regions {
            if let Some(region) = self.regions.get_mut(region) {
                region.users += 1;
            }
        }
        let size = self.storage_len();
        let storage =
            posting.storage.as_ref().filter(|_| size != 0 && wanted).and_then(|lent| lent.part(0, size));
        let storage = storage.map(|lent| {
            let pattern: Vec<u8> = (0..size).map(|at| (id as usize * 31 + at * 7) as u8 | 1).collect();
            lent.write(0, &pattern);
            self.contexts.insert(posting.context, id);
            (lent, pattern)
        });
        let source = matches!(kind, Operation::Send | Operation::Write) && !inject;
        let arrays = if self.settings.mode & FI_ASYNC_IOV != 0 { posting.arrays } else { Vec::new() };
        let len = posting.pieces.iter().map(Lent::len).sum();
        let op = Op {
            kind,
            face,
            context: posting.context,
            storage,
            sent: if source && wanted { gather(&posting.pieces) } else { Vec::new() },
            pieces: if inject { Vec::new() } else { posting.pieces },
            regions,
            arrays: arrays.into_iter().map(|array| (array.clone(), array.read(0, array.len()))).collect(),
            len,
            wanted,
            counted: kind != Operation::Recv,
            multi: false,
            used: 0,
            latest: 0,
            peer: None,
        };
        self.ops.insert(id, op);
        if let (Some(index), true) = (face.tx, kind != Operation::Recv) {
            self.ports[face.port].tx[index].outstanding += 1;
        }
        self.trace(1, id);
        id
    }

    fn arrival(&mut self) -> u64 {
        let due = self.tick + self.rng.below(self.settings.delivery_delay + 1);
        if self.settings.reorder {
            return due;
        }
        self.arrival_due = self.arrival_due.max(due);
        self.arrival_due
    }

    /// Returns true if an operation shall complete at once although its data is still in transit.
    pub(super) fn early(&mut self, flags: u64) -> bool {
        let early = self.settings.complete_early && flags & FI_DELIVERY_COMPLETE == 0 && self.rng.chance(0.5);
        self.stats.early += u64::from(early);
        early
    }

    /// Posts any kind of send.
    pub(crate) fn send(&mut self, id: Id, posting: Posting) -> Result<(), i32> {
        let face = self.usable(id, &posting, Operation::Send)?;
        let Some(index) = face.tx else { return Err(FI_EINVAL) };
        let tx = &self.ports[face.port].tx[index];
        let flags = posting.flags.unwrap_or(tx.op_flags);
        let wanted = !posting.inject && (!tx.selective || flags & FI_COMPLETION != 0);
        let full = tx.outstanding >= tx.size;
        let inject = posting.inject || flags & FI_INJECT != 0;
        let regions = self.sound(face, &posting, Operation::Send, wanted, inject)?;
        let to = self.destination(face.port, posting.peer, posting.call)?;
        let probability = if inject { self.settings.again.inject } else { self.settings.again.send };
        let waiting = to.port.map_or(0, |port| self.ports[port].rx[to.rx].coming);
        self.again(probability, full || waiting >= self.settings.unexpected_max)?;
        let there = to.port.is_some_and(|port| self.is_up(port)) && !self.ports[face.port].dead;
        if !there {
            match self.settings.to_the_dead {
                ToTheDead::Again => self.again(1.0, true)?,
                ToTheDead::Error if posting.inject => return Err(FI_ENOTCONN),
                ToTheDead::Silence | ToTheDead::Error => (),
            }
        }
        let data = gather(&posting.pieces);
        let silent = posting.inject;
        self.stats.sends += 1;
        self.stats.injects += u64::from(inject);
        self.stats.bytes += data.len() as u64;
        let op = (!silent).then(|| self.begin(face, posting, Operation::Send, regions, wanted, inject));
        if let Some(op) = op.and_then(|op| self.ops.get_mut(&op)) {
            op.peer = to.port;
        }
        if !there {
            self.stats.lost += 1;
            let error = self.settings.to_the_dead == ToTheDead::Error;
            let outcome = if error { Outcome::Failed(FI_ENOTCONN) } else { Outcome::Done };
            op.into_iter().for_each(|op| self.complete(op, outcome));
            return Ok(());
        }
        let fails = self.fails(Operation::Send);
        if fails {
            match op {
                Some(op) => self.complete(op, Outcome::Failed(FI_EIO)),
                None => self.fail_inject(face, index),
            }
            if self.rng.chance(0.5) {
                self.stats.lost += 1;
                return Ok(());
            }
        }
        let op = match op {
            Some(op) if !fails && self.early(flags) => {
                self.complete(op, Outcome::Done);
                None
            }
            op => op.filter(|_| !fails),
        };
        self.depart(FlowKey { from: face.port, tx: index, to: to.port.unwrap_or(0), rx: to.rx }, data, op);
        Ok(())
    }

    fn depart(&mut self, key: FlowKey, data: Vec<u8>, op: Option<u64>) {
        let (due, sequence) = (self.arrival(), self.next());
        self.ports[key.to].rx[key.rx].coming += 1;
        self.flows.entry(key).or_default().push_back(Message { due, sequence, data, op });
        self.wake_port(key.to);
    }

    /// Posts any kind of receive.
    pub(crate) fn recv(&mut self, id: Id, posting: Posting) -> Result<(), i32> {
        let face = self.usable(id, &posting, Operation::Recv)?;
        let Some(index) = face.rx else { return Err(FI_EINVAL) };
        let rx = &self.ports[face.port].rx[index];
        let flags = posting.flags.unwrap_or(rx.op_flags);
        let full = rx.posted.len() >= rx.size;
        let multi = flags & FI_MULTI_RECV != 0;
        if multi && (!self.settings.multi_recv || self.ports[face.port].caps & FI_MULTI_RECV == 0) {
            self.wrong(FI_EBADFLAGS, format!("{}: FI_MULTI_RECV, without that capability", posting.call))?;
        }
        if multi && posting.pieces.len() != 1 {
            self.wrong(FI_EINVAL, format!("{}: FI_MULTI_RECV takes one buffer", posting.call))?;
        }
        let regions = self.sound(face, &posting, Operation::Recv, true, false)?;
        let (most, rx) = (self.settings.unexpected_full, &self.ports[face.port].rx[index]);
        if multi && most > 0 && rx.posted.is_empty() && rx.coming >= most {
            self.stats.no_room += 1;
            return Err(FI_ENOMEM);
        }
        self.again(self.settings.again.recv, full)?;
        let op = self.begin(face, posting, Operation::Recv, regions, true, false);
        self.stats.receives += 1;
        if let Some(op) = self.ops.get_mut(&op) {
            op.multi = multi;
        }
        self.ports[face.port].rx[index].posted.push_back(op);
        Ok(())
    }

    /// Posts a read or write.
    pub(crate) fn rma(
        &mut self,
        id: Id,
        posting: Posting,
        kind: Operation,
        remote: Vec<Remote>,
    ) -> Result<(), i32> {
        let face = self.usable(id, &posting, kind)?;
        let Some(index) = face.tx else { return Err(FI_EINVAL) };
        let tx = &self.ports[face.port].tx[index];
        let flags = posting.flags.unwrap_or(tx.op_flags);
        let wanted = !tx.selective || flags & FI_COMPLETION != 0;
        let full = tx.outstanding >= tx.size;
        let inject = kind == Operation::Write && flags & FI_INJECT != 0;
        let regions = self.sound(face, &posting, kind, wanted, inject)?;
        let there: usize = remote.iter().map(|piece| piece.len).sum();
        if remote.len() > self.settings.rma_iov_limit || there != posting.len() {
            let text = format!(
                "{}: {} remote pieces of {there} bytes for {} bytes; {} pieces are the limit",
                posting.call,
                remote.len(),
                posting.len(),
                self.settings.rma_iov_limit
            );
            self.wrong(FI_EINVAL, text)?;
        }
        let to = self.destination(face.port, posting.peer, posting.call)?;
        let again =
            if kind == Operation::Read { self.settings.again.read } else { self.settings.again.write };
        self.again(again, full)?;
        let up = to.port.is_some_and(|port| self.is_up(port)) && !self.ports[face.port].dead;
        if !up && self.settings.to_the_dead == ToTheDead::Again {
            self.again(1.0, true)?;
        }
        let data = if kind == Operation::Write { gather(&posting.pieces) } else { Vec::new() };
        let op = self.begin(face, posting, kind, regions, wanted, inject);
        if let Some(op) = self.ops.get_mut(&op) {
            op.peer = to.port;
        }
        if kind == Operation::Write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        if !up {
            if self.settings.to_the_dead == ToTheDead::Error {
                self.complete(op, Outcome::Failed(FI_ENOTCONN));
            }
            return Ok(());
        }
        if self.fails(kind) {
            self.complete(op, Outcome::Failed(FI_EIO));
            return Ok(());
        }
        let early = kind == Operation::Write && self.early(flags);
        if early {
            self.complete(op, Outcome::Done);
        }
        self.under_way(face, to, kind, remote, Moved::Bytes(data), (!early).then_some(op));
        Ok(())
    }

    pub(super) fn under_way(
        &mut self,
        face: Face,
        to: Destination,
        kind: Operation,
        remote: Vec<Remote>,
        moved: Moved,
        op: Option<u64>,
    ) {
        let (due, sequence) = (self.arrival(), self.next());
        let to = to.port.unwrap_or(0);
        let (data, atomic) = match moved {
            Moved::Bytes(data) => (data, None),
            Moved::Atomic(atomic) => (Vec::new(), Some(atomic)),
        };
        self.transfers.push(Transfer { due, sequence, from: face.port, to, kind, remote, data, atomic, op });
        self.wake_port(to);
    }

    /// `fi_cancel`: only waiting receives can be cancelled.
    pub(crate) fn cancel(&mut self, id: Id, context: usize) -> Result<(), i32> {
        let face = self.faces[&id];
        let Some(index) = face.rx else { return Err(FI_ENOENT) };
        let posted = &self.ports[face.port].rx[index].posted;
        let found = posted.iter().position(|op| self.ops.get(op).is_some_and(|op| op.context == context));
        let Some(position) = found else { return Err(FI_ENOENT) };
        let op = self.ports[face.port].rx[index].posted.remove(position);
        // Providers differ in whether they report a cancelled multi-receive buffer as free.
        let says = self.rng.chance(0.5);
        op.into_iter().for_each(|op| self.fail_recv(op, FI_ECANCELED, 0, 0, true, says));
        Ok(())
    }
}

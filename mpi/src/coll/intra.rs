//! Calls on intracommunicators: the buffers that count.

use super::call::Call;
use super::plan::{Plan, bad, root_of};
use super::schedule::Base;
use super::shape::Shape;
use crate::datatype::Buf;
use crate::error::{Class, Result};
use crate::handle::Op;

impl Plan<'_> {
    fn reduce(&mut self, send: &Buf, recv: &Buf, op: Op, root: i32) -> Result<Shape> {
        let root = root_of(root, self.b.n)?;
        let at_root = self.b.me == root;
        if send.is_in_place() && !at_root {
            let text = "MPI_IN_PLACE is for the root alone; give the operand's address";
            return Err(bad(Class::BUFFER, text.into()));
        }
        if at_root {
            let (op, mine, result) = self.operands(send, recv, op)?;
            Ok(Shape::Reduce { root, op, mine, result: Some(result) })
        } else {
            let op = self.operation(op, send)?;
            let mine = self.whole(Base::Send, send)?;
            Ok(Shape::Reduce { root, op, mine, result: None })
        }
    }

    fn reduce_scatter(&mut self, send: &Buf, recv: &Buf, counts: &[i64], op: Op) -> Result<Shape> {
        let (counts, total) = self.counts(counts)?;
        let own = counts[self.b.me] as i64;
        let op = self.operation(op, recv)?;
        let in_place = send.is_in_place();
        let result = self.whole(Base::Recv, &recv.with_count(if in_place { total } else { own }))?;
        self.types.committed(recv.datatype(), total)?;
        self.distinct(&send.with_count(total), recv)?;
        let mine = if in_place { None } else { Some(self.operand(&send.with_count(total), result)?) };
        Ok(Shape::ReduceScatter { op, mine, result, counts })
    }

    /// Checks a call on an intracommunicator.
    pub(super) fn intra(&mut self, call: &Call) -> Result<Shape> {
        let (n, me) = (self.b.n, self.b.me);
        Ok(match call {
            Call::Barrier => Shape::Barrier,
            Call::Bcast { buf, root } => {
                let root = root_of(*root, n)?;
                Shape::Bcast { root, data: self.whole(Base::Recv, buf)? }
            }
            Call::Gather { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Send, send)?
                } else {
                    Some(self.whole(Base::Send, send)?)
                };
                let all = if me == root { Some(self.parts(Base::Recv, recv, n)?) } else { None };
                if let Some(all) = all {
                    self.apart(mine.as_slice(), &[all.part(me * all.count, all.count)])?;
                }
                Shape::Gather { root, mine, all }
            }
            Call::Gatherv { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Send, send)?
                } else {
                    Some(self.whole(Base::Send, send)?)
                };
                let blocks = if me == root { self.blocks(Base::Recv, recv, n)? } else { Vec::new() };
                self.apart(mine.as_slice(), &blocks)?;
                Shape::Gatherv { root, mine, blocks }
            }
            Call::Scatter { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Recv, recv)?
                } else {
                    Some(self.whole(Base::Recv, recv)?)
                };
                let all = if me == root { Some(self.parts(Base::Send, send, n)?) } else { None };
                if let Some(all) = all {
                    self.apart(&[all.part(me * all.count, all.count)], mine.as_slice())?;
                }
                Shape::Scatter { root, mine, all }
            }
            Call::Scatterv { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Recv, recv)?
                } else {
                    Some(self.whole(Base::Recv, recv)?)
                };
                let blocks = if me == root { self.blocks(Base::Send, send, n)? } else { Vec::new() };
                self.apart(&blocks, mine.as_slice())?;
                Shape::Scatterv { root, mine, blocks }
            }
            Call::Allgather { send, recv } => {
                self.distinct(send, recv)?;
                let mine = self.optional(Base::Send, send)?;
                let all = self.parts(Base::Recv, recv, n)?;
                self.apart(mine.as_slice(), &[all.part(me * all.count, all.count)])?;
                Shape::Allgather { mine, all }
            }
            Call::Allgatherv { send, recv } => {
                let mine = self.optional(Base::Send, send)?;
                let blocks = self.blocks(Base::Recv, recv, n)?;
                self.apart(mine.as_slice(), &blocks)?;
                Shape::Allgatherv { mine, blocks }
            }
            Call::Alltoall { send, recv } => {
                self.distinct(send, recv)?;
                let from = if send.is_in_place() { None } else { Some(self.parts(Base::Send, send, n)?) };
                let into = self.parts(Base::Recv, recv, n)?;
                Shape::Alltoall { from, into }
            }
            Call::Alltoallv { send, recv } => {
                let from = if send.is_in_place() { None } else { Some(self.blocks(Base::Send, send, n)?) };
                let into = self.blocks(Base::Recv, recv, n)?;
                if let Some(from) = from.as_ref().filter(|_| self.send.base() == self.recv.base()) {
                    self.apart(from, &into)?;
                }
                Shape::Alltoallv { from, into }
            }
            Call::Reduce { send, recv, op, root } => self.reduce(send, recv, *op, *root)?,
            Call::Allreduce { send, recv, op } => {
                let (op, mine, result) = self.operands(send, recv, *op)?;
                Shape::Allreduce { op, mine, result }
            }
            Call::ReduceScatter { send, recv, counts, op } => self.reduce_scatter(send, recv, counts, *op)?,
            Call::ReduceScatterBlock { send, recv, op } => {
                self.reduce_scatter(send, recv, &vec![recv.count(); n], *op)?
            }
            Call::Scan { send, recv, op } => {
                let (op, mine, result) = self.operands(send, recv, *op)?;
                Shape::Scan { op, mine, result: Some(result), with_own: true }
            }
            // Process 0 has no result.
            Call::Exscan { send, recv, op } if me == 0 && !send.is_in_place() => {
                self.distinct(send, recv)?;
                let op = self.operation(*op, send)?;
                let mine = self.whole(Base::Send, send)?;
                Shape::Scan { op, mine, result: None, with_own: false }
            }
            Call::Exscan { send, recv, op } => {
                let (op, mine, result) = self.operands(send, recv, *op)?;
                Shape::Scan { op, mine, result: Some(result), with_own: false }
            }
        })
    }
}

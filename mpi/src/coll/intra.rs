//! Calls on intracommunicators: the buffers that count, and the schedule.

use super::call::Call;
use super::plan::{Plan, bad, root_of};
use super::reduce::OpFacts;
use super::schedule::{Base, Data};
use super::{allgather, alltoall, barrier, bcast, gather, node, reduce, scan};
use crate::datatype::Buf;
use crate::error::{Class, Result};
use crate::handle::Op;

impl Plan<'_> {
    fn reduce(&mut self, send: &Buf, recv: &Buf, op: Op, root: i32) -> Result<()> {
        let root = root_of(root, self.b.n)?;
        let at_root = self.b.me == root;
        if send.is_in_place() && !at_root {
            let text = "MPI_IN_PLACE is for the root alone; give the operand's address";
            return Err(bad(Class::BUFFER, text.into()));
        }
        if at_root {
            let (facts, mine, result) = self.operands(send, recv, op)?;
            self.reduced(root, facts, mine, Some(result));
        } else {
            let facts = self.operation(op, send)?;
            let mine = self.whole(Base::Send, send)?;
            self.reduced(root, facts, mine, None);
        }
        Ok(())
    }

    fn reduced(&mut self, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
        if self.node && node::reduces_to_root(self.b.n, op, &mine) {
            node::reduce(&mut self.b, root, op, mine, result);
        } else {
            reduce::reduce(&mut self.b, root, op, mine, result);
        }
    }

    fn reduce_scatter(&mut self, send: &Buf, recv: &Buf, counts: &[i64], op: Op) -> Result<()> {
        let (counts, total) = self.counts(counts)?;
        let own = counts[self.b.me] as i64;
        let facts = self.operation(op, recv)?;
        let in_place = send.is_in_place();
        let result = self.whole(Base::Recv, &recv.with_count(if in_place { total } else { own }))?;
        self.types.committed(recv.datatype(), total)?;
        self.distinct(&send.with_count(total), recv)?;
        let mine = if in_place { None } else { Some(self.operand(&send.with_count(total), result)?) };
        let whole = mine.unwrap_or(result).part(0, total as usize);
        if self.node && node::fits(whole.bytes()) {
            let me = self.b.me;
            let before = counts[..me].iter().sum();
            node::reduce_scatter(&mut self.b, whole, result.part(0, counts[me]), before);
        } else {
            reduce::reduce_scatter(&mut self.b, facts, mine, result, &counts);
        }
        Ok(())
    }

    /// Builds the schedule of a call on an intracommunicator.
    pub(super) fn intra(&mut self, call: &Call) -> Result<()> {
        let (n, me) = (self.b.n, self.b.me);
        match call {
            Call::Barrier if self.node => node::barrier(&mut self.b),
            Call::Barrier => barrier::barrier(&mut self.b),
            Call::Bcast { buf, root } => {
                let root = root_of(*root, n)?;
                let data = self.whole(Base::Recv, buf)?;
                if self.node && node::fits_one_way(n, data.bytes(), data.bytes()) {
                    node::bcast(&mut self.b, root, data);
                } else {
                    bcast::bcast(&mut self.b, root, data);
                }
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
                let bytes = mine.or(all).map_or(0, |d| d.bytes());
                if self.node && node::fits_one_way(n, bytes, bytes) {
                    node::gather(&mut self.b, root, mine, all);
                } else {
                    gather::gather(&mut self.b, root, mine, all);
                }
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
                gather::gatherv(&mut self.b, root, mine, &blocks);
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
                let bytes = mine.or(all).map_or(0, |d| d.bytes());
                if self.node && node::fits_one_way(n, bytes, bytes.saturating_mul(n)) {
                    node::scatter(&mut self.b, root, all, mine);
                } else {
                    gather::scatter(&mut self.b, root, all, mine);
                }
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
                gather::scatterv(&mut self.b, root, &blocks, mine);
            }
            Call::Allgather { send, recv } => {
                self.distinct(send, recv)?;
                let mine = self.optional(Base::Send, send)?;
                let all = self.parts(Base::Recv, recv, n)?;
                self.apart(mine.as_slice(), &[all.part(me * all.count, all.count)])?;
                if self.node && node::fits(all.bytes()) {
                    node::allgather(&mut self.b, mine, all);
                } else {
                    allgather::allgather(&mut self.b, mine, all);
                }
            }
            Call::Allgatherv { send, recv } => {
                let mine = self.optional(Base::Send, send)?;
                let blocks = self.blocks(Base::Recv, recv, n)?;
                self.apart(mine.as_slice(), &blocks)?;
                allgather::allgatherv(&mut self.b, mine, &blocks);
            }
            Call::Alltoall { send, recv } => {
                self.distinct(send, recv)?;
                let from = if send.is_in_place() { None } else { Some(self.parts(Base::Send, send, n)?) };
                let into = self.parts(Base::Recv, recv, n)?;
                if self.node && node::fits(into.bytes().saturating_mul(n)) {
                    node::alltoall(&mut self.b, from, into);
                } else {
                    alltoall::alltoall(&mut self.b, from, into);
                }
            }
            Call::Alltoallv { send, recv } => {
                let from = if send.is_in_place() { None } else { Some(self.blocks(Base::Send, send, n)?) };
                let into = self.blocks(Base::Recv, recv, n)?;
                if let Some(from) = from.as_ref().filter(|_| self.send.base() == self.recv.base()) {
                    self.apart(from, &into)?;
                }
                alltoall::alltoallv(&mut self.b, from.as_deref(), &into);
            }
            Call::Reduce { send, recv, op, root } => self.reduce(send, recv, *op, *root)?,
            Call::Allreduce { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                if self.node && node::reduces(facts, &mine) {
                    node::allreduce(&mut self.b, facts, mine, result);
                } else {
                    reduce::allreduce(&mut self.b, facts, mine, result);
                }
            }
            Call::ReduceScatter { send, recv, counts, op } => self.reduce_scatter(send, recv, counts, *op)?,
            Call::ReduceScatterBlock { send, recv, op } => {
                self.reduce_scatter(send, recv, &vec![recv.count(); n], *op)?;
            }
            Call::Scan { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                if self.node && node::fits(mine.bytes()) {
                    node::scan(&mut self.b, mine, Some(result), true);
                } else {
                    scan::scan(&mut self.b, facts, mine, result);
                }
            }
            // Process 0 has no result.
            Call::Exscan { send, recv, op } if me == 0 && !send.is_in_place() => {
                self.distinct(send, recv)?;
                let facts = self.operation(*op, send)?;
                let mine = self.whole(Base::Send, send)?;
                if self.node && node::fits(mine.bytes()) {
                    node::scan(&mut self.b, mine, None, false);
                } else {
                    scan::exscan(&mut self.b, facts, mine, mine);
                }
            }
            Call::Exscan { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                if self.node && node::fits(mine.bytes()) {
                    node::scan(&mut self.b, mine, Some(result).filter(|_| me > 0), false);
                } else {
                    scan::exscan(&mut self.b, facts, mine, result);
                }
            }
        }
        Ok(())
    }
}

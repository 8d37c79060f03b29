//! Calls on intercommunicators: each group gets what the other one has.
//!
//! Process `r` of the remote group is process `n + r` of a schedule. A reduction is done by the
//! group that has the operands; process 0 of each group speaks for it.

use super::call::Call;
use super::plan::{Plan, bad};
use super::reduce::OpFacts;
use super::schedule::{Base, Data};
use super::shape::Shape;
use crate::consts::{PROC_NULL, ROOT};
use crate::datatype::{Blocks, Buf};
use crate::error::{Class, Result};
use crate::handle::Op;

/// The part that this process has in an operation with a root.
enum Part {
    /// It is the root.
    Root,
    /// It is in the root's group, and does nothing.
    Idle,
    /// It is in the other group: the root's number in the schedule.
    Peer(usize),
}

impl Plan<'_> {
    fn part(&self, root: i32, remote: usize) -> Result<Part> {
        match usize::try_from(root) {
            Ok(r) if r < remote => Ok(Part::Peer(self.b.n + r)),
            _ if root == ROOT => Ok(Part::Root),
            _ if root == PROC_NULL => Ok(Part::Idle),
            _ => Err(bad(
                Class::ROOT,
                format!(
                    "root {root} is neither MPI_ROOT, MPI_PROC_NULL nor a rank of the remote group, whose size is {remote}"
                ),
            )),
        }
    }

    /// Exchanges data with every process of the remote group.
    fn with_all(&mut self, remote: usize, out: &dyn Fn(usize) -> Data, into: &dyn Fn(usize) -> Data) {
        // All at once: batches of groups of different sizes might wait for each other.
        let (n, me) = (self.b.n, self.b.me);
        let all = (0..remote).map(|i| (i + me) % remote);
        for r in all.clone() {
            self.b.recv(n + r, into(r));
        }
        for r in all {
            self.b.send(n + r, out(r));
        }
    }

    /// Reduces the operands of this group at its process 0, which returns the result.
    fn own_result(&mut self, facts: OpFacts, mine: Data) -> Option<Data> {
        let result = (self.b.me == 0).then(|| self.b.room(mine.count, mine.elem));
        self.build(&Shape::Reduce { root: 0, op: facts, mine, result });
        self.b.fence();
        result
    }

    fn inter_reduce(&mut self, send: &Buf, recv: &Buf, op: Op, part: &Part) -> Result<()> {
        match part {
            Part::Root => {
                self.operation(op, recv)?;
                let result = self.whole(Base::Recv, recv)?;
                self.b.recv(self.b.n, result);
            }
            Part::Idle => {}
            Part::Peer(root) => {
                let facts = self.operation(op, send)?;
                let mine = self.whole(Base::Send, send)?;
                if let Some(result) = self.own_result(facts, mine) {
                    self.b.send(*root, result);
                }
            }
        }
        Ok(())
    }

    fn inter_allreduce(&mut self, send: &Buf, recv: &Buf, op: Op) -> Result<()> {
        // Nothing can be in place.
        self.types.checked(send)?;
        let (facts, mine, result) = self.operands(send, recv, op)?;
        let n = self.b.n;
        if let Some(own) = self.own_result(facts, mine) {
            self.b.exchange(n, own, n, result);
        }
        self.build(&Shape::Bcast { root: 0, data: result });
        Ok(())
    }

    fn inter_reduce_scatter(&mut self, send: &Buf, recv: &Buf, counts: &[i64], op: Op) -> Result<()> {
        let (counts, total) = self.counts(counts)?;
        let facts = self.operation(op, recv)?;
        self.types.checked(&send.with_count(total))?;
        let own = self.whole(Base::Recv, &recv.with_count(counts[self.b.me] as i64))?;
        let mine = self.operand(&send.with_count(total), own)?.part(0, total as usize);
        let n = self.b.n;
        let mut blocks = Vec::new();
        if let Some(ours) = self.own_result(facts, mine) {
            // The other group's counts differ, their sum does not.
            let theirs = self.b.room(mine.count, mine.elem);
            self.b.exchange(n, ours, n, theirs);
            let mut at = 0;
            for count in &counts {
                blocks.push(theirs.part(at, *count));
                at += count;
            }
        }
        self.build(&Shape::Scatterv { root: 0, mine: Some(own), blocks });
        Ok(())
    }

    fn inter_scatterv(&mut self, send: &Blocks, recv: &Buf, part: &Part, remote: usize) -> Result<()> {
        match part {
            Part::Root => {
                let blocks = self.blocks(Base::Send, send, remote)?;
                self.send_each(blocks.into_iter());
            }
            Part::Idle => {}
            Part::Peer(root) => {
                let mine = self.whole(Base::Recv, recv)?;
                self.b.recv(*root, mine);
            }
        }
        Ok(())
    }

    fn send_each(&mut self, blocks: impl Iterator<Item = Data>) {
        for (r, block) in blocks.enumerate() {
            self.b.send(self.b.n + r, block);
        }
    }

    fn recv_each(&mut self, blocks: impl Iterator<Item = Data>) {
        for (r, block) in blocks.enumerate() {
            self.b.recv(self.b.n + r, block);
        }
    }

    fn send_to_root(&mut self, send: &Buf, part: &Part) -> Result<()> {
        if let Part::Peer(root) = part {
            let mine = self.whole(Base::Send, send)?;
            self.b.send(*root, mine);
        }
        Ok(())
    }

    /// Builds the schedule of a call on an intercommunicator.
    pub(super) fn inter(&mut self, call: &Call, remote: usize) -> Result<()> {
        let each = |d: Data| (0..remote).map(move |r| d.part(r * d.count, d.count));
        match call {
            Call::Barrier => {
                let n = self.b.n;
                self.build(&Shape::Barrier);
                if self.b.me == 0 {
                    self.b.await_signal(n);
                    self.b.signal(n);
                    self.b.fence();
                }
                self.build(&Shape::Barrier);
            }
            Call::Bcast { buf, root } => match self.part(*root, remote)? {
                Part::Root => {
                    let data = self.whole(Base::Recv, buf)?;
                    self.b.send(self.b.n, data);
                }
                Part::Idle => {}
                Part::Peer(root) => {
                    let data = self.whole(Base::Recv, buf)?;
                    if self.b.me == 0 {
                        self.b.recv(root, data);
                        self.b.fence();
                    }
                    self.build(&Shape::Bcast { root: 0, data });
                }
            },
            Call::Gather { send, recv, root } => match self.part(*root, remote)? {
                Part::Root => {
                    let all = self.parts(Base::Recv, recv, remote)?;
                    self.recv_each(each(all));
                }
                part => self.send_to_root(send, &part)?,
            },
            Call::Gatherv { send, recv, root } => match self.part(*root, remote)? {
                Part::Root => {
                    let blocks = self.blocks(Base::Recv, recv, remote)?;
                    self.recv_each(blocks.into_iter());
                }
                part => self.send_to_root(send, &part)?,
            },
            Call::Scatter { send, recv, root } => match self.part(*root, remote)? {
                Part::Root => {
                    let all = self.parts(Base::Send, send, remote)?;
                    self.send_each(each(all));
                }
                Part::Idle => {}
                Part::Peer(root) => {
                    let mine = self.whole(Base::Recv, recv)?;
                    self.b.recv(root, mine);
                }
            },
            Call::Scatterv { send, recv, root } => {
                let part = self.part(*root, remote)?;
                self.inter_scatterv(send, recv, &part, remote)?;
            }
            Call::Allgather { send, recv } => {
                let mine = self.whole(Base::Send, send)?;
                let all = self.parts(Base::Recv, recv, remote)?;
                self.with_all(remote, &|_| mine, &|r| all.part(r * all.count, all.count));
            }
            Call::Allgatherv { send, recv } => {
                let mine = self.whole(Base::Send, send)?;
                let blocks = self.blocks(Base::Recv, recv, remote)?;
                self.with_all(remote, &|_| mine, &|r| blocks[r]);
            }
            Call::Alltoall { send, recv } => {
                let from = self.parts(Base::Send, send, remote)?;
                let into = self.parts(Base::Recv, recv, remote)?;
                let block = |d: Data, r: usize| d.part(r * d.count, d.count);
                self.with_all(remote, &|r| block(from, r), &|r| block(into, r));
            }
            Call::Alltoallv { send, recv } => {
                let from = self.blocks(Base::Send, send, remote)?;
                let into = self.blocks(Base::Recv, recv, remote)?;
                self.with_all(remote, &|r| from[r], &|r| into[r]);
            }
            Call::Reduce { send, recv, op, root } => {
                let part = self.part(*root, remote)?;
                self.inter_reduce(send, recv, *op, &part)?;
            }
            Call::Allreduce { send, recv, op } => {
                self.inter_allreduce(send, recv, *op)?;
            }
            Call::ReduceScatter { send, recv, counts, op } => {
                self.inter_reduce_scatter(send, recv, counts, *op)?;
            }
            Call::ReduceScatterBlock { send, recv, op } => {
                let counts = vec![recv.count(); self.b.n];
                self.inter_reduce_scatter(send, recv, &counts, *op)?;
            }
            Call::Scan { .. } | Call::Exscan { .. } => {
                let text = "scans are not defined on intercommunicators; give an intracommunicator";
                return Err(bad(Class::COMM, text.into()));
            }
        }
        Ok(())
    }
}

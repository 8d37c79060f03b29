//! The arguments of a collective call, and the run that they ask for.
//!
//! Blocking, nonblocking and persistent forms all come through [`Call`]. What the call's buffers
//! describe is checked here, once; the schedules rely on it.

use std::sync::Arc;

use super::engine::{Active, Reducer};
use super::memory::Memory;
use super::reduce::OpFacts;
use super::schedule::{Base, Builder, Data, Elem, TypeId};
use super::{allgather, alltoall, barrier, bcast, gather, reduce, scan};
use crate::datatype::{Blocks, Buf, TypeDesc, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Datatype, Op};
use crate::op::{Ops, Prepared};

/// A collective operation with its arguments, without the communicator.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Call {
    Barrier,
    Bcast {
        buf: Buf,
        root: i32,
    },
    Gather {
        send: Buf,
        recv: Buf,
        root: i32,
    },
    Gatherv {
        send: Buf,
        recv: Blocks,
        root: i32,
    },
    Scatter {
        send: Buf,
        recv: Buf,
        root: i32,
    },
    Scatterv {
        send: Blocks,
        recv: Buf,
        root: i32,
    },
    Allgather {
        send: Buf,
        recv: Buf,
    },
    Allgatherv {
        send: Buf,
        recv: Blocks,
    },
    Alltoall {
        send: Buf,
        recv: Buf,
    },
    Alltoallv {
        send: Blocks,
        recv: Blocks,
    },
    Reduce {
        send: Buf,
        recv: Buf,
        op: Op,
        root: i32,
    },
    Allreduce {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    /// The count of the receive buffer is not looked at.
    ReduceScatter {
        send: Buf,
        recv: Buf,
        counts: Vec<i64>,
        op: Op,
    },
    ReduceScatterBlock {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    Scan {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    Exscan {
        send: Buf,
        recv: Buf,
        op: Op,
    },
}

/// The types and addresses that a schedule is run with, as they are collected.
struct Plan<'a> {
    types: &'a Types,
    ops: &'a Ops,
    b: Builder,
    descs: Vec<Arc<TypeDesc>>,
    send: Buf,
    recv: Buf,
    reducer: Reducer,
}

/// `MPI_BYTE`.
const BYTE: Datatype = Datatype(0x4c00_010d);

fn bad(class: Class, text: String) -> Box<MpiError> {
    MpiError::new(class, text)
}

/// Checks and returns the root of a call.
fn root_of(root: i32, n: usize) -> Result<usize> {
    match usize::try_from(root) {
        Ok(r) if r < n => Ok(r),
        _ => Err(bad(Class::ROOT, format!("root {root} is not in the communicator, whose size is {n}"))),
    }
}

impl Plan<'_> {
    /// Adds a type.
    fn elem(&mut self, desc: &Arc<TypeDesc>) -> Elem {
        let ty = TypeId(self.descs.len() as u32);
        self.descs.push(Arc::clone(desc));
        Elem { ty, size: desc.size(), extent: desc.extent(), plain: desc.is_plain() }
    }

    /// Sets the address of a buffer.
    fn set(&mut self, base: Base, at: Buf) {
        match base {
            Base::Send => self.send = at,
            _ => self.recv = at,
        }
    }

    /// Takes a buffer whose elements are repeated `times`: one part for each process.
    ///
    /// The result is the first part.
    fn parts(&mut self, base: Base, buf: &Buf, times: usize) -> Result<Data> {
        let desc = Arc::clone(self.types.checked(buf)?);
        if !buf.count().checked_mul(times as i64).is_some_and(|all| desc.fits(all)) {
            let text = format!("{} elements for each of {times} processes do not exist", buf.count());
            return Err(bad(Class::COUNT, text));
        }
        self.set(base, *buf);
        let elem = self.elem(&desc);
        Ok(Data::new(base, buf.count() as usize, elem))
    }

    /// Takes a buffer.
    fn whole(&mut self, base: Base, buf: &Buf) -> Result<Data> {
        self.parts(base, buf, 1)
    }

    /// Takes a send buffer that may be in place.
    fn optional(&mut self, base: Base, buf: &Buf) -> Result<Option<Data>> {
        if buf.is_in_place() { Ok(None) } else { self.whole(base, buf).map(Some) }
    }

    /// Takes the blocks of all processes.
    fn blocks(&mut self, base: Base, blocks: &Blocks) -> Result<Vec<Data>> {
        let data = blocks.checked(self.types, self.b.n)?;
        self.set(base, blocks.base());
        let mut elems: Vec<(*const TypeDesc, Elem)> = Vec::new();
        let mut all = Vec::with_capacity(data.len());
        for (desc, at, count) in data {
            let known = elems.last().filter(|(d, _)| *d == Arc::as_ptr(&desc)).map(|(_, e)| *e);
            let elem = known.unwrap_or_else(|| self.elem(&desc));
            if known.is_none() {
                elems.push((Arc::as_ptr(&desc), elem));
            }
            all.push(Data { base, at, count, elem });
        }
        Ok(all)
    }

    /// Checks that two buffers with data do not begin at the same address.
    fn distinct(&self, send: &Buf, recv: &Buf) -> Result<()> {
        if send.count() > 0 && !send.is_in_place() && !send.base().is_null() && send.base() == recv.base() {
            let text = "the send and the receive buffer are the same; give MPI_IN_PLACE or two buffers";
            return Err(bad(Class::BUFFER, text.into()));
        }
        Ok(())
    }

    /// Prepares an operation on the elements of a buffer.
    fn operation(&mut self, op: Op, buf: &Buf) -> Result<OpFacts> {
        let desc = self.types.committed(buf.datatype(), 0)?;
        let (reducer, facts) = match self.ops.prepare(op, desc)? {
            Prepared::Kernel(kernel) => {
                (Reducer::Kernel(kernel), OpFacts { commutative: true, divisible: true })
            }
            Prepared::User { function, commutative } => {
                (Reducer::User(function, buf.datatype()), OpFacts { commutative, divisible: false })
            }
        };
        self.reducer = reducer;
        Ok(facts)
    }

    /// Takes the operand and the result of a reduction in which all processes have both.
    fn operands(&mut self, send: &Buf, recv: &Buf, op: Op) -> Result<(OpFacts, Data, Data)> {
        let facts = self.operation(op, recv)?;
        self.distinct(send, recv)?;
        let result = self.whole(Base::Recv, recv)?;
        Ok((facts, self.operand(send, result)?, result))
    }

    /// Takes an operand like a result, which is the same if it is in place.
    fn operand(&mut self, send: &Buf, result: Data) -> Result<Data> {
        if send.is_in_place() {
            return Ok(result);
        }
        self.types.checked(send)?;
        self.set(Base::Send, *send);
        Ok(Data { base: Base::Send, ..result })
    }

    fn reduce(&mut self, send: &Buf, recv: &Buf, op: Op, root: i32) -> Result<()> {
        let root = root_of(root, self.b.n)?;
        let at_root = self.b.me == root;
        if send.is_in_place() && !at_root {
            let text = "MPI_IN_PLACE is for the root alone; give the operand's address";
            return Err(bad(Class::BUFFER, text.into()));
        }
        if at_root {
            let (facts, mine, result) = self.operands(send, recv, op)?;
            reduce::reduce(&mut self.b, root, facts, mine, Some(result));
        } else {
            let facts = self.operation(op, send)?;
            let mine = self.whole(Base::Send, send)?;
            reduce::reduce(&mut self.b, root, facts, mine, None);
        }
        Ok(())
    }

    fn reduce_scatter(&mut self, send: &Buf, recv: &Buf, counts: &[i64], op: Op) -> Result<()> {
        if counts.len() != self.b.n {
            let text = format!("{} receive counts for {} processes", counts.len(), self.b.n);
            return Err(bad(Class::COUNT, text));
        }
        if let Some((rank, c)) = counts.iter().enumerate().find(|(_, c)| **c < 0) {
            return Err(bad(Class::COUNT, format!("receive count {rank} is {c}: it must not be negative")));
        }
        let total = counts.iter().try_fold(0i64, |sum, c| sum.checked_add(*c));
        let total = total.ok_or_else(|| bad(Class::COUNT, "the sum of the counts is out of range".into()))?;
        let own = counts[self.b.me];
        let facts = self.operation(op, recv)?;
        let in_place = send.is_in_place();
        let result = self.whole(Base::Recv, &recv.with_count(if in_place { total } else { own }))?;
        self.types.committed(recv.datatype(), total)?;
        self.distinct(&send.with_count(total), recv)?;
        let mine = if in_place { None } else { Some(self.operand(&send.with_count(total), result)?) };
        let counts: Vec<usize> = counts.iter().map(|c| *c as usize).collect();
        reduce::reduce_scatter(&mut self.b, facts, mine, result, &counts);
        Ok(())
    }

    fn build(&mut self, call: &Call) -> Result<()> {
        let (n, me) = (self.b.n, self.b.me);
        match call {
            Call::Barrier => barrier::barrier(&mut self.b),
            Call::Bcast { buf, root } => {
                let root = root_of(*root, n)?;
                let data = self.whole(Base::Recv, buf)?;
                bcast::bcast(&mut self.b, root, data);
            }
            Call::Gather { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Send, send)?
                } else {
                    Some(self.whole(Base::Send, send)?)
                };
                let all = if me == root { Some(self.parts(Base::Recv, recv, n)?) } else { None };
                if me == root {
                    self.distinct(send, recv)?;
                }
                gather::gather(&mut self.b, root, mine, all);
            }
            Call::Gatherv { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Send, send)?
                } else {
                    Some(self.whole(Base::Send, send)?)
                };
                let blocks = if me == root { self.blocks(Base::Recv, recv)? } else { Vec::new() };
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
                if me == root {
                    self.distinct(send, recv)?;
                }
                gather::scatter(&mut self.b, root, all, mine);
            }
            Call::Scatterv { send, recv, root } => {
                let root = root_of(*root, n)?;
                let mine = if me == root {
                    self.optional(Base::Recv, recv)?
                } else {
                    Some(self.whole(Base::Recv, recv)?)
                };
                let blocks = if me == root { self.blocks(Base::Send, send)? } else { Vec::new() };
                gather::scatterv(&mut self.b, root, &blocks, mine);
            }
            Call::Allgather { send, recv } => {
                self.distinct(send, recv)?;
                let mine = self.optional(Base::Send, send)?;
                let all = self.parts(Base::Recv, recv, n)?;
                allgather::allgather(&mut self.b, mine, all);
            }
            Call::Allgatherv { send, recv } => {
                self.distinct(send, &recv.base())?;
                let mine = self.optional(Base::Send, send)?;
                let blocks = self.blocks(Base::Recv, recv)?;
                allgather::allgatherv(&mut self.b, mine, &blocks);
            }
            Call::Alltoall { send, recv } => {
                self.distinct(send, recv)?;
                let from = if send.is_in_place() { None } else { Some(self.parts(Base::Send, send, n)?) };
                let into = self.parts(Base::Recv, recv, n)?;
                alltoall::alltoall(&mut self.b, from, into);
            }
            Call::Alltoallv { send, recv } => {
                let from = if send.is_in_place() { None } else { Some(self.blocks(Base::Send, send)?) };
                let into = self.blocks(Base::Recv, recv)?;
                alltoall::alltoallv(&mut self.b, from.as_deref(), &into);
            }
            Call::Reduce { send, recv, op, root } => self.reduce(send, recv, *op, *root)?,
            Call::Allreduce { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                reduce::allreduce(&mut self.b, facts, mine, result);
            }
            Call::ReduceScatter { send, recv, counts, op } => self.reduce_scatter(send, recv, counts, *op)?,
            Call::ReduceScatterBlock { send, recv, op } => {
                self.reduce_scatter(send, recv, &vec![recv.count(); n], *op)?;
            }
            Call::Scan { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                scan::scan(&mut self.b, facts, mine, result);
            }
            // Process 0 has no result.
            Call::Exscan { send, op, .. } if me == 0 && !send.is_in_place() => {
                let facts = self.operation(*op, send)?;
                let mine = self.whole(Base::Send, send)?;
                scan::exscan(&mut self.b, facts, mine, mine);
            }
            Call::Exscan { send, recv, op } => {
                let (facts, mine, result) = self.operands(send, recv, *op)?;
                scan::exscan(&mut self.b, facts, mine, result);
            }
        }
        Ok(())
    }
}

impl Call {
    /// Checks the arguments and prepares the run of process `me` of `n`.
    ///
    /// # Errors
    /// An argument that MPI does not allow, with its class; no memory.
    pub fn plan<R: Copy>(&self, types: &Types, ops: &Ops, me: usize, n: usize) -> Result<Active<R>> {
        let descs = vec![types.desc(BYTE)?];
        let b = Builder::new(me, n);
        // Without elements until the call's buffers are known.
        let none = Buf::IN_PLACE;
        let mut plan = Plan { types, ops, b, descs, send: none, recv: none, reducer: Reducer::None };
        plan.build(self)?;
        let Plan { b, descs, send, recv, reducer, .. } = plan;
        let schedule = b.finish();
        let memory = Memory::of_call(send, recv, descs, &schedule)?;
        Ok(Active::new(Arc::new(schedule), memory, reducer))
    }
}

//! The buffers and types of a call, from which its schedule is built.
//!
//! They are checked when they are taken, once; the schedules rely on it.

use std::collections::HashSet;
use std::sync::Arc;

use super::choice::Setting;
use super::engine::Reducer;
use super::reduce::OpFacts;
use super::schedule::{Base, Builder, Data, Elem, TypeId};
use super::shape::Shape;
use crate::datatype::{Blocks, Buf, TypeDesc, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::Op;
use crate::op::{Ops, Prepared};

/// The types and addresses that a schedule is run with, as they are collected.
pub(super) struct Plan<'a> {
    pub types: &'a Types,
    pub ops: &'a Ops,
    pub b: Builder,
    pub descs: Vec<Arc<TypeDesc>>,
    pub send: Buf,
    pub recv: Buf,
    pub reducer: Reducer,
    /// The facts on which choices depend, for parts of an operation that are built at once.
    pub setting: &'a Setting,
}

pub(super) fn bad(class: Class, text: String) -> Box<MpiError> {
    MpiError::new(class, text)
}

/// Checks and returns the root of a call.
pub(super) fn root_of(root: i32, n: usize) -> Result<usize> {
    match usize::try_from(root) {
        Ok(r) if r < n => Ok(r),
        _ => Err(bad(Class::ROOT, format!("root {root} is not in the communicator, whose size is {n}"))),
    }
}

/// Returns the facts of a type that is number `i` of a run.
pub(super) fn elem_of(i: usize, desc: &TypeDesc) -> Elem {
    Elem { ty: TypeId(i as u32), size: desc.size(), extent: desc.extent(), plain: desc.is_plain() }
}

impl Plan<'_> {
    /// Adds the schedule of an operation of the group.
    pub(super) fn build(&mut self, shape: &Shape) {
        shape.build(&mut self.b, self.setting);
    }

    /// Adds a type.
    fn elem(&mut self, desc: &Arc<TypeDesc>) -> Elem {
        let elem = elem_of(self.descs.len(), desc);
        self.descs.push(Arc::clone(desc));
        elem
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
    pub(super) fn parts(&mut self, base: Base, buf: &Buf, times: usize) -> Result<Data> {
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
    pub(super) fn whole(&mut self, base: Base, buf: &Buf) -> Result<Data> {
        self.parts(base, buf, 1)
    }

    /// Takes a send buffer that may be in place.
    pub(super) fn optional(&mut self, base: Base, buf: &Buf) -> Result<Option<Data>> {
        if buf.is_in_place() { Ok(None) } else { self.whole(base, buf).map(Some) }
    }

    /// Takes the blocks of `n` processes.
    pub(super) fn blocks(&mut self, base: Base, blocks: &Blocks, n: usize) -> Result<Vec<Data>> {
        let data = blocks.checked(self.types, n)?;
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
    pub(super) fn distinct(&self, send: &Buf, recv: &Buf) -> Result<()> {
        if send.count() > 0 && !send.is_in_place() && !send.base().is_null() && send.base() == recv.base() {
            let text = "the send and the receive buffer are the same; give MPI_IN_PLACE or two buffers";
            return Err(bad(Class::BUFFER, text.into()));
        }
        Ok(())
    }

    /// Returns the address of the first byte of data; `None` if there is none.
    fn first_byte(&self, data: &Data) -> Option<usize> {
        let base = if data.base == Base::Send { &self.send } else { &self.recv };
        let lb = self.descs.get(data.elem.ty.0 as usize).map_or(0, |desc| desc.true_lb());
        let first = base.base().addr().wrapping_add_signed(data.at as isize).wrapping_add_signed(lb as isize);
        (data.count > 0 && data.elem.size > 0).then_some(first)
    }

    /// Checks that none of the blocks that are written begins where one begins that is read.
    pub(super) fn apart(&self, read: &[Data], written: &[Data]) -> Result<()> {
        let same = match (read, written) {
            ([], _) | (_, []) => None,
            ([read], [written]) => {
                let at = self.first_byte(read);
                (at.is_some() && at == self.first_byte(written)).then_some(0)
            }
            _ => {
                let read: HashSet<usize> = read.iter().filter_map(|d| self.first_byte(d)).collect();
                written.iter().position(|d| self.first_byte(d).is_some_and(|at| read.contains(&at)))
            }
        };
        let Some(block) = same else { return Ok(()) };
        let text = format!(
            "block {block} of the receive buffer begins where data to send does; give MPI_IN_PLACE or two buffers"
        );
        Err(bad(Class::BUFFER, text))
    }

    /// Prepares an operation on the elements of a buffer.
    pub(super) fn operation(&mut self, op: Op, buf: &Buf) -> Result<OpFacts> {
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
    pub(super) fn operands(&mut self, send: &Buf, recv: &Buf, op: Op) -> Result<(OpFacts, Data, Data)> {
        let facts = self.operation(op, recv)?;
        self.distinct(send, recv)?;
        let result = self.whole(Base::Recv, recv)?;
        Ok((facts, self.operand(send, result)?, result))
    }

    /// Takes an operand like a result, which is the same if it is in place.
    pub(super) fn operand(&mut self, send: &Buf, result: Data) -> Result<Data> {
        if send.is_in_place() {
            return Ok(result);
        }
        self.types.checked(send)?;
        self.set(Base::Send, *send);
        Ok(Data { base: Base::Send, ..result })
    }

    /// Checks the counts of a reduction whose result is dealt out; returns them and their sum.
    pub(super) fn counts(&self, counts: &[i64]) -> Result<(Vec<usize>, i64)> {
        if counts.len() != self.b.n {
            let text = format!("{} receive counts for {} processes", counts.len(), self.b.n);
            return Err(bad(Class::COUNT, text));
        }
        if let Some((rank, c)) = counts.iter().enumerate().find(|(_, c)| **c < 0) {
            return Err(bad(Class::COUNT, format!("receive count {rank} is {c}: it must not be negative")));
        }
        let total = counts.iter().try_fold(0i64, |sum, c| sum.checked_add(*c));
        let total = total.ok_or_else(|| bad(Class::COUNT, "the sum of the counts is out of range".into()))?;
        Ok((counts.iter().map(|c| *c as usize).collect(), total))
    }
}

//! The preparation of a call's run.

use std::sync::Arc;

use super::call::{Call, Peers};
use super::engine::{Active, Reducer};
use super::memory::{Memory, Work};
use super::plan::{Plan, bad};
use super::schedule::{Base, Builder, Data, Schedule};
use super::signature;
use crate::datatype::{Buf, Types};
use crate::error::{Class, Result};
use crate::handle::{Datatype, Op};
use crate::op::{Ops, Prepared};

/// `MPI_BYTE`.
const BYTE: Datatype = Datatype(0x4c00_010d);

impl Call {
    /// Checks the arguments and prepares the run of process `me` of `n`, by messages.
    ///
    /// # Errors
    /// An argument that MPI does not allow, with its class; no memory.
    pub fn plan<R: Copy>(
        &self,
        types: &Types,
        ops: &Ops,
        place: (usize, usize),
        peers: Peers<'_>,
    ) -> Result<Active<R>> {
        let mut active = Active::empty();
        self.plan_in(&mut active, types, ops, place, peers, false)?;
        Ok(active)
    }

    /// Works like [`Call::plan`] in a run that is over. `node`: the processes share memory.
    ///
    /// # Errors
    /// As [`Call::plan`].
    pub(super) fn plan_in<R: Copy>(
        &self,
        active: &mut Active<R>,
        types: &Types,
        ops: &Ops,
        (me, n): (usize, usize),
        peers: Peers<'_>,
        node: bool,
    ) -> Result<()> {
        let (schedule, mut descs) = active.take_lists();
        if descs.is_empty() {
            descs.push(types.desc(BYTE)?);
        }
        // Without elements until the call's buffers are known.
        let none = Buf::IN_PLACE;
        let mut plan = Plan {
            types,
            ops,
            b: Builder::over(schedule, me, n),
            descs,
            send: none,
            recv: none,
            reducer: Reducer::None,
            node,
        };
        match peers {
            Peers::Group => plan.intra(self)?,
            Peers::Remote(n) => plan.inter(self, n)?,
            Peers::Neighbours(around) => plan.around(self, around)?,
        }
        let Plan { b, descs, send, recv, reducer, .. } = plan;
        let mut schedule = b.finish();
        schedule.signature = signature::of(self, schedule.signature);
        active.prepare(schedule, (send, recv), descs, reducer)
    }
}

/// Sets `inout` to `input op inout`, or returns the call that does it (`MPI_Reduce_local`).
///
/// # Errors
/// A bad handle or buffer; an operation that is not defined on the type.
pub fn reduce_local(types: &Types, ops: &Ops, input: &Buf, inout: &Buf, op: Op) -> Result<Option<Work>> {
    let desc = types.checked(inout)?;
    types.checked(&input.elements(inout.count(), inout.datatype()))?;
    if inout.count() > 0 && input.base() == inout.base() {
        let text = "both buffers are the same; give two";
        return Err(bad(Class::BUFFER, text.into()));
    }
    let prepared = ops.prepare(op, desc)?;
    if inout.count() == 0 || desc.size() == 0 {
        return Ok(None);
    }
    let mut memory = Memory::empty();
    memory.prepare(*input, *inout, vec![Arc::clone(desc)], &Schedule::default())?;
    let elem = super::plan::elem_of(0, desc);
    let into = Data::new(Base::Recv, inout.count() as usize, elem);
    let from = Data { base: Base::Send, ..into };
    match prepared {
        Prepared::Kernel(kernel) => {
            memory.reduce(kernel, &from, &into);
            Ok(None)
        }
        Prepared::User { function, .. } => Ok(Some(memory.work(function, inout.datatype(), &from, &into))),
    }
}

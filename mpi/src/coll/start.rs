//! The preparation of a call's run.

use std::sync::Arc;

use super::call::{Call, Peers};
use super::choice::{Forced, Setting};
use super::engine::{Active, Reducer};
use super::memory::{Memory, Work};
use super::plan::{Plan, bad};
use super::schedule::{Base, Builder, Data, Schedule};
use super::shape::Shape;
use super::signature;
use crate::datatype::{Buf, TypeDesc, Types};
use crate::error::{Class, Result};
use crate::handle::{Datatype, Op};
use crate::op::{Ops, Prepared};

/// `MPI_BYTE`.
const BYTE: Datatype = Datatype::BYTE;

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
        let setting = Setting::unknown(place.1, Forced::default());
        self.check(&mut active, types, ops, place, peers)?.build(&mut active, &setting)?;
        Ok(active)
    }

    /// Checks the arguments of a call; its schedule is built later, in a run that is over.
    ///
    /// # Errors
    /// An argument that MPI does not allow, with its class.
    pub(super) fn check<R: Copy>(
        &self,
        active: &mut Active<R>,
        types: &Types,
        ops: &Ops,
        (me, n): (usize, usize),
        peers: Peers<'_>,
    ) -> Result<Checked> {
        let (schedule, mut descs) = active.take_lists();
        if descs.is_empty() {
            descs.push(types.desc(BYTE)?);
        }
        // Without elements until the call's buffers are known.
        let none = Buf::IN_PLACE;
        let setting = &Setting::unknown(n, Forced::default());
        let mut plan = Plan {
            types,
            ops,
            b: Builder::over(schedule, me, n),
            descs,
            send: none,
            recv: none,
            reducer: Reducer::None,
            setting,
        };
        let shape = match peers {
            Peers::Group => plan.intra(self)?,
            Peers::Remote(n) => plan.inter(self, n).map(|()| Shape::Built)?,
            Peers::Neighbours(around) => plan.around(self, around).map(|()| Shape::Built)?,
        };
        let Plan { b, descs, send, recv, reducer, .. } = plan;
        let signature = signature::of(self, 0);
        Ok(Checked { shape, b, descs, buffers: (send, recv), reducer, signature })
    }
}

/// A call whose arguments were checked, before its schedule is built.
#[derive(Debug)]
pub(super) struct Checked {
    shape: Shape,
    b: Builder,
    descs: Vec<Arc<TypeDesc>>,
    buffers: (Buf, Buf),
    reducer: Reducer,
    /// Its signature, without bytes.
    signature: u64,
}

impl Checked {
    /// Builds the schedule and prepares the run.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn build<R: Copy>(mut self, active: &mut Active<R>, setting: &Setting) -> Result<()> {
        self.shape.build(&mut self.b, setting);
        let mut schedule = self.b.finish();
        schedule.signature = signature::with_bytes(self.signature, schedule.signature);
        active.prepare(schedule, self.buffers, self.descs, self.reducer)
    }

    /// Returns true if a function of the program combines operands.
    pub(super) fn calls_program(&self) -> bool {
        matches!(self.reducer, Reducer::User(..))
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

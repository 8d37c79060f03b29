//! Runs that are over, for the operations that follow: their memory, and, for a call like the last
//! one, the whole schedule.
//!
//! Programs repeat calls. The schedule of a call whose types and operation are predefined depends
//! on nothing but its arguments and the communicator, so it is the same again.

use std::cell::RefCell;

use ch3_shim::RawReq;

use super::call::Call;
use super::engine::Active;
use crate::handle::{Datatype, Op};
use crate::op::Builtin;

/// Runs that are kept.
const KEPT: usize = 8;

/// A run with the call that it was prepared for.
#[derive(Debug)]
pub(crate) struct Run {
    pub active: Active<RawReq>,
    /// The communicator's serial number, and a call that can be repeated.
    pub call: Option<(u64, Call)>,
}

impl Default for Run {
    fn default() -> Run {
        Run { active: Active::empty(), call: None }
    }
}

/// The runs of a process that are over.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    runs: RefCell<[Option<Box<Run>>; KEPT]>,
}

impl Spares {
    /// Takes a run for a call. True if it is prepared for such a call already.
    #[inline]
    pub(super) fn take(&self, serial: u64, call: &Call) -> (Box<Run>, bool) {
        let mut runs = self.runs.borrow_mut();
        let place = &mut runs[place(serial, call)];
        match place.take() {
            Some(run) => {
                let same = run.call.as_ref().is_some_and(|(of, last)| *of == serial && last.is_same(call));
                (run, same)
            }
            None => (Box::default(), false),
        }
    }

    /// Keeps a run that is over.
    #[inline]
    pub(super) fn keep(&self, mut run: Box<Run>, (serial, number): (u64, u64)) {
        run.active.leave(run.call.is_some());
        self.runs.borrow_mut()[index(serial, number)] = Some(run);
    }
}

fn place(serial: u64, call: &Call) -> usize {
    index(serial, call.number())
}

fn index(serial: u64, number: u64) -> usize {
    (serial.wrapping_mul(5).wrapping_add(number) % KEPT as u64) as usize
}

/// Returns true for the handle of a predefined object (`crate::handle`).
fn is_predefined(handle: u32) -> bool {
    handle >> 30 == 1
}

fn is_basic(datatype: Datatype) -> bool {
    is_predefined(datatype.0)
}

fn is_builtin(op: Op) -> bool {
    Builtin::of(op).is_some()
}

impl Call {
    /// Returns true if the schedule is the same whenever the call is made.
    pub(super) fn can_be_repeated(&self) -> bool {
        use Call::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Exscan, Gather, Reduce, Scan, Scatter};
        match self {
            Barrier => true,
            Bcast { buf, .. } => is_basic(buf.datatype()),
            Gather { send, recv, .. }
            | Scatter { send, recv, .. }
            | Allgather { send, recv }
            | Alltoall { send, recv } => {
                [send, recv].iter().all(|b| b.is_in_place() || is_basic(b.datatype()))
            }
            Reduce { send, recv, op, .. }
            | Allreduce { send, recv, op }
            | Scan { send, recv, op }
            | Exscan { send, recv, op } => {
                is_builtin(*op) && [send, recv].iter().all(|b| b.is_in_place() || is_basic(b.datatype()))
            }
            _ => false,
        }
    }

    /// Returns true if both are the same call, of those that can be repeated.
    fn is_same(&self, other: &Call) -> bool {
        use Call::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Exscan, Gather, Reduce, Scan, Scatter};
        match (self, other) {
            (Barrier, Barrier) => true,
            (Bcast { buf, root }, Bcast { buf: b, root: r }) => buf == b && root == r,
            (Gather { send, recv, root }, Gather { send: s, recv: r, root: t })
            | (Scatter { send, recv, root }, Scatter { send: s, recv: r, root: t }) => {
                send == s && recv == r && root == t
            }
            (Allgather { send, recv }, Allgather { send: s, recv: r })
            | (Alltoall { send, recv }, Alltoall { send: s, recv: r }) => send == s && recv == r,
            (Reduce { send, recv, op, root }, Reduce { send: s, recv: r, op: o, root: t }) => {
                send == s && recv == r && op == o && root == t
            }
            (Allreduce { send, recv, op }, Allreduce { send: s, recv: r, op: o })
            | (Scan { send, recv, op }, Scan { send: s, recv: r, op: o })
            | (Exscan { send, recv, op }, Exscan { send: s, recv: r, op: o }) => {
                send == s && recv == r && op == o
            }
            _ => false,
        }
    }
}

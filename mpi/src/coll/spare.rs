//! Runs that are over, for the operations that follow: their memory, and, for a call like the last
//! one, the whole schedule.
//!
//! Programs repeat calls. The schedule of a call whose types and operation are predefined depends
//! on nothing but its arguments and the communicator, so it is the same again.

use std::cell::RefCell;

use ch3_shim::RawReq;

use super::call::Call;
use super::engine::Active;
use crate::datatype::{Blocks, Buf};
use crate::handle::{Datatype, Op};
use crate::op::Builtin;

/// Runs that are kept.
const KEPT: usize = 16;

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
                let same = run.call.as_ref().is_some_and(|(of, last)| *of == serial && last == call);
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

fn is_basic_buf(buf: &Buf) -> bool {
    buf.is_in_place() || is_basic(buf.datatype())
}

fn are_basic(blocks: &Blocks) -> bool {
    blocks.is_in_place() || blocks.datatypes().iter().all(|datatype| is_basic(*datatype))
}

impl Call {
    /// Returns true if the schedule is the same whenever the call is made.
    pub(super) fn can_be_repeated(&self) -> bool {
        match self {
            Call::Barrier => true,
            Call::Bcast { buf, .. } => is_basic_buf(buf),
            Call::Gather { send, recv, .. }
            | Call::Scatter { send, recv, .. }
            | Call::Allgather { send, recv }
            | Call::Alltoall { send, recv } => is_basic_buf(send) && is_basic_buf(recv),
            Call::Gatherv { send, recv, .. } | Call::Allgatherv { send, recv } => {
                is_basic_buf(send) && are_basic(recv)
            }
            Call::Scatterv { send, recv, .. } => are_basic(send) && is_basic_buf(recv),
            Call::Alltoallv { send, recv } => are_basic(send) && are_basic(recv),
            Call::Reduce { send, recv, op, .. }
            | Call::Allreduce { send, recv, op }
            | Call::ReduceScatter { send, recv, op, .. }
            | Call::ReduceScatterBlock { send, recv, op }
            | Call::Scan { send, recv, op }
            | Call::Exscan { send, recv, op } => is_builtin(*op) && is_basic_buf(send) && is_basic_buf(recv),
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    const INT: Datatype = Datatype(0x4c00_0405);

    fn gatherv(at: usize, counts: &[i64], datatype: Datatype) -> Call {
        // SAFETY: nothing is read or written.
        let recv = unsafe { Blocks::new(std::ptr::without_provenance_mut(at), counts, &[0, 4], datatype) };
        Call::Gatherv { send: Buf::IN_PLACE, recv, root: 0 }
    }

    #[test]
    fn a_run_is_kept_for_the_same_call_alone() {
        let spares = Spares::default();
        let call = gatherv(64, &[1, 2], INT);
        assert!(call.can_be_repeated() && !gatherv(64, &[1, 2], Datatype(0x8c00_0000)).can_be_repeated());
        let run = Run { active: Active::empty(), call: Some((7, call.clone())) };
        spares.keep(Box::new(run), (7, call.number()));
        let others =
            [gatherv(64, &[1, 3], INT), gatherv(128, &[1, 2], INT), gatherv(64, &[1, 2], Datatype(0))];
        for (serial, other) in others.iter().map(|o| (7, o)).chain([(8, &call)]) {
            let (run, same) = spares.take(serial, other);
            assert!(!same, "{other:?}");
            if run.call.is_some() {
                spares.keep(run, (7, call.number()));
            }
        }
        assert!(spares.take(7, &call).1);
        assert!(!spares.take(7, &call).1, "it is taken once");
    }
}

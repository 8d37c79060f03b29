//! Runs that are over, for the operations that follow: their memory, and, for a call like the last
//! one, the whole schedule.
//!
//! Programs repeat calls. The schedule of a call whose types and operation are predefined depends
//! on nothing but its arguments and the communicator, so it is the same again.

use std::cell::RefCell;

use ch3_shim::RawReq;

use super::call::Call;
use super::engine::Active;
use crate::accelerator;
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
    /// Takes a run for a call of `n` processes. True if it is prepared for this call already.
    #[inline]
    pub(super) fn take(&self, (serial, n): (u64, usize), call: &Call) -> (Box<Run>, bool) {
        let mut runs = self.runs.borrow_mut();
        let place = &mut runs[place(serial, call)];
        match place.take() {
            Some(mut run) => {
                let last = run.call.as_ref().filter(|(of, _)| *of == serial).map(|(_, last)| last);
                if last == Some(call) {
                    return (run, true);
                }
                let Some((send, recv)) = last.and_then(|last| call.moved(last, n)) else {
                    return (run, false);
                };
                run.active.move_to(send, recv);
                run.call = Some((serial, call.clone()));
                (run, true)
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

/// Bytes of the longest predefined type, at least.
const LONGEST: usize = 64;

/// Returns true if data may be where it is said to be.
fn has_address(buf: &Buf) -> bool {
    buf.is_in_place() || buf.count() <= 0 || !buf.base().is_null() && accelerator::check(buf.base()).is_ok()
}

impl Call {
    /// The send and the receive buffer of a call that has no lists.
    fn buffers(&self) -> Option<(Buf, Buf)> {
        match self {
            Call::Bcast { buf, .. } => Some((Buf::IN_PLACE, *buf)),
            Call::Gather { send, recv, .. }
            | Call::Scatter { send, recv, .. }
            | Call::Allgather { send, recv }
            | Call::Alltoall { send, recv }
            | Call::Reduce { send, recv, .. }
            | Call::Allreduce { send, recv, .. }
            | Call::ReduceScatterBlock { send, recv, .. }
            | Call::Scan { send, recv, .. }
            | Call::Exscan { send, recv, .. } => Some((*send, *recv)),
            _ => None,
        }
    }

    /// Returns the buffers of a call that differs from another one by their addresses alone. `None`
    /// also if these have to be looked at more closely.
    fn moved(&self, last: &Call, n: usize) -> Option<(Buf, Buf)> {
        let ((send, recv), (old_send, old_recv)) = (self.buffers()?, last.buffers()?);
        let alike = |a: Buf, b: Buf| {
            (a.count(), a.datatype(), a.is_in_place()) == (b.count(), b.datatype(), b.is_in_place())
        };
        let bytes = (send.count().max(recv.count()).max(0) as usize).checked_mul(n * LONGEST)?;
        let apart = send.is_in_place()
            || recv.is_in_place()
            || send.base().addr().abs_diff(recv.base().addr()) > bytes;
        let same = self.number_and_root() == last.number_and_root()
            && self.op() == last.op()
            && alike(send, old_send)
            && alike(recv, old_recv);
        (same && apart && has_address(&send) && has_address(&recv)).then_some((send, recv))
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
            let (run, same) = spares.take((serial, 2), other);
            assert!(!same, "{other:?}");
            if run.call.is_some() {
                spares.keep(run, (7, call.number()));
            }
        }
        assert!(spares.take((7, 2), &call).1);
        assert!(!spares.take((7, 2), &call).1, "it is taken once");
    }

    #[test]
    fn a_run_serves_buffers_that_are_elsewhere() {
        // SAFETY: nothing is read or written.
        let buf = |at: usize| unsafe { Buf::new(std::ptr::without_provenance_mut(at), 3, INT) };
        let op = Builtin::Sum.handle();
        let call = |send: Buf, recv: Buf| Call::Allreduce { send, recv, op };
        let last = call(buf(64), buf(4096));
        assert_eq!(call(buf(8192), buf(64)).moved(&last, 2), Some((buf(8192), buf(64))));
        let in_place = call(Buf::IN_PLACE, buf(64));
        let other = Call::Allreduce { send: buf(64), recv: buf(4096), op: Builtin::Prod.handle() };
        let scan = Call::Scan { send: buf(64), recv: buf(4096), op };
        let longer = call(buf(64).with_count(4), buf(4096).with_count(4));
        let refused = [call(buf(64), buf(64)), call(buf(0), buf(4096)), in_place, other, scan, longer];
        assert!(refused.iter().all(|c| c.moved(&last, 2).is_none()), "another call, or one to be looked at");
    }
}

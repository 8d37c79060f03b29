//! Operations that are over, for those that follow: their memory, and, for a call like the last
//! one, the whole schedule.
//!
//! Programs repeat calls. The schedule of a call whose types and operation are predefined depends
//! on nothing but its arguments and the communicator, so it is the same again.

use std::cell::RefCell;
use std::sync::Arc;

use super::call::Call;
use super::operation::Operation;
use crate::accelerator;
use crate::comm::CommCore;
use crate::datatype::{Blocks, Buf};
use crate::handle::{Datatype, Op};
use crate::op::Builtin;

/// Operations that are kept.
const KEPT: usize = 16;

/// The operations of a process that are over.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    operations: RefCell<[Option<Box<Operation>>; KEPT]>,
}

impl Spares {
    /// Takes an operation for a call. True if its run is prepared for this call already: that of a
    /// group, if `may_repeat`.
    #[inline]
    pub(super) fn take(&self, core: &Arc<CommCore>, call: &Call, may_repeat: bool) -> (Box<Operation>, bool) {
        let place = index(core.serial, call.number());
        let Some(mut op) = self.operations.borrow_mut()[place].take() else {
            return (Box::new(Operation::new(core)), false);
        };
        if !Arc::ptr_eq(&op.core, core) {
            op.core = Arc::clone(core);
            op.call = None;
        }
        let last = op.call.as_ref().filter(|_| may_repeat);
        match last.and_then(|last| call.likeness(last, core.size() as usize)) {
            None => (op, false),
            Some(Likeness::Same) => (op, true),
            Some(Likeness::Moved(send, recv)) => {
                op.active.move_to(send, recv);
                op.call = Some(call.clone());
                (op, true)
            }
        }
    }

    /// Keeps an operation that is over.
    #[inline]
    pub(super) fn keep(&self, mut op: Box<Operation>) {
        op.clear();
        let place = index(op.core.serial, op.number);
        self.operations.borrow_mut()[place] = Some(op);
    }

    /// Drops the operations of a communicator, which is freed.
    pub(crate) fn forget(&self, core: &Arc<CommCore>) {
        for op in self.operations.borrow_mut().iter_mut() {
            if op.as_ref().is_some_and(|op| Arc::ptr_eq(&op.core, core)) {
                *op = None;
            }
        }
    }
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

/// Bytes of a predefined type, which its handle has (`mpi.h` of MPICH). 0 for one of a pair.
fn size_of(datatype: Datatype) -> usize {
    (datatype.0 >> 8 & 0xff) as usize
}

/// A call that has the schedule of another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Likeness {
    /// It is the same.
    Same,
    /// Its buffers are elsewhere: for sending, and for receiving.
    Moved(Buf, Buf),
}

/// A buffer, or one that blocks are relative to, with the bytes to both sides in which all data is.
struct Reach<'a> {
    buf: Buf,
    bytes: Option<usize>,
    blocks: Option<&'a Blocks>,
}

impl<'a> Reach<'a> {
    fn of(buf: &Buf, parts: usize) -> Reach<'a> {
        let count = usize::try_from(buf.count()).ok();
        let bytes = count.and_then(|c| c.checked_mul(parts)?.checked_mul(size_of(buf.datatype())));
        Reach { buf: *buf, bytes, blocks: None }
    }

    fn of_blocks(blocks: &'a Blocks) -> Reach<'a> {
        let size = blocks.datatypes().iter().map(|datatype| size_of(*datatype)).max();
        let bytes = size.and_then(|size| blocks.reach(size));
        Reach { buf: blocks.base(), bytes, blocks: Some(blocks) }
    }

    fn is_in_place(&self) -> bool {
        self.buf.is_in_place()
    }

    /// Returns true if it differs from another one by the address alone.
    fn is_like(&self, other: &Reach<'_>) -> bool {
        match (self.blocks, other.blocks) {
            (Some(mine), Some(theirs)) => mine.are_like(theirs),
            (None, None) => {
                let of = |buf: Buf| (buf.count(), buf.datatype(), buf.is_in_place());
                of(self.buf) == of(other.buf)
            }
            _ => false,
        }
    }

    /// Returns true if data may be where it is said to be.
    fn has_address(&self) -> bool {
        let buf = &self.buf;
        buf.is_in_place()
            || self.bytes == Some(0)
            || !buf.base().is_null() && accelerator::check(buf.base()).is_ok()
    }

    /// Returns true if no data of both is the same memory.
    fn is_apart(&self, other: &Reach<'_>) -> bool {
        if self.is_in_place() || other.is_in_place() {
            return true;
        }
        let both = self.bytes.zip(other.bytes).and_then(|(a, b)| a.checked_add(b));
        both.is_some_and(|both| self.buf.base().addr().abs_diff(other.buf.base().addr()) >= both)
    }
}

impl Call {
    /// The send and the receive buffer, which have parts for `n` processes.
    fn buffers(&self, n: usize) -> (Reach<'_>, Reach<'_>) {
        let none = Reach { buf: Buf::IN_PLACE, bytes: Some(0), blocks: None };
        match self {
            Call::Barrier => (none, Reach { buf: Buf::IN_PLACE, bytes: Some(0), blocks: None }),
            Call::Bcast { buf, .. } => (none, Reach::of(buf, 1)),
            Call::Gather { send, recv, .. }
            | Call::Scatter { send, recv, .. }
            | Call::Allgather { send, recv }
            | Call::Alltoall { send, recv }
            | Call::Reduce { send, recv, .. }
            | Call::Allreduce { send, recv, .. }
            | Call::ReduceScatterBlock { send, recv, .. }
            | Call::Scan { send, recv, .. }
            | Call::Exscan { send, recv, .. } => (Reach::of(send, n), Reach::of(recv, n)),
            Call::ReduceScatter { send, recv, counts, .. } => {
                let all = |buf: &Buf| {
                    let total = counts.iter().try_fold(0i64, |sum, count| sum.checked_add(*count));
                    let total = total.and_then(|total| usize::try_from(total).ok());
                    let bytes = total.and_then(|total| total.checked_mul(size_of(buf.datatype())));
                    Reach { buf: *buf, bytes, blocks: None }
                };
                (all(send), all(recv))
            }
            Call::Gatherv { send, recv, .. } | Call::Allgatherv { send, recv } => {
                (Reach::of(send, 1), Reach::of_blocks(recv))
            }
            Call::Scatterv { send, recv, .. } => (Reach::of_blocks(send), Reach::of(recv, 1)),
            Call::Alltoallv { send, recv } => (Reach::of_blocks(send), Reach::of_blocks(recv)),
        }
    }

    /// The counts of a reduction whose result is dealt out.
    fn counts(&self) -> Option<&[i64]> {
        match self {
            Call::ReduceScatter { counts, .. } => Some(counts),
            _ => None,
        }
    }

    /// Compares the call with another one that can be repeated. `None` if it is another one, or if
    /// its buffers have to be looked at more closely.
    fn likeness(&self, last: &Call, n: usize) -> Option<Likeness> {
        if self == last {
            return Some(Likeness::Same);
        }
        if self.number_and_root() != last.number_and_root()
            || self.op() != last.op()
            || core::mem::discriminant(self) != core::mem::discriminant(last)
            || self.counts() != last.counts()
        {
            return None;
        }
        let ((send, recv), (old_send, old_recv)) = (self.buffers(n), last.buffers(n));
        let is_like = send.is_like(&old_send) && recv.is_like(&old_recv);
        let is_sound = send.has_address() && recv.has_address() && send.is_apart(&recv);
        (is_like && is_sound).then_some(Likeness::Moved(send.buf, recv.buf))
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::datatype::basic::BASICS;

    const INT: Datatype = Datatype(0x4c00_0405);

    fn gatherv(at: usize, counts: &[i64], datatype: Datatype) -> Call {
        // SAFETY: nothing is read or written.
        let recv = unsafe { Blocks::new(std::ptr::without_provenance_mut(at), counts, [0, 4], datatype) };
        Call::Gatherv { send: Buf::IN_PLACE, recv, root: 0 }
    }

    #[test]
    fn a_run_is_kept_for_the_same_call_alone() {
        let call = gatherv(64, &[1, 2], INT);
        assert!(call.can_be_repeated() && !gatherv(64, &[1, 2], Datatype(0x8c00_0000)).can_be_repeated());
        assert_eq!(call.likeness(&call.clone(), 2), Some(Likeness::Same));
        let others = [gatherv(64, &[1, 3], INT), gatherv(0, &[1, 2], INT), gatherv(64, &[1, 2], Datatype(0))];
        assert!(others.iter().all(|other| other.likeness(&call, 2).is_none()), "another call");
    }

    #[test]
    fn a_run_serves_buffers_that_are_elsewhere() {
        // SAFETY: nothing is read or written.
        let buf = |at: usize| unsafe { Buf::new(std::ptr::without_provenance_mut(at), 3, INT) };
        let op = Builtin::Sum.handle();
        let call = |send: Buf, recv: Buf| Call::Allreduce { send, recv, op };
        let last = call(buf(64), buf(4096));
        let moved = Likeness::Moved(buf(8192), buf(64));
        assert_eq!(call(buf(8192), buf(64)).likeness(&last, 2), Some(moved));
        let in_place = call(Buf::IN_PLACE, buf(64));
        let other = Call::Allreduce { send: buf(64), recv: buf(4096), op: Builtin::Prod.handle() };
        let scan = Call::Scan { send: buf(64), recv: buf(4096), op };
        let longer = call(buf(64).with_count(4), buf(4096).with_count(4));
        let refused = [call(buf(64), buf(68)), call(buf(0), buf(4096)), in_place, other, scan, longer];
        assert!(refused.iter().all(|c| c.likeness(&last, 2).is_none()), "another, or one to be looked at");
    }

    #[test]
    fn a_run_serves_blocks_that_are_elsewhere() {
        let (last, other) = (gatherv(64, &[1, 2], INT), gatherv(128, &[1, 2], INT));
        let Call::Gatherv { recv, .. } = &other else { unreachable!("it was just made") };
        assert_eq!(other.likeness(&last, 2), Some(Likeness::Moved(Buf::IN_PLACE, recv.base())));
        // Blocks end 24 bytes behind the address; the operand may begin there, not before.
        // SAFETY: nothing is read or written.
        let operand = |at: usize| unsafe { Buf::new(std::ptr::without_provenance_mut(at), 1, INT) };
        let with = |at: usize| Call::Gatherv { send: operand(at), recv: recv.clone(), root: 0 };
        let far = with(4096);
        assert!(with(128 + 24 + 4).likeness(&far, 2).is_some() && with(128 + 23).likeness(&far, 2).is_none());
    }

    #[test]
    fn the_handle_of_a_basic_type_has_its_size() {
        for basic in BASICS.iter().filter(|basic| is_basic(basic.handle)) {
            assert_eq!(size_of(basic.handle), basic.size, "{}", basic.name);
        }
    }
}

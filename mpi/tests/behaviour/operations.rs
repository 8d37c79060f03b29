//! Operations of the program in reductions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use netmod_mpi::datatype::Form;
use netmod_mpi::handle::Datatype;
use netmod_mpi::op::{Builtin, UserOp};
use netmod_mpi::{Buf, Mpi};

use crate::job::{INT, WORLD, ints, run};

/// Keeps the right operand, after it has called MPI.
struct Right {
    /// Address of the process, which outlives its operations.
    mpi: usize,
    calls: Arc<AtomicUsize>,
}

impl UserOp for Right {
    unsafe fn combine(&self, _input: *const u8, _inout: *mut u8, count: usize, datatype: Datatype) {
        assert_eq!((count, datatype), (2, INT));
        // SAFETY: the test's process lives until it has finalized, after its operations.
        let mpi = unsafe { &*core::ptr::with_exposed_provenance::<Mpi>(self.mpi) };
        assert_eq!(mpi.comm_size(WORLD).expect("size"), 5);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_operation_of_the_program_may_call_mpi_and_keeps_its_order() {
    run(5, |mpi, me| {
        let calls = Arc::new(AtomicUsize::new(0));
        let function =
            Arc::new(Right { mpi: core::ptr::from_ref(mpi).expose_provenance(), calls: Arc::clone(&calls) });
        let mut op = mpi.op_create(function, false).expect("op_create");
        assert!(!mpi.op_commutative(op).expect("commutative"));
        for nonblocking in [false, true] {
            let (mut mine, mut last) = ([me, 2 * me], [0; 2]);
            if nonblocking {
                let mut r = mpi.iallreduce(ints(&mut mine), ints(&mut last), op, WORLD).expect("iallreduce");
                mpi.wait(&mut r).expect("wait");
            } else {
                mpi.allreduce(ints(&mut mine), ints(&mut last), op, WORLD).expect("allreduce");
            }
            assert_eq!(last, [4, 8], "the last process's operand");
        }
        let mut total = [calls.load(Ordering::Relaxed) as i32];
        mpi.allreduce(Buf::IN_PLACE, ints(&mut total), Builtin::Sum.handle(), WORLD).expect("allreduce");
        assert!(total[0] >= 8, "{total:?} calls");
        mpi.op_free(&mut op).expect("free");
        assert!(op.is_null());
    });
}

/// Adds integers, as many as its type says.
struct ByType {
    mpi: usize,
}

impl UserOp for ByType {
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype) {
        // SAFETY: the test's process lives until it has finalized, after its operations.
        let mpi = unsafe { &*core::ptr::with_exposed_provenance::<Mpi>(self.mpi) };
        let len = count * mpi.type_size(datatype).expect("a type that exists") as usize / 4;
        let (input, inout) = (input.cast::<i32>(), inout.cast::<i32>());
        for i in 0..len {
            // SAFETY: so many integers are in each.
            unsafe { *inout.add(i) += *input.add(i) };
        }
    }
}

#[test]
fn an_operation_is_told_its_type_even_if_that_was_freed() {
    run(3, |mpi, me| {
        let live = mpi.comm_size(WORLD).expect("size");
        let function = Arc::new(ByType { mpi: core::ptr::from_ref(mpi).expose_provenance() });
        let mut op = mpi.op_create(function, true).expect("op_create");
        let mut pair = mpi.type_contiguous(2, INT, Form::Int).expect("type");
        mpi.type_commit(&mut pair).expect("commit");
        let (mut mine, mut total) = ([me, 1, 10 * me, 10], [0; 4]);
        // SAFETY: two pairs each, which live until the wait is over.
        let (send, recv) = unsafe {
            (Buf::new(mine.as_mut_ptr().cast(), 2, pair), Buf::new(total.as_mut_ptr().cast(), 2, pair))
        };
        let mut request = mpi.iallreduce(send, recv, op, WORLD).expect("iallreduce");
        mpi.type_free(&mut pair).expect("free");
        mpi.op_free(&mut op).expect("free");
        mpi.wait(&mut request).expect("wait");
        assert_eq!((total, live), ([3, 3, 30, 30], 3));
    });
}

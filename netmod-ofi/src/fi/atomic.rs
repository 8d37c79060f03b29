//! Atomic operations of libfabric.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libfabric_sys::attr::{fi_addr_t, fi_ioc, fi_msg_atomic, fi_rma_ioc};
use libfabric_sys::call::{
    fi_atomicmsg, fi_atomicvalid, fi_compare_atomic, fi_compare_atomicvalid, fi_fetch_atomic,
    fi_fetch_atomicvalid,
};
use libfabric_sys::consts::{
    FI_ATOMIC_WRITE, FI_BAND, FI_BOR, FI_BXOR, FI_COMPLETION, FI_CSWAP, FI_DELIVERY_COMPLETE, FI_INT32,
    FI_INT64, FI_MAX, FI_MIN, FI_SUM, FI_UINT32, FI_UINT64,
};
use libfabric_sys::fid::fid_ep;
use netmod_core::IoVec;
use netmod_core::rma::{AtomicArgs, AtomicOp, Atomics, Coherence, RmaAtomic, Word};

/// The local words of an operation: result, operand and comparand, 8 bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch(*mut u64);

impl Scratch {
    /// Takes the words of an operation's memory; `None` if it is too short or not aligned.
    pub(crate) fn within(memory: IoVec) -> Option<Scratch> {
        let word: *mut u64 = memory.base.cast();
        (memory.len >= RmaAtomic::LOCAL && word.is_aligned()).then_some(Scratch(word))
    }

    /// Stores a value in a word.
    ///
    /// # Safety
    /// The memory is writable and used by nobody else.
    unsafe fn store(self, index: usize, value: u64, word: Word) -> *mut c_void {
        // SAFETY: by contract; the index is below 3.
        unsafe {
            let at = self.0.add(index);
            match word.size() {
                4 => at.cast::<u32>().write(value as u32),
                _ => at.write(value),
            }
            at.cast()
        }
    }
}

const fn datatype(word: Word) -> c_int {
    match word {
        Word::U32 => FI_UINT32,
        Word::I32 => FI_INT32,
        Word::U64 => FI_UINT64,
        Word::I64 => FI_INT64,
    }
}

const fn operation(op: AtomicOp) -> c_int {
    match op {
        AtomicOp::Add => FI_SUM,
        AtomicOp::And => FI_BAND,
        AtomicOp::Or => FI_BOR,
        AtomicOp::Xor => FI_BXOR,
        AtomicOp::Min => FI_MIN,
        AtomicOp::Max => FI_MAX,
        AtomicOp::Swap => FI_ATOMIC_WRITE,
        AtomicOp::CompareSwap => FI_CSWAP,
    }
}

/// The operations that a provider has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valid {
    /// Those that yield the old value.
    pub(crate) fetching: Atomics,
    /// Those that can do without.
    posting: Atomics,
}

impl Valid {
    /// No operation.
    pub(crate) const NONE: Valid = Valid { fetching: Atomics::NONE, posting: Atomics::NONE };

    /// Asks the provider. No provider tells whether its operations are atomic with those of the
    /// processors, so they are not taken to be.
    ///
    /// # Safety
    /// The context is live and enabled.
    pub(crate) unsafe fn of(tx: *mut fid_ep) -> Valid {
        let mut valid = Valid::NONE;
        let none = Atomics::new(Coherence::Device);
        (valid.fetching, valid.posting) = (none, none);
        for op in AtomicOp::ALL {
            for word in Word::ALL {
                let (of, operation) = (datatype(word), operation(op));
                let mut most = 0;
                // SAFETY: by contract; the count is only written to.
                let (fetches, posts) = unsafe {
                    if op == AtomicOp::CompareSwap {
                        (fi_compare_atomicvalid(tx, of, operation, &raw mut most), -1)
                    } else {
                        let fetches = fi_fetch_atomicvalid(tx, of, operation, &raw mut most);
                        (fetches, fi_atomicvalid(tx, of, operation, &raw mut most))
                    }
                };
                if fetches == 0 {
                    valid.fetching = valid.fetching.with(op, word);
                }
                if posts == 0 {
                    valid.posting = valid.posting.with(op, word);
                }
            }
        }
        valid
    }

    /// Posts an operation; returns the call's name and result.
    ///
    /// # Safety
    /// As for [`super::endpoint::Endpoint::atomic`]; the context is live.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn post(
        &self,
        tx: *mut fid_ep,
        scratch: Scratch,
        desc: *mut c_void,
        to: fi_addr_t,
        (addr, key): (u64, u64),
        args: &AtomicArgs,
        context: *mut c_void,
    ) -> (&'static str, isize) {
        let &AtomicArgs { op, word, operand, comparand, fetches } = args;
        let (of, code) = (datatype(word), operation(op));
        // SAFETY: by contract. The provider does not keep the one-element arrays.
        unsafe {
            let result: *mut c_void = scratch.0.cast();
            let operand = scratch.store(1, operand, word);
            if op == AtomicOp::CompareSwap {
                let compare = scratch.store(2, comparand, word);
                let rc = fi_compare_atomic(
                    tx, operand, 1, desc, compare, desc, result, desc, to, addr, key, of, code, context,
                );
                return ("fi_compare_atomic", rc);
            }
            if fetches || !self.posting.has(op, word) {
                let rc =
                    fi_fetch_atomic(tx, operand, 1, desc, result, desc, to, addr, key, of, code, context);
                return ("fi_fetch_atomic", rc);
            }
            let local = fi_ioc { addr: operand, count: 1 };
            let there = fi_rma_ioc { addr, count: 1, key };
            let mut desc = desc;
            let msg = fi_msg_atomic {
                msg_iov: &raw const local,
                desc: &raw mut desc,
                iov_count: 1,
                addr: to,
                rma_iov: &raw const there,
                rma_iov_count: 1,
                datatype: of,
                op: code,
                context,
                data: 0,
            };
            ("fi_atomicmsg", fi_atomicmsg(tx, &raw const msg, FI_DELIVERY_COMPLETE | FI_COMPLETION))
        }
    }
}

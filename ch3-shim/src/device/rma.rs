//! One-sided operations: memory that a rank may access, and puts, gets and atomic operations on a
//! rank's memory, over the netmod of its VC.
//!
//! Operations are requests like those of [`super::raw`]: their end is tested and waited for in the
//! same ways, and means that the memory of the rank has changed. The ranks have to make progress,
//! unless the netmod says that they need not ([`netmod_core::rma::RmaCaps::target_progress`]).
//! Operations that are under way at the same time have no order.

use netmod_core::rma::{AtomicArgs, AtomicOp, RemoteKey, Word};
use netmod_core::{RmaBuf, Segment};

use super::{Comm, RawReq, Vci, in_group};
use crate::ch3::{Exposure, OneSidedOp, RemotePlace, RmaAccess};
use crate::error::{Error, Result};

/// An operation that was not started: the cause, and the memory as it was given.
#[derive(Debug)]
pub struct RmaRefused {
    /// The cause.
    pub error: Error,
    /// The memory.
    pub seg: Segment,
}

/// An operation that was begun, or why not.
type Started = std::result::Result<RawReq, Box<RmaRefused>>;

impl Vci {
    /// Returns the one-sided operations that are possible with a rank: which, not yet, or why none.
    ///
    /// # Errors
    /// A bad rank; a peer that cannot be reached.
    pub fn rma_access(&mut self, rank: i32, comm: Comm) -> Result<RmaAccess> {
        let to = self.rma_peer(rank, comm)?;
        let now = self.now;
        let access = self.ch3.rma_access(&mut self.engine.io(now), to);
        access.map_err(|e| self.blame(e))
    }

    /// Lets a rank access memory. It is lent until [`Vci::conceal`], by the contract of
    /// [`netmod_core::buf`]. The key serves all ranks over the same device.
    ///
    /// # Errors
    /// A bad rank; no one-sided operations with it; no room for a registration.
    pub fn expose(&mut self, memory: RmaBuf, rank: i32, comm: Comm) -> Result<(Exposure, RemoteKey)> {
        let to = self.rma_peer(rank, comm)?;
        let now = self.now;
        let exposed = self.ch3.expose_window(&mut self.engine.io(now), to, memory);
        exposed.map_err(|e| self.blame(e))
    }

    /// Ends the access to memory that was exposed. When this returns, nobody accesses it any more.
    /// Waits for a write that is just under way, if there is one.
    pub fn conceal(&mut self, exposure: Exposure) {
        if self.origin.is_here() {
            let now = self.now;
            self.ch3.conceal(&mut self.engine.io(now), exposure);
        }
    }

    /// Starts to write the data of `seg` to memory of a rank.
    ///
    /// # Errors
    /// A bad rank; a rank whose netmod has no put; no room for a registration. Nothing was started
    /// then, and messages do the same.
    pub fn rma_put(&mut self, seg: Segment, rank: i32, comm: Comm, to: RemotePlace) -> Started {
        self.begin_onesided(seg, rank, comm, to, OneSidedOp::Put)
    }

    /// Starts to read memory of a rank into `seg`.
    ///
    /// # Errors
    /// As [`Vci::rma_put`].
    pub fn rma_get(&mut self, seg: Segment, rank: i32, comm: Comm, from: RemotePlace) -> Started {
        self.begin_onesided(seg, rank, comm, from, OneSidedOp::Get)
    }

    /// Starts an atomic operation on a word of a rank's memory. The old value goes to `result`, if
    /// it is wanted.
    ///
    /// # Errors
    /// As [`Vci::rma_put`]; an operation that is not among [`netmod_core::rma::RmaCaps::atomics`].
    pub fn rma_atomic(
        &mut self,
        args: AtomicArgs,
        result: Segment,
        rank: i32,
        comm: Comm,
        word: RemotePlace,
    ) -> Started {
        self.begin_onesided(result, rank, comm, word, OneSidedOp::Atomic(args))
    }

    /// Starts to add to a word of a rank's memory, whose old value goes to `result`.
    ///
    /// # Errors
    /// As [`Vci::rma_atomic`].
    pub fn rma_fetch_add(
        &mut self,
        (word, operand): (Word, u64),
        result: Segment,
        rank: i32,
        comm: Comm,
        to: RemotePlace,
    ) -> Started {
        let args = AtomicArgs { op: AtomicOp::Add, word, operand, comparand: 0, fetches: true };
        self.rma_atomic(args, result, rank, comm, to)
    }

    /// Starts to store `new` in a word of a rank's memory if that is `expected`. The old value goes
    /// to `result`.
    ///
    /// # Errors
    /// As [`Vci::rma_atomic`].
    pub fn rma_compare_swap(
        &mut self,
        (word, expected, new): (Word, u64, u64),
        result: Segment,
        rank: i32,
        comm: Comm,
        to: RemotePlace,
    ) -> Started {
        let op = AtomicOp::CompareSwap;
        let args = AtomicArgs { op, word, operand: new, comparand: expected, fetches: true };
        self.rma_atomic(args, result, rank, comm, to)
    }

    /// Returns true if everything that was started with a rank has ended. Makes progress once.
    ///
    /// # Errors
    /// A bad rank; a rank that is lost, or with which there are no one-sided operations.
    pub fn rma_flush(&mut self, rank: i32, comm: Comm) -> Result<bool> {
        let to = self.rma_peer(rank, comm)?;
        self.progress()?;
        let now = self.now;
        let flushed = self.ch3.rma_flushed(&mut self.engine.io(now), to);
        flushed.map_err(|e| self.blame(e))
    }

    fn begin_onesided(
        &mut self,
        seg: Segment,
        rank: i32,
        comm: Comm,
        place: RemotePlace,
        op: OneSidedOp,
    ) -> Started {
        let to = match self.rma_peer(rank, comm) {
            Ok(to) => to,
            Err(error) => return Err(Box::new(RmaRefused { error, seg })),
        };
        let now = self.now;
        match self.ch3.begin_onesided(&mut self.engine.io(now), seg, to, place, op) {
            Ok(req) => Ok(RawReq(req)),
            Err((e, seg)) => Err(Box::new(RmaRefused { error: self.blame(e), seg })),
        }
    }

    fn rma_peer(&self, rank: i32, comm: Comm) -> Result<(u32, u32)> {
        self.check_origin()?;
        let rank = in_group(self.group(comm)?, rank)?;
        Ok((comm.group, rank))
    }
}

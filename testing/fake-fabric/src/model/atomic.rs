//! Posting of atomic operations: one word at a time, of 32 or 64 bits.

use super::post::{Moved, Posting};
use super::queue::Outcome;
use super::region::Remote;
use super::word::{Atomic, is_valid, size_of_word};
use super::{Id, State};
use crate::errno::{FI_EINVAL, FI_EIO, FI_ENOTCONN, FI_EOPNOTSUPP};
use crate::request::Operation;
use crate::settings::ToTheDead;
use libfabric_sys::consts::{FI_COMPLETION, FI_CSWAP};

impl State {
    /// Posts an atomic operation. The pieces are the result, if it fetches, the operand and, if it
    /// compares, the comparand.
    pub(crate) fn atomic(
        &mut self,
        id: Id,
        posting: Posting,
        atomic: Atomic,
        remote: Remote,
    ) -> Result<(), i32> {
        let call = posting.call;
        let face = self.usable(id, &posting, Operation::Atomic)?;
        let Some(index) = face.tx else { return Err(FI_EINVAL) };
        let compares = atomic.op == FI_CSWAP;
        if !is_valid(atomic.datatype, atomic.op, compares) {
            self.wrong(
                FI_EOPNOTSUPP,
                format!("{call}: operation {} on type {} is not valid", atomic.op, atomic.datatype),
            )?;
        }
        let size = size_of_word(atomic.datatype).unwrap_or(8);
        let aligned = |place: u64| place.is_multiple_of(size as u64);
        if remote.len != size
            || !aligned(remote.addr)
            || posting.pieces.iter().any(|piece| piece.len() != size || !aligned(piece.addr() as u64))
        {
            self.wrong(FI_EINVAL, format!("{call}: not one aligned word of {size} bytes"))?;
        }
        let tx = &self.ports[face.port].tx[index];
        let flags = posting.flags.unwrap_or(tx.op_flags);
        let wanted = !tx.selective || flags & FI_COMPLETION != 0;
        let full = tx.outstanding >= tx.size;
        let regions = self.sound(face, &posting, Operation::Atomic, wanted, false)?;
        let to = self.destination(face.port, posting.peer, call)?;
        self.again(self.settings.again.write, full)?;
        let up = to.port.is_some_and(|port| self.is_up(port)) && !self.ports[face.port].dead;
        if !up && self.settings.to_the_dead == ToTheDead::Again {
            self.again(1.0, true)?;
        }
        let op = self.begin(face, posting, Operation::Atomic, regions, wanted, false);
        if let Some(op) = self.ops.get_mut(&op) {
            op.peer = to.port;
        }
        self.stats.atomics += 1;
        if !up {
            if self.settings.to_the_dead == ToTheDead::Error {
                self.complete(op, Outcome::Failed(FI_ENOTCONN));
            }
            return Ok(());
        }
        if self.fails(Operation::Atomic) {
            self.complete(op, Outcome::Failed(FI_EIO));
            return Ok(());
        }
        let early = !atomic.fetches && self.early(flags);
        if early {
            self.complete(op, Outcome::Done);
        }
        let moved = Moved::Atomic(atomic);
        self.under_way(face, to, Operation::Atomic, vec![remote], moved, (!early).then_some(op));
        Ok(())
    }
}

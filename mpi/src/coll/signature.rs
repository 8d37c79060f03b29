//! The signature of a collective operation: a word by which processes see that they have called the
//! same one.

use super::call::Call;
use crate::op::Builtin;

/// Bits of the number of bytes.
const BYTES: u32 = 38;
/// Bits of the root, from 1 on.
const ROOT: u32 = 16;
/// Bits of the operation that combines operands.
const OP: u32 = 5;
/// The place of the operation, and of the call's number.
const OP_AT: u32 = BYTES + ROOT;
const NUMBER_AT: u32 = OP_AT + OP;
/// An operation of the program.
const OF_PROGRAM: u64 = (1 << OP) - 1;

/// Stands for the signature of an operation that has failed since a process has.
pub(super) const LOST: u64 = u64::MAX;

/// The names of operations, by the number in a signature.
const NAMES: [&str; 16] = [
    "another operation",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Gather",
    "MPI_Scatter",
    "MPI_Allgather",
    "MPI_Alltoall",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Reduce_scatter",
    "MPI_Scan",
    "MPI_Exscan",
    "MPI_Gatherv",
    "MPI_Scatterv",
    "MPI_Allgatherv",
    "MPI_Alltoallv",
];

impl Call {
    /// The number of the operation.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number_and_root().0
    }

    /// The number of the operation that combines operands; 0 if there are none.
    pub(super) fn op(&self) -> u64 {
        match self {
            Call::Reduce { op, .. }
            | Call::Allreduce { op, .. }
            | Call::ReduceScatter { op, .. }
            | Call::ReduceScatterBlock { op, .. }
            | Call::Scan { op, .. }
            | Call::Exscan { op, .. } => Builtin::of(*op).map_or(OF_PROGRAM, |op| op as u64),
            _ => 0,
        }
    }

    /// The number of the operation, and its root if it has one.
    pub(super) fn number_and_root(&self) -> (u64, Option<i32>) {
        match self {
            Call::Barrier => (1, None),
            Call::Bcast { root, .. } => (2, Some(*root)),
            Call::Gather { root, .. } => (3, Some(*root)),
            Call::Scatter { root, .. } => (4, Some(*root)),
            Call::Allgather { .. } => (5, None),
            Call::Alltoall { .. } => (6, None),
            Call::Reduce { root, .. } => (7, Some(*root)),
            Call::Allreduce { .. } => (8, None),
            Call::ReduceScatter { .. } | Call::ReduceScatterBlock { .. } => (9, None),
            Call::Scan { .. } => (10, None),
            Call::Exscan { .. } => (11, None),
            Call::Gatherv { root, .. } => (12, Some(*root)),
            Call::Scatterv { root, .. } => (13, Some(*root)),
            Call::Allgatherv { .. } => (14, None),
            Call::Alltoallv { .. } => (15, None),
        }
    }
}

/// Returns the signature of a call with so many bytes.
pub(super) fn of(call: &Call, bytes: u64) -> u64 {
    let (number, root) = call.number_and_root();
    let root = root.map_or(0, |root| root.cast_unsigned() as u64 + 1) & ((1 << ROOT) - 1);
    with_bytes(number << NUMBER_AT | call.op() << OP_AT | root << BYTES, bytes)
}

/// Returns the signature of a call with so many bytes, by that of the call without any.
pub(super) fn with_bytes(call: u64, bytes: u64) -> u64 {
    call | bytes.min((1 << BYTES) - 1)
}

/// Describes a signature.
pub(super) fn name(signature: u64) -> String {
    let mut text = NAMES.get((signature >> NUMBER_AT) as usize).unwrap_or(&NAMES[0]).to_string();
    match signature >> OP_AT & ((1 << OP) - 1) {
        0 => {}
        OF_PROGRAM => text += " by an operation of the program",
        op => {
            let name = Builtin::ALL.get(op as usize - 1).map_or("an unknown operation", |op| op.name());
            text += &format!(" by {name}");
        }
    }
    let bytes = signature & ((1 << BYTES) - 1);
    match signature >> BYTES & ((1 << ROOT) - 1) {
        0 if bytes == 0 => {}
        0 => text += &format!(" of {bytes} bytes"),
        root => text += &format!(" of {bytes} bytes from or to root {}", root - 1),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Op;

    #[test]
    fn a_signature_tells_the_call() {
        assert_eq!(name(of(&Call::Barrier, 0)), "MPI_Barrier");
        let buf = crate::datatype::Buf::IN_PLACE;
        let bcast = of(&Call::Bcast { buf, root: 3 }, 24);
        assert_eq!(name(bcast), "MPI_Bcast of 24 bytes from or to root 3");
        assert_ne!(bcast, of(&Call::Bcast { buf, root: 2 }, 24));
        let reduce = |op: Builtin| of(&Call::Reduce { send: buf, recv: buf, op: op.handle(), root: 0 }, 8);
        assert_eq!(name(reduce(Builtin::Sum)), "MPI_Reduce by MPI_SUM of 8 bytes from or to root 0");
        assert_ne!(reduce(Builtin::Sum), reduce(Builtin::Prod));
        let own = of(&Call::Allreduce { send: buf, recv: buf, op: Op(0x9800_0000) }, 16);
        assert_eq!(name(own), "MPI_Allreduce by an operation of the program of 16 bytes");
        let all =
            "another operation by an operation of the program of 274877906943 bytes from or to root 65534";
        assert_eq!(name(u64::MAX), all);
    }
}

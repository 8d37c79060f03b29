//! The arguments of a collective call, whatever its form.

use crate::datatype::{Blocks, Buf};
use crate::handle::{Datatype, Op};

/// A collective operation with its arguments, without the communicator.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Call {
    Barrier,
    Bcast {
        buf: Buf,
        root: i32,
    },
    Gather {
        send: Buf,
        recv: Buf,
        root: i32,
    },
    Gatherv {
        send: Buf,
        recv: Blocks,
        root: i32,
    },
    Scatter {
        send: Buf,
        recv: Buf,
        root: i32,
    },
    Scatterv {
        send: Blocks,
        recv: Buf,
        root: i32,
    },
    Allgather {
        send: Buf,
        recv: Buf,
    },
    Allgatherv {
        send: Buf,
        recv: Blocks,
    },
    Alltoall {
        send: Buf,
        recv: Buf,
    },
    Alltoallv {
        send: Blocks,
        recv: Blocks,
    },
    Reduce {
        send: Buf,
        recv: Buf,
        op: Op,
        root: i32,
    },
    Allreduce {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    /// The count of the receive buffer is not looked at.
    ReduceScatter {
        send: Buf,
        recv: Buf,
        counts: Vec<i64>,
        op: Op,
    },
    ReduceScatterBlock {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    Scan {
        send: Buf,
        recv: Buf,
        op: Op,
    },
    Exscan {
        send: Buf,
        recv: Buf,
        op: Op,
    },
}

impl Call {
    /// Returns the datatype that the operation of a reduction is told.
    pub(super) fn operand_type(&self) -> Option<Datatype> {
        match self {
            Call::Reduce { send, .. } if !send.is_in_place() => Some(send.datatype()),
            Call::Exscan { send, .. } if !send.is_in_place() => Some(send.datatype()),
            Call::Reduce { recv, .. }
            | Call::Allreduce { recv, .. }
            | Call::ReduceScatter { recv, .. }
            | Call::ReduceScatterBlock { recv, .. }
            | Call::Scan { recv, .. }
            | Call::Exscan { recv, .. } => Some(recv.datatype()),
            _ => None,
        }
    }
}

/// The neighbours of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Ranks that blocks come from, in the order of the receive buffer; `PROC_NULL` is nobody.
    pub sources: Vec<i32>,
    /// Ranks that blocks go to, in the order of the send buffer.
    pub destinations: Vec<i32>,
    /// The sources' places in the order in which several messages of one process match.
    pub order: Vec<usize>,
}

/// The processes that an operation is with.
#[derive(Clone, Copy, Debug)]
pub enum Peers<'a> {
    /// Those of the group.
    Group,
    /// Those of a remote group, which has so many.
    Remote(usize),
    /// The neighbours.
    Neighbours(&'a Neighbours),
}

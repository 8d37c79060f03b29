//! Neighbourhood collectives: blocking, nonblocking and persistent.

use crate::coll::{Call, Form, Peers, Running, forms};
use crate::datatype::{Blocks, Buf};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info, Request};
use crate::instance::Mpi;
use crate::objects::Objects;

/// Returns the maker of an operation of the neighbours.
fn on_neighbours(call: Call, comm: Comm) -> impl FnOnce(&Objects, Form) -> Result<Running> {
    move |objects, form| {
        let core = objects.comms.intra_core(comm)?;
        let topology = objects.comms.get(comm)?.topology.as_ref().ok_or_else(|| none(objects, comm))?;
        let around = topology.neighbours(core.rank().cast_signed())?;
        Running::with(objects, form, &core, &call, Peers::Neighbours(&around))
    }
}

/// Returns the error of a communicator without a topology.
#[cold]
pub(super) fn none(objects: &Objects, comm: Comm) -> Box<MpiError> {
    let text = format!("{} has no topology of this kind; make one for it first", objects.comms.title(comm));
    MpiError::new(Class::TOPOLOGY, text)
}

forms! {
    on_neighbours;
    "Neighbor_allgather": neighbor_allgather, ineighbor_allgather, neighbor_allgather_init(send: Buf, recv: Buf)
        Call::Allgather { send, recv };
    "Neighbor_allgatherv": neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(send: Buf, recv: Blocks)
        Call::Allgatherv { send, recv };
    "Neighbor_alltoall": neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init(send: Buf, recv: Buf)
        Call::Alltoall { send, recv };
    "Neighbor_alltoallv": neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(send: Blocks, recv: Blocks)
        Call::Alltoallv { send, recv };
    "Neighbor_alltoallw": neighbor_alltoallw, ineighbor_alltoallw, neighbor_alltoallw_init(send: Blocks, recv: Blocks)
        Call::Alltoallv { send, recv };
}

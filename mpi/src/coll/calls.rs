//! Collective operations: blocking, nonblocking and persistent.

use super::call::Call;
use super::task::{Form, Running};
use crate::datatype::{Blocks, Buf};
use crate::error::Result;
use crate::handle::{Comm, Info, Op, Request};
use crate::instance::{Mpi, State};
use crate::objects::Objects;
use crate::request::Kind;
use crate::status::Status;
use crate::task::{Progress, Task};

/// The end of one part of a blocking operation.
enum Part {
    Over(Status),
    /// A function of the program is to be called.
    Call(Box<dyn FnOnce() + Send>),
}

impl Mpi {
    /// Runs an operation to its end.
    ///
    /// # Errors
    /// A bad handle or argument; a message that failed.
    pub(crate) fn run_operation(&self, make: impl FnOnce(&Objects, Form) -> Result<Running>) -> Result<()> {
        if self.is_multiple() {
            // Any thread that waits is to advance it.
            let mut request = self.start_as(make, Form::Blocking)?;
            return self.wait(&mut request).map(|_| ());
        }
        let (mut begun, mut call) = (None, None);
        self.with(|s| {
            let State { dev, objects, .. } = s;
            let running = begun.insert(make(objects, Form::Blocking)?);
            // Many are over at once.
            match running.task().advance(dev, objects) {
                Progress::Blocked => Ok(()),
                Progress::Call(function) => {
                    call = Some(function);
                    Ok(())
                }
                Progress::Done(result) => {
                    keep(objects, begun.take());
                    dev.flush();
                    result.map(|_| ())
                }
            }
        })?;
        while let Some(running) = &mut begun {
            if let Some(function) = call.take() {
                function();
                running.task().called();
            }
            call = self.wait_until(|vci, objects, _| match begun.as_mut()?.task().advance(vci, objects) {
                Progress::Blocked => None,
                Progress::Call(function) => Some(Ok(Some(function))),
                Progress::Done(result) => {
                    keep(objects, begun.take());
                    Some(result.map(|_| None))
                }
            })?;
        }
        Ok(())
    }

    /// Runs a task to its end, and calls the functions that it needs.
    ///
    /// # Errors
    /// Those of the task.
    pub(crate) fn run_task(&self, task: &mut dyn Task) -> Result<Status> {
        loop {
            let part = self.wait_until(|vci, objects, _| match task.advance(vci, objects) {
                Progress::Blocked => None,
                Progress::Call(function) => Some(Ok(Part::Call(function))),
                Progress::Done(result) => Some(result.map(Part::Over)),
            })?;
            match part {
                Part::Over(status) => return Ok(status),
                Part::Call(function) => {
                    function();
                    task.called();
                }
            }
        }
    }

    /// Starts an operation.
    ///
    /// # Errors
    /// A bad handle or argument.
    pub(crate) fn start_operation(
        &self,
        make: impl FnOnce(&Objects, Form) -> Result<Running>,
    ) -> Result<Request> {
        self.start_as(make, Form::Request)
    }

    fn start_as(&self, make: impl FnOnce(&Objects, Form) -> Result<Running>, form: Form) -> Result<Request> {
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let mut running = make(objects, form)?;
            let kind = match running.task().advance(dev, objects) {
                Progress::Done(result) => {
                    running.into_task().retire(objects);
                    Kind::Over(result)
                }
                // The call that is to be made is asked for again.
                Progress::Blocked | Progress::Call(_) => Kind::Task(Some(running.into_task())),
            };
            requests.insert(kind)
        })
    }

    /// Makes a persistent operation.
    ///
    /// # Errors
    /// A bad handle or argument.
    pub(crate) fn make_operation(
        &self,
        make: impl FnOnce(&Objects, Form) -> Result<Running>,
    ) -> Result<Request> {
        let running = self.with(|s| make(&s.objects, Form::Persistent))?;
        self.persistent_task(running.into_task())
    }
}

/// Keeps what is left of an operation that is over, for the next one.
#[inline]
fn keep(objects: &Objects, over: Option<Running>) {
    if let Some(running) = over {
        running.into_task().retire(objects);
    }
}

/// Returns the maker of an operation of all processes of a communicator.
fn on_all(call: Call, comm: Comm) -> impl FnOnce(&Objects, Form) -> Result<Running> {
    move |objects, form| Running::new(objects, form, objects.comms.core_of(comm)?, &call)
}

/// Writes the three forms of an operation.
macro_rules! forms {
    ($of:ident; $($mpi:literal: $name:ident, $start:ident, $make:ident($($arg:ident: $ty:ty),*) $call:expr;)*) => {
        impl Mpi {$(
            #[doc = concat!("`MPI_", $mpi, "`.\n\n# Errors\nA bad handle or argument; a message that failed.")]
            pub fn $name(&self, $($arg: $ty,)* comm: Comm) -> Result<()> {
                self.run_operation($of($call, comm))
            }

            #[doc = concat!("Starts `MPI_", $mpi, "`.\n\n# Errors\nA bad handle or argument.")]
            pub fn $start(&self, $($arg: $ty,)* comm: Comm) -> Result<Request> {
                self.start_operation($of($call, comm))
            }

            #[doc = concat!("Makes a persistent `MPI_", $mpi, "`, which no hint changes.\n\n# Errors\nA bad handle or argument.")]
            pub fn $make(&self, $($arg: $ty,)* comm: Comm, _info: Info) -> Result<Request> {
                self.make_operation($of($call, comm))
            }
        )*}
    };
}
pub(crate) use forms;

forms! {
    on_all;
    "Barrier": barrier, ibarrier, barrier_init() Call::Barrier;
    "Bcast": bcast, ibcast, bcast_init(buf: Buf, root: i32) Call::Bcast { buf, root };
    "Gather": gather, igather, gather_init(send: Buf, recv: Buf, root: i32) Call::Gather { send, recv, root };
    "Gatherv": gatherv, igatherv, gatherv_init(send: Buf, recv: Blocks, root: i32) Call::Gatherv { send, recv, root };
    "Scatter": scatter, iscatter, scatter_init(send: Buf, recv: Buf, root: i32) Call::Scatter { send, recv, root };
    "Scatterv": scatterv, iscatterv, scatterv_init(send: Blocks, recv: Buf, root: i32) Call::Scatterv { send, recv, root };
    "Allgather": allgather, iallgather, allgather_init(send: Buf, recv: Buf) Call::Allgather { send, recv };
    "Allgatherv": allgatherv, iallgatherv, allgatherv_init(send: Buf, recv: Blocks) Call::Allgatherv { send, recv };
    "Alltoall": alltoall, ialltoall, alltoall_init(send: Buf, recv: Buf) Call::Alltoall { send, recv };
    "Alltoallv": alltoallv, ialltoallv, alltoallv_init(send: Blocks, recv: Blocks) Call::Alltoallv { send, recv };
    "Alltoallw": alltoallw, ialltoallw, alltoallw_init(send: Blocks, recv: Blocks) Call::Alltoallv { send, recv };
    "Reduce": reduce, ireduce, reduce_init(send: Buf, recv: Buf, op: Op, root: i32) Call::Reduce { send, recv, op, root };
    "Allreduce": allreduce, iallreduce, allreduce_init(send: Buf, recv: Buf, op: Op) Call::Allreduce { send, recv, op };
    "Reduce_scatter": reduce_scatter, ireduce_scatter, reduce_scatter_init(send: Buf, recv: Buf, counts: &[i64], op: Op)
        Call::ReduceScatter { send, recv, counts: counts.to_vec(), op };
    "Reduce_scatter_block": reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init(send: Buf, recv: Buf, op: Op)
        Call::ReduceScatterBlock { send, recv, op };
    "Scan": scan, iscan, scan_init(send: Buf, recv: Buf, op: Op) Call::Scan { send, recv, op };
    "Exscan": exscan, iexscan, exscan_init(send: Buf, recv: Buf, op: Op) Call::Exscan { send, recv, op };
}

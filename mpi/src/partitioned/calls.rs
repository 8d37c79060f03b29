//! MPI's functions of partitioned communication.

use super::recv::Receiving;
use super::send::Sending;
use crate::comm::raised;
use crate::consts::ANY_SOURCE;
use crate::datatype::{Bound, Buf, Types};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info, Request};
use crate::instance::{Mpi, State};
use crate::request::{Kind, Operation, Persistent, Requests};
use crate::target::Target;
use crate::task::{Partitions, Task};

/// Returns the buffer of all partitions, the elements of one, and their number.
fn partitions(types: &Types, buf: &Buf, partitions: i32) -> Result<(Bound, usize, u32)> {
    let Ok(number) = u32::try_from(partitions) else {
        let text = format!("partitions is {partitions}; it is not negative");
        return Err(MpiError::new(Class::ARG, text));
    };
    let each = types.bound(buf)?.raw().1;
    let Some(all) = each.checked_mul(number.into()) else {
        let text = format!("{partitions} partitions of {each} elements are more than 2^63 - 1 elements");
        return Err(MpiError::new(Class::COUNT, text));
    };
    Ok((types.bound(&buf.with_count(all))?, each as usize, number))
}

/// Gives the partitions of a request to `each`.
///
/// # Errors
/// A request that has none; the error of `each`.
fn with_partitions<T>(
    requests: &mut Requests,
    request: Request,
    each: impl FnOnce(&mut dyn Partitions) -> Result<T>,
) -> Result<T> {
    requests.check(request)?;
    let kind = &mut requests.table.get_mut(request)?.kind;
    let comm = kind.comm();
    let partitions = match kind {
        Kind::Persistent(p) => p.task_mut().and_then(|task| task.partitions()),
        _ => None,
    };
    let result = match partitions {
        Some(partitions) => each(partitions),
        None => {
            let text = format!(
                "request {:#010x} has no partitions; give one of MPI_Psend_init or MPI_Precv_init",
                request.0
            );
            Err(MpiError::new(Class::REQUEST, text))
        }
    };
    result.map_err(|e| raised(e, comm))
}

impl State {
    /// Marks partitions of a send as ready.
    fn ready(&mut self, request: Request, mut all: impl Iterator<Item = i32>) -> Result<()> {
        let State { dev, requests, .. } = self;
        with_partitions(requests, request, |partitions| {
            all.try_for_each(|partition| partitions.ready(dev, partition))
        })
    }
}

impl Mpi {
    fn partitioned(&self, make: impl FnOnce(&mut State) -> Result<Box<dyn Task>>) -> Result<Request> {
        self.with(|s| {
            let task = make(s)?;
            let operation = Persistent::new(Operation::Task(Some(task)));
            s.requests.insert(Kind::Persistent(Box::new(operation)))
        })
    }

    /// Makes a send in partitions of as many elements as the buffer has each (`MPI_Psend_init`).
    ///
    /// # Errors
    /// A bad argument.
    pub fn psend_init(
        &self,
        buf: Buf,
        number: i32,
        dest: i32,
        tag: i32,
        comm: Comm,
        _info: Info,
    ) -> Result<Request> {
        self.partitioned(|s| {
            s.objects.comms.process_core(comm)?;
            let target = Target::of_send(&s.objects.comms, dest, tag, comm)?.own();
            let data = partitions(&s.objects.types, &buf, number)?;
            let sends = &mut s.objects.partitioned.sends;
            *sends = sends.wrapping_add(1);
            Ok(Box::new(Sending::new(&mut s.dev, s.objects.partitioned.sends, data, target)?))
        })
    }

    /// Makes a receive in partitions of as many elements as the buffer has each
    /// (`MPI_Precv_init`).
    ///
    /// # Errors
    /// A bad argument; wildcards, which MPI excludes.
    pub fn precv_init(
        &self,
        buf: Buf,
        number: i32,
        source: i32,
        tag: i32,
        comm: Comm,
        _info: Info,
    ) -> Result<Request> {
        self.partitioned(|s| {
            if source == ANY_SOURCE {
                let text = "source is MPI_ANY_SOURCE; a partitioned receive names its source";
                return Err(MpiError::new(Class::RANK, text));
            }
            s.objects.comms.process_core(comm)?;
            // A send's tag is none of the wildcards.
            let target = Target::of_send(&s.objects.comms, source, tag, comm)?.own();
            let room = partitions(&s.objects.types, &buf, number)?;
            Ok(Box::new(Receiving::new(&mut s.dev, room, target)?))
        })
    }

    /// Says that a partition may be sent (`MPI_Pready`).
    ///
    /// # Errors
    /// A request that is no active send in partitions; a partition that it does not have, or that
    /// is ready already.
    pub fn pready(&self, partition: i32, request: Request) -> Result<()> {
        self.with(|s| s.ready(request, std::iter::once(partition)))
    }

    /// Says that partitions from `low` to `high` may be sent (`MPI_Pready_range`).
    ///
    /// # Errors
    /// As [`Mpi::pready`]; partitions before the one at fault are sent.
    pub fn pready_range(&self, low: i32, high: i32, request: Request) -> Result<()> {
        self.with(|s| s.ready(request, low..=high))
    }

    /// Says that some partitions may be sent (`MPI_Pready_list`).
    ///
    /// # Errors
    /// As [`Mpi::pready`]; partitions before the one at fault are sent.
    pub fn pready_list(&self, partitions: &[i32], request: Request) -> Result<()> {
        self.with(|s| s.ready(request, partitions.iter().copied()))
    }

    /// Returns true if a partition of a receive has arrived (`MPI_Parrived`). All have if the
    /// request is not active.
    ///
    /// # Errors
    /// A request that is no receive in partitions; a partition that it does not have.
    pub fn parrived(&self, request: Request, partition: i32) -> Result<bool> {
        if request.is_null() {
            return Ok(true);
        }
        let arrived = self.test_until(|vci, _, requests| {
            let arrived = with_partitions(requests, request, |p| p.has_arrived(vci, partition));
            arrived.map(|arrived| arrived.then_some(true)).transpose()
        })?;
        Ok(arrived.unwrap_or(false))
    }
}

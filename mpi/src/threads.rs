//! Communicators whose ranks are threads.
//!
//! Such a communicator has one handle for all threads of a process. A thread that starts it gets a
//! rank, and a communicator of its own, which the handle stands for in this thread ([`stand_in`]).
//! The communicators of a process's threads share their context id; the device's channels tell the
//! threads apart ([`ch3_shim::thread_place`]). A process that takes part in an agreement with
//! several threads does so for its lowest one: the others accept any id
//! ([`Ranks::leads`](crate::ranks::Ranks::leads)).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::comm::CommCore;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Errhandler, invalid};
use crate::stand_in;

/// A communicator of threads, as its process sees it.
#[derive(Debug)]
pub(crate) struct Region {
    /// Its context id.
    pub id: u32,
    /// Those of this process's threads, in the order in which they start.
    pub cores: Vec<Arc<CommCore>>,
    /// The error handler of the communicator that it was made of, which this holds.
    pub errhandler: Errhandler,
    /// Threads that have started it.
    started: usize,
    /// Those of them that have finished it.
    finished: usize,
    /// Times that all of them have.
    rounds: u64,
}

impl Region {
    pub(crate) fn new(id: u32, cores: Vec<Arc<CommCore>>, errhandler: Errhandler) -> Region {
        Region { id, cores, errhandler, started: 0, finished: 0, rounds: 0 }
    }

    /// Returns what the next thread has.
    ///
    /// # Errors
    /// If all have started.
    pub(crate) fn start(&mut self) -> Result<Arc<CommCore>> {
        let Some(core) = self.cores.get(self.started) else {
            let text = format!(
                "{} threads have started the communicator, for which MPIX_Threadcomm_init was told so many; \
                 finish it in them first",
                self.started
            );
            return Err(MpiError::new(Class::OTHER, text));
        };
        self.started += 1;
        Ok(Arc::clone(core))
    }

    /// Notes that a thread has finished it. Returns the number of the round.
    pub(crate) fn finish(&mut self) -> u64 {
        let round = self.rounds;
        self.finished += 1;
        if self.finished == self.cores.len() {
            (self.started, self.finished) = (0, 0);
            self.rounds += 1;
        }
        round
    }

    /// Returns true if all threads have finished a round.
    pub(crate) fn is_over(&self, round: u64) -> bool {
        self.rounds > round
    }
}

/// The communicators of threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Regions(BTreeMap<Comm, Region>);

impl Regions {
    /// Adds one. Its handle is none that another one of this process has, in any library that is
    /// loaded.
    pub(crate) fn insert(&mut self, region: Region) -> Comm {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let comm = Comm::of_threads(NEXT.fetch_add(1, Ordering::Relaxed));
            if let Entry::Vacant(place) = self.0.entry(comm) {
                place.insert(region);
                return comm;
            }
        }
    }

    /// Returns one.
    ///
    /// # Errors
    /// If a handle is not one of a communicator of threads.
    pub(crate) fn get_mut(&mut self, comm: Comm) -> Result<&mut Region> {
        self.0.get_mut(&comm).ok_or_else(|| not_of_threads(comm))
    }

    /// Removes one.
    ///
    /// # Errors
    /// As [`Regions::get_mut`]; if threads have started it.
    pub(crate) fn remove(&mut self, comm: Comm) -> Result<Region> {
        let started = self.get_mut(comm)?.started;
        if started > 0 {
            let text =
                format!("{started} threads have started the communicator; let each finish it, then free it");
            return Err(MpiError::new(Class::OTHER, text));
        }
        self.0.remove(&comm).ok_or_else(|| not_of_threads(comm))
    }

    /// Number of those that were not freed.
    pub(crate) fn live(&self) -> usize {
        self.0.len()
    }
}

#[cold]
fn not_of_threads(comm: Comm) -> Box<MpiError> {
    if comm.0 & stand_in::BIT != 0 || comm.is_null() {
        return invalid(comm);
    }
    let text =
        format!("{:#010x} was not made by MPIX_Threadcomm_init; give a communicator of threads", comm.0);
    MpiError::new(Class::COMM, text)
}

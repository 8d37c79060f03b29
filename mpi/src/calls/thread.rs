//! Communicators whose ranks are threads (`MPIX_Threadcomm_*`).

use std::sync::Arc;

use ch3_shim::{MOST_THREADS, thread_place};

use crate::comm::{CommCore, Communicator};
use crate::consts::THREAD_MULTIPLE;
use crate::context::{Agreement, own_channels};
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::Comm;
use crate::instance::{Mpi, State};
use crate::ranks::Ranks;
use crate::stand_in;
use crate::threads::Region;

/// Returns the places of all threads, if each process has so many.
fn places_of(processes: &[u32], counts: &[u32]) -> Result<Arc<[u32]>> {
    let threads = processes.iter().zip(counts).flat_map(|(place, n)| (0..*n).map(|i| (*place, i)));
    let places: Option<Arc<[u32]>> = threads.map(|(place, thread)| thread_place(place, thread)).collect();
    let places = places.ok_or_else(|| {
        let text = "threads have ranks in jobs of less than 2^23 processes; use fewer";
        MpiError::new(Class::UNSUPPORTED_OPERATION, text)
    })?;
    if places.is_empty() {
        let text = "num_threads is 0 in all processes; at least one of them gives a thread";
        return Err(MpiError::new(Class::ARG, text));
    }
    Ok(places)
}

impl Mpi {
    /// Makes a communicator whose ranks are `threads` threads of each process, in the order of the
    /// processes (`MPIX_Threadcomm_init`). Each thread starts it before it uses it.
    ///
    /// # Errors
    /// A bad handle or number; processes of several jobs; a thread level below
    /// `MPI_THREAD_MULTIPLE`; no context id.
    pub fn threadcomm_init(&self, comm: Comm, threads: i32) -> Result<Comm> {
        let Some(own) = u32::try_from(threads).ok().filter(|own| *own <= MOST_THREADS) else {
            let text = format!("num_threads is {threads}; a process gives 0 to {MOST_THREADS}");
            return Err(MpiError::new(Class::ARG, text));
        };
        if !self.is_multiple() {
            let text = format!(
                "the thread level is {}; ask MPI_Init_thread for MPI_THREAD_MULTIPLE ({THREAD_MULTIPLE})",
                self.thread_level()
            );
            return Err(MpiError::new(Class::OTHER, text));
        }
        let core = self.with(|s| {
            let core = s.objects.comms.intra_core(comm)?;
            if core.spans_jobs(s.dev.size()) {
                let text =
                    "the communicator has processes of several jobs; threads have ranks in one of them";
                return Err(MpiError::new(Class::UNSUPPORTED_OPERATION, text));
            }
            Ok(core)
        })?;
        let told = self.gather_records(Party::of_all(&core), own.to_le_bytes().to_vec());
        if told.is_err() {
            self.refuse_agreement(&Party::of_all(&core))?;
        }
        let counts: Vec<u32> = told?.as_chunks().0.iter().map(|count| u32::from_le_bytes(*count)).collect();
        let places = places_of(core.group().places(), &counts)?;
        let agreed = self.agree(Agreement::new(Party::of_all(&core), true))?;
        let group = Arc::new(Ranks::of_threads(places, own));
        let first: u32 = counts[..core.rank() as usize].iter().sum();
        self.with(|s| {
            let make = |rank| {
                let channels = own_channels(&mut s.dev, agreed.id, &group, rank)?;
                let mut made = CommCore::intra(agreed, channels, Arc::clone(&group), rank);
                made.session = core.session;
                Ok(Arc::new(made))
            };
            let cores = (first..first + own).map(make).collect::<Result<_>>()?;
            let errhandler = s.objects.comms.get(comm)?.errhandler;
            s.objects.anytime.errhandlers().hold(errhandler)?;
            Ok(self.regions().insert(Region::new(agreed.id, cores, errhandler)))
        })
    }

    /// Gives the calling thread a rank in a communicator of threads (`MPIX_Threadcomm_start`),
    /// until it finishes that.
    ///
    /// # Errors
    /// A bad handle; if this thread, or as many as there are to be, have started it.
    pub fn threadcomm_start(&self, comm: Comm) -> Result<()> {
        self.with(|s| {
            let mut regions = self.regions();
            let region = regions.get_mut(comm)?;
            if stand_in::own(comm.0).is_some() {
                let text = "this thread has started the communicator; finish it first";
                return Err(MpiError::new(Class::OTHER, text));
            }
            let core = region.start()?;
            s.objects.anytime.errhandlers().hold(region.errhandler)?;
            let own = s.objects.comms.insert(Communicator::with_core(core, "", region.errhandler))?;
            s.objects.comms.get(own)?.core.set_handle(own);
            stand_in::start(comm.0, own.0);
            Ok(())
        })
    }

    /// Takes the calling thread's rank in a communicator of threads back, deletes the attributes
    /// that it has set there, and waits for the other threads of the process
    /// (`MPIX_Threadcomm_finish`).
    ///
    /// # Errors
    /// A bad handle; if this thread has not started it; what the function that deletes an attribute
    /// returns: then it is not finished.
    pub fn threadcomm_finish(&self, comm: Comm) -> Result<()> {
        self.with(|s| {
            self.regions().get_mut(comm)?;
            s.objects.comms.get(comm).map(|_| ())
        })?;
        self.delete_all_attrs(comm)?;
        let round = self.with(|s| {
            let round = self.regions().get_mut(comm)?.finish();
            if let Some(own) = stand_in::own(comm.0) {
                s.retire(Comm(own))?;
            }
            stand_in::finish(comm.0);
            Ok(round)
        })?;
        self.wait_until(|_, _, _| match self.regions().get_mut(comm) {
            Ok(region) => region.is_over(round).then_some(Ok(())),
            // All have finished it, and one has freed it.
            Err(_) => Some(Ok(())),
        })
    }

    /// Frees a communicator of threads, and sets the handle to null (`MPIX_Threadcomm_free`).
    ///
    /// # Errors
    /// A bad handle; if threads have started it.
    pub fn threadcomm_free(&self, comm: &mut Comm) -> Result<()> {
        self.with(|s| {
            let region = self.regions().remove(*comm)?;
            let State { objects, .. } = s;
            let handler = objects.anytime.errhandlers().get(region.errhandler)?;
            objects.anytime.errhandlers().release(region.errhandler);
            if region.cores.is_empty() {
                objects.contexts.release(region.id);
            }
            for core in region.cores {
                objects.spares.forget(&core);
                objects.contexts.give_back(core, handler.clone());
            }
            Ok(())
        })?;
        *comm = Comm::NULL;
        Ok(())
    }

    /// Returns true if the ranks of a communicator are threads (`MPIX_Comm_test_threadcomm`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_test_threadcomm(&self, comm: Comm) -> Result<bool> {
        self.with(|s| {
            if self.regions().get_mut(comm).is_ok() {
                return Ok(true);
            }
            s.objects.comms.get(comm).map(|c| c.core.group().are_threads())
        })
    }
}

//! The end of communicators with processes of other jobs.
//!
//! A process knows another job as long as it has a communicator with a process of it. When the last
//! one goes, it closes its connections with that job, and refuses new ones.

use std::collections::HashSet;

use crate::error::Result;
use crate::exchange::Party;
use crate::handle::Comm;
use crate::instance::{Mpi, State};

impl State {
    /// Begins to leave the jobs with which no communicator is left.
    pub(crate) fn leave_unused_jobs(&mut self) {
        if self.dev.jobs_met() == 0 {
            return;
        }
        let held = self.objects.contexts.held();
        let (size, objects) = (self.dev.size(), &self.objects);
        let comms = objects.comms.iter().map(|(_, comm)| &*comm.core);
        let cores =
            comms.chain(objects.contexts.ending()).chain(objects.wins.cores()).chain(objects.files.cores());
        let under_way = held.iter().flat_map(|places| places.iter().copied());
        let used: HashSet<u32> = cores.flat_map(|core| core.others(size)).chain(under_way).collect();
        self.dev.leave_jobs(|place| used.contains(&place));
        self.dev.has_left();
    }
}

impl Mpi {
    /// Leaves the jobs with which no communicator is left.
    pub(super) fn leave_unused_jobs(&self) -> Result<()> {
        self.with(|s| {
            s.leave_unused_jobs();
            Ok(())
        })?;
        self.wait_until_time(None, |vci, _| vci.has_left().then_some(Ok(()))).map(|_| ())
    }

    /// Frees a communicator when all operations on it are over, in all its processes if some are of
    /// another job (`MPI_Comm_disconnect`). All processes call it.
    ///
    /// # Errors
    /// As [`Mpi::comm_free`].
    pub fn comm_disconnect(&self, comm: &mut Comm) -> Result<()> {
        self.wait_until(|vci, objects, requests| match objects.comms.get(*comm) {
            Ok(c) if requests.has_messages(vci, &c.core) => None,
            Ok(_) => Some(Ok(())),
            Err(e) => Some(Err(e)),
        })?;
        let core = self.with(|s| {
            let core = s.objects.comms.core(*comm)?;
            Ok(Some(core).filter(|core| core.spans_jobs(s.dev.size())))
        })?;
        let Some(core) = core else { return self.comm_free(comm) };
        let party = match core.remote() {
            Some(remote) => Party::of_both(&core, remote),
            None => Party::of_all(&core),
        };
        // A process that is lost meanwhile needs no goodbye.
        let _ = self.gather_records(party, vec![0]);
        drop(core);
        self.comm_free(comm)?;
        self.leave_unused_jobs()
    }
}

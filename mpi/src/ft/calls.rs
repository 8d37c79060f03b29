//! The functions of User Level Failure Mitigation, as MPICH names them.

use std::sync::Arc;

use super::agree::{Set, Value};
use super::service::members;
use crate::comm::{Agreed, CommCore, name_of};
use crate::context::channels;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Group};
use crate::instance::{Mpi, State};
use crate::ranks::Ranks;

/// Returns the members that are in a set.
fn named(places: &[u32], set: &Set) -> Vec<u32> {
    places.iter().enumerate().filter(|(m, _)| set.has(*m)).map(|(_, place)| *place).collect()
}

/// The error of a process that the others hold for failed.
fn excluded() -> Box<MpiError> {
    let text = "the other processes hold this one for failed, since they have lost their connection with it; it has to \
                leave the job";
    MpiError::new(Class::PROC_FAILED, text)
}

impl Mpi {
    /// Ends all operations on a communicator, at all of its processes (`MPIX_Comm_revoke`). Only
    /// functions that ask for its state, [`Mpi::comm_agree`] and [`Mpi::comm_shrink`] can be used
    /// then, and it can be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_revoke(&self, comm: Comm) -> Result<()> {
        self.with(|s| {
            let State { dev, objects, .. } = s;
            let core = objects.comms.core(comm)?;
            objects.ft.check(&core)?;
            objects.ft.revoke(dev, &mut objects.comms, core.identity.name, true);
            Ok(())
        })
    }

    /// Returns the group of the processes that have failed, as far as this process knows
    /// (`MPIX_Comm_get_failed`), to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_failed(&self, comm: Comm) -> Result<Group> {
        // News since the last call count.
        self.test_until(|_, _, _| None::<Result<()>>)?;
        self.with(|s| {
            let core = s.objects.comms.core(comm)?;
            s.objects.ft.check(&core)?;
            let failed = s.dev.failed_among(core.peers().places());
            let failed: Vec<u32> = failed.iter().map(|f| f.peer.rank).collect();
            let places: Arc<[u32]> =
                core.peers().places().iter().copied().filter(|p| failed.contains(p)).collect();
            s.objects.groups.insert(places, core.session)
        })
    }

    /// Acknowledges the failures known so far, so that receives from any source wait for the other
    /// processes (`MPIX_Comm_failure_ack`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_failure_ack(&self, comm: Comm) -> Result<()> {
        self.with(|s| {
            let State { dev, objects, .. } = s;
            let core = objects.comms.core(comm)?;
            objects.ft.check(&core)?;
            objects.ft.serve(dev, &mut objects.comms);
            let [inn, _] = channels(dev, core.id, core.peers())?;
            dev.ack_failures_in(inn);
            Ok(())
        })
    }

    /// Returns the group of the processes whose failure was acknowledged
    /// (`MPIX_Comm_failure_get_acked`), to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_failure_get_acked(&self, comm: Comm) -> Result<Group> {
        self.with(|s| {
            let core = s.objects.comms.core(comm)?;
            let [inn, _] = channels(&mut s.dev, core.id, core.peers())?;
            let acknowledged = s.dev.acked_failures_in(inn);
            let places: Arc<[u32]> =
                core.peers().places().iter().copied().filter(|p| acknowledged.contains(p)).collect();
            s.objects.groups.insert(places, core.session)
        })
    }

    /// Makes an agreement of all processes of a communicator that live, which contribute words.
    ///
    /// # Errors
    /// If the others hold this process for failed.
    fn agree_on(&self, core: &CommCore, words: Vec<u64>) -> Result<Value> {
        let id = self.with(|s| {
            let State { dev, objects, .. } = s;
            objects.ft.check(core)?;
            Ok(objects.ft.begin(dev, core, words))
        })?;
        let value = self.wait_until(|_, objects, _| objects.ft.decision(id).map(Ok))?;
        if value.failed.has(members(core).1) { Err(core.raised(excluded())) } else { Ok(value) }
    }

    /// Sets `flag` to the bitwise "and" of the flags of all processes that live, the same at all of
    /// them (`MPIX_Comm_agree`). Works on a communicator that was revoked.
    ///
    /// # Errors
    /// A bad handle; a process that has failed whose failure not all have acknowledged: then the
    /// flag is set all the same, and all have this error.
    pub fn comm_agree(&self, comm: Comm, flag: &mut i32) -> Result<()> {
        let (core, acknowledged) = self.with(|s| {
            let core = s.objects.comms.core(comm)?;
            let [inn, _] = channels(&mut s.dev, core.id, core.peers())?;
            let acknowledged = s.dev.acked_failures_in(inn);
            Ok((core, acknowledged))
        })?;
        let (places, _) = members(&core);
        let mut own = Set::new(places.len());
        for member in (0..places.len()).filter(|m| acknowledged.contains(&places[*m])) {
            own.add(member);
        }
        let mut words = vec![u64::from(flag.cast_unsigned())];
        words.extend(own.0);
        let Value { words, failed } = self.agree_on(&core, words)?;
        *flag = (words[0] as u32).cast_signed();
        let acknowledged = Set(words[1..].to_vec());
        if failed.is_within(&acknowledged) {
            return Ok(());
        }
        let ranks: Vec<String> = named(&places, &failed).iter().map(u32::to_string).collect();
        let text = format!(
            "processes have failed whose failure not all have acknowledged: rank {} of the job; acknowledge it \
             (MPIX_Comm_failure_ack) or shrink the communicator",
            ranks.join(", ")
        );
        Err(core.raised(MpiError::new(Class::PROC_FAILED, text)))
    }

    /// Makes a communicator of the processes that live (`MPIX_Comm_shrink`). Works on one that was
    /// revoked.
    ///
    /// # Errors
    /// A bad handle; an intercommunicator; no context id.
    pub fn comm_shrink(&self, comm: Comm) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        loop {
            let (words, offers) = self.with(|s| Ok(s.objects.contexts.offer_rest()))?;
            let agreed = self.agree_on(&core, words);
            let id = self.with(|s| {
                let contexts = &mut s.objects.contexts;
                contexts.withdraw(offers);
                let value = agreed?;
                let id = contexts.settle(&value.words, core.size() as usize)?;
                Ok(id.map(|id| (id, value.failed)))
            })?;
            // Other agreements of some process have offered the ids that it has.
            let Some((id, failed)) = id else { continue };
            let places = core.group().places();
            let living: Vec<u32> = (0..places.len()).filter(|m| !failed.has(*m)).map(|m| places[m]).collect();
            let own = core.group().place(core.rank());
            let me = living.iter().position(|p| Some(*p) == own).ok_or_else(excluded)?;
            return self.with(|s| {
                let group = Arc::new(Ranks::new(living.into()));
                let agreed = Agreed { id, name: name_of(core.identity.name, i32::MAX, id) };
                let made = CommCore::intra(agreed, channels(&mut s.dev, id, &group)?, group, me as u32);
                s.objects.add_comm(comm, made)
            });
        }
    }
}

//! The functions of User Level Failure Mitigation, as MPICH names them.

use std::sync::Arc;

use super::agree::{Set, Value};
use super::service::members;
use crate::comm::{Agreed, CommCore, name_of};
use crate::context::channels;
use crate::error::{Class, MpiError, Result};
use crate::exchange;
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

/// Returns the words that offer ids for this process's group: those of the first group come first,
/// and any id suits the other group.
fn offer_of_both(core: &CommCore, own: Vec<u64>) -> Vec<u64> {
    if core.remote().is_none() {
        return own;
    }
    let any = vec![u64::MAX; own.len()];
    if core.is_first() { [own, any].concat() } else { [any, own].concat() }
}

/// Returns the words of this process's group, and of the other one, which is the same in an
/// intracommunicator.
fn parts<'a>(core: &CommCore, words: &'a [u64]) -> [&'a [u64]; 2] {
    if core.remote().is_none() {
        return [words, words];
    }
    let (first, second) = words.split_at(words.len() / 2);
    if core.is_first() { [first, second] } else { [second, first] }
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
            let core = objects.comms.process_core(comm)?;
            objects.ft.note_used();
            objects.ft.revoke(dev, &mut objects.comms, core.name, true);
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
            let core = s.objects.comms.process_core(comm)?;
            s.objects.ft.note_used();
            let failed = s.objects.ft.failed_of(&s.dev, core.peers().places());
            s.objects.groups.insert(failed, core.session)
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
            let core = objects.comms.process_core(comm)?;
            objects.ft.note_used();
            objects.ft.serve(dev, &mut objects.comms);
            let [inn, _] = channels(dev, core.id, core.peers())?;
            let (places, _) = members(&core);
            let failed = objects.ft.failed_of(dev, &places);
            dev.ack_failures_in(inn, failed);
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
            let core = s.objects.comms.process_core(comm)?;
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
            objects.ft.note_used();
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
            let core = s.objects.comms.process_core(comm)?;
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
        let names = self.with(|s| {
            let failed = named(&places, &failed);
            s.objects.ft.note_told(&failed);
            Ok(failed.into_iter().map(|place| exchange::named(&s.dev, place)).collect::<Vec<_>>())
        })?;
        let text = format!(
            "processes have failed whose failure not all have acknowledged: {}; acknowledge it \
             (MPIX_Comm_failure_ack) or shrink the communicator",
            names.join(", ")
        );
        Err(core.raised(MpiError::new(Class::PROC_FAILED, text)))
    }

    /// Makes a communicator of the processes that live (`MPIX_Comm_shrink`), of both groups for an
    /// intercommunicator; null if the other group has none left. Works on one that was revoked.
    ///
    /// # Errors
    /// A bad handle; no context id.
    pub fn comm_shrink(&self, comm: Comm) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.process_core(comm))?;
        let (places, _) = members(&core);
        loop {
            let (own, offers) = self.with(|s| Ok(s.objects.contexts.offer_rest()))?;
            let agreed = self.agree_on(&core, offer_of_both(&core, own));
            let settled = self.with(|s| {
                let contexts = &mut s.objects.contexts;
                contexts.withdraw(offers);
                let Value { words, failed } = agreed?;
                let failed = named(&places, &failed);
                let [own, other] = parts(&core, &words);
                let other = contexts.judge(other, places.len())?;
                // Other agreements of some process have offered the ids that it has.
                let Some(other) = other else { return Ok(None) };
                Ok(contexts.settle(own, places.len())?.map(|id| ([id, other], failed)))
            })?;
            if let Some((ids, failed)) = settled {
                return self.shrunk(comm, &core, ids, &failed);
            }
        }
    }

    /// Makes the communicator of those that have not failed, with the ids of both groups.
    fn shrunk(&self, comm: Comm, core: &CommCore, ids: [u32; 2], failed: &[u32]) -> Result<Comm> {
        let living = |ranks: &Ranks| {
            let places: Arc<[u32]> = ranks.places().iter().copied().filter(|p| !failed.contains(p)).collect();
            Arc::new(Ranks::new(places))
        };
        let group = living(core.group());
        let me = core.group().place(core.rank()).and_then(|own| group.rank(own)).ok_or_else(excluded)?;
        if let Some(remote) = core.remote() {
            let remote = living(remote);
            if remote.size() == 0 {
                self.with(|s| {
                    s.objects.contexts.release(ids[0]);
                    Ok(())
                })?;
                return Ok(Comm::NULL);
            }
            return self.make_inter(comm, core.name, ids, (group, me), remote, core.is_first());
        }
        let agreed = Agreed { id: ids[0], name: name_of(core.name, i32::MAX, ids[0]) };
        self.make(comm, agreed, group, me)
    }
}

//! Jobs that the layer above has met: how they are met and left.

use netmod_core::{DeviceError, DynamicProcesses, GroupId, Time, VcId};

use super::{Cards, Ch3, DevIo, JobName, WORLD};

impl Ch3 {
    /// Returns the number of the group that is this job.
    pub(crate) fn find_job(&self, id: &GroupId) -> Option<u32> {
        self.groups.iter().find(|(_, g)| g.job.is_some_and(|job| job.id == *id)).map(|(n, _)| n)
    }

    /// Meets a job, or learns more cards of one that it has met. Returns the number of its group.
    pub(crate) fn meet_job(
        &mut self,
        io: &mut DevIo<'_>,
        job: &JobName,
        cards: Vec<(u32, Box<[u8]>)>,
    ) -> Result<u32, DeviceError> {
        let number = match self.find_job(&job.id) {
            Some(number) => number,
            None => self.join_job(io, job)?,
        };
        if let Some(Cards::Given(known)) = self.groups.get_mut(number).map(|g| &mut g.cards) {
            for (rank, card) in cards {
                if let Some(place) = known.get_mut(rank as usize) {
                    *place = card;
                }
            }
        }
        Ok(number)
    }

    fn join_job(&mut self, io: &mut DevIo<'_>, job: &JobName) -> Result<u32, DeviceError> {
        let world = &self.groups.world;
        let Some(own) = world.job else {
            return Err(DeviceError::new("device", "this job has no name for others"));
        };
        let group = own.towards(job, world.me);
        io.netmod.join_group(&group)?;
        let cards = Cards::Given(vec![Box::default(); job.size as usize]);
        self.groups.add_job(group.id, group.me, *job, cards).ok_or_else(|| {
            io.netmod.leave_group(&group.id);
            DeviceError::new(
                "device",
                "no number is left for processes of another job; start this program anew",
            )
        })
    }

    /// Begins to leave a group: its VCs are closed, at the latest until `limit`.
    pub(crate) fn begin_to_leave(&mut self, io: &mut DevIo<'_>, number: u32, limit: Time) {
        let Some(group) = self.groups.get_mut(number).filter(|g| number != WORLD && g.leaving.is_none())
        else {
            return;
        };
        group.leaving = Some(limit);
        let vcs: Vec<VcId> = group.vcs.iter().map(|(_, vc)| vc).collect();
        for vc in vcs {
            if !self.has_nothing_to_close(io.core, vc) {
                self.vc_close(io, vc);
            }
        }
    }

    /// Leaves the groups whose VCs are closed by now, or whose time is over. Returns true if none
    /// is left to leave.
    pub(crate) fn go_on_leaving(&mut self, io: &mut DevIo<'_>) -> bool {
        let leaving: Vec<(u32, Time)> =
            self.groups.iter().filter_map(|(n, g)| Some((n, g.leaving?))).collect();
        let mut all = true;
        for (number, limit) in leaving {
            let at_rest = |vc| {
                io.core.vc(vc).is_none_or(|v| v.state.is_at_rest() || v.state.is_failed())
                    || self.has_nothing_to_close(io.core, vc)
            };
            let closed = self.groups.get(number).is_none_or(|g| g.vcs.iter().all(|(_, vc)| at_rest(vc)));
            if closed || io.now >= limit {
                self.leave(io, number);
            } else {
                all = false;
            }
        }
        all
    }
}

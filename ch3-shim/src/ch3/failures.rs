//! The failed processes that this one knows of.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use netmod_core::{GroupId, PeerName, Time, VcError, VcId};

/// A process that this one can no longer reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub peer: PeerName,
    /// The cause. Its text names the rank, the host if that is known, and what was seen.
    pub cause: VcError,
    /// True if [`crate::Vci::ack_failures`] has reported it.
    pub acknowledged: bool,
}

/// The failures of peers that no new connection has undone.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    of: BTreeMap<PeerName, Failure>,
    /// Failures that are not acknowledged.
    news: usize,
    /// Receives from any source may be unable to finish, or a message of the watched context is
    /// here.
    alarm: bool,
    /// Ranks that the process manager has reported already.
    told: BTreeSet<u32>,
    /// VCs of ranks that the process manager has reported, with the time at which each is given up.
    condemned: Vec<(Time, VcId)>,
}

impl Failures {
    /// Returns true if no process has failed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns true if a receive from any source may be unable to finish. Cheap, since every wait
    /// asks.
    #[inline]
    pub(crate) fn alarm(&self) -> bool {
        self.alarm
    }

    /// Raises the alarm if a failure is not acknowledged or there is another reason; clears it
    /// otherwise.
    pub(super) fn set_alarm(&mut self, other_reason: bool) {
        self.alarm = self.news > 0 || other_reason;
    }

    /// Raises the alarm.
    pub(super) fn raise_alarm(&mut self) {
        self.alarm = true;
    }

    /// Iterates over the failures in the order of names.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Failure> {
        self.of.values()
    }

    /// Returns the cause of a process's failure.
    pub(crate) fn cause(&self, peer: &PeerName) -> Option<&VcError> {
        self.of.get(peer).map(|f| &f.cause)
    }

    /// Returns the first failure of a group that is not acknowledged, and the number of them.
    pub(super) fn unacknowledged(&self, group: GroupId) -> Option<(&Failure, usize)> {
        let mut news = self.of.values().filter(|f| f.peer.group == group && !f.acknowledged);
        Some((news.next()?, news.count() + 1))
    }

    /// Notes a failure; the first of a process counts. Returns true if it is new.
    pub(crate) fn note(&mut self, peer: PeerName, cause: VcError) -> bool {
        let Entry::Vacant(entry) = self.of.entry(peer) else { return false };
        entry.insert(Failure { peer, cause, acknowledged: false });
        self.news += 1;
        self.alarm = true;
        true
    }

    /// Names the host of a process that failed before its card arrived.
    pub(super) fn name_host(&mut self, peer: &PeerName, host: &str) {
        if let Some(f) = self.of.get_mut(peer).filter(|f| f.cause.host().is_none()) {
            f.cause = f.cause.clone().on_host(host);
        }
    }

    /// Marks all failures as acknowledged; returns those that were not.
    pub(super) fn acknowledge(&mut self) -> Vec<Failure> {
        let mut news = Vec::new();
        for f in self.of.values_mut().filter(|f| !f.acknowledged) {
            f.acknowledged = true;
            news.push(f.clone());
        }
        self.news = 0;
        news
    }

    /// Forgets the failure of a process. Returns true if it had failed.
    pub(super) fn remove(&mut self, peer: &PeerName) -> bool {
        let removed = self.of.remove(peer);
        self.news -= usize::from(removed.as_ref().is_some_and(|f| !f.acknowledged));
        removed.is_some()
    }

    /// Forgets the failures of a group.
    pub(super) fn remove_group(&mut self, group: &GroupId) {
        self.of.retain(|peer, _| peer.group != *group);
        self.news = self.of.values().filter(|f| !f.acknowledged).count();
    }

    /// Notes that the process manager has reported a rank. Returns true if it had not before.
    pub(super) fn is_first_report(&mut self, rank: u32) -> bool {
        self.told.insert(rank)
    }

    /// Schedules a VC to be given up.
    pub(super) fn condemn(&mut self, at: Time, vc: VcId) {
        self.condemned.push((at, vc));
    }

    /// Takes a VC off the schedule.
    pub(super) fn spare(&mut self, vc: VcId) {
        self.condemned.retain(|(_, v)| *v != vc);
    }

    /// Takes the VCs that are due off the schedule.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<VcId> {
        self.condemned.extract_if(.., |(at, _)| *at <= now).map(|(_, vc)| vc).collect()
    }

    /// Returns the time at which the next VC is given up.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.condemned.iter().map(|(at, _)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use netmod_core::VcErrorKind;

    use super::*;

    fn peer(group: u8, rank: u32) -> PeerName {
        PeerName { group: GroupId([group; 16]), rank }
    }

    #[test]
    fn the_alarm_follows_the_failures_that_nobody_has_acknowledged() {
        let cause = VcError::new(VcErrorKind::Lost, None, "gone");
        let mut f = Failures::default();
        for of in [peer(1, 0), peer(1, 1), peer(2, 0)] {
            assert!(f.note(of, cause.clone()) && !f.note(of, cause.clone()));
        }
        assert_eq!(
            f.unacknowledged(GroupId([1; 16])).map(|(first, n)| (first.peer, n)),
            Some((peer(1, 0), 2))
        );
        assert!(f.remove(&peer(1, 0)) && !f.remove(&peer(1, 0)));
        f.remove_group(&GroupId([2; 16]));
        f.set_alarm(false);
        assert!(f.alarm());
        assert_eq!(f.acknowledge().len(), 1);
        f.set_alarm(false);
        assert!(!f.alarm() && !f.is_empty());
        f.set_alarm(true);
        assert!(f.alarm());
    }
}

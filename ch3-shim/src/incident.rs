//! Incidents: what happens to connections and peers, for tools that ask to be told.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Instant;

/// Incidents that are kept until they are taken. Later ones are only counted.
const KEPT: usize = 1024;

/// A kind of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentKind {
    /// The connection with a peer was lost, and what depended on it has failed.
    Lost,
    /// A lost connection goes on as another one, without loss.
    Resumed,
    /// A peer has no room for further messages: it receives more slowly than this process sends.
    Slow,
}

impl IncidentKind {
    /// All kinds.
    pub const ALL: [IncidentKind; 3] = [IncidentKind::Lost, IncidentKind::Resumed, IncidentKind::Slow];
}

/// Something that has happened to the connection with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its kind.
    pub kind: IncidentKind,
    /// The peer's rank in its group: in the job, unless it is of another one.
    pub peer: u32,
    /// Number of the netmod, in order of preference.
    pub netmod: u8,
    /// Time on the clock of [`timestamp`].
    pub at: u64,
}

/// Returns the nanoseconds since a fixed time of this process.
pub fn timestamp() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The incidents of a device. Without anybody who asks, none are kept.
#[derive(Debug, Default)]
pub(crate) struct Incidents {
    log: Option<VecDeque<Incident>>,
    /// Incidents of each kind that found no room.
    dropped: [u64; IncidentKind::ALL.len()],
}

/// Incidents that were taken, and how many of each kind found no room before.
pub type TakenIncidents = (Vec<Incident>, [u64; IncidentKind::ALL.len()]);

impl Incidents {
    /// Keeps incidents from now on, or no longer.
    pub(crate) fn watch(&mut self, on: bool) {
        match on {
            true => drop(self.log.get_or_insert_default()),
            false => *self = Incidents::default(),
        }
    }

    /// Returns true if incidents are kept.
    #[inline]
    pub(crate) fn are_watched(&self) -> bool {
        self.log.is_some()
    }

    /// Returns true if there is something to take.
    pub(crate) fn any(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_empty())
    }

    pub(crate) fn note(&mut self, kind: IncidentKind, peer: u32, netmod: u8) {
        let Some(log) = &mut self.log else { return };
        if log.len() == KEPT {
            self.dropped[kind as usize] += 1;
            return;
        }
        log.push_back(Incident { kind, peer, netmod, at: timestamp() });
    }

    /// Takes what was kept, the oldest first.
    pub(crate) fn take(&mut self) -> TakenIncidents {
        let log = self.log.as_mut().map(std::mem::take).unwrap_or_default();
        (log.into(), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_kept_if_somebody_asks_and_counted_if_there_are_too_many() {
        let mut incidents = Incidents::default();
        incidents.note(IncidentKind::Lost, 1, 0);
        assert!(!incidents.are_watched() && !incidents.any());
        assert_eq!(incidents.take(), (Vec::new(), [0; 3]));
        incidents.watch(true);
        for peer in 0..KEPT as u32 + 3 {
            incidents.note(IncidentKind::Slow, peer, 1);
        }
        let (taken, dropped) = incidents.take();
        assert_eq!((taken.len(), dropped), (KEPT, [0, 0, 3]));
        assert!(taken.iter().enumerate().all(|(n, i)| (i.peer, i.netmod) == (n as u32, 1)));
        assert!(taken.windows(2).all(|two| two[0].at <= two[1].at));
        incidents.note(IncidentKind::Resumed, 2, 0);
        let (taken, dropped) = incidents.take();
        assert_eq!((taken.len(), taken[0].kind, dropped), (1, IncidentKind::Resumed, [0; 3]));
        incidents.note(IncidentKind::Lost, 2, 0);
        incidents.watch(false);
        assert!(!incidents.any());
    }
}

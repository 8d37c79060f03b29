//! The schedule of probes: which peer, and when. No sockets, no clock.

use core::time::Duration;

use netmod_core::slab::VcKind;
use netmod_core::{SideTable, Time, VcId};

use super::Verdict;

/// Least time between two probes of this process.
pub(super) const SPACING: Duration = Duration::from_millis(50);
/// Longest pause after a probe that told nothing.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The state of a watched peer.
#[derive(Debug)]
struct Watch {
    /// The last sign of life.
    heard: Time,
    /// No probe before.
    not_before: Time,
    /// Probes in a row that told nothing.
    unknown: u32,
    /// Something is expected of it.
    owes: bool,
    /// A probe is under way.
    probing: bool,
}

/// The watched peers. Those that owe something are probed first, the others in turn.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Silence that is no cause to doubt; zero: nobody is probed.
    detect: Duration,
    watches: SideTable<Watch, VcKind>,
    /// Nobody is due before.
    next: Time,
    /// The rate's next moment.
    spaced: Time,
    /// The last one that had its turn.
    turn: usize,
}

impl Schedule {
    pub(super) fn new(detect: Duration) -> Schedule {
        Schedule {
            detect,
            watches: SideTable::new(),
            next: Time::NEVER,
            spaced: Time::ZERO,
            turn: usize::MAX,
        }
    }

    pub(super) fn watch(&mut self, vc: VcId, now: Time) {
        if !self.detect.is_zero() {
            let watch = Watch { heard: now, not_before: now, unknown: 0, owes: false, probing: false };
            self.watches.set(vc, watch);
            self.next = self.next.min(now + self.detect);
        }
    }

    pub(super) fn unwatch(&mut self, vc: VcId) {
        self.watches.clear(vc);
    }

    #[inline]
    pub(super) fn heard(&mut self, vc: VcId, now: Time) {
        if let Some(w) = self.watches.get_mut(vc) {
            w.heard = now;
        }
    }

    #[inline]
    pub(super) fn owes(&mut self, vc: VcId, owes: bool) {
        if let Some(w) = self.watches.get_mut(vc) {
            w.owes = owes;
        }
    }

    /// Returns the peer whose probe begins now.
    pub(super) fn due(&mut self, now: Time) -> Option<VcId> {
        if now < self.next || now < self.spaced {
            return None;
        }
        let detect = self.detect;
        let doubted = |w: &Watch| (w.heard + detect).max(w.not_before);
        // Peers that owe an answer come first, the most silent one before the others; the rest
        // follow in turn.
        let rank = |vc: VcId, w: &Watch| match w.owes {
            true => (0, w.heard.0),
            false => (1, (vc.index().wrapping_sub(self.turn).wrapping_sub(1)) as u64),
        };
        let idle = self.watches.iter().filter(|(_, w)| !w.probing);
        let chosen =
            idle.filter(|(_, w)| doubted(w) <= now).min_by_key(|(vc, w)| rank(*vc, w)).map(|(vc, _)| vc);
        if let Some(vc) = chosen {
            self.spaced = now + SPACING;
            if let Some(w) = self.watches.get_mut(vc) {
                w.probing = true;
                if !w.owes {
                    self.turn = vc.index();
                }
            }
        }
        self.next = self
            .watches
            .iter()
            .filter(|(_, w)| !w.probing)
            .map(|(_, w)| doubted(w))
            .min()
            .unwrap_or(Time::NEVER);
        chosen
    }

    /// Notes the outcome of a probe.
    pub(super) fn verdict(&mut self, vc: VcId, verdict: Verdict, now: Time) {
        let detect = self.detect;
        let Some(w) = self.watches.get_mut(vc) else { return };
        w.probing = false;
        w.not_before = match verdict {
            Verdict::Alive => {
                w.unknown = 0;
                now + detect
            }
            Verdict::Unknown => {
                let pause = detect.saturating_mul(1 << w.unknown.min(20)).min(PAUSE_MAX.max(detect));
                w.unknown += 1;
                now + pause
            }
            Verdict::Dead => Time::NEVER,
        };
        self.next = self.next.min((w.heard + detect).max(w.not_before));
    }

    /// Returns the time when the next probe may be due.
    pub(super) fn deadline(&self) -> Time {
        if self.next == Time::NEVER { Time::NEVER } else { self.next.max(self.spaced) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmod_core::{PeerName, Slab, Vc};

    fn vcs(n: usize) -> Vec<VcId> {
        let mut slab: Slab<Vc, VcKind> = Slab::new();
        (0..n).map(|_| slab.insert(Vc::new(PeerName::default(), 0))).collect()
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// All probes between two moments, each answered at once.
    fn probes(s: &mut Schedule, from: u64, to: u64, verdict: Verdict) -> Vec<(u64, usize)> {
        let mut seen = vec![];
        for ms in from..to {
            while let Some(vc) = s.due(at(ms)) {
                seen.push((ms, vc.index()));
                s.verdict(vc, verdict, at(ms));
            }
        }
        seen
    }

    #[test]
    fn only_the_silent_are_probed_and_not_more_often_than_needed() {
        let v = vcs(2);
        let mut s = Schedule::new(Duration::from_secs(1));
        assert_eq!(s.deadline(), Time::NEVER);
        v.iter().for_each(|vc| s.watch(*vc, at(0)));
        assert_eq!(s.deadline(), at(1000));
        s.heard(v[0], at(900));
        assert_eq!(probes(&mut s, 0, 1900, Verdict::Alive), [(1000, 1)]);
        assert_eq!(probes(&mut s, 1900, 3100, Verdict::Alive), [(1900, 0), (2000, 1), (2900, 0), (3000, 1)]);
        s.unwatch(v[0]);
        s.heard(v[1], at(3500));
        assert_eq!(probes(&mut s, 3100, 4600, Verdict::Alive), [(4500, 1)]);
        s.unwatch(v[1]);
        assert_eq!(probes(&mut s, 4600, 9000, Verdict::Alive), []);
        assert_eq!(s.deadline(), Time::NEVER);
    }

    #[test]
    fn who_owes_comes_first_and_the_others_in_turn() {
        let v = vcs(100);
        let mut s = Schedule::new(Duration::from_secs(1));
        v.iter().for_each(|vc| s.watch(*vc, at(0)));
        for (i, heard) in [(70, 10), (60, 5)] {
            s.owes(v[i], true);
            s.heard(v[i], at(heard));
        }
        let seen = probes(&mut s, 0, 3_000, Verdict::Alive);
        // Only after a second of silence those two are doubted; the rest has begun by then.
        assert_eq!(seen[0], (1000, 0));
        assert_eq!(seen[1..3], [(1050, 60), (1100, 70)]);
        assert_eq!(seen[3..6], [(1150, 1), (1200, 2), (1250, 3)]);
        // They owe still, and are asked again as soon as they are doubted again.
        assert!(seen.contains(&(2050, 60)) && seen.contains(&(2100, 70)));
        assert_eq!(seen.len(), 40, "at most 20 in a second");
        let all: std::collections::HashSet<usize> =
            probes(&mut s, 3_000, 8_500, Verdict::Alive).into_iter().chain(seen).map(|p| p.1).collect();
        assert_eq!(all.len(), 100, "everybody has a turn");
    }

    #[test]
    fn a_probe_at_a_time_for_each_and_longer_pauses_when_nothing_is_told() {
        let v = vcs(1);
        let mut s = Schedule::new(Duration::from_secs(1));
        s.watch(v[0], at(0));
        assert_eq!(s.due(at(1000)), Some(v[0]));
        assert_eq!((s.due(at(9000)), s.deadline()), (None, Time::NEVER));
        s.verdict(v[0], Verdict::Unknown, at(4000));
        let seen: Vec<u64> =
            probes(&mut s, 4000, 300_000, Verdict::Unknown).into_iter().map(|p| p.0 / 1000).collect();
        assert_eq!(seen, [5, 7, 11, 19, 35, 67, 127, 187, 247]);
        // The dead are asked no more.
        s.heard(v[0], at(300_000));
        assert_eq!(probes(&mut s, 300_000, 320_000, Verdict::Dead).len(), 1);
        assert_eq!(s.due(at(900_000)), None);
        // Zero: nobody is watched.
        let mut s = Schedule::new(Duration::ZERO);
        s.watch(v[0], at(0));
        assert_eq!((s.due(at(900_000)), s.deadline()), (None, Time::NEVER));
    }
}

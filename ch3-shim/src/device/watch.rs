//! Watching the processes that something waits for, connected or not.
//!
//! A connection tells of its peer's end, and the process manager of a rank's. A receive or probe
//! may wait for a process of which neither tells: one of another job, or of a job whose launcher
//! does not say, that has not sent anything yet. Its netmod is asked to watch it
//! ([`netmod_core::VcLife::watch_peer`]), about once a second.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use netmod_core::{PeerName, Time, VcLife};

use super::Vci;
use crate::ch3::{Cards, WORLD};
use crate::tagmatch::{ANY_SOURCE, Pattern};

/// Interval at which netmods are asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most processes that they are asked to watch at once; the others follow in turn.
const BATCH: usize = 256;

/// The peers that are watched, and the time of the next look.
#[derive(Debug)]
pub(super) struct Watching {
    next: Time,
    /// The group and rank that were last.
    last: (u32, u32),
    /// Pattern of the last empty probe, which may block or come again.
    sought: Option<Pattern>,
}

impl Watching {
    /// Nobody is watched before the first interval is over.
    pub(super) fn new() -> Watching {
        Watching { next: Time::ZERO, last: (WORLD, 0), sought: None }
    }

    /// A probe has found nothing.
    pub(super) fn seeks(&mut self, pattern: Pattern) {
        self.sought = Some(pattern);
    }

    /// A probe has found what it looked for.
    #[inline]
    pub(super) fn found(&mut self) {
        self.sought = None;
    }
}

impl Vci {
    /// Returns the time at which peers are to be watched; never if the process manager tells of all
    /// of them.
    pub(super) fn watch_deadline(&self) -> Time {
        let world = self.asking.is_mute() && self.size() > 1;
        let any = !self.ch3.closing.finalizing && (world || self.ch3.groups.iter().nth(1).is_some());
        if any { self.watching.next } else { Time::NEVER }
    }

    /// Has those watched that something waits for.
    #[cold]
    pub(super) fn watch_awaited(&mut self) {
        let now = self.now;
        if self.watch_deadline() > now {
            return;
        }
        let first = self.watching.next == Time::ZERO;
        self.watching.next = now + INTERVAL;
        let awaited = self.awaited();
        if first || awaited.is_empty() {
            return;
        }
        let last = self.watching.last;
        let from = (Excluded(last), Unbounded);
        let order = awaited.range(from).chain(awaited.range(..=last)).copied().take(BATCH);
        for (group, rank) in order {
            let mut io = self.engine.io(now);
            // A process whose card is of no use is reported to whoever sends to it; one whose card
            // is not here is watched when that has come.
            let Some(vc) = self.ch3.vc_to_watch(&mut io, group, rank) else { continue };
            if !io.netmod.watch_peer(io.core, vc, now) {
                break;
            }
            self.watching.last = (group, rank);
        }
    }

    /// The processes, by group and rank, that a receive or probe waits for and of whose end nobody
    /// else tells.
    fn awaited(&self) -> BTreeSet<(u32, u32)> {
        let groups = &self.ch3.groups;
        let told = !self.asking.is_mute();
        let mut specific: BTreeSet<(u32, u32)> = BTreeSet::new();
        let mut whole: BTreeSet<u32> = BTreeSet::new();
        let mut last = None;
        let mut waits_for = |p: &Pattern| {
            // Receives from one source often follow each other.
            if last.replace((p.context(), p.source())) == Some((p.context(), p.source())) {
                return false;
            }
            if p.source() == ANY_SOURCE {
                whole.extend(groups.senders(p.context()).map(|(n, _)| n));
            } else if let Some((n, g)) = groups.iter().find(|(_, g)| g.owns(p.context(), p.source())) {
                specific.insert((n, g.rank_of(p.context(), p.source())));
            }
            false
        };
        self.ch3.queues.posted.any(&mut waits_for);
        if let Some(p) = &self.watching.sought {
            waits_for(p);
        }
        for n in whole {
            specific.extend((0..groups.get(n).map_or(0, |g| g.size)).map(|rank| (n, rank)));
        }
        specific.retain(|(n, rank)| {
            groups.get(*n).is_some_and(|g| {
                let own = *n == WORLD && (told || *rank == g.me);
                let peer = PeerName { group: g.id, rank: *rank };
                !own && !matches!(g.cards, Cards::Unknown) && self.ch3.failures.cause(&peer).is_none()
            })
        });
        specific
    }
}

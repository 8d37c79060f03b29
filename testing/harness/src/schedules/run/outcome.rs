//! Checks of a schedule's results, after each step and at the end.

use std::collections::VecDeque;
use std::time::Duration;

use netmod_core::{Diagnose, Finalize, Module, Outcome};

use super::{MINE, Run};
use crate::schedules::rank::Rank;
use crate::schedules::seen::Seen;
use crate::schedules::world::World;

/// Simulated time limit for everything that has begun to end.
const SETTLE: Duration = Duration::from_secs(120);

impl<W: World> Run<W> {
    /// Collects ended operations.
    pub(super) fn look(&mut self) {
        for from in self.live() {
            for to in 0..self.ranks.len() {
                let flow = &mut self.flows[from][to];
                let rank = self.ranks[from].as_mut().expect("a rank that lives");
                let core = &mut rank.engine.core;
                let mut early = None;
                let mut kept = VecDeque::new();
                for p in std::mem::take(&mut flow.pending) {
                    if !core.is_finished(p.req) {
                        // Requests whose owner has not been notified yet block nobody.
                        if !rank.layer.told.contains(&p.req) {
                            early.get_or_insert(p.number);
                        }
                        kept.push_back(p);
                        continue;
                    }
                    rank.layer.told.remove(&p.req);
                    match core.take(p.req) {
                        Some(Outcome::Done) => {
                            assert_eq!(early, None, "{} from {from} to {to} has ended before it", p.number);
                        }
                        Some(Outcome::Failed(e)) => {
                            let downs = !rank.layer.peers[to].downs.is_empty();
                            let hurt = self.plan.fails || self.hurt.contains(&(from.min(to), from.max(to)));
                            assert!(hurt || downs, "message {} from {from} to {to}: {e}", p.number);
                        }
                        other => panic!("message {} from {from} to {to}: {other:?}", p.number),
                    }
                    p.areas.iter().for_each(|a| a.fill(MINE));
                }
                flow.pending = kept;
            }
        }
        let (fails, hurt) = (self.plan.fails, &self.hurt);
        let may_fail = |a: usize, b: usize| fails || hurt.contains(&(a.min(b), a.max(b)));
        self.transfers.look(&mut self.ranks, &mut self.rng, may_fail);
        for me in self.live() {
            let peers = &self.rank(me).layer.peers;
            let down: Vec<usize> = (0..peers.len()).filter(|p| !peers[*p].downs.is_empty()).collect();
            for peer in down {
                let may = self.may_go_down(me, peer);
                let downs =
                    |of: usize, with: usize| self.ranks[of].as_ref().map(|r| &r.layer.peers[with].downs);
                let (here, there) = (downs(me, peer), downs(peer, me));
                assert!(may, "{me} to {peer}: {here:?}; the other way: {there:?}");
            }
        }
    }

    /// Describes the unfinished operations, one per line.
    fn open_ends(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.transfers.under_way() > 0 {
            out.push(format!("{} transfers", self.transfers.under_way()));
        }
        for from in self.live() {
            let r = self.ranks[from].as_ref().expect("a rank that lives");
            for (to, peer) in r.layer.peers.iter().enumerate().filter(|(_, p)| p.vc.is_some()) {
                let flow = &self.flows[from][to];
                let says = r.engine.netmod.describe(&r.engine.core, r.vc(to));
                let mut what = Vec::new();
                if !flow.pending.is_empty() {
                    what.push(format!("{} sends", flow.pending.len()));
                }
                if peer.terminating {
                    what.push("an end".into());
                }
                match &self.ranks[to] {
                    Some(other) => {
                        let got = &other.layer.peers[from].got;
                        let lossless = peer.downs.is_empty() && other.layer.peers[from].downs.is_empty();
                        if lossless && *got != flow.sent {
                            what.push(format!("{got:?} of {:?} came", flow.sent));
                        }
                    }
                    None if !peer.down && !says.starts_with("no connection") => what.push("death".into()),
                    None => {}
                }
                if !what.is_empty() {
                    out.push(format!("{from} to {to}: {}; {says}", what.join(", ")));
                }
            }
            // A receive that has begun ends with its message or its VC.
            let receives = r.layer.open_receives(&r.engine.core);
            if receives > 0 {
                out.push(format!("{receives} receives of {from}"));
            }
        }
        out
    }

    /// Makes progress until everything that has begun has ended.
    pub(super) fn settle(&mut self, what: &str) {
        let end = self.now + SETTLE;
        let mut rounds = 0;
        loop {
            self.look();
            let open = self.open_ends();
            if open.is_empty() {
                return;
            }
            assert!(
                self.now < end,
                "not so in time, {what}: {open:#?}\n{:#?}",
                self.world.violations(usize::MAX)
            );
            let mut live = self.live();
            while !live.is_empty() {
                let at = self.rng.below(live.len() as u64) as usize;
                self.poll(live.swap_remove(at));
            }
            rounds += 1;
            if rounds > 300 {
                self.now = self.now + Duration::from_millis(20);
            }
        }
    }

    /// Revives disturbed VCs, and checks that messages sent on them arrive.
    pub(super) fn mend(&mut self) {
        if self.plan.fails {
            // It could fail again at any time.
            return;
        }
        for (a, b) in self.hurt.clone() {
            if self.ranks[a].is_none() || self.ranks[b].is_none() {
                continue;
            }
            // An ending in transit may take it down once more.
            let mended = (0..6).any(|_| {
                let mut came = true;
                self.revive(a, b);
                self.revive(b, a);
                for (from, to) in [(a, b), (b, a)] {
                    let before = self.flows[from][to].sent.len();
                    self.send(from, to);
                    came &= self.flows[from][to].sent.len() > before;
                }
                self.settle("what was sent after a revival has ended");
                for round in 0..200 {
                    self.poll(a);
                    self.poll(b);
                    if round > 100 {
                        // Messages lost by the network are retransmitted after a while.
                        self.now = self.now + Duration::from_millis(10);
                    }
                }
                self.look();
                for (from, to) in [(a, b), (b, a)] {
                    let last = self.flows[from][to].sent.last().copied();
                    came &= self.rank(to).layer.peers[from].got.last().copied() == last;
                }
                came
            });
            let downs = [(a, b), (b, a)].map(|(x, y)| self.rank(x).layer.peers[y].downs.clone());
            assert!(mended, "{a} and {b} do not find together again: {downs:#?}");
        }
    }

    /// Checks the final results.
    pub(super) fn end(mut self) -> Seen {
        for from in 0..self.ranks.len() {
            for to in self.live() {
                let got = &self.ranks[to].as_ref().expect("a rank that lives").layer.peers[from].got;
                let flow = &self.flows[from][to];
                let known = got.iter().all(|n| flow.sent.contains(n));
                assert!(known, "{from} to {to}: {got:?} of {:?}, without {:?}", flow.sent, flow.cancelled);
                self.seen.messages += got.len();
            }
        }
        let downs = |r: &Rank<W::Device>| r.layer.peers.iter().map(|p| p.downs.len()).sum::<usize>();
        self.seen.downs = self.ranks.iter().flatten().map(downs).sum();
        self.finalize();
        for rank in self.ranks.iter_mut().flat_map(Option::take) {
            let stats = rank.engine.netmod.stats();
            self.seen.refused += stats.refused;
            self.seen.full += stats.full;
            self.seen.injected += stats.injected;
            self.lent.extend(rank.layer.lent);
            drop(rank.engine);
        }
        self.transfers.end();
        let t = &self.transfers;
        (self.seen.puts, self.seen.gets) = (t.puts, t.gets);
        (self.seen.failed, self.seen.early) = (t.failed, t.early);
        let violations = self.world.violations(t.early);
        assert!(violations.is_empty(), "{violations:#?}");
        // Lent memory is dropped last.
        let Run { world, seen, .. } = self;
        let left = world.close();
        assert_eq!(left, None);
        seen
    }

    /// Finalizes all ranks, one after another.
    fn finalize(&mut self) {
        let end = self.now + Duration::from_secs(10);
        let mut waits = self.live();
        while !waits.is_empty() {
            assert!(self.now < end, "{waits:?} do not come to their end");
            let at = self.rng.below(waits.len() as u64) as usize;
            let rank = waits[at];
            self.poll(rank);
            self.now = self.now + Duration::from_millis(2);
            let now = self.now;
            let Rank { engine: e, layer } = self.rank(rank);
            layer.ending = true;
            if e.netmod.finalize(&mut e.core, now) == Finalize::Done {
                waits.swap_remove(at);
            }
        }
    }
}

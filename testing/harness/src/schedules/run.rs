//! Runs a schedule: the order of its events.

mod outcome;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use netmod_core::{
    Card, CardWriter, Core, Diagnose, Engine, GroupId, Module, Netmod, OnDone, PeerName, PollOrder, Pollers,
    ReqId, Request, Segment, Sent, Time, Vc, VcError, VcErrorKind, VcLife,
};

use crate::rng::Rng;
use crate::schedules::data::{pattern, seeded, shape};
use crate::schedules::layer::{Layer, header, seed_of};
use crate::schedules::memory::{Area, Pieces};
use crate::schedules::rank::Rank;
use crate::schedules::seen::Seen;
use crate::schedules::transfers::Transfers;
use crate::schedules::world::{Plan, World};

/// Byte that an owner writes into memory that it has got back.
const MINE: u8 = 0xEE;

/// A send that has not ended.
struct Pending {
    number: u32,
    req: ReqId,
    areas: Vec<Area>,
}

/// Messages from one rank to another.
#[derive(Default)]
struct Flow {
    sent: Vec<u32>,
    cancelled: BTreeSet<u32>,
    pending: VecDeque<Pending>,
}

/// A schedule. Fields are in order of destruction: lent memory last.
pub struct Run<W: World> {
    plan: Plan,
    rng: Rng,
    now: Time,
    /// The ranks; `None` after a rank was killed.
    ranks: Vec<Option<Rank<W::Device>>>,
    world: W,
    /// Messages by sender and receiver.
    flows: Vec<Vec<Flow>>,
    /// Pairs of ranks whose VCs may go down, because something has disturbed them.
    hurt: BTreeSet<(usize, usize)>,
    transfers: Transfers,
    seen: Seen,
    lent: Vec<Area>,
}

impl<W: World> Run<W> {
    /// Runs the whole schedule.
    pub fn of(world: W, plan: Plan, seed: u64) -> Seen {
        let mut run = Run::new(world, plan, seed);
        run.act();
        run.settle("everything has ended");
        run.mend();
        run.end()
    }

    fn new(mut world: W, plan: Plan, seed: u64) -> Run<W> {
        let n = plan.ranks;
        let name = |rank: usize| PeerName { group: GroupId([7; 16]), rank: rank as u32 };
        let mut rng = seeded(seed ^ 0xABCD);
        let mut ranks: Vec<Rank<W::Device>> = (0..n)
            .map(|me| {
                let mut netmod = world.netmod(me, name(me), n as u32);
                assert_eq!(netmod.failure(), None, "{plan:?}");
                netmod.join_job([9; 32], Pollers::UNKNOWN).expect("a job key is taken");
                let layer = Layer::new(me, n, seed * 8 + me as u64);
                Rank { engine: Engine::new(netmod, Core::new(16)), layer }
            })
            .collect();
        let cards: Vec<Card> = ranks
            .iter()
            .map(|r| {
                let mut card = CardWriter::new();
                r.engine.netmod.business_card(&mut card).expect("a section of the card");
                Card::parse(&card.finish()).expect("a card")
            })
            .collect();
        for (me, Rank { engine: e, layer }) in ranks.iter_mut().enumerate() {
            for peer in (0..n).filter(|p| *p != me) {
                e.netmod.reachable(&cards[peer]).expect("a peer in reach");
                let vc = e.core.add_vc(Vc::new(name(peer), 0));
                layer.peers[peer].vc = Some(vc);
                layer.peers[peer].card = Some(cards[peer].clone());
                let card = (!rng.one_in(3)).then_some(&cards[peer]);
                e.netmod.vc_init(&mut e.core, vc, name(peer), card).expect("vc_init");
            }
        }
        Run {
            plan,
            rng,
            now: Time::ZERO,
            ranks: ranks.into_iter().map(Some).collect(),
            world,
            flows: (0..n).map(|_| (0..n).map(|_| Flow::default()).collect()).collect(),
            hurt: BTreeSet::new(),
            transfers: Transfers::default(),
            seen: Seen::default(),
            lent: Vec::new(),
        }
    }

    fn live(&self) -> Vec<usize> {
        (0..self.ranks.len()).filter(|r| self.ranks[*r].is_some()).collect()
    }

    fn hurt(&mut self, a: usize, b: usize) {
        self.hurt.insert((a.min(b), a.max(b)));
    }

    fn may_go_down(&self, a: usize, b: usize) -> bool {
        self.plan.fails || self.hurt.contains(&(a.min(b), a.max(b)))
    }

    fn poll(&mut self, rank: usize) {
        self.now = self.now + Duration::from_micros(5 + self.rng.below(100));
        let order = if self.rng.one_in(2) { PollOrder::InFirst } else { PollOrder::OutFirst };
        self.world.advance(self.now);
        let Some(r) = &mut self.ranks[rank] else { return };
        r.engine.progress(&mut r.layer, order, self.now).expect("progress");
    }

    /// Runs the steps in which new operations begin.
    fn act(&mut self) {
        let plan = self.plan;
        let kill_at = plan.kills.then(|| self.rng.below(plan.steps as u64) as usize);
        // The rank that is not polled, and until when.
        let (mut asleep, mut until) = (usize::MAX, 0);
        for step in 0..plan.steps {
            if kill_at == Some(step) {
                self.kill();
            }
            if step >= until {
                asleep = usize::MAX;
                if self.rng.one_in(40) {
                    let live = self.live();
                    asleep = self.rng.pick(&live);
                    until = step + 1 + self.rng.below(60) as usize;
                }
            }
            for _ in 0..self.rng.below(4) {
                let live = self.live();
                let rank = self.rng.pick(&live);
                if rank != asleep {
                    self.poll(rank);
                }
            }
            let live = self.live();
            if live.len() < 2 {
                continue;
            }
            let from = self.rng.pick(&live);
            let others: Vec<usize> = live.into_iter().filter(|r| *r != from).collect();
            let to = self.rng.pick(&others);
            self.step(from, to);
            self.look();
        }
    }

    /// Begins an operation between two live ranks.
    fn step(&mut self, from: usize, to: usize) {
        let plan = self.plan;
        match self.rng.below(20) {
            0..=6 => self.send(from, to),
            7..=8
                if plan.transfers
                    && self.transfers.under_way() < 6
                    && self.rank(from).is_free(to)
                    && self.rank(to).is_free(from) =>
            {
                self.transfers.begin(&mut self.ranks, &mut self.rng, from, to, plan.longest);
            }
            9 if plan.early => {
                // The completion of one's own transfers may depend on the peer, which is not polled
                // meanwhile.
                let local = self.world.gives_back_alone();
                let of = self.transfers.take_back(&mut self.ranks, &mut self.rng, local);
                if let Some((a, b)) = of.filter(|_| W::EARLY_HURTS) {
                    self.hurt(a, b);
                }
            }
            10 => self.cancel(from, to),
            11 if plan.terminates => self.terminate(from, to),
            12 if plan.aborts && self.rng.one_in(4) => self.abort(from, to),
            13 => self.revive(from, to),
            _ => {}
        }
    }

    fn rank(&mut self, rank: usize) -> &mut Rank<W::Device> {
        self.ranks[rank].as_mut().expect("a rank that lives")
    }

    fn send(&mut self, from: usize, to: usize) {
        let rank = self.rank(from);
        if rank.layer.peers[to].terminating {
            return;
        }
        let down = rank.layer.peers[to].down;
        if self.rank(to).layer.peers[from].terminating {
            // Its peer may be in the middle of this message.
            self.hurt(from, to);
        }
        let longest = self.plan.longest;
        let most = self.rng.pick(&[1, 20, 200, longest]) as u64;
        let len = self.rng.below(most) as usize;
        let flow = &mut self.flows[from][to];
        let number = (flow.sent.len() + flow.cancelled.len()) as u32;
        let hdr = header(from, number, len);
        let data = pattern(seed_of(from, to, number), len);
        let way = self.rng.below(3);
        let (piece, gap) = shape(&mut self.rng);
        let rank = self.ranks[from].as_mut().expect("a rank that lives");
        let vc = rank.vc(to);
        let Engine { core, netmod, .. } = &mut rank.engine;
        // Its peer may have connected, which is not reported yet.
        let down = down && netmod.describe(core, vc).starts_with("down:");
        let mut areas = Vec::new();
        let sent: Result<Option<ReqId>, VcError> = match way {
            0 => {
                let area = Area::new(data);
                areas.push(area.clone());
                netmod.i_start_contig_msg(core, vc, &hdr, area.send_buf())
            }
            1 => {
                let area = Area::new(data);
                areas.push(area.clone());
                let req = core.add_req(Request::new(Some(vc), Segment::empty()));
                let sent = netmod.i_send_contig(core, vc, req, &hdr, area.send_buf());
                if !matches!(sent, Ok(Sent::Queued)) {
                    core.remove_req(req);
                }
                sent.map(|s| (s == Sent::Queued).then_some(req))
            }
            _ => {
                // Possibly with gaps; its owner waits for the completion.
                let pieces = Pieces::with(&data, piece, gap);
                areas.push(pieces.area().clone());
                let mut request = Request::new(Some(vc), pieces.segment());
                request.on_done = OnDone::Upper;
                let req = core.add_req(request);
                rank.layer.told.insert(req);
                match netmod.send_noncontig(core, vc, req, &hdr) {
                    Ok(Sent::Queued) => Ok(Some(req)),
                    Ok(Sent::Done) => Ok(None),
                    Err(e) => {
                        core.remove_req(req);
                        rank.layer.told.remove(&req);
                        Err(e)
                    }
                }
            }
        };
        self.lent.extend(areas.iter().cloned());
        let flow = &mut self.flows[from][to];
        match sent {
            Ok(_) if down => panic!("a send on a VC that is down"),
            Ok(None) => {
                // The sender owns it again.
                areas.iter().for_each(|a| a.fill(MINE));
                flow.sent.push(number);
            }
            Ok(Some(req)) => {
                flow.pending.push_back(Pending { number, req, areas });
                flow.sent.push(number);
            }
            Err(e) => assert!(down || self.may_go_down(from, to), "{from} to {to}: {e}"),
        }
    }

    fn cancel(&mut self, from: usize, to: usize) {
        let flow = &mut self.flows[from][to];
        if flow.pending.is_empty() {
            return;
        }
        let at = self.rng.below(flow.pending.len() as u64) as usize;
        let (req, number) = (flow.pending[at].req, flow.pending[at].number);
        let rank = self.ranks[from].as_mut().expect("a rank that lives");
        let vc = rank.vc(to);
        let e = &mut rank.engine;
        if e.core.is_finished(req) || !e.netmod.cancel_send(&mut e.core, vc, req) {
            return;
        }
        assert!(!e.core.is_finished(req), "a request that was taken back is its owner's");
        e.core.remove_req(req);
        rank.layer.told.remove(&req);
        let taken = flow.pending.remove(at).expect("a send that waits");
        taken.areas.iter().for_each(|a| a.fill(MINE));
        flow.sent.retain(|n| *n != number);
        flow.cancelled.insert(number);
        self.seen.cancelled += 1;
    }

    /// Returns true if nothing is in flight between two ranks.
    fn is_idle(&self, a: usize, b: usize) -> bool {
        let whole = |from: usize, to: usize| {
            let flow = &self.flows[from][to];
            let got = self.ranks[to].as_ref().map(|r| &r.layer.peers[from].got);
            flow.pending.is_empty() && got == Some(&flow.sent)
        };
        whole(a, b) && whole(b, a) && self.transfers.between(a, b) == 0
    }

    fn terminate(&mut self, from: usize, to: usize) {
        let own = self.transfers.between(from, to) > 0;
        if own || self.rank(from).layer.peers[to].terminating {
            return;
        }
        let idle = self.is_idle(from, to) && self.rank(to).is_free(from);
        if !idle {
            if !self.rng.one_in(4) {
                return;
            }
            self.hurt(from, to);
        }
        let both = idle && self.rng.one_in(2);
        let now = self.now;
        for (a, b) in [(from, to), (to, from)].into_iter().take(1 + usize::from(both)) {
            let rank = self.rank(a);
            let vc = rank.vc(b);
            (rank.layer.peers[b].terminating, rank.layer.peers[b].asked) = (true, true);
            rank.layer.peers[b].down = false;
            let e = &mut rank.engine;
            e.netmod.vc_terminate(&mut e.core, vc, now);
            self.seen.terminated += 1;
        }
    }

    fn abort(&mut self, from: usize, to: usize) {
        self.hurt(from, to);
        let rank = self.rank(from);
        let vc = rank.vc(to);
        let e = &mut rank.engine;
        let why = VcError::new(VcErrorKind::Aborted, None, "a schedule gives it up");
        e.netmod.vc_abort(&mut e.core, vc, why);
        self.seen.aborted += 1;
    }

    /// Revives a VC that is down.
    fn revive(&mut self, from: usize, to: usize) {
        let with_card = self.rng.one_in(2);
        let rank = self.rank(from);
        if !rank.layer.peers[to].down {
            return;
        }
        let vc = rank.vc(to);
        let card = rank.layer.peers[to].card.clone().filter(|_| with_card);
        let e = &mut rank.engine;
        e.netmod.vc_revive(&mut e.core, vc, card.as_ref()).expect("a good card");
        rank.layer.peers[to].down = false;
        self.seen.revived += 1;
    }

    /// Kills a process: first in the network, then in the kernel.
    fn kill(&mut self) {
        let live = self.live();
        let dead = self.rng.pick(&live);
        for other in live {
            self.hurt(dead, other);
        }
        self.world.kill(dead);
        let Some(rank) = self.ranks[dead].take() else { return };
        self.lent.extend(rank.layer.lent);
        drop(rank.engine);
        for other in 0..self.ranks.len() {
            self.flows[dead][other].pending.clear();
        }
        self.seen.killed += 1;
    }
}

//! Any number of netmods over simulated devices in one thread, in simulated time: one device per
//! node, and a VC between each two ranks of different nodes. Messages are numbered, and each is
//! checked when it arrives.

#![allow(dead_code, missing_docs)]

use std::collections::HashMap;
use std::time::Duration;

use netmod_core::{
    Card, CardWriter, Core, DataAvail, Diagnose, Engine, Event, Finalize, GroupId, Header, Io, Module,
    Netmod, OnDone, Outcome, PacketFault, PeerName, PollOrder, Pollers, ReqId, Request, RxBytes, Time, Upper,
    Vc, VcError, VcId, VcLife,
};
use netmod_harness::schedules::memory::{Area, Pieces};
use netmod_sim_hca::{Counts, DeviceId, DeviceSettings, Fabric, Leaks, Settings};
use netmod_sim_verbs::{Only, Opened, SimVerbs};
use netmod_verbs::VerbsConfig;

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Setting {
    pub nodes: usize,
    pub per_node: usize,
    pub cfg: VerbsConfig,
    pub fabric: Settings,
    pub device: DeviceSettings,
    /// Ranks that do not request XRC.
    pub without_xrc: Vec<usize>,
}

impl Setting {
    pub fn new(nodes: usize, per_node: usize) -> Setting {
        let cfg = netmod_verbs::VerbsConfig {
            detect: Duration::from_secs(1),
            ..netmod_verbs::VerbsConfig::default()
        };
        let (fabric, device) = (Settings::default(), DeviceSettings::new("sim0"));
        Setting { nodes, per_node, cfg, fabric, device, without_xrc: Vec::new() }
    }

    pub fn ranks(&self) -> usize {
        self.nodes * self.per_node
    }
}

pub fn header(from: usize, number: u32, len: usize) -> Header {
    let mut h = [0; 32];
    h[0] = 1;
    h[1] = from as u8;
    h[4..8].copy_from_slice(&number.to_le_bytes());
    h[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    h
}

/// Returns the bytes of a message, given its number.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 ^ seed).wrapping_mul(0x9E37_79B1).to_le_bytes()[2]).collect()
}

/// A layer that takes each message whole, and checks its order and bytes.
#[derive(Debug, Default)]
pub struct Layer {
    /// Number of received messages, by sender.
    pub got: Vec<u32>,
    /// Peer of each VC.
    peers: HashMap<VcId, usize>,
    cards: Vec<Card>,
    under_way: HashMap<ReqId, (usize, u32, Pieces)>,
    pub downs: Vec<(usize, VcError)>,
    /// Number of terminated VCs.
    pub terminated: usize,
    pub ended: HashMap<u64, Result<(), VcError>>,
    kept: Vec<Area>,
}

impl Layer {
    fn whole(&mut self, req: ReqId) {
        let (from, number, pieces) = self.under_way.remove(&req).expect("a receive under way");
        let data = pieces.data();
        assert_eq!(number, self.got[from], "the next message of rank {from}");
        assert!(data == pattern(number, data.len()), "message {number} of rank {from}");
        self.got[from] += 1;
    }
}

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl<N: Netmod> Upper<N> for Layer {
    fn packet(
        &mut self,
        io: &mut Io<'_, N>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let from = usize::from(hdr[1]);
        assert_eq!(self.peers.get(&vc), Some(&from), "a message by another's VC");
        let number = u32::from_le_bytes(hdr[4..8].try_into().expect("four bytes"));
        let len = u64::from_le_bytes(hdr[8..16].try_into().expect("eight bytes")) as usize;
        let pieces = Pieces::new(len, len, 0);
        self.kept.push(pieces.area().clone());
        let mut request = Request::new(Some(vc), pieces.segment());
        request.on_done = OnDone::Upper;
        let req = io.core.add_req(request);
        self.under_way.insert(req, (from, number, pieces));
        let r = io.core.req_mut(req).expect("a live request");
        let used = r.seg.unpack(rest);
        if r.seg.is_done() {
            self.whole(req);
            self.kept.pop();
            io.core.finish(req, Outcome::Done);
            io.core.take(req);
        } else {
            io.core.set_recv_active(vc, req);
        }
        Ok(used)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, N>, _: VcId, req: ReqId) -> DataAvail {
        self.whole(req);
        DataAvail::Complete
    }

    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event) {
        match event {
            Event::NeedCard { vc } => {
                let card = &self.cards[self.peers[&vc]];
                io.netmod.set_card(io.core, vc, Ok(card));
            }
            Event::Terminated { .. } => self.terminated += 1,
            Event::Down { vc, error } => self.downs.push((self.peers[&vc], error)),
            Event::RmaDone { op, result, .. } => {
                assert!(self.ended.insert(op, result).is_none(), "transfer {op} has ended twice");
            }
            _ => {}
        }
    }
}

/// A process.
pub struct Rank {
    pub engine: Engine<SimVerbs>,
    pub layer: Layer,
    /// VC with each peer.
    pub vcs: Vec<Option<VcId>>,
    opened: Opened,
    /// Number of messages sent to each peer.
    pub sent: Vec<u32>,
    /// True if it has been killed.
    dead: bool,
}

/// The netmods, their devices and simulated time.
pub struct World {
    pub fabric: Fabric,
    /// Device of each node.
    pub devices: Vec<DeviceId>,
    pub ranks: Vec<Rank>,
    pub now: Time,
    /// Time between two turns.
    pub step: Duration,
    lent: Vec<Area>,
}

fn name(rank: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: rank as u32 }
}

impl World {
    /// Makes a world. Ranks that cannot open their device have no VCs.
    pub fn new(setting: &Setting) -> World {
        World::prepared(setting, |_| {})
    }

    /// Makes a world after `prepare` has changed the fabric.
    pub fn prepared(setting: &Setting, prepare: impl FnOnce(&Fabric)) -> World {
        let fabric = Fabric::new(setting.fabric.clone());
        let devices: Vec<DeviceId> =
            (0..setting.nodes).map(|_| fabric.device(setting.device.clone())).collect();
        prepare(&fabric);
        let n = setting.ranks();
        let mut ranks: Vec<Rank> = (0..n)
            .map(|me| {
                let opened = Opened::default();
                let device = devices[me / setting.per_node];
                let source = Only { fabric: fabric.clone(), device, opened: opened.clone() };
                let mut cfg = setting.cfg.clone();
                cfg.xrc &= !setting.without_xrc.contains(&me);
                let mut netmod = netmod_sim_verbs::netmod(cfg, source, name(me), n as u32);
                netmod.join_job([9; 32], Pollers::UNKNOWN).expect("a job key is taken");
                let layer = Layer { got: vec![0; n], ..Layer::default() };
                let engine = Engine::new(netmod, Core::new(16));
                Rank { engine, layer, vcs: vec![None; n], opened, sent: vec![0; n], dead: false }
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
        for (me, r) in ranks.iter_mut().enumerate() {
            r.layer.cards.clone_from(&cards);
            let e = &mut r.engine;
            for peer in (0..n).filter(|p| p / setting.per_node != me / setting.per_node) {
                if e.netmod.reachable(&cards[peer]).is_err() {
                    continue;
                }
                let vc = e.core.add_vc(Vc::new(name(peer), 0));
                e.netmod.vc_init(&mut e.core, vc, name(peer), Some(&cards[peer])).expect("vc_init");
                r.layer.peers.insert(vc, peer);
                r.vcs[peer] = Some(vc);
            }
        }
        let step = Duration::from_micros(20);
        World { fabric, devices, ranks, now: Time::ZERO, step, lent: Vec::new() }
    }

    /// Sends the next message; returns its request if it waits, or an error if the VC is down.
    pub fn try_send(&mut self, from: usize, to: usize, len: usize) -> Result<Option<ReqId>, VcError> {
        let r = &mut self.ranks[from];
        let number = r.sent[to];
        let area = Area::new(pattern(number, len));
        self.lent.push(area.clone());
        let (vc, e) = (r.vcs[to].expect("a VC with it"), &mut r.engine);
        let sent =
            e.netmod.i_start_contig_msg(&mut e.core, vc, &header(from, number, len), area.send_buf())?;
        r.sent[to] += 1;
        if sent.is_none() {
            // The memory is free again.
            self.lent.pop();
        }
        Ok(sent)
    }

    pub fn send(&mut self, from: usize, to: usize, len: usize) -> Option<ReqId> {
        self.try_send(from, to, len).expect("a VC that is up")
    }

    /// Adds memory that stays.
    pub fn area(&mut self, bytes: Vec<u8>) -> Area {
        let area = Area::new(bytes);
        self.lent.push(area.clone());
        area
    }

    /// Advances the time.
    pub fn pass(&mut self) {
        self.now = self.now + self.step;
        self.fabric.advance(self.now);
    }

    /// Polls one rank.
    pub fn turn(&mut self, rank: usize) {
        let r = &mut self.ranks[rank];
        if r.dead {
            return;
        }
        r.engine.progress(&mut r.layer, PollOrder::InFirst, self.now).expect("progress");
    }

    /// Kills a process; its host closes everything it has.
    pub fn kill(&mut self, rank: usize) {
        self.ranks[rank].dead = true;
        for (_, context) in self.ranks[rank].opened.lock().expect("nobody panics with it").iter() {
            self.fabric.kill(*context);
        }
    }

    /// Advances the time, and polls all ranks.
    pub fn poll(&mut self) {
        self.pass();
        (0..self.ranks.len()).for_each(|rank| self.turn(rank));
    }

    /// Returns the descriptions of all VCs that are not idle.
    pub fn state(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (me, r) in self.ranks.iter().enumerate() {
            for (peer, vc) in r.vcs.iter().enumerate() {
                let Some(vc) = vc else { continue };
                let text = r.engine.netmod.describe(&r.engine.core, *vc);
                if !text.contains(", 0 messages queued, 0 frames and 0 transfers under way") {
                    out.push(format!("{me} with {peer}: {text}"));
                }
            }
        }
        out
    }

    /// Polls all until a condition holds, for at most a minute of simulated time.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&World) -> bool) {
        let end = self.now + Duration::from_secs(60);
        while !done(self) {
            assert!(
                self.now < end,
                "not so in time: {what}; {:#?} {:?}",
                self.state(),
                self.fabric.violations()
            );
            self.poll();
        }
    }

    /// Returns true if everything sent has arrived.
    pub fn all_came(&self) -> bool {
        let all: Vec<usize> = (0..self.ranks.len()).collect();
        self.came_between(&all)
    }

    /// Returns true if everything that these have sent each other has arrived.
    pub fn came_between(&self, ranks: &[usize]) -> bool {
        let came = |from: usize, to: usize| self.ranks[to].layer.got[from] == self.ranks[from].sent[to];
        ranks.iter().all(|from| ranks.iter().all(|to| came(*from, *to)))
    }

    /// Returns the number of objects that a rank has open.
    pub fn counts(&self, rank: usize) -> Counts {
        let mut all = Counts::default();
        for (_, context) in self.ranks[rank].opened.lock().expect("nobody panics with it").iter() {
            let c = self.fabric.counts(*context);
            all.channels += c.channels;
            all.cqs += c.cqs;
            all.srqs += c.srqs;
            all.qps += c.qps;
            all.tgt_qps += c.tgt_qps;
            all.mrs += c.mrs;
            all.bytes += c.bytes;
            all.ahs += c.ahs;
            all.xrcds += c.xrcds;
        }
        all
    }

    /// Finalizes all ranks, and checks that nothing is left and no rule was broken.
    pub fn end(mut self) {
        let end = self.now + Duration::from_secs(60);
        self.ranks.retain(|r| !r.dead);
        loop {
            let now = self.now;
            let ends = self.ranks.iter_mut().map(|r| r.engine.netmod.finalize(&mut r.engine.core, now));
            let ends: Vec<Finalize> = ends.collect();
            if ends.iter().all(|end| *end == Finalize::Done) {
                break;
            }
            assert!(now < end, "no end: {:#?}", self.state());
            self.poll();
        }
        self.ranks.clear();
        assert_eq!(self.fabric.violations(), Vec::<String>::new());
        assert_eq!(self.fabric.leaks(), Leaks::default());
    }
}

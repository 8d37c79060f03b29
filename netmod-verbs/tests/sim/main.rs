//! The netmod over simulated devices: two processes in one thread, simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use netmod_core::rma::Access;
use netmod_core::{
    Card, CardWriter, Core, DataAvail, Engine, Event, Finalize, GroupId, Header, Io, Netmod, OnDone, Outcome,
    PacketFault, PeerName, PollOrder, ReqId, Request, Rma as _, RxBytes, Time, Upper, Vc, VcId,
};
use netmod_hello::JobKey;
use netmod_verbs::{Setup, Source, VerbsNetmod};
use sim_hca::{ContextId, DeviceId, DeviceSettings, Fabric, Leaks, Settings, SimHca};

use netmod_schedules::memory::{Area, Pieces};

/// The one device of a fabric.
#[derive(Clone, Debug)]
struct Only {
    fabric: Fabric,
    device: DeviceId,
    opened: Arc<Mutex<Vec<ContextId>>>,
}

impl Source<SimHca> for Only {
    fn names(&self) -> Result<Vec<String>, String> {
        Ok(vec!["sim0".into()])
    }

    fn open(&self, _: &str) -> Result<SimHca, String> {
        let hca = self.fabric.open(self.device).map_err(|e| e.to_string())?;
        self.opened.lock().unwrap().push(hca.context());
        Ok(hca)
    }
}

/// Takes every message whole.
#[derive(Debug, Default)]
struct Layer {
    messages: Vec<(Header, Vec<u8>)>,
    under_way: Option<(ReqId, Header, Pieces)>,
    events: Vec<Event>,
    card: Option<Card>,
    kept: Vec<Area>,
}

fn header(number: u32, len: usize) -> Header {
    let mut h = [0; 32];
    h[0] = 1;
    h[4..8].copy_from_slice(&number.to_le_bytes());
    h[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    h
}

fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 ^ seed).wrapping_mul(0x9E37_79B1).to_le_bytes()[2]).collect()
}

impl<N: Netmod> Upper<N> for Layer {
    fn packet(
        &mut self,
        io: &mut Io<'_, N>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let len = u64::from_le_bytes(hdr[8..16].try_into().unwrap()) as usize;
        let pieces = Pieces::new(len, len, 0);
        self.kept.push(pieces.area().clone());
        let mut request = Request::new(Some(vc), pieces.segment());
        request.on_done = OnDone::Upper;
        let req = io.core.reqs.insert(request);
        let r = io.core.reqs.get_mut(req).unwrap();
        let used = r.seg.unpack(rest);
        let done = r.seg.is_done();
        self.under_way = Some((req, *hdr, pieces));
        if done {
            self.on_data_avail(io, vc, req);
            io.core.finish(req, Outcome::Done);
            io.core.take(req);
        } else {
            io.core.set_recv_active(vc, req);
        }
        Ok(used)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, N>, _: VcId, req: ReqId) -> DataAvail {
        let (of, hdr, pieces) = self.under_way.take().unwrap();
        assert_eq!(of, req);
        self.messages.push((hdr, pieces.data()));
        DataAvail::Complete
    }

    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event) {
        if let Event::NeedCard { vc } = event {
            let card = self.card.clone().unwrap();
            io.netmod.set_card(io.core, vc, Ok(&card));
        }
        self.events.push(event);
    }
}

type Nm = VerbsNetmod<SimHca>;

struct Rank {
    engine: Engine<Nm>,
    layer: Layer,
    vc: VcId,
}

struct World {
    fabric: Fabric,
    opened: Arc<Mutex<Vec<ContextId>>>,
    ranks: Vec<Option<Rank>>,
    now: Time,
}

fn name(rank: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: rank as u32 }
}

impl World {
    fn new(settings: Settings, device: DeviceSettings) -> World {
        let fabric = Fabric::new(settings);
        let device = fabric.device(device);
        let opened = Arc::new(Mutex::new(Vec::new()));
        let mut ranks: Vec<Rank> = (0..2)
            .map(|me| {
                let source = Only { fabric: fabric.clone(), device, opened: opened.clone() };
                let mut cfg = netmod_core::Config::default().verbs;
                cfg.rx_memory = 256 << 10;
                cfg.detect = Duration::from_secs(1);
                let setup = Setup { cfg, source: Box::new(source) };
                let mut netmod = Nm::new(&setup, name(me), 2);
                assert_eq!(netmod.failure(), None);
                netmod.authenticate_with(JobKey([9; 32]));
                let mut engine = Engine::new(netmod, Core::new(16));
                let vc = engine.core.vcs.insert(Vc::new(name(1 - me), 0));
                Rank { engine, layer: Layer::default(), vc }
            })
            .collect();
        let cards: Vec<Card> = ranks
            .iter()
            .map(|r| {
                let mut card = CardWriter::new();
                r.engine.netmod.business_card(&mut card).unwrap();
                Card::parse(&card.finish()).unwrap()
            })
            .collect();
        for (me, r) in ranks.iter_mut().enumerate() {
            let card = &cards[1 - me];
            r.layer.card = Some(card.clone());
            let e = &mut r.engine;
            e.netmod.reachable(card).unwrap();
            e.netmod.vc_init(&mut e.core, r.vc, name(1 - me), Some(card)).unwrap();
        }
        World { fabric, opened, ranks: ranks.into_iter().map(Some).collect(), now: Time::ZERO }
    }

    fn rank(&mut self, rank: usize) -> &mut Rank {
        self.ranks[rank].as_mut().unwrap()
    }

    fn poll(&mut self) {
        self.now = self.now + Duration::from_micros(20);
        self.fabric.advance(self.now);
        let now = self.now;
        for r in self.ranks.iter_mut().flatten() {
            r.engine.progress(&mut r.layer, PollOrder::InFirst, now).unwrap();
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut World) -> bool) {
        for _ in 0..3_000_000 {
            if done(self) {
                return;
            }
            self.poll();
        }
        let says: Vec<String> =
            self.ranks.iter().flatten().map(|r| r.engine.netmod.describe(&r.engine.core, r.vc)).collect();
        let events: Vec<_> = self.ranks.iter().flatten().map(|r| &r.layer.events).collect();
        panic!("not so in time: {what}; {says:?} {events:?} {:?}", self.fabric.violations());
    }

    fn send(&mut self, from: usize, number: u32, len: usize) -> Option<ReqId> {
        let area = Area::new(pattern(number, len));
        let r = self.rank(from);
        r.layer.kept.push(area.clone());
        let e = &mut r.engine;
        e.netmod.i_start_contig_msg(&mut e.core, r.vc, &header(number, len), area.send_buf()).unwrap()
    }

    /// All messages have come, as they were sent.
    fn expect(&mut self, at: usize, numbers: impl Iterator<Item = (u32, usize)>) {
        let got = std::mem::take(&mut self.rank(at).layer.messages);
        let want: Vec<(u32, usize)> = numbers.collect();
        assert_eq!(got.len(), want.len());
        for ((hdr, data), (number, len)) in got.iter().zip(want) {
            assert_eq!(*hdr, header(number, len));
            assert!(*data == pattern(number, len), "message {number}");
        }
    }

    fn end(mut self) {
        for turn in 0.. {
            let now = self.now;
            let done: Vec<bool> = self
                .ranks
                .iter_mut()
                .flatten()
                .map(|r| r.engine.netmod.finalize(&mut r.engine.core, now) == Finalize::Done)
                .collect();
            if done.iter().all(|d| *d) {
                break;
            }
            assert!(turn < 1_000_000, "no end");
            self.poll();
        }
        self.ranks.clear();
        assert_eq!(self.fabric.violations(), Vec::<String>::new());
        assert_eq!(self.fabric.leaks(), Leaks::default());
    }
}

fn plain() -> World {
    World::new(Settings::default(), DeviceSettings::new("sim0"))
}

#[test]
fn messages_of_all_lengths_arrive_in_order_both_ways() {
    let mut w = plain();
    let lens = [0, 1, 8, 100, 200, 221, 1000, 8000, 8192, 9000, 100_000, 1_000_000, 3, 0];
    for (i, len) in lens.iter().enumerate() {
        w.send(0, i as u32, *len);
        w.send(1, 100 + i as u32, *len);
    }
    w.until("all came", |w| (0..2).all(|r| w.rank(r).layer.messages.len() == lens.len()));
    w.expect(1, lens.iter().enumerate().map(|(i, len)| (i as u32, *len)));
    w.expect(0, lens.iter().enumerate().map(|(i, len)| (100 + i as u32, *len)));
    w.end();
}

#[test]
fn a_flood_of_short_messages_is_held_back_and_not_lost() {
    let mut w = plain();
    for i in 0..20_000 {
        w.send(0, i, (i % 300) as usize);
    }
    w.until("all came", |w| w.rank(1).layer.messages.len() == 20_000);
    w.expect(1, (0..20_000).map(|i| (i, (i % 300) as usize)));
    w.end();
}

#[test]
fn memory_is_read_and_written() {
    let mut w = plain();
    w.send(0, 1, 8);
    w.until("connected", |w| !w.rank(1).layer.messages.is_empty());
    let len = 300_000;
    for access in [Access::RemoteRead, Access::RemoteWrite] {
        let (there, here) = (Area::new(pattern(1, len)), Area::new(pattern(2, len)));
        w.rank(0).layer.kept.push(here.clone());
        w.rank(1).layer.kept.push(there.clone());
        let r = w.rank(1);
        let (region, key) = r.engine.netmod.register(&mut r.engine.core, r.vc, there.iov(), access).unwrap();
        let r = w.rank(0);
        let (local, _) =
            r.engine.netmod.register(&mut r.engine.core, r.vc, here.iov(), Access::Local).unwrap();
        let e = &mut r.engine;
        let op = 77;
        if access == Access::RemoteRead {
            e.netmod.get(&mut e.core, r.vc, local, 5, &key, 7, len - 9, op).unwrap();
        } else {
            e.netmod.put(&mut e.core, r.vc, local, 5, &key, 7, len - 9, op).unwrap();
        }
        w.until("the transfer has ended", |w| {
            w.rank(0).layer.events.iter().any(|e| matches!(e, Event::RmaDone { op: 77, result: Ok(()), .. }))
        });
        w.rank(0).layer.events.clear();
        let (mut want_here, mut want_there) = (pattern(2, len), pattern(1, len));
        if access == Access::RemoteRead {
            want_here[5..len - 4].copy_from_slice(&want_there[7..len - 2]);
        } else {
            want_there[7..len - 2].copy_from_slice(&want_here[5..len - 4]);
        }
        assert!(here.bytes() == want_here && there.bytes() == want_there, "{access:?}");
        let r = w.rank(1);
        r.engine.netmod.deregister(&mut r.engine.core, region).unwrap();
        let r = w.rank(0);
        r.engine.netmod.deregister(&mut r.engine.core, local).unwrap();
    }
    w.end();
}

#[test]
fn a_vc_that_has_ended_is_connected_again() {
    let mut w = plain();
    for round in 0..5 {
        w.send(round % 2, round as u32, 5000);
        w.until("it came", |w| !w.rank(1 - round % 2).layer.messages.is_empty());
        w.expect(1 - round % 2, [(round as u32, 5000)].into_iter());
        for rank in 0..2 {
            let now = w.now;
            let r = w.rank(rank);
            r.engine.netmod.vc_terminate(&mut r.engine.core, r.vc, now);
        }
        w.until("both have ended", |w| {
            (0..2).all(|r| w.rank(r).layer.events.iter().any(|e| matches!(e, Event::Terminated { .. })))
        });
        for rank in 0..2 {
            w.rank(rank).layer.events.clear();
            assert_eq!(w.rank(rank).engine.netmod.stats().oddities, 0);
        }
    }
    w.end();
}

#[test]
fn a_dead_peer_is_noticed_when_something_is_sent() {
    let mut w = plain();
    w.send(0, 1, 8);
    w.until("connected", |w| !w.rank(1).layer.messages.is_empty());
    let dead = w.opened.lock().unwrap().clone();
    // Each rank opens its device twice: to look, and for its port.
    w.fabric.kill(dead[3]);
    w.send(0, 2, 8);
    w.until("it is down", |w| w.rank(0).layer.events.iter().any(|e| matches!(e, Event::Down { .. })));
    let down = w.rank(0).layer.events.iter().find_map(|e| match e {
        Event::Down { error, .. } => Some(error.to_string()),
        _ => None,
    });
    assert!(down.as_ref().is_some_and(|text| text.contains("does not answer")), "{down:?}");
}

#[test]
fn who_is_given_up_in_the_middle_of_a_transfer_takes_no_memory_from_the_device() {
    let mut w = plain();
    w.send(0, 1, 8);
    w.until("connected", |w| !w.rank(1).layer.messages.is_empty());
    let len = 300_000;
    let (there, here) = (Area::new(pattern(1, len)), Area::new(pattern(2, len)));
    w.rank(0).layer.kept.push(here.clone());
    w.rank(1).layer.kept.push(there.clone());
    let r = w.rank(1);
    let (_, key) =
        r.engine.netmod.register(&mut r.engine.core, r.vc, there.iov(), Access::RemoteRead).unwrap();
    let r = w.rank(0);
    let (local, _) = r.engine.netmod.register(&mut r.engine.core, r.vc, here.iov(), Access::Local).unwrap();
    let e = &mut r.engine;
    e.netmod.get(&mut e.core, r.vc, local, 0, &key, 0, len, 77).unwrap();
    w.ranks[0] = None;
    assert_eq!(w.fabric.violations(), Vec::<String>::new());
    w.ranks[1] = None;
    assert_eq!(w.fabric.violations(), Vec::<String>::new());
    assert_eq!(w.fabric.leaks(), Leaks::default());
}

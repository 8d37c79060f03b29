//! The netmod contract below the device: two engines over two bare netmods, and an upper layer that
//! answers `Complete` and `Later`.

use std::collections::VecDeque;
use std::time::Instant;

use ch3_shim::netset::NetSet;
use netmod_core::card::NodeSection;
use netmod_core::lifecycle::VcState;
use netmod_core::{
    Card, CardWriter, Core, DataAvail, Engine, Event, Header, Io, Module, Netmod, OnDone, Outcome,
    PacketFault, PollOrder, ReqId, Request, RxBytes, Segment, SendBuf, Sent, Time, Upper, Vc, VcId, VcLife,
};
use netmod_tests::conformance::{NetmodFactory, check, pattern};
use netmod_tests::factory::{Loopback, Ofi, Shm, Tcp, bare_name};
use netmod_tests::jobs::pattern::Random;
use netmod_tests::loopback::{Cut, Options};
use netmod_tests::sys::Area;

/// First byte of the headers of this test.
const MESSAGE: u8 = 1;

/// The end of a receive that is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    Complete,
    Later,
}

/// A receive.
struct Receiving {
    req: ReqId,
    area: Area,
    last: Last,
}

/// The layer above: receives in the order in which they were posted.
struct Layer {
    posted: VecDeque<Receiving>,
    /// Receives whose data has begun to arrive.
    active: Vec<Receiving>,
    done: Vec<Receiving>,
    /// The memory of sends, by request.
    to_send: Vec<(ReqId, Area)>,
    /// Sends whose data has all left, in that order.
    sent: Vec<ReqId>,
    terminated: usize,
    down: Vec<String>,
    card: Option<Card>,
}

impl Layer {
    fn new() -> Layer {
        Layer {
            posted: VecDeque::new(),
            active: Vec::new(),
            done: Vec::new(),
            to_send: Vec::new(),
            sent: Vec::new(),
            terminated: 0,
            down: Vec::new(),
            card: None,
        }
    }

    /// A receive is full.
    fn received(&mut self, req: ReqId) -> DataAvail {
        let i = self.active.iter().position(|r| r.req == req).expect("an active receive");
        let r = self.active.swap_remove(i);
        let last = r.last;
        self.done.push(r);
        match last {
            Last::Complete => DataAvail::Complete,
            Last::Later => DataAvail::Later,
        }
    }
}

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl Upper<NetSet> for Layer {
    fn packet(
        &mut self,
        io: &mut Io<'_, NetSet>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        if hdr[0] != MESSAGE {
            return Err(PacketFault::Violation { what: format!("a header of kind {}", hdr[0]) });
        }
        let Some(r) = self.posted.pop_front() else {
            let len = u64::from_le_bytes(hdr[8..16].try_into().expect("eight bytes"));
            return Err(PacketFault::Drop { what: "no receive".into(), payload: len });
        };
        let req = r.req;
        self.active.push(r);
        let request = io.core.req_mut(req).expect("a live request");
        request.vc = Some(vc);
        let mut used = request.seg.unpack(rest);
        if request.seg.is_done() {
            let surplus = request.excess.min((rest.len() - used) as u64);
            request.excess -= surplus;
            used += surplus as usize;
        }
        if !request.seg.is_done() || request.excess > 0 {
            io.core.set_recv_active(vc, req);
        } else if self.received(req) == DataAvail::Complete {
            io.core.finish(req, Outcome::Done);
        }
        Ok(used)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, NetSet>, _vc: VcId, req: ReqId) -> DataAvail {
        if self.to_send.iter().any(|(r, _)| *r == req) {
            self.sent.push(req);
            return DataAvail::Complete;
        }
        self.received(req)
    }

    fn on_event(&mut self, io: &mut Io<'_, NetSet>, event: Event) {
        match event {
            Event::Terminated { .. } => self.terminated += 1,
            Event::Down { error, .. } => self.down.push(error.to_string()),
            Event::NeedCard { vc } => {
                let card = self.card.clone().expect("the peer's card");
                io.netmod.set_card(io.core, vc, Ok(&card));
            }
            Event::NewPeer { peer, .. } => panic!("{peer} has a VC already"),
            _ => {}
        }
    }
}

/// Two ranks in one thread.
struct Pair {
    engines: [Engine<NetSet>; 2],
    layers: [Layer; 2],
    vcs: [VcId; 2],
    start: Instant,
}

impl Pair {
    /// `carded`: the VCs are made with cards, else they must ask for them.
    fn new(f: &dyn NetmodFactory, carded: bool) -> Pair {
        let job = f.job(2);
        let mut engines = [0, 1].map(|rank| Engine::new(job.netmod(rank), Core::new(16)));
        let cards: Vec<Card> = engines
            .iter()
            .map(|e| {
                let mut card = CardWriter::new();
                let node = NodeSection::of_this_process().expect("a description of the node");
                node.emit(&mut card).expect("a section of the card");
                e.netmod.business_card(&mut card).expect("a section of the card");
                Card::parse(&card.finish()).expect("a card")
            })
            .collect();
        let mut layers = [Layer::new(), Layer::new()];
        let vcs = [0, 1].map(|i: usize| {
            let (peer, e) = (1 - i, &mut engines[i]);
            let name = bare_name(peer as u32);
            e.netmod.reachable(&cards[peer]).expect("a peer in reach");
            let vc = e.core.add_vc(Vc::new(name, 0));
            layers[i].card = Some(cards[peer].clone());
            e.netmod.vc_init(&mut e.core, vc, name, carded.then_some(&cards[peer])).expect("vc_init");
            vc
        });
        Pair { engines, layers, vcs, start: Instant::now() }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Lets both sides make progress until `done`.
    fn until(&mut self, what: &str, done: impl Fn(&Pair) -> bool) {
        let end = Instant::now() + std::time::Duration::from_secs(60);
        while !done(self) {
            assert!(
                Instant::now() < end,
                "timed out waiting until {what}: {:?} {:?}",
                self.layers[0].down,
                self.layers[1].down
            );
            for i in 0..2 {
                let now = self.now();
                let order = if i == 0 { PollOrder::OutFirst } else { PollOrder::InFirst };
                self.engines[i].progress(&mut self.layers[i], order, now).expect("progress");
            }
        }
    }

    /// Posts a receive of rank 1.
    fn post(&mut self, len: usize, excess: u64, last: Last) -> ReqId {
        let area = Area::new(vec![0; len]);
        let mut request = Request::new(None, area.contig());
        request.on_done = OnDone::Upper;
        request.excess = excess;
        let req = self.engines[1].core.add_req(request);
        self.layers[1].posted.push_back(Receiving { req, area, last });
        req
    }

    /// Sends from rank 0 a message whose data is the pattern of `seed`; its owner is told.
    fn send(&mut self, seed: u64, len: usize) -> (ReqId, Sent) {
        let area = Area::new(pattern(seed, len));
        let (e, vc) = (&mut self.engines[0], self.vcs[0]);
        let mut request = Request::new(Some(vc), area.contig());
        request.on_done = OnDone::Upper;
        let req = e.core.add_req(request);
        let sent = e.netmod.send_noncontig(&mut e.core, vc, req, &header(len)).expect("send");
        if sent == Sent::Done {
            e.core.finish(req, Outcome::Done);
            self.layers[0].sent.push(req);
        }
        self.layers[0].to_send.push((req, area));
        (req, sent)
    }

    /// Returns the data of a finished receive of rank 1.
    fn received(&self, req: ReqId) -> Vec<u8> {
        let r = self.layers[1].done.iter().find(|r| r.req == req).expect("a finished receive");
        r.area.bytes()
    }
}

fn header(len: usize) -> Header {
    let mut hdr = [0; 32];
    hdr[0] = MESSAGE;
    hdr[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    hdr
}

/// Receives of all lengths, whatever the network's cuts; who answers `Later` finishes them.
fn receives(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let lens = [100, 503, 3070, 80_001, 45_000, 0];
    let mut reqs = Vec::new();
    for (i, len) in lens.into_iter().enumerate() {
        let last = if i % 2 == 0 { Last::Complete } else { Last::Later };
        reqs.push((pair.post(len, 0, last), last, len));
    }
    for (i, len) in lens.into_iter().enumerate() {
        pair.send(i as u64, len);
    }
    pair.until("all is received", |p| p.layers[1].done.len() == lens.len());
    for (i, (req, last, len)) in reqs.into_iter().enumerate() {
        let got = pair.received(req);
        assert_eq!(got.len(), len);
        check(i as u64, &got);
        let core = &mut pair.engines[1].core;
        assert_eq!(
            core.is_finished(req),
            last == Last::Complete,
            "message {i}: who answers Later finishes it"
        );
        if last == Last::Later {
            core.finish(req, Outcome::Done);
            assert!(core.is_finished(req));
        }
    }
}

/// Receives with surplus: it is dropped, and the next message is whole.
fn receive_excess(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let mut reqs = Vec::new();
    for _ in 0..4 {
        reqs.push((pair.post(2000, 3000, Last::Complete), 2000));
        reqs.push((pair.post(64, 0, Last::Later), 64));
    }
    for i in 0..4 {
        pair.send(2 * i, 5000);
        pair.send(2 * i + 1, 64);
    }
    pair.until("all is received", |p| p.layers[1].done.len() == 8);
    for (i, (req, len)) in reqs.into_iter().enumerate() {
        let got = pair.received(req);
        assert_eq!(got.len(), len);
        check(i as u64, &got);
    }
}

/// Sends whose owner is told, and that are too long to be copied: it is told once, in their order.
/// What is behind them does not wait for that.
fn sends_are_told(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let mut reqs = Vec::new();
    let mut receives = Vec::new();
    for (i, len) in [50_000, 60_005, 90_000, 28_000, 400_000].into_iter().enumerate() {
        receives.push((pair.post(len, 0, Last::Complete), i as u64, len));
        receives.push((pair.post(50, 0, Last::Complete), 100 + i as u64, 50));
        let (req, sent) = pair.send(i as u64, len);
        assert_eq!(sent, Sent::Queued, "the connection is not there yet");
        reqs.push(req);
        // A small message behind it, by the shortest way.
        let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
        let data: &'static [u8] = Vec::leak(pattern(100 + i as u64, 50));
        if let Some(req) = e
            .netmod
            .i_start_contig_msg(&mut e.core, vc, &header(50), SendBuf::from_static(data))
            .expect("send")
        {
            e.core.detach(req);
        }
    }
    pair.until("all is received", |p| p.layers[1].done.len() == receives.len());
    for (req, seed, len) in receives {
        let got = pair.received(req);
        assert_eq!(got.len(), len);
        check(seed, &got);
    }
    pair.until("all is sent", |p| p.layers[0].sent.len() == reqs.len());
    assert_eq!(pair.layers[0].sent, reqs, "sends of one VC finish in their order");
    assert!(reqs.iter().all(|r| pair.engines[0].core.is_finished(*r)));
}

/// Messages of all lengths in bursts, some of them flushed, some not, and some the last ones before
/// the VC terminates: all come, in order.
fn bursts(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let mut random = Random::new(7);
    let mut sent = 0;
    for burst in 0..60 {
        let mut receives = Vec::new();
        for _ in 0..1 + random.below(40) {
            let longest = [8, 100, 2000, 20_000, 100_000][random.below(5)];
            let (seed, len) = (sent, random.below(longest));
            sent += 1;
            receives.push((pair.post(len, 0, Last::Complete), seed, len));
            let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
            let data = SendBuf::from_static(Vec::leak(pattern(seed, len)));
            let later = e.netmod.i_start_contig_msg(&mut e.core, vc, &header(len), data).expect("send");
            later.into_iter().for_each(|req| e.core.detach(req));
            if random.below(8) == 0 {
                e.netmod.flush(&mut e.core);
            }
        }
        if burst % 10 == 9 {
            let (now, vc) = (pair.now(), pair.vcs[0]);
            let e = &mut pair.engines[0];
            e.netmod.vc_terminate(&mut e.core, vc, now);
        }
        pair.until("the burst is there", |p| p.layers[1].done.len() as u64 == sent);
        for (req, seed, len) in receives {
            let got = pair.received(req);
            assert_eq!(got.len(), len, "message {seed}");
            check(seed, &got);
        }
        if burst % 10 == 9 {
            let (now, vc) = (pair.now(), pair.vcs[1]);
            let e = &mut pair.engines[1];
            e.netmod.vc_terminate(&mut e.core, vc, now);
            let n = burst / 10 + 1;
            pair.until("both have terminated", |p| p.layers.iter().all(|l| l.terminated == n));
        }
    }
    assert!(
        pair.layers.iter().all(|l| l.down.is_empty()),
        "{:?} {:?}",
        pair.layers[0].down,
        pair.layers[1].down
    );
}

/// Terminating lets everything out first; afterwards the VC can be used again. With the VCs made
/// without cards, the first send asks for one.
fn terminate_and_reuse(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, false);
    for round in 0..5 {
        let req = pair.post(100_000, 0, Last::Complete);
        let done = pair.layers[1].done.len();
        pair.send(round, 100_000);
        pair.until("the message is there", |p| {
            p.layers[1].done.len() > done && p.layers[0].sent.len() > round as usize
        });
        let got = pair.received(req);
        assert_eq!(got.len(), 100_000);
        check(round, &got);
        // Both sides, each with a last message on its way.
        let last = pair.post(500, 0, Last::Complete);
        let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
        let data: &'static [u8] = Vec::leak(pattern(round, 500));
        if let Some(req) = e
            .netmod
            .i_start_contig_msg(&mut e.core, vc, &header(500), SendBuf::from_static(data))
            .expect("send")
        {
            e.core.detach(req);
        }
        let now = pair.now();
        let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
        e.netmod.vc_terminate(&mut e.core, vc, now);
        let done = done + 1;
        pair.until("the last message is there", |p| p.layers[1].done.len() > done);
        check(round, &pair.received(last));
        let now = pair.now();
        let (e, vc) = (&mut pair.engines[1], pair.vcs[1]);
        e.netmod.vc_terminate(&mut e.core, vc, now);
        let n = round as usize + 1;
        pair.until("both have terminated", |p| p.layers.iter().all(|l| l.terminated == n));
        assert!(pair.layers.iter().all(|l| l.down.is_empty()), "terminating is no failure");
    }
}

/// A peer whose netmod says goodbye while the layer above counts on it is a peer that is lost.
#[test]
fn a_peer_that_leaves_an_open_vc_takes_it_down() {
    let mut pair = Pair::new(&Tcp, true);
    let req = pair.post(100, 0, Last::Complete);
    pair.send(1, 100);
    pair.until("the message is there", |p| p.layers[1].done.len() == 1);
    check(1, &pair.received(req));
    let vc = pair.vcs[1];
    pair.engines[1].core.vc_mut(vc).expect("a VC").state = VcState::Active;
    let now = pair.now();
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    e.netmod.vc_terminate(&mut e.core, vc, now);
    pair.until("both know", |p| p.layers[0].terminated == 1 && p.layers[1].down.len() == 1);
    assert!(pair.layers[1].down[0].contains("left without closing"), "{}", pair.layers[1].down[0]);
    assert!(pair.layers[0].down.is_empty());
}

/// Giving a VC up fails its requests and reports it once; the other side learns of it.
fn abort(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let req = pair.post(100, 0, Last::Complete);
    pair.send(1, 100);
    pair.until("the message is there", |p| p.layers[1].done.len() == 1);
    check(1, &pair.received(req));
    // More than any buffer takes, so that it is on its way.
    let cut = pair.post(32 << 20, 0, Last::Complete);
    let (stuck, _) = pair.send(2, 32 << 20);
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    let why = netmod_core::VcError::new(netmod_core::VcErrorKind::Aborted, None, "a test gives it up");
    e.netmod.vc_abort(&mut e.core, vc, why.clone());
    assert!(
        matches!(pair.engines[0].core.req(stuck).map(|r| r.outcome()), Some(Outcome::Failed(e)) if *e == why)
    );
    pair.until("both know", |p| p.layers.iter().all(|l| !l.down.is_empty()));
    for _ in 0..100 {
        pair.until("a little later", |_| true);
    }
    assert!(
        pair.layers.iter().all(|l| l.down.len() == 1),
        "{:?} {:?}",
        pair.layers[0].down,
        pair.layers[1].down
    );
    // A receive that had begun has failed; one that had not is its owner's.
    let outcome = pair.engines[1].core.req(cut).map(|r| r.outcome().clone());
    let begun = pair.layers[1].posted.is_empty();
    assert_eq!(matches!(outcome, Some(Outcome::Failed(_))), begun, "{outcome:?}");
    // No sends on a VC that is down.
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    assert!(e.netmod.i_start_contig_msg(&mut e.core, vc, &header(0), SendBuf::EMPTY).is_err());
    // It terminates at once.
    let now = pair.now();
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    e.netmod.vc_terminate(&mut e.core, vc, now);
    pair.until("it has terminated", |p| p.layers[0].terminated == 1);
}

/// A side that has only received gives a VC up; the other one learns of it.
fn abort_by_receiver(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let req = pair.post(100, 0, Last::Complete);
    pair.send(1, 100);
    pair.until("the message is there", |p| p.layers[1].done.len() == 1);
    check(1, &pair.received(req));
    let (e, vc) = (&mut pair.engines[1], pair.vcs[1]);
    let why = netmod_core::VcError::new(netmod_core::VcErrorKind::Aborted, None, "a test gives it up");
    e.netmod.vc_abort(&mut e.core, vc, why);
    pair.until("both know", |p| p.layers.iter().all(|l| l.down.len() == 1));
}

/// A VC that went down takes messages again once it is revived, and carries nothing of what was
/// before.
fn revive(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    pair.post(100, 0, Last::Complete);
    pair.send(1, 100);
    pair.until("the message is there", |p| p.layers[1].done.len() == 1);
    pair.post(32 << 20, 0, Last::Complete);
    pair.send(2, 32 << 20);
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    let why = netmod_core::VcError::new(netmod_core::VcErrorKind::Aborted, None, "a test gives it up");
    e.netmod.vc_abort(&mut e.core, vc, why);
    pair.until("both know", |p| p.layers.iter().all(|l| !l.down.is_empty()));
    for i in 0..2 {
        let (e, vc, card) = (&mut pair.engines[i], pair.vcs[i], pair.layers[i].card.clone());
        e.netmod.vc_revive(&mut e.core, vc, card.as_ref()).expect("a good card");
        pair.layers[i].posted.clear();
        pair.layers[i].to_send.clear();
    }
    let req = pair.post(5000, 0, Last::Complete);
    pair.send(3, 5000);
    pair.until("the next message is there", |p| p.layers[1].done.len() == 2 && !p.layers[0].sent.is_empty());
    check(3, &pair.received(req));
    assert!(pair.layers.iter().all(|l| l.down.len() == 1), "{:?}", pair.layers[1].down);
}

/// A send is taken back as long as nothing of it has left, and only once.
fn cancel_send(f: &dyn NetmodFactory) {
    let mut pair = Pair::new(f, true);
    let kept = pair.post(300, 0, Last::Complete);
    let (first, _) = pair.send(1, 300);
    let (second, _) = pair.send(2, 400);
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    let taken = e.netmod.cancel_send(&mut e.core, vc, second);
    assert!(!e.netmod.cancel_send(&mut e.core, vc, second), "it is in the queue no more");
    assert!(taken, "nothing can have left");
    assert!(!e.core.is_finished(second), "a request that was taken back is its owner's");
    pair.until("the other is there", |p| p.layers[1].done.len() == 1 && !p.layers[0].sent.is_empty());
    check(1, &pair.received(kept));
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    assert!(!e.netmod.cancel_send(&mut e.core, vc, first), "it has gone");
    assert_eq!(pair.layers[0].sent, [first]);
}

/// Each message counts once, whichever way it is sent and whether or not it waits.
fn counts(f: &dyn NetmodFactory) {
    static DATA: [u8; 100] = [7; 100];
    let mut pair = Pair::new(f, true);
    let received: Vec<ReqId> =
        [100, 300, 50, 100].iter().map(|len| pair.post(*len, 0, Last::Complete)).collect();
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    // The first ones wait for the connection.
    let req = e.core.add_req(Request::new(Some(vc), Segment::empty()));
    let data = SendBuf::from_static(&DATA);
    let sent = e.netmod.i_send_contig(&mut e.core, vc, req, &header(100), data).expect("send");
    assert_eq!(sent, Sent::Queued);
    pair.send(2, 300);
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    let data = SendBuf::from_static(&DATA[..50]);
    e.netmod.i_start_contig_msg(&mut e.core, vc, &header(50), data).expect("send").expect("it waits");
    let stats = |p: &Pair, rank: usize| p.engines[rank].core.vc(p.vcs[rank]).expect("a VC").stats;
    let s = stats(&pair, 0);
    assert_eq!((s.tx_msgs, s.tx_bytes, s.tx_queued), (3, 3 * 32 + 450, 3));
    pair.until("three are there", |p| p.layers[1].done.len() == 3);
    let (e, vc) = (&mut pair.engines[0], pair.vcs[0]);
    let data = SendBuf::from_static(&DATA);
    let waits = e.netmod.i_start_contig_msg(&mut e.core, vc, &header(100), data).expect("send").is_some();
    let s = stats(&pair, 0);
    assert_eq!((s.tx_msgs, s.tx_bytes, s.tx_queued), (4, 4 * 32 + 550, 3 + u64::from(waits)));
    pair.until("all are there", |p| p.layers[1].done.len() == 4);
    let s = stats(&pair, 1);
    assert_eq!((s.rx_msgs, s.rx_bytes), (4, 4 * 32 + 550));
    assert_eq!(pair.received(received[3]), DATA);
}

macro_rules! tests {
    ($factory:expr; $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let factory = $factory;
            if factory.is_available(stringify!($test)) {
                super::$test(&factory);
            }
        })*
    };
}

macro_rules! contract {
    ($($module:ident: $factory:expr;)*) => {
        $(mod $module {
            use super::*;
            tests! {
                $factory;
                receives receive_excess sends_are_told bursts terminate_and_reuse abort
                abort_by_receiver revive cancel_send counts
            }
        })*
    };
}

/// Always through the queue.
fn loopback(cut: Cut, direct: bool) -> Loopback {
    let options = Options { cut, direct, eager: false, capacity: 50_000 };
    Loopback { options, max_bytes: 1 << 20, eager_max: 1 << 14 }
}

contract! {
    tcp: Tcp;
    shm: Shm;
    ofi: Ofi { provider: "tcp", library: "", max_bytes: 64 << 20, many: 2000 };
    loopback_whole: loopback(Cut::Whole, true);
    loopback_copied: loopback(Cut::Whole, false);
    loopback_bytewise: loopback(Cut::Bytes(1), true);
    loopback_primes: loopback(Cut::Primes, true);
    loopback_random: loopback(Cut::Random { seed: 5, max: 9000 }, true);
}

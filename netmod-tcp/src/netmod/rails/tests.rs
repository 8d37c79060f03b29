//! Puts between two netmods over rails on the loopback interface: regions that end in the middle,
//! rails that break, and peers that lie.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::config::TcpConfig;
use netmod_connection::{
    HEADER_LEN, Initiator, InitiatorParams, InitiatorStep, Purpose, RejectReason, Terms, Versions,
};
use netmod_core::card::NodeSection;
use netmod_core::rma::{Access, RegionId, RemoteKey, RmaOp};
use netmod_core::{
    Card, CardWriter, Core, DataAvail, Diagnose, Engine, Event, GroupId, Header, Io, Module, Netmod as _,
    PacketFault, PeerName, PollOrder, Pollers, ReqId, Rma as _, RmaBuf, RxBytes, Time, Upper, Vc, VcId,
    VcLife,
};

use crate::pairs::{PAIRS_LEN, Pairs, answered};
use crate::rail::regions::read_key;
use crate::rail::wire::{ACK, Ack, ChunkHeader, HEADER};
use crate::{JobKey, TcpNetmod};

const KEY: JobKey = JobKey([9; 32]);
const RAILS: usize = 3;

fn name(rank: u32) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank }
}

/// The layer above: notes what it is told.
#[derive(Default)]
struct Layer {
    ended: Vec<(u64, Result<(), String>)>,
    down: Option<String>,
    packets: usize,
}

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl Upper<TcpNetmod> for Layer {
    fn packet(
        &mut self,
        _: &mut Io<'_, TcpNetmod>,
        _: VcId,
        _: &Header,
        _: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        self.packets += 1;
        Ok(0)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, TcpNetmod>, _: VcId, _: ReqId) -> DataAvail {
        DataAvail::Complete
    }

    fn on_event(&mut self, _: &mut Io<'_, TcpNetmod>, event: Event) {
        match event {
            Event::RmaDone { op, result, .. } => self.ended.push((op, result.map_err(|e| e.to_string()))),
            Event::Down { error, .. } => self.down = Some(error.to_string()),
            _ => {}
        }
    }
}

/// Two processes in one thread: the first one puts to the second one.
pub(crate) struct Two {
    pub(crate) engines: [Engine<TcpNetmod>; 2],
    layers: [Layer; 2],
    pub(crate) vcs: [VcId; 2],
    start: Instant,
}

impl Two {
    pub(crate) fn new(tune: impl Fn(&mut TcpConfig)) -> Two {
        let mut cfg = TcpConfig {
            interface: "127.0.0.1".into(),
            rails_loopback: RAILS,
            security: "off",
            ..TcpConfig::default()
        };
        tune(&mut cfg);
        let mut engines = [0, 1].map(|rank| {
            let mut tcp = TcpNetmod::new(cfg.clone(), name(rank), 2).expect("a netmod");
            tcp.join_job(KEY.0, Pollers::UNKNOWN).expect("a listener");
            Engine::new(tcp, Core::new(16))
        });
        let cards = [0, 1].map(|i: usize| {
            let mut card = CardWriter::new();
            NodeSection::of_this_process().expect("a node").emit(&mut card).expect("a section");
            engines[i].netmod.business_card(&mut card).expect("a section");
            Card::parse(&card.finish()).expect("a card")
        });
        let vcs = [0, 1].map(|i: usize| {
            let e = &mut engines[i];
            let vc = e.core.add_vc(Vc::new(name(1 - i as u32), 0));
            let peer = 1 - i;
            e.netmod.vc_init(&mut e.core, vc, name(peer as u32), Some(&cards[peer])).expect("vc_init");
            vc
        });
        let mut two = Two { engines, layers: Default::default(), vcs, start: Instant::now() };
        two.connect();
        two
    }

    /// A message makes the connection.
    pub(crate) fn connect(&mut self) {
        let (vc, before) = (self.vcs[0], self.layers[1].packets);
        let e = &mut self.engines[0];
        let data = netmod_core::Segment::empty().send_buf().expect("no data");
        e.netmod.i_start_contig_msg(&mut e.core, vc, &[1; 32], data).expect("a message");
        self.until("they are connected", |two| two.layers[1].packets > before);
    }

    pub(crate) fn step(&mut self) {
        for i in 0..2 {
            self.step_one(i);
        }
    }

    pub(crate) fn step_one(&mut self, i: usize) {
        let now = Time::ZERO + self.start.elapsed();
        self.engines[i].progress(&mut self.layers[i], PollOrder::OutFirst, now).expect("progress");
    }

    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Two) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !done(self) {
            assert!(Instant::now() < end, "timed out waiting until {what}: {}", self.describe());
            self.step();
        }
    }

    pub(crate) fn describe(&self) -> String {
        let [a, b] = [0, 1].map(|i| self.engines[i].netmod.describe(&self.engines[i].core, self.vcs[i]));
        format!("{a}; {b}")
    }

    /// Both sides dial their rails, and have them.
    fn lay(&mut self) {
        for i in 0..2 {
            let e = &mut self.engines[i];
            e.netmod.usable(&e.core, self.vcs[i]).expect("rails");
        }
        self.until("rails are there", |two| {
            [0, 1].iter().all(|&i| two.engines[i].netmod.rails_up(two.vcs[i]) == RAILS)
        });
    }

    #[allow(unsafe_code)]
    fn register(&mut self, i: usize, mem: &mut [u8], access: Access) -> (RegionId, RemoteKey) {
        // SAFETY: the tests keep the memory beyond their last poll, and both netmods move data in
        // polls only, on this thread.
        let mem = unsafe { RmaBuf::new(mem.as_mut_ptr(), mem.len()) };
        let e = &mut self.engines[i];
        e.netmod.register(&mut e.core, self.vcs[i], mem, access).expect("a registration")
    }

    fn deregister(&mut self, i: usize, region: RegionId) {
        let e = &mut self.engines[i];
        e.netmod.deregister(&mut e.core, region).expect("a live region");
    }

    fn put(&mut self, local: RegionId, key: &RemoteKey, len: usize, op: u64) {
        let e = &mut self.engines[0];
        let rma = RmaOp { vc: self.vcs[0], local, at: 0, key, remote_at: 0, len, op };
        e.netmod.put(&mut e.core, &rma).expect("a put");
    }

    fn ended(&mut self, op: u64) -> Result<(), String> {
        self.until("a put has ended", |two| two.layers[0].ended.iter().any(|e| e.0 == op));
        let all: Vec<_> = self.layers[0].ended.iter().filter(|e| e.0 == op).collect();
        assert_eq!(all.len(), 1, "a put ends once");
        all[0].1.clone()
    }
}

fn data(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed).wrapping_mul(0x9e37_79b1) >> 11) as u8).collect()
}

#[test]
fn a_put_is_there_when_it_has_ended() {
    for (checksum, security) in [(false, "off"), (true, "off"), (false, "auth"), (true, "encrypt")] {
        let mut two = Two::new(|cfg| (cfg.checksum, cfg.security) = (checksum, security));
        two.lay();
        for (op, len) in [1, 4095, 100_000, 3_000_001, 0, 20 << 20].into_iter().enumerate() {
            let (mut from, mut to) = (data(len, op), vec![0; len]);
            let (local, _) = two.register(0, &mut from, Access::Local);
            let (region, key) = two.register(1, &mut to, Access::RemoteWrite);
            two.put(local, &key, len, op as u64);
            assert_eq!(two.ended(op as u64), Ok(()));
            two.deregister(0, local);
            two.deregister(1, region);
            assert!(from == to, "{len} bytes");
        }
        let stats = two.engines.each_ref().map(|e| e.netmod.stats());
        assert_eq!((stats[0].rail_tx_bytes, stats[0].rail_resent), (stats[1].rail_rx_bytes, 0));
        let text = two.describe();
        assert!(
            text.contains("rail 2 to 127.0.0.1") && text.contains("3 rails of the peer's open"),
            "{text}"
        );
    }
}

/// A region that has ended is not written any more, however much is under way to it; the sender
/// hears of it.
#[test]
fn a_region_that_ends_in_the_middle_is_not_written_any_more() {
    let len = 30 << 20;
    for (polls, security) in (0..12).map(|n| (n, "off")).chain((0..8).map(|n| (n, "encrypt"))) {
        let mut two = Two::new(|cfg| cfg.security = security);
        two.lay();
        let (mut from, mut to) = (vec![1; len], vec![0; len]);
        let (local, _) = two.register(0, &mut from, Access::Local);
        let (region, key) = two.register(1, &mut to, Access::RemoteWrite);
        two.put(local, &key, len, 5);
        for _ in 0..polls {
            two.step();
        }
        two.deregister(1, region);
        let there = to.clone();
        let result = two.ended(5);
        assert!(result.is_err(), "after {polls} polls: {result:?}");
        for _ in 0..200 {
            two.step();
        }
        assert!(there == to, "written behind the end, after {polls} polls");
        two.deregister(0, local);
        // The rails that had to be given up are made again, and all goes on.
        two.lay();
        let (local, _) = two.register(0, &mut from, Access::Local);
        let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
        two.put(local, &key, len, 6);
        assert_eq!(two.ended(6), Ok(()));
        assert!(from == to);
    }
}

/// The sender's memory is not read any more when its registration has ended, and nothing else comes
/// in its place.
#[test]
fn memory_that_is_taken_back_in_the_middle_is_not_sent_any_more() {
    for (polls, security) in (0..12).map(|n| (n, "off")).chain((0..8).map(|n| (n, "auth"))) {
        // With little room in the kernel rails are in the middle of chunks, and everything takes
        // longer.
        let (sndbuf, len) = if polls % 2 == 0 { (32 << 10, 6 << 20) } else { (0, 30 << 20) };
        let mut two = Two::new(|cfg| (cfg.sndbuf, cfg.security) = (sndbuf, security));
        two.lay();
        let (mut from, mut to) = (vec![1; len], vec![0; len]);
        let (local, _) = two.register(0, &mut from, Access::Local);
        let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
        two.put(local, &key, len, 5);
        for _ in 0..polls {
            two.step();
        }
        two.deregister(0, local);
        from.fill(2);
        assert!(two.ended(5).is_err(), "after {polls} polls");
        let mut other = data(len, 1);
        let mut there = vec![0; len];
        let (local, _) = two.register(0, &mut other, Access::Local);
        let (_, second) = two.register(1, &mut there, Access::RemoteWrite);
        two.put(local, &second, len, 6);
        assert_eq!(two.ended(6), Ok(()));
        assert!(other == there, "after {polls} polls");
        assert!(to.iter().all(|b| *b < 2), "read behind the end, after {polls} polls");
    }
}

/// Every rail breaks again and again, in the middle of chunks and of acknowledgements.
#[test]
fn rails_that_break_lose_nothing() {
    let len = 24 << 20;
    let kinds = [(false, "off"), (true, "off"), (false, "encrypt"), (false, "auth")];
    for (seed, (checksum, security)) in kinds.into_iter().enumerate() {
        let mut two = Two::new(|cfg| (cfg.checksum, cfg.security) = (checksum, security));
        two.lay();
        let (mut from, mut to) = (data(len, seed), vec![0; len]);
        let (local, _) = two.register(0, &mut from, Access::Local);
        let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
        two.put(local, &key, len, 5);
        let (mut polls, mut broken) = (seed, 0);
        while two.layers[0].ended.is_empty() {
            polls += 1;
            if polls % 2 == 0 && broken < 40 {
                let vc = two.vcs[0];
                broken +=
                    usize::from(two.engines[0].netmod.sever_rail(vc, polls / 2 % RAILS).expect("sever"));
            }
            two.step();
        }
        assert_eq!(two.ended(5), Ok(()));
        assert!(from == to);
        let stats = two.engines[0].netmod.stats();
        assert!(broken > 3 && stats.rail_resent > 0 && stats.rail_faults == 0, "{broken} {stats:?}");
        assert!(two.layers.iter().all(|l| l.down.is_none()));
    }
}

/// A put begins before there is any rail, and while none of them can be dialled the VC's own route
/// is taken.
#[test]
fn a_put_waits_for_rails() {
    let mut two = Two::new(|_| {});
    let len = 3 << 20;
    let (mut from, mut to) = (data(len, 3), vec![0; len]);
    let (local, _) = two.register(0, &mut from, Access::Local);
    let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
    two.put(local, &key, len, 5);
    assert_eq!(two.ended(5), Ok(()));
    assert!(from == to);
    // Nobody has the addresses by which they are dialled now.
    let bad = std::net::IpAddr::from([203, 0, 113, 9]);
    for route in &mut two.engines[0].netmod.rails.loopback {
        route.via.as_mut().expect("interfaces").from = bad;
    }
    to.fill(0);
    two.put(local, &key, len, 6);
    assert_eq!(two.ended(6), Ok(()));
    assert!(from == to);
    let vc = two.vcs[0];
    assert!(two.engines[0].netmod.rails_up(vc) == 1, "{}", two.describe());
    let e = &mut two.engines[0];
    assert!(!e.netmod.usable(&e.core, vc).expect("rails").puts.is_now(), "there are no two of them");
}

#[test]
fn puts_end_with_their_vc() {
    for polls in [0, 1, 3, 10] {
        let mut two = Two::new(|_| {});
        two.lay();
        let len = 30 << 20;
        let (mut from, mut to) = (vec![1; len], vec![0; len]);
        let (local, _) = two.register(0, &mut from, Access::Local);
        let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
        two.put(local, &key, len, 5);
        for _ in 0..polls {
            two.step();
        }
        let vc = two.vcs[1];
        let gone = netmod_core::VcError::new(netmod_core::VcErrorKind::Aborted, None, "the test says so");
        let e = &mut two.engines[1];
        e.netmod.vc_abort(&mut e.core, vc, gone);
        assert!(two.ended(5).is_err());
        let open = two.engines.each_ref().map(|e| e.netmod.connections());
        assert_eq!(open, [0, 0], "after {polls} polls");
        let e = &mut two.engines[0];
        let rma = RmaOp { vc: two.vcs[0], local, at: 0, key: &key, remote_at: 0, len, op: 6 };
        assert!(e.netmod.put(&mut e.core, &rma).is_err());
        e.netmod.deregister(&mut e.core, local).expect("still registered");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut two = Two::new(|_| {});
    let mut mem = vec![0; 100];
    let (local, key) = two.register(0, &mut mem, Access::Local);
    let (vc, e) = (two.vcs[0], &mut two.engines[0]);
    let mut put = |local, at, key: &RemoteKey, to, len| {
        e.netmod
            .put(&mut e.core, &RmaOp { vc, local, at, key, remote_at: to, len, op: 1 })
            .expect_err("a put that cannot be")
            .to_string()
    };
    assert!(put(local, 1, &key, 0, 100).contains("this side's region"));
    assert!(put(local, usize::MAX, &key, 0, 2).contains("this side's region"));
    assert!(put(RegionId(99), 0, &key, 0, 1).contains("this side's region"));
    assert!(put(local, 0, &key, 1, 100).contains("the peer's region"));
    assert!(put(local, 0, &RemoteKey::of([1; 3]), 0, 1).contains("key"));
    let rma = RmaOp { vc, local, at: 0, key: &key, remote_at: 0, len: 1, op: 1 };
    assert!(e.netmod.get(&mut e.core, &rma).is_err());
    assert!(e.netmod.register(&mut e.core, vc, RmaBuf::EMPTY, Access::RemoteRead).is_err());
    e.netmod.deregister(&mut e.core, local).expect("registered");
    assert!(e.netmod.deregister(&mut e.core, local).is_err());
}

/// The parameters of the first process for a rail to the second one.
pub(crate) fn a_rail() -> InitiatorParams {
    InitiatorParams {
        me: name(0),
        peer: name(1),
        purpose: Purpose::Rail { number: 0 },
        versions: Versions::OURS,
        caps: 0,
        incarnation: 1,
        dial: 1,
        session: 0,
        position: 0,
        terms: Pairs::default().terms(),
        key: KEY,
    }
}

/// A rail of the first process's by hand: what it says and hears.
pub(crate) struct Liar(TcpStream);

impl Liar {
    /// Dials the second process; `incarnation` as it says. Whether it is taken.
    fn dial(two: &mut Two, incarnation: u64) -> Result<Liar, String> {
        Liar::dial_with(two, incarnation, Pairs::default().terms())
    }

    fn dial_with(two: &mut Two, incarnation: u64, terms: Terms) -> Result<Liar, String> {
        let (mut liar, mut initiator) = Liar::greet(two, InitiatorParams { incarnation, terms, ..a_rail() });
        loop {
            let bytes =
                liar.hear(two, 1).map_err(|e| format!("the end from {:?}: {e}", initiator.sender()))?;
            let step = initiator.on_bytes(&bytes).expect("a handshake").1;
            answered(&step).expect("what a netmod takes");
            match step {
                InitiatorStep::NeedMore => {}
                InitiatorStep::Prove(proof) => liar.0.write_all(proof.as_bytes()).expect("room"),
                InitiatorStep::Accepted { .. } => break,
                InitiatorStep::Rejected { reason, .. } => return Err(reason.to_string()),
            }
        }
        liar.0.write_all(initiator.ready().expect("accepted").as_bytes()).expect("room");
        Ok(liar)
    }

    /// Connects, and says HELLO.
    pub(crate) fn greet(two: &Two, params: InitiatorParams) -> (Liar, Initiator) {
        let to: SocketAddr = two.engines[1].netmod.addresses()[0];
        let stream = TcpStream::connect(to).expect("a listener");
        stream.set_nonblocking(true).expect("a socket");
        let (initiator, hello) = Initiator::new(params, crate::sys::random().expect("random bytes"));
        let mut liar = Liar(stream);
        liar.0.write_all(hello.as_bytes()).expect("room");
        (liar, initiator)
    }

    /// Reads that many bytes, or up to the end.
    pub(crate) fn hear(&mut self, two: &mut Two, n: usize) -> Result<Vec<u8>, ErrorKind> {
        let end = Instant::now() + Duration::from_secs(60);
        let mut got = vec![0; n];
        let mut have = 0;
        while have < n {
            assert!(Instant::now() < end, "nothing is heard");
            match self.0.read(&mut got[have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof),
                Ok(more) => have += more,
                Err(e) if e.kind() == ErrorKind::WouldBlock => two.step_one(1),
                Err(e) => return Err(e.kind()),
            }
        }
        Ok(got)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("room");
    }

    fn say(&mut self, head: ChunkHeader, data: &[u8]) {
        self.0.write_all(&[&head.emit(), data].concat()).expect("room");
    }

    fn ack(&mut self, two: &mut Two) -> Result<Ack, ErrorKind> {
        let bytes = self.hear(two, ACK)?;
        Ok(Ack::parse(bytes.as_slice().try_into().expect("the length")).expect("an acknowledgement"))
    }
}

/// A HELLO of another length than this netmod's is not worth a CHALLENGE.
#[test]
fn who_says_other_terms_than_pairs_is_dropped_before_it_is_challenged() {
    let mut two = Two::new(|_| {});
    let incarnation = two.engines[0].netmod.id.incarnation();
    let unauthenticated = two.engines[1].netmod.stats().unauthenticated;
    let too_many = {
        let mut terms = [0; PAIRS_LEN];
        terms[8] = crate::pairs::MAX_PAIRS as u8 + 1;
        Terms::from(terms)
    };
    let others = [Terms::default(), Terms::from([0; 80]), Terms::from([0; 400]), too_many];
    for (i, terms) in others.into_iter().enumerate() {
        let end = Liar::dial_with(&mut two, incarnation, terms).err().expect("dropped");
        assert!(end.starts_with("the end from Unauthenticated"), "{end}");
        assert_eq!(two.engines[1].netmod.stats().unauthenticated, unauthenticated + i as u64 + 1);
    }
}

/// The length of every REJECT of this netmod: other releases of it take no other length.
#[test]
fn an_unauthenticated_peer_gets_a_reject_with_room_for_pairs() {
    let mut two = Two::new(|_| {});
    let (mut liar, mut initiator) = Liar::greet(&two, InitiatorParams { peer: name(7), ..a_rail() });
    let len = HEADER_LEN + 8 + PAIRS_LEN + 32;
    let bytes = liar.hear(&mut two, len).expect("a REJECT");
    let (used, step) = initiator.on_bytes(&bytes).expect("a handshake");
    let reason = RejectReason::WrongPeer;
    assert_eq!(
        (used, step),
        (len, InitiatorStep::Rejected { reason, proved: false, terms: Terms::default() })
    );
    assert_eq!(liar.hear(&mut two, 1), Err(ErrorKind::UnexpectedEof));
}

#[test]
fn a_peer_that_lies_harms_nothing() {
    let mut two = Two::new(|_| {});
    let incarnation = two.engines[0].netmod.id.incarnation();
    let mut to = vec![0; 1000];
    let (region, key) = two.register(1, &mut to, Access::RemoteWrite);
    let mut own = vec![0; 1000];
    let (private, _) = two.register(1, &mut own, Access::Local);
    assert!(Liar::dial(&mut two, incarnation ^ 1).is_err(), "of another incarnation");
    let number = read_key(&key).expect("a key").0;
    let good = ChunkHeader { number: 0, region: number, at: 0, len: 100, crc: None };

    let mut liar = Liar::dial(&mut two, incarnation).expect("a rail");
    liar.say(good, &[1; 100]);
    assert_eq!(liar.ack(&mut two), Ok(Ack { number: 0, len: 100, taken: true }));
    // A region that never was: its data goes nowhere.
    liar.say(ChunkHeader { number: 1, region: 12345, ..good }, &[2; 100]);
    assert_eq!(liar.ack(&mut two), Ok(Ack { number: 1, len: 100, taken: false }));
    liar.say(ChunkHeader { number: 2, at: 900, ..good }, &[3; 100]);
    assert_eq!(liar.ack(&mut two), Ok(Ack { number: 2, len: 100, taken: true }));

    // Each of these ends its rail; what was good between them keeps the VC.
    let nonsense = [
        ChunkHeader { at: 901, ..good },
        ChunkHeader { at: u64::MAX, ..good },
        ChunkHeader { len: 1001, ..good },
        ChunkHeader { number: 7, ..good },
        ChunkHeader { region: private.0, ..good },
        ChunkHeader { len: u32::MAX, ..good },
        ChunkHeader { crc: Some(1), ..good },
    ];
    for (i, bad) in nonsense.into_iter().enumerate() {
        let mut liar = Liar::dial(&mut two, incarnation).expect("a rail");
        if bad.number == 0 && bad.crc.is_none() {
            liar.say(good, &[1; 100]);
            assert!(liar.ack(&mut two).is_ok());
            liar.say(ChunkHeader { number: 1, ..bad }, &[4; 100]);
        } else if bad.crc.is_some() {
            liar.say(good, &[1; 100]);
            assert!(liar.ack(&mut two).is_ok());
            liar.say(ChunkHeader { number: 1, at: 500, ..bad }, &[5; 100]);
        } else {
            liar.say(bad, &[4; 100]);
        }
        assert!(liar.ack(&mut two).is_err(), "{bad:?}");
        assert_eq!(two.engines[1].netmod.stats().rail_faults, i as u64 + 1);
    }
    assert!(!to[..100].contains(&4) && !to[900..].contains(&4) && own == vec![0; 1000]);
    assert_eq!((to[0], to[899], to[900]), (1, 0, 3));
    assert!(two.layers[1].down.is_none());

    // Nothing but nonsense ends the VC, which says whose it was.
    for _ in 0..3 {
        if let Ok(mut liar) = Liar::dial(&mut two, incarnation) {
            liar.0.write_all(&[0xff; HEADER]).expect("room");
            assert!(liar.ack(&mut two).is_err());
        }
    }
    let down = two.layers[1].down.clone().expect("the VC is down");
    assert!(down.contains("rank 0") && down.contains("header"), "{down}");
    two.deregister(1, region);
}

/// A responder that acknowledges what it was never sent.
#[test]
fn acknowledgements_of_nothing_end_the_rail() {
    let mut two = Two::new(|_| {});
    two.lay();
    let len = 1 << 20;
    let (mut from, mut to) = (data(len, 3), vec![0; len]);
    let (local, _) = two.register(0, &mut from, Access::Local);
    let (_, key) = two.register(1, &mut to, Access::RemoteWrite);
    for rail in 0..2 {
        let id = two.engines[1].netmod.rails.vcs.get(two.vcs[1]).expect("rails").inc[rail];
        let ack = Ack { number: 0, len: 4096, taken: true };
        two.engines[1].netmod.sockets.write_out(id, &ack.emit());
    }
    two.until("they are noticed", |two| two.engines[0].netmod.stats().rail_faults == 2);
    two.put(local, &key, len, 5);
    assert_eq!(two.ended(5), Ok(()));
    assert!(from == to);
}

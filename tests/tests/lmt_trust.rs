//! Peers that make nonsense of large messages: rings that are none or are garbled, and cookies of
//! Put and Get in any order. The device takes no harm, ends what was under way, leaves nothing
//! registered, and goes on with its other peers.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use ch3_shim::pkt::{CookieLen, Packet};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{Device, Error, Request};
use netmod_core::Segment;
use netmod_core::config::SPIN_MANY;
use netmod_core::rma::RemoteKey;
use netmod_lmt::cookie::{Cookie, Keyed, Offer, RingName, ShmDomain};
use netmod_lmt::coop::{Consumer, Producer, shm_domain};
use netmod_lmt::{Mode, Modes, Window};
use netmod_tests::conformance::pattern;
use netmod_tests::loopback::Rng;
use netmod_tests::scripted::{Script, parse};
use netmod_tests::sys::Area;

/// Length of each message. It has four windows.
const BYTES: usize = 1_000_000;
const TOTAL: u64 = BYTES as u64;
/// A request of a peer's.
const THEIRS: u64 = 7 << 32;

fn device(mode: &'static str) -> (Script, Device) {
    Script::device_with(3, true, None, |cfg| {
        cfg.eager_max = 0;
        cfg.lmt = mode;
    })
}

/// Polls of a device that waits for its message to be taken, until it blocks.
fn polls_of_a_wait(mode: &'static str, answer: impl FnOnce(u64) -> Vec<u8>) -> u64 {
    let (script, mut dev) = device(mode);
    let send = isend(&mut dev, 1);
    script.play(&mut dev);
    let (sreq, _) = announced(&script, 1);
    script.send_at_nap(1, &answer(sreq));
    dev.wait(send).expect("a send");
    script.polls()
}

#[test]
fn a_device_whose_memory_is_being_read_stays_awake() {
    let null = polls_of_a_wait("null", |sreq| cts(sreq, TOTAL)(CookieLen::NONE).emit().to_vec());
    assert_eq!(null, u64::from(SPIN_MANY));
    let get = polls_of_a_wait("get", |sreq| Packet::Done { req: sreq }.emit().to_vec());
    assert!(get > u64::from(SPIN_MANY) * 10, "{get} polls");
}

/// A packet with its cookie.
fn with(packet: impl Fn(CookieLen) -> Packet, cookie: &Cookie) -> Vec<u8> {
    let bytes = cookie.emit();
    let len = CookieLen::new(bytes.len()).expect("a cookie that a packet takes");
    [&packet(len).emit()[..], &bytes].concat()
}

fn cookie_of(data: &[u8]) -> Cookie {
    Cookie::parse(data).expect("a cookie of the device")
}

fn cts(sreq: u64, data_sz: u64) -> impl Fn(CookieLen) -> Packet {
    move |cookie_len| Packet::Cts { sreq, rreq: THEIRS, data_sz, cookie_len }
}

fn isend(dev: &mut Device, to: i32) -> Request {
    let world = dev.world();
    dev.isend(pattern(1, BYTES), to, 1, world).expect("isend")
}

/// The announcement that a peer was sent last: the request, and what was offered.
fn announced(script: &Script, rank: u32) -> (u64, Option<Offer>) {
    let mut found = None;
    for (packet, data) in parse(&script.received(rank)) {
        if let Packet::Rts { sreq, .. } = packet {
            let offer = match (data.is_empty()).then_some(()) {
                Some(()) => None,
                None => match cookie_of(&data) {
                    Cookie::Offer(offer) => Some(offer),
                    other => panic!("{other:?}"),
                },
            };
            found = Some((sreq, offer));
        }
    }
    found.expect("an announcement")
}

/// A peer announces a message, with an offer.
fn announce(script: &Script, rank: u32, offer: Offer) {
    let env = Envelope::new(0, rank as i32, 1);
    let rts = |cookie_len| Packet::Rts { env, sync: false, sreq: THEIRS, data_sz: TOTAL, cookie_len };
    script.send(rank, &with(rts, &Cookie::Offer(offer)));
}

/// The answer to an announcement: the device's request, and the cookie of CTS.
fn granted(script: &Script, rank: u32) -> Option<(u64, Option<Cookie>)> {
    let mut found = None;
    for (packet, data) in parse(&script.received(rank)) {
        if let Packet::Cts { rreq, .. } = packet {
            found = Some((rreq, (!data.is_empty()).then(|| cookie_of(&data))));
        }
    }
    found
}

/// A ring's file, as its maker or finder has it open.
fn garble(name: RingName) {
    let fd = u32::from_le_bytes(name.0[4..8].try_into().expect("four bytes"));
    let file = OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}")).expect("a ring's file");
    file.write_all_at(&[0xff; 4088], 0).expect("positions that cannot be");
}

/// Rank 2 gets a message and sends one, whatever rank 1 has done.
fn others_go_on(script: &Script, dev: &mut Device) {
    let world = dev.world();
    let send = isend(dev, 2);
    script.play(dev);
    let (sreq, _) = announced(script, 2);
    script.send(2, &cts(sreq, TOTAL)(CookieLen::NONE).emit());
    script.play(dev);
    dev.wait(send).expect("a send to another rank");
    let receive = dev.irecv(vec![0; 8], 2, 1, world).expect("irecv");
    let rts = Packet::Rts {
        env: Envelope::new(0, 2, 1),
        sync: false,
        sreq: THEIRS,
        data_sz: 8,
        cookie_len: CookieLen::NONE,
    };
    script.received(2);
    script.send(2, &rts.emit());
    script.play(dev);
    let (rreq, _) = granted(script, 2).expect("an answer");
    script.send(2, &[&Packet::RndvData { rreq, len: 8 }.emit()[..], &[5; 8]].concat());
    script.play(dev);
    assert_eq!(dev.wait(receive).expect("a receive from another rank").buffer, [5; 8]);
}

#[track_caller]
fn is_lost(script: &Script, dev: &mut Device, req: Request, what: &str) {
    match dev.wait(req).map_err(ch3_shim::Error::from) {
        Err(Error::Peer(e)) => {
            assert!(e.peer().is_some_and(|p| p.rank == 1) && e.to_string().contains(what), "{e}");
        }
        other => panic!("{other:?}"),
    }
    assert!(script.is_down(1));
    assert_eq!(script.regions().live(), 0);
    others_go_on(script, dev);
}

#[test]
fn a_ring_that_cannot_be_mapped_is_refused_once() {
    let (script, mut dev) = device("coop");
    let send = isend(&mut dev, 1);
    script.play(&mut dev);
    let (sreq, offer) = announced(&script, 1);
    assert!(offer.expect("an offer").modes.has(Mode::Coop));
    let nowhere = RingName([9; 16]);
    script.send(1, &with(cts(sreq, TOTAL), &Cookie::GrantCoop(nowhere)));
    script.play(&mut dev);
    let answers = parse(&script.received(1));
    let refusals = answers.iter().filter(|(p, d)| {
        matches!(p, Packet::Cookie { from_sender: true, .. }) && cookie_of(d) == Cookie::Refuse
    });
    assert_eq!(refusals.count(), 1, "{answers:?}");
    script.send(1, &cts(sreq, TOTAL)(CookieLen::NONE).emit());
    script.play(&mut dev);
    dev.wait(send).expect("the data goes otherwise");
    let data = parse(&script.received(1));
    assert!(matches!(&data[..], [(Packet::RndvData { .. }, d)] if *d == pattern(1, BYTES)));
    // This peer is not offered one again; others are.
    for (rank, offers) in [(1, false), (2, true)] {
        let _ = isend(&mut dev, rank);
        script.play(&mut dev);
        assert_eq!(announced(&script, rank as u32).1.is_some(), offers, "rank {rank}");
    }
}

/// No ring goes to a peer that cannot map it: on another node, or in another container.
#[test]
fn a_ring_is_granted_only_to_who_can_map_it() {
    let here = shm_domain().expect("shared memory");
    let elsewhere = [
        ShmDomain { boot: [1; 16], ..here },
        ShmDomain { device: here.device + 1, ..here },
        ShmDomain { pids: here.pids + 1, ..here },
        ShmDomain { user: here.user + 1, ..here },
    ];
    for (domain, near) in elsewhere.into_iter().map(|p| (p, false)).chain([(here, true)]) {
        let (script, mut dev) = device("coop");
        let world = dev.world();
        let receive = dev.irecv(vec![0; BYTES], 1, 1, world).expect("irecv");
        announce(&script, 1, Offer { modes: Modes::NULL.with(Mode::Coop), domain, first: None });
        script.play(&mut dev);
        let (_, cookie) = granted(&script, 1).expect("an answer");
        assert_eq!(cookie.is_some(), near, "{domain:?}");
        script.die(1);
        script.play(&mut dev);
        dev.wait(receive).expect_err("it is dead");
    }
}

#[test]
fn a_sender_gives_up_who_garbles_its_ring() {
    let (script, mut dev) = device("coop");
    let send = isend(&mut dev, 1);
    script.play(&mut dev);
    let (sreq, _) = announced(&script, 1);
    let ring = Consumer::create(false).expect("a ring");
    script.send(1, &with(cts(sreq, TOTAL), &Cookie::GrantCoop(ring.name())));
    script.play(&mut dev);
    garble(ring.name());
    is_lost(&script, &mut dev, send, "ring");
}

#[test]
fn a_receiver_gives_up_who_garbles_its_ring() {
    let (script, mut dev) = device("coop");
    let world = dev.world();
    let receive = dev.irecv(vec![0; BYTES], 1, 1, world).expect("irecv");
    let domain = shm_domain().expect("shared memory");
    announce(&script, 1, Offer { modes: Modes::NULL.with(Mode::Coop), domain, first: None });
    script.play(&mut dev);
    let Some((_, Some(Cookie::GrantCoop(name)))) = granted(&script, 1) else { panic!("no ring") };
    let mut end = Producer::open(name).expect("the device's ring");
    let memory = Area::new(pattern(1, 1000));
    let mut seg: Segment = memory.contig();
    assert_eq!(end.fill(&mut seg, 1000), Ok(1000));
    garble(name);
    is_lost(&script, &mut dev, receive, "ring");
}

/// A window of a peer's, which says so.
fn window(index: u32, at: u64, len: u64) -> Keyed {
    Keyed { window: Window { index, at, len }, key: RemoteKey::of([3; 8]) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The VC goes down.
    Lost,
    /// The message fails, and the VC lives.
    Failed,
    /// The device wants it, or sends it, as a message.
    Null,
}

/// Words of peers to a sender that offers to be read.
#[test]
fn a_sender_that_is_read_believes_nothing() {
    let cookie =
        |sreq| move |cookie_len| Packet::Cookie { from_sender: false, sreq, rreq: THEIRS, cookie_len };
    type Says = fn(u64) -> Vec<u8>;
    let cases: &[(Says, End)] = &[
        (|_| Vec::new(), End::Failed),
        (|s| with(cts(s, TOTAL), &Cookie::GrantPut(window(0, 0, TOTAL))), End::Lost),
        (|s| cts(s, TOTAL + 1)(CookieLen::NONE).emit().to_vec(), End::Lost),
        (|s| cts(s, 10)(CookieLen::NONE).emit().to_vec(), End::Null),
    ];
    let cookies = [
        (Cookie::WindowAck(1), End::Lost),
        (Cookie::WindowAck(u32::MAX), End::Lost),
        (Cookie::Window(window(0, 0, 1)), End::Lost),
        (Cookie::Refuse, End::Lost),
        (Cookie::Abort, End::Failed),
    ];
    let try_one = |what: &str, bytes: &dyn Fn(u64) -> Vec<u8>, begun: bool, end: End| {
        let (script, mut dev) = device("get");
        let send = isend(&mut dev, 1);
        script.play(&mut dev);
        let (sreq, offer) = announced(&script, 1);
        assert!(offer.and_then(|o| o.first).is_some_and(|k| k.window.len < TOTAL));
        assert_eq!(script.regions().live(), 1);
        if begun {
            script.send(1, &with(cookie(sreq), &Cookie::WindowAck(0)));
        }
        let bytes = bytes(sreq);
        match bytes.is_empty() {
            true => script.die(1),
            false => script.send(1, &bytes),
        }
        script.play(&mut dev);
        assert_eq!(script.is_down(1), end == End::Lost || bytes.is_empty(), "{what}, begun: {begun}");
        let done = dev.wait(send);
        assert_eq!(done.is_ok(), end == End::Null, "{what}, begun: {begun}: {done:?}");
        assert_eq!((script.regions().live(), dev.live_requests()), (0, 0), "{what}, begun: {begun}");
        others_go_on(&script, &mut dev);
    };
    for begun in [false, true] {
        for (i, (says, end)) in cases.iter().enumerate() {
            try_one(&format!("case {i}"), says, begun, *end);
        }
        for (said, end) in &cookies {
            // Having begun, it has moved the first window by then: the second one is registered.
            let end = if begun && *said == Cookie::WindowAck(1) { continue } else { *end };
            try_one(&format!("{said:?}"), &|sreq| with(cookie(sreq), said), begun, end);
        }
    }
}

/// Words of peers to a receiver that is written.
#[test]
fn a_receiver_that_is_written_believes_nothing() {
    let cookie =
        |rreq| move |cookie_len| Packet::Cookie { from_sender: true, sreq: THEIRS, rreq, cookie_len };
    let cases = [
        (None, End::Failed),
        (Some(Cookie::WindowAck(2)), End::Lost),
        (Some(Cookie::Window(window(0, 0, 9))), End::Lost),
        (Some(Cookie::Abort), End::Failed),
        (Some(Cookie::Refuse), End::Null),
    ];
    // The first time it says DONE, and the second time it dies.
    let cases = cases.iter().take(1).map(|c| (c, true)).chain(cases.iter().map(|c| (c, false)));
    for (i, ((says, end), done)) in cases.enumerate() {
        let end = if done { End::Lost } else { *end };
        let (script, mut dev) = device("put");
        let world = dev.world();
        let receive = dev.irecv(vec![0; BYTES], 1, 1, world).expect("irecv");
        let offer = Offer { modes: Modes::NULL.with(Mode::Put), domain: ShmDomain::default(), first: None };
        announce(&script, 1, offer);
        script.play(&mut dev);
        let Some((rreq, Some(Cookie::GrantPut(first)))) = granted(&script, 1) else { panic!("no window") };
        assert!(first.window.len < TOTAL);
        assert_eq!(script.regions().live(), 1);
        match says {
            None if done => script.send(1, &Packet::Done { req: rreq }.emit()),
            None => script.die(1),
            Some(said) => script.send(1, &with(cookie(rreq), said)),
        }
        script.play(&mut dev);
        assert_eq!(script.is_down(1), end == End::Lost || says.is_none(), "case {i}");
        if end == End::Null {
            let (rreq, none) = granted(&script, 1).expect("another answer");
            assert_eq!(none, None);
            script.send(1, &[&Packet::RndvData { rreq, len: TOTAL }.emit()[..], &pattern(1, BYTES)].concat());
            script.play(&mut dev);
        }
        assert_eq!(dev.wait(receive).is_ok(), end == End::Null, "case {i}");
        assert_eq!((script.regions().live(), dev.live_requests()), (0, 0), "case {i}");
        others_go_on(&script, &mut dev);
    }
}

/// Words of peers to a receiver that reads them.
#[test]
fn a_receiver_that_reads_believes_nothing() {
    let next = |rreq, keyed| {
        let cookie = |cookie_len| Packet::Cookie { from_sender: true, sreq: THEIRS, rreq, cookie_len };
        with(cookie, &Cookie::Window(keyed))
    };
    // First windows, what follows them, and the end.
    let cases = [
        // A first window that is none: the data is wanted as a message.
        (window(0, 5, 100), None, End::Null),
        (window(1, 0, 100), None, End::Null),
        (window(0, 0, 1000), Some(window(2, 1000, 10)), End::Lost),
        (window(0, 0, 1000), Some(window(1, 999, 10)), End::Lost),
        (window(0, 0, 1000), Some(window(0, 0, 1000)), End::Lost),
    ];
    for (first, second, end) in cases {
        let (script, mut dev) = device("get");
        let world = dev.world();
        let receive = dev.irecv(vec![0; BYTES], 1, 1, world).expect("irecv");
        let modes = Modes::NULL.with(Mode::Get);
        announce(&script, 1, Offer { modes, domain: ShmDomain::default(), first: Some(first) });
        script.play(&mut dev);
        let sent = parse(&script.received(1));
        if end == End::Null {
            assert!(sent.iter().any(|(p, d)| matches!(p, Packet::Cts { .. }) && d.is_empty()), "{first:?}");
            script.die(1);
        } else {
            let mine = sent.iter().find_map(|(p, _)| match p {
                Packet::Cookie { rreq, .. } => Some(*rreq),
                _ => None,
            });
            script.send(1, &next(mine.expect("it has begun"), second.expect("another window")));
        }
        script.play(&mut dev);
        assert!(script.is_down(1), "{first:?}, {second:?}");
        dev.wait(receive).expect_err("a message that never comes");
        assert_eq!((script.regions().live(), dev.live_requests()), (0, 0), "{first:?}, {second:?}");
        others_go_on(&script, &mut dev);
    }
}

/// Cookies at random, to whatever requests there are, until the VC is given up or the peer dies.
#[test]
fn random_cookies_leave_nothing_behind() {
    let (mut lost, mut moved) = (0, 0);
    for seed in 0..150u64 {
        let mut rng = Rng::seeded(seed, 0);
        let mode = ["put", "get", "auto"][rng.below(3)];
        let (script, mut dev) = device(mode);
        let world = dev.world();
        let mut reqs = Vec::new();
        // Requests of the device, as it has named them.
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            reqs.push(dev.irecv(vec![0; BYTES], 1, 1, world).expect("irecv"));
            reqs.push(isend(&mut dev, 1));
        }
        for _ in 0..2 + rng.below(12) {
            let index = rng.below(4) as u32;
            let keyed = |index: u32| window(index, u64::from(index) * 250_000, 250_000);
            // Now and then of the other kind, or of nobody.
            let from_sender = rng.below(2) == 0;
            let ids = if from_sender != (rng.below(20) == 0) { &receives } else { &sends };
            let id = ids.get(rng.below(ids.len() + 1)).copied().unwrap_or(THEIRS);
            let (sreq, rreq) = if from_sender { (THEIRS, id) } else { (id, THEIRS) };
            let packet = |cookie_len| Packet::Cookie { from_sender, sreq, rreq, cookie_len };
            let bytes = match rng.below(12) {
                0..5 => {
                    let modes = Modes::of_bits(1 + rng.below(3) as u8).expect("a set of modes");
                    let first = modes.has(Mode::Get).then(|| keyed(0));
                    announce(&script, 1, Offer { modes, domain: ShmDomain::default(), first });
                    Vec::new()
                }
                5 => cts(sreq, TOTAL >> rng.below(2))(CookieLen::NONE).emit().to_vec(),
                6 => with(cts(sreq, TOTAL), &Cookie::GrantPut(keyed(0))),
                7 => with(packet, &Cookie::Window(keyed(index))),
                8 | 9 => with(packet, &Cookie::WindowAck(index / 2)),
                10 => with(packet, [&Cookie::Refuse, &Cookie::Abort, &Cookie::Wake][rng.below(3)]),
                _ => Packet::Done { req: id }.emit().to_vec(),
            };
            script.send(1, &bytes);
            // Now and then several at once, before moves have ended.
            if rng.below(3) > 0 {
                script.play(&mut dev);
            }
            for (packet, _) in parse(&script.received(1)) {
                match packet {
                    Packet::Rts { sreq, .. } => sends.push(sreq),
                    Packet::Cts { rreq, .. } | Packet::Cookie { from_sender: false, rreq, .. } => {
                        receives.push(rreq)
                    }
                    _ => {}
                }
            }
        }
        script.play(&mut dev);
        lost += u32::from(script.is_down(1));
        moved += dev.stats().one_sided;
        script.die(1);
        script.play(&mut dev);
        for req in reqs {
            // The outcome does not matter, only that there is one.
            let _ = dev.wait(req);
        }
        assert_eq!((script.regions().live(), dev.live_requests()), (0, 0), "seed {seed}");
    }
    assert!((20..140).contains(&lost), "{lost} of the peers were given up before they died");
    assert!(moved > 50, "{moved} messages have moved");
}

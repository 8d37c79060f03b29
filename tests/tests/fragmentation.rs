//! Any split of a valid stream of bytes gives the same messages: packets of all kinds, with and
//! without direct receives.

use ch3_shim::pkt::{CookieLen, Header, Mode, Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{Device, Error, RawReq, Status};
use netmod_core::{Datatype, Segment};
use netmod_tests::conformance::{check, pattern};
use netmod_tests::scripted::{Script, parse};
use netmod_tests::sys::Area;
use proptest::prelude::*;

/// Rank of the peer that speaks.
const PEER: u32 = 1;

fn env(tag: i32) -> Envelope {
    Envelope::new(0, PEER as i32, tag)
}

fn eager(out: &mut Vec<u8>, tag: i32, len: usize, mode: Mode) {
    out.extend(
        Packet::Eager { env: env(tag), mode, len: len as u32, sreq: 1000 + tag as u64, credit: 0 }.emit(),
    );
    out.extend(pattern(tag as u64, len));
}

fn short(out: &mut Vec<u8>, tag: i32, len: usize) {
    let data = ShortData::new(&pattern(tag as u64, len)).expect("a short message");
    out.extend(Packet::EagerShort { env: env(tag), ready: false, data }.emit());
}

fn rts(out: &mut Vec<u8>, tag: i32, len: u64) {
    let hdr: Header = Packet::Rts {
        env: env(tag),
        sync: false,
        sreq: 1000 + tag as u64,
        data_sz: len,
        cookie_len: CookieLen::NONE,
    }
    .emit();
    out.extend(hdr);
}

/// Messages that the device receives: tag, length, room, and two flags: the receive comes first,
/// its memory is strided.
const MESSAGES: [(i32, usize, usize, bool, bool); 17] = [
    (1, 5, 5, true, false),
    (2, 100, 120, true, false),
    (3, 300, 300, false, false),
    (4, 50, 50, true, false),
    (5, 60, 60, false, false),
    (6, 40, 40, true, true),
    (7, 0, 0, false, false),
    (8, 200, 200, true, false),
    (9, 180, 180, false, true),
    (10, 200, 50, true, false),
    (11, 12, 3, true, false),
    (12, 90, 96, true, true),
    (13, 150, 40, false, false),
    (14, 210, 77, true, false),
    (15, 0, 8, true, false),
    (16, 31, 0, true, false),
    (17, 17, 16, false, true),
];

/// A rendezvous that its sender takes back.
const TAKEN_BACK: i32 = 30;

fn first_stream() -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, len, ..) in MESSAGES {
        match tag {
            1 | 7 | 11 => short(&mut out, tag, len),
            4 | 5 | 13 => eager(&mut out, tag, len, Mode::Sync),
            6 => eager(&mut out, tag, len, Mode::Ready),
            8 | 9 | 14 => rts(&mut out, tag, len as u64),
            _ => eager(&mut out, tag, len, Mode::Standard),
        }
        if tag == 10 {
            rts(&mut out, TAKEN_BACK, 5000);
            out.extend(Packet::CancelReq { env: env(TAKEN_BACK), sreq: 1000 + TAKEN_BACK as u64 }.emit());
        }
    }
    out
}

/// The answers of the peer to what it was sent: data for each CTS, a CTS for each RTS, and so on.
fn answers(sent: &[(Packet, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (pkt, _) in sent {
        match *pkt {
            Packet::Cts { sreq, rreq, data_sz, .. } => {
                out.extend(Packet::RndvData { rreq, len: data_sz }.emit());
                out.extend(&pattern(sreq - 1000, data_sz as usize));
            }
            Packet::Rts { sreq, data_sz, .. } => {
                out.extend(
                    Packet::Cts { sreq, rreq: 7, data_sz: data_sz - 10, cookie_len: CookieLen::NONE }.emit(),
                );
            }
            Packet::Eager { mode: Mode::Sync, sreq, .. } => out.extend(Packet::EagerSyncAck { sreq }.emit()),
            Packet::CancelReq { sreq, .. } => out.extend(Packet::CancelResp { sreq, ack: true }.emit()),
            _ => {}
        }
    }
    out
}

/// All that can be seen of a run from outside. Two are equal whatever the way of the bytes.
#[derive(Debug)]
struct Seen {
    results: Vec<(Result<Status, Error>, Vec<u8>)>,
    /// Returns what the peer was sent, without request ids, which may differ.
    sent: Vec<String>,
    /// Bytes that went straight to the memory of a receive.
    direct: u64,
}

impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        (&self.results, &self.sent) == (&other.results, &other.sent)
    }
}

struct Receive {
    req: RawReq,
    area: Area,
}

fn post(dev: &mut Device, tag: i32, room: usize, strided: bool) -> Receive {
    let world = dev.world();
    let area = Area::new(vec![0xEE; room * 2 + 16]);
    let byte = Datatype::contiguous(1).expect("a byte");
    let stride = if strided { 2 } else { 1 };
    let ty = Datatype::vector(room, 1, stride, &byte).expect("a vector");
    let seg: Segment = area.typed(4, &ty, 1);
    Receive { req: dev.irecv_raw(seg, PEER as i32, tag, world).expect("irecv"), area }
}

/// Bytes to send. All sends share them, since areas are never freed.
fn outgoing(len: usize) -> Segment {
    thread_local! {
        static DATA: Area = Area::new(pattern(50, 1 << 20));
    }
    let run = Datatype::contiguous(len).expect("a run");
    DATA.with(|d| d.typed(0, &run, 1))
}

/// Delivers the streams in the pieces that `cut` makes of each, and looks at what comes of it.
fn run(direct: bool, mut cut: impl FnMut(&[u8], &mut dyn FnMut(&[u8]))) -> Seen {
    let (script, mut dev) = Script::device(2, direct);
    let world = dev.world();
    let mut receives: Vec<Option<Receive>> = MESSAGES
        .iter()
        .map(|&(tag, _, room, first, strided)| first.then(|| post(&mut dev, tag, room, strided)))
        .collect();
    let mut sent = Vec::new();
    let mut play = |dev: &mut Device, stream: &[u8]| {
        cut(stream, &mut |piece| script.send(PEER, piece));
        script.play(dev);
        assert!(!script.is_down(PEER), "a valid stream was taken for a violation");
        let new = parse(&script.received(PEER));
        let reply = answers(&new);
        sent.extend(new);
        reply
    };
    let mut reply = play(&mut dev, &first_stream());
    for (r, &(tag, _, room, _, strided)) in receives.iter_mut().zip(&MESSAGES) {
        r.get_or_insert_with(|| post(&mut dev, tag, room, strided));
    }
    let large = dev.config().eager_max + 1;
    let mut sends = Vec::new();
    for (len, mode) in [(20, Mode::Sync), (large, Mode::Standard), (0, Mode::Sync)] {
        sends.push(dev.isend_raw(outgoing(len), PEER as i32, 50, world, mode).expect("isend"));
    }
    let req = dev.isend_raw(outgoing(large), PEER as i32, 51, world, Mode::Standard).expect("isend");
    dev.cancel_raw(req);
    // The peer answers the CTS requests that came of the late receives, and all but the cancelled
    // RTS.
    let late = parse(&script.received(PEER));
    let kept: Vec<_> = late
        .iter()
        .filter(|(p, _)| !matches!(p, Packet::Rts { env, .. } if env.tag() == 51))
        .cloned()
        .collect();
    reply.extend(answers(&kept));
    sends.push(req);
    while !reply.is_empty() {
        reply = play(&mut dev, &reply);
    }
    sent.extend(late);
    let mut results = Vec::new();
    for r in receives.into_iter().flatten() {
        results.push((finish(&mut dev, r.req), r.area.bytes()));
    }
    for req in sends {
        results.push((finish(&mut dev, req), Vec::new()));
    }
    assert_eq!((dev.live_requests(), dev.unexpected_len(), dev.posted_len()), (0, 0, 0));
    assert_eq!(dev.report().iter().map(|v| v.stats.faults).sum::<u32>(), 0);
    let direct = dev.report().iter().map(|v| v.stats.rx_direct).sum();
    let mut sent: Vec<String> =
        sent.into_iter().map(|(p, data)| format!("{:?}, {} bytes", nameless(p), data.len())).collect();
    sent.sort();
    Seen { results, sent, direct }
}

fn finish(dev: &mut Device, req: RawReq) -> Result<Status, Error> {
    assert!(dev.is_finished(req), "a request is not finished though all has been delivered");
    dev.wait_raw(req)
}

/// A packet without the ids of this process.
fn nameless(p: Packet) -> Packet {
    match p {
        Packet::Cts { sreq, data_sz, cookie_len, .. } => Packet::Cts { sreq, rreq: 0, data_sz, cookie_len },
        Packet::Rts { env, sync, data_sz, cookie_len, .. } => {
            Packet::Rts { env, sync, sreq: 0, data_sz, cookie_len }
        }
        Packet::Eager { env, mode, len, .. } => Packet::Eager { env, mode, len, sreq: 0, credit: 0 },
        Packet::CancelReq { env, .. } => Packet::CancelReq { env, sreq: 0 },
        other => other,
    }
}

fn whole(direct: bool) -> Seen {
    run(direct, |stream, deliver| deliver(stream))
}

/// The reference run itself is right.
#[test]
fn the_stream_in_one_piece_gives_the_messages() {
    let seen = whole(false);
    for (&(tag, len, room, _, strided), (result, bytes)) in MESSAGES.iter().zip(&seen.results) {
        let got = len.min(room);
        match result {
            Ok(status) => assert_eq!((status.source, status.tag, status.len), (PEER as i32, tag, len)),
            Err(Error::Truncated { status, sent }) => {
                assert_eq!((status.tag, status.len, *sent), (tag, room, len as u64))
            }
            Err(other) => panic!("message {tag}: {other}"),
        }
        assert_eq!(result.is_err(), len > room, "message {tag}");
        let step = if strided { 2 } else { 1 };
        let data: Vec<u8> = bytes[4..].iter().copied().step_by(step).take(got).collect();
        check(tag as u64, &data);
        let touched = bytes.iter().filter(|b| **b != 0xEE).count();
        assert!(touched <= got, "message {tag} of {len} bytes touched {touched}");
    }
    let cancelled: Vec<bool> =
        seen.results[MESSAGES.len()..].iter().map(|(r, _)| r.as_ref().expect("a send").cancelled).collect();
    assert_eq!(cancelled, [false, false, false, true]);
    let of_kind = |name: &str| seen.sent.iter().filter(|s| s.starts_with(name)).count();
    assert_eq!(
        (of_kind("Cts"), of_kind("EagerSyncAck"), of_kind("CancelResp"), of_kind("RndvData")),
        (3, 3, 1, 1),
        "{:#?}",
        seen.sent
    );
    assert_eq!(seen, whole(true));
}

/// Every split in two.
#[test]
fn every_split_in_two() {
    for direct in [false, true] {
        let reference = whole(direct);
        for at in 1..first_stream().len() {
            let seen = run(direct, |stream, deliver| {
                let (a, b) = stream.split_at(at.min(stream.len()));
                deliver(a);
                deliver(b);
            });
            assert!(seen == reference, "cut at {at}, direct: {direct}: {seen:#?} instead of {reference:#?}");
        }
    }
}

/// Pieces of one size.
#[test]
fn pieces_of_every_size() {
    for direct in [false, true] {
        let reference = whole(direct);
        let mut straight = 0;
        for size in 1..400 {
            let seen = run(direct, |stream, deliver| stream.chunks(size).for_each(&mut *deliver));
            assert!(
                seen == reference,
                "pieces of {size}, direct: {direct}: {seen:#?} instead of {reference:#?}"
            );
            straight += seen.direct;
        }
        assert_eq!(straight > 0, direct, "{straight} bytes went straight to their receives");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Splits at random.
    #[test]
    fn any_split(direct: bool, cuts in prop::collection::vec(prop_oneof![1usize..8, 1usize..64, 30usize..34, 1usize..900], 1..120)) {
        let mut next = cuts.iter().cycle();
        let seen = run(direct, |stream, deliver| {
            let mut rest = stream;
            while !rest.is_empty() {
                let n = next.next().map_or(rest.len(), |n| (*n).min(rest.len()));
                deliver(&rest[..n]);
                rest = &rest[n..];
            }
        });
        prop_assert_eq!(seen, whole(direct));
    }
}

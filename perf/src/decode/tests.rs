//! Tests of decoding: lines, filters, open operations, damaged files.

use netmod_core::{GroupId, PeerName};

use ch3_shim::Mode;
use ch3_shim::pkt::{CookieLen, Packet};
use ch3_shim::tagmatch::Envelope;
use netmod_core::VcId;
use netmod_wrap::capture::record::What;

use super::*;

fn line(nanos: u64, what: What, ranks: (u32, u32), packet: Packet, data: &[u8]) -> Line {
    Line {
        nanos,
        record: Record {
            what,
            rank: ranks.0,
            peer: ranks.1,
            group: [0; 8],
            vc: VcId::from_wire(u64::from(ranks.1) | 1 << 32),
            payload_len: packet.payload_len(),
            header: Some(packet.emit()),
            data: data.to_vec(),
        },
    }
}

fn args() -> DecodeArgs {
    DecodeArgs::default()
}

fn decoded(lines: Vec<Line>, args: &DecodeArgs) -> (Vec<String>, Summary) {
    let mut out = Vec::new();
    let input = Input { lines, ..Input::default() };
    let (summary, _) = print(input, args, &mut out).unwrap();
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), summary)
}

fn rts(sreq: u64, tag: i32) -> Packet {
    let env = Envelope::new(0, 0, tag);
    Packet::Rts { env, sync: false, sreq, data_sz: 1 << 20, cookie_len: CookieLen::NONE }
}

fn cts(sreq: u64, rreq: u64) -> Packet {
    Packet::Cts { sreq, rreq, data_sz: 1 << 20, cookie_len: CookieLen::NONE }
}

fn eager(tag: i32, mode: Mode) -> Packet {
    Packet::Eager { env: Envelope::new(0, 0, tag), mode, len: 4, sreq: 9, credit: 0 }
}

/// Two rendezvous, one of them answered, and a synchronous message that is never matched.
fn traffic() -> Vec<Line> {
    vec![
        line(1_000_000_000, What::Sent, (0, 1), rts(7, 5), &[]),
        line(1_000_000_500, What::Received, (1, 0), rts(7, 5), &[]),
        line(1_000_000_600, What::Sent, (1, 0), cts(7, 3), &[]),
        line(1_000_000_700, What::Received, (0, 1), cts(7, 3), &[]),
        line(1_000_000_800, What::Sent, (0, 1), rts(8, 6), &[]),
        line(1_000_000_900, What::Received, (1, 0), rts(8, 6), &[]),
        line(1_000_001_000, What::Sent, (0, 1), eager(3, Mode::Sync), &[1, 2, 3, 4]),
    ]
}

#[test]
fn lines_are_merged_by_time_and_tell_the_fields() {
    let mut shuffled = traffic();
    shuffled.rotate_left(3);
    let (lines, _) = decoded(shuffled, &args());
    assert_eq!(lines.len(), 7);
    assert_eq!(
        lines[0],
        "  0.000000000     0 -> 1      #1.1  Rts          context 0 source 0 tag 5 bytes 1048576 sreq #7.0 sync false"
    );
    assert!(lines[1].contains("   1 <- 0 "), "{}", lines[1]);
    assert!(lines[6].ends_with("mode synchronous credit 0 sreq #9.0 | 01020304"), "{}", lines[6]);
}

#[test]
fn open_operations_are_listed() {
    let (_, s) = decoded(traffic(), &args());
    let open: Vec<_> = s.open.iter().map(|o| (o.rank, o.peer, o.wait, o.tag)).collect();
    use summary::Wait;
    assert_eq!(
        open,
        [
            (0, 1, Wait::Cts, Some(6)),
            (0, 1, Wait::SyncAck, Some(3)),
            (1, 0, Wait::Match, Some(6)),
            (1, 0, Wait::Data, Some(5)),
        ]
    );
    assert_eq!(s.missing.len(), 1);
    assert_eq!((s.missing[0].from, s.missing[0].to, s.missing[0].kind.as_str()), (0, 1, "Eager"));
    let text = s.text(1_000_000_000);
    assert!(text.contains("rank 0 with rank 1: sent Rts, received no Cts"), "{text}");
    assert!(text.contains("rank 0 sent 1 Eager to rank 1, which received 0"), "{text}");
}

#[test]
fn what_is_answered_or_failed_is_not_open() {
    let mut lines = traffic();
    let data = Packet::RndvData { rreq: 3, len: 0 };
    let later = |n: u64| 2_000_000_000 + n;
    lines.push(line(later(0), What::Received, (1, 0), data, &[]));
    lines.push(line(later(1), What::Received, (0, 1), Packet::EagerSyncAck { sreq: 9 }, &[]));
    lines.push(line(
        later(2),
        What::Sent,
        (0, 1),
        Packet::CancelReq { env: Envelope::new(0, 0, 6), sreq: 8 },
        &[],
    ));
    lines.push(line(later(3), What::Received, (0, 1), Packet::CancelResp { sreq: 8, ack: true }, &[]));
    let mut down = line(later(4), What::Down, (1, 0), data, b"gone\x1b[31m");
    down.record.header = None;
    lines.push(down);
    let (shown, s) = decoded(lines, &args());
    assert_eq!(s.open, []);
    assert_eq!(s.failures, 1);
    assert!(shown.last().unwrap().ends_with("down         text gone\\u{1b}[31m"), "{shown:?}");
}

#[test]
fn filters() {
    let count = |args: DecodeArgs| decoded(traffic(), &args).0.len();
    assert_eq!(count(DecodeArgs { rank: vec![1], ..args() }), 3);
    assert_eq!(count(DecodeArgs { peer: vec![1], ..args() }), 4);
    assert_eq!(count(DecodeArgs { vc: Some(0), ..args() }), 3);
    assert_eq!(count(DecodeArgs { kinds: vec!["rts".into(), "EAGER".into()], ..args() }), 5);
    assert_eq!(count(DecodeArgs { kinds: vec!["event".into()], ..args() }), 0);
    assert_eq!(count(DecodeArgs { summary: true, ..args() }), 0);
}

#[test]
fn json_lines() {
    let (lines, _) = decoded(traffic(), &DecodeArgs { json: true, ..args() });
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&first["type"], &first["tag"], &first["bytes"]), (&json!("Rts"), &json!(5), &json!(1 << 20)));
    assert_eq!(first["time_ns"], json!(1_000_000_000u64));
    let last: Value = serde_json::from_str(&lines[6]).unwrap();
    assert_eq!(last["payload"], json!("01020304"));
}

/// Decoding damaged records does not panic.
#[test]
fn mutated_records() {
    let file = {
        use std::sync::{Arc, Mutex};
        #[derive(Clone)]
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, b: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(b)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let out = Shared(Arc::default());
        let me = PeerName { group: GroupId([1; 16]), rank: 0 };
        drop(netmod_wrap::CaptureFile::new(Box::new(out.clone()), "x".into(), Box::new(|| 0), me, 8));
        out.0.lock().unwrap().clone()
    };
    let mut input = Input::default();
    input.read("x", &file);
    assert_eq!(input.jobs.iter().collect::<Vec<_>>(), ["01010101"]);
    assert!(input.damage[0].contains("no packets"), "{:?}", input.damage);

    let seeds: Vec<Vec<u8>> = traffic()
        .iter()
        .map(|l| {
            let mut b = vec![1, 0, 0, 0];
            b.resize(40, 0);
            b.extend_from_slice(&l.record.header.unwrap());
            b
        })
        .collect();
    let mut state = 1u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let (mut packets, mut broken) = (0, 0);
    let mut collector = Collector::default();
    for i in 0..1_000_000u64 {
        let mut bytes = seeds[next(seeds.len() as u64) as usize].clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len() as u64) as usize;
            bytes[at] = next(256) as u8;
        }
        bytes.truncate(72 + next(3) as usize);
        let Ok(record) = Record::parse(&bytes) else { continue };
        let d = describe(&record);
        packets += u64::from(d.packet.is_some());
        broken += u64::from(d.kind == "broken");
        if i % 64 == 0 {
            let l = Line { nanos: next(1 << 40), record };
            collector.add(l.nanos, &l.record, &d);
            assert!(text(&l, &d, 5).ends_with('\n') && as_json(&l, &d).is_object());
        }
    }
    assert!(packets > 100_000 && broken > 100_000, "{packets} {broken}");
    let _ = collector.finish(0, &[0, 1], true, Vec::new()).text(0);
}

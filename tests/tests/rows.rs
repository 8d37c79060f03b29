//! Rows of short messages with one envelope, which a device takes together: however they arrive and
//! whatever is among them, they are received as if they had come one by one.

use ch3_shim::pkt::{HDR_LEN, Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Error, RawReq, Status};
use netmod_core::Datatype;
use netmod_tests::scripted::Script;
use netmod_tests::sys::Area;

/// Rank of the peer that speaks.
const PEER: u32 = 1;
/// More than a device takes together.
const MANY: usize = 150;

fn data(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 31 + i * 7 + 1) as u8).collect()
}

fn short(n: usize, tag: i32, len: usize) -> Vec<u8> {
    let data = ShortData::new(&data(n, len)).expect("a short message");
    Packet::EagerShort { env: Envelope::new(0, PEER as i32, tag), ready: false, data }.emit().to_vec()
}

struct Receive {
    req: RawReq,
    area: Area,
}

fn post(dev: &mut Device, source: i32, tag: i32, room: usize) -> Receive {
    let world = dev.world();
    let area = Area::new(vec![0xEE; room]);
    let seg = area.typed(0, &Datatype::contiguous(room).expect("a run"), 1);
    Receive { req: dev.irecv_raw(seg, source, tag, world).expect("irecv"), area }
}

fn finish(dev: &mut Device, r: Receive) -> (Result<Status, Error>, Vec<u8>) {
    assert!(dev.is_finished(r.req), "all has been delivered");
    (dev.wait_raw(r.req), r.area.bytes())
}

fn counted(dev: &Device) -> u64 {
    dev.report().iter().map(|v| v.stats.rx_msgs).sum()
}

/// Receives come before all, some and none of the messages; the stream is cut into pieces of
/// several lengths.
#[test]
fn all_arrive_in_order_and_are_counted() {
    for early in [0, 1, 40, 64, 65, MANY - 1, MANY] {
        for piece in [1, 31, 32, 33, 96, 512, 63 * HDR_LEN, 64 * HDR_LEN, 65 * HDR_LEN, usize::MAX] {
            let (script, mut dev) = Script::device(2, false);
            let mut receives: Vec<Receive> = (0..early).map(|_| post(&mut dev, PEER as i32, 7, 8)).collect();
            let stream: Vec<u8> = (0..MANY).flat_map(|n| short(n, 7, 8)).collect();
            for piece in stream.chunks(piece.min(stream.len())) {
                script.send(PEER, piece);
                script.play(&mut dev);
            }
            receives.extend((early..MANY).map(|_| post(&mut dev, PEER as i32, 7, 8)));
            for (n, r) in receives.into_iter().enumerate() {
                let (status, bytes) = finish(&mut dev, r);
                let status = status.expect("received");
                assert_eq!((status.source, status.tag, status.len), (PEER as i32, 7, 8));
                assert_eq!(bytes, data(n, 8), "message {n} with {early} receives, pieces of {piece}");
            }
            assert_eq!(counted(&dev), MANY as u64);
            assert_eq!((dev.live_requests(), dev.unexpected_len(), dev.posted_len()), (0, 0, 0));
        }
    }
}

/// Other lengths, another tag, a receive that is too small, one from anywhere and one of any tag.
#[test]
fn what_is_different_ends_a_row() {
    let (script, mut dev) = Script::device(2, false);
    let me = PEER as i32;
    let posted =
        [(me, 7, 8), (me, 7, 8), (me, 7, 3), (ANY_SOURCE, 7, 16), (me, 7, 8), (me, ANY_TAG, 8), (me, 7, 8)];
    let sent = [(7, 8), (7, 8), (7, 8), (7, 16), (7, 0), (9, 8), (7, 8), (7, 8)];
    let receives: Vec<Receive> =
        posted.into_iter().map(|(source, tag, room)| post(&mut dev, source, tag, room)).collect();
    let stream: Vec<u8> = sent.iter().enumerate().flat_map(|(n, (tag, len))| short(n, *tag, *len)).collect();
    script.send(PEER, &stream);
    script.play(&mut dev);
    for (n, (r, (_, _, room))) in receives.into_iter().zip(posted).enumerate() {
        let (tag, len) = sent[n];
        let (status, bytes) = finish(&mut dev, r);
        let got = len.min(room);
        match status {
            Ok(status) => assert_eq!((status.tag, status.len, len <= room), (tag, len, true), "message {n}"),
            Err(Error::Truncated { status, sent }) => {
                assert_eq!((status.len, sent, n), (room, len as u64, 2));
            }
            Err(other) => panic!("message {n}: {other}"),
        }
        assert_eq!(bytes[..got], data(n, len)[..got], "message {n}");
        assert!(bytes[got..].iter().all(|b| *b == 0xEE), "message {n}");
    }
    assert_eq!((dev.unexpected_len(), dev.posted_len(), counted(&dev)), (1, 0, sent.len() as u64));
}

/// A message that breaks the rules is refused within a row as it is at its beginning.
#[test]
fn a_bad_message_in_a_row_is_refused() {
    // A byte behind the data, a flag that there is not, a longer length than a header holds.
    for (at, value) in [(HDR_LEN - 1, 1), (1, 0x40), (2, 17)] {
        let (script, mut dev) = Script::device(2, false);
        let receives: Vec<Receive> = (0..5).map(|_| post(&mut dev, PEER as i32, 7, 8)).collect();
        let mut stream: Vec<u8> = (0..5).flat_map(|n| short(n, 7, 8)).collect();
        stream[3 * HDR_LEN + at] = value;
        script.send(PEER, &stream);
        script.play(&mut dev);
        assert!(script.is_down(PEER), "byte {at}");
        for (n, r) in receives.into_iter().enumerate() {
            let (status, bytes) = finish(&mut dev, r);
            assert_eq!(status.is_ok(), n < 3, "message {n}, byte {at}: {status:?}");
            assert!(n >= 3 || bytes == data(n, 8), "message {n}");
        }
    }
}

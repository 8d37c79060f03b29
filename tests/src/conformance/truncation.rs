//! Messages longer than their receive: what fits is received, the rest is dropped, nothing else is
//! touched.

use ch3_shim::{Device, Error, Mode};
use netmod_core::Datatype;

use super::{NetmodFactory, await_go, check, doing, go, other, pattern, recv, run_job, send};
use crate::sys::Area;

/// A message of `sent` bytes into a receive of `room`, then one more with the same tag.
fn case(dev: &mut Device, sent: usize, room: usize, expected: bool, mode: Mode) {
    let (peer, world) = (other(dev), dev.world());
    doing(format!("{sent} bytes into {room}, expected: {expected}, {mode:?}"));
    if dev.rank() == 0 {
        if expected {
            await_go(dev, peer);
        }
        let first = dev.isend_mode(pattern(1, sent).into(), peer, 1, world, mode).expect("isend");
        let second = dev.isend(pattern(2, 100), peer, 1, world).expect("isend");
        dev.wait_all([first, second]).expect("sends");
        await_go(dev, peer);
    } else {
        let memory = Area::new(vec![0xC3; room + 64]);
        let run = Datatype::contiguous(room).expect("a run");
        if !expected {
            dev.probe(peer, 1, world).expect("probe");
        }
        let req = dev.irecv_raw(memory.typed(32, &run, 1), peer, 1, world).expect("irecv");
        if expected {
            go(dev, peer);
        }
        match dev.wait_raw(req) {
            Err(Error::Truncated { status, sent: s }) => {
                assert_eq!((status.source, status.tag, status.len, s), (peer, 1, room, sent as u64));
            }
            other => panic!("{sent} bytes into {room}: {other:?}"),
        }
        let bytes = memory.bytes();
        check(1, &bytes[32..32 + room]);
        assert_eq!(
            (&bytes[..32], &bytes[32 + room..]),
            (&[0xC3; 32][..], &[0xC3; 32][..]),
            "around {room} bytes"
        );
        check(2, &recv(dev, 100, peer, 1).buffer);
        go(dev, peer);
    }
}

fn cases(f: &dyn NetmodFactory, sizes: impl Fn(&Device) -> Vec<(usize, usize)> + Send + Sync + 'static) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        for (sent, room) in sizes(dev) {
            let (sent, room) = (sent.min(top), room.min(top - 1));
            for expected in [true, false] {
                for mode in [Mode::Standard, Mode::Sync] {
                    case(dev, sent, room, expected, mode);
                }
            }
        }
    });
}

/// Truncates messages in the header.
pub fn short(f: &dyn NetmodFactory) {
    cases(f, |_| vec![(16, 4), (16, 15), (1, 0)]);
}

/// Truncates eager messages, by little and by much.
pub fn eager(f: &dyn NetmodFactory) {
    cases(f, |_| vec![(17, 16), (1000, 100), (4000, 3999), (50_000, 1), (50_000, 40_000), (65_536, 65_535)]);
}

/// Truncates a rendezvous.
pub fn rendezvous(f: &dyn NetmodFactory) {
    cases(f, |dev| {
        let len = dev.config().eager_max * 2;
        vec![(len, 10), (len, len - 1), (len, len / 2 + 77)]
    });
}

/// Receives without any room.
pub fn to_nothing(f: &dyn NetmodFactory) {
    cases(f, |dev| vec![(9, 0), (500, 0), (30_000, 0), (dev.config().eager_max + 1, 0)]);
}

/// Into strided memory: the gaps stay, and so does what lies behind.
pub fn strided(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let byte = Datatype::contiguous(1).expect("a byte");
        for sent in [16, 900, 40_000, dev.config().eager_max + 5000] {
            let sent = sent.min(top);
            let room = sent / 3 + 1;
            let ty = Datatype::vector(room, 1, 2, &byte).expect("a vector");
            if dev.rank() == 0 {
                send(dev, pattern(7, sent), peer, 1);
                await_go(dev, peer);
                continue;
            }
            let memory = Area::new(vec![0x3C; room * 2 + 40]);
            let req = dev.irecv_raw(memory.typed(0, &ty, 1), peer, 1, world).expect("irecv");
            let result = dev.wait_raw(req);
            assert!(
                matches!(result, Err(Error::Truncated { status, .. }) if status.len == room),
                "{result:?}"
            );
            let bytes = memory.bytes();
            let data: Vec<u8> = bytes.iter().copied().step_by(2).take(room).collect();
            check(7, &data);
            let gaps = bytes.iter().skip(1).step_by(2).chain(&bytes[room * 2..]);
            assert!(gaps.copied().all(|b| b == 0x3C), "a gap or what lies behind was touched");
            go(dev, peer);
        }
    });
}

//! Looking at messages before they are received.

use ch3_shim::{ANY_SOURCE, ANY_TAG, PROC_NULL};

use super::{NetmodFactory, await_go, check, go, other, pattern, protocols, recv, run_job, send};

/// Probe tells source, tag and length, so that a receive can be made to measure.
pub fn probe_then_receive(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for (i, len) in protocols(dev).into_iter().enumerate() {
            let (len, tag) = (len.min(top), i as i32);
            if dev.rank() == 0 {
                send(dev, pattern(1, len), peer, tag);
            } else {
                let seen = dev.probe(ANY_SOURCE, ANY_TAG, world).expect("probe");
                assert_eq!((seen.source, seen.tag, seen.len, seen.cancelled), (peer, tag, len, false));
                // Looking changes nothing.
                assert_eq!(dev.probe(peer, tag, world).expect("probe"), seen);
                let got = recv(dev, seen.len, seen.source, seen.tag);
                assert_eq!(got.status, seen);
                check(1, &got.buffer);
            }
        }
    });
}

/// Iprobe finds what a receive would, and nothing else.
pub fn iprobe_sees_what_a_receive_would(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 0 {
            send(dev, pattern(1, 100), peer, 3);
            send(dev, pattern(2, 50), peer, 4);
            await_go(dev, peer);
        } else {
            let own = dev.dup(world).expect("a context");
            dev.probe(peer, 4, world).expect("probe");
            assert_eq!(dev.iprobe(peer, 5, world).expect("iprobe"), None);
            assert_eq!(dev.iprobe(dev.rank() as i32, ANY_TAG, world).expect("iprobe"), None);
            assert_eq!(dev.iprobe(ANY_SOURCE, ANY_TAG, own).expect("iprobe"), None);
            assert_eq!(
                dev.iprobe(peer, ANY_TAG, world).expect("iprobe").map(|s| (s.tag, s.len)),
                Some((3, 100))
            );
            assert_eq!(dev.iprobe(ANY_SOURCE, 4, world).expect("iprobe").map(|s| s.len), Some(50));
            check(2, &recv(dev, 50, peer, 4).buffer);
            assert_eq!(dev.iprobe(ANY_SOURCE, 4, world).expect("iprobe"), None);
            check(1, &recv(dev, 100, peer, 3).buffer);
            go(dev, peer);
        }
    });
}

/// A message that was matched by a probe is out of reach of every other receive and probe.
pub fn matched_probe(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in protocols(dev).map(|s| s.min(top)) {
            if dev.rank() == 0 {
                let first = dev.isend(pattern(1, len), peer, 1, world).expect("isend");
                let second = dev.isend(pattern(2, len), peer, 1, world).expect("isend");
                let third = dev.isend(pattern(3, len), peer, 1, world).expect("isend");
                dev.wait_all([first, second, third]).expect("sends");
                await_go(dev, peer);
            } else {
                let message = dev.mprobe(ANY_SOURCE, 1, world).expect("mprobe");
                assert_eq!((message.status().source, message.status().len), (peer, len));
                check(2, &recv(dev, len, peer, 1).buffer);
                let third = loop {
                    if let Some(m) = dev.improbe(peer, ANY_TAG, world).expect("improbe") {
                        break m;
                    }
                };
                assert!(dev.improbe(peer, ANY_TAG, world).expect("improbe").is_none());
                let receive = dev.imrecv(vec![0; len], third);
                check(3, &dev.wait(receive).expect("receive").buffer);
                let mut buf = vec![0; len + 5];
                let status = dev.mrecv(&mut buf, message).expect("mrecv");
                assert_eq!((status.source, status.tag, status.len), (peer, 1, len));
                check(1, &buf[..len]);
                go(dev, peer);
            }
        }
    });
}

/// Messages of nobody are always there, and empty.
pub fn nobody(f: &dyn NetmodFactory) {
    run_job(f, 1, |dev| {
        let world = dev.world();
        let seen = dev.probe(PROC_NULL, 5, world).expect("probe");
        assert_eq!((seen.source, seen.tag, seen.len), (PROC_NULL, ANY_TAG, 0));
        let message = dev.mprobe(PROC_NULL, ANY_TAG, world).expect("mprobe");
        let receive = dev.imrecv(vec![0; 3], message);
        assert_eq!(dev.wait(receive).expect("receive").status.source, PROC_NULL);
        assert!(dev.iprobe(ANY_SOURCE, ANY_TAG, world).expect("iprobe").is_none());
        assert!(dev.improbe(ANY_SOURCE, ANY_TAG, world).expect("improbe").is_none());
    });
}

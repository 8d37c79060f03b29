//! Synchronous and ready sends, messages to oneself and to nobody, arguments that are wrong.

use ch3_shim::{ANY_SOURCE, ANY_TAG, Error, Mode, PROC_NULL};

use super::{NetmodFactory, await_go, check, go, other, pattern, protocols, recv, run_job, send};

/// A synchronous send is over only after its message has met its receive.
pub fn synchronous_waits_for_the_match(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in protocols(dev).into_iter().chain([0, 16, 17]).map(|s| s.min(top)) {
            if dev.rank() == 0 {
                let mut req =
                    dev.isend_mode(pattern(1, len).into(), peer, 1, world, Mode::Sync).expect("isend");
                // The peer has seen the message and says so, but has not received it.
                await_go(dev, peer);
                for _ in 0..10 {
                    req = match dev.test(req).expect("test") {
                        Ok(_) => panic!("a synchronous send of {len} bytes was over before its receive"),
                        Err(req) => req,
                    };
                }
                go(dev, peer);
                dev.wait(req).expect("send");
            } else {
                assert_eq!(dev.probe(peer, 1, world).expect("probe").len, len);
                go(dev, peer);
                await_go(dev, peer);
                check(1, &recv(dev, len, peer, 1).buffer);
            }
        }
        // With the receive there first.
        for len in protocols(dev).map(|s| s.min(top)) {
            if dev.rank() == 0 {
                await_go(dev, peer);
                let req = dev.isend_mode(pattern(2, len).into(), peer, 1, world, Mode::Sync).expect("isend");
                dev.wait(req).expect("send");
            } else {
                let req = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
                go(dev, peer);
                check(2, &dev.wait(req).expect("receive").buffer);
            }
        }
    });
}

/// Ready sends to receives that are there.
pub fn ready(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in protocols(dev).map(|s| s.min(top)) {
            if dev.rank() == 0 {
                await_go(dev, peer);
                let req = dev.isend_mode(pattern(3, len).into(), peer, 1, world, Mode::Ready).expect("isend");
                dev.wait(req).expect("send");
            } else {
                let req = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
                go(dev, peer);
                check(3, &dev.wait(req).expect("receive").buffer);
            }
        }
        assert_eq!(dev.stats().ready_unmatched, 0);
    });
}

/// A ready send that finds no receive is delivered all the same, and counted.
pub fn ready_without_receive(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in [8, 1000, 5000] {
            if dev.rank() == 0 {
                let req = dev.isend_mode(pattern(3, len).into(), peer, 1, world, Mode::Ready).expect("isend");
                dev.wait(req).expect("send");
            } else {
                dev.probe(peer, 1, world).expect("probe");
                check(3, &recv(dev, len, peer, 1).buffer);
            }
        }
        assert_eq!(dev.stats().ready_unmatched, if dev.rank() == 1 { 3 } else { 0 });
    });
}

/// Messages to oneself, in all modes and sizes, before and after their receive.
pub fn to_self(f: &dyn NetmodFactory) {
    run_job(f, 1, |dev| {
        let world = dev.world();
        let sizes = protocols(dev).into_iter().chain([0, 16, 17, dev.config().eager_max, 3 << 20]);
        for len in sizes {
            for mode in [Mode::Standard, Mode::Sync, Mode::Ready] {
                let data = pattern(len as u64, len);
                let receive = dev.irecv(vec![0; len + 1], 0, 1, world).expect("irecv");
                let sent = dev.isend_mode(data.clone().into(), 0, 1, world, mode).expect("isend");
                dev.wait(sent).expect("send");
                let done = dev.wait(receive).expect("receive");
                assert_eq!((done.status.source, done.status.tag, done.status.len), (0, 1, len));
                check(len as u64, &done.buffer[..len]);

                let mut sent = dev.isend_mode(data.into(), 0, 2, world, mode).expect("isend");
                if mode == Mode::Sync || len > dev.config().eager_max {
                    sent = match dev.test(sent).expect("test") {
                        Ok(_) => {
                            panic!("a send of {len} bytes to oneself, {mode:?}, was over before its receive")
                        }
                        Err(req) => req,
                    };
                }
                assert_eq!(dev.iprobe(0, 2, world).expect("iprobe").map(|s| s.len), Some(len));
                let receive = dev.irecv(vec![0; len], ANY_SOURCE, ANY_TAG, world).expect("irecv");
                check(len as u64, &dev.wait(receive).expect("receive").buffer);
                dev.wait(sent).expect("send");
            }
        }
        // Longer than its receive.
        let receive = dev.irecv(vec![0; 10], 0, 1, world).expect("irecv");
        send(dev, pattern(9, 200_000), 0, 1);
        let result = dev.wait(receive).map_err(ch3_shim::Error::from);
        assert!(
            matches!(result, Err(Error::Truncated { sent: 200_000, status }) if status.len == 10),
            "{result:?}"
        );
        assert_eq!(dev.live_requests(), 0);
    });
}

/// Messages to and from nobody are over at once.
pub fn proc_null(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let world = dev.world();
        for mode in [Mode::Standard, Mode::Sync, Mode::Ready] {
            let sent = dev.isend_mode(vec![0; 1 << 20].into(), PROC_NULL, 1, world, mode).expect("isend");
            dev.wait(sent).expect("send");
        }
        let receive = dev.irecv(vec![7; 5], PROC_NULL, ANY_TAG, world).expect("irecv");
        let status = dev.wait(receive).expect("receive").status;
        assert_eq!((status.source, status.tag, status.len), (PROC_NULL, ANY_TAG, 0));
        assert_eq!(dev.live_requests(), 0);
        assert!(dev.report().is_empty(), "nobody was spoken to");
    });
}

/// Ranks and tags that are none: an error that names them, and nothing was started.
pub fn bad_arguments(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let world = dev.world();
        for rank in [2, 77, i32::MAX, -3, i32::MIN] {
            let e = dev.isend(vec![1], rank, 1, world).expect_err("no such rank");
            assert_eq!(e, Error::Rank { rank, size: 2 });
            assert_eq!(e.data, [1][..], "the data is not given back");
            let e = dev.irecv(vec![1], rank, 1, world).expect_err("no such rank");
            assert_eq!(e, Error::Rank { rank, size: 2 });
            let e = dev.probe(rank, 1, world).expect_err("no such rank");
            assert!(e.to_string().contains(&rank.to_string()), "{e}");
        }
        let e = dev.isend(vec![1], ANY_SOURCE, 1, world).expect_err("a message needs a receiver");
        assert!(matches!(e.error, Error::Rank { .. }), "{e}");
        for tag in [-5, i32::MIN, ANY_TAG] {
            let e = dev.isend(vec![1], 0, tag, world).expect_err("no tag of a send");
            assert_eq!(e, Error::Tag(tag));
        }
        for tag in [-5, i32::MIN] {
            let e = dev.irecv(vec![1], 0, tag, world).expect_err("no tag of a receive");
            assert_eq!(e, Error::Tag(tag));
        }
        assert_eq!((dev.live_requests(), dev.posted_len()), (0, 0));
        // The greatest tag there is.
        let peer = other(dev);
        send(dev, vec![3], peer, i32::MAX);
        assert_eq!(recv(dev, 1, peer, i32::MAX).buffer, [3]);
    });
}

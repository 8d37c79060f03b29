//! Cancelling at every stage: a request either was cancelled, and then had no effect, or ends as if
//! nothing had been asked.

use ch3_shim::{Device, Mode};

use super::{NetmodFactory, await_go, check, go, other, pattern, recv, run_job, send};

/// A receive that nothing has matched is cancelled, and the next message goes to the next receive.
pub fn posted_receive(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 0 {
            await_go(dev, peer);
            send(dev, pattern(1, 500), peer, 1);
        } else {
            let receive = dev.irecv(vec![0xEE; 500], peer, 1, world).expect("irecv");
            dev.cancel(&receive);
            let done = dev.wait(receive).expect("a cancelled receive is no error");
            assert!(done.status.cancelled);
            assert_eq!(done.buffer, [0xEE; 500]);
            assert_eq!(dev.posted_len(), 0);
            go(dev, peer);
            check(1, &recv(dev, 500, peer, 1).buffer);
        }
    });
}

/// A receive that has its message already.
pub fn matched_receive(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        let rendezvous = dev.config().eager_max + 1;
        for len in [8, 3000, rendezvous] {
            if dev.rank() == 0 {
                let sent = dev.isend(pattern(1, len), peer, 1, world).expect("isend");
                dev.wait(sent).expect("send");
            } else {
                dev.probe(peer, 1, world).expect("probe");
                let receive = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
                dev.cancel(&receive);
                let done = dev.wait(receive).expect("receive");
                assert!(!done.status.cancelled);
                check(1, &done.buffer);
            }
        }
    });
}

/// Sends that wait for the connection are taken back; others of the queue go out.
pub fn queued_send(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 0 {
            let mut reqs = Vec::new();
            for i in 0..12 {
                let len = [8, 100, 2000, 30_000][i % 4];
                reqs.push(dev.isend(pattern(i as u64, len), peer, i as i32, world).expect("isend"));
            }
            for req in reqs.iter().skip(1).step_by(2) {
                dev.cancel(req);
            }
            let done = dev.wait_all(reqs).expect("sends");
            let cancelled: Vec<u8> = done.iter().map(|d| u8::from(d.status.cancelled)).collect();
            assert!(cancelled.iter().step_by(2).all(|c| *c == 0), "nobody asked: {cancelled:?}");
            send(dev, cancelled, peer, 100);
        } else {
            let cancelled = recv(dev, 12, peer, 100).buffer;
            // Exactly those that were not cancelled are here, in their order.
            assert_eq!(dev.unexpected_len(), cancelled.iter().filter(|c| **c == 0).count());
            for (i, _) in cancelled.iter().enumerate().filter(|(_, c)| **c == 0) {
                let len = [8, 100, 2000, 30_000][i % 4];
                let got = recv(dev, len, peer, ch3_shim::ANY_TAG);
                assert_eq!((got.status.tag, got.status.len), (i as i32, len));
                check(i as u64, &got.buffer);
            }
        }
    });
}

/// The receiver has the message, but no receive for it; the sender takes it back.
fn before_the_match(dev: &mut Device, len: usize, mode: Mode) {
    let (peer, world) = (other(dev), dev.world());
    if dev.rank() == 0 {
        let req = dev.isend_mode(pattern(1, len).into(), peer, 1, world, mode).expect("isend");
        await_go(dev, peer);
        dev.cancel(&req);
        // Twice is the same as once.
        dev.cancel(&req);
        let done = dev.wait(req).expect("a cancelled send is no error");
        assert!(done.status.cancelled, "a send of {len} bytes without a receive, {mode:?}");
        go(dev, peer);
        send(dev, pattern(2, len), peer, 1);
        await_go(dev, peer);
    } else {
        assert_eq!(dev.probe(peer, 1, world).expect("probe").len, len);
        go(dev, peer);
        await_go(dev, peer);
        check(2, &recv(dev, len, peer, 1).buffer);
        assert_eq!((dev.stats().unexpected_bytes, dev.unexpected_len()), (0, 0));
        go(dev, peer);
    }
}

/// The receive is there before the message is; the sender cancels too late.
fn after_the_match(dev: &mut Device, len: usize, mode: Mode) {
    let (peer, world) = (other(dev), dev.world());
    if dev.rank() == 0 {
        await_go(dev, peer);
        // Something on its way first, so that the connection is up and nothing waits in a queue.
        go(dev, peer);
        await_go(dev, peer);
        let req = dev.isend_mode(pattern(1, len).into(), peer, 1, world, mode).expect("isend");
        await_go(dev, peer);
        dev.cancel(&req);
        let done = dev.wait(req).expect("send");
        assert!(!done.status.cancelled, "a send of {len} bytes that was received, {mode:?}");
    } else {
        let receive = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
        go(dev, peer);
        await_go(dev, peer);
        go(dev, peer);
        check(1, &dev.wait(receive).expect("receive").buffer);
        go(dev, peer);
    }
}

/// A rendezvous whose receive is not there.
pub fn rendezvous_before_the_match(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let len = dev.config().eager_max + 1;
        for _ in 0..5 {
            before_the_match(dev, len, Mode::Standard);
            before_the_match(dev, len, Mode::Sync);
        }
    });
}

/// A rendezvous whose data has gone, or is going.
pub fn rendezvous_after_the_match(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let len = dev.config().eager_max + 1;
        after_the_match(dev, len, Mode::Standard);
        // Cancelled while the answer of the receiver is on its way.
        let (peer, world) = (other(dev), dev.world());
        for _ in 0..20 {
            if dev.rank() == 0 {
                await_go(dev, peer);
                let req = dev.isend(pattern(1, len), peer, 1, world).expect("isend");
                dev.cancel(&req);
                let done = dev.wait(req).expect("send");
                send(dev, vec![u8::from(done.status.cancelled)], peer, 2);
                if done.status.cancelled {
                    send(dev, pattern(1, len), peer, 1);
                }
            } else {
                let receive = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
                go(dev, peer);
                recv(dev, 1, peer, 2);
                check(1, &dev.wait(receive).expect("receive").buffer);
            }
        }
    });
}

/// A synchronous eager send whose receive is not there.
pub fn synchronous_before_the_match(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        for len in [0, 8, 17, 1000, dev.config().eager_max.min(60_000)] {
            before_the_match(dev, len, Mode::Sync);
        }
    });
}

/// A synchronous eager send that was received.
pub fn synchronous_after_the_match(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        for len in [0, 8, 17, 1000, dev.config().eager_max.min(60_000)] {
            after_the_match(dev, len, Mode::Sync);
        }
    });
}

/// Messages to oneself.
pub fn to_self(f: &dyn NetmodFactory) {
    run_job(f, 1, |dev| {
        let world = dev.world();
        let large = dev.config().eager_max + 1;
        for (len, mode) in [(8, Mode::Sync), (large, Mode::Standard), (large, Mode::Sync)] {
            let keep = dev.isend_mode(pattern(1, len).into(), 0, 1, world, mode).expect("isend");
            let req = dev.isend_mode(pattern(2, len).into(), 0, 1, world, mode).expect("isend");
            dev.cancel(&req);
            assert!(dev.wait(req).expect("send").status.cancelled);
            assert_eq!(dev.unexpected_len(), 1);
            check(1, &recv(dev, len, 0, 1).buffer);
            dev.wait(keep).expect("send");
        }
        // A short one is over at once, and cannot be taken back.
        let req = dev.isend(pattern(3, 8), 0, 1, world).expect("isend");
        dev.cancel(&req);
        assert!(!dev.wait(req).expect("send").status.cancelled);
        check(3, &recv(dev, 8, 0, 1).buffer);
        // A receive that only oneself could have satisfied.
        let receive = dev.irecv(vec![0; 4], 0, 1, world).expect("irecv");
        dev.cancel(&receive);
        assert!(dev.wait(receive).expect("receive").status.cancelled);
    });
}

/// An eager send that has been received is beyond recall.
pub fn eager_that_has_gone(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        for len in [8, 1000, 20_000] {
            after_the_match(dev, len, Mode::Standard);
        }
    });
}

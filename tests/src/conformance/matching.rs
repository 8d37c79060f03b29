//! Messages meet the right receives: wildcards, exact ones, contexts, before and after.

use ch3_shim::{ANY_SOURCE, ANY_TAG};

use super::{NetmodFactory, await_go, check, go, other, pattern, protocols, recv, run_job, send};

/// Any source, from several senders: each sender's messages come in its order.
pub fn any_source_keeps_each_senders_order(f: &dyn NetmodFactory) {
    const EACH: usize = 60;
    run_job(f, 4, |dev| {
        if dev.rank() > 0 {
            for i in 0..EACH {
                send(dev, pattern(u64::from(dev.rank()) * 1000 + i as u64, 1 + i * 13), 0, 2);
            }
            return;
        }
        let mut next = [0usize; 4];
        for _ in 0..3 * EACH {
            let got = recv(dev, 2000, ANY_SOURCE, 2);
            let from = got.status.source as usize;
            assert_eq!(got.status.len, 1 + next[from] * 13);
            check(from as u64 * 1000 + next[from] as u64, &got.buffer);
            next[from] += 1;
        }
        assert_eq!(next, [0, EACH, EACH, EACH]);
    });
}

/// Any tag: in the order of sending, whatever the tags.
pub fn any_tag(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        for i in 0..100 {
            let tag = (i * 31) % 17;
            if dev.rank() == 0 {
                send(dev, pattern(i as u64, i as usize), 1, tag);
            } else {
                let got = recv(dev, 100, 0, ANY_TAG);
                assert_eq!((got.status.tag, got.status.len), (tag, i as usize));
                check(i as u64, &got.buffer);
            }
        }
    });
}

/// Receives of all four forms match in the order of posting.
pub fn wildcards_and_exact_receives_in_order(f: &dyn NetmodFactory) {
    run_job(f, 3, |dev| {
        let world = dev.world();
        let forms = [(1, 5), (ANY_SOURCE, 5), (1, ANY_TAG), (ANY_SOURCE, ANY_TAG)];
        const ROUNDS: usize = 10;
        match dev.rank() {
            0 => {
                let mut reqs = Vec::new();
                for i in 0..ROUNDS * 4 {
                    let (source, tag) = forms[(i * 3 + i / 4) % 4];
                    reqs.push(dev.irecv(vec![0; 64], source, tag, world).expect("irecv"));
                }
                // None of rank 1's messages may match this one, which is posted before they come.
                let own = dev.irecv(vec![0; 64], 2, 6, world).expect("irecv");
                go(dev, 1);
                for (i, done) in dev.wait_all(reqs).expect("receives").into_iter().enumerate() {
                    assert_eq!((done.status.source, done.status.tag), (1, 5));
                    check(i as u64, &done.buffer[..done.status.len]);
                }
                go(dev, 2);
                assert_eq!(dev.wait(own).expect("receive").status.source, 2);
            }
            1 => {
                await_go(dev, 0);
                for i in 0..ROUNDS * 4 {
                    send(dev, pattern(i as u64, 20 + i), 0, 5);
                }
            }
            _ => {
                await_go(dev, 0);
                send(dev, vec![1], 0, 6);
            }
        }
    });
}

/// Receives with wildcards take unexpected messages in the order of their arrival, and exact ones
/// the first that fits.
pub fn unexpected_in_arrival_order(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 0 {
            for (i, tag) in [1, 2, 1, 3, 2, 1, 9].into_iter().enumerate() {
                send(dev, vec![i as u8; 1 + i * 20], peer, tag);
            }
            await_go(dev, peer);
        } else {
            dev.probe(peer, 9, world).expect("probe");
            assert_eq!(dev.unexpected_len(), 7);
            let expected = [
                (ANY_SOURCE, ANY_TAG, 0),
                (peer, 2, 1),
                (ANY_SOURCE, 1, 2),
                (peer, ANY_TAG, 3),
                (ANY_SOURCE, ANY_TAG, 4),
                (ANY_SOURCE, 9, 6),
                (0, 1, 5),
            ];
            for (source, tag, which) in expected {
                let got = recv(dev, 200, source, tag);
                assert_eq!(got.buffer, vec![which; 1 + usize::from(which) * 20]);
            }
            assert_eq!(dev.unexpected_len(), 0);
            go(dev, peer);
        }
    });
}

/// A wildcard is one within its communicator.
pub fn contexts_do_not_mix(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let world = dev.world();
        let own = dev.dup(world).expect("a context");
        let peer = other(dev);
        if dev.rank() == 0 {
            send(dev, vec![1; 10], peer, 1);
            let req = dev.isend(vec![2; 10], peer, 1, own).expect("isend");
            dev.wait(req).expect("send");
            await_go(dev, peer);
        } else {
            let req = dev.irecv(vec![0; 10], ANY_SOURCE, ANY_TAG, own).expect("irecv");
            assert_eq!(dev.wait(req).expect("receive").buffer, [2; 10]);
            assert_eq!(dev.iprobe(ANY_SOURCE, ANY_TAG, own).expect("iprobe"), None);
            assert_eq!(recv(dev, 10, ANY_SOURCE, ANY_TAG).buffer, [1; 10]);
            go(dev, peer);
        }
    });
}

/// Messages of all protocols that come before their receive, among others that come after it.
pub fn unexpected_before_and_after(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let sizes = protocols(dev).map(|s| s.min(top));
        let mut reqs = Vec::new();
        if dev.rank() == 0 {
            for (i, len) in sizes.into_iter().enumerate() {
                reqs.push(dev.isend(pattern(i as u64, len), peer, i as i32, world).expect("isend"));
            }
            send(dev, Vec::new(), peer, 50);
            await_go(dev, peer);
            for (i, len) in sizes.into_iter().enumerate() {
                reqs.push(dev.isend(pattern(i as u64 + 10, len), peer, i as i32, world).expect("isend"));
            }
            dev.wait_all(reqs).expect("sends");
        } else {
            recv(dev, 0, peer, 50);
            assert_eq!(dev.unexpected_len(), 4);
            for round in 0..2u64 {
                for (i, len) in sizes.into_iter().enumerate().rev() {
                    let req = dev.irecv(vec![0; len], peer, i as i32, world).expect("irecv");
                    reqs.push(req);
                    if round == 0 {
                        let done = dev.wait(reqs.pop().expect("just pushed")).expect("receive");
                        check(i as u64, &done.buffer);
                    }
                }
                if round == 0 {
                    assert_eq!(dev.unexpected_len(), 0);
                } else {
                    go(dev, peer);
                }
            }
            for (k, done) in dev.wait_all(reqs).expect("receives").into_iter().enumerate() {
                let i = 3 - k;
                assert_eq!(done.status.len, sizes[i]);
                check(i as u64 + 10, &done.buffer);
            }
        }
    });
}

//! Messages of one sender are received in the order in which they were sent.

use ch3_shim::Device;

use super::{NetmodFactory, check, other, pattern, recv, run_job, send};

/// Sends with up to `window` messages under way.
fn send_all(dev: &mut Device, window: usize, messages: impl Iterator<Item = (Vec<u8>, i32)>) {
    let (to, world) = (other(dev), dev.world());
    let mut under_way = Vec::new();
    for (data, tag) in messages {
        under_way.push(dev.isend(data, to, tag, world).expect("isend"));
        if under_way.len() == window {
            dev.wait_all(under_way.drain(..)).expect("sends");
        }
    }
    dev.wait_all(under_way).expect("sends");
}

/// Many small messages with one tag.
pub fn same_tag(f: &dyn NetmodFactory) {
    let many = f.capabilities().many;
    run_job(f, 2, move |dev| {
        if dev.rank() == 0 {
            send_all(dev, 64, (0..many).map(|i| (pattern(i as u64, i % 71), 5)));
        } else {
            for i in 0..many {
                let got = recv(dev, 128, 0, 5);
                assert_eq!(got.status.len, i % 71, "message {i}");
                check(i as u64, &got.buffer);
            }
        }
    });
}

/// Messages of all protocols with one tag: short ones do not overtake long ones.
pub fn mixed_sizes(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    let sizes: Vec<usize> =
        [0, 8, 100, 3000, 70_000, 200_000].iter().copied().filter(|s| *s <= top).collect();
    run_job(f, 2, move |dev| {
        let size = |i: usize| sizes[i * 7 % sizes.len()];
        if dev.rank() == 0 {
            send_all(dev, 64, (0..60).map(|i| (pattern(i as u64, size(i)), 5)));
        } else {
            for i in 0..60 {
                let got = recv(dev, 200_000, 0, 5);
                assert_eq!(got.status.len, size(i), "message {i}");
                check(i as u64, &got.buffer);
            }
        }
    });
}

/// Each tag is a sequence of its own, whatever the order in which the tags are received.
pub fn several_tags(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        const TAGS: usize = 7;
        const EACH: usize = 30;
        if dev.rank() == 0 {
            // None may be waited for: the receiver takes the last ones first.
            send_all(
                dev,
                usize::MAX,
                (0..TAGS * EACH).map(|i| (pattern(i as u64, 10 + i), (i % TAGS) as i32)),
            );
        } else {
            for tag in (0..TAGS).rev() {
                for k in 0..EACH {
                    let i = k * TAGS + tag;
                    let got = recv(dev, 1000, 0, tag as i32);
                    assert_eq!((got.status.tag, got.status.len), (tag as i32, 10 + i));
                    check(i as u64, &got.buffer);
                }
            }
        }
    });
}

/// The same tag in several communicators.
pub fn several_contexts(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let world = dev.world();
        let comms = [world, dev.dup(world).expect("a context"), dev.dup(world).expect("a context")];
        let to = other(dev);
        if dev.rank() == 0 {
            let mut reqs = Vec::new();
            for i in 0..90usize {
                reqs.push(dev.isend(pattern(i as u64, 5 + i), to, 3, comms[i % 3]).expect("isend"));
            }
            dev.wait_all(reqs).expect("sends");
        } else {
            for c in [2, 0, 1] {
                for i in (c..90).step_by(3) {
                    let req = dev.irecv(vec![0; 200], to, 3, comms[c]).expect("irecv");
                    let got = dev.wait(req).expect("receive");
                    assert_eq!(got.status.len, 5 + i);
                    check(i as u64, &got.buffer[..got.status.len]);
                }
            }
        }
    });
}

/// Both sides send and receive at once.
pub fn both_directions(f: &dyn NetmodFactory) {
    let many = f.capabilities().many / 4;
    run_job(f, 2, move |dev| {
        let (peer, world, me) = (other(dev), dev.world(), dev.rank() as u64);
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        let size = |i: usize| (i * 37) % 5000;
        for i in 0..many {
            receives.push(dev.irecv(vec![0; 5000], peer, 1, world).expect("irecv"));
            sends.push(dev.isend(pattern(me << 32 | i as u64, size(i)), peer, 1, world).expect("isend"));
        }
        dev.wait_all(sends).expect("sends");
        for (i, done) in dev.wait_all(receives).expect("receives").into_iter().enumerate() {
            assert_eq!(done.status.len, size(i));
            check((1 - me) << 32 | i as u64, &done.buffer[..size(i)]);
        }
        send(dev, Vec::new(), peer, 2);
        recv(dev, 0, peer, 2);
    });
}

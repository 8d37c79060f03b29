//! Many ranks at once.

use ch3_shim::{ANY_SOURCE, Device, Request};

use super::{NetmodFactory, check, pattern, recv, run_job, send};

const RANKS: u32 = 8;

fn seed(from: u32, to: u32, i: usize) -> u64 {
    u64::from(from) << 32 | u64::from(to) << 16 | i as u64
}

/// Sends to, and receives from, all others at once.
fn everybody(dev: &mut Device, round: usize, len: usize) {
    let (me, n, world) = (dev.rank(), dev.size(), dev.world());
    let mut sends: Vec<Request> = Vec::new();
    let mut receives: Vec<(u32, Request)> = Vec::new();
    for i in 0..n {
        let peer = (me + i) % n;
        sends.push(dev.isend(pattern(seed(me, peer, round), len), peer as i32, 1, world).expect("isend"));
    }
    for peer in 0..n {
        receives.push((peer, dev.irecv(vec![0; len], peer as i32, 1, world).expect("irecv")));
    }
    for (peer, req) in receives {
        let done = dev.wait(req).expect("receive");
        assert_eq!((done.status.source, done.status.len), (peer as i32, len));
        check(seed(peer, me, round), &done.buffer);
    }
    dev.wait_all(sends).expect("sends");
}

/// The first messages of all ranks to all others cross, and so do the connections they make.
pub fn crossing_connects(f: &dyn NetmodFactory) {
    run_job(f, RANKS, |dev| {
        for round in 0..3 {
            everybody(dev, round, 64);
        }
    });
}

/// All sizes between all ranks.
pub fn all_to_all(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 4, move |dev| {
        for (round, len) in [0, 16, 1000, 30_000, dev.config().eager_max + 10].into_iter().enumerate() {
            everybody(dev, round, len.min(top));
        }
    });
}

/// Many small messages of many ranks to one.
pub fn many_to_one(f: &dyn NetmodFactory) {
    let each = f.capabilities().many / 5;
    run_job(f, RANKS, move |dev| {
        let me = dev.rank();
        if me > 0 {
            for i in 0..each {
                send(dev, pattern(seed(me, 0, i), i % 90), 0, 1);
            }
            return;
        }
        let mut next = vec![0; RANKS as usize];
        for _ in 0..each * (RANKS as usize - 1) {
            let got = recv(dev, 100, ANY_SOURCE, 1);
            let from = got.status.source as usize;
            assert_eq!(got.status.len, next[from] % 90);
            check(seed(from as u32, 0, next[from]), &got.buffer);
            next[from] += 1;
        }
        assert!(next[1..].iter().all(|n| *n == each));
    });
}

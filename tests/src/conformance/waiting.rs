//! Waiting for, and testing, any, all or some of several requests.

use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Error, Mode, PROC_NULL, RawReq, Status};

use super::{NetmodFactory, await_go, check, go, other, pattern, recv, run_job, send};
use crate::sys::Area;

const N: usize = 8;
const LEN: usize = 300;

/// Posts receives with tags 0 to [`N`].
fn post(dev: &mut Device) -> (Vec<Area>, Vec<RawReq>) {
    let (peer, world) = (other(dev), dev.world());
    let areas: Vec<Area> = (0..N).map(|_| Area::new(vec![0; LEN])).collect();
    let reqs = areas
        .iter()
        .enumerate()
        .map(|(i, a)| dev.irecv_raw(a.contig(), peer, i as i32, world).expect("irecv"));
    let reqs = reqs.collect();
    (areas, reqs)
}

/// The sender's part: a message for each tag, in an order of its own, each after a `go`.
fn send_shuffled(dev: &mut Device) {
    let peer = other(dev);
    for i in 0..N {
        let tag = i * 3 % N;
        await_go(dev, peer);
        send(dev, pattern(tag as u64, LEN), peer, tag as i32);
    }
}

/// `wait_any_raw` gives one after the other, in the order in which they finish.
pub fn raw_any(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        if dev.rank() == 0 {
            return send_shuffled(dev);
        }
        let peer = other(dev);
        let (areas, mut reqs) = post(dev);
        for i in 0..N {
            go(dev, peer);
            let (which, status) = dev.wait_any_raw(&mut reqs).expect("receive").expect("one is left");
            assert_eq!((which, status.tag, status.len), (i * 3 % N, (i * 3 % N) as i32, LEN));
            assert!(reqs[which].is_null());
            check(which as u64, &areas[which].bytes());
        }
        assert_eq!(dev.wait_any_raw(&mut reqs).expect("nothing is left"), None);
        assert_eq!(dev.test_any_raw(&mut reqs).expect("nothing is left"), None);
    });
}

/// `wait_some_raw` gives at least one, and each once.
pub fn raw_some(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let peer = other(dev);
        if dev.rank() == 0 {
            return send_shuffled(dev);
        }
        let (areas, mut reqs) = post(dev);
        let mut seen = [false; N];
        for _ in 0..N {
            go(dev, peer);
        }
        let mut out = Vec::new();
        while reqs.iter().any(|r| !r.is_null()) {
            out.clear();
            dev.wait_some_raw(&mut reqs, &mut out).expect("receives");
            assert!(!out.is_empty(), "some means at least one");
            for (i, status) in &out {
                assert!(!std::mem::replace(&mut seen[*i], true), "request {i} was reported twice");
                assert_eq!(status.tag, *i as i32);
                check(*i as u64, &areas[*i].bytes());
            }
        }
        assert_eq!(seen, [true; N]);
        out.clear();
        dev.wait_some_raw(&mut reqs, &mut out).expect("nothing is left");
        assert!(out.is_empty());
    });
}

/// `wait_all_raw` gives the statuses in the order of the requests.
pub fn raw_all(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let peer = other(dev);
        if dev.rank() == 0 {
            return send_shuffled(dev);
        }
        let (areas, mut reqs) = post(dev);
        for _ in 0..N {
            go(dev, peer);
        }
        let mut statuses = Vec::new();
        dev.wait_all_raw(&mut reqs, Some(&mut statuses)).expect("receives");
        assert!(reqs.iter().all(|r| r.is_null()));
        let tags: Vec<i32> = statuses.iter().map(|s| s.tag).collect();
        assert_eq!(tags, (0..N as i32).collect::<Vec<_>>());
        for (i, a) in areas.iter().enumerate() {
            check(i as u64, &a.bytes());
        }
    });
}

/// The tests: nothing before, everything after, and each once.
pub fn raw_tests(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let peer = other(dev);
        if dev.rank() == 0 {
            for _ in 0..4 {
                send_shuffled(dev);
            }
            return;
        }
        // All.
        let (_areas, mut reqs) = post(dev);
        assert!(!dev.test_all_raw(&mut reqs, None).expect("test"));
        assert!(reqs.iter().all(|r| !r.is_null()), "nothing is used up before all are finished");
        (0..N).for_each(|_| go(dev, peer));
        let mut statuses = Vec::new();
        while !dev.test_all_raw(&mut reqs, Some(&mut statuses)).expect("test") {}
        assert_eq!(statuses.len(), N);
        // Any.
        let (_areas, mut reqs) = post(dev);
        assert_eq!(dev.test_any_raw(&mut reqs).expect("test"), None);
        (0..N).for_each(|_| go(dev, peer));
        let mut found = Vec::new();
        while found.len() < N {
            found.extend(dev.test_any_raw(&mut reqs).expect("test").map(|(i, _)| i));
        }
        found.sort_unstable();
        assert_eq!(found, (0..N).collect::<Vec<_>>());
        // Some.
        let (_areas, mut reqs) = post(dev);
        let mut out = Vec::new();
        dev.test_some_raw(&mut reqs, &mut out).expect("test");
        assert!(out.is_empty());
        (0..N).for_each(|_| go(dev, peer));
        while out.len() < N {
            dev.test_some_raw(&mut reqs, &mut out).expect("test");
        }
        let mut found: Vec<usize> = out.iter().map(|(i, _)| *i).collect();
        found.sort_unstable();
        assert_eq!(found, (0..N).collect::<Vec<_>>());
        // One.
        let (areas, reqs) = post(dev);
        assert_eq!(dev.test_raw(reqs[5]).expect("test"), None);
        (0..N).for_each(|_| go(dev, peer));
        for (i, req) in reqs.into_iter().enumerate() {
            let status = loop {
                if let Some(s) = dev.test_raw(req).expect("test") {
                    break s;
                }
            };
            assert_eq!(status.tag, i as i32);
            check(i as u64, &areas[i].bytes());
        }
    });
}

/// The same in the forms that own their buffers.
pub fn owned_forms(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 0 {
            for _ in 0..3 {
                send_shuffled(dev);
            }
            return;
        }
        let post = |dev: &mut Device| -> Vec<_> {
            (0..N).map(|i| dev.irecv(vec![0; LEN], peer, i as i32, world).expect("irecv")).collect()
        };
        let mut reqs = post(dev);
        for i in 0..N {
            go(dev, peer);
            let (_, done) = dev.wait_any(&mut reqs).expect("receive").expect("one is left");
            assert_eq!(done.status.tag, (i * 3 % N) as i32);
            check(done.status.tag as u64, &done.buffer);
        }
        assert!(dev.wait_any(&mut reqs).expect("nothing is left").is_none());

        let mut reqs = post(dev);
        (0..N).for_each(|_| go(dev, peer));
        // The requests left in the list, by tag.
        let mut left: Vec<i32> = (0..N as i32).collect();
        while !reqs.is_empty() {
            let some = dev.wait_some(&mut reqs).expect("receives");
            assert!(!some.is_empty());
            for (place, d) in &some {
                assert_eq!(left[*place], d.status.tag, "{some:?} of {left:?}");
                check(d.status.tag as u64, &d.buffer);
            }
            left.retain(|tag| some.iter().all(|(_, d)| d.status.tag != *tag));
            assert_eq!(left.len(), reqs.len());
        }
        assert!(left.is_empty());
        assert!(dev.wait_some(&mut reqs).expect("nothing is left").is_empty());

        let mut reqs = post(dev);
        reqs = dev.test_all(reqs).expect("test").expect_err("nothing has come");
        (0..N).for_each(|_| go(dev, peer));
        let done = loop {
            match dev.test_all(reqs).expect("test") {
                Ok(done) => break done,
                Err(again) => reqs = again,
            }
        };
        for (i, d) in done.iter().enumerate() {
            assert_eq!(d.status.tag, i as i32);
            check(i as u64, &d.buffer);
        }
    });
}

/// A call that takes one or some of several requests, and which ones it took.
type Take = fn(&mut Device, &mut [RawReq]) -> Result<Vec<(usize, Status)>, Error>;

/// Requests that were over at once are given by each of the calls, once, as others are; null ones,
/// and those that were used up, are passed over.
pub fn over_at_once(f: &dyn NetmodFactory) {
    const CALLS: [(&str, Take); 4] = [
        ("wait_any_raw", |dev, reqs| Ok(dev.wait_any_raw(reqs)?.into_iter().collect())),
        ("test_any_raw", |dev, reqs| Ok(dev.test_any_raw(reqs)?.into_iter().collect())),
        ("wait_some_raw", |dev, reqs| {
            let mut out = Vec::new();
            dev.wait_some_raw(reqs, &mut out).map(|()| out)
        }),
        ("test_some_raw", |dev, reqs| {
            let mut out = Vec::new();
            dev.test_some_raw(reqs, &mut out).map(|()| out)
        }),
    ];
    run_job(f, 1, |dev| {
        let world = dev.world();
        let data = Area::new(pattern(1, LEN));
        for (name, take) in CALLS {
            let target = Area::new(vec![0; LEN]);
            let mut reqs = [
                RawReq::NULL,
                dev.irecv_raw(target.contig(), 0, 1, world).expect("irecv"),
                dev.isend_raw(data.contig(), 0, 2, world, Mode::Standard).expect("isend"),
                dev.isend_raw(data.contig(), PROC_NULL, 1, world, Mode::Standard).expect("isend"),
                dev.irecv_raw(target.contig(), PROC_NULL, 1, world).expect("irecv"),
            ];
            assert!(reqs[1..].iter().all(|r| !r.is_null()));
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let took = take(dev, &mut reqs).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!took.is_empty(), "{name}: only {seen:?} of 2, 3, 4");
                seen.extend(took);
            }
            assert_eq!(seen.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [2, 3, 4], "{name}");
            assert!(seen[1..].iter().all(|(_, s)| (s.source, s.tag, s.len) == (PROC_NULL, ANY_TAG, 0)));
            assert!(reqs.iter().enumerate().all(|(i, r)| r.is_null() == (i != 1)), "{name}: {reqs:?}");
            let sent = dev.isend_raw(data.contig(), 0, 1, world, Mode::Standard).expect("isend");
            dev.wait_raw(sent).expect("send");
            let last = take(dev, &mut reqs).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(matches!(last[..], [(1, s)] if s.len == LEN), "{name}: {last:?}");
            assert_eq!(take(dev, &mut reqs), Ok(Vec::new()), "{name}: nothing is left");
            check(1, &recv(dev, LEN, 0, 2).buffer);
        }
        owned_over_at_once(dev);
        assert_eq!(dev.live_requests(), 0);
    });
}

/// The same for lists of requests that own their buffers. One that a wait had on loan stays in the
/// list.
fn owned_over_at_once(dev: &mut Device) {
    let world = dev.world();
    let mut used_up = dev.isend(vec![1], 0, 3, world).expect("isend");
    dev.wait(&mut used_up).expect("send");
    let mut reqs = vec![
        used_up,
        dev.irecv(vec![0; 8], 0, 4, world).expect("irecv"),
        dev.isend(vec![1], PROC_NULL, 0, world).expect("isend"),
    ];
    let (which, _) = dev.wait_any(&mut reqs).expect("send").expect("one is over");
    assert_eq!((which, reqs.len()), (2, 2));
    send(dev, vec![5], 0, 4);
    let done = dev.wait_some(&mut reqs).expect("receive");
    assert!(matches!(&done[..], [(1, d)] if d.buffer[0] == 5), "{done:?}");
    assert_eq!(reqs.len(), 1);
    assert!(dev.wait_any(&mut reqs).expect("nothing is left").is_none());
    assert!(dev.wait_some(&mut reqs).expect("nothing is left").is_empty());
    assert_eq!(recv(dev, 1, 0, 3).buffer, [1]);
}

/// Handles of nothing are finished.
pub fn null_requests(f: &dyn NetmodFactory) {
    run_job(f, 1, |dev| {
        let world = dev.world();
        let mut reqs = [RawReq::NULL; 3];
        assert!(dev.is_finished(RawReq::NULL));
        let empty = Status { source: ANY_SOURCE, tag: ANY_TAG, len: 0, cancelled: false };
        assert_eq!(dev.wait_raw(RawReq::NULL), Ok(empty));
        assert_eq!(dev.test_raw(RawReq::NULL), Ok(Some(empty)));
        dev.wait_all_raw(&mut reqs, None).expect("nothing");
        assert!(dev.test_all_raw(&mut reqs, None).expect("nothing"));
        dev.cancel_raw(RawReq::NULL);
        dev.free_raw(RawReq::NULL);
        // One that was used up means nothing any more, even when its place has been taken again.
        let area = Area::new(vec![0; 4]);
        let old = dev.irecv_raw(area.contig(), 0, 1, world).expect("irecv");
        let sent = dev.isend_raw(area.contig(), 0, 1, world, Mode::Standard).expect("isend");
        dev.wait_raw(sent).expect("send");
        dev.wait_raw(old).expect("receive");
        let new = dev.irecv_raw(area.contig(), 0, 2, world).expect("irecv");
        assert!(dev.is_finished(old) && !dev.is_finished(new));
        dev.cancel_raw(old);
        dev.free_raw(old);
        assert!(!dev.is_finished(new));
        dev.cancel_raw(new);
        assert!(dev.wait_raw(new).expect("receive").cancelled);
    });
}

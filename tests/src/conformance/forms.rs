//! One table of cases over all forms of requests and all calls that complete them.
//!
//! Each case says which bytes arrive, which stay untouched, which status or error the call returns,
//! and that the caller has the whole buffer afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ch3_shim::{
    ANY_TAG, Completion, Device, Error, Message, Mode, PROC_NULL, RawReq, Request, Result, SomeFailed, Status,
};

use super::{NetmodFactory, await_go, check, doing, go, other, pattern, protocols, run_job, send, settle};
use crate::sys::Area;

/// The value of bytes that no message has touched.
pub(super) const UNTOUCHED: u8 = 0xEE;

/// The end of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The message is shorter than the buffer.
    Short,
    Exact,
    /// It is longer.
    Long,
    /// The source is `PROC_NULL`.
    Nobody,
    /// The receive is cancelled, and no message matches it.
    Cancelled,
}

const CASES: [Case; 5] = [Case::Short, Case::Exact, Case::Long, Case::Nobody, Case::Cancelled];

/// The tag of a receive. No message has the tag of those that are cancelled.
fn tag(cancel: bool) -> i32 {
    if cancel { 2 } else { 1 }
}

/// The result of a receive, and its buffer.
pub type Received = (Result<Status>, Vec<u8>);

/// A receive into a borrowed buffer; the last argument says if it is cancelled.
pub(super) type BorrowedCall = fn(&mut Device, &mut [u8], i32, bool) -> Result<Status>;

/// A call that completes a raw request.
pub(super) type RawCall = fn(&mut Device, RawReq) -> Result<Status>;

/// A call that completes a request that owns its buffer.
pub(super) type OwnedCall = fn(&mut Device, Request) -> Received;

/// A receive of a matched message.
pub(super) type MatchedCall = fn(&mut Device, Vec<u8>, Message) -> Received;

/// A form of requests, with a call that completes it.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Borrowed(BorrowedCall),
    Raw(RawCall),
    Owned(OwnedCall),
    Matched(MatchedCall),
}

impl Form {
    /// Receives from `source`.
    fn receive(self, dev: &mut Device, mut buf: Vec<u8>, source: i32, cancel: bool) -> Received {
        let world = dev.world();
        match self {
            Form::Borrowed(call) => (call(dev, &mut buf, source, cancel), buf),
            Form::Raw(call) => {
                let memory = Area::new(buf);
                let req = dev.irecv_raw(memory.contig(), source, tag(cancel), world).expect("irecv_raw");
                if cancel {
                    dev.cancel_raw(req);
                }
                (call(dev, req), memory.bytes())
            }
            Form::Owned(call) => {
                let req = dev.irecv(buf, source, tag(cancel), world).expect("irecv");
                if cancel {
                    dev.cancel(&req);
                }
                call(dev, req)
            }
            Form::Matched(call) => {
                let message = dev.mprobe(source, tag(cancel), world).expect("mprobe");
                call(dev, buf, message)
            }
        }
    }
}

/// The result of an owned request, and its buffer; of a failed send its data.
pub fn ended(ended: ch3_shim::Ended) -> Received {
    match ended {
        Ok(done) => (Ok(done.status), done.buffer),
        Err(failed) if failed.data.is_empty() => (Err(failed.error), failed.buffer),
        Err(failed) => (Err(failed.error), failed.data.into()),
    }
}

/// The only result of a list, and its buffer.
///
/// # Panics
/// If the list is not of one, or the result is not said to be the first's.
pub fn only(results: std::result::Result<Vec<Completion>, SomeFailed>) -> Received {
    only_some(results.map(|all| all.into_iter().enumerate().collect()))
}

/// Checks like [`only`] a call that returns the requests that it took.
///
/// # Panics
/// As [`only`].
pub fn only_some(results: std::result::Result<Vec<(usize, Completion)>, SomeFailed>) -> Received {
    let mut all: Vec<(usize, ch3_shim::Ended)> = match results {
        Ok(all) => all.into_iter().map(|(place, done)| (place, Ok(done))).collect(),
        Err(failed) => {
            assert_eq!(failed.first().map(|f| f.place), Some(Some(0)), "{failed}");
            failed.results
        }
    };
    match all.pop() {
        Some((0, result)) if all.is_empty() => ended(result),
        other => panic!("{other:?} behind {all:?}"),
    }
}

/// A wait within a scope that either asks first, lends its request or gives it.
fn scoped(
    dev: &mut Device,
    buf: &mut [u8],
    source: i32,
    cancel: bool,
    (asks, lends): (bool, bool),
) -> Result<Status> {
    let world = dev.world();
    dev.scope(|s| {
        let req = s.irecv(buf, source, tag(cancel), world)?;
        if cancel {
            s.cancel(&req);
        }
        while asks && !s.is_finished(&req)? {}
        if lends { s.wait(&req) } else { s.wait(req) }
    })
}

/// Forms that cannot be cancelled before they wait.
const BLOCKING: &[(&str, Form)] = &[
    (
        "recv",
        Form::Borrowed(|d, b, s, _| {
            let world = d.world();
            d.recv(b, s, 1, world)
        }),
    ),
    (
        "sendrecv",
        Form::Borrowed(|d, b, s, _| {
            let world = d.world();
            d.sendrecv(&[], PROC_NULL, 1, b, s, 1, world)
        }),
    ),
    ("mrecv", Form::Matched(|d, mut b, m| (d.mrecv(&mut b, m), b))),
    (
        "imrecv",
        Form::Matched(|d, b, m| {
            let req = d.imrecv(b, m);
            ended(d.wait(req))
        }),
    ),
];

/// Forms whose requests the caller has before they are finished.
pub(super) const FORMS: &[(&str, Form)] = &[
    ("wait of a scope", Form::Borrowed(|d, b, s, c| scoped(d, b, s, c, (false, false)))),
    ("lent wait of a scope", Form::Borrowed(|d, b, s, c| scoped(d, b, s, c, (false, true)))),
    ("is_finished of a scope", Form::Borrowed(|d, b, s, c| scoped(d, b, s, c, (true, false)))),
    ("wait_raw", Form::Raw(|d, r| d.wait_raw(r))),
    (
        "test_raw",
        Form::Raw(|d, r| {
            loop {
                if let Some(status) = d.test_raw(r)? {
                    return Ok(status);
                }
            }
        }),
    ),
    (
        "wait_all_raw",
        Form::Raw(|d, r| {
            let (mut reqs, mut out) = ([r], Vec::new());
            let done = d.wait_all_raw(&mut reqs, Some(&mut out));
            assert!(reqs[0].is_null());
            done.map(|()| out[0])
        }),
    ),
    ("wait_any_raw", Form::Raw(|d, r| d.wait_any_raw(&mut [r]).map(|done| done.expect("there is one").1))),
    (
        "wait_some_raw",
        Form::Raw(|d, r| {
            let mut out = Vec::new();
            d.wait_some_raw(&mut [r], &mut out).map(|()| out[0].1)
        }),
    ),
    (
        "test_any_raw",
        Form::Raw(|d, r| {
            let mut reqs = [r];
            loop {
                if let Some((_, status)) = d.test_any_raw(&mut reqs)? {
                    return Ok(status);
                }
            }
        }),
    ),
    (
        "test_some_raw",
        Form::Raw(|d, r| {
            let (mut reqs, mut out) = ([r], Vec::new());
            while out.is_empty() {
                d.test_some_raw(&mut reqs, &mut out)?;
            }
            Ok(out[0].1)
        }),
    ),
    (
        "test_all_raw",
        Form::Raw(|d, r| {
            let (mut reqs, mut out) = ([r], Vec::new());
            while !d.test_all_raw(&mut reqs, Some(&mut out))? {}
            Ok(out[0])
        }),
    ),
    ("wait", Form::Owned(|d, r| ended(d.wait(r)))),
    (
        "lent wait",
        Form::Owned(|d, mut r| {
            let done = ended(d.wait(&mut r));
            assert!(r.raw().is_null());
            done
        }),
    ),
    (
        "test",
        Form::Owned(|d, mut r| {
            loop {
                match d.test(r) {
                    Ok(Err(again)) => r = again,
                    Ok(Ok(done)) => return ended(Ok(done)),
                    Err(failed) => return ended(Err(failed)),
                }
            }
        }),
    ),
    ("wait_all", Form::Owned(|d, r| only(d.wait_all([r])))),
    (
        "wait_any",
        Form::Owned(|d, r| {
            let mut reqs = vec![r];
            let done = d.wait_any(&mut reqs);
            assert!(reqs.is_empty());
            ended(done.map(|done| done.expect("there is one").1))
        }),
    ),
    ("wait_some", Form::Owned(|d, r| only_some(d.wait_some(&mut vec![r])))),
    (
        "test_all",
        Form::Owned(|d, r| {
            let mut reqs = vec![r];
            loop {
                match d.test_all(reqs) {
                    Ok(Err(again)) => reqs = again,
                    Ok(Ok(done)) => return only(Ok(done)),
                    Err(failed) => return only(Err(failed)),
                }
            }
        }),
    ),
];

/// Receives end alike in all forms, by all calls.
pub fn receives(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let peer = other(dev);
        for len in protocols(dev).map(|s| s.min(top)) {
            for (form, call) in BLOCKING.iter().chain(FORMS) {
                let blocks = BLOCKING.iter().any(|(blocking, _)| blocking == form);
                for case in CASES {
                    if blocks && case == Case::Cancelled {
                        continue;
                    }
                    doing(format!("{form}, {case:?}, {len} bytes"));
                    let comes = !matches!(case, Case::Nobody | Case::Cancelled);
                    if dev.rank() == 0 {
                        if comes {
                            send(dev, pattern(len as u64, len), peer, 1);
                        }
                        continue;
                    }
                    let room = match case {
                        Case::Short => len + 40,
                        Case::Long => len - 3,
                        _ => len,
                    };
                    let source = if case == Case::Nobody { PROC_NULL } else { peer };
                    let (result, buffer) =
                        call.receive(dev, vec![UNTOUCHED; room], source, case == Case::Cancelled);
                    let what = format!("{form}, {case:?}, {len} bytes");
                    let whole = Status { source: peer, tag: 1, len: len.min(room), cancelled: false };
                    match case {
                        Case::Short | Case::Exact => assert_eq!(result, Ok(whole), "{what}"),
                        Case::Long => {
                            let cut = Error::Truncated { status: whole, sent: len as u64 };
                            assert_eq!(result, Err(cut), "{what}");
                        }
                        Case::Nobody => {
                            let nobody = Status { source: PROC_NULL, tag: ANY_TAG, ..Status::default() };
                            assert_eq!(result, Ok(nobody), "{what}");
                        }
                        Case::Cancelled => assert!(result.is_ok_and(|s| s.cancelled), "{what}"),
                    }
                    assert_eq!(buffer.len(), room, "{what}: the buffer is not given back");
                    let got = if comes { whole.len } else { 0 };
                    check(len as u64, &buffer[..got]);
                    assert!(buffer[got..].iter().all(|b| *b == UNTOUCHED), "{what}: the rest was touched");
                    assert_eq!(dev.posted_len(), 0, "{what}");
                }
            }
            // No message of the next length arrives before nothing is left of these.
            settle(dev);
            if dev.rank() == 0 { await_go(dev, peer) } else { go(dev, peer) }
        }
    });
}

/// One of several receives fails: the error names it, and has the results and buffers of all.
pub fn one_of_several_fails(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in protocols(dev).map(|s| s.min(top)) {
            for call in 0..3 {
                if dev.rank() == 0 {
                    await_go(dev, peer);
                    (0..3).for_each(|tag| send(dev, pattern(tag, len), peer, tag as i32));
                    continue;
                }
                let room = |tag: i32| if tag == 1 { len - 1 } else { len };
                let mut reqs: Vec<Request> = (0..3)
                    .map(|tag| dev.irecv(vec![UNTOUCHED; room(tag)], peer, tag, world).expect("irecv"))
                    .collect();
                go(dev, peer);
                let failed = match call {
                    0 => dev.wait_all(reqs).expect_err("one of them fails"),
                    1 => loop {
                        match dev.test_all(reqs) {
                            Ok(Err(again)) => reqs = again,
                            Ok(Ok(done)) => panic!("one of them fails: {done:?}"),
                            Err(failed) => break failed,
                        }
                    },
                    _ => {
                        // All of them are finished.
                        while reqs.iter().any(|r| !dev.is_finished(r.raw())) {
                            dev.progress().expect("progress");
                        }
                        dev.wait_some(&mut reqs).expect_err("one of them fails")
                    }
                };
                assert_eq!(failed.first().map(|f| f.place), Some(Some(1)), "{failed}");
                assert!(failed.to_string().starts_with("1 of 3 requests failed; request 1: "), "{failed}");
                assert_eq!(failed.results.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 1, 2]);
                for (tag, result) in failed.results {
                    assert_eq!(result.is_err(), tag == 1);
                    let (_, buffer) = ended(result);
                    assert_eq!(buffer.len(), room(tag as i32));
                    check(tag as u64, &buffer);
                }
                settle(dev);
            }
        }
        // An operation that could not be started gives its buffer back, too.
        let refused = dev.irecv(vec![7; 5], 2, 1, world).expect_err("no such rank");
        assert_eq!(refused.buffer, [7; 5]);
    });
}

/// Memory of a send that counts when it is freed.
pub struct Counted(pub Vec<u8>, pub Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Requests whose handles are dropped finish by themselves; then neither they nor their memory are
/// left.
pub fn dropped(f: &dyn NetmodFactory) {
    const MANY: usize = 20;
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in protocols(dev).map(|s| s.min(top)) {
            for mode in [Mode::Standard, Mode::Sync] {
                doing(format!("dropped, {len} bytes, {mode:?}"));
                if dev.rank() == 0 {
                    let freed = Arc::new(AtomicUsize::new(0));
                    for _ in 0..MANY {
                        let data = Bytes::from_owner(Counted(pattern(3, len), Arc::clone(&freed)));
                        drop(dev.isend_mode(data, peer, 1, world, mode).expect("isend"));
                    }
                    go(dev, peer);
                    settle(dev);
                    let end = Instant::now() + Duration::from_secs(20);
                    while freed.load(Ordering::Relaxed) < MANY {
                        assert!(
                            Instant::now() < end,
                            "{freed:?} of {MANY} messages of {len} bytes are freed"
                        );
                        dev.progress().expect("progress");
                    }
                    await_go(dev, peer);
                } else {
                    await_go(dev, peer);
                    for i in 0..MANY {
                        let req = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
                        // Every other one is dropped, too.
                        if i % 2 == 0 {
                            check(3, &dev.wait(req).expect("receive").buffer);
                        } else {
                            drop(req);
                        }
                    }
                    settle(dev);
                    assert_eq!((dev.posted_len(), dev.unexpected_len()), (0, 0));
                    go(dev, peer);
                }
            }
        }
    });
}

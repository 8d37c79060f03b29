//! Whatever the kernel takes at a time: the bytes are those of the messages, in order and once, and
//! requests finish in order, each when its last byte has gone.

#![allow(unsafe_code)]

use netmod_core::{OnDone, Outcome, PeerName, Vc};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Copied(usize),
    Contig {
        len: usize,
        gone: usize,
        asks: bool,
    },
    Segment {
        len: usize,
        asks: bool,
    },
    Cancel(usize),
    /// The kernel takes at most so many bytes.
    Write(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![0usize..40, 1000usize..6000];
    prop_oneof![
        4 => (0usize..200).prop_map(Op::Copied),
        2 => (len.clone(), 0usize..50, any::<bool>()).prop_map(|(len, gone, asks)| Op::Contig { len, gone, asks }),
        2 => (len, any::<bool>()).prop_map(|(len, asks)| Op::Segment { len, asks }),
        1 => any::<usize>().prop_map(Op::Cancel),
        3 => prop_oneof![0usize..100, 0usize..20_000].prop_map(Op::Write),
    ]
}

fn data(n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| n ^ (i as u8).wrapping_mul(7)).collect()
}

struct World {
    core: Core,
    vc: VcId,
    queue: TxQueue,
    /// What must come out, message by message, and the request; `None` once cancelled.
    expected: Vec<Option<Vec<u8>>>,
    reqs: Vec<ReqId>,
    out: Vec<u8>,
}

impl World {
    fn write(&mut self, mut room: usize) {
        loop {
            let mut iov = [IoVec::EMPTY; 5];
            let (n, bytes) =
                if self.queue.is_sendable() { self.queue.gather(&self.core, &mut iov) } else { (0, 0) };
            let take = bytes.min(room);
            let mut left = take;
            for piece in &iov[..n] {
                let k = piece.len.min(left);
                // SAFETY: the pieces are of the stage or of buffers that this test has leaked.
                self.out.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.base, k) });
                left -= k;
            }
            self.queue.written(&mut self.core, self.vc, take);
            room -= take;
            // A held queue waits for its owner's word.
            let asked: Vec<ReqId> = self.core.drain_sent().map(|(_, req)| req).collect();
            for req in &asked {
                self.queue.resume(*req, false);
                self.core.finish(*req, Outcome::Done);
            }
            if take == 0 && asked.is_empty() {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn bytes_leave_in_order_and_once(ops in prop::collection::vec(op(), 1..40)) {
        let mut core = Core::default();
        let vc = core.vcs.insert(Vc::new(PeerName::default(), 0));
        let mut w = World { core, vc, queue: TxQueue::default(), expected: vec![], reqs: vec![], out: vec![] };
        for (n, op) in ops.into_iter().enumerate() {
            let hdr: Header = [n as u8; 32];
            match op {
                Op::Copied(len) => {
                    let body = data(n as u8, len);
                    let req = w.queue.push_copied(&mut w.core, vc, &hdr, &body);
                    w.expected.push(Some([&hdr[..], &body].concat()));
                    w.reqs.push(req);
                }
                Op::Contig { len, gone, asks } => {
                    // Only the first message of a queue can have gone in part.
                    let gone = if w.queue.is_empty() { gone.min(31 + len) } else { 0 };
                    let body: &'static [u8] = data(n as u8, len).leak();
                    let mut r = Request::new(Some(vc), Segment::empty());
                    r.on_done = if asks { OnDone::Upper } else { OnDone::Complete };
                    let req = w.core.reqs.insert(r);
                    w.queue.push(&mut w.core, &hdr, Data::Contig(SendBuf::from_static(body)), gone, req);
                    let whole = [&hdr[..], body].concat();
                    w.out.extend_from_slice(&whole[..gone]);
                    w.expected.push(Some(whole));
                    w.reqs.push(req);
                }
                Op::Segment { len, asks } => {
                    let body: &'static mut [u8] = data(n as u8, len).leak();
                    // SAFETY: leaked memory is valid for ever, and only read from now on.
                    let seg = unsafe { Segment::contig(body.as_mut_ptr(), len) };
                    let mut r = Request::new(Some(vc), seg);
                    r.on_done = if asks { OnDone::Upper } else { OnDone::Complete };
                    let req = w.core.reqs.insert(r);
                    w.queue.push(&mut w.core, &hdr, Data::Segment, 0, req);
                    w.expected.push(Some([&hdr[..], body].concat()));
                    w.reqs.push(req);
                }
                Op::Cancel(i) => {
                    if !w.reqs.is_empty() {
                        let i = i % w.reqs.len();
                        let shared = w.reqs.iter().filter(|r| **r == w.reqs[i]).count() > 1;
                        if !w.core.is_finished(w.reqs[i]) && w.queue.cancel(&w.core, w.reqs[i]) {
                            prop_assert!(!shared);
                            w.core.finish(w.reqs[i], Outcome::Cancelled);
                            w.expected[i] = None;
                        }
                    }
                }
                Op::Write(room) => w.write(room),
            }
            // What has come out so far is a beginning of what must, and no request is ahead of its bytes.
            let whole: Vec<u8> = w.expected.iter().flatten().flatten().copied().collect();
            prop_assert!(whole.starts_with(&w.out));
            let mut end = 0;
            for (e, req) in w.expected.iter().zip(&w.reqs) {
                end += e.as_ref().map_or(0, Vec::len);
                if e.is_some() && w.core.is_finished(*req) {
                    prop_assert!(end <= w.out.len(), "a request finished before its bytes had gone");
                }
            }
        }
        w.write(usize::MAX);
        let whole: Vec<u8> = w.expected.iter().flatten().flatten().copied().collect();
        prop_assert_eq!(&w.out, &whole);
        prop_assert!(w.queue.is_empty());
        prop_assert!(w.reqs.iter().all(|r| w.core.is_finished(*r)));
    }
}

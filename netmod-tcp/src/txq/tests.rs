//! Random schedules of a send window: the kernel takes what it likes, the peer acknowledges,
//! connections break. The bytes that arrive are those of the messages, in order and once. No
//! request finishes before its bytes have gone, and none is needed again after that.

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
        told: bool,
    },
    Segment {
        len: usize,
        told: bool,
    },
    /// Written whole before it is kept.
    Logged(usize),
    Control,
    Cancel(usize),
    /// The kernel takes at most so many bytes.
    Write(usize),
    /// The peer acknowledges a part of what was sent, in 256ths.
    Ack(u8),
    /// The connection breaks, and the peer has read a part of what was not acknowledged.
    Break(u8),
    /// Sends bytes past the queue; then a session begins in the middle of the connection.
    Begin(usize),
    Keep,
    Shrink,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![0usize..40, 1000usize..6000, 100_000usize..200_000];
    prop_oneof![
        4 => (0usize..200).prop_map(Op::Copied),
        2 => (len.clone(), 0usize..50, any::<bool>()).prop_map(|(len, gone, told)| Op::Contig { len, gone, told }),
        2 => (len, any::<bool>()).prop_map(|(len, told)| Op::Segment { len, told }),
        2 => (0usize..5000).prop_map(Op::Logged),
        1 => Just(Op::Control),
        1 => any::<usize>().prop_map(Op::Cancel),
        4 => prop_oneof![0usize..100, 0usize..20_000, 0usize..500_000].prop_map(Op::Write),
        2 => any::<u8>().prop_map(Op::Ack),
        1 => any::<u8>().prop_map(Op::Break),
        1 => (0usize..5000).prop_map(Op::Begin),
        1 => Just(Op::Keep),
        1 => Just(Op::Shrink),
    ]
}

fn data(n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| n ^ (i as u8).wrapping_mul(7)).collect()
}

/// Memory of a sender, which it writes to as soon as its request is finished.
struct Lent {
    req: ReqId,
    at: *mut u8,
    len: usize,
}

struct World {
    core: Core,
    vc: VcId,
    queue: TxQueue,
    retain: bool,
    /// The expected bytes, message by message, and the request; `None` once cancelled.
    expected: Vec<Option<Vec<u8>>>,
    reqs: Vec<Option<ReqId>>,
    lent: Vec<Lent>,
    /// Position that the peer has read up to, if the connection breaks now.
    out: Vec<u8>,
    /// Most that was ever sent.
    reached: usize,
    controls: usize,
}

impl World {
    fn request(&mut self, len: usize, n: u8, told: bool) -> (ReqId, *mut u8) {
        let body: &'static mut [u8] = data(n, len).leak();
        let at = body.as_mut_ptr();
        // SAFETY: leaked memory is valid for ever, and written only when its request is finished.
        let seg = unsafe { Segment::contig(at, len) };
        let mut r = Request::new(Some(self.vc), seg);
        r.on_done = if told { OnDone::Upper } else { OnDone::Complete };
        let req = self.core.add_req(r);
        self.lent.push(Lent { req, at, len });
        (req, at)
    }

    fn expect(&mut self, whole: Vec<u8>, req: Option<ReqId>) {
        self.expected.push(Some(whole));
        self.reqs.push(req);
    }

    /// Owners who are told that their data has gone have its memory back.
    fn tell(&mut self) {
        let told: Vec<ReqId> = self.core.drain_sent().map(|(_, req)| req).collect();
        for req in told {
            self.scribble(req);
            self.core.finish(req, Outcome::Done);
        }
    }

    /// Its owner has the memory of a request back.
    fn scribble(&mut self, req: ReqId) {
        self.lent.retain(|l| {
            if l.req != req {
                return true;
            }
            // SAFETY: leaked memory of this length, which the queue must not read any more.
            unsafe { std::ptr::write_bytes(l.at, 0xEE, l.len) };
            false
        });
    }

    fn write(&mut self, mut room: usize) {
        loop {
            let mut iov = [IoVec::EMPTY; 5];
            let (n, bytes) =
                if self.queue.is_sendable() { self.queue.gather(&mut self.core, &mut iov) } else { (0, 0) };
            let take = bytes.min(room);
            let mut left = take;
            for piece in &iov[..n] {
                let k = piece.len.min(left);
                // SAFETY: the pieces are of the stage, of copies, or of buffers that this test has
                // leaked.
                self.out.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.base, k) });
                left -= k;
            }
            self.reached = self.reached.max(self.out.len());
            self.queue.written(&mut self.core, self.vc, take);
            room -= take;
            self.tell();
            if take == 0 {
                return;
            }
        }
    }

    fn ack(&mut self, part: u8) {
        let (acked, sent) = (self.queue.acked, self.queue.sent);
        let position = acked + (sent - acked) * u64::from(part) / 255;
        self.queue.acknowledge(&mut self.core, self.vc, position).expect("no more than was sent");
        assert!(self.queue.acknowledge(&mut self.core, self.vc, sent + 1).is_err());
    }

    fn apply(&mut self, n: usize, op: Op) {
        let hdr: Header = [n as u8; 32];
        let vc = self.vc;
        match op {
            Op::Copied(len) => {
                let body = data(n as u8, len);
                let req = self.queue.push_copied(&mut self.core, vc, &hdr, &body);
                self.expect([&hdr[..], &body].concat(), Some(req));
            }
            Op::Contig { len, gone, told } => {
                // Only the first message that waits can have gone in part, or the last whole.
                let gone = if self.queue.is_drained() { gone.min(32 + len) } else { 0 };
                let (req, at) = self.request(len, n as u8, told);
                // SAFETY: as in `request`.
                let buf = unsafe { SendBuf::new(at, len) };
                let whole = [&hdr[..], buf.bytes()].concat();
                self.out.extend_from_slice(&whole[..gone]);
                self.expect(whole, Some(req));
                self.queue.push(&mut self.core, vc, &hdr, Data::Contig(buf), gone, req);
            }
            Op::Segment { len, told } => {
                let (req, _) = self.request(len, n as u8, told);
                self.expect([&hdr[..], &data(n as u8, len)].concat(), Some(req));
                self.queue.push(&mut self.core, vc, &hdr, Data::Segment, 0, req);
            }
            Op::Logged(len) if self.retain && self.queue.is_drained() => {
                let body = data(n as u8, len);
                let whole = [&hdr[..], &body].concat();
                self.out.extend_from_slice(&whole);
                self.expect(whole, None);
                self.queue.log([&hdr, &body]);
            }
            Op::Logged(_) => {}
            Op::Control => {
                self.controls += 1;
                self.queue.push_control(&hdr);
                self.expect(hdr.to_vec(), None);
            }
            Op::Cancel(i) => {
                if self.reqs.is_empty() {
                    return;
                }
                let i = i % self.reqs.len();
                let Some(req) = self.reqs[i] else { return };
                let shared = self.reqs.iter().filter(|r| **r == Some(req)).count() > 1;
                if !self.core.is_finished(req) && self.queue.cancel(&self.core, req) {
                    assert!(!shared);
                    self.core.finish(req, Outcome::Cancelled);
                    self.expected[i] = None;
                }
            }
            Op::Write(room) => self.write(room),
            Op::Ack(part) => self.ack(part),
            Op::Break(part) if self.retain => {
                let (acked, sent) = (self.queue.acked, self.queue.sent);
                let position = acked + (sent - acked) * u64::from(part) / 255;
                let again = self.queue.rewind(&mut self.core, vc, position).expect("in the window");
                assert_eq!(again, sent - position);
                self.out.truncate(position as usize);
            }
            Op::Break(_) => {}
            Op::Begin(len) if !self.retain => {
                let past = if self.queue.is_drained() { data(n as u8, len) } else { vec![] };
                self.out.extend_from_slice(&past);
                self.queue.begin_to_retain(past.len() as u64);
                self.expect(past, None);
                self.retain = true;
            }
            Op::Begin(_) => {}
            Op::Keep => {
                if !self.queue.is_sendable() {
                    self.queue.keep_all(&mut self.core, vc);
                }
            }
            Op::Shrink => self.queue.shrink(),
        }
        self.tell();
        // No message is settled before its acknowledgement, however much of it was sent.
        let (acked, out) = (self.queue.acked as usize, self.out.len());
        assert!(!self.queue.is_settled() || out - acked <= 32 * self.controls);
        self.reached = self.reached.max(self.out.len());
    }

    /// The bytes that came out are a beginning of the expected ones, and no request is ahead of its
    /// bytes.
    fn check(&mut self) {
        let whole: Vec<u8> = self.expected.iter().flatten().flatten().copied().collect();
        assert!(whole.starts_with(&self.out));
        assert_eq!(self.queue.sent as usize, self.out.len());
        let mut end = 0;
        for i in 0..self.reqs.len() {
            end += self.expected[i].as_ref().map_or(0, Vec::len);
            if let Some(req) = self.reqs[i]
                && self.expected[i].is_some()
                && self.core.is_finished(req)
            {
                assert!(end <= self.reached, "a request finished before its bytes had gone");
            }
        }
        let finished: Vec<ReqId> =
            self.lent.iter().map(|l| l.req).filter(|r| self.core.is_finished(*r)).collect();
        for req in finished {
            self.scribble(req);
        }
    }
}

fn world(retain: bool) -> World {
    let mut core = Core::default();
    let vc = core.add_vc(Vc::new(PeerName::default(), 0));
    let mut queue = TxQueue::default();
    queue.begin(&mut core, vc, retain);
    World {
        core,
        vc,
        queue,
        retain,
        expected: vec![],
        reqs: vec![],
        lent: vec![],
        out: vec![],
        reached: 0,
        controls: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn bytes_leave_in_order_and_once(retain in any::<bool>(), ops in prop::collection::vec(op(), 1..40)) {
        let mut w = world(retain);
        for (n, op) in ops.into_iter().enumerate() {
            w.apply(n, op);
            w.check();
        }
        // Further sends may wait for acknowledgements.
        for _ in 0..200 {
            w.write(usize::MAX);
            w.ack(255);
        }
        w.check();
        let whole: Vec<u8> = w.expected.iter().flatten().flatten().copied().collect();
        prop_assert_eq!(&w.out, &whole);
        prop_assert!(w.queue.is_settled());
        prop_assert!(w.reqs.iter().flatten().all(|r| w.core.is_finished(*r)));
        prop_assert!(w.lent.is_empty() && w.queue.lent == 0 && w.queue.kept == 0);
        w.queue.shrink();
        prop_assert!(!w.queue.is_large(), "{:?}", w.queue);
    }
}

/// Large data is neither copied nor finished before the acknowledgement, unless there is time to
/// copy it.
#[test]
fn lent_memory_is_let_go_of_by_acknowledgement_or_copy() {
    for keep in [false, true] {
        let mut w = world(true);
        w.apply(0, Op::Contig { len: 100_000, gone: 32 + 100_000, told: false });
        let req = w.reqs[0].expect("a request");
        assert!(w.queue.is_drained() && w.queue.is_lent() && !w.core.is_finished(req));
        if keep {
            assert!(w.queue.keep_all(&mut w.core, w.vc));
        } else {
            w.ack(254);
            assert!(!w.core.is_finished(req), "a part of it may be wanted again");
            w.ack(255);
        }
        assert!(w.core.is_finished(req) && !w.queue.is_lent());
    }
    // Copies are bounded.
    let mut w = world(true);
    let len = KEEP_BOUND + 40_000;
    w.apply(0, Op::Contig { len, gone: 32 + len, told: false });
    assert!(!w.queue.keep_all(&mut w.core, w.vc));
    w.ack(128);
    assert!(w.queue.keep_all(&mut w.core, w.vc), "what is left is less than the bound");
}

/// Copied bytes wait when too many are unacknowledged.
#[test]
fn the_window_is_bounded() {
    let mut w = world(true);
    for n in 0..2000 {
        w.queue.push_copied(&mut w.core, w.vc, &[n as u8; 32], &[n as u8; 1000]);
        w.write(usize::MAX);
    }
    assert!(w.out.len() <= WINDOW && w.out.len() > WINDOW - BATCH_BYTES - 2000, "{} bytes", w.out.len());
    assert!(!w.queue.is_open(2000) && !w.queue.is_drained());
    w.ack(255);
    w.write(usize::MAX);
    assert_eq!(w.out.len(), 2000 * 1032);
}

#[test]
fn a_connection_resumes_only_within_the_window() {
    let mut w = world(true);
    w.apply(0, Op::Logged(1000));
    w.ack(128);
    let (acked, sent) = (w.queue.acked, w.queue.sent);
    assert!(acked > 0 && acked < sent);
    assert!(w.queue.rewind(&mut w.core, w.vc, acked - 1).is_err());
    assert!(w.queue.rewind(&mut w.core, w.vc, sent + 1).is_err());
    assert_eq!(w.queue.rewind(&mut w.core, w.vc, acked).expect("in the window"), sent - acked);
}

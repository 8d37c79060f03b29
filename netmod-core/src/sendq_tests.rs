//! Send queues and work lists: order, progress, cancelling.

use super::*;
use crate::error::VcErrorKind;
use crate::request::{OnDone, Outcome, Request};

static DATA: [u8; 100] = [7; 100];

fn vc(n: u64) -> VcId {
    VcId::from_wire(1 << 32 | n)
}

fn request(core: &mut Core, on_done: OnDone) -> ReqId {
    core.add_req(Request { on_done, ..Request::default() })
}

fn message(req: ReqId) -> Message {
    Message::new([3; HDR_LEN], Data::Contig(SendBuf::from_static(&DATA)), req)
}

#[test]
fn a_message_goes_in_pieces() {
    let mut core = Core::new(1);
    let req = request(&mut core, OnDone::Complete);
    let mut m = message(req);
    assert!(!m.started() && m.head().len() == HDR_LEN && m.left(&core) == 100);
    m.head_sent(5);
    assert!(m.started() && m.head().len() == HDR_LEN - 5);
    m.head_sent(HDR_LEN);
    assert!(m.head().is_empty());
    let mut out = [0; 60];
    assert_eq!(m.copy(&mut core, &mut out), (60, false));
    assert_eq!((out, m.left(&core)), ([7; 60], 40));
    assert_eq!(m.copy(&mut core, &mut out), (40, true));
    assert_eq!(m.copy(&mut core, &mut out), (0, true));
}

#[test]
fn what_has_gone_before_it_waited_is_left_out() {
    let mut core = Core::new(1);
    let req = request(&mut core, OnDone::Complete);
    for (gone, head, data) in
        [(0, HDR_LEN, 100), (4, HDR_LEN - 4, 100), (HDR_LEN, 0, 100), (HDR_LEN + 9, 0, 91)]
    {
        let m = message(req).without(gone);
        assert_eq!((m.head().len(), m.left(&core), m.started()), (head, data, gone > 0), "{gone}");
    }
    assert_eq!(Message::new([0; HDR_LEN], Data::None, req).without(HDR_LEN).left(&core), 0);
}

#[test]
fn messages_go_in_order_and_finish_their_requests() {
    let mut core = Core::new(1);
    let [a, b] = [(); 2].map(|()| request(&mut core, OnDone::Complete));
    let mut q = SendQueue::default();
    q.push(&mut core, message(a));
    q.push(&mut core, message(b));
    assert_eq!((q.len(), q.front().map(|m| m.req())), (2, Some(a)));
    q.front_sent(&mut core, vc(0));
    assert_eq!(core.take(a), Some(Outcome::Done));
    assert_eq!(q.front().map(|m| m.req()), Some(b));
    q.front_sent(&mut core, vc(0));
    assert!(q.is_empty());
    q.front_sent(&mut core, vc(0));
}

#[test]
fn who_is_told_keeps_nobody_waiting() {
    let mut core = Core::new(1);
    let [a, b] = [OnDone::Upper, OnDone::Complete].map(|on_done| request(&mut core, on_done));
    let mut q = SendQueue::default();
    q.push(&mut core, message(a));
    q.push(&mut core, message(b));
    q.front_sent(&mut core, vc(0));
    assert_eq!(q.front().map(|m| m.req()), Some(b));
    assert!(!core.is_finished(a), "its owner finishes it");
    assert_eq!(core.drain_sent().collect::<Vec<_>>(), [(vc(0), a)]);
}

#[test]
fn only_messages_that_have_not_begun_are_cancelled() {
    let mut core = Core::new(1);
    let [a, b, c] = [(); 3].map(|()| request(&mut core, OnDone::Complete));
    let mut q = SendQueue::default();
    q.push(&mut core, message(a));
    q.push(&mut core, message(b));
    assert!(!q.is_within());
    q.front().expect("a message").head_sent(1);
    assert!(q.is_within());
    assert!(!q.cancel(&core, a) && q.cancel(&core, b) && !q.cancel(&core, b) && !q.cancel(&core, c));
    assert_eq!(q.len(), 1);
}

/// After any number of cancellations in any order, the queue holds the other messages and little
/// more.
#[test]
fn cancelled_messages_take_no_memory() {
    let mut core = Core::new(1);
    let mut q = SendQueue::default();
    let first = request(&mut core, OnDone::Complete);
    q.push(&mut core, message(first));
    // The last but one is cancelled, so that it is at no end.
    let mut last = request(&mut core, OnDone::Complete);
    q.push(&mut core, message(last));
    for _ in 0..10_000 {
        let next = request(&mut core, OnDone::Complete);
        q.push(&mut core, message(next));
        assert!(q.cancel(&core, last));
        core.remove_req(last);
        last = next;
    }
    assert_eq!((q.len(), q.front().map(|m| m.req())), (2, Some(first)));
    assert!(q.capacity() < 8 * DEAD, "{}", q.capacity());
    q.front_sent(&mut core, vc(0));
    assert_eq!(q.front().map(|m| m.req()), Some(last));

    for from_the_front in [true, false] {
        let mut reqs: Vec<ReqId> = (0..1000).map(|_| request(&mut core, OnDone::Complete)).collect();
        for req in &reqs {
            q.push(&mut core, message(*req));
        }
        if !from_the_front {
            reqs.reverse();
        }
        assert!(reqs.iter().all(|r| q.cancel(&core, *r) && !q.cancel(&core, *r)));
        assert_eq!((q.len(), q.front().map(|m| m.req())), (1, Some(last)));
    }
}

#[test]
fn a_queue_that_fails_fails_its_requests() {
    let mut core = Core::new(1);
    let [a, b] = [OnDone::Upper, OnDone::Complete].map(|on_done| request(&mut core, on_done));
    let mut q = SendQueue::default();
    q.push(&mut core, message(a));
    q.push(&mut core, message(b));
    let error = VcError::new(VcErrorKind::Lost, None, "gone");
    q.fail(&mut core, &error);
    assert!(q.is_empty());
    for req in [a, b] {
        assert_eq!(core.take(req), Some(Outcome::Failed(error.clone())));
    }
}

#[test]
fn a_work_list_has_each_vc_once_and_in_order() {
    let mut t = WorkList::default();
    for n in [3, 1, 3, 2, 1] {
        t.add(vc(n));
    }
    assert_eq!(t.len(), 3);
    assert_eq!(t.take(), Some(vc(3)));
    // It may be added again, after the others.
    t.add(vc(3));
    let rest: Vec<_> = std::iter::from_fn(|| t.take()).collect();
    assert_eq!(rest, [vc(1), vc(2), vc(3)]);
    assert!(t.is_empty());
}

#[test]
fn a_vc_that_is_gone_does_not_displace_the_one_in_its_slot() {
    let [old, new] = [1u64, 3].map(|generation| VcId::from_wire(generation << 32 | 5));
    let mut t = WorkList::default();
    t.add(old);
    t.add(new);
    t.add(new);
    assert_eq!([t.take(), t.take(), t.take()], [Some(old), Some(new), None]);
    t.add(new);
    assert_eq!(t.take(), Some(new));
}

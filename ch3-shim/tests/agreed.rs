//! Tests of the interface for a layer that agrees on contexts itself.

#![allow(unsafe_code)]

use std::time::Duration;

use ch3_shim::{ANY_SOURCE, ANY_TAG, Builder, Device, Error, Mode};
use netmod_core::config::Spin;
use netmod_core::{Segment, Time};

fn alone() -> Device {
    Device::init().expect("a job of one")
}

#[test]
fn messages_match_within_an_agreed_context() {
    let mut dev = alone();
    let (a, b) = (dev.comm_of_context(6).expect("agreed"), dev.comm_of_context(7).expect("agreed"));
    assert_eq!((a.context(), b.context()), (6, 7));
    let in_a = dev.irecv(vec![0; 4], 0, 1, a).expect("a receive");
    let in_b = dev.irecv(vec![0; 4], 0, 1, b).expect("a receive");
    dev.send(&[2; 4], 0, 1, b).expect("a send");
    dev.send(&[1; 4], 0, 1, a).expect("a send");
    assert_eq!(dev.wait(in_a).expect("received").buffer, [1; 4]);
    assert_eq!(dev.wait(in_b).expect("received").buffer, [2; 4]);
    // A freed context is agreed upon again.
    assert_eq!(dev.comm_of_context(6), Ok(a));
    dev.finalize().expect("finalize");
}

#[test]
fn context_ids_come_from_one_side_only() {
    let mut dev = alone();
    let world = dev.world();
    assert!(dev.comm_of_context(1 << 29).expect_err("too large").to_string().contains("below 2^29"));
    dev.dup(world).expect("a context of the device's");
    let refused = dev.comm_of_context(4).expect_err("ids are the device's");
    assert!(
        matches!(refused, Error::Usage(ref text) if text.contains("agree on the ids of all")),
        "{refused}"
    );
    dev.finalize().expect("finalize");

    let mut dev = alone();
    let named = dev.comm_of_context(4).expect("agreed");
    for comm in [dev.world(), named] {
        let refused = dev.dup(comm).expect_err("ids are the caller's");
        assert!(refused.to_string().contains("comm_of_context"), "{refused}");
    }
    dev.finalize().expect("finalize");
}

/// A caller that waits in parts sleeps when all of them together have polled for long enough.
#[test]
fn who_has_polled_in_vain_before_sleeps_earlier() {
    const POLLS: u32 = 500;
    let mut builder = Builder::from_env().expect("a job of one");
    builder.config().spin = Spin::Polls(POLLS);
    let mut dev = builder.build().expect("a device");
    let mut asked = |before: u32| {
        let mut asked = 0;
        let deadline = dev.now() + Duration::from_millis(20);
        let waited = dev.go_on_waiting(before, deadline, |_| {
            asked += 1;
            false
        });
        waited.expect("progress");
        asked
    };
    assert!(asked(0) > POLLS);
    assert!((2..POLLS / 2).contains(&asked(POLLS)), "it sleeps at once, and at most some times");
    dev.finalize().expect("finalize");
}

#[test]
fn each_request_has_its_own_result() {
    let mut dev = alone();
    let world = dev.world();
    let (mut short, mut long) = ([0u8; 2], [0u8; 8]);
    let segment = |buf: &mut [u8]| {
        // SAFETY: the arrays outlive the requests, and nobody touches them before they are over.
        unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) }
    };
    let cut = dev.irecv_raw(segment(&mut short), 0, 1, world).expect("a receive");
    let fits = dev.irecv_raw(segment(&mut long), ANY_SOURCE, ANY_TAG, world).expect("a receive");
    assert!(!cut.is_over() && !dev.is_settled(cut));
    let early = dev.take_raw(cut).expect_err("not finished");
    assert!(early.to_string().contains("before it was finished"), "{early}");
    let mut data = *b"message";
    for tag in [1, 2] {
        let sent = dev.isend_raw(segment(&mut data), 0, tag, world, Mode::Standard).expect("a send");
        dev.wait_raw(sent).expect("sent");
    }
    dev.wait_until(Time::NEVER, |d| d.is_settled(cut) && d.is_settled(fits)).expect("both");
    match dev.take_raw(cut) {
        Err(Error::Truncated { status, sent: 7 }) => assert_eq!((status.tag, status.len), (1, 2)),
        other => panic!("{other:?}"),
    }
    let status = dev.take_raw(fits).expect("received");
    assert_eq!((status.tag, status.len), (2, 7));
    assert_eq!(dev.live_requests(), 0);
    dev.finalize().expect("finalize");
}

#[test]
fn a_request_is_ended_before_its_memory_is_gone() {
    let mut dev = alone();
    let world = dev.world();
    let mut room = [0u8; 4];
    // SAFETY: the array outlives the request, which is ended here.
    let segment = unsafe { Segment::contig(room.as_mut_ptr(), room.len()) };
    let receive = dev.irecv_raw(segment, 0, 1, world).expect("a receive");
    dev.end_raw(receive);
    assert_eq!((dev.live_requests(), dev.posted_len()), (0, 0));
    dev.finalize().expect("finalize");
}

#[test]
fn test_until_makes_one_step() {
    let mut dev = alone();
    let mut asked = 0;
    let done = dev.test_until(|_| {
        asked += 1;
        false
    });
    assert_eq!((done, asked), (Ok(false), 2));
    assert_eq!(dev.test_until(|_| true), Ok(true));
    dev.finalize().expect("finalize");
}

/// A thread that waits for nothing is woken by another, however long it has slept.
#[test]
fn a_sleeping_wait_lets_others_have_the_device() {
    let mut dev = alone();
    let waker = dev.waker().expect("a waker");
    let (asked, wait_is_on) = std::sync::mpsc::channel();
    let other = waker.clone();
    let thread = std::thread::spawn(move || {
        let waker = dev.waker().expect("the same waker");
        let _ = asked.send(());
        let mut wanted = 0;
        for _ in 0..50 {
            dev.wait_until(Time::NEVER, |_| waker.is_wanted()).expect("a wait");
            wanted += 1;
            while waker.is_wanted() {
                std::thread::yield_now();
            }
        }
        dev.finalize().expect("finalize");
        wanted
    });
    wait_is_on.recv().expect("the thread");
    while !thread.is_finished() {
        other.want();
        std::thread::sleep(std::time::Duration::from_millis(2));
        other.got();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(thread.join().expect("a thread"), 50);
}

#[test]
fn a_job_of_one_is_on_one_node() {
    let mut dev = alone();
    assert_eq!(dev.node_of(0), dev.node_of(0));
    assert!(dev.node_of(0).is_ok());
    assert!(matches!(dev.node_of(1), Err(Error::Rank { rank: 1, size: 1 })));
    dev.finalize().expect("finalize");
}

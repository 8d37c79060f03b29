//! Model check of a joint get: all interleavings of a reader and an owner, by loom. Each part of
//! the reader's memory is a cell: a part that both write, or that the owner writes when the reader
//! has its memory back, is a race. The files under test are compiled once more, against loom's
//! atomics.

#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "joint.rs"]
mod joint;

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "region.rs"]
mod region;

use joint::{Job, Joint, Rest};

/// Two parts, of one byte each.
const PARTS: u32 = 2;
const JOB: Job = Job { region: 9, from: 0, to: 0, len: PARTS as u64, part: 1 };

/// A mistake in the protocol, which the model must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The reader takes claimed parts for written ones.
    NoRest,
    /// The reader gives up at once, and does not wait for the owner.
    NoWait,
}

struct Shared {
    joint: Joint,
    parts: Vec<UnsafeCell<u64>>,
}

// Writers of one cell from two threads, which loom checks for races.
fn write(part: &UnsafeCell<u64>, value: u64) {
    // SAFETY: loom checks that no other thread uses the cell meanwhile, and the cell outlives the
    // threads.
    part.with_mut(|p| unsafe { *p = value });
}

fn read(part: &UnsafeCell<u64>) -> u64 {
    // SAFETY: as for `write`.
    part.with(|p| unsafe { *p })
}

/// Runs the owner, which fails to write if it is `broken`.
fn owner(shared: &Shared, broken: bool) {
    for _ in 0..PARTS {
        let Some((number, job)) = shared.joint.enter() else { return };
        assert_eq!(job, JOB, "a job is read as it was written");
        if let Some(part) = shared.joint.claim_back(PARTS) {
            if broken {
                shared.joint.fail();
            } else {
                write(&shared.parts[part as usize], 1);
            }
        }
        shared.joint.leave(number);
    }
}

fn take_back(shared: &Shared, mistake: Mistake) {
    region::end(shared.joint.word());
    while mistake != Mistake::NoWait && !region::is_quiet(shared.joint.word()) {
        loom::thread::yield_now();
    }
    region::close(shared.joint.word());
}

/// Runs the reader, which may give up after its first part.
fn reader(shared: &Shared, gives_up: bool, mistake: Mistake) {
    let mut done = 0;
    while let Some(part) = shared.joint.claim_front(PARTS) {
        assert_eq!(part, done, "its parts follow each other");
        write(&shared.parts[part as usize], 2);
        done += 1;
        if gives_up {
            break;
        }
    }
    let rest = loop {
        match shared.joint.rest() {
            _ if gives_up => break Rest::Missing,
            Rest::Busy if mistake != Mistake::NoRest => loom::thread::yield_now(),
            rest => break rest,
        }
    };
    if rest != Rest::Missing {
        assert!(shared.parts.iter().all(|part| read(part) != 0), "it is complete when it is said to be");
    }
    take_back(shared, mistake);
    // The memory is the reader's own again.
    shared.parts.iter().for_each(|part| write(part, 7));
    // The next job in this place is none of the last one's.
    assert!(shared.joint.begin(2, &JOB) && !shared.joint.begin(3, &JOB));
    take_back(shared, Mistake::None);
}

fn run(gives_up: bool, broken: bool, mistake: Mistake) {
    if mistake != Mistake::None {
        netmod_models::mutant(module_path!(), format_args!("{mistake:?}"));
    }
    let name = format!("gives up: {gives_up}, broken: {broken}");
    loom::model(netmod_models::interleavings(module_path!(), name, move || {
        let parts = (0..PARTS).map(|_| UnsafeCell::new(0)).collect();
        let shared = Arc::new(Shared { joint: Joint::default(), parts });
        assert!(shared.joint.begin(1, &JOB));
        let there = Arc::clone(&shared);
        let helper = loom::thread::spawn(move || owner(&there, broken));
        reader(&shared, gives_up, mistake);
        helper.join().expect("the owner does not panic");
    }));
}

#[test]
fn each_part_is_written_once_and_none_behind_the_end() {
    run(false, false, Mistake::None);
}

#[test]
fn a_reader_may_give_up() {
    run(true, false, Mistake::None);
}

#[test]
fn an_owner_that_cannot_write_says_so() {
    run(false, true, Mistake::None);
}

#[test]
#[should_panic]
fn what_is_claimed_is_not_written() {
    run(false, false, Mistake::NoRest);
}

#[test]
#[should_panic]
fn a_reader_that_does_not_wait_is_written_over() {
    run(true, false, Mistake::NoWait);
}

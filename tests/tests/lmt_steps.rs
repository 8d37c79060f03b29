//! Ends of a large message that one side gives up, cancels or leaves by its death, after every
//! number of polls. Two devices over shared memory are polled by turns in one thread, with all
//! modes.
//!
//! Whatever happens, both sides come to an end; memory that was given back is not written any more;
//! nothing stays registered; and what is not concerned goes on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ch3_shim::Config;
use ch3_shim::{Device, Error, Request};
use netmod_tests::board::run_devices;
use netmod_tests::conformance::{check, pattern};
use netmod_tests::factory::{Lmt, Shm};

const MODES: [&str; 4] = ["null", "put", "get", "coop"];
/// Length of the message. It goes through the longest ring in several polls.
const BYTES: usize = 3 << 20;
/// Windows in which it moves with the memory that may be registered.
const WINDOWS: u64 = 24;
const POISON: u8 = 0xDB;
/// Polls after which everything must be over, by far.
const MOST: usize = 20_000;

fn tune(cfg: &mut Config) {
    cfg.eager_max = 0;
    cfg.shm.register_max = 512 << 10;
}

/// Two devices that have met.
fn devices(mode: &'static str) -> [Device; 2] {
    let both = run_devices(&Lmt { inner: Shm, mode }, 2, tune, |dev| dev);
    let mut both: [Device; 2] = both.try_into().expect("two devices");
    transfer(&mut both, 0, 100);
    both
}

fn poll(both: &mut [Device; 2]) {
    for dev in both {
        dev.progress().expect("progress");
    }
}

fn poll_until(both: &mut [Device; 2], what: &str, mut over: impl FnMut(&mut [Device; 2]) -> bool) {
    for _ in 0..MOST {
        if over(both) {
            return;
        }
        poll(both);
    }
    panic!("{what} is not over after {MOST} polls");
}

/// A message from one side to the other, from its beginning to its end.
fn transfer(both: &mut [Device; 2], from: usize, len: usize) {
    let world = both[0].world();
    let receive = both[1 - from].irecv(vec![0; len], from as i32, 9, world).expect("irecv");
    let send = both[from].isend(pattern(5, len), 1 - from as i32, 9, world).expect("isend");
    let (mut receive, mut send) = (Some(receive), Some(send));
    poll_until(both, "a whole message", |both| {
        if let Some(done) = test(&mut both[1 - from], &mut receive) {
            check(5, &done.expect("receive"));
        }
        if let Some(done) = test(&mut both[from], &mut send) {
            done.expect("send");
        }
        receive.is_none() && send.is_none()
    });
}

/// The memory of a request, once it is finished.
fn test(dev: &mut Device, req: &mut Option<Request>) -> Option<Result<Vec<u8>, Error>> {
    let tested = dev.test(req.as_mut()?);
    match tested {
        Ok(Err(_)) => None,
        Ok(Ok(done)) => {
            *req = None;
            Some(Ok(done.buffer))
        }
        Err(e) => {
            *req = None;
            Some(Err(e.into()))
        }
    }
}

/// Both devices leave.
fn finalize(mut both: [Device; 2]) {
    poll_until(&mut both, "what was left", |both| both.iter().all(|d| d.live_requests() == 0));
    both.iter_mut().for_each(|dev| dev.finalize_begin());
    let mut left = [false; 2];
    for _ in 0..MOST {
        for (dev, left) in both.iter_mut().zip(&mut left) {
            *left = *left || dev.finalize_poll().expect("finalize");
        }
        if left == [true; 2] {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the devices do not leave");
}

/// The side that does something to a message, and the number of polls before it.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: &'static str,
    by_sender: bool,
    polls: usize,
}

impl Case {
    /// Runs a case after each number of polls, until one is reached at which the message was
    /// through before.
    fn each(run: impl Fn(Case) -> bool) {
        for mode in MODES {
            for by_sender in [true, false] {
                let mut polls = 0;
                while !run(Case { mode, by_sender, polls }) {
                    polls += 1;
                    assert!(polls < 500, "{mode}: the message is never through");
                }
                // It is not over before anything could happen to it.
                assert!(polls > 2, "{mode}: through after {polls} polls");
            }
        }
    }
}

/// A scope ends by a panic in the middle of a message: its memory is given back, whatever the other
/// side does.
fn abandon(case: Case, lived: &Cell<u32>) -> bool {
    let [mut sender, mut receiver] = devices(case.mode);
    let world = sender.world();
    let (mut data, mut memory) = (pattern(1, BYTES), vec![0; BYTES]);
    let (mut through, mut other) = (false, None);
    let quit = |through: bool| {
        if !through {
            resume_unwind(Box::new("given up"));
        }
    };
    let given_up = catch_unwind(AssertUnwindSafe(|| {
        if case.by_sender {
            let receive = receiver.irecv(std::mem::take(&mut memory), 0, 1, world).expect("irecv");
            other = Some(receive);
            sender.scope(|s| {
                let req = s.isend(&data, 1, 1, world)?;
                for _ in 0..case.polls {
                    through |= s.is_finished(&req)?;
                    receiver.progress()?;
                }
                quit(through);
                Ok(())
            })
        } else {
            other = Some(sender.isend(data.clone(), 1, 1, world).expect("isend"));
            receiver.scope(|s| {
                let req = s.irecv(&mut memory, 0, 1, world)?;
                for _ in 0..case.polls {
                    sender.progress()?;
                    through |= s.is_finished(&req)?;
                }
                quit(through);
                Ok(())
            })
        }
    }));
    assert_eq!(given_up.is_err(), !through);
    // The owner of the memory does what it likes with it.
    let mine = if case.by_sender { &mut data } else { &mut memory };
    if !case.by_sender && through {
        check(1, mine);
    }
    mine.fill(POISON);
    let mut both = [sender, receiver];
    let (mut outcome, mut again) = (None, None);
    poll_until(&mut both, &format!("{case:?}: the other side"), |both| {
        // A receive that had not matched has not touched the message, which is there for another
        // one.
        if !case.by_sender && again.is_none() && both[1].unexpected_len() > 0 {
            again = Some(both[1].irecv(vec![0; BYTES], 0, 1, world).expect("irecv"));
        }
        if let Some(got) = test(&mut both[1], &mut again) {
            check(1, &got.expect("receive"));
        }
        if outcome.is_none() {
            outcome = test(&mut both[usize::from(case.by_sender)], &mut other);
        }
        outcome.is_some() && again.is_none()
    });
    // A receiver gets the message, or an error, and never what has become of the memory since.
    match outcome {
        Some(Ok(got)) if case.by_sender => check(1, &got),
        Some(Ok(_)) => {}
        Some(Err(Error::Peer(_))) => assert!(!through, "{case:?}: an error behind the end"),
        other => panic!("{case:?}: {other:?}"),
    }
    for _ in 0..100 {
        poll(&mut both);
    }
    if !case.by_sender {
        assert!(memory.iter().all(|b| *b == POISON), "{case:?}: memory that was given back was written");
    }
    // The state for which the VC was given up is gone; only the new message's memory is registered.
    let mut failures = 0;
    for (dev, peer) in both.iter_mut().zip([1, 0]) {
        failures += dev.ack_failures().len();
        dev.reconnect(peer).expect("a peer that lives");
    }
    if !through && failures == 0 {
        lived.set(lived.get() + 1);
    }
    for from in [0, 1] {
        let before = rekeys(&both);
        transfer(&mut both, from, BYTES);
        let windows = if matches!(case.mode, "put" | "get") { WINDOWS - 1 } else { 0 };
        assert_eq!(rekeys(&both) - before, windows, "{case:?}: something is still registered");
    }
    finalize(both);
    through
}

fn rekeys(both: &[Device; 2]) -> u64 {
    both.iter().map(|d| d.stats().rekeys).sum()
}

#[test]
fn abandoned_after_each_poll() {
    let lived = [const { Cell::new(0) }; 4];
    Case::each(|case| {
        let mode = MODES.iter().position(|m| *m == case.mode).expect("a mode");
        // A receive that is given up costs nothing but its message.
        let mut none = &Cell::new(0);
        if case.by_sender {
            none = &lived[mode];
        }
        abandon(case, none)
    });
    // A message that nobody reads in the middle of a stream leaves the VC alone.
    let lived = lived.map(Cell::into_inner);
    assert!(lived[1] > 2 && lived[2] > 2, "senders that gave up and kept their VC: {MODES:?} {lived:?}");
}

/// A rank is gone: the other one's request ends with an error that names it, or in order, and it
/// can leave.
#[test]
fn one_side_dies_after_each_poll() {
    Case::each(|case| {
        let mut both = devices(case.mode);
        let world = both[0].world();
        let mut receive = Some(both[1].irecv(vec![0; BYTES], 0, 1, world).expect("irecv"));
        let mut send = Some(both[0].isend(pattern(1, BYTES), 1, 1, world).expect("isend"));
        for _ in 0..case.polls {
            poll(&mut both);
        }
        let [sender, receiver] = both;
        let victim = if case.by_sender { 0 } else { 1 };
        let (dead, mut other, mine) =
            if case.by_sender { (sender, receiver, &mut receive) } else { (receiver, sender, &mut send) };
        drop(dead);
        let mut polls = 0;
        let outcome = loop {
            if let Some(outcome) = test(&mut other, mine) {
                break outcome;
            }
            polls += 1;
            assert!(polls < MOST, "{case:?}: no end");
        };
        match &outcome {
            Ok(got) if case.by_sender => check(1, got),
            Ok(_) => {}
            Err(Error::Peer(e)) => {
                assert_eq!(e.peer().map(|p| p.rank), Some(victim), "{case:?}: {e}");
            }
            Err(e) => panic!("{case:?}: {e}"),
        }
        let through = outcome.is_ok();
        // Nothing of it is left.
        for _ in 0..100 {
            other.progress().expect("progress");
        }
        assert_eq!(other.live_requests(), 0, "{case:?}");
        through
    });
}

/// A send is cancelled: it was, and the next receive gets the next message; or it was not, and is
/// received.
#[test]
fn cancelled_after_each_poll() {
    for mode in MODES {
        for polls in 0..12 {
            let mut both = devices(mode);
            let world = both[0].world();
            // Posted in the middle, so that it meets announcements, answers and data.
            let mut send = Some(both[0].isend(pattern(1, BYTES), 1, 1, world).expect("isend"));
            let mut receive = None;
            for at in 0..polls {
                if at == 3 {
                    receive = Some(both[1].irecv(vec![0; BYTES], 0, 1, world).expect("irecv"));
                }
                poll(&mut both);
            }
            if let Some(send) = &send {
                both[0].cancel(send);
            }
            let mut cancelled = None;
            poll_until(&mut both, "a cancelled send", |both| {
                if receive.is_none() {
                    receive = Some(both[1].irecv(vec![0; BYTES], 0, 1, world).expect("irecv"));
                }
                let Ok(Ok(done)) = both[0].test(send.as_mut().expect("a send")) else { return false };
                cancelled = Some(done.status.cancelled);
                true
            });
            send = None;
            if cancelled == Some(true) {
                send = Some(both[0].isend(pattern(1, BYTES), 1, 1, world).expect("isend"));
            }
            poll_until(&mut both, "its receive", |both| {
                if let Some(Err(e)) = test(&mut both[0], &mut send) {
                    panic!("{mode} after {polls} polls: {e}");
                }
                if let Some(got) = test(&mut both[1], &mut receive) {
                    check(1, &got.expect("receive"));
                }
                send.is_none() && receive.is_none()
            });
            finalize(both);
        }
    }
}

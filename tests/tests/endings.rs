//! Memory at a device's end: what a peer may still write to is taken back before it is freed, in
//! whichever way the device ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use ch3_shim::{Device, Request};
use netmod_tests::board::run_devices;
use netmod_tests::conformance::closing::an_init_fails;
use netmod_tests::conformance::{other, pattern};
use netmod_tests::factory::{Lmt, NetmodFactory, Shm, Tcp};
use netmod_tests::jobs::launch::skip;
use netmod_tests::quarantine::{Quarantine, disturbed};
use netmod_tests::stall::{Held, Stall};

#[global_allocator]
static HEAP: Quarantine = Quarantine;

/// Bytes of a message: several parts of a put.
const LEN: usize = 4 << 20;
/// Time that a writer is held back once its peer begins to end.
const DELAY: Duration = Duration::from_millis(300);

/// The end of a device.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Drop,
    Panic,
    /// The request is given up first, and its buffer stays with the device.
    Forgotten,
    /// The buffer is the caller's, and a scope lends it.
    Scope,
}

impl Ending {
    fn end(self, dev: Device, req: Request) {
        match self {
            Ending::Drop => drop(dev),
            Ending::Panic => {
                let unwound = catch_unwind(AssertUnwindSafe(move || {
                    let _dev = dev;
                    resume_unwind(Box::new("an end by a panic"));
                }));
                unwound.expect_err("it panics");
            }
            Ending::Forgotten => {
                drop(req);
                drop(dev);
            }
            Ending::Scope => unreachable!("a scope has no owned request"),
        }
    }
}

/// Rank 0 puts a message into rank 1's memory and is held back just before it writes; meanwhile
/// rank 1 ends. Returns false if this machine cannot hold calls back.
fn writer_is_late(f: &dyn NetmodFactory, how: Ending) -> bool {
    let (stalls, mailbox) = mpsc::channel::<Option<Stall>>();
    let (stalls, mailbox) = (Mutex::new(stalls), Mutex::new(mailbox));
    let ended = AtomicBool::new(false);
    let ran = run_devices(
        f,
        2,
        |_| {},
        move |mut dev| {
            let (peer, world) = (other(&dev), dev.world());
            if dev.rank() == 0 {
                let stall = Stall::this_thread(libc::SYS_process_vm_writev);
                let possible = stall.as_ref().map(|_| ()).map_err(|e| e.to_string());
                stalls.lock().expect("one sender").send(stall.ok()).expect("rank 1 listens");
                if let Err(why) = possible {
                    skip(&format!("SKIPPED: a late writer: no calls can be held back: {why}"));
                    return false;
                }
                let _send = dev.isend(pattern(1, LEN), peer, 1, world).expect("isend");
                // Its peer ends in the middle; whatever comes of the message is all right.
                while !ended.load(Ordering::Acquire) {
                    if dev.progress().is_err() {
                        break;
                    }
                }
                return true;
            }
            let Some(stall) = mailbox.lock().expect("one receiver").recv().expect("rank 0 says") else {
                return false;
            };
            let gone_on = AtomicBool::new(false);
            let let_go = |held: Held| {
                std::thread::sleep(DELAY);
                gone_on.store(true, Ordering::Release);
                stall.let_go(held).expect("the writer waits");
            };
            let until_held = |dev: &mut Device| loop {
                dev.progress().expect("progress");
                if let Some(held) = stall.held().expect("the kernel tells") {
                    return held;
                }
            };
            if matches!(how, Ending::Scope) {
                let mut buf = vec![0; LEN];
                std::thread::scope(|s| {
                    let unwound = catch_unwind(AssertUnwindSafe(|| {
                        dev.scope(|scope| -> ch3_shim::Result<()> {
                            let req = scope.irecv(&mut buf, peer, 1, world)?;
                            let held = loop {
                                scope.is_finished(&req)?;
                                if let Some(held) = stall.held().expect("the kernel tells") {
                                    break held;
                                }
                            };
                            s.spawn(|| let_go(held));
                            resume_unwind(Box::new("an end by a panic"));
                        })
                    }));
                    unwound.expect_err("it panics");
                    assert!(
                        gone_on.load(Ordering::Acquire),
                        "{how:?}: the scope ended while its memory was written"
                    );
                });
                drop(buf);
                drop(dev);
            } else {
                let req = dev.irecv(vec![0; LEN], peer, 1, world).expect("irecv");
                let held = until_held(&mut dev);
                std::thread::scope(|s| {
                    s.spawn(|| let_go(held));
                    how.end(dev, req);
                    assert!(
                        gone_on.load(Ordering::Acquire),
                        "{how:?}: memory was freed while it was being written"
                    );
                });
            }
            ended.store(true, Ordering::Release);
            true
        },
    );
    assert_eq!(disturbed(), 0, "{}: {how:?}: freed memory was written to", f.name());
    ran.into_iter().all(|ran| ran)
}

#[test]
fn shared_memory_is_taken_back_from_a_late_writer() {
    for how in [Ending::Drop, Ending::Panic, Ending::Forgotten, Ending::Scope] {
        if !writer_is_late(&Lmt { inner: Shm, mode: "put" }, how) {
            return;
        }
    }
}

#[test]
fn memory_of_a_failed_init_is_taken_back() {
    for mode in ["null", "put", "get"] {
        an_init_fails(&Lmt { inner: Shm, mode });
        an_init_fails(&Lmt { inner: Tcp, mode });
    }
    assert_eq!(disturbed(), 0, "freed memory was written to");
}

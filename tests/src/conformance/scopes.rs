//! Borrowed buffers, and requests whose handles are thrown away.

// These tests must not rely on a handle's lack of a destructor.
#![allow(clippy::forget_non_drop)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use ch3_shim::{Device, Error, Mode};

use super::{
    NetmodFactory, STEP, await_go, check, go, other, pattern, recv, run_devices, run_job, send, settle,
};
use crate::sys::Area;

/// Requests of a scope are finished when it ends.
pub fn lends_and_returns(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in [8, 1000, 50_000, dev.config().eager_max + 9].map(|s| s.min(top)) {
            let data = pattern(u64::from(dev.rank()), len);
            let mut first = vec![0; len];
            let mut second = vec![0; len];
            let status = dev
                .scope(|s| {
                    let one = s.irecv(&mut first, peer, 1, world)?;
                    s.irecv(&mut second, peer, 2, world)?;
                    s.isend(&data, peer, 2, world)?;
                    s.isend_mode(&data, peer, 1, world, Mode::Sync)?;
                    s.wait(one)
                })
                .expect("scope");
            assert_eq!((status.tag, status.len), (1, len));
            check(peer as u64, &first);
            check(peer as u64, &second);
            settle(dev);
        }
    });
}

/// Waits within a scope, last first. Small sends that are on their way together have one handle:
/// each is to be waited for once, and a second wait takes nothing of the others.
pub fn waits_within(f: &dyn NetmodFactory) {
    const N: usize = 40;
    const LATE: i32 = N as i32 + 1;
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        let data: Vec<Vec<u8>> = (0..N).map(|i| pattern(i as u64, 100)).collect();
        for _ in 0..3 {
            let mut room = vec![vec![0; 100]; N];
            let (mut late, mut asked) = ([0; 100], []);
            let scoped = dev.scope(|s| {
                let mut receives = Vec::new();
                for (i, r) in room.iter_mut().enumerate() {
                    receives.push(s.irecv(r, peer, i as i32, world)?);
                }
                let mut sends = Vec::new();
                for (i, d) in data.iter().enumerate() {
                    sends.push(s.isend(d, peer, i as i32, world)?);
                }
                for send in sends.iter().rev() {
                    s.wait(send)?;
                    s.wait(send)?;
                }
                for (i, receive) in receives.iter().enumerate().rev() {
                    assert_eq!(s.wait(receive)?.tag, i as i32);
                    assert_eq!(s.wait(receive)?.len, 0, "it was used up");
                }
                // Their places are free for others.
                let nobody = s.isend(&data[0], ch3_shim::PROC_NULL, 0, world)?;
                assert_eq!(s.wait(nobody)?.source, ch3_shim::PROC_NULL);
                let wild = s.isend(&data[1], peer, N as i32, world)?;
                s.wait(&wild)?;
                // One that has the place of another is not given up when that is waited for once
                // more.
                s.irecv(&mut late, peer, LATE, world)?;
                s.wait(&receives[0])?;
                s.isend(&[], peer, STEP, world)?;
                let asked = s.irecv(&mut asked, peer, STEP, world)?;
                s.wait(asked)?;
                s.isend(&data[2], peer, LATE, world)?;
                Ok(())
            });
            scoped.expect("scope");
            room.iter().enumerate().for_each(|(i, r)| check(i as u64, r));
            check(2, &late);
            check(1, &recv(dev, 100, peer, N as i32).buffer);
            settle(dev);
        }
    });
}

/// Checks what must still work after a scope has ended badly.
fn still_usable(dev: &mut Device) {
    let peer = other(dev);
    for len in [5, 500, 20_000] {
        if dev.rank() == 0 {
            send(dev, pattern(8, len), peer, 8);
            check(9, &recv(dev, len, peer, 9).buffer);
        } else {
            check(8, &recv(dev, len, peer, 8).buffer);
            send(dev, pattern(9, len), peer, 9);
        }
    }
    settle(dev);
    assert_eq!(dev.posted_len(), 0);
}

/// An error inside the scope ends its requests: their messages go to later receives.
pub fn early_error(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 1 {
            let mut buf = vec![0xEE; 1000];
            let mut wild = vec![0xEE; 1000];
            let result: Result<(), Error> = dev.scope(|s| {
                s.irecv(&mut buf, peer, 1, world)?;
                s.irecv(&mut wild, ch3_shim::ANY_SOURCE, ch3_shim::ANY_TAG, world)?;
                Err(Error::Usage("enough".into()))
            });
            assert_eq!(result, Err(Error::Usage("enough".into())));
            assert_eq!((dev.live_requests(), dev.posted_len()), (0, 0));
            go(dev, peer);
            check(1, &recv(dev, 1000, peer, 1).buffer);
            assert_eq!((buf, wild), (vec![0xEE; 1000], vec![0xEE; 1000]));
        } else {
            await_go(dev, peer);
            send(dev, pattern(1, 1000), peer, 1);
        }
        still_usable(dev);
    });
}

/// An error while a rendezvous waits for its receive: the memory is free when the scope ends. The
/// message was taken back, or went on to its end, and no connection is lost.
pub fn early_error_with_a_rendezvous(f: &dyn NetmodFactory) {
    run_devices(
        f,
        3,
        |_| {},
        |mut dev| {
            let world = dev.world();
            let len = dev.config().eager_max + 1;
            match dev.rank() {
                0 => {
                    await_go(&mut dev, 2);
                    let data = pattern(1, len);
                    let result: Result<(), Error> = dev.scope(|s| {
                        s.isend(&data, 2, 1, world)?;
                        Err(Error::Usage("enough".into()))
                    });
                    assert!(result.is_err());
                    assert_eq!(dev.live_requests(), 0);
                }
                2 => {
                    go(&mut dev, 0);
                    let mut req = dev.irecv(vec![0; len], 0, 1, world).expect("irecv");
                    for _ in 0..50 {
                        if let Ok(done) = dev.test(&mut req).expect("test") {
                            check(1, &done.buffer);
                            return dev.finalize().expect("finalize");
                        }
                    }
                    dev.cancel(&req);
                    let done = dev.wait(req).expect("wait");
                    if !done.status.cancelled {
                        check(1, &done.buffer);
                    }
                }
                _ => {}
            }
            // Others are not concerned.
            if dev.rank() == 0 {
                send(&mut dev, pattern(4, 5000), 1, 4);
            } else if dev.rank() == 1 {
                check(4, &recv(&mut dev, 5000, 0, 4).buffer);
            }
            dev.finalize().expect("finalize");
        },
    );
}

/// A panic inside the scope: the buffers are free, the device can be used.
pub fn panic_within(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        if dev.rank() == 1 {
            let mut buf = vec![0xEE; 1000];
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _ = dev.scope(|s| -> Result<(), Error> {
                    s.irecv(&mut buf, peer, 1, world)?;
                    // Without the message that the panic hook would print.
                    std::panic::resume_unwind(Box::new("within a scope"))
                });
            }));
            assert_eq!(caught.expect_err("it panicked").downcast_ref(), Some(&"within a scope"));
            assert_eq!((dev.live_requests(), dev.posted_len()), (0, 0));
            go(dev, peer);
            check(1, &recv(dev, 1000, peer, 1).buffer);
            assert_eq!(buf, vec![0xEE; 1000]);
        } else {
            await_go(dev, peer);
            send(dev, pattern(1, 1000), peer, 1);
        }
        still_usable(dev);
    });
}

/// Forgetting owned requests leaks them, and does no other harm.
pub fn forgotten_requests(f: &dyn NetmodFactory) {
    run_devices(
        f,
        2,
        |_| {},
        |mut dev| {
            let (peer, world) = (other(&dev), dev.world());
            for len in [8usize, 1000, 20_000] {
                if dev.rank() == 0 {
                    await_go(&mut dev, peer);
                    for _ in 0..3 {
                        std::mem::forget(dev.isend(pattern(1, len), peer, 1, world).expect("isend"));
                    }
                } else {
                    std::mem::forget(dev.irecv(vec![0; len], peer, 1, world).expect("irecv"));
                    go(&mut dev, peer);
                    for _ in 0..2 {
                        check(1, &recv(&mut dev, len, peer, 1).buffer);
                    }
                }
            }
            // A receive that nothing will ever match.
            std::mem::forget(dev.irecv(vec![0; 64], peer, 77, world).expect("irecv"));
            send(&mut dev, vec![1, 2, 3], peer, 2);
            assert_eq!(recv(&mut dev, 3, peer, 2).buffer, [1, 2, 3]);
            dev.finalize().expect("finalize");
        },
    );
}

/// Freed requests finish by themselves, and nothing of them is left.
pub fn freed_requests(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let large = dev.config().eager_max + 5;
        for (len, mode) in
            [8, 1000, 20_000, large].into_iter().flat_map(|l| [(l, Mode::Standard), (l, Mode::Sync)])
        {
            let len = len.min(top);
            if dev.rank() == 0 {
                await_go(dev, peer);
                let data = Area::new(pattern(6, len));
                let req = dev.isend_raw(data.contig(), peer, 1, world, mode).expect("isend");
                dev.free_raw(req);
                send(dev, Vec::new(), peer, 2);
                await_go(dev, peer);
            } else {
                let target = Area::new(vec![0; len]);
                let req = dev.irecv_raw(target.contig(), peer, 1, world).expect("irecv");
                dev.free_raw(req);
                go(dev, peer);
                recv(dev, 0, peer, 2);
                // A rendezvous is not over when the next message is here.
                settle(dev);
                check(6, &target.bytes());
                go(dev, peer);
            }
            settle(dev);
        }
    });
}

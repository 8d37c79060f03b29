//! Requests that fail with their peer, over all forms and all calls that complete them.

use ch3_shim::{Device, Error, Mode, PROC_NULL, Result, Status};

use super::forms::{FORMS, Form, UNTOUCHED, ended};
use super::{NetmodFactory, STEP, await_go, check, doing, go, pattern, run_devices, settle};
use crate::sys::Area;

/// Tags of messages that the peer sends before it dies: a short one, and one that is announced.
const SHORT: i32 = 3;
const LONG: i32 = 4;
/// The tag of messages that never come.
const NEVER: i32 = 2;

/// The calls that block while the peer dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    Scope,
    Sendrecv,
    Recv,
}

fn is_lost<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Peer(e)) if e.peer().is_some_and(|p| p.rank == 1))
}

/// Waits within a scope for the loss: each kind of wait, of receives and of a send.
fn lose_in_a_scope(dev: &mut Device, large: &[u8]) {
    let world = dev.world();
    let mut lent = [[UNTOUCHED; 100]; 3];
    let [a, b, c] = &mut lent;
    let waited = dev.scope(|s| {
        let [a, b, c] =
            [s.irecv(a, 1, NEVER, world)?, s.irecv(b, 1, NEVER, world)?, s.irecv(c, 1, NEVER, world)?];
        let send = s.isend_mode(large, 1, NEVER, world, Mode::Sync)?;
        s.isend(&[], 1, STEP, world)?;
        let mut waited = vec![s.wait(a), s.wait(&b)];
        while !s.is_finished(&c)? {}
        waited.extend([s.wait(c), s.wait(send)]);
        Ok(waited)
    });
    let waited = waited.expect("a scope whose requests were all waited for");
    assert!(waited.iter().all(is_lost), "{waited:?}");
    assert_eq!(lent, [[UNTOUCHED; 100]; 3]);
    // A scope that waits at its end returns the failure.
    let mut lent = [UNTOUCHED; 100];
    let ended = dev.scope(|s| s.irecv(&mut lent, 1, NEVER, world).map(|_| ()));
    assert!(is_lost(&ended) && lent == [UNTOUCHED; 100], "{ended:?}");
}

/// Receives messages of a dead peer: what has arrived can be received, the rest cannot.
fn receive_matched(dev: &mut Device, blocked: Blocked, [short, long]: [ch3_shim::Message; 2], len: usize) {
    let (short, long): (super::forms::Received, _) = if blocked == Blocked::Scope {
        let (mut few, mut many) = (vec![UNTOUCHED; 100], vec![UNTOUCHED; len]);
        ((dev.mrecv(&mut few, short), few), (dev.mrecv(&mut many, long), many))
    } else {
        let (few, many) = (dev.imrecv(vec![UNTOUCHED; 100], short), dev.imrecv(vec![UNTOUCHED; len], long));
        (ended(dev.wait(few)), ended(dev.wait(many)))
    };
    assert!(short.0.as_ref().is_ok_and(|s| s.len == 8), "{:?}", short.0);
    check(5, &short.1[..8]);
    assert!(short.1[8..].iter().all(|b| *b == UNTOUCHED));
    assert!(is_lost(&long.0), "{:?}", long.0);
    assert!(long.1.len() == len && long.1.iter().all(|b| *b == UNTOUCHED));
}

/// Calls that begin after the loss fail at once, and give what they were given back.
fn begin_afterwards(dev: &mut Device) {
    let world = dev.world();
    let mut buf = vec![UNTOUCHED; 100];
    let results = [
        dev.recv(&mut buf, 1, NEVER, world).map(drop),
        dev.sendrecv(&[], PROC_NULL, 1, &mut buf, 1, NEVER, world).map(drop),
        dev.sendrecv(&[1], 1, 1, &mut [0], PROC_NULL, 1, world).map(drop),
        dev.scope(|s| s.irecv(&mut buf, 1, NEVER, world).map(drop)),
        dev.scope(|s| s.isend(&[1], 1, 1, world).map(drop)),
        dev.send(&[1], 1, 1, world),
        dev.probe(1, NEVER, world).map(drop),
        dev.mprobe(1, NEVER, world).map(drop),
    ];
    assert!(results.iter().all(is_lost), "{results:?}");
    assert_eq!(buf, [UNTOUCHED; 100]);
    let refused = dev.irecv(vec![7; 5], 1, NEVER, world).expect_err("the peer is lost");
    assert!(matches!(refused.error, Error::Peer(_)) && refused.buffer == [7; 5], "{refused:?}");
    let refused = dev.isend(vec![8; 5], 1, NEVER, world).expect_err("the peer is lost");
    assert!(matches!(refused.error, Error::Peer(_)) && refused.data == [8; 5][..], "{refused:?}");
}

/// Requests that fail with their peer: each call returns the cause, and the buffer or data as it
/// was given.
pub fn with_their_peer(f: &dyn NetmodFactory) {
    for blocked in [Blocked::Scope, Blocked::Sendrecv, Blocked::Recv] {
        run_devices(f, 2, |_| {}, move |mut dev| lose(&mut dev, blocked));
    }
}

fn lose(dev: &mut Device, blocked: Blocked) {
    let (world, large) = (dev.world(), dev.config().eager_max + 1);
    if dev.rank() == 1 {
        let few = dev.isend(pattern(5, 8), 0, SHORT, world).expect("isend");
        let many = dev.isend(pattern(6, large), 0, LONG, world).expect("isend");
        await_go(dev, 0);
        drop((few, many));
        return;
    }
    let messages = [SHORT, LONG].map(|tag| dev.mprobe(1, tag, world).expect("mprobe"));
    let (mut raws, mut owned, mut sends) = (Vec::new(), Vec::new(), Vec::new());
    for (form, call) in FORMS {
        let buf = vec![UNTOUCHED; 100];
        match *call {
            Form::Raw(call) => {
                let memory = Area::new(buf);
                let req = dev.irecv_raw(memory.contig(), 1, NEVER, world).expect("irecv_raw");
                raws.push((form, call, req, memory));
                let memory = Area::new(pattern(1, 8));
                let req = dev.isend_raw(memory.contig(), 1, NEVER, world, Mode::Sync).expect("isend_raw");
                raws.push((form, call, req, memory));
            }
            Form::Owned(call) => {
                owned.push((form, call, dev.irecv(buf, 1, NEVER, world).expect("irecv")));
                for len in [8, 1000, large] {
                    let send = dev.isend_mode(pattern(1, len).into(), 1, NEVER, world, Mode::Sync);
                    sends.push((form, call, len, send.expect("isend")));
                }
            }
            Form::Borrowed(_) | Form::Matched(_) => {}
        }
    }
    doing(format!("waiting for the loss in {blocked:?}"));
    let mut lent = vec![UNTOUCHED; 100];
    match blocked {
        Blocked::Scope => lose_in_a_scope(dev, &pattern(1, large)),
        Blocked::Sendrecv => {
            let status = dev.sendrecv(&[], 1, STEP, &mut lent, 1, NEVER, world);
            assert!(is_lost(&status), "{status:?}");
        }
        Blocked::Recv => {
            go(dev, 1);
            let status = dev.recv(&mut lent, 1, NEVER, world);
            assert!(is_lost(&status), "{status:?}");
        }
    }
    assert_eq!(lent, [UNTOUCHED; 100]);
    for (form, call, req, memory) in raws {
        let before = memory.bytes();
        let status: Result<Status> = call(dev, req);
        let given = before == [UNTOUCHED; 100] || before == pattern(1, 8);
        assert!(is_lost(&status) && given && memory.bytes() == before, "{form}: {status:?}");
    }
    for (form, call, req) in owned {
        let (status, buffer) = call(dev, req);
        assert!(is_lost(&status) && buffer == [UNTOUCHED; 100], "{form}: {status:?}");
    }
    for (form, call, len, req) in sends {
        let (status, data) = call(dev, req);
        assert!(is_lost(&status), "{form} of a send of {len} bytes: {status:?}");
        assert_eq!(data, pattern(1, len), "{form} of a send");
    }
    receive_matched(dev, blocked, messages, large);
    begin_afterwards(dev);
    assert_eq!(dev.posted_len(), 0);
    settle(dev);
}

//! Sends over all forms of requests, by all calls that complete them.

use ch3_shim::{ANY_TAG, Device, Mode, PROC_NULL, Result, Status};

use super::forms::{FORMS, Form, RawCall, Received};
use super::{NetmodFactory, await_go, doing, go, other, pattern, protocols, recv, run_job, settle};
use crate::sys::Area;

/// The tag of messages that nobody receives.
const UNWANTED: i32 = 6;

/// A synchronous send of borrowed data to a rank; the last argument says if it is cancelled.
type BorrowedCall = fn(&mut Device, &[u8], i32, bool) -> Result<Status>;

/// A wait within a scope that either asks first, lends its request or gives it.
fn scoped(
    dev: &mut Device,
    data: &[u8],
    dest: i32,
    cancel: bool,
    (asks, lends): (bool, bool),
) -> Result<Status> {
    let world = dev.world();
    dev.scope(|s| {
        let req = s.isend_mode(data, dest, UNWANTED, world, Mode::Sync)?;
        if cancel {
            s.cancel(&req);
        }
        while asks && !s.is_finished(&req)? {}
        if lends { s.wait(&req) } else { s.wait(req) }
    })
}

const BORROWED: &[(&str, BorrowedCall)] = &[
    ("wait of a scope", |d, b, dest, c| scoped(d, b, dest, c, (false, false))),
    ("lent wait of a scope", |d, b, dest, c| scoped(d, b, dest, c, (false, true))),
    ("is_finished of a scope", |d, b, dest, c| scoped(d, b, dest, c, (true, false))),
];

fn raw(dev: &mut Device, call: RawCall, data: &[u8], dest: i32, cancel: bool) -> Result<Status> {
    let (world, memory) = (dev.world(), Area::new(data.to_vec()));
    let req = dev.isend_raw(memory.contig(), dest, UNWANTED, world, Mode::Sync).expect("isend_raw");
    if cancel {
        dev.cancel_raw(req);
    }
    let status = call(dev, req);
    assert_eq!(memory.bytes(), data);
    status
}

/// Each form and call with a send to `dest`: its result, and the buffer of those that own one.
fn each(dev: &mut Device, data: &[u8], dest: i32, cancel: bool, expect: impl Fn(&Result<Status>) -> bool) {
    let world = dev.world();
    let check = |form: &str, (status, buffer): Received| {
        assert!(expect(&status), "{form}, {} bytes to {dest}, cancel {cancel}: {status:?}", data.len());
        assert!(buffer.is_empty(), "{form}: a send that has not failed gives {buffer:?} back");
    };
    for (form, call) in BORROWED {
        doing(format!("{form} of a send, {} bytes to {dest}, cancel {cancel}", data.len()));
        check(form, (call(dev, data, dest, cancel), Vec::new()));
    }
    for (form, call) in FORMS {
        doing(format!("{form} of a send, {} bytes to {dest}, cancel {cancel}", data.len()));
        match *call {
            Form::Raw(call) => check(form, (raw(dev, call, data, dest, cancel), Vec::new())),
            Form::Owned(call) => {
                let req = dev.isend_mode(data.to_vec().into(), dest, UNWANTED, world, Mode::Sync);
                let req = req.expect("isend");
                if cancel {
                    dev.cancel(&req);
                }
                check(form, call(dev, req));
            }
            Form::Borrowed(_) | Form::Matched(_) => {}
        }
    }
}

/// Sends to nobody are over at once, whatever they carry and whether they are cancelled.
pub fn to_nobody(f: &dyn NetmodFactory) {
    run_job(f, 1, |dev| {
        let world = dev.world();
        let nobody = Status { source: PROC_NULL, tag: ANY_TAG, ..Status::default() };
        for len in protocols(dev) {
            let data = pattern(1, len);
            for cancel in [false, true] {
                each(dev, &data, PROC_NULL, cancel, |status| *status == Ok(nobody));
            }
            for mode in [Mode::Standard, Mode::Sync, Mode::Ready] {
                assert_eq!(dev.send_mode(&data, PROC_NULL, 1, world, mode), Ok(()));
            }
            let got = dev.sendrecv(&data, PROC_NULL, 1, &mut [7], PROC_NULL, 1, world);
            assert_eq!(got, Ok(nobody));
        }
        assert_eq!(dev.live_requests(), 0);
    });
}

/// Sends that no receive matches are cancelled, to a peer and to oneself.
pub fn cancelled(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let peer = other(dev);
        if dev.rank() == 0 {
            for len in protocols(dev).map(|s| s.min(top)) {
                for dest in [peer, 0] {
                    each(dev, &pattern(2, len), dest, true, |s| s.as_ref().is_ok_and(|s| s.cancelled));
                }
            }
            settle(dev);
            go(dev, peer);
        } else {
            // This makes the progress that gives messages back.
            await_go(dev, peer);
        }
        assert_eq!(dev.unexpected_len(), 0);
    });
}

/// Sends whose message is received succeed, by all calls; one that is cancelled too late, as well.
pub fn received(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let peer = other(dev);
        let owned = FORMS.iter().filter(|(_, form)| matches!(form, Form::Raw(_) | Form::Owned(_))).count();
        for len in protocols(dev).map(|s| s.min(top)) {
            if dev.rank() == 0 {
                each(dev, &pattern(3, len), peer, false, |s| s.as_ref().is_ok_and(|s| !s.cancelled));
            } else {
                for _ in 0..BORROWED.len() + owned {
                    super::check(3, &recv(dev, len, peer, UNWANTED).buffer);
                }
            }
        }
    });
}

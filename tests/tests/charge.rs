//! A VC leaves its netmod's charge once, whatever ends it.

use std::time::Duration;

use ch3_shim::pkt::{Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{Device, Error};
use netmod_tests::scripted::{Script, parse};

/// A device that has exchanged a message with rank 1, and sent one to rank 2.
fn used() -> (Script, Device) {
    let (script, mut dev) = Script::device_with(4, true, None, |cfg| {
        cfg.close_timeout = Duration::from_millis(20);
    });
    let world = dev.world();
    let data = ShortData::new(&[1; 8]).expect("a short message");
    script.send(1, &Packet::EagerShort { env: Envelope::new(0, 1, 5), ready: false, data }.emit());
    let mut got = [0; 8];
    dev.recv(&mut got, 1, 5, world).expect("a message");
    for rank in [1, 2] {
        dev.send(&[2; 8], rank, 5, world).expect("a send");
    }
    script.play(&mut dev);
    assert_eq!(script.in_charge(), 2);
    (script, dev)
}

/// Finalizes; the peers that are named close their sides.
fn finalize(script: &Script, dev: &mut Device, closing: &[u32]) -> Result<(), Error> {
    for rank in 1..4 {
        script.received(rank);
    }
    dev.finalize_begin();
    loop {
        if dev.finalize_poll()? {
            return Ok(());
        }
        for rank in closing {
            let sent = parse(&script.received(*rank));
            if sent.iter().any(|(p, _)| matches!(p, Packet::Close { ack: false })) {
                script.send(*rank, &Packet::Close { ack: true }.emit());
            }
        }
    }
}

#[test]
fn finalize_by_agreement() {
    let (script, mut dev) = used();
    finalize(&script, &mut dev, &[1, 2]).expect("both have closed");
    assert_eq!(script.in_charge(), 0);
    assert!(dev.report().is_empty());
}

/// One peer does not close, and one has died.
#[test]
fn finalize_in_vain() {
    let (script, mut dev) = used();
    let error = finalize(&script, &mut dev, &[1]).expect_err("rank 2 has not closed");
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    assert_eq!(script.in_charge(), 0);
    let (script, mut dev) = used();
    script.die(2);
    script.play(&mut dev);
    assert_eq!(script.in_charge(), 2, "it may be revived");
    finalize(&script, &mut dev, &[1]).expect_err("rank 2 has failed");
    assert_eq!(script.in_charge(), 0);
}

/// Each of these leaves a VC that can be used again.
#[test]
fn what_is_no_end() {
    let (script, mut dev) = used();
    script.send(1, &Packet::Close { ack: false }.emit());
    let closing = dev.disconnect_begin(1);
    script.play(&mut dev);
    script.send(1, &Packet::Close { ack: true }.emit());
    script.play(&mut dev);
    assert_eq!(dev.disconnect_poll(&closing), Ok(true));
    assert_eq!(script.in_charge(), 2);
    dev.ckpt_shutdown().expect("a script can be saved");
    assert_eq!(script.in_charge(), 2);
    dev.ckpt_restart().expect("and goes on");
    finalize(&script, &mut dev, &[2]).expect("rank 1 has closed before");
    assert_eq!(script.in_charge(), 0);
}

/// A VC that the netmod does not take never was in its charge.
#[test]
fn what_never_began() {
    let (script, mut dev) = used();
    script.refuse_vcs();
    let world = dev.world();
    dev.send(&[3; 8], 3, 5, world).expect_err("no VC for rank 3");
    assert_eq!(script.in_charge(), 2);
    finalize(&script, &mut dev, &[1, 2]).expect("nothing is left of rank 3");
    assert_eq!(script.in_charge(), 0);
}

/// Requests that are bound to a VC end with it.
#[test]
fn what_is_left_of_its_requests() {
    let (script, mut dev) = used();
    let world = dev.world();
    let send = dev.isend(vec![1; 1 << 20], 2, 6, world).expect("isend");
    finalize(&script, &mut dev, &[1]).expect_err("rank 2 has not closed");
    let error = dev.wait(send).expect_err("nobody has received it").to_string();
    assert!(error.contains("finalized"), "{error}");
    assert_eq!(script.in_charge(), 0);
}

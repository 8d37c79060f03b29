//! Cancelling. What a program may repeat without its peer's help takes bounded memory, however
//! often it is repeated: sends that are cancelled before they left, receives that are cancelled,
//! probes, ports that are opened and closed. And a cancelled send keeps its memory while the netmod
//! needs it.

use std::sync::{Arc, Barrier};

use ch3_shim::Config;
use ch3_shim::pkt::Packet;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Mode};
use netmod_tests::board::run_devices;
use netmod_tests::factory::Tcp;
use netmod_tests::scripted::{Script, parse};

const TIMES: usize = 20_000;

/// Rank 0 floods; rank 1 looks away meanwhile, and gets one message afterwards.
fn flood(tune: impl Fn(&mut Config) + Send + 'static, body: impl Fn(&mut Device) + Send + Sync + 'static) {
    let done = Arc::new(Barrier::new(2));
    run_devices(&Tcp, 2, tune, move |mut dev| {
        let world = dev.world();
        if dev.rank() == 0 {
            body(&mut dev);
            done.wait();
            dev.send(&[7; 100], 1, 10, world).expect("send");
        } else {
            done.wait();
            let mut got = [0; 100];
            dev.recv(&mut got, 0, 10, world).expect("recv");
            assert_eq!(got, [7; 100]);
            assert_eq!(dev.iprobe(ANY_SOURCE, ANY_TAG, world), Ok(None), "nothing else has come");
        }
        dev.finalize().expect("finalize");
    });
}

/// Allowed rest of a flood: a few packets, and no request.
#[track_caller]
fn nothing_left(dev: &Device, what: &str) {
    assert_eq!(dev.live_requests(), 0, "{what}");
    assert!(dev.stats().credits_sent < 4, "{what}: {} credits", dev.stats().credits_sent);
    let report = dev.report();
    let queued = report.iter().map(|r| r.netmod.clone()).collect::<Vec<_>>();
    let number = |text: &str| {
        let (before, _) = text.split_once(" messages queued")?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    assert!(queued.iter().all(|q| number(q).unwrap_or(0) < 8), "{what}: {queued:?}");
}

#[test]
fn sends_that_are_cancelled_before_they_leave() {
    flood(
        |_| {},
        |dev| {
            let world = dev.world();
            for len in [8, 100, 5000] {
                for mode in [Mode::Standard, Mode::Sync] {
                    for _ in 0..TIMES / 4 {
                        let send = dev.isend_mode(vec![1; len].into(), 1, 9, world, mode).expect("isend");
                        dev.cancel(&send);
                        assert!(dev.wait(send).expect("a cancelled send").status.cancelled);
                    }
                    nothing_left(dev, &format!("{len} bytes, {mode:?}"));
                }
            }
        },
    );
}

/// One is always left, so that none of those that are cancelled is at the end of the queue.
#[test]
fn sends_that_are_cancelled_behind_and_before_others() {
    flood(
        |_| {},
        |dev| {
            let world = dev.world();
            let mut last = dev.isend(vec![1; 5000], 1, 9, world).expect("isend");
            for _ in 0..TIMES {
                let next = dev.isend(vec![1; 5000], 1, 9, world).expect("isend");
                let send = std::mem::replace(&mut last, next);
                dev.cancel(&send);
                assert!(dev.wait(send).expect("a cancelled send").status.cancelled);
            }
            dev.cancel(&last);
            assert!(dev.wait(last).expect("a cancelled send").status.cancelled);
            nothing_left(dev, "in the middle");
        },
    );
}

/// The peer has no room for more announcements: those that wait for it are cancelled.
#[test]
fn sends_that_are_cancelled_before_they_are_announced() {
    const SLOTS: usize = 4;
    let tune = |cfg: &mut Config| cfg.rts_max = SLOTS as _;
    flood(tune, |dev| {
        let world = dev.world();
        let large = bytes::Bytes::from(vec![1; 1 << 20]);
        let mut announced = Vec::new();
        for _ in 0..SLOTS {
            announced.push(dev.isend(large.clone(), 1, 9, world).expect("isend"));
        }
        for _ in 0..TIMES {
            let send = dev.isend(large.clone(), 1, 9, world).expect("isend");
            dev.cancel(&send);
            assert!(dev.wait(send).expect("a cancelled send").status.cancelled);
        }
        assert!(dev.live_requests() <= 2 * SLOTS + 4, "{} requests", dev.live_requests());
        assert!(dev.stats().credits_sent < 4, "{} credits", dev.stats().credits_sent);
        assert_eq!(dev.report()[0].flow.waiting_sends, 0);
        for send in &announced {
            dev.cancel(send);
        }
        // The peer answers when it looks again.
        for send in announced {
            drop(send);
        }
    });
}

#[test]
fn receives_probes_and_ports() {
    run_devices(
        &Tcp,
        1,
        |_| {},
        |mut dev| {
            let world = dev.world();
            let kept = dev.irecv(vec![0; 8], ANY_SOURCE, 1, world).expect("irecv");
            for i in 0..TIMES {
                let source = if i % 2 == 0 { 0 } else { ANY_SOURCE };
                let receive = dev.irecv(vec![0; 8], source, (i % 7) as i32, world).expect("irecv");
                dev.cancel(&receive);
                assert!(dev.wait(receive).expect("a cancelled receive").status.cancelled);
                assert_eq!(dev.iprobe(0, 3, world), Ok(None));
            }
            assert_eq!((dev.live_requests(), dev.posted_len(), dev.unexpected_len()), (1, 1, 0));
            for _ in 0..1000 {
                let port = dev.open_port().expect("a port");
                dev.close_port(&port).expect("an open port");
            }
            assert_eq!((dev.live_vcs(), dev.live_requests()), (0, 1));
            dev.send(&[3; 8], 0, 1, world).expect("send");
            assert_eq!(dev.wait(kept).expect("a message").buffer, [3; 8]);
            dev.finalize().expect("finalize");
        },
    );
}

#[test]
fn a_send_that_is_given_back_ends_when_the_netmod_lets_go_of_its_memory() {
    let (script, mut dev) = Script::device(2, true);
    script.keep_memory(true);
    let world = dev.world();
    let send = dev.isend_mode(vec![1; 100].into(), 1, 1, world, Mode::Sync).expect("isend");
    dev.cancel(&send);
    script.play(&mut dev);
    let asked = parse(&script.received(1)).into_iter().find_map(|(p, _)| match p {
        Packet::CancelReq { sreq, .. } => Some(sreq),
        _ => None,
    });
    let sreq = asked.expect("the receiver is asked");
    script.send(1, &Packet::CancelResp { sreq, ack: true }.emit());
    script.play(&mut dev);
    let send = dev.test(send).expect("test").expect_err("its memory is still to be sent again");
    script.keep_memory(false);
    assert!(dev.wait(send).expect("wait").status.cancelled);
    assert_eq!(dev.live_requests(), 0);
}

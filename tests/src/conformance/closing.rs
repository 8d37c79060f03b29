//! The end of connections: by agreement, many times over, with messages in flight, and by death.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{Error, Mode};

use crate::board::Board;

use super::{
    NetmodFactory, await_go, check, doing, go, other, pattern, recv, run_devices, run_job, run_job_with,
    send, settle,
};

/// Used, closed and used again.
pub fn disconnect_and_reuse(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let peer = other(dev);
        for round in 0..30 {
            doing(format!("round {round}"));
            let len = [10, 1000, 50_000][round % 3];
            if dev.rank() as usize == round % 2 {
                send(dev, pattern(round as u64, len), peer, 1);
                await_go(dev, peer);
            } else {
                check(round as u64, &recv(dev, len, peer, 1).buffer);
                go(dev, peer);
            }
            doing(format!("round {round}, disconnect"));
            dev.disconnect(peer as u32).expect("disconnect");
        }
        // Nothing to do for a rank without a connection, never made or closed.
        dev.disconnect(peer as u32).expect("disconnect");
    });
}

/// Both close at once, and both send at once as soon as they have.
pub fn crossing_closes_then_sends_at_once(f: &dyn NetmodFactory) {
    run_job(f, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        for round in 0..40u64 {
            doing(format!("round {round}"));
            let sent = dev.isend(pattern(round, 700), peer, 1, world).expect("isend");
            let receive = dev.irecv(vec![0; 700], peer, 1, world).expect("irecv");
            dev.wait(sent).expect("send");
            check(round, &dev.wait(receive).expect("receive").buffer);
            doing(format!("round {round}, disconnect"));
            dev.disconnect(peer as u32).expect("disconnect");
        }
    });
}

/// One connection is closed while another carries messages.
pub fn several_peers(f: &dyn NetmodFactory) {
    run_job(f, 3, |dev| {
        for round in 0..10u64 {
            doing(format!("round {round}"));
            match dev.rank() {
                0 => {
                    send(dev, pattern(round, 300), 1, 1);
                    send(dev, pattern(round, 3000), 2, 1);
                    dev.disconnect(1).expect("disconnect");
                    check(round, &recv(dev, 3000, 2, 2).buffer);
                }
                1 => {
                    check(round, &recv(dev, 300, 0, 1).buffer);
                    dev.disconnect(0).expect("disconnect");
                }
                _ => {
                    check(round, &recv(dev, 3000, 0, 1).buffer);
                    send(dev, pattern(round, 3000), 0, 2);
                }
            }
        }
    });
}

/// Messages that nobody receives do not hinder the end.
pub fn finalize_with_unexpected_messages(f: &dyn NetmodFactory) {
    // Left open, the threshold may be lower where a get is faster.
    let tune = |cfg: &mut Config| {
        let most = cfg.eager_max.to_string();
        cfg.set("NETMOD_EAGER_MAX", &most).expect("it is in force");
    };
    run_job_with(f, 2, tune, |dev| {
        let peer = other(dev);
        for len in [0, 16, 1000, dev.config().eager_max] {
            send(dev, pattern(1, len), peer, 1);
        }
    });
}

/// Messages that are under way when the sender finalizes still arrive.
pub fn finalize_with_sends_in_flight(f: &dyn NetmodFactory) {
    const N: u64 = 40;
    run_devices(
        f,
        2,
        |_| {},
        |mut dev| {
            let (peer, world) = (other(&dev), dev.world());
            if dev.rank() == 0 {
                let mut reqs = Vec::new();
                for i in 0..N {
                    reqs.push(dev.isend(pattern(i, 50 + 400 * i as usize), peer, 1, world).expect("isend"));
                }
                // Nobody waits for them: they are eager, so that they go without their receiver.
                std::mem::forget(reqs);
            } else {
                for i in 0..N {
                    let got = recv(&mut dev, 1 << 16, peer, 1);
                    assert_eq!(got.status.len, 50 + 400 * i as usize);
                    check(i, &got.buffer);
                }
            }
            doing("finalize");
            dev.finalize().expect("finalize");
        },
    );
}

/// Devices that were never used.
pub fn finalize_unused(f: &dyn NetmodFactory) {
    run_job(f, 3, |dev| assert!(dev.report().is_empty()));
}

/// A peer that ends without finalizing: what needs it fails, what does not goes on.
pub fn a_peer_dies(f: &dyn NetmodFactory) {
    run_devices(
        f,
        3,
        |_| {},
        |mut dev| {
            let world = dev.world();
            if dev.rank() == 2 {
                for to in [0, 1] {
                    send(&mut dev, vec![2; 100], to, 1);
                    await_go(&mut dev, to);
                }
                return;
            }
            let peer = 1 - dev.rank() as i32;
            assert_eq!(recv(&mut dev, 100, 2, 1).buffer, [2; 100]);
            let large = dev.config().eager_max + 1;
            let receive = dev.irecv(vec![0; 100], 2, 3, world).expect("irecv");
            let unmatched = dev.isend_mode(pattern(1, large).into(), 2, 4, world, Mode::Sync).expect("isend");
            let unaffected = dev.irecv(vec![0; 5000], peer, 5, world).expect("irecv");
            go(&mut dev, 2);
            doing("waiting for the loss");
            let lost = dev.wait(receive).map_err(ch3_shim::Error::from);
            assert!(
                matches!(&lost, Err(Error::Peer(e)) if e.peer().is_some_and(|p| p.rank == 2)),
                "{lost:?}"
            );
            let lost = dev.wait(unmatched).map_err(ch3_shim::Error::from);
            assert!(matches!(lost, Err(Error::Peer(_))), "{lost:?}");
            // New operations fail at once, with the cause.
            assert!(matches!(
                dev.irecv(vec![0; 1], 2, 1, world).map_err(ch3_shim::Error::from),
                Err(Error::Peer(_))
            ));
            assert!(matches!(
                dev.isend(vec![0; 1], 2, 1, world).map_err(ch3_shim::Error::from),
                Err(Error::Peer(_))
            ));
            assert!(matches!(dev.probe(2, 1, world), Err(Error::Peer(_))));
            doing("going on");
            send(&mut dev, pattern(5, 5000), peer, 5);
            check(5, &dev.wait(unaffected).expect("receive").buffer);
            settle(&mut dev);
            // The others must not leave before they have heard from each other.
            go(&mut dev, peer);
            await_go(&mut dev, peer);
        },
    );
}

/// An init that fails behind the barrier, when the other rank sends to this one already: all that
/// others could still write to is taken back, and the other rank goes on. Not of the suite:
/// libfabric's shm reaches a peer of the same process by that one's own mapping, and crashes when
/// it has gone.
pub fn an_init_fails(f: &dyn NetmodFactory) {
    const WHY: &str = "the value is lost";
    /// Time that the sender goes on after the end of its peer.
    const BEHIND: Duration = Duration::from_millis(100);
    let mut board = Board::new(2);
    let job = f.job(2);
    let (tell, why) = channel();
    let (place, fails) = (board.place(0), board.place_that_fails(1, why));
    let (ended, is_ended) = channel();
    std::thread::scope(|s| {
        let job = &job;
        s.spawn(move || {
            let mut dev = job.device(Box::new(place), f.config()).expect("rank 0 has all that it needs");
            let (world, large) = (dev.world(), dev.config().eager_max + 1);
            let sends = [10, 1000, large].map(|len| dev.isend(pattern(1, len), 1, 1, world).expect("isend"));
            let mut tell = Some(tell);
            let mut end = None;
            for polls in 0.. {
                dev.progress().expect("the loss of a peer is no failure of a device");
                // All that was begun is under way.
                if polls == 100 {
                    tell.take().map(|tell| tell.send(WHY.to_owned()));
                }
                if end.is_none() && is_ended.try_recv().is_ok() {
                    end = Some(Instant::now() + BEHIND);
                }
                if end.is_some_and(|end| Instant::now() > end) {
                    break;
                }
            }
            drop(sends);
        });
        let failed = job.device(Box::new(fails), f.config()).map(drop).expect_err("its init fails");
        assert!(failed.to_string().contains(WHY), "{failed}");
        ended.send(()).expect("rank 0 waits for it");
    });
}

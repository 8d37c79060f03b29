//! Two defects that other MPIs have met with libfabric's sockets provider, and that must not come
//! back, over sockets and the others: a crash when resources are closed while the provider's
//! progress thread still uses them, for which Open MPI's BTL sleeps a second before it closes; and
//! a deadlock when both sides send at once, for which it is one-sided by preference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{Builder, Device, Error};
use netmod_tests::board::{Board, run_job_with};
use netmod_tests::conformance::{check, other, pattern};
use netmod_tests::factory::{NetmodFactory, Ofi};
use netmod_tests::libfabric::again_with;
use netmod_tests::watchdog::Watchdog;

/// Set in the process that may crash.
const ALONE: &str = "NETMOD_TEST_ALONE";

fn over(provider: &'static str) -> Ofi {
    Ofi { provider, library: "", max_bytes: 0, many: 0 }
}

/// Way in which a rank leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    Finalize,
    /// Without finalizing.
    Drop,
}

/// Sends what nobody receives, until there is no more room for it, or the peer is gone, if it
/// `may_be_gone`.
fn pour(dev: &mut Device, may_be_gone: bool) {
    let (peer, world) = (other(dev), dev.world());
    let mut sends = Vec::new();
    for n in 0..200 {
        match dev.isend(pattern(n, 2000), peer, 1, world) {
            Ok(send) => sends.push(send),
            Err(failed) if may_be_gone && matches!(failed.error, Error::Peer(_)) => break,
            Err(e) => panic!("send {n}: {e}"),
        }
    }
    // Sends that wait for room are taken back.
    for req in &sends {
        dev.cancel(req);
    }
    drop(sends);
}

/// Two ranks pour messages at each other and leave at once, closing their endpoints in the middle
/// of it.
fn close_in_mid_traffic(provider: &'static str, how: [Leave; 2]) {
    let _watchdog = Watchdog::new();
    let mut board = Board::new(2);
    let connected = Arc::new(AtomicU32::new(0));
    let ranks = [0, 1].map(|rank| {
        let builder = Builder::new(over(provider).config(), Box::new(board.place(rank)));
        let connected = connected.clone();
        thread::spawn(move || {
            let mut dev = builder.build().expect("a device");
            let (peer, world) = (other(&dev), dev.world());
            let mut got = [0];
            dev.sendrecv(&[1], peer, 2, &mut got, peer, 2, world).expect("they are connected");
            // A rank that leaves earlier may take its message along.
            connected.fetch_add(1, Ordering::Relaxed);
            while connected.load(Ordering::Relaxed) < 2 {
                dev.progress().expect("progress");
            }
            pour(&mut dev, how[peer as usize] == Leave::Drop);
            if how[rank as usize] == Leave::Drop {
                return;
            }
            match dev.finalize() {
                Ok(()) => {}
                // A rank that has not finalized has failed, and the process manager says so, too.
                Err(_) if how.contains(&Leave::Drop) => {}
                Err(e) => panic!("{provider}: finalize: {e}"),
            }
        })
    });
    for rank in ranks {
        rank.join().expect("a rank");
    }
}

/// In a process of its own, whose crash is the end of the test only.
fn closing(test: &str, providers: &[&'static str]) {
    if let Ok(provider) = std::env::var(ALONE) {
        let provider = *providers.iter().find(|p| **p == provider).expect("one of these");
        let begun = Instant::now();
        // shm keeps pointers to endpoints of its own process that were closed; see
        // `Ofi::is_available`.
        let drops = provider != "shm";
        for _ in 0..6 {
            close_in_mid_traffic(provider, [Leave::Finalize; 2]);
            if drops {
                close_in_mid_traffic(provider, [Leave::Finalize, Leave::Drop]);
                close_in_mid_traffic(provider, [Leave::Drop; 2]);
            }
        }
        // The progress thread has time to touch what is gone.
        thread::sleep(Duration::from_millis(50));
        println!("{provider}: {:?}", begun.elapsed());
        return;
    }
    for provider in providers.iter().filter(|p| over(p).is_available(test)) {
        again_with(test, &[(ALONE, *provider), ("FI_SOCKETS_PE_WAITTIME", "0"), ("MALLOC_PERTURB_", "165")]);
    }
}

#[test]
fn sockets_does_not_crash_when_it_is_closed_in_mid_traffic() {
    closing("sockets_does_not_crash_when_it_is_closed_in_mid_traffic", &["sockets"]);
}

#[test]
fn no_other_provider_crashes_when_it_is_closed_in_mid_traffic() {
    closing("no_other_provider_crashes_when_it_is_closed_in_mid_traffic", &["tcp", "net", "shm", "udp"]);
}

/// Both sides send everything before they receive anything, all of it by messages, in lengths of a
/// frame and of many.
fn send_first(test: &str, provider: &'static str, many: u64) {
    const LARGE: usize = 200_000;
    let factory = over(provider);
    if !factory.is_available(test) {
        return;
    }
    let two_sided = |cfg: &mut Config| {
        cfg.lmt = "null";
        cfg.eager_max = 256 << 10;
    };
    run_job_with(&factory, 2, two_sided, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let seed = |rank: i32, n: u64| (rank as u64) << 32 | n;
        let me = 1 - peer;
        let len = |n: u64| if n % 100 == 99 { LARGE } else { 4096 };
        let sends: Vec<_> = (0..many)
            .map(|n| dev.isend(pattern(seed(me, n), len(n)), peer, 1, world).expect("isend"))
            .collect();
        let receives: Vec<_> =
            (0..many).map(|n| dev.irecv(vec![0; len(n)], peer, 1, world).expect("irecv")).collect();
        for (n, req) in receives.into_iter().enumerate() {
            check(seed(peer, n as u64), &dev.wait(req).expect("receive").buffer);
        }
        dev.wait_all(sends).expect("sends");
        assert_eq!(dev.stats().one_sided, 0);
    });
}

#[test]
fn two_sided_traffic_does_not_deadlock_over_sockets() {
    send_first("two_sided_traffic_does_not_deadlock_over_sockets", "sockets", 2000);
}

/// udp;ofi_rxd of 1.17 really stalls, once some 1024 messages are under way; the netmod's windows
/// keep it from that.
#[test]
fn two_sided_traffic_does_not_deadlock_over_the_others() {
    for (provider, many) in [("tcp", 2000), ("net", 2000), ("shm", 2000), ("udp", 1500)] {
        send_first("two_sided_traffic_does_not_deadlock_over_the_others", provider, many);
    }
}

/// Nobody looks while more messages come than the provider has places for: shm of 1.17 then has
/// none left for receive buffers that take several (1024 for both), and never again.
#[test]
fn who_looks_late_is_not_deaf_for_ever() {
    const SENDERS: u64 = 6;
    const EACH: u64 = 500;
    for provider in ["shm", "tcp", "sockets"] {
        let factory = over(provider);
        if !factory.is_available("who_looks_late_is_not_deaf_for_ever") {
            continue;
        }
        let little = |cfg: &mut Config| cfg.ofi.rx_memory = Some(256 << 10);
        run_job_with(&factory, 1 + SENDERS as u32, little, move |dev| {
            let (me, world) = (dev.rank() as u64, dev.world());
            let seed = |from: u64, n: u64| from << 32 | n;
            dev.barrier(world).expect("all are connected");
            if me > 0 {
                // One at a time, so that each is a message of the provider's.
                for n in 0..EACH {
                    dev.send(&pattern(seed(me, n), 1000), 0, 1, world).expect("send");
                }
                return;
            }
            thread::sleep(Duration::from_millis(200));
            for n in 0..EACH {
                for from in 1..=SENDERS {
                    let mut got = vec![0; 1000];
                    dev.recv(&mut got, from as i32, 1, world).expect("receive");
                    check(seed(from, n), &got);
                }
            }
        });
    }
}

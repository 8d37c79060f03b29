//! Processes that are checkpointed at the same time and all come back at other addresses.

use std::net::TcpListener;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use ch3_shim::Config;
use ch3_shim::{Device, Error};
use netmod_tcp::TcpReport;
use netmod_tests::board::run_job_with;
use netmod_tests::jobs::pattern::{bytes, check, seed};
use netmod_tests::jobs::tap::{Tap, home_in};

const SIZES: [usize; 5] = [0, 8, 5000, 70_000, 1 << 20];

/// Messages between all ranks; while they are under way, `move_to` has the device.
fn talk(dev: &mut Device, round: u64, move_to: impl FnOnce(&mut Device)) {
    let (world, me) = (dev.world(), dev.rank());
    let of = |from: u32, to: u32, len: usize| seed(&[round, from.into(), to.into(), len as u64]);
    let (mut receives, mut sends) = (Vec::new(), Vec::new());
    for other in (0..dev.size()).filter(|r| *r != me) {
        for len in SIZES {
            let receive = dev.irecv(vec![0xE5; len + 1], other as i32, 1, world).expect("a receive");
            receives.push((of(other, me, len), len, receive));
            let data = bytes(of(me, other, len), len);
            sends.push(dev.isend(data, other as i32, 1, world).expect("a send"));
        }
    }
    for _ in 0..round * 9 {
        dev.progress().expect("progress");
    }
    move_to(dev);
    for (of, len, receive) in receives {
        let done = dev.wait(receive).expect("a message");
        assert_eq!((done.status.len, done.buffer[len]), (len, 0xE5), "rank {me}, round {round}");
        check(of, &done.buffer[..len]).expect("the right bytes");
    }
    dev.wait_all(sends).expect("the sends");
}

fn suspend(dev: &mut Device) {
    dev.ckpt_shutdown().unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()));
}

fn resume(dev: &mut Device) -> Vec<u8> {
    dev.ckpt_restart().unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()))
}

/// Restarts while somebody else has the port: at another one, which is returned with the new card.
fn resume_elsewhere(dev: &mut Device, port: u16) -> (u16, Vec<u8>) {
    let taken = TcpListener::bind(("::", port)).expect("the port is free");
    let card = resume(dev);
    drop(taken);
    let home = home_in(&card).expect("a card with tcp").port();
    assert_ne!(home, port, "its port was taken");
    (home, card)
}

fn plain(_: &mut Config) {}

/// The default of ranks of one node.
fn local(cfg: &mut Config) {
    cfg.set("NETMOD_TCP_RESUME_LOCAL", "no").expect("a setting");
}

/// Cards go from hand to hand, and of two processes one needs the other's.
#[test]
fn two_that_move_at_once_find_each_other_by_their_cards() {
    for (tune, given_to) in
        [(plain as fn(&mut Config), [true, true]), (local, [true, false]), (plain, [false, true])]
    {
        let (tap, gate) = (Tap::default(), Arc::new(Barrier::new(2)));
        let homes = tap.clone();
        let cards = Arc::new(Mutex::new([const { Vec::new() }; 2]));
        run_job_with(&tap, 2, tune, move |dev| {
            let (me, world) = (dev.rank() as usize, dev.world());
            let mut port = homes.home(dev.rank()).port();
            dev.barrier(world).expect("a barrier");
            for round in 0..4 {
                talk(dev, round, |dev| {
                    suspend(dev);
                    gate.wait();
                    let (new, card) = resume_elsewhere(dev, port);
                    port = new;
                    cards.lock().unwrap_or_else(PoisonError::into_inner)[me] = card;
                    gate.wait();
                    if given_to[me] {
                        let card = cards.lock().unwrap_or_else(PoisonError::into_inner)[1 - me].clone();
                        dev.ckpt_peer(1 - me as i32, &card).expect("the card of the other rank");
                    }
                });
                dev.barrier(world).expect("a barrier");
            }
            assert!(dev.netmod_report::<TcpReport>().is_some_and(|r| r.stats.resumes >= 4));
        });
    }
}

/// Each finds itself at the address where it knew the other one.
#[test]
fn two_that_change_places() {
    let free = |port: u16| TcpListener::bind(("::", port)).ok();
    let pairs = (0..).map_while(|_| free(0)?.local_addr().ok()).map(|a| a.port());
    let first = pairs.take(1000).find(|p| *p < u16::MAX && free(*p).is_some() && free(p + 1).is_some());
    let first = first.expect("two free ports in a row");
    let tune = move |cfg: &mut Config| {
        cfg.set("NETMOD_TCP_PORT_RANGE", &format!("{first}-{}", first + 1)).expect("a setting");
    };
    let (tap, gate) = (Tap::default(), Arc::new(Barrier::new(2)));
    let homes = tap.clone();
    let cards = Arc::new(Mutex::new([const { Vec::new() }; 2]));
    run_job_with(&tap, 2, tune, move |dev| {
        let (me, world) = (dev.rank() as usize, dev.world());
        dev.barrier(world).expect("a barrier");
        let ports = [homes.home(0).port(), homes.home(1).port()];
        talk(dev, 1, |dev| {
            suspend(dev);
            gate.wait();
            if me == 1 {
                gate.wait();
            }
            // Rank 1's wish is taken by rank 0.
            let taken = (me == 0).then(|| TcpListener::bind(("::", ports[0])).expect("the port is free"));
            let card = resume(dev);
            drop(taken);
            assert_eq!(home_in(&card).expect("a card with tcp").port(), ports[1 - me]);
            cards.lock().unwrap_or_else(PoisonError::into_inner)[me] = card;
            if me == 0 {
                gate.wait();
            }
            gate.wait();
            // Both dial, and each meets itself.
            let before = dev.netmod_report::<TcpReport>().expect("a device over tcp").stats.dialled;
            while dev.netmod_report::<TcpReport>().expect("a device over tcp").stats.dialled < before + 2 {
                dev.progress().expect("nothing is wrong");
            }
            let card = cards.lock().unwrap_or_else(PoisonError::into_inner)[1 - me].clone();
            dev.ckpt_peer(1 - me as i32, &card).expect("the card of the other rank");
        });
    });
}

/// All ranks tell each other by the process manager; some have not moved, and one pair meets only
/// afterwards.
#[test]
fn a_job_whose_ranks_have_moved_comes_together_by_the_process_manager() {
    let (tap, gate) = (Tap::default(), Arc::new(Barrier::new(3)));
    let homes = tap.clone();
    run_job_with(&tap, 4, local, move |dev| {
        let (me, world) = (dev.rank(), dev.world());
        let mut port = homes.home(me).port();
        let (next, before) = (((me + 1) % 4) as i32, ((me + 3) % 4) as i32);
        for round in 0..3u8 {
            let mut got = vec![0; 5000];
            dev.sendrecv(&[round; 5000], next, 1, &mut got, before, 1, world).expect("a ring");
            assert_eq!(got, [round; 5000]);
            if me != 3 {
                suspend(dev);
                gate.wait();
                port = resume_elsewhere(dev, port).0;
            }
            dev.ckpt_rejoin().expect("all are back");
        }
        // Ranks 0 and 2 were never connected, and neither is where it was.
        talk(dev, 9, |_| {});
    });
}

#[test]
fn cards_that_are_no_use_are_refused() {
    run_job_with(&Tap::default(), 2, plain, |dev| {
        let (me, world) = (dev.rank() as i32, dev.world());
        dev.barrier(world).expect("a barrier");
        assert!(matches!(dev.ckpt_peer(2, &[]), Err(Error::Rank { rank: 2, size: 2 })));
        assert!(matches!(dev.ckpt_peer(me, &[]), Err(Error::Usage(_))));
        let broken = dev.ckpt_peer(1 - me, b"no card").expect_err("a broken card");
        assert!(broken.to_string().contains("card"), "{broken}");
        if me == 0 {
            suspend(dev);
            let card = resume(dev);
            suspend(dev);
            let early = dev.ckpt_peer(1, &card).expect_err("it is not restarted");
            assert!(early.to_string().contains("not been restarted"), "{early}");
            resume(dev);
        }
        // Nothing has changed.
        dev.barrier(world).expect("a barrier");
    });
}

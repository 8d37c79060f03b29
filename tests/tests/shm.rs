//! Shared memory beside another netmod, and where it cannot be used.

use std::sync::Arc;

use netmod_tcp::TcpReport;
use netmod_tests::conformance::{
    self, NetmodFactory, check, pattern, run_devices, run_job, run_job_with, send,
};
use netmod_tests::factory::{BuiltIn, Islands, Job, Shm};

/// Within an island by shared memory, to others by TCP, and the reason is kept.
#[test]
fn each_peer_gets_the_netmod_that_reaches_it() {
    run_job(&Islands, 4, |dev| {
        let (me, world) = (dev.rank(), dev.world());
        let mut got = [0; 1000];
        for peer in (0..4).filter(|r| *r != me) {
            let mine = pattern(u64::from(me), 1000);
            dev.sendrecv(&mine, peer as i32, 1, &mut got, peer as i32, 1, world).expect("sendrecv");
            check(u64::from(peer), &got);
        }
        for vc in dev.report() {
            let near = vc.rank / 2 == me / 2;
            let (name, choice) = (vc.netmod.split(':').next().unwrap_or_default(), &vc.choice);
            assert_eq!(name, if near { "shm" } else { "tcp" }, "{choice}");
            let by_peer = choice.contains("the peer connected by it");
            assert!(by_peer || near || choice.contains("shm: it is in another segment"), "{choice}");
            assert!(by_peer || !near || choice == "shm: chosen", "{choice}");
        }
    });
}

/// Both netmods at once, with wildcards, and nobody waits for ever because the other is busy.
#[test]
fn both_at_once() {
    conformance::crowd::all_to_all(&Islands);
    conformance::crowd::many_to_one(&Islands);
    conformance::matching::any_source_keeps_each_senders_order(&Islands);
    conformance::closing::several_peers(&Islands);
    conformance::closing::a_peer_dies(&Islands);
    conformance::flood::wildcards(&Islands);
}

fn with_the_other(dev: &mut ch3_shim::Device, round: u8) {
    let (me, world) = (dev.rank() as i32, dev.world());
    let mut got = [0; 8];
    dev.sendrecv(&[me as u8 + round; 8], 1 - me, 1, &mut got, 1 - me, 1, world).expect("sendrecv");
    assert_eq!(got, [1 - me as u8 + round; 8]);
}

/// Ranks of two nodes are checkpointed, whatever the order of their netmods.
#[test]
fn ranks_that_share_memory_are_checkpointed_with_those_of_another_node() {
    for netmods in ["shm,tcp", "tcp,shm"] {
        let tune = |cfg: &mut ch3_shim::Config| {
            cfg.set("NETMOD", netmods).expect("netmods");
        };
        run_job_with(&Islands, 4, tune, |dev| {
            let (me, world) = (dev.rank(), dev.world());
            for round in 0..4u8 {
                for distance in 1..4 {
                    let (to, from) = (((me + distance) % 4) as i32, ((me + 4 - distance) % 4) as i32);
                    let mut got = [0; 40_000];
                    dev.sendrecv(&[round; 40_000], to, 1, &mut got, from, 1, world).expect("sendrecv");
                    assert_eq!(got, [round; 40_000]);
                }
                // Not by its connections: those that are checkpointed already have ended theirs.
                assert!(dev.report().iter().any(|vc| vc.netmod.starts_with("tcp")));
                if me == u32::from(round) || round == 2 {
                    dev.ckpt_shutdown().expect("a checkpoint");
                    assert_eq!(dev.netmod_report::<TcpReport>().map(|r| r.connections), Some(0));
                    dev.ckpt_restart().expect("a restart");
                }
            }
        });
    }
}

/// Without shared memory, its netmod keeps nobody from a checkpoint.
#[test]
fn checkpoints_without_shared_memory() {
    for resume in ["10s", "0s"] {
        let tune = |cfg: &mut ch3_shim::Config| {
            cfg.shm.dir = "/proc".into();
            cfg.set("NETMOD_TCP_RESUME_TIMEOUT", resume).expect("a duration");
        };
        run_devices(&NoFolder, 2, tune, move |mut dev| {
            with_the_other(&mut dev, 0);
            if dev.rank() == 0 {
                dev.ckpt_shutdown().expect("a checkpoint");
                assert_eq!(dev.netmod_report::<TcpReport>().map(|r| r.connections), Some(0));
                dev.ckpt_restart().expect("a restart");
                // Neither of them is suspended: the first one that is asked says so.
                let error = dev.ckpt_restart().expect_err("nothing is suspended").to_string();
                assert!(error.contains("shm: ckpt_restart without ckpt_shutdown"), "{error}");
            }
            with_the_other(&mut dev, 1);
            dev.finalize().expect("finalize");
        });
    }
}

/// A folder in which no memory can be had: the reason is in every card, and TCP carries the
/// messages.
#[test]
fn without_memory_another_netmod_is_chosen_and_says_why() {
    let tune = |cfg: &mut ch3_shim::Config| {
        *cfg = Islands.config();
        // A file system that knows no files without a name.
        cfg.shm.dir = "/proc".into();
    };
    run_devices(&NoFolder, 2, tune, |mut dev| {
        let (me, world) = (dev.rank() as i32, dev.world());
        let mut got = [0; 8];
        dev.sendrecv(&[me as u8; 8], 1 - me, 1, &mut got, 1 - me, 1, world).expect("sendrecv");
        assert_eq!(got, [1 - me as u8; 8]);
        let vc = &dev.report()[0];
        assert!(vc.netmod.starts_with("tcp"), "{}", vc.netmod);
        let text = &vc.choice;
        assert!(
            text.contains("the peer connected by it") || text.contains("here: cannot make /proc/netmod-"),
            "{text}"
        );
        dev.finalize().expect("finalize");
    });
}

/// Devices with the configuration as it is.
struct NoFolder;

impl NetmodFactory for NoFolder {
    fn name(&self) -> String {
        "shm without a folder".into()
    }
    fn capabilities(&self) -> netmod_tests::factory::Capabilities {
        Shm.capabilities()
    }
    fn config(&self) -> ch3_shim::Config {
        Islands.config()
    }
    fn job(&self, _: u32) -> Arc<dyn Job> {
        BuiltIn::job(|_| unreachable!("no bare netmods here"))
    }
}

/// The segment has no name any more when all ranks have started.
#[test]
fn a_job_that_has_started_has_no_file() {
    let tune = |_: &mut ch3_shim::Config| {};
    run_devices(&Shm, 3, tune, |mut dev| {
        let folder = dev.config().shm.dir.clone();
        if dev.rank() == 0 {
            send(&mut dev, vec![1], 1, 1);
        } else if dev.rank() == 1 {
            let world = dev.world();
            dev.recv(&mut [0], 0, 1, world).expect("receive");
        }
        assert_eq!(std::fs::read_dir(folder).expect("the folder").count(), 0);
        dev.finalize().expect("finalize");
    });
}

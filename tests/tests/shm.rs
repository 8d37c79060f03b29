//! Shared memory beside another netmod, where it cannot be used, and between namespaces.

use std::process::Command;

use netmod_tests::conformance::{self, NetmodFactory, check, pattern, run_devices, run_job, send};
use netmod_tests::factory::{Islands, Shm};
use netmod_tests::jobs::launch::{self, Outcome, launcher_or_skip, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

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

/// The error comes before anything was suspended: both netmods go on as before.
#[test]
fn ranks_that_share_memory_refuse_to_be_checkpointed() {
    run_job(&Islands, 4, |dev| {
        let (me, world) = (dev.rank(), dev.world());
        for round in 0..2u8 {
            for distance in 1..4 {
                let (to, from) = ((me + distance) % 4, (me + 4 - distance) % 4);
                let mut got = [0; 40_000];
                dev.sendrecv(&[round; 40_000], to as i32, 1, &mut got, from as i32, 1, world)
                    .expect("sendrecv");
                assert_eq!(got, [round; 40_000]);
            }
            let open = dev.tcp_connections();
            assert!(open > Some(0));
            let error = dev.ckpt_shutdown().expect_err("shared memory is in no image");
            assert!(
                error
                    .to_string()
                    .contains("shm: ranks that share memory cannot be checkpointed; set NETMOD=tcp")
            );
            assert_eq!(dev.tcp_connections(), open);
            let restart = dev.ckpt_restart().expect_err("nothing was shut down");
            assert!(restart.to_string().contains("ckpt_restart without"), "{restart}");
        }
    });
}

/// Where there is no shared memory, the netmod for it keeps nobody from a checkpoint; one that TCP refuses leaves it as it
/// was.
#[test]
fn checkpoints_without_shared_memory() {
    for (resume, works) in [("10s", true), ("0s", false)] {
        let tune = |cfg: &mut netmod_core::Config| {
            cfg.shm.dir = "/proc".into();
            cfg.set("NETMOD_TCP_RESUME_TIMEOUT", resume).expect("a duration");
        };
        run_devices(&NoFolder, 2, tune, move |mut dev| {
            with_the_other(&mut dev, 0);
            if dev.rank() == 0 {
                let done = dev.ckpt_shutdown();
                assert_eq!(done.is_ok(), works, "{done:?}");
                if works {
                    assert_eq!(dev.tcp_connections(), Some(0));
                    dev.ckpt_restart().expect("a restart");
                }
                assert!(dev.wait_fd().is_ok(), "no descriptor to wait for");
            }
            with_the_other(&mut dev, 1);
            dev.finalize().expect("finalize");
        });
    }
}

/// A folder in which no memory can be had: the reason is in every card, and TCP carries the messages.
#[test]
fn without_memory_another_netmod_is_chosen_and_says_why() {
    let tune = |cfg: &mut netmod_core::Config| {
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
            text.contains("the peer connected by it") || text.contains("shm: cannot make /proc/netmod-"),
            "{text}"
        );
        dev.finalize().expect("finalize");
    });
}

/// Devices with the configuration as it is.
#[derive(Clone)]
struct NoFolder;

impl NetmodFactory for NoFolder {
    type Job = ();
    fn name(&self) -> String {
        "shm without a folder".into()
    }
    fn capabilities(&self) -> netmod_tests::factory::Capabilities {
        Shm.capabilities()
    }
    fn config(&self) -> netmod_core::Config {
        Islands.config()
    }
    fn job(&self, _: u32) {}
    fn device(
        &self,
        (): &(),
        boot: Box<dyn ch3_shim::Bootstrap>,
        cfg: netmod_core::Config,
    ) -> ch3_shim::Result<ch3_shim::Device> {
        ch3_shim::Builder::new(cfg, boot).build()
    }
    fn netmod(&self, (): &(), _: u32, _: u32) -> ch3_shim::netset::NetSet {
        unreachable!("no bare netmods here")
    }
}

/// When all ranks have started, the segment has no name any more.
#[test]
fn a_job_that_has_started_has_no_file() {
    let tune = |_: &mut netmod_core::Config| {};
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

/// A file system in memory of 256 KiB, which goes with the test.
struct Small(std::path::PathBuf);

impl Small {
    fn mount(&self) -> Result<(), String> {
        std::fs::create_dir(&self.0).map_err(|e| e.to_string())?;
        let mut c = Command::new("mount");
        c.args(["-t", "tmpfs", "-o", "size=256k,mode=1777", "tmpfs"]).arg(&self.0);
        let done = c.output().map_err(|e| e.to_string())?;
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Too little memory is a line at the start, and no signal later; nothing is left there.
#[test]
fn a_file_system_that_is_too_small() {
    let small = Small(std::env::temp_dir().join(format!("test-netmod-small-{}", std::process::id())));
    if let Err(why) = small.mount() {
        return launch::skip(&format!(
            "SKIPPED: a_file_system_that_is_too_small: no tmpfs can be mounted: {why}"
        ));
    }
    let job = |netmods: &str| {
        let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
        c.args(["-n", "3", JOB, "ring", "5"]).env("NETMOD", netmods).env("NETMOD_SHM_DIR", &small.0);
        run(&mut c)
    };
    let alone = job("shm");
    assert!(!alone.status.success(), "{alone}");
    for word in
        ["KiB of shared memory for 3 ranks cannot be had", "No space left on device", "NETMOD_SHM_DIR"]
    {
        assert!(alone.output.contains(word), "no {word} in {alone}");
    }
    let done = job("shm,tcp");
    done.expect_ok("ring", 3);
    let warnings = done.output.matches("netmod: warning: the ranks of this node share no memory").count();
    assert_eq!(warnings, 1, "{done}");
    assert!(done.output.contains("No space left on device"), "{done}");
    assert_eq!(std::fs::read_dir(&small.0).expect("the folder").count(), 0);
}

/// Runs a case with each rank behind a command of its own.
fn behind(command: &[&str], case: &[&str], ranks: u32) -> Outcome {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &ranks.to_string()]).args(command).arg(JOB).args(case);
    run(c.env("NETMOD", "shm"))
}

/// Whether processes can be put into namespaces of this kind.
fn can_unshare(test: &str, command: &[&str]) -> bool {
    if launcher_or_skip(test, "unshare", "util-linux").is_none() {
        return false;
    }
    let tried = Command::new(command[0]).args(&command[1..]).arg("true").output();
    let ok = tried.as_ref().is_ok_and(|o| o.status.success());
    if !ok {
        launch::skip(&format!("SKIPPED: {test}: {} does not work here: {tried:?}", command.join(" ")));
    }
    ok
}

#[test]
fn between_network_namespaces() {
    let unshare = ["unshare", "--net"];
    if can_unshare("between_network_namespaces", &unshare) {
        behind(&unshare, &["ring", "20"], 3).expect_ok("ring", 3);
    }
}

/// Peers that cannot wake each other look by themselves; the death of one is noticed by its lock.
#[test]
fn between_pid_namespaces() {
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc"];
    if can_unshare("between_pid_namespaces", &unshare) {
        behind(&unshare, &["alltoall", "100000"], 3).expect_ok("alltoall", 3);
        behind(&unshare, &["idle", "300"], 2).expect_ok("idle", 2);
    }
}

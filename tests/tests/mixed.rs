//! Jobs on two nodes: shared memory within each, TCP between them. The nodes are what the launcher
//! says they are, on one machine; `hosts` has some with a network between.

use std::process::Command;

use netmod_tests::factory::Islands;
use netmod_tests::jobs::launch::{self, EACH_NETMOD, Outcome, launcher_or_skip, run, run_alone};

netmod_tests::conformance!(over_shm_and_tcp, Islands);

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// A job of which each of two nodes has half.
fn nmrun(ranks: u32, options: &[&str]) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &ranks.to_string(), "--nodes", "2"]).args(options).arg(JOB).env("NETMOD", EACH_NETMOD[0]);
    c
}

/// Each rank says what it uses with each other one, and why.
#[track_caller]
fn choices(done: &Outcome, ranks: u32, node: impl Fn(u32) -> u32) {
    done.expect_ok("choices", ranks);
    for me in 0..ranks {
        for peer in (0..ranks).filter(|r| *r != me) {
            let start = format!("rank {me}: with rank {peer} by ");
            let line = done.output.lines().find_map(|l| l.strip_prefix(&start));
            let line = line.unwrap_or_else(|| panic!("no line \"{start}\" in {done}"));
            if node(me) == node(peer) {
                assert_eq!(line, "shm: shm: chosen", "{start}");
                continue;
            }
            let (name, why) = line.split_once(": ").unwrap_or_default();
            assert_eq!(name, "tcp", "{start}{line}");
            let reasons = [
                "the peer connected by it",
                "shm: it is in another segment: on another node, as the launcher has it",
                "shm: the launcher has put no other rank on this node",
                "shm: it has no shared memory: the launcher has put no other rank",
            ];
            assert!(reasons.iter().any(|r| why.starts_with(r)), "{start}{line}");
        }
    }
}

#[test]
fn each_peer_gets_the_netmod_that_reaches_it() {
    for ranks in [2u32, 3, 4, 5] {
        choices(&run(nmrun(ranks, &[]).arg("choices")), ranks, |r| r / ranks.div_ceil(2));
    }
}

/// The nodes of a launcher that has a proxy for each.
#[test]
fn each_peer_gets_the_netmod_that_reaches_it_under_hydra() {
    let Some(hydra) = launcher_or_skip("each_peer_gets_the_netmod_under_hydra", "mpiexec.hydra", "mpich")
    else {
        return;
    };
    let mut c = Command::new(hydra);
    c.args(["-launcher", "fork", "-hosts", "node-a,node-b", "-ppn", "2", "-n", "4", JOB, "choices"]);
    choices(&run(c.env("NETMOD", EACH_NETMOD[0])), 4, |r| r / 2);
}

/// A user may know better than the launcher how many ranks share a folder.
#[test]
fn nodes_that_share_a_folder_can_share_memory() {
    let mut c = nmrun(4, &["--env", "NETMOD_SHM_RANKS=4"]);
    choices(&run(c.arg("choices")), 4, |_| 0);
}

#[test]
fn patterns_of_traffic() {
    for (ranks, case) in [
        (4, &["ring"][..]),
        (5, &["alltoall"]),
        (6, &["many-to-one"]),
        (4, &["random", "3"]),
        (5, &["random", "4"]),
        (6, &["barriers", "200"]),
        (4, &["reuse", "6"]),
        (5, &["flood", "300", "50"]),
        (4, &["late", "1"]),
        (4, &["idle", "1000"]),
    ] {
        run(nmrun(ranks, &[]).args(case)).expect_ok(case[0], ranks);
    }
}

#[test]
fn threads_and_engines() {
    let mut c = nmrun(4, &["--env", "NETMOD_ENGINES=2"]);
    run(c.args(["threads", "4", "12"])).expect_ok("threads", 4);
}

#[test]
fn far_more_ranks_than_cores() {
    run_alone(nmrun(32, &[]).arg("crowd")).expect_ok("crowd", 32);
}

/// On the node of the dead one and on the other.
#[test]
fn others_survive_a_death() {
    for victim in ["0", "3"] {
        let done = run(nmrun(6, &["--no-kill"]).args(["die", victim]));
        done.expect_code(128 + 9);
        assert_eq!(done.output.matches(&format!(": survived rank {victim}\n")).count(), 5, "{done}");
        assert_eq!(done.ok_ranks("die"), 5, "{done}");
    }
}

#[test]
fn a_death_at_any_moment_of_random_traffic() {
    for seed in 1..=4u32 {
        let done = run(nmrun(4, &["--no-kill"]).args(["mortal", &seed.to_string()]));
        done.expect_code(128 + 9);
        assert_eq!(done.ok_ranks("mortal"), 3, "seed {seed}: {done}");
    }
}

//! Jobs of processes whose large messages move in each mode: all lengths byte by byte, contiguous
//! or not, and random traffic.
//!
//! `NETMOD_TEST_LONGEST` is the longest message in bytes (16 MiB if it is not set); with 1073741824
//! it takes a minute or so.

use std::process::Command;

use netmod_tests::jobs::launch::{self, run, run_alone};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn nmrun(ranks: u32, netmod: &str, mode: &str) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &ranks.to_string(), JOB]);
    c.envs([("NETMOD", netmod), ("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "0")]);
    // Independent of the number of cores.
    c.env("NETMOD_SHM_JOINT", "on");
    c
}

/// Runs all lengths in all layouts, and tells what each rank has moved how.
fn span(netmod: &str, mode: &str, layouts: &[&str]) -> Vec<[(u64, u64); 2]> {
    let longest = std::env::var("NETMOD_TEST_LONGEST").unwrap_or_else(|_| (16 << 20).to_string());
    let each = layouts.iter().map(|layout| {
        let done = run_alone(nmrun(2, netmod, mode).args(["span", &longest, layout]));
        done.expect_ok("span", 2);
        [0, 1].map(|rank| {
            let [one_sided, rings, _] = done.moved(rank);
            (one_sided, rings)
        })
    });
    each.collect()
}

#[test]
fn every_length_over_shared_memory() {
    for (mode, one_sided, rings) in [
        ("null", [false, false], false),
        ("put", [true, false], false),
        ("get", [false, true], false),
        ("coop", [false, false], true),
    ] {
        for ranks in span("shm", mode, &["0", "1", "2", "3"]) {
            let found = ranks.map(|(one, ring)| (one > 0, ring > 0));
            assert_eq!(found, one_sided.map(|one| (one, rings)), "{mode}: {ranks:?}");
        }
    }
    for ranks in span("shm", "auto", &["0", "3"]) {
        assert!(ranks.iter().any(|(one, ring)| one + ring > 0), "auto took nothing but null: {ranks:?}");
    }
}

/// A single connection of TCP offers no one-sided transfers; its processes may share rings.
#[test]
fn every_length_over_tcp() {
    for (mode, rings) in [("null", false), ("coop", true), ("put", false)] {
        for ranks in span("tcp", mode, &["3"]) {
            assert!(ranks.iter().all(|(one, ring)| *one == 0 && (*ring > 0) == rings), "{mode}: {ranks:?}");
        }
    }
}

/// A user who asks for what a netmod has not got is told once what happens instead.
#[test]
fn a_mode_that_cannot_be_had_is_told_once() {
    for (netmod, mode, told) in [("tcp", "get", true), ("tcp", "coop", false), ("shm", "get", false)] {
        let done = run(nmrun(2, netmod, mode).args(["alltoall", "100000"]));
        done.expect_ok("alltoall", 2);
        let line = format!("NETMOD_LMT={mode} is not honoured over {netmod}: ");
        assert_eq!(done.output.matches(&line).count(), usize::from(told), "{mode} over {netmod}: {done}");
    }
}

#[test]
fn random_traffic() {
    for (i, mode) in ["put", "get", "coop", "auto"].into_iter().enumerate() {
        let seed = (i + 1).to_string();
        run(nmrun(4, "shm,tcp", mode).args(["random", &seed])).expect_ok("random", 4);
    }
    // The limit on registered memory is so low that messages compete for it.
    for mode in ["put", "get"] {
        let mut job = nmrun(4, "shm", mode);
        run(job.env("NETMOD_SHM_REGISTER_MAX", "512K").args(["alltoall", "2000000"]))
            .expect_ok("alltoall", 4);
    }
}

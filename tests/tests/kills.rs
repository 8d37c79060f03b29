//! One rank of a job over TCP is killed, at every stage and at any moment; the others go on under
//! `nmrun --no-kill`.
//!
//! `NETMOD_TEST_KILLS` is the number of random jobs (10 if it is not set), `NETMOD_TEST_KILLS_SEED`
//! the seed of the first; each job says its seed, and `NETMOD_TEST_KILLS=1
//! NETMOD_TEST_KILLS_SEED=<seed>` plays it again.

use std::process::Command;

use netmod_tests::jobs::launch::{self, OVER_TCP, Outcome, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn nmrun(ranks: u32, options: &[&str]) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &ranks.to_string(), "--no-kill"]).args(options).arg(JOB).env(OVER_TCP.0, OVER_TCP.1);
    c
}

/// All but one rank have come to their end in order.
#[track_caller]
fn survived(done: &Outcome, case: &str, ranks: u32, seed: u64) {
    let survivors = done.output.matches(": survived rank ").count();
    assert_eq!(survivors, ranks as usize - 1, "seed {seed}: {done}");
    assert_eq!(done.ok_ranks(case), ranks as usize - 1, "seed {seed}: {done}");
    done.expect_code(128 + 9);
}

fn stage(stage: u32, seeds: &[u64]) {
    for (i, seed) in seeds.iter().enumerate() {
        let (ranks, victim) = [(4, 1), (3, 0), (5, 4)][i % 3];
        let done =
            run(nmrun(ranks, &[]).args(["kill", &stage.to_string(), &victim.to_string(), &seed.to_string()]));
        survived(&done, "kill", ranks, *seed);
    }
}

#[test]
fn before_init() {
    // Without rank 0 there is no job: it alone knows the key.
    stage(0, &[1]);
}

#[test]
fn without_rank_0_there_is_no_job_and_all_say_so() {
    let done = run(nmrun(3, &[]).args(["kill", "0", "0", "1"]));
    assert_eq!(done.output.matches("has published no job key").count(), 2, "{done}");
    assert_eq!(done.ok_ranks("kill"), 0, "{done}");
}

#[test]
fn during_init() {
    for seed in 1..=4 {
        let done = run(nmrun(4, &[]).args(["kill", "1", "2", &seed.to_string()]));
        survived(&done, "kill", 4, seed);
    }
}

#[test]
fn idle() {
    stage(2, &[1, 2, 3]);
}

/// Nobody but the netmod can tell: there is no connection, and the process manager is not asked.
#[test]
fn before_the_first_message_if_nobody_else_tells() {
    for seed in [1, 2] {
        let mut job = nmrun(5, &[]);
        job.env("NETMOD_FAILURE_CHECK", "0s").env("NETMOD_TCP_DETECT", "2s");
        let done = run(job.args(["unmet", "1", &seed.to_string()]));
        survived(&done, "unmet", 5, seed);
    }
}

#[test]
fn in_the_middle_of_a_rendezvous() {
    stage(3, &[1, 2, 3]);
}

#[test]
fn while_a_receive_from_any_source_waits() {
    stage(4, &[1, 2, 3]);
}

#[test]
fn in_a_probe() {
    stage(5, &[1, 2, 3]);
}

#[test]
fn in_a_disconnect() {
    stage(6, &[1, 2, 3]);
}

#[test]
fn before_finalize() {
    stage(7, &[1, 2, 3]);
}

#[test]
fn in_finalize() {
    for seed in 1..=3 {
        let done = run(nmrun(4, &[]).args(["kill", "8", "1", &seed.to_string()]));
        assert_eq!(done.output.matches(": survived rank 1\n").count(), 3, "seed {seed}: {done}");
        assert_eq!(done.ok_ranks("kill"), 3, "seed {seed}: {done}");
    }
}

#[test]
fn in_a_flood_of_small_messages() {
    stage(9, &[1, 2, 3]);
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn at_any_moment_of_random_traffic() {
    let (runs, first) = (number("NETMOD_TEST_KILLS", 10), number("NETMOD_TEST_KILLS_SEED", 1));
    let mut passed = 0;
    for seed in first..first + runs {
        let ranks = [2, 3, 4, 6][(seed % 4) as usize];
        println!("random kill: seed {seed}, {ranks} ranks");
        let done = run(nmrun(ranks, &[]).args(["mortal", &seed.to_string()]));
        survived(&done, "mortal", ranks, seed);
        passed += 1;
    }
    println!("random kills: {passed}/{runs}");
}

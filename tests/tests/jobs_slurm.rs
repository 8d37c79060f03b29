//! Jobs of real processes under Slurm's `srun`, in each protocol that it offers, on two nodes.

use std::process::Command;

use netmod_tests::jobs::launch::{run, skip};
use netmod_tests::jobs::matrix;
use netmod_tests::jobs::slurm::{Cluster, cluster_or_skip};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const PM: &str = env!("CARGO_BIN_EXE_netmod-pm");

/// `srun` of `netmod-job` for some protocol, half of the ranks on each node.
fn srun(cluster: &Cluster, ranks: u32, options: &[&str], pmi: &str) -> Command {
    srun_of(JOB, cluster, ranks, options, pmi)
}

fn srun_of(program: &str, cluster: &Cluster, ranks: u32, options: &[&str], pmi: &str) -> Command {
    let mut c = cluster.srun();
    let nodes = ranks.min(2);
    let share = format!("--ntasks-per-node={}", ranks / nodes);
    let nodes = nodes.to_string();
    c.args(options)
        .args(["-N", &nodes, "-n", &ranks.to_string(), &share])
        .arg(program)
        .env("NETMOD_PMI", pmi);
    c
}

/// Runs a test in each protocol.
fn each(test: &str, body: impl Fn(matrix::Start<'_>)) {
    each_of(JOB, test, body);
}

fn each_of(program: &str, test: &str, body: impl Fn(matrix::Start<'_>)) {
    let Some(cluster) = cluster_or_skip(test) else { return };
    // The plugin speaks both versions of PMI.
    for pmi in ["auto", "1"] {
        body(&|ranks| srun_of(program, cluster, ranks, &["--mpi=pmi2"], pmi));
    }
    // Debian's plugin loads libpmix by the name that only the development package has.
    let probe = run(cluster.srun().args(["--mpi=pmix", "-n", "1", "true"]));
    if probe.status.success() {
        body(&|ranks| srun_of(program, cluster, ranks, &["--mpi=pmix"], "auto"));
    } else {
        skip(&format!("SKIPPED: {test}: srun --mpi=pmix does not work (apt-get install libpmix-dev)"));
    }
}

#[test]
fn process_manager() {
    each_of(PM, "process_manager", |start| matrix::process_manager(start, "0 0 1 1", 2));
    each_of(PM, "process_manager", |start| {
        let dealt_out = |ranks| {
            let mut c = start(ranks);
            c.env("SLURM_DISTRIBUTION", "cyclic");
            c
        };
        matrix::process_manager(&dealt_out, "0 1 0 1", 2);
    });
}

#[test]
fn basics() {
    each("basics", |start| matrix::basics(start));
}

#[test]
fn random_traffic() {
    each("random_traffic", |start| matrix::random_traffic(start, 1..3));
}

/// Slurm kills what is left, whatever the code was.
#[test]
fn abort_ends_the_job() {
    each("abort_ends_the_job", |start| {
        matrix::abort(start);
    });
}

/// Without an option of srun it is the others who notice.
#[test]
fn a_death_ends_the_job() {
    each("a_death_ends_the_job", |start| {
        matrix::death(start);
        matrix::death(&|ranks| {
            let mut c = start(ranks);
            c.env("SLURM_KILL_BAD_EXIT", "1");
            c
        });
    });
}

#[test]
fn the_survivors_of_a_death_go_on() {
    let Some(cluster) = cluster_or_skip("the_survivors_of_a_death_go_on") else { return };
    let mut c = srun(cluster, 4, &["--mpi=pmi2"], "auto");
    let done = run(c.args(["die", "1"]).env("NETMOD_CLOSE_TIMEOUT", "2s"));
    assert_eq!(done.output.matches(": survived rank 1\n").count(), 3, "{done}");
    assert!(!done.status.success(), "{done}");
}

/// Several tasks that nobody has told how to find each other are no jobs of one.
#[test]
fn tasks_without_a_process_manager_are_refused() {
    let Some(cluster) = cluster_or_skip("tasks_without_a_process_manager_are_refused") else { return };
    let done = run(srun(cluster, 2, &["--mpi=none"], "auto").arg("ring"));
    assert!(!done.status.success(), "{done}");
    assert_eq!(done.ok_ranks("ring"), 0, "{done}");
    assert_eq!(done.output.matches("srun --mpi=pmi2 or --mpi=pmix").count(), 2, "{done}");
    run(srun(cluster, 1, &["--mpi=none"], "auto").arg("ring")).expect_ok("ring", 1);
}

#[test]
fn a_demand_that_slurm_does_not_meet_is_an_error() {
    let Some(cluster) = cluster_or_skip("a_demand_that_slurm_does_not_meet_is_an_error") else { return };
    let done = run(srun(cluster, 2, &["--mpi=pmi2"], "pmix").arg("ring"));
    assert!(!done.status.success() && done.output.contains("NETMOD_PMI=pmix is set, but"), "{done}");
}

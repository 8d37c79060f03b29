//! Jobs of real processes under MPICH's launcher, `mpiexec.hydra`.

use std::process::Command;

use netmod_tests::jobs::launch::{launcher_or_skip, run, run_alone};
use netmod_tests::jobs::matrix;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const PM: &str = env!("CARGO_BIN_EXE_netmod-pm");

/// Two nodes by name, both of them this machine: two proxies, one for each.
const TWO_NODES: &[&str] = &["-launcher", "fork", "-hosts", "node-a,node-b", "-ppn", "2"];

/// `mpiexec.hydra` with options, then `netmod-job`; `None` if the test is skipped.
fn hydra(test: &str, ranks: u32, options: &[&str]) -> Option<Command> {
    hydra_of(JOB, test, ranks, options)
}

fn hydra_of(program: &str, test: &str, ranks: u32, options: &[&str]) -> Option<Command> {
    let mut c = Command::new(launcher_or_skip(test, "mpiexec.hydra", "mpich")?);
    c.args(options).args(["-n", &ranks.to_string()]).arg(program);
    Some(c)
}

fn ok(test: &str, ranks: u32, options: &[&str], case: &str, args: &[&str]) {
    if let Some(mut c) = hydra(test, ranks, options) {
        run(c.arg(case).args(args)).expect_ok(case, ranks);
    }
}

#[test]
fn process_manager() {
    for (options, nodes, here) in
        [(&[][..], "0 0 0 0", 4), (&["-pmi-port"], "0 0 0 0", 4), (TWO_NODES, "0 0 1 1", 2)]
    {
        for pmi in ["1", "2"] {
            let Some(mut c) = hydra_of(PM, "process_manager", 4, options) else { return };
            c.env("NETMOD_PMI", pmi);
            let program = c.get_program().to_owned();
            let args: Vec<_> = c.get_args().map(std::ffi::OsStr::to_owned).collect();
            let again = |_| {
                let mut c = Command::new(&program);
                c.args(&args).env("NETMOD_PMI", pmi);
                c
            };
            matrix::process_manager(&again, nodes, here);
        }
    }
}

#[test]
fn ring() {
    for ranks in [1, 2, 8] {
        ok("ring", ranks, &[], "ring", &[]);
    }
}

#[test]
fn all_to_all() {
    for ranks in [2, 5, 16] {
        ok("all_to_all", ranks, &[], "alltoall", &[]);
    }
}

#[test]
fn all_to_all_of_64() {
    if let Some(mut c) = hydra("all_to_all_of_64", 64, &[]) {
        run_alone(c.arg("alltoall")).expect_ok("alltoall", 64);
    }
}

#[test]
fn far_more_ranks_than_cores() {
    if let Some(mut c) = hydra("far_more_ranks_than_cores", 64, &["-pmi-port"]) {
        run_alone(c.arg("crowd")).expect_ok("crowd", 64);
    }
}

#[test]
fn many_to_one() {
    ok("many_to_one", 5, &[], "many-to-one", &[]);
}

#[test]
fn random_traffic() {
    for seed in ["1", "2", "3"] {
        ok("random_traffic", 4, &[], "random", &[seed]);
    }
}

#[test]
fn barriers() {
    ok("barriers", 6, &[], "barriers", &[]);
}

#[test]
fn disconnect_and_reuse() {
    ok("disconnect_and_reuse", 4, &[], "reuse", &[]);
}

#[test]
fn a_rank_is_late() {
    ok("a_rank_is_late", 3, &[], "late", &[]);
}

#[test]
fn pmi_over_tcp() {
    for case in ["alltoall", "random", "reuse"] {
        ok("pmi_over_tcp", 4, &["-pmi-port"], case, &[]);
    }
}

#[test]
fn two_nodes() {
    for case in ["ring", "alltoall", "many-to-one", "random", "barriers", "reuse"] {
        ok("two_nodes", 4, TWO_NODES, case, &[]);
    }
}

#[test]
fn two_nodes_with_pmi_over_tcp() {
    let options = [TWO_NODES, &["-pmi-port"]].concat();
    ok("two_nodes_with_pmi_over_tcp", 4, &options, "alltoall", &[]);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    for options in [&[][..], &["-pmi-port"], TWO_NODES] {
        if let Some(mut c) = hydra("abort_ends_the_job_with_its_code", 4, options) {
            run(c.args(["abort", "2", "9"])).expect_code(9);
        }
    }
}

#[test]
fn leaving_without_finalizing_ends_the_job() {
    if let Some(mut c) = hydra("leaving_without_finalizing_ends_the_job", 4, &[]) {
        // One time in ten Hydra 4 says that all went well, depending on what it notices first.
        let done = run(c.args(["leave", "1"]));
        assert_eq!(done.ok_ranks("leave"), 0, "{done}");
    }
}

/// Hydra ends the others; its option to let them live ends itself.
#[test]
fn a_death_ends_the_job() {
    for options in [&[][..], &["-pmi-port"], TWO_NODES] {
        if hydra("a_death_ends_the_job", 4, options).is_none() {
            return;
        }
        matrix::death(&|ranks| hydra("a_death_ends_the_job", ranks, options).expect("it was there"));
    }
}

/// Runs by descriptor, by port, and with two proxies, by both versions of PMI.
#[test]
fn a_stopped_launcher_stops_no_ring() {
    for options in [&[][..], &["-pmi-port"], TWO_NODES] {
        for (pmi, netmods) in [("1", "shm,tcp"), ("1", "tcp"), ("2", "tcp")] {
            let Some(mut c) = hydra("a_stopped_launcher_stops_no_ring", 4, options) else { return };
            c.env("NETMOD_PMI", pmi).env("NETMOD", netmods).env("NETMOD_FAILURE_CHECK", "10ms");
            run(c.arg("stopped")).expect_ok("stopped", 4);
        }
    }
}

/// The default action of the signal by which Hydra tells of deaths would be the next one.
#[test]
fn the_signal_that_tells_of_a_death_is_no_harm() {
    ok("the_signal_that_tells_of_a_death_is_no_harm", 2, &[], "signalled", &[]);
}

/// Runs by descriptor, by port, and with two proxies.
#[test]
fn pmi2() {
    for options in [&[][..], &["-pmi-port"], TWO_NODES] {
        if hydra("pmi2", 4, options).is_none() {
            return;
        }
        let start = |ranks| {
            let mut c = hydra("pmi2", ranks, options).expect("it was there");
            c.env("NETMOD_PMI", "2");
            c
        };
        matrix::basics(&start);
        matrix::random_traffic(&start, 1..2);
        // Hydra 4 does not know this request of PMI-2; it ends the job because of that.
        matrix::abort(&start);
        matrix::death(&start);
    }
}

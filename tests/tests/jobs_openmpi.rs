//! Jobs of real processes under Open MPI's `mpirun`, which speaks PMIx.

use std::process::Command;

use netmod_tests::jobs::launch::{launcher_or_skip, run};
use netmod_tests::jobs::matrix;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const PM: &str = env!("CARGO_BIN_EXE_netmod-pm");

/// `mpirun` of `netmod-job` for so many ranks; none if the test is skipped.
fn mpirun(test: &str) -> Option<impl Fn(u32) -> Command> {
    mpirun_of(JOB, test)
}

/// Debian has `mpirun` by this name too, as the other may be MPICH's.
fn mpirun_of(name: &'static str, test: &str) -> Option<impl Fn(u32) -> Command> {
    let program = launcher_or_skip(test, "mpirun.openmpi", "openmpi-bin")?;
    Some(move |ranks: u32| {
        let mut c = Command::new(&program);
        // It refuses root, and more ranks than cores, unless told twice.
        c.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        c.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]).arg(name);
        c
    })
}

#[test]
fn process_manager() {
    let Some(start) = mpirun_of(PM, "process_manager") else { return };
    matrix::process_manager(&start, "0 0 0 0", 4);
}

#[test]
fn basics() {
    let Some(start) = mpirun("basics") else { return };
    matrix::basics(&start);
}

#[test]
fn random_traffic() {
    let Some(start) = mpirun("random_traffic") else { return };
    matrix::random_traffic(&start, 1..4);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let Some(start) = mpirun("abort_ends_the_job_with_its_code") else { return };
    let done = matrix::abort(&start);
    done.expect_code(9);
    assert!(done.output.contains("aborts the job with code 9: as the case asks"), "{done}");
}

#[test]
fn a_death_ends_the_job() {
    let Some(start) = mpirun("a_death_ends_the_job") else { return };
    matrix::death(&start);
}

#[test]
fn a_stopped_launcher_stops_no_ring() {
    let Some(start) = mpirun("a_stopped_launcher_stops_no_ring") else { return };
    for netmods in ["shm,tcp", "tcp"] {
        let mut c = start(4);
        c.env("NETMOD", netmods).env("NETMOD_FAILURE_CHECK", "10ms");
        run(c.arg("stopped")).expect_ok("stopped", 4);
    }
}

#[test]
fn leaving_without_finalizing_ends_the_job() {
    let Some(start) = mpirun("leaving_without_finalizing_ends_the_job") else { return };
    let done = run(start(4).args(["leave", "1"]));
    assert!(!done.status.success(), "{done}");
    assert_eq!(done.ok_ranks("leave"), 0, "{done}");
}

#[test]
fn a_missing_libpmix_is_named_with_the_way_out() {
    let Some(start) = mpirun("a_missing_libpmix_is_named_with_the_way_out") else { return };
    let done = run(start(2).arg("ring").env("NETMOD_PMIX_LIBRARY", "libpmix-that-is-not-there.so.2"));
    assert!(!done.status.success(), "{done}");
    assert_eq!(done.ok_ranks("ring"), 0, "{done}");
    for part in ["libpmix-that-is-not-there.so.2", "libpmix2", "NETMOD_PMIX_LIBRARY", "mpiexec.hydra"] {
        assert!(done.output.contains(part), "{done}");
    }
}

/// A program that gets to see nothing of PMIx does not run as several jobs of one.
#[test]
fn ranks_without_the_variables_of_pmix_are_refused() {
    let Some(start) = mpirun("ranks_without_the_variables_of_pmix_are_refused") else { return };
    let mut c = start(2);
    let script = "unset $(env | sed -n 's/^\\(PMIX_[A-Za-z0-9_]*\\)=.*/\\1/p'); exec \"$0\" ring";
    let whole: Vec<_> = c.get_args().map(std::ffi::OsStr::to_owned).collect();
    let (options, program) = whole.split_at(whole.len() - 1);
    let mut shell = Command::new(c.get_program());
    shell.args(options).args(["sh", "-c", script]).args(program);
    for (name, value) in c.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    c = shell;
    let done = run(&mut c);
    assert!(!done.status.success(), "{done}");
    assert_eq!(done.ok_ranks("ring"), 0, "{done}");
    assert!(done.output.contains("OMPI_COMM_WORLD_SIZE"), "{done}");
}

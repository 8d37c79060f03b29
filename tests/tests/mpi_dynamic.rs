//! Programs that meet processes of other jobs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netmod_tests::jobs::launch::run;
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// A host refuses connections to a process that has ended, which is given up then.
const IMPATIENT: (&str, &str) = ("NETMOD_TCP_CONNECT_TIMEOUT", "2s");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// A file of this process for the name of a port, which does not exist yet.
fn port_file(of: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("netmod-port-{of}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

#[test]
fn groups_of_one_job_meet_at_a_port() {
    let test = "groups_of_one_job_meet_at_a_port";
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, "dynamic.c");
        for (starter, ranks) in [(Starter::Nmrun, 2), (Starter::Nmrun, 5), (Starter::Hydra, 3)] {
            let Some(mut job) = prefix().job(test, starter, ranks, &program) else { continue };
            run(job.args(["one", "-", "12"])).expect_ok("dynamic", ranks);
        }
    }
}

#[test]
fn two_jobs_meet_at_a_port() {
    let test = "two_jobs_meet_at_a_port";
    let kinds = [
        (Starter::Nmrun, 2, Starter::Nmrun, 3, "shm,tcp"),
        (Starter::Nmrun, 1, Starter::Hydra, 2, "shm,tcp"),
        (Starter::Hydra, 2, Starter::Nmrun, 1, "tcp"),
    ];
    for (abi, (serves, servers, visits, visitors, netmod)) in Abi::ALL.into_iter().cycle().zip(kinds) {
        let program = prefix().compiled_for(abi, "dynamic.c");
        let file = port_file(&format!("{servers}-{visitors}"));
        let job = |starter, ranks, role: &str| {
            let mut job = prefix().job(test, starter, ranks, &program)?;
            job.env("NETMOD", netmod).arg(role).arg(&file).arg("12");
            Some(job)
        };
        let (Some(mut serve), Some(mut visit)) =
            (job(serves, servers, "serve"), job(visits, visitors, "visit"))
        else {
            continue;
        };
        let host = std::thread::spawn(move || run(&mut serve));
        let visited = run(&mut visit);
        host.join().expect("the job that serves").expect_ok("dynamic", servers);
        visited.expect_ok("dynamic", visitors);
        std::fs::remove_file(file).expect("the name of the port");
    }
}

/// An error tells who connects to a port what is wrong with it, and the program goes on.
#[test]
fn ports_that_nobody_serves() {
    let test = "ports_that_nobody_serves";
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, "dynamic_errors.c");
        let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("our launcher");
        run(job.env(IMPATIENT.0, IMPATIENT.1)).expect_ok("dynamic_errors", 2);
    }
}

/// `NETMOD_TEST_SPAWNS` is the number of times.
#[test]
fn jobs_that_come_and_go_leave_nothing() {
    let test = "jobs_that_come_and_go_leave_nothing";
    let program = prefix().compiled("dynamic_leaks.c");
    let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("our launcher");
    run(job.arg(spawns(30))).expect_ok("dynamic_leaks", 2);
}

/// Number of jobs that a test starts.
fn spawns(default: u32) -> String {
    std::env::var("NETMOD_TEST_SPAWNS").unwrap_or_else(|_| default.to_string())
}

#[test]
fn jobs_that_a_job_starts() {
    let test = "jobs_that_a_job_starts";
    let times = spawns(8);
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, "spawn.c");
        for (starter, ranks) in [(Starter::Nmrun, 1), (Starter::Nmrun, 3), (Starter::Hydra, 2)] {
            let Some(mut job) = prefix().job(test, starter, ranks, &program) else { continue };
            job.arg(&times).env(IMPATIENT.0, IMPATIENT.1);
            if starter == Starter::Nmrun {
                job.arg("ours");
            }
            run(&mut job).expect_ok("spawn", ranks);
        }
    }
}

/// A program that no launcher has started.
fn alone(program: &Path) -> Command {
    let mut job = Command::new(program);
    job.env("LD_LIBRARY_PATH", prefix().file("lib")).env(IMPATIENT.0, IMPATIENT.1);
    job
}

/// The program starts a launcher when it needs one.
#[test]
fn a_program_without_a_launcher_starts_jobs() {
    for abi in Abi::ALL {
        let spawning = prefix().compiled_for(abi, "spawn.c");
        run(alone(&spawning).args([&spawns(4), "ours"])).expect_ok("spawn", 1);
        let program = prefix().compiled_for(abi, "unlaunched.c");
        run(alone(&program).arg("stays")).expect_ok("unlaunched", 1);
    }
}

/// Returns true if a process runs.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|text| {
        text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

#[test]
fn a_job_ends_with_the_program_that_has_asked_for_it() {
    let program = prefix().compiled("unlaunched.c");
    // Nobody ends the rest of its process group, as `run` would.
    let mut job = alone(&program).arg("leaves").stdout(Stdio::piped()).spawn().expect("the program");
    let mut line = String::new();
    BufReader::new(job.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output");
    assert!(job.wait().expect("its end").success());
    let pids: Vec<&str> = line.trim().strip_prefix("processes: ").expect("processes").split(' ').collect();
    let end = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(|pid| runs(pid)) {
        assert!(Instant::now() < end, "{pids:?} still run");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each launcher keeps names and starts jobs, in its own protocol.
#[test]
fn launchers_keep_names_and_start_jobs() {
    let test = "launchers_keep_names_and_start_jobs";
    let program = prefix().compiled("asks.c");
    for starter in [Starter::Nmrun, Starter::Hydra, Starter::OpenMpi, Starter::Slurm("pmi2")] {
        let Some(mut job) = prefix().job(test, starter, 2, &program) else { continue };
        // A step that a job asks for shares the processors of the allocation.
        run(job.arg("jobs").env("SLURM_OVERLAP", "1")).expect_ok("asks", 2);
    }
}

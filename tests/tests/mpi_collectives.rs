//! Random collective operations, compared with a reference: `programs/collectives.c`.
//!
//! `NETMOD_TEST_COLLECTIVES` is the number of seeds for each kind of job (few if it is not set),
//! `NETMOD_TEST_COLLECTIVES_SEED` the first; a rank that finds something wrong says its seed.

use netmod_tests::jobs::launch::{OVER_TCP, run};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Most seeds of one start, which has to end within the time limit of a job.
const SEEDS_OF_JOB: u64 = 100;

fn prefix() -> &'static Prefix {
    installed(JOB)
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// A kind of job.
struct Kind {
    ranks: u32,
    threads: u32,
    abi: Abi,
    variables: &'static [(&'static str, &'static str)],
    /// Faults besides their seed, or none.
    faults: &'static str,
}

const PLAIN: Kind = Kind { ranks: 4, threads: 1, abi: Abi::Mpich, variables: &[], faults: "" };

/// Two ranks share memory, others are reached by TCP.
const MIXED: &[(&str, &str)] = &[("NETMOD_SHM_RANKS", "2")];
/// Connections that break are resumed.
const RESUMED: &[(&str, &str)] = &[OVER_TCP, ("NETMOD_TCP_RESUME_LOCAL", "yes")];

fn run_seeds(test: &str, kinds: &[Kind], few: u64) {
    let seeds = number("NETMOD_TEST_COLLECTIVES", few);
    let first = number("NETMOD_TEST_COLLECTIVES_SEED", 1);
    for kind in kinds {
        let program = prefix().compiled_for(kind.abi, "collectives.c");
        for seed in (first..first + seeds).step_by(SEEDS_OF_JOB as usize) {
            let count = SEEDS_OF_JOB.min(first + seeds - seed);
            let mut job = prefix().job(test, Starter::Nmrun, kind.ranks, &program).expect("our launcher");
            job.args([seed, count, kind.threads.into()].map(|number| number.to_string()));
            job.envs(kind.variables.iter().copied());
            if !kind.faults.is_empty() {
                job.env("NETMOD_FAULTS", format!("seed={seed},{}", kind.faults));
            }
            run(&mut job).expect_ok("collectives", kind.ranks);
        }
    }
}

#[test]
fn in_shared_memory() {
    let kinds = [
        Kind { ranks: 2, threads: 2, ..PLAIN },
        PLAIN,
        Kind { ranks: 5, threads: 2, abi: Abi::Standard, ..PLAIN },
        // Room for one communicator at a time: the operations of others go by messages.
        Kind { ranks: 3, variables: &[("NETMOD_COLL_MEMORY", "16M")], ..PLAIN },
    ];
    run_seeds("in_shared_memory", &kinds, 8);
}

#[test]
fn over_tcp() {
    let kinds = [
        Kind { ranks: 3, variables: &[OVER_TCP], ..PLAIN },
        Kind { threads: 2, variables: &[OVER_TCP], abi: Abi::Standard, ..PLAIN },
    ];
    run_seeds("over_tcp", &kinds, 6);
}

#[test]
fn on_several_nodes() {
    let kinds = [
        Kind { ranks: 5, variables: MIXED, ..PLAIN },
        Kind { threads: 2, variables: MIXED, abi: Abi::Standard, ..PLAIN },
        Kind { ranks: 7, variables: &[("NETMOD_SHM_RANKS", "3")], ..PLAIN },
    ];
    run_seeds("on_several_nodes", &kinds, 6);
}

#[test]
fn with_faults() {
    let late = "split=0.5,delay=0us..200us";
    let kinds = [
        Kind { ranks: 3, faults: late, ..PLAIN },
        Kind { ranks: 3, threads: 2, variables: MIXED, faults: "split=0.5,delay=0us..20us", ..PLAIN },
        Kind { variables: RESUMED, faults: "drop=0.01,split=0.2", ..PLAIN },
    ];
    run_seeds("with_faults", &kinds, 3);
}

/// A connection within a node that is given up ends the job: both sides learn of it, and nobody
/// waits for what will not come.
#[test]
fn connections_that_are_given_up() {
    let seeds = number("NETMOD_TEST_COLLECTIVES", 12);
    let first = number("NETMOD_TEST_COLLECTIVES_SEED", 1);
    let program = prefix().compiled("collectives.c");
    let mut given_up = 0;
    for seed in first..first + seeds {
        let mut job =
            prefix().job("connections_that_are_given_up", Starter::Nmrun, 4, &program).expect("our launcher");
        job.args([seed, 1, 1].map(|number| number.to_string()));
        job.env("NETMOD_FAULTS", format!("seed={seed},drop=0.02")).env("NETMOD_COLL_MEMORY", "0");
        let done = run(&mut job);
        if done.ok_ranks("collectives") < 4 {
            let told = [
                "by fault injection",
                "has given up the connection",
                "MPIX_ERR_PROC_FAILED",
                "the operation has failed there",
                "at a process that has lost another one",
            ];
            assert!(told.iter().any(|text| done.output.contains(text)), "{seed}: {done}");
            given_up += 1;
        }
    }
    assert!(given_up > 0, "no connection was given up");
}

/// Memory of a communicator that was freed serves the next one, whichever processes have kept it.
#[test]
fn communicators_come_and_go() {
    let program = prefix().compiled("shortlived.c");
    let jobs: [(u32, &str, (&str, &str)); 6] = [
        (2, "kept", ("NETMOD_COLL_MEMORY", "1G")),
        (3, "kept", ("NETMOD_COLL_MEMORY", "1G")),
        (5, "kept", ("NETMOD_COLL_MEMORY", "1G")),
        // Room for two communicators, and for one, at a time.
        (3, "scarce", ("NETMOD_COLL_MEMORY", "30M")),
        (3, "scarce", ("NETMOD_COLL_MEMORY", "16M")),
        (3, "kept", OVER_TCP),
    ];
    for (ranks, how, (name, value)) in jobs {
        let mut job =
            prefix().job("communicators_come_and_go", Starter::Nmrun, ranks, &program).expect("our launcher");
        run(job.arg(how).env(name, value)).expect_ok("shortlived", ranks);
    }
}

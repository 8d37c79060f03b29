//! Functions and behaviours of the standard that no other test here has. `docs/conformance.md` has
//! what tests each function.

use std::path::PathBuf;

use netmod_tests::jobs::launch::run;
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// An empty folder of this process.
fn folder(of: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("netmod-{of}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn both_interfaces(test: &str, program: &str) {
    let folder = folder(program);
    for abi in Abi::ALL {
        let compiled = prefix().compiled_for(abi, &format!("{program}.c"));
        let mut job = prefix().job(test, Starter::Nmrun, 2, &compiled).expect("our launcher");
        run(job.arg(&folder)).expect_ok(program, 2);
    }
    std::fs::remove_dir_all(folder).expect("the folder");
}

#[test]
fn functions_that_few_programs_call() {
    both_interfaces("functions_that_few_programs_call", "uncommon");
}

#[test]
fn what_implementations_are_known_to_miss() {
    both_interfaces("what_implementations_are_known_to_miss", "gaps");
}

/// The handler of a session that ends the process.
#[test]
fn an_error_of_a_session_ends_the_process_that_wants_it() {
    for abi in Abi::ALL {
        let test = "an_error_of_a_session_ends_the_process_that_wants_it";
        let program = prefix().compiled_for(abi, "gaps.c");
        let done = run(prefix().job(test, Starter::Nmrun, 1, &program).expect("our launcher").arg("abort"));
        assert!(!done.status.success() && !done.output.contains("goes on"), "{done}");
        assert!(done.output.contains("MPI_Session_get_nth_pset"), "{done}");
    }
}

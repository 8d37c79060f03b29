//! The MPI library as a guest in somebody's process: functions of the program that call it again,
//! ends from handlers of exit, loading at run time, exceptions, signals and output.

use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_tests::jobs::launch::{JOB_LIMIT, Outcome, find_program, run, run_within, skip};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// Returns true if C++ programs can be compiled, which is said otherwise.
fn cxx(test: &str) -> bool {
    let found = find_program("c++").is_some();
    if !found {
        skip(&format!("SKIPPED: {test}: c++ not installed (apt-get install g++)"));
    }
    found
}

/// Runs a program under our launcher.
fn job(program: &Path, arguments: &[&str], ranks: u32) -> Outcome {
    let mut job = prefix().job("a guest", Starter::Nmrun, ranks, program).expect("our launcher");
    run(job.args(arguments))
}

#[test]
fn functions_of_the_program_may_call_mpi() {
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, "callbacks.c");
        for ranks in [1, 2, 3] {
            job(&program, &[], ranks).expect_ok("callbacks", ranks);
        }
    }
}

#[test]
fn mpi_ends_from_wherever_a_process_ends() {
    if !cxx("mpi_ends_from_wherever_a_process_ends") {
        return;
    }
    let program = prefix().compiled("exits.cc");
    for place in ["atexit-early", "atexit-late", "static", "thread-local", "finalized"] {
        for ranks in [1, 3] {
            job(&program, &[place], ranks).expect_ok("exits", ranks);
        }
    }
    let done = job(&program, &["abort"], 3);
    done.expect_code(7);
    assert!(done.output.contains("rank 1 aborted the job with code 7"), "{done}");
}

#[test]
fn exceptions_of_error_handlers_pass_through() {
    if !cxx("exceptions_of_error_handlers_pass_through") {
        return;
    }
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, "throws.cc");
        job(&program, &[], 2).expect_ok("throws", 2);
    }
}

#[test]
fn exceptions_of_other_functions_end_the_process_and_are_told() {
    if !cxx("exceptions_of_other_functions_end_the_process_and_are_told") {
        return;
    }
    let program = prefix().compiled("throws.cc");
    for (place, name) in [
        ("operation", "an operation of the program"),
        ("attribute", "the delete function of an attribute"),
        ("request", "the query function of a generalized request"),
    ] {
        let done = job(&program, &[place], 2);
        assert!(!done.status.success() && !done.output.contains("came through"), "{done}");
        assert!(done.output.contains(&format!("an exception left {name}")), "{done}");
    }
}

/// Compiles a program with the headers alone.
fn unlinked(source: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let program = prefix().file("programs").join(source.replace('.', "-unlinked-"));
    std::fs::create_dir_all(prefix().file("programs")).expect("a folder for programs");
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(prefix().file("include"));
    compile.arg("-o").arg(&program).arg(file).arg("-ldl");
    let done = run_within(&mut compile, JOB_LIMIT);
    assert!(done.status.success(), "{done}");
    program
}

#[test]
fn the_library_is_loaded_at_run_time_for_one_user_alone() {
    let program = unlinked("loads.c");
    let library = prefix().file("lib/libmpi.so.12").display().to_string();
    let done = job(&program, &[&library], 2);
    done.expect_ok("loads", 2);
    assert!(!done.output.contains("another MPI library"), "{done}");
}

#[test]
fn programs_of_a_job_know_their_number() {
    let program = prefix().compiled("appnum.c");
    for starter in [Starter::Nmrun, Starter::Hydra] {
        let test = "programs_of_a_job_know_their_number";
        let Some(mut job) = prefix().job(test, starter, 1, &program) else { continue };
        job.args(["0", ":", "-n", "2"]).arg(&program).args(["1", ":", "-n", "1"]).arg(&program).arg("2");
        run(&mut job).expect_ok("appnum", 4);
    }
}

#[test]
fn programs_know_the_size_of_the_universe() {
    let program = prefix().compiled("appnum.c");
    for starter in [Starter::Nmrun, Starter::Hydra] {
        let test = "programs_know_the_size_of_the_universe";
        for (asked, told) in [("9", "9"), ("1", "3")] {
            let Some(job) = prefix().job(test, starter, 3, &program) else { continue };
            let mut with = Command::new(job.get_program());
            with.args(["-usize", asked]).args(job.get_args()).args(["0", told]);
            with.env("LD_LIBRARY_PATH", prefix().file("lib"));
            run(&mut with).expect_ok("appnum", 3);
        }
    }
}

#[test]
fn the_library_says_what_it_is_when_asked() {
    let program = prefix().compiled("ring.c");
    for (starter, launcher) in [(Starter::Nmrun, "nmrun (PMI-1)"), (Starter::Hydra, "PMI-1")] {
        let test = "the_library_says_what_it_is_when_asked";
        let Some(mut job) = prefix().job(test, starter, 2, &program) else { continue };
        let done = run(job.env("NETMOD_LOG", "info").env("NETMOD", "shm,tcp"));
        done.expect_ok("ring", 2);
        let library = prefix().file("lib/libmpi.so.12").display().to_string();
        for rank in [0, 1] {
            let line =
                done.output.lines().find(|line| line.starts_with(&format!("netmod-mpi: rank {rank}: ")));
            let line = line.unwrap_or_else(|| panic!("rank {rank}: {done}"));
            for part in [
                concat!("netmod-mpi ", env!("CARGO_PKG_VERSION"), " in "),
                &library,
                &format!("rank {rank} of 2"),
                "netmods: shm, tcp",
                &format!("launcher: {launcher}"),
            ] {
                assert!(line.contains(part), "{part}: {done}");
            }
        }
    }
    let mut job = prefix().job("a guest", Starter::Nmrun, 1, &program).expect("our launcher");
    let done = run(job.env("NETMOD_LOG", "inf=o=x"));
    assert!(!done.status.success() && done.output.contains("NETMOD_LOG=inf=o=x"), "{done}");
}

#[test]
fn signals_and_output_are_the_programs() {
    let program = prefix().compiled("guest.c");
    for netmod in ["shm,tcp", "tcp"] {
        let file = std::env::temp_dir().join(format!("netmod-guest-{}-{netmod}", std::process::id()));
        let mut job = prefix().job("guest", Starter::Nmrun, 3, &program).expect("our launcher");
        let done = run(job.arg(&file).env("NETMOD", netmod));
        let said = std::fs::read_to_string(&file).unwrap_or_default();
        // A file that is left does no harm.
        let _ = std::fs::remove_file(&file);
        assert!(done.status.success(), "{done}{said}");
        assert_eq!(done.output, "", "the library says nothing");
        let mut lines: Vec<_> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [0, 1, 2].map(|rank| format!("rank {rank}: guest ok")), "{netmod}");
    }
}

#[test]
fn the_death_of_a_peer_raises_no_signal_and_is_told_by_an_error_of_its_class() {
    let of_mpich = (Abi::Mpich, "class 101: MPIX_ERR_PROC_FAILED: ");
    let of_standard = (Abi::Standard, "class 58: MPI_ERR_PROC_ABORTED: ");
    for ((abi, told), netmod) in
        [(of_mpich, "shm,tcp"), (of_mpich, "tcp"), (of_standard, "shm,tcp"), (of_standard, "tcp")]
    {
        let program = prefix().compiled_for(abi, "widow.c");
        let mut job = Command::new(prefix().file("bin/mpiexec"));
        job.args(["-disable-auto-cleanup", "-print-all-exitcodes", "-n", "3"]).arg(&program);
        let done = run(job.env("LD_LIBRARY_PATH", prefix().file("lib")).env("NETMOD", netmod));
        assert_eq!(done.ok_ranks("widow"), 2, "{netmod}: {done}");
        assert!(done.output.contains("exit codes of the ranks: 0, 0, 0"), "{netmod}: {done}");
        for rank in 0..2 {
            let lines: Vec<_> = done.output.lines().filter(|l| l.contains(told)).collect();
            let line = lines.iter().find(|l| l.contains(&format!("rank {rank}: class")));
            assert!(line.is_some_and(|l| l.contains("rank 2")), "{abi:?}, {netmod}: {done}");
        }
    }
}

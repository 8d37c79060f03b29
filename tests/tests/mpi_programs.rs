//! Programs on the MPI library: our own, and others as their packages have them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use netmod_tests::jobs::launch::{JOB_LIMIT, find_program, run, run_within, skip};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, exported, installed, mpi4py, wheel_program};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const STARTERS: [Starter; 2] = [Starter::Nmrun, Starter::Hydra];
/// Names that the library exports; the tables and headers say the same.
const SYMBOLS: &str = include_str!("../../mpi-abi/symbols-mpich.tsv");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

fn listed() -> BTreeMap<String, String> {
    let rows = SYMBOLS.lines().filter(|l| !l.starts_with('#'));
    rows.map(|l| l.split_once('\t').expect("a name and what it is"))
        .map(|(name, what)| (name.to_owned(), what.to_owned()))
        .collect()
}

#[test]
fn the_library_exports_what_the_list_names_and_nothing_else() {
    let Some(nm) = find_program("nm") else {
        return skip("SKIPPED: exported names: nm not installed (apt-get install binutils)");
    };
    assert_eq!(exported(&nm, &prefix().file("lib/libmpi.so.12")), listed());
}

#[test]
fn the_list_has_what_mpich_exports() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libmpich.so.12");
    let nm = find_program("nm").filter(|_| library.is_file());
    let Some(nm) = nm else {
        return skip("SKIPPED: MPICH's exported names: not installed (apt-get install binutils libmpich12)");
    };
    let ours = listed();
    let public = |name: &str| {
        ["MPI_", "PMPI_", "MPIX_", "PMPIX_", "QMPI_"].iter().any(|start| name.starts_with(start))
    };
    let all = exported(&nm, library);
    assert!(all.len() > 1_000, "{}", all.len());
    let missing: Vec<_> =
        all.iter().filter(|(name, what)| public(name) && ours.get(*name) != Some(*what)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_library_has_the_names_that_programs_ask_for() {
    let mut ask = Command::new("readelf");
    let said = ask.arg("-d").arg(prefix().file("lib/libmpi.so.12")).output().expect("readelf");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("soname: [libmpi.so.12]") && text.contains("NODELETE"), "{text}");
    let file = |name: &str| std::fs::canonicalize(prefix().file(name)).expect("a link to the library");
    for name in ["lib/libmpich.so.12", "lib/libmpi.so", "lib/libmpich.so"] {
        assert_eq!(file(name), file("lib/libmpi.so.12"), "{name}");
    }
}

/// Runs a program of our own under both launchers.
fn ok(test: &str, source: &str, case: &str, ranks: u32) {
    for abi in Abi::ALL {
        let program = prefix().compiled_for(abi, source);
        for starter in STARTERS {
            let Some(mut job) = prefix().job(test, starter, ranks, &program) else { continue };
            run(&mut job).expect_ok(case, ranks);
        }
    }
}

#[test]
fn a_program_in_c() {
    for ranks in [1, 2, 5] {
        ok("a_program_in_c", "ring.c", "ring", ranks);
    }
}

#[test]
fn a_program_in_cxx() {
    if find_program("c++").is_none() {
        return skip("SKIPPED: a_program_in_cxx: c++ not installed (apt-get install g++)");
    }
    ok("a_program_in_cxx", "ring.cc", "ring", 3);
}

#[test]
fn objects_and_operations_of_every_kind() {
    for ranks in [1, 2, 3] {
        ok("objects_and_operations_of_every_kind", "functions.c", "functions", ranks);
    }
}

#[test]
fn errors_that_the_program_adds_and_removes() {
    ok("errors_that_the_program_adds_and_removes", "errors.c", "errors", 2);
}

#[test]
fn errors_of_requests_go_to_the_handler_of_their_communicator() {
    ok("errors_of_requests_go_to_the_handler_of_their_communicator", "handlers.c", "handlers", 2);
}

#[test]
fn the_tool_interface_has_its_own_errors() {
    ok("the_tool_interface_has_its_own_errors", "tools.c", "tools", 2);
}

#[test]
fn what_was_not_freed_is_told_if_it_is_asked_for() {
    let program = prefix().compiled("leaks.c");
    let told = |leaks: &str, argument: &[&str]| {
        let test = "what_was_not_freed_is_told_if_it_is_asked_for";
        let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("nmrun is ours");
        let done = run(job.env("NETMOD_MPI_LEAKS", leaks).args(argument));
        assert!(done.status.success(), "{done}");
        let lines = done.output.lines().filter(|l| l.contains("rank 1: MPI_Finalize: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = told("yes", &["leak"]);
    for (line, words) in lines.iter().zip([
        "communicators not freed: 1 (the workers); MPI_Comm_free",
        "datatypes not freed: 1 (datatype 0x8c",
        "infos not freed: 1; MPI_Info_free",
    ]) {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(told("yes", &[]), Vec::<String>::new(), "all was freed");
    assert_eq!(told("no", &["leak"]), Vec::<String>::new(), "nobody has asked");
}

#[test]
fn infos_at_any_time() {
    ok("infos_at_any_time", "infos.c", "infos", 2);
}

#[test]
fn operations_that_have_failed_are_found() {
    ok("operations_that_have_failed_are_found", "failures.c", "failures", 3);
}

#[test]
fn an_error_without_a_handler_ends_the_job_and_is_told() {
    for (abi, starter) in Abi::ALL.into_iter().flat_map(|abi| STARTERS.map(|starter| (abi, starter))) {
        let program = prefix().compiled_for(abi, "fatal.c");
        let test = "an_error_without_a_handler_ends_the_job_and_is_told";
        let Some(mut job) = prefix().job(test, starter, 2, &program) else { continue };
        let done = run(&mut job);
        assert!(!done.status.success() && !done.output.contains("went on"), "{done}");
        for word in ["rank 1", "MPI_Recv", "the named one", "MPI_ERR_RANK", "5"] {
            assert!(done.output.contains(word), "{word}: {done}");
        }
    }
}

#[test]
fn a_call_before_the_beginning_ends_the_process_and_is_told() {
    let program = prefix().compiled("early.c");
    let done = run(Command::new(program).env("LD_LIBRARY_PATH", prefix().file("lib")));
    assert!(!done.status.success(), "{done}");
    assert!(done.output.contains("MPI_Comm_rank was called before MPI_Init"), "{done}");
}

#[test]
fn netpipe() {
    let Some(program) = find_program("NPmpich2") else {
        return skip("SKIPPED: netpipe: NPmpich2 not installed (apt-get install netpipe-mpich2)");
    };
    for starter in STARTERS {
        let Some(mut job) = prefix().job("netpipe", starter, 2, &program) else { continue };
        let results = std::env::temp_dir().join(format!("netmod-netpipe-{}", std::process::id()));
        // Messages of 5 bytes to 48 KiB, whose bytes are checked, and few of each.
        let done = run(job.args(["-i", "-n", "3", "-u", "65536", "-o"]).arg(&results));
        assert!(done.status.success() && done.output.contains("49153 bytes"), "{done}");
        assert_eq!(done.output.matches("Integrity check passed").count(), 28, "{done}");
        let _ = std::fs::remove_file(&results);
    }
}

#[test]
fn imb_mpi1() {
    let Some(program) = wheel_program("imb_mpi1", "IMB-MPI1") else { return };
    for (starter, ranks, tests) in [
        (Starter::Nmrun, 2, &["PingPong", "Sendrecv", "Allreduce"][..]),
        (Starter::Nmrun, 3, &["Bcast", "Allgather", "Alltoall", "Reduce", "Barrier"]),
        (Starter::Hydra, 2, &["PingPong", "Allreduce"]),
    ] {
        let Some(mut job) = prefix().job("imb_mpi1", starter, ranks, &program) else { continue };
        job.args(tests).args(["-iter", "3", "-msglog", "0:14", "-npmin", &ranks.to_string()]);
        let done = run(&mut job);
        assert!(done.status.success(), "{done}");
        for test in tests {
            assert!(done.output.contains(&format!("# Benchmarking {test}")), "{test}: {done}");
        }
        assert!(done.output.contains("All processes entering MPI_Finalize"), "{done}");
    }
}

#[test]
fn mpi_for_python() {
    let Some((python, folder)) = mpi4py("mpi_for_python") else { return };
    let mut first = Command::new(&python);
    first.args(["-c", "from mpi4py import MPI; print(MPI.Get_library_version())"]);
    first.env("PYTHONPATH", &folder).env("MPI4PY_LIBMPI", prefix().file("lib/libmpi.so.12"));
    let done = run_within(&mut first, JOB_LIMIT);
    assert!(done.status.success() && done.output.contains("netmod"), "{done}");
    for starter in STARTERS {
        for (bench, answer) in [("helloworld", "Hello, World! I am process"), ("ringtest", "time for")] {
            let Some(mut job) = prefix().job("mpi_for_python", starter, 3, &python) else { continue };
            job.args(["-m", "mpi4py.bench", bench]).env("PYTHONPATH", &folder);
            job.env("MPI4PY_LIBMPI", prefix().file("lib/libmpi.so.12"));
            let done = run(&mut job);
            assert!(done.status.success() && done.output.contains(answer), "{bench}: {done}");
        }
    }
}

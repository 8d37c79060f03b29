//! Programs of our own on the MPI library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ch3_shim::COLLECTIVES;
use netmod_tests::factory::{NetmodFactory, Ofi};
use netmod_tests::jobs::launch::{OVER_TCP, find_program, run, skip};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, exported, installed};

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
fn files_by_every_kind_of_access() {
    let test = "files_by_every_kind_of_access";
    let file = std::env::temp_dir().join(format!("netmod-files-{}", std::process::id()));
    for (abi, ranks) in [(Abi::Mpich, 3), (Abi::Standard, 3), (Abi::Mpich, 1)] {
        let program = prefix().compiled_for(abi, "files.c");
        for starter in STARTERS {
            let Some(mut job) = prefix().job(test, starter, ranks, &program) else { continue };
            run(job.arg(&file)).expect_ok("files", ranks);
            assert!(!file.exists(), "the program has deleted {}", file.display());
        }
    }
}

/// A file that one library writes is read by the other one, with other numbers of ranks.
#[test]
fn parallel_hdf5() {
    let test = "parallel_hdf5";
    let libraries = Path::new("/usr/lib").join(format!("{}-linux-gnu/hdf5/mpich", std::env::consts::ARCH));
    if !libraries.join("libhdf5.so").is_file() {
        return skip("SKIPPED: parallel_hdf5: not installed (apt-get install libhdf5-mpich-dev)");
    }
    let program = prefix().compiled_with(
        Abi::Mpich,
        "hdf5.c",
        &["-I/usr/include/hdf5/mpich".into(), format!("-L{}", libraries.display()), "-lhdf5".into()],
    );
    let file = std::env::temp_dir().join(format!("netmod-hdf5-{}.h5", std::process::id()));
    let job = |ranks, what: &str, is_ours: bool| {
        let starter = if is_ours { Starter::Nmrun } else { Starter::Hydra };
        let Some(mut job) = prefix().job(test, starter, ranks, &program) else { return };
        if !is_ours {
            job.env_remove("LD_LIBRARY_PATH");
        }
        run(job.arg(what).arg(&file)).expect_ok("hdf5", ranks);
    };
    for ranks in [1, 2, 3] {
        job(ranks, "write", true);
        job(2, "read", true);
        job(5, "read", true);
        job(2, "read", false);
    }
    job(3, "write", false);
    job(4, "read", true);
    std::fs::remove_file(file).expect("the file");
}

#[test]
fn partitions_arrive_one_by_one() {
    let test = "partitions_arrive_one_by_one";
    for netmod in ["shm,tcp", "tcp"] {
        for abi in Abi::ALL {
            let program = prefix().compiled_for(abi, "partitioned.c");
            let mut job = prefix().job(test, Starter::Nmrun, 3, &program).expect("our launcher");
            run(job.env("NETMOD", netmod)).expect_ok("partitioned", 3);
        }
    }
}

#[test]
fn waits_in_a_revoked_communicator_end() {
    let test = "waits_in_a_revoked_communicator_end";
    let program = prefix().compiled("revoked.c");
    for variables in [&[OVER_TCP][..], &[("NETMOD_SHM_RANKS", "2")], &[]] {
        let mut job = prefix().job(test, Starter::Nmrun, 4, &program).expect("our launcher");
        run(job.envs(variables.iter().copied())).expect_ok("revoked", 4);
    }
}

#[test]
fn windows_of_every_kind() {
    for ranks in [1, 3] {
        ok("windows_of_every_kind", "windows.c", "windows", ranks);
    }
}

#[test]
fn windows_of_processes_on_several_nodes() {
    let test = "windows_of_processes_on_several_nodes";
    let ofi = netmods(test).contains(&"ofi");
    // Netmods, ranks, nodes, and what the network reaches.
    let far = [("tcp", 2, "2", "0 of 1"), ("shm,tcp", 4, "2", "0 of 2")];
    let network = [("ofi", 2, "2", "1 of 1"), ("ofi", 3, "3", "2 of 2"), ("shm,ofi", 4, "2", "2 of 2")];
    for (netmod, ranks, nodes, reached) in far.into_iter().chain(network.into_iter().filter(|_| ofi)) {
        let program = prefix().compiled("windows_far.c");
        let mut job = Starter::Nmrun.command(test, prefix()).expect("our launcher");
        job.args(["-nodes", nodes, "-n", &ranks.to_string()]).arg(program).arg(reached);
        job.env("LD_LIBRARY_PATH", prefix().file("lib"));
        run(job.env("NETMOD", netmod).env("NETMOD_OFI_PROVIDER", "tcp")).expect_ok("windows_far", ranks);
    }
}

/// Returns the netmods that a test runs over.
fn netmods(test: &str) -> Vec<&'static str> {
    let ofi = Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 };
    ["shm,tcp", "tcp", "ofi"].into_iter().filter(|n| *n != "ofi" || ofi.is_available(test)).collect()
}

#[test]
fn random_accesses_to_windows() {
    let test = "random_accesses_to_windows";
    let seeds = std::env::var("NETMOD_TEST_WINDOWS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    for seed in 1..=seeds {
        let (abi, ranks) = (Abi::ALL[seed as usize % 2], 1 + seed % 4);
        let of_node = [("shm,tcp", "1"), ("shm,tcp", "4"), ("tcp", "3")];
        let far = netmods(test).contains(&"ofi").then_some([("ofi", "1"), ("ofi", "3")]);
        for (netmod, threads) in of_node.into_iter().chain(far.into_iter().flatten()) {
            let program = prefix().compiled_for(abi, "windows_random.c");
            let mut job = prefix().job(test, Starter::Nmrun, ranks, &program).expect("our launcher");
            job.env("NETMOD", netmod).env("NETMOD_OFI_PROVIDER", "tcp");
            job.args([&seed.to_string(), "40", threads]);
            run(&mut job).expect_ok("windows_random", ranks);
        }
    }
}

#[test]
fn messages_of_every_length_over_each_netmod() {
    let test = "messages_of_every_length_over_each_netmod";
    for netmod in netmods(test) {
        // Both interfaces, each with another longest eager message.
        for (abi, ranks, eager) in [(Abi::Mpich, 2, "20000"), (Abi::Standard, 3, "131072")] {
            let program = prefix().compiled_for(abi, "lengths.c");
            let mut job = prefix().job(test, Starter::Nmrun, ranks, &program).expect("our launcher");
            job.env("NETMOD", netmod).env("NETMOD_OFI_PROVIDER", "tcp").env("NETMOD_EAGER_MAX", eager);
            run(job.arg(eager)).expect_ok("lengths", ranks);
        }
    }
}

/// A job of `choices.c`.
fn choices(test: &str, ranks: u32, nodes: &str, how: &str, environment: &[(&str, &str)]) {
    let program = prefix().compiled("choices.c");
    let mut job = Starter::Nmrun.command(test, prefix()).expect("our launcher");
    job.args(["-nodes", nodes, "-n", &ranks.to_string()]).arg(program).arg(how);
    job.env("LD_LIBRARY_PATH", prefix().file("lib")).envs(environment.iter().copied());
    run(&mut job).expect_ok("choices", ranks);
}

#[test]
fn ranks_that_differ_choose_alike() {
    let test = "ranks_that_differ_choose_alike";
    for (ranks, nodes) in [(2, "1"), (4, "1"), (4, "2"), (5, "3"), (6, "6")] {
        for how in ["alike", "mixed"] {
            choices(test, ranks, nodes, how, &[]);
        }
    }
}

#[test]
fn algorithms_that_are_set_give_the_same_results() {
    let test = "algorithms_that_are_set_give_the_same_results";
    let longest = COLLECTIVES.iter().map(|(_, values)| values.len()).max().expect("some");
    // One algorithm of every operation in each job.
    for at in 1..longest {
        let set: Vec<_> =
            COLLECTIVES.iter().map(|(name, values)| (*name, values[at % values.len()])).collect();
        for (ranks, nodes) in [(3, "1"), (4, "2")] {
            choices(test, ranks, nodes, "alike", &set);
        }
    }
}

#[test]
fn a_setting_that_differs_is_named_at_all_ranks() {
    for ranks in [2, 3, 5] {
        choices("a_setting_that_differs_is_named_at_all_ranks", ranks, "1", "differ", &[]);
    }
}

#[test]
fn a_thread_makes_progress_while_a_rank_computes() {
    let test = "a_thread_makes_progress_while_a_rank_computes";
    let program = prefix().compiled("computes.c");
    let file = std::env::temp_dir().join(format!("netmod-computes-{}", std::process::id()));
    for variables in [&[OVER_TCP][..], &[]] {
        for (how, progress) in
            [("calls", "auto"), ("thread", "thread"), ("multiple", "thread"), ("started", "auto")]
        {
            let mut job = prefix().job(test, Starter::Nmrun, 3, &program).expect("our launcher");
            job.arg(how).arg(&file).envs(variables.iter().copied()).env("NETMOD_PROGRESS", progress);
            run(&mut job).expect_ok("computes", 3);
        }
    }
    std::fs::remove_file(file).expect("the ranks' file");
}

#[test]
fn errors_of_requests_go_to_the_handler_of_their_communicator() {
    ok("errors_of_requests_go_to_the_handler_of_their_communicator", "handlers.c", "handlers", 2);
}

/// Compiles the runtime of an accelerator that does not exist, under a name that is known.
fn fake_runtime(name: &str) -> PathBuf {
    let folder = prefix().file("programs");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let (library, new) = (folder.join(name), folder.join(format!("{name}.{}", std::process::id())));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/runtime.c");
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&new).arg(source);
    assert!(compile.status().expect("a compiler").success(), "{name}");
    std::fs::rename(new, &library).expect("a library in its place");
    library
}

#[test]
fn memory_of_accelerators_is_refused() {
    let test = "memory_of_accelerators_is_refused";
    let runtimes =
        [("libcuda.so.1", "CUDA"), ("libamdhip64.so.6", "HIP"), ("libze_loader.so.1", "Level Zero")];
    for (file, name) in runtimes {
        let library = fake_runtime(file);
        for abi in Abi::ALL {
            let program = prefix().compiled_for(abi, "accelerator.c");
            let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("our launcher");
            run(job.arg(&library).arg(name)).expect_ok("accelerator", 2);
        }
    }
}

#[test]
fn the_tool_interface_has_its_own_errors() {
    ok("the_tool_interface_has_its_own_errors", "tools.c", "tools", 2);
}

#[test]
fn sessions_again_and_again() {
    let test = "sessions_again_and_again";
    for (abi, end) in Abi::ALL.into_iter().flat_map(|abi| ["world", "session", "exit"].map(|end| (abi, end)))
    {
        let program = prefix().compiled_for(abi, "sessions.c");
        for starter in STARTERS {
            let Some(mut job) = prefix().job(test, starter, 3, &program) else { continue };
            run(job.arg(end)).expect_ok("sessions", 3);
        }
    }
}

/// MPICH's own functions are not in the standard's interface.
#[test]
fn extensions_of_mpich() {
    let program = prefix().compiled("extensions.c");
    for ranks in [1, 3] {
        let mut job =
            prefix().job("extensions_of_mpich", Starter::Nmrun, ranks, &program).expect("our launcher");
        run(&mut job).expect_ok("extensions", ranks);
    }
}

#[test]
fn operations_of_the_program_that_are_polled() {
    let program = prefix().compiled("polled.c");
    let cases = [
        (1, "single", "auto", &[][..]),
        (2, "multiple", "auto", &[OVER_TCP]),
        (3, "single", "thread", &[OVER_TCP]),
        (4, "multiple", "thread", &[]),
    ];
    for (ranks, level, progress, variables) in cases {
        let test = "operations_of_the_program_that_are_polled";
        let mut job = prefix().job(test, Starter::Nmrun, ranks, &program).expect("our launcher");
        job.arg(level).env("NETMOD_PROGRESS", progress).envs(variables.iter().copied());
        run(&mut job).expect_ok("polled", ranks);
    }
}

/// The page of limits names them, with the reason.
#[test]
fn functions_that_are_not_there_are_known() {
    let functions = include_str!("../../mpi-abi/functions.tsv").lines().filter(|l| !l.starts_with('#'));
    let rows = functions.map(|l| l.split('\t').collect::<Vec<_>>());
    let missing = rows.filter(|row| row[5] == "none").map(|row| row[0]);
    let missing: Vec<&str> = missing.collect();
    assert!(missing.len() == 7 && missing.iter().all(|name| name.ends_with("_enqueue")), "{missing:?}");
}

#[test]
fn threads_are_ranks() {
    let program = prefix().compiled("threads_as_ranks.c");
    // There are 2048 context ids, so that each has to be given back.
    let cases = [
        (1, "40", &[][..]),
        (2, "40", &[OVER_TCP]),
        (2, "2500", &[]),
        (3, "40", &[]),
        (5, "40", &[OVER_TCP]),
    ];
    for (ranks, count, variables) in cases {
        let mut job =
            prefix().job("threads_are_ranks", Starter::Nmrun, ranks, &program).expect("our launcher");
        job.arg(count).env("NETMOD_MPI_LEAKS", "yes").envs(variables.iter().copied());
        let done = run(&mut job);
        done.expect_ok("threads", ranks);
        assert!(!done.output.contains("not freed"), "{done}");
    }
}

#[test]
fn streams_and_messages_between_them() {
    let program = prefix().compiled("streams.c");
    for (ranks, level, variables) in [
        (1, "single", &[][..]),
        (2, "multiple", &[OVER_TCP]),
        (3, "multiple", &[]),
        (4, "single", &[OVER_TCP]),
    ] {
        let test = "streams_and_messages_between_them";
        let mut job = prefix().job(test, Starter::Nmrun, ranks, &program).expect("our launcher");
        run(job.arg(level).envs(variables.iter().copied())).expect_ok("streams", ranks);
    }
}

#[test]
fn an_end_that_waits_for_what_is_polled_says_so() {
    let test = "an_end_that_waits_for_what_is_polled_says_so";
    let program = prefix().compiled("polled.c");
    let mut job = prefix().job(test, Starter::Nmrun, 1, &program).expect("our launcher");
    let done = run(job.arg("single").arg("3.2"));
    done.expect_ok("polled", 1);
    assert!(done.output.contains("MPI_Finalize waits for 1 asynchronous things"), "{done}");
}

/// Connections that a process breaks go on, or are lost if they may not; a peer that receives
/// nothing is told of.
#[test]
fn tools_are_told_of_events() {
    let test = "tools_are_told_of_events";
    let resumed = vec![("NETMOD", "tcp"), ("NETMOD_TCP_RESUME_LOCAL", "yes")];
    let by_thread = [&resumed[..], &[("NETMOD_PROGRESS", "thread")]].concat();
    let kinds = [
        ("connection_resumed", "single", resumed),
        ("connection_resumed", "single", by_thread.clone()),
        ("connection_resumed", "multiple", by_thread),
        ("connection_lost", "single", vec![("NETMOD", "tcp"), ("NETMOD_TCP_RESUME_TIMEOUT", "0s")]),
        ("peer_slow", "single", vec![("NETMOD_RTS_MAX", "1"), ("NETMOD_EAGER_MAX", "1K")]),
    ];
    let cases = Abi::ALL.into_iter().flat_map(|abi| kinds.clone().map(|kind| (abi, kind)));
    for (abi, (kind, level, settings)) in cases {
        let program = prefix().compiled_for(abi, "events.c");
        let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("our launcher");
        let done = run(job.arg(kind).arg(level).envs(settings));
        // The end of a job with a lost process is an error.
        if kind != "connection_lost" {
            done.expect_ok("events", 2);
        } else {
            assert!(
                ["rank 0: events ok", "rank 1: events ok"].iter().all(|ok| done.output.contains(ok)),
                "{done}"
            );
        }
    }
}

#[test]
fn mpivars_prints_all_variables() {
    let told = |argument: &[&str]| {
        let done = run(Command::new(prefix().file("bin/mpivars")).args(argument).env("NETMOD_RTS_MAX", "77"));
        assert!(done.status.success(), "{done}");
        done.output
    };
    for (argument, state) in [(&[][..], "state=0"), (&["-i"][..], "state=1")] {
        let text = told(argument);
        for words in ["NETMOD_RTS_MAX=77", "NETMOD_COLL_BCAST", "tcp_bytes_sent=0", "peer_slow", state] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
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
fn persistent_operations_start_in_any_order() {
    for ranks in [2, 3, 5] {
        ok("persistent_operations_start_in_any_order", "persistent.c", "persistent", ranks);
    }
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

//! Jobs of real processes over libfabric: each provider under `nmrun` and `mpiexec.hydra`, with
//! large messages in each mode, and with ranks that are killed.

use std::process::Command;

use netmod_tests::factory::{NetmodFactory, Ofi};
use netmod_tests::jobs::launch::{self, launcher_or_skip, run, run_alone};
use netmod_tests::libfabric::second_or_skip;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// Providers whose endpoints are processes' own affair.
const PROVIDERS: [&str; 5] = ["tcp", "net", "sockets", "udp", "shm"];

/// Environment of a job over a provider.
fn over(c: &mut Command, provider: &str) {
    c.env("NETMOD", "ofi").env("NETMOD_OFI_PROVIDER", provider);
    // Its progress thread would otherwise spin for 10 ms, in each process, before it lets others
    // in.
    c.env("FI_SOCKETS_PE_WAITTIME", "0");
}

fn nmrun(provider: &str, ranks: u32, options: &[&str]) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &ranks.to_string()]).args(options).arg(JOB);
    over(&mut c, provider);
    c
}

/// Returns the available providers; a line for each of the others says why it is skipped.
fn providers(test: &'static str) -> impl Iterator<Item = &'static str> {
    let there = |p: &&'static str| Ofi { provider: p, library: "", max_bytes: 0, many: 0 }.is_available(test);
    PROVIDERS.into_iter().filter(there)
}

#[test]
fn rings_and_exchanges_under_nmrun() {
    for provider in providers("rings_and_exchanges_under_nmrun") {
        run(nmrun(provider, 4, &[]).arg("ring")).expect_ok("ring", 4);
        run(nmrun(provider, 3, &[]).args(["ring", "5", "300000"])).expect_ok("ring", 3);
        run(nmrun(provider, 5, &[]).arg("alltoall")).expect_ok("alltoall", 5);
    }
}

/// Over every provider of both libraries, waiting as `wait` says. A wait without a descriptor wakes
/// up to poll some hundred times in the three seconds, and may use twice as much of a processor.
fn idle_ranks_sleep(test: &'static str, wait: &str) {
    let most = if wait == "none" { "4" } else { "2" };
    let job = |provider| {
        let mut c = nmrun(provider, 2, &[]);
        c.args(["idle", "3000", most]).env("NETMOD_OFI_WAIT", wait);
        c
    };
    let mut jobs: Vec<Command> = providers(test).map(job).collect();
    if let Some(variables) = second_or_skip("idle ranks with another version of libfabric") {
        for mut c in ["tcp", "shm"].map(job) {
            c.envs(variables.clone());
            jobs.push(c);
        }
    }
    // Each rank counts its own time: idle jobs do not disturb each other.
    std::thread::scope(|scope| {
        for mut job in jobs {
            scope.spawn(move || run(&mut job).expect_ok("idle", 2));
        }
    });
}

#[test]
fn idle_ranks_sleep_by_default() {
    idle_ranks_sleep("idle_ranks_sleep_by_default", "auto");
}

#[test]
fn idle_ranks_sleep_with_a_descriptor() {
    idle_ranks_sleep("idle_ranks_sleep_with_a_descriptor", "fd");
}

#[test]
fn idle_ranks_sleep_without_one() {
    idle_ranks_sleep("idle_ranks_sleep_without_one", "none");
}

#[test]
fn children_of_ranks_do_nothing_that_others_see() {
    for provider in providers("children_of_ranks_do_nothing_that_others_see") {
        run(nmrun(provider, 2, &[]).arg("children")).expect_ok("children", 2);
    }
}

/// Each rank can say what it has opened.
#[test]
fn what_is_open_is_said() {
    for provider in providers("what_is_open_is_said") {
        let done = run(nmrun(provider, 2, &[]).arg("choices"));
        done.expect_ok("choices", 2);
        for rank in 0..2 {
            let opened = format!("rank {rank}: has opened ofi: {provider}");
            assert!(done.output.contains(&opened), "{provider}: {}", done.output);
        }
    }
}

#[test]
fn under_hydra() {
    let Some(hydra) = launcher_or_skip("under_hydra", "mpiexec.hydra", "mpich") else { return };
    for provider in providers("under_hydra") {
        let mut c = Command::new(&hydra);
        c.args(["-n", "4", JOB, "alltoall"]);
        over(&mut c, provider);
        run(&mut c).expect_ok("alltoall", 4);
    }
}

/// All lengths, contiguous and strided, in each mode.
#[test]
fn every_length_in_each_mode() {
    for (provider, mode) in [
        ("tcp", "get"),
        ("tcp", "put"),
        ("tcp", "null"),
        ("net", "get"),
        ("net", "put"),
        ("sockets", "get"),
        ("shm", "get"),
        ("udp", "get"),
    ] {
        if !(Ofi { provider, library: "", max_bytes: 0, many: 0 }).is_available("every_length_in_each_mode") {
            continue;
        }
        // udp;ofi_rxd moves less than a tenth of what the others do.
        let longest = if provider == "udp" { "1048576" } else { "8388608" };
        for layout in ["0", "3"] {
            let mut c = nmrun(provider, 2, &[]);
            c.args(["span", longest, layout]);
            c.envs([("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "0")]);
            run_alone(&mut c).expect_moved_in(mode);
        }
    }
}

/// A put over libfabric's shared memory may come after its memory was taken back: nothing is put
/// there.
#[test]
fn nothing_is_put_where_it_cannot_be_revoked() {
    let shm = Ofi { provider: "shm", library: "", max_bytes: 0, many: 0 };
    if !shm.is_available("nothing_is_put_where_it_cannot_be_revoked") {
        return;
    }
    let mut c = nmrun("shm", 2, &[]);
    c.args(["span", "1048576", "0"]);
    c.envs([("NETMOD_LMT", "put"), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "0")]);
    run(&mut c).expect_moved_in("null");
}

/// With a second libfabric, whose `tcp` and `shm` are others.
#[test]
fn with_a_second_library() {
    let Some(variables) = second_or_skip("jobs with another version of libfabric") else { return };
    for provider in ["tcp", "shm"] {
        run(nmrun(provider, 4, &[]).arg("alltoall").envs(variables.clone())).expect_ok("alltoall", 4);
        for mode in ["get", "put"].into_iter().filter(|mode| (provider, *mode) != ("shm", "put")) {
            let mut c = nmrun(provider, 2, &[]);
            c.args(["span", "1048576", "3"]).envs(variables.clone());
            c.envs([("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "0")]);
            run(&mut c).expect_moved_in(mode);
        }
    }
}

/// Memory that may be registered is short: messages move window by window.
#[test]
fn short_of_registered_memory() {
    if !(Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 })
        .is_available("short_of_registered_memory")
    {
        return;
    }
    for mode in ["get", "put"] {
        let mut c = nmrun("tcp", 2, &[]);
        c.args(["span", "4194304", "3"]).env("NETMOD_OFI_REGISTER_MAX", "131072");
        c.envs([("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "0")]);
        let done = run_alone(&mut c);
        done.expect_moved_in(mode);
        // The receiver of a put and the sender of a get register memory.
        let windows = [0, 1].map(|rank| done.moved(rank)[2] > 0);
        assert_eq!(windows, [mode == "get", mode == "put"], "{mode}: {done}");
    }
}

/// One rank is killed before its first message, and nobody but the netmod can tell.
#[test]
fn a_rank_is_killed_before_its_first_message() {
    for provider in ["tcp", "net"] {
        let there = Ofi { provider, library: "", max_bytes: 0, many: 0 };
        if !there.is_available("a_rank_is_killed_before_its_first_message") {
            continue;
        }
        let mut c = nmrun(provider, 4, &["--no-kill"]);
        c.args(["unmet", "1", "1"]);
        c.envs([("NETMOD_FAILURE_CHECK", "0s"), ("NETMOD_OFI_DETECT", "500ms")]);
        let done = run_alone(&mut c);
        assert_eq!(done.ok_ranks("unmet"), 3, "{provider}: {done}");
        done.expect_code(128 + 9);
    }
}

/// One rank is killed; the launcher is not asked, so the others find out by the dead one's kernel.
#[test]
fn a_rank_is_killed() {
    // Survivors of a death over udp;ofi_rxd and shm of 1.17 do not always get on with each other.
    for provider in providers("a_rank_is_killed").filter(|p| !["udp", "shm"].contains(p)) {
        // Data sent by sockets stays in the process until the provider's thread sends it: the
        // victim waits for that.
        let before_finalize = if provider == "sockets" { "11" } else { "7" };
        for (stage, seed, ranks) in [("2", "1", 3), ("3", "2", 3), ("4", "3", 3), (before_finalize, "1", 5)] {
            let mut c = nmrun(provider, ranks, &["--no-kill"]);
            c.args(["kill", stage, "1", seed]);
            c.envs([("NETMOD_FAILURE_CHECK", "0s"), ("NETMOD_OFI_DETECT", "500ms")]);
            let done = run_alone(&mut c);
            let left = ranks as usize - 1;
            assert_eq!(done.output.matches(": survived rank ").count(), left, "{provider} {stage}: {done}");
            assert_eq!(done.ok_ranks("kill"), left, "{provider} {stage}: {done}");
            done.expect_code(128 + 9);
        }
    }
}

/// Files of libfabric's shm in `/dev/shm` whose process is no more.
fn left_over() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").expect("the folder of shared memory");
    let dead = |name: &str| {
        // Process, user, number.
        let mut parts = name.split(':').map(str::parse::<u32>);
        let (Some(Ok(process)), Some(Ok(_)), Some(Ok(_))) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        !std::path::Path::new(&format!("/proc/{process}")).exists()
    };
    let entries = entries.map(|e| e.expect("an entry"));
    entries.filter(|e| e.file_name().to_str().is_some_and(dead)).map(|e| e.path()).collect()
}

#[test]
fn the_next_job_removes_what_killed_ranks_have_left() {
    if providers("the_next_job_removes_what_killed_ranks_have_left").all(|p| p != "shm") {
        return;
    }
    // Files of other programs, which have no mark, stay.
    let before = left_over();
    // Other jobs at the same time may remove it first.
    let left = (0..10).find_map(|_| {
        let done = run(nmrun("shm", 2, &[]).args(["kill", "2", "1", "1"]));
        assert_ne!(done.ok_ranks("kill"), 2, "one was killed: {done}");
        let mut left = left_over();
        left.retain(|path| !before.contains(path));
        Some(left).filter(|left| !left.is_empty())
    });
    let left = left.expect("a killed process leaves its file");
    run(nmrun("shm", 2, &[]).arg("ring")).expect_ok("ring", 2);
    for path in left {
        assert!(!path.exists(), "{} is still there", path.display());
    }
}

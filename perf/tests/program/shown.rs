//! Tests of everything around measurements: plots, the tour, errors, logs, launchers.

use std::process::Command;

use crate::{json, perf, run, skipped};

#[test]
fn plots_are_svg_files() {
    for (netmod, floor) in
        [("tcp", "raw spinning socket"), ("shm", "copied into shared memory and out of it")]
    {
        let file = std::env::temp_dir().join(format!("netmod-perf-test-{}-{netmod}.svg", std::process::id()));
        let mut command = perf(&format!("lat --netmod {netmod} --bytes 8,64,1K --rounds 1 --iters 5 --plot"));
        command.arg(&file);
        let ended = run(command);
        assert!(ended.ok, "{}", ended.err);
        let svg = std::fs::read_to_string(&file).expect("the file is there");
        std::fs::remove_file(&file).expect("it can be removed");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains(floor) && svg.contains(&format!("netmod {netmod}")), "{floor} in {svg}");
        assert!(svg.matches("<polyline").count() >= 2);
    }
}

#[test]
fn a_plot_that_cannot_be_written_is_an_error() {
    let ended = run(perf("lat --bytes 8,64 --rounds 1 --iters 2 --plot /no/such/directory/x.svg"));
    assert!(!ended.ok);
    assert!(ended.err.contains("/no/such/directory/x.svg"), "{}", ended.err);
}

#[test]
fn the_tour_prints_a_plain_table_in_a_pipe() {
    let ended = run(perf("--quick"));
    assert!(ended.ok, "{}", ended.err);
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'));
    for word in [
        "latency",
        "bandwidth",
        "message rate",
        "tag matching",
        "floor",
        "ratio",
        "8 KiB",
        "4 MiB",
        "What to run next",
    ] {
        assert!(ended.out.contains(word), "no {word} in {}", ended.out);
    }
    let rows = json(perf("--quick --json"));
    let tests: Vec<&str> = rows.iter().filter_map(|r| r["test"].as_str()).collect();
    let each = ["lat", "lat", "lat", "bw", "bw", "bw", "rate"];
    assert_eq!(tests, [&each[..], &each[..], &["match", "match"]].concat(), "two netmods, and matching");
}

#[test]
fn failures_have_a_reason_and_an_exit_code() {
    let mut no_interface = perf("lat --netmod tcp --rounds 1");
    no_interface.env("NETMOD_TCP_INTERFACE", "nosuch0");
    let ended = run(no_interface);
    assert!(!ended.ok && ended.out.is_empty());
    assert!(ended.err.contains("nosuch0") && ended.err.contains("rank"), "{}", ended.err);

    let ended = run(perf("lat --netmod carrier"));
    assert!(!ended.ok);
    assert!(ended.err.contains("carrier"), "{}", ended.err);

    let mut bad = perf("rate");
    bad.env("NETMOD_LOG", "=,=,");
    let ended = run(bad);
    assert!(!ended.ok);
    assert!(ended.err.contains("NETMOD_LOG"), "{}", ended.err);

    let ended = run(perf("lat --bytes 0"));
    assert!(!ended.ok);
    assert!(ended.err.contains("--bytes"), "{}", ended.err);
}

#[test]
fn logs_go_to_stderr_with_the_rank() {
    let mut command = perf("lat --bytes 8 --rounds 1 --iters 2 --json");
    command.env("NETMOD_LOG", "debug");
    let ended = run(command);
    assert!(ended.ok);
    assert!(ended.err.lines().any(|l| l.starts_with("netmod-perf: rank 1: debug: ")), "{}", ended.err);
    assert_eq!(ended.out.lines().count(), 1);
}

/// The log shows both sides of a rendezvous, to its end, and the begin and end of waiting for
/// credit.
#[test]
fn the_life_of_messages_is_traced() {
    let traced = |line: &str| {
        let mut command = perf(line);
        command
            .env("NETMOD_LOG", "netmod=trace")
            .env("NETMOD_EAGER_WINDOW", "16K")
            .env("NETMOD_RTS_MAX", "8");
        let ended = run(command);
        assert!(ended.ok, "{}", ended.err);
        ended.err
    };
    let count = |text: &str, rank: u32, what: &str| {
        let from = format!("netmod-perf: rank {rank}: ");
        text.lines().filter(|l| l.starts_with(&from) && l.contains(what)).count()
    };
    let text = traced("lat --bytes 20K --rounds 1 --iters 2 --json");
    let began = count(&text, 1, "rendezvous data begins");
    assert!(began > 0, "{text}");
    for (rank, step) in
        [(0, "RTS sent"), (1, "RTS came"), (1, "CTS sent"), (0, "CTS came"), (1, "rendezvous data ends")]
    {
        assert_eq!(count(&text, rank, step), began, "{step}");
    }
    let whole =
        text.lines().filter(|l| l.contains("rendezvous data ends") && l.contains("bytes=20480")).count();
    assert!(whole > 0 && whole <= 2 * began, "{text}");
    let text = traced("flood --ranks 2 --bytes 8 --messages 500 --pause 10 --json");
    let stalls = count(&text, 1, "no credit left: sends wait");
    assert!(stalls > 0, "{text}");
    assert_eq!(count(&text, 1, "credit again: no send waits any more"), stalls, "{text}");
}

#[test]
fn under_hydra_the_given_ranks_are_used() {
    let Ok(version) = Command::new("mpiexec.hydra").arg("--version").output() else {
        return skipped(
            "under_hydra_the_given_ranks_are_used",
            "mpiexec.hydra not installed (apt-get install mpich)",
        );
    };
    assert!(version.status.success());
    let hydra = |n: &str, line: &str| {
        let mut c = Command::new("mpiexec.hydra");
        c.args(["-n", n, env!("CARGO_BIN_EXE_netmod-perf")]).args(line.split_whitespace());
        c
    };
    let rows = json(hydra("3", "lat --bytes 8 --rounds 1 --iters 5 --json"));
    assert_eq!((rows.len(), rows[0]["ranks"].as_u64()), (1, Some(3)));
    let rows = json(hydra("4", "alltoall --json"));
    assert_eq!(rows[0]["ranks"], 4);
    assert!(rows[0]["measured"].as_str().is_some_and(|m| m.contains("Device::init")), "{}", rows[0]);
    assert_eq!(json(hydra("2", "match --queue 10 --rounds 1 --iters 10 --json")).len(), 1);
    let alone = run(hydra("1", "lat"));
    assert!(!alone.ok);
    assert!(alone.err.contains("needs two"), "{}", alone.err);
}

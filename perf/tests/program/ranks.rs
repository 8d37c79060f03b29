//! Tests of measurements between ranks: fields, floors, refused options.

use std::process::Command;

use serde_json::Value;

use crate::{json, perf, positive, run, skipped};

/// Maximum bytes of a VC that was never connected.
const MOST_OF_A_VC: f64 = 256.0;

#[test]
fn tests_between_two_ranks_print_the_documented_fields() {
    for (test, unit) in [("lat", "us"), ("bw", "MB/s"), ("bibw", "MB/s"), ("rate", "msg/s")] {
        let rows = json(perf(&format!("{test} --netmod tcp --bytes 8,200K --rounds 3 --iters 4 --json")));
        assert_eq!(rows.len(), 2, "{test}");
        for (row, bytes) in rows.iter().zip([8, 200 << 10]) {
            assert_eq!(row["test"], test);
            assert_eq!(row["netmod"], "tcp");
            assert_eq!(row["bytes"], bytes);
            assert_eq!(row["unit"], unit);
            assert_eq!(row["ranks"], 2);
            assert_eq!(row["rounds"], 3);
            assert!(row["floor_kind"].as_str().is_some_and(|k| k.starts_with("raw ")), "{row}");
            positive(row, &["value", "floor", "ratio", "best", "floor_best"]);
            assert_eq!(row["window"].is_null(), test == "lat", "{row}");
        }
    }
}

#[test]
fn within_a_node_the_floor_is_that_of_memory() {
    let of = |line: &str, kinds: [&str; 2], beside: [&[&str]; 2]| {
        let rows = json(perf(&format!("{line} --netmod shm --bytes 8,70K --rounds 2 --iters 4 --json")));
        assert_eq!(rows.len(), 2, "{line}");
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(row["netmod"], "shm");
            assert_eq!(row["floor_kind"], kinds[i], "{row}");
            positive(row, &["value", "floor", "ratio", "best", "floor_best"]);
            positive(row, beside[i]);
            let shown = ["memcpy_hot", "memcpy_cold"].iter().filter(|f| !row[**f].is_null()).count();
            assert_eq!(shown, beside[i].len(), "{row}");
        }
    };
    let copied = "copied into shared memory and out of it";
    let (one, both) = ("hot memcpy on one core", "hot memcpy on both cores");
    of("lat", ["a cache line from core to core", copied], [&[], &["memcpy_hot", "memcpy_cold"]]);
    of("bw --window 3", [one, one], [&["memcpy_cold"], &["memcpy_cold"]]);
    of("bibw --window 3", [both, both], [&[], &[]]);
    // More than the floor's rings hold at once.
    let cell = "a cache line a message, through a ring in shared memory";
    of("rate --window 600", [cell, copied], [&[], &[]]);
}

/// The floor of the netmod over libfabric is the same provider, driven directly.
#[test]
fn libfabric_called_directly_is_the_floor_of_its_netmod() {
    let probe = json(perf("info --json"));
    let ofi = probe.iter().find(|i| i["info"] == "netmod" && i["name"] == "ofi").expect("the netmod ofi");
    let detail = ofi["detail"].as_str().expect("what it uses");
    if detail.starts_with("no libfabric") {
        return skipped("libfabric_called_directly_is_the_floor_of_its_netmod", detail);
    }
    for (line, floors) in [
        ("lat --bytes 1,8,70000", vec!["libfabric, called directly"; 3]),
        ("bw --bytes 300K --window 3", vec!["libfabric's messages, called directly"]),
        ("bw --bytes 300K --window 3 --lmt get", vec!["fi_read, called directly"]),
        ("bw --bytes 300K --window 3 --lmt put", vec!["fi_write, called directly"]),
        ("bibw --bytes 70000 --window 3", vec!["libfabric both ways, called directly"]),
        // More than the provider has in flight at once.
        ("rate --bytes 8 --window 300", vec!["libfabric, called directly"]),
    ] {
        for provider in ["tcp", "shm"] {
            let rows =
                json(perf(&format!("{line} --netmod ofi --provider {provider} --rounds 2 --iters 3 --json")));
            let found: Vec<_> = rows.iter().map(|r| r["floor_kind"].as_str().expect("a floor")).collect();
            assert_eq!(found, floors, "{line}");
            for row in &rows {
                assert_eq!(row["netmod"], "ofi");
                assert!(row["address"].as_str().is_some_and(|a| a.starts_with(provider)), "{row}");
                assert!(row["provider"].as_str().is_some_and(|p| p.starts_with(provider)), "{row}");
                for value in ["value", "floor", "ratio"] {
                    assert!(row[value].as_f64().is_some_and(|v| v > 0.0 && v.is_finite()), "{row}");
                }
            }
        }
    }
    let ended = run(perf("lat --netmod ofi --provider nonsense --bytes 8"));
    assert!(!ended.ok && ended.err.contains("no provider nonsense"), "{}", ended.err);
}

/// The provider sockets reports data as sent and loses it if its endpoint is closed before it has
/// left.
#[test]
fn no_endpoint_is_closed_before_the_peer_has_all() {
    let test = "no_endpoint_is_closed_before_the_peer_has_all";
    let probe = json(perf("info --json"));
    if !probe.iter().any(|o| o["info"] == "offer" && o["provider"] == "sockets") {
        return skipped(test, "libfabric has no provider sockets here");
    }
    for _ in 0..20 {
        let line =
            "bw --netmod ofi --provider sockets --bytes 4M --lmt get --rounds 2 --iters 1 --window 4 --json";
        assert_eq!(json(perf(line)).len(), 1);
    }
}

#[test]
fn threads_are_compared_with_one_thread_and_one_engine() {
    let rows = json(perf("rate --netmod tcp --threads 3 --engines 2 --window 8 --rounds 2 --iters 6 --json"));
    let ways: Vec<_> = rows.iter().map(|r| (r["kind"].as_str(), &r["threads"], &r["engines"])).collect();
    let multiple = Some("Multiple");
    let n = |n: u64| Value::from(n);
    assert_eq!(
        ways,
        [
            (Some("Serialized"), &n(1), &n(1)),
            (multiple, &n(1), &n(1)),
            (multiple, &n(3), &n(1)),
            (multiple, &n(3), &n(2)),
        ]
    );
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(
            (&row["test"], &row["unit"], &row["netmod"]),
            (&"rate".into(), &"msg/s".into(), &"tcp".into())
        );
        assert_eq!(
            (row["bytes"].as_u64(), row["window"].as_u64(), row["rounds"].as_u64()),
            (Some(8), Some(8), Some(2))
        );
        positive(row, &["value", "best"]);
        assert_eq!(row["ratio"].is_null(), i == 0, "{row}");
    }
    rows[1..].iter().for_each(|r| positive(r, &["floor", "ratio", "ratio_to_serialized"]));
    // One thread is compared only with level Serialized.
    assert_eq!(json(perf("rate --threads 1 --bytes 100,3K --rounds 1 --iters 1 --json")).len(), 4);
    let three = run(perf("rate --threads 2 --ranks 3"));
    assert!(!three.ok && three.err.contains("two ranks, not of 3"), "{}", three.err);
}

#[test]
fn more_ranks_than_two_wait_for_the_pair() {
    let rows = json(perf("lat --bytes 8 --rounds 1 --iters 10 --ranks 5 --json"));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["ranks"], 5);
}

#[test]
fn each_program_is_measured_with_two_ranks_and_with_four() {
    let kinds = [
        "ping-pong",
        "ping-pong, 1 us",
        "ping-pong, 5 us",
        "halo",
        "halo",
        "halo",
        "allreduce",
        "many to one",
    ];
    for (netmod, ranks) in [("shm", 2), ("tcp", 4)] {
        let rows =
            json(perf(&format!("programs --netmod {netmod} --ranks {ranks} --rounds 2 --iters 3 --json")));
        let found: Vec<_> = rows.iter().map(|r| r["kind"].as_str().expect("a program")).collect();
        assert_eq!(found, kinds);
        for row in &rows {
            assert_eq!((&row["test"], &row["unit"]), (&"programs".into(), &"us".into()));
            assert_eq!((&row["netmod"], row["ranks"].as_u64()), (&netmod.into(), Some(ranks)));
            positive(row, &["value", "best"]);
        }
        let halo: Vec<_> = rows[3..6].iter().map(|r| r["bytes"].as_u64()).collect();
        assert_eq!(halo, [Some(8), Some(1 << 10), Some(64 << 10)]);
    }
}

#[test]
fn a_barrier_of_more_ranks_than_cores() {
    for netmod in ["shm", "tcp"] {
        let rows = json(perf(&format!("barrier --netmod {netmod} --ranks 5 --rounds 3 --iters 50 --json")));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(
            (&row["test"], &row["netmod"], &row["unit"]),
            (&"barrier".into(), &netmod.into(), &"us".into())
        );
        assert_eq!((row["ranks"].as_u64(), row["rounds"].as_u64()), (Some(5), Some(3)));
        positive(row, &["value", "best"]);
    }
}

#[test]
fn alltoall_tells_time_and_memory() {
    let rows = json(perf("alltoall --netmod tcp --ranks 6 --bytes 8 --json"));
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (&row["test"], &row["netmod"], &row["unit"]),
        (&"alltoall".into(), &"tcp".into(), &"s".into())
    );
    assert_eq!((row["ranks"].as_u64(), row["bytes"].as_u64()), (Some(6), Some(8)));
    positive(row, &["value", "private_kib", "max_private_kib"]);
    assert!(row["max_private_kib"].as_u64() >= row["private_kib"].as_u64());
    assert!(row["measured"].as_str().is_some_and(|m| m.contains("started")), "{row}");
}

#[test]
fn ranks_that_nobody_talks_to_cost_little() {
    let rows = json(perf("connect --simulate 200000 --json"));
    let kinds: Vec<_> = rows.iter().map(|r| r["kind"].as_str().unwrap_or("")).collect();
    assert_eq!(kinds, ["unused", "known"]);
    for (row, vcs) in rows.iter().zip([199_999, 200_000]) {
        assert_eq!((&row["test"], &row["unit"]), (&"connect".into(), &"B".into()));
        assert_eq!((row["ranks"].as_u64(), row["vcs"].as_u64()), (Some(200_000), Some(vcs)));
        positive(row, &["value", "resident_bytes"]);
    }
    let each = |i: usize| rows[i]["value"].as_f64().unwrap_or(f64::NAN);
    // A device takes some hundred KiB, independent of the number of ranks it knows.
    assert!(each(1) < 16.0, "{}", rows[1]);
    // A VC has state; more than this means a table that grows.
    assert!((64.0..=MOST_OF_A_VC).contains(&each(0)), "{}", rows[0]);
}

#[test]
fn connections_to_one_process_tell_memory_and_latency() {
    let rows = json(perf("connect --netmod tcp --connected 12 --latency --rounds 3 --iters 20 --json"));
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, kind) in rows.iter().zip(["connected", "latency"]) {
        assert_eq!(
            (&row["test"], &row["kind"], &row["netmod"]),
            (&"connect".into(), &kind.into(), &"tcp".into())
        );
        assert_eq!((row["ranks"].as_u64(), row["vcs"].as_u64()), (Some(13), Some(12)));
    }
    positive(&rows[0], &["value"]);
    // With so few connections, the fixed cost of the process counts for each.
    assert!(rows[0]["value"].as_f64() < Some(32768.0), "{}", rows[0]);
    positive(&rows[1], &["value", "floor", "ratio", "ratio_by_round"]);
    assert_eq!((rows[1]["bytes"].as_u64(), rows[1]["rounds"].as_u64()), (Some(8), Some(3)));
}

#[test]
fn connect_names_what_it_cannot_do() {
    let both = run(perf("connect --simulate 10 --connected 10"));
    assert!(!both.ok && both.err.contains("cannot be used with"), "{}", both.err);
    // The error names a hard limit that is too low, and the limit needed.
    let mut c = Command::new("sh");
    c.args(["-c", "ulimit -n 200; exec \"$0\" connect --connected 200"]);
    c.arg(env!("CARGO_BIN_EXE_netmod-perf"));
    let few = run(c);
    assert!(
        !few.ok
            && few.err.contains("descriptors, which 200 connections need")
            && few.err.contains("hard limit is 200"),
        "{}",
        few.err
    );
}

#[test]
fn flood_tells_memory_and_rate() {
    let mut command = perf("flood --netmod tcp --ranks 4 --bytes 100 --messages 300 --pause 50 --json");
    command.env("NETMOD_EAGER_WINDOW", "16K").env("NETMOD_RTS_MAX", "8");
    let rows = json(command);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((&row["test"], &row["unit"]), (&"flood".into(), &"msg/s".into()));
    assert_eq!((row["ranks"].as_u64(), row["window"].as_u64()), (Some(4), Some(300)));
    positive(row, &["value", "floor", "ratio", "unexpected_kib", "unexpected_max_kib"]);
}

//! The program as a user runs it: options, JSON, files, errors, launchers.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far longer than any of these runs takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Bytes that a VC may take which was never connected.
const MOST_OF_A_VC: f64 = 256.0;

struct Ended {
    ok: bool,
    out: String,
    err: String,
}

/// Runs a command without the variables of an outer launcher or configuration.
fn run(mut command: Command) -> Ended {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["PMI", "NETMOD", "SLURM", "PERF_"].iter().any(|p| text.starts_with(p))
            && text != "NETMOD_TEST_NO_SKIP"
        {
            command.env_remove(&name);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut p) = pipe {
                p.read_to_string(&mut text).expect("output is UTF-8");
            }
            text
        })
    };
    let out = read(child.stdout.take().map(|p| Box::new(p) as _));
    let err = read(child.stderr.take().map(|p| Box::new(p) as _));
    let limit = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if Instant::now() > limit {
            child.kill().expect("kill");
            panic!("{command:?} takes longer than {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ended { ok: status.success(), out: out.join().expect("stdout"), err: err.join().expect("stderr") }
}

fn perf(line: &str) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_netmod-perf"));
    c.args(line.split_whitespace());
    c
}

/// The JSON lines of a run that must succeed.
fn json(command: Command) -> Vec<Value> {
    let ended = run(command);
    assert!(ended.ok, "failed: {}{}", ended.out, ended.err);
    ended.out.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
}

fn positive(row: &Value, fields: &[&str]) {
    for f in fields {
        assert!(row[f].as_f64().is_some_and(|v| v > 0.0), "{f} in {row}");
    }
}

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
    // More than the rings of the floor hold at once.
    let cell = "a cache line a message, through a ring in shared memory";
    of("rate --window 600", [cell, copied], [&[], &[]]);
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
    // One thread has nothing to be compared with but level Serialized.
    assert_eq!(json(perf("rate --threads 1 --bytes 100,3K --rounds 1 --iters 1 --json")).len(), 4);
    let three = run(perf("rate --threads 2 --ranks 3"));
    assert!(!three.ok && three.err.contains("two ranks and not of 3"), "{}", three.err);
}

#[test]
fn more_ranks_than_two_wait_for_the_pair() {
    let rows = json(perf("lat --bytes 8 --rounds 1 --iters 10 --ranks 5 --json"));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["ranks"], 5);
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
    // A device takes some hundred KiB, however many it knows.
    assert!(each(1) < 16.0, "{}", rows[1]);
    // A VC has state; more than this is a table that has grown.
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
    // With so few, what the process needs once weighs on each.
    assert!(rows[0]["value"].as_f64() < Some(32768.0), "{}", rows[0]);
    positive(&rows[1], &["value", "floor", "ratio", "ratio_by_round"]);
    assert_eq!((rows[1]["bytes"].as_u64(), rows[1]["rounds"].as_u64()), (Some(8), Some(3)));
}

#[test]
fn what_connect_cannot_do_is_said() {
    let both = run(perf("connect --simulate 10 --connected 10"));
    assert!(!both.ok && both.err.contains("cannot be used with"), "{}", both.err);
    // A hard limit that is too low is named, with what is needed.
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

#[test]
fn matching_needs_no_ranks() {
    for order in ["in-order", "random"] {
        let rows = json(perf(&format!("match --queue 10,500 --order {order} --rounds 2 --iters 100 --json")));
        assert_eq!(rows.len(), 2);
        for (row, queue) in rows.iter().zip([10, 500]) {
            assert_eq!(
                (&row["test"], row["queue"].as_u64(), &row["unit"]),
                (&"match".into(), Some(queue), &"ns".into())
            );
            assert_eq!(row["order"], order.replace('-', " "));
            positive(row, &["value"]);
        }
        positive(&rows[1], &["floor", "ratio"]);
    }
}

#[test]
fn a_scenario_is_paired_from_both_sides() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../matching/tests/scenarios/s07-two-in-one-subnet-crossed-speeds.toml"
    );
    let rows = json(perf(&format!("pair --scenario {file}")));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row["pairs"], serde_json::json!([["e0", "e1"], ["e1", "e0"]]));
    assert_eq!(row["unmatched"], serde_json::json!({ "a": [], "b": [] }));
    assert_eq!((row["agreed"].as_bool(), row["as_expected"].as_bool()), (Some(true), Some(true)));
    let ended = run(perf("pair --scenario /nowhere.toml"));
    assert!(!ended.ok && ended.err.contains("/nowhere.toml"), "{}", ended.err);
}

#[test]
fn this_host_is_paired_with_itself_and_with_an_exported_record() {
    let rows = json(perf("pair --json"));
    assert_eq!(rows[0]["agreed"].as_bool(), Some(true));
    let loopback = |row: &Value| row["unmatched"]["a"].as_array().unwrap().iter().any(|n| n == "lo");
    assert!(loopback(&rows[0]), "{rows:?}");
    let ended = run(perf("pair"));
    assert!(ended.ok && ended.out.contains("the loopback interface"), "{}{}", ended.out, ended.err);

    let folder = std::env::temp_dir().join(format!("netmod-perf-pair-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the record");
    let file = folder.join("host.toml");
    let ended = run(perf(&format!("pair --export {}", file.display())));
    assert!(ended.ok, "{}", ended.err);
    // The same host and namespace, and so the same pairs.
    let again = json(perf(&format!("pair --json --peer {}", file.display())));
    assert_eq!(again[0]["pairs"], rows[0]["pairs"]);
    assert_eq!(again[0]["agreement"], rows[0]["agreement"]);
    // Another host with the same addresses: all of them are of no use.
    let text = std::fs::read_to_string(&file).expect("the record");
    let other: Vec<&str> = text.lines().filter(|l| !l.starts_with("place")).collect();
    std::fs::write(&file, format!("place = \"elsewhere\"\n{}", other.join("\n"))).expect("write");
    let apart = json(perf(&format!("pair --json --peer {}", file.display())));
    assert_eq!(apart[0]["pairs"], serde_json::json!([]));
    let ended = run(perf(&format!("pair --interfaces a,,b --peer {}", file.display())));
    assert!(!ended.ok && ended.err.contains("is empty"), "{}", ended.err);
    std::fs::remove_dir_all(&folder).expect("remove the folder");
}

#[test]
fn assignments_are_timed_beside_a_textbook() {
    let rows = json(perf("pair --bench 3,9 --rounds 2 --json"));
    let kinds = ["uniform", "random", "sparse", "product"].map(|kind| [(kind, 3), (kind, 9)]).concat();
    assert_eq!(rows.len(), kinds.len());
    for (row, (kind, nics)) in rows.iter().zip(kinds) {
        assert_eq!(
            (&row["kind"], row["nics"].as_u64(), &row["unit"]),
            (&kind.into(), Some(nics), &"us".into())
        );
        positive(row, &["value", "floor", "ratio"]);
        assert_eq!(row["growth"].is_f64(), nics == 9, "{row}");
    }
    let ended = run(perf("pair --bench 5000"));
    assert!(!ended.ok && ended.err.contains("1 to 2000"), "{}", ended.err);
}

#[test]
fn resources_of_verbs_by_the_size_of_a_job() {
    let rows = json(perf("verbs-resources --nodes 2,1000 --ranks-per-node 64 --json"));
    assert_eq!(rows.len(), 6);
    let qps = |at: usize| rows[at]["qps_per_process"].as_u64();
    assert_eq!([qps(0), qps(1), qps(2)], [Some(64), Some(64), Some(2)]);
    assert_eq!([qps(3), qps(4), qps(5)], [Some(63_936), Some(63_936), Some(1998)]);
    assert_eq!(rows[5]["rc_has_times"].as_f64(), Some(32.0));
    assert_eq!(rows[5]["proven_on"], "simulated devices");
    let largest = json(perf("verbs-resources --nodes 1000 --ranks-per-node 100 --json"));
    assert_eq!(largest[0]["ranks"].as_u64(), Some(100_000));
    let few = json(perf("verbs-resources --nodes 1000 --ranks-per-node 64 --peers 10 --json"));
    assert_eq!([&few[0], &few[2]].map(|row| row["qps_per_process"].as_u64()), [Some(10), Some(20)]);
    let near = json(perf("verbs-resources --nodes 1 --ranks-per-node 4 --near --json"));
    assert_eq!([&near[0], &near[2]].map(|row| row["qps_per_process"].as_u64()), [Some(3), Some(2)]);

    let text = run(perf("verbs-resources")).out;
    let line =
        |with: &str| text.lines().find(|l| l.contains("64,000") && l.contains(with)).unwrap_or_default();
    assert!(line(" RC ").contains(" 63,936 ") && line(" XRC ").contains(" 1/32 "), "{text}");
    assert!(text.contains("simulated devices only"), "{text}");
    let ended = run(perf("verbs-resources --nodes 1000000 --ranks-per-node 64"));
    assert!(!ended.ok && ended.err.contains("give fewer nodes"), "{}", ended.err);
}

#[test]
fn info_shows_netmods_variables_and_limits() {
    let mut command = perf("info --json");
    command.env("NETMOD_TCP_STAGE", "8K").env("NETMOD_NO_SUCH_THING", "1");
    let items = json(command);
    let find = |kind: &str, name: &str| {
        items
            .iter()
            .find(|i| i["info"] == kind && i["name"] == name)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let tcp = find("netmod", "tcp");
    assert_eq!(tcp["usable"], true);
    assert!(tcp["addresses"].as_array().is_some_and(|a| !a.is_empty()));
    assert!(find("netmod", "shm")["detail"].as_str().is_some_and(|d| d.contains("a rank with 32 ranks")));
    let large = |netmod: &str| {
        let rows = items.iter().filter(|i| i["info"] == "lmt" && i["netmod"] == netmod);
        rows.map(|i| i["mode"].as_str().expect("a mode")).collect::<Vec<_>>()
    };
    assert_eq!(large("tcp"), ["eager", "null"]);
    assert!(matches!(large("shm")[..], ["eager", "coop" | "get" | "put", ..]), "{:?}", large("shm"));
    let stage = find("variable", "NETMOD_TCP_STAGE");
    assert_eq!(
        (&stage["value"], &stage["origin"], &stage["default"]),
        (&"8K".into(), &"environment".into(), &"16K".into())
    );
    assert_eq!(find("variable", "NETMOD")["origin"], "default");
    for limit in ["descriptors", "memlock", "/dev/shm", "cores", "somaxconn", "local ports"] {
        assert!(find("limit", limit)["meaning"].as_str().is_some_and(|m| !m.is_empty()), "{limit}");
    }
    let warned = items
        .iter()
        .any(|i| i["info"] == "warning" && i["text"].as_str().is_some_and(|t| t.contains("NO_SUCH_THING")));
    assert!(warned, "the unknown variable is not mentioned");

    let text = run(perf("info"));
    assert!(
        text.ok && text.out.contains("NETMOD_TCP_PORT_RANGE") && text.out.contains("descriptors"),
        "{}",
        text.out
    );
}

#[test]
fn info_lists_what_libfabric_offers_or_says_what_to_install() {
    let netmod = |items: &[Value]| {
        items.iter().find(|i| i["info"] == "netmod" && i["name"] == "ofi").expect("the netmod ofi").clone()
    };
    let mut without = perf("info --json");
    without.env("NETMOD_OFI_LIBRARY", "/nonexistent/libfabric.so.1");
    let items = json(without);
    let ofi = netmod(&items);
    assert_eq!(ofi["usable"], false);
    let why = ofi["detail"].as_str().expect("a reason");
    assert!(why.contains("apt-get install libfabric1") && !why.contains('\n'), "{why}");
    assert!(!items.iter().any(|i| i["info"] == "offer"));

    let mut with = perf("info --json");
    with.env("NETMOD", "ofi,tcp").env("NETMOD_OFI_PROVIDER", "tcp,shm");
    let items = json(with);
    let ofi = netmod(&items);
    let detail = ofi["detail"].as_str().expect("what it uses");
    if detail.starts_with("no libfabric") {
        assert!(std::env::var_os("NETMOD_TEST_NO_SKIP").is_none(), "{detail}");
        let line = format!("SKIPPED: info_lists_what_libfabric_offers_or_says_what_to_install: {detail}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
        return;
    }
    assert!(
        ofi["usable"] == true && detail.starts_with("libfabric ") && detail.contains("provider tcp"),
        "{detail}"
    );
    let offers: Vec<_> = items.iter().filter(|i| i["info"] == "offer").collect();
    let used = |i: &&&Value| i["used"] == true;
    assert_eq!(
        offers.iter().filter(used).map(|o| o["address"].clone()).collect::<Vec<_>>(),
        *ofi["addresses"].as_array().expect("addresses")
    );
    for o in &offers {
        assert!(o["why"].as_str().is_some_and(|w| !w.is_empty()), "{o}");
        assert!(o["contexts"].as_u64().is_some_and(|n| n >= 1), "{o}");
        let provider = o["provider"].as_str().expect("a name");
        assert!(o["used"] == false || provider.starts_with("tcp"), "{o}");
    }
    let shm = offers.iter().find(|o| o["provider"] == "shm").expect("the provider shm");
    assert!(shm["mr_mode"].as_array().is_some_and(|m| m.contains(&"virt-addr".into())), "{shm}");
    assert!(items.iter().any(|i| i["info"] == "defect" && !i["what"].is_null()));
}

/// The netmod over libfabric has the same provider beside it, driven directly.
#[test]
fn libfabric_called_directly_is_the_floor_of_its_netmod() {
    let probe = json(perf("info --json"));
    let ofi = probe.iter().find(|i| i["info"] == "netmod" && i["name"] == "ofi").expect("the netmod ofi");
    let detail = ofi["detail"].as_str().expect("what it uses");
    if detail.starts_with("no libfabric") {
        assert!(std::env::var_os("NETMOD_TEST_NO_SKIP").is_none(), "{detail}");
        let line = format!("SKIPPED: libfabric_called_directly_is_the_floor_of_its_netmod: {detail}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
        return;
    }
    for (line, floors) in [
        ("lat --bytes 1,8,70000", vec!["libfabric, called directly"; 3]),
        ("bw --bytes 300K --window 3", vec!["libfabric's messages, called directly"]),
        ("bw --bytes 300K --window 3 --lmt get", vec!["fi_read, called directly"]),
        ("bw --bytes 300K --window 3 --lmt put", vec!["fi_write, called directly"]),
        ("bibw --bytes 70000 --window 3", vec!["libfabric both ways, called directly"]),
        // More than the provider has under way at once.
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

#[test]
fn info_survives_a_bad_variable_and_says_so() {
    let mut command = perf("info");
    command.env("NETMOD_SPIN", "sometimes");
    let ended = run(command);
    assert!(!ended.ok);
    assert!(ended.err.contains("NETMOD_SPIN"), "{}", ended.err);
    assert!(ended.out.contains("NETMOD_EAGER_MAX"), "{}", ended.out);
}

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
    let mut no_interface = perf("lat --rounds 1");
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

/// The steps of a rendezvous on both sides, to its end; when sends begin and cease to wait for credit.
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
    assert_eq!(count(&text, 1, "credit again: no send waits any more"), stalls);
}

#[test]
fn under_hydra_the_given_ranks_are_used() {
    let Ok(version) = Command::new("mpiexec.hydra").arg("--version").output() else {
        assert!(std::env::var_os("NETMOD_TEST_NO_SKIP").is_none(), "mpiexec.hydra is not installed");
        // Not eprintln!, whose output the test harness keeps from those who read it.
        let line = "SKIPPED: under_hydra_the_given_ranks_are_used: mpiexec.hydra not installed (apt-get install mpich)\n";
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
        return;
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

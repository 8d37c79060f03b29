//! Tests of commands without ranks: tag matching, pairing of interfaces, computed tables.

use serde_json::Value;

use crate::{json, perf, positive, run};

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
    // The same host and namespace, so the same pairs.
    let again = json(perf(&format!("pair --json --peer {}", file.display())));
    assert_eq!(again[0]["pairs"], rows[0]["pairs"]);
    assert_eq!(again[0]["agreement"], rows[0]["agreement"]);
    // Another host with the same addresses: none of them is usable.
    let text = std::fs::read_to_string(&file).expect("the record");
    let other: Vec<&str> = text.lines().filter(|l| !l.starts_with("location")).collect();
    std::fs::write(&file, format!("location = \"elsewhere\"\n{}", other.join("\n"))).expect("write");
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

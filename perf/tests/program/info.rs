//! Tests of `info`: netmods, settings, limits, libfabric's providers.

use std::io::Write as _;
use std::os::unix::net::UnixListener;

use ch3_shim::StatusReport;
use serde_json::Value;

use crate::{json, perf, run, skipped};

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
    assert!(find("netmod", "shm")["detail"].as_str().is_some_and(|d| d.contains("per rank with 32 ranks")));
    let large = |netmod: &str| {
        let rows = items.iter().filter(|i| i["info"] == "lmt" && i["netmod"] == netmod);
        rows.map(|i| i["mode"].as_str().expect("a mode")).collect::<Vec<_>>()
    };
    assert_eq!(large("tcp"), ["eager", "null"]);
    assert!(matches!(large("shm")[..], ["eager", .., "coop" | "get" | "put"]), "{:?}", large("shm"));
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

/// Only the running ranks know a netmod that their program has registered, so they are asked.
#[test]
fn info_lists_what_running_programs_have_registered() {
    let folder = std::env::temp_dir().join(format!("netmod-info-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("0123abcd-3-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    let rank = std::thread::spawn(move || {
        let report = StatusReport {
            rank: 3,
            job: "0123abcd".into(),
            netmods: vec!["third".into(), "tcp".into()],
            opened: vec!["two cables".into(), "port 1".into()],
            ..StatusReport::default()
        };
        let (mut asker, _) = listener.accept().expect("somebody asks");
        asker.write_all(report.json().as_bytes()).expect("an answer");
    });
    let mut command = perf("info --json");
    command.env("NETMOD_STATUS", &folder).env("NETMOD", "third,tcp");
    let items = json(command);
    rank.join().expect("it was asked");
    std::fs::remove_dir_all(&folder).expect("the folder");
    let found: Vec<&Value> = items.iter().filter(|i| i["info"] == "netmod" && i["name"] == "third").collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["usable"], true);
    assert_eq!(found[0]["detail"], "registered by rank 3 of job 0123abcd: two cables");
    assert!(items.iter().any(|i| i["info"] == "netmod" && i["name"] == "tcp" && i["usable"] == true));
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
        return skipped("info_lists_what_libfabric_offers_or_says_what_to_install", detail);
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

#[test]
fn info_survives_a_bad_variable_and_says_so() {
    let mut command = perf("info");
    command.env("NETMOD_SPIN", "sometimes");
    let ended = run(command);
    assert!(!ended.ok);
    assert!(ended.err.contains("NETMOD_SPIN"), "{}", ended.err);
    assert!(ended.out.contains("NETMOD_EAGER_MAX"), "{}", ended.out);
}

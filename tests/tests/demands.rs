//! Only what a job needs is demanded: what a netmod lacks is told, and others do without.

use std::process::Command;

use netmod_tests::jobs::launch::{self, EACH_NETMOD, Outcome, launcher_or_skip, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const NO_TCP: &str = "netmod: warning: netmod tcp cannot be used: ";

fn nmrun(options: &[&str], case: &[&str]) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(options).arg(JOB).args(case);
    c
}

/// The same command where no interface is up, not even loopback.
#[track_caller]
fn without_network(test: &str, command: &Command) -> Option<Command> {
    launcher_or_skip(test, "unshare", "util-linux")?;
    let tried = Command::new("unshare").args(["--net", "true"]).output();
    if !tried.as_ref().is_ok_and(|o| o.status.success()) {
        launch::skip(&format!("SKIPPED: {test}: unshare --net does not work here: {tried:?}"));
        return None;
    }
    let mut c = Command::new("unshare");
    c.arg("--net").arg(command.get_program()).args(command.get_args());
    Some(c)
}

/// The job ends well, and so many times it was said that TCP cannot be used, for this reason.
#[track_caller]
fn expect_without_tcp(done: &Outcome, case: &str, ranks: u32, times: usize, why: &str) {
    done.expect_ok(case, ranks);
    assert_eq!(done.output.matches(NO_TCP).count(), times, "{done}");
    let line = done.output.lines().find(|l| l.starts_with(NO_TCP)).unwrap_or_default();
    assert!(line.contains(why), "{why} is not in \"{line}\": {done}");
}

const NO_INTERFACE: &str = "no network interface is up, not even loopback";

#[test]
fn ranks_of_one_node_need_no_network() {
    for case in ["alltoall", "choices"] {
        let command = nmrun(&["-n", "2"], &[case]);
        let Some(mut c) = without_network("ranks_of_one_node_need_no_network", &command) else { return };
        let done = run(c.env("NETMOD", EACH_NETMOD[0]));
        expect_without_tcp(&done, case, 2, 1, NO_INTERFACE);
    }
    // The netmods may stand in any order, and beside others that cannot start.
    let command = nmrun(&["-n", "2"], &["alltoall"]);
    let Some(mut c) = without_network("ranks_of_one_node_need_no_network", &command) else { return };
    c.envs([("NETMOD", "tcp,ofi,verbs,shm"), ("NETMOD_OFI_LIBRARY", "/not/there.so")]);
    let done = run(c.env("NETMOD_VERBS_LIBRARY", "/not/there.so"));
    expect_without_tcp(&done, "alltoall", 2, 1, NO_INTERFACE);
    for name in ["ofi", "verbs"] {
        let told = done.output.matches(&format!("netmod: warning: netmod {name} cannot be used: ")).count();
        assert_eq!(told, 1, "{done}");
    }
}

/// A job of one has nobody to reach: it needs no netmod at all.
#[test]
fn a_job_of_one_needs_nothing() {
    let mut alone = Command::new(JOB);
    alone.arg("choices");
    for netmods in [EACH_NETMOD[0], "tcp", "ofi", "verbs,ofi"] {
        let Some(mut c) = without_network("a_job_of_one_needs_nothing", &alone) else { return };
        c.envs([("NETMOD", netmods), ("NETMOD_OFI_LIBRARY", "/not/there.so")]);
        let done = run(c.env("NETMOD_VERBS_LIBRARY", "/not/there.so"));
        done.expect_ok("choices", 1);
        let failing = netmods.split(',').filter(|n| *n != "shm").count();
        assert_eq!(done.output.matches(" cannot be used: ").count(), failing, "{netmods}: {done}");
    }
}

/// Nothing is left that could reach anybody: that is an error at the start, with every reason.
#[test]
fn peers_that_nothing_could_reach_are_an_error_at_the_start() {
    for (netmods, parts) in [
        ("tcp", &["NETMOD allows tcp only", NO_INTERFACE][..]),
        ("tcp,ofi", &["NETMOD allows no netmod that can be used", NO_INTERFACE, "; ofi: ", "/not/there.so"]),
    ] {
        let command = nmrun(&["-n", "2"], &["ring", "3"]);
        let Some(mut c) = without_network("peers_that_nothing_could_reach", &command) else { return };
        let done = run(c.envs([("NETMOD", netmods), ("NETMOD_OFI_LIBRARY", "/not/there.so")]));
        assert!(!done.status.success(), "{done}");
        for part in parts {
            assert!(done.output.contains(part), "no \"{part}\" in {done}");
        }
    }
}

/// A peer that no netmod reaches is an error when it is needed, with every reason, and not before.
#[test]
fn a_peer_that_nobody_reaches_is_an_error_when_it_is_needed() {
    let test = "a_peer_that_nobody_reaches_is_an_error_when_it_is_needed";
    let two_nodes = |case: &[&str]| {
        let mut c = without_network(test, &nmrun(&["-n", "2", "--nodes", "2"], case))?;
        Some(run(c.env("NETMOD", EACH_NETMOD[0])))
    };
    let Some(done) = two_nodes(&["silent"]) else { return };
    // Once on each node.
    expect_without_tcp(&done, "silent", 2, 2, NO_INTERFACE);
    let Some(done) = two_nodes(&["ring", "3"]) else { return };
    assert!(!done.status.success(), "{done}");
    let parts = [
        "no netmod reaches it (shm: ",
        "tcp: could not start here: ",
        NO_INTERFACE,
        "NETMOD is shm,tcp here",
    ];
    let whole = |l: &str| parts.iter().all(|part| l.contains(part));
    assert!(done.output.lines().any(whole), "{done}");
}

/// Settings ask for something that this host lacks.
#[test]
fn what_the_settings_want_of_tcp_and_is_not_there() {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("its number").port();
    for (variable, value, why) in [
        ("NETMOD_TCP_INTERFACE", "not-there0", "chooses no interface and no address that is up here"),
        ("NETMOD_TCP_PORT_RANGE", &*format!("{port}-{port}"), "no port of NETMOD_TCP_PORT_RANGE="),
    ] {
        let done =
            run(nmrun(&["-n", "3"], &["alltoall"]).envs([("NETMOD", EACH_NETMOD[0]), (variable, value)]));
        expect_without_tcp(&done, "alltoall", 3, 1, why);
    }
    // A value that means nothing on any host must be corrected.
    for (variable, value) in [("NETMOD_TCP_INTERFACE", "eth0,,!"), ("NETMOD_TCP_SPEED", "eth0=fast")] {
        let done =
            run(nmrun(&["-n", "2"], &["silent"]).envs([("NETMOD", EACH_NETMOD[0]), (variable, value)]));
        assert!(!done.status.success() && done.output.contains(&format!("{variable}={value}")), "{done}");
    }
}

/// With few descriptors a job does without the netmod that needs most, or says what it lacks; with
/// a few more it has all.
#[test]
fn short_of_descriptors() {
    let mut seen = [0; 3];
    for limit in 4..24 {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
        c.args(["-n", "2", "sh", "-c", &script, "sh", JOB, "alltoall"]);
        let done = run(c.env("NETMOD", EACH_NETMOD[0]));
        if !done.status.success() {
            assert!(done.output.contains("Too many open files"), "{limit}: {done}");
            seen[0] += 1;
            continue;
        }
        done.expect_ok("alltoall", 2);
        seen[1 + usize::from(!done.output.contains(NO_TCP))] += 1;
    }
    assert!(seen.iter().all(|n| *n > 0), "failed, without TCP, with all: {seen:?}");
}

/// Conveniences that cannot be had are told, and missed.
#[test]
fn files_that_cannot_be_made() {
    for (variable, value) in [
        ("NETMOD_CAPTURE", "/proc/not/there"),
        ("NETMOD_STATUS", "/proc/not/there"),
        ("NETMOD_SHM_DIR", "/proc/not/there"),
    ] {
        let done =
            run(nmrun(&["-n", "2"], &["alltoall"]).envs([("NETMOD", EACH_NETMOD[0]), (variable, value)]));
        done.expect_ok("alltoall", 2);
        let told = |l: &str| l.starts_with("netmod: ") && l.contains("/proc/not/there");
        assert!(done.output.lines().any(told), "{done}");
    }
}

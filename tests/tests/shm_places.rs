//! Places where memory cannot be had, and places between which it can be shared: file systems and
//! containers.

use std::process::Command;

use netmod_tests::jobs::launch::{self, EACH_NETMOD, Outcome, launcher_or_skip, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const WARNING: &str = "netmod: warning: the ranks of this node share no memory, which is slower: ";

/// Returns true if processes can be put into namespaces in this way.
#[track_caller]
fn can_unshare(test: &str, options: &[&str]) -> bool {
    if launcher_or_skip(test, "unshare", "util-linux").is_none() {
        return false;
    }
    let tried = Command::new("unshare").args(options).arg("true").output();
    let ok = tried.as_ref().is_ok_and(|o| o.status.success());
    if !ok {
        launch::skip(&format!(
            "SKIPPED: {test}: unshare {} does not work here: {tried:?}",
            options.join(" ")
        ));
    }
    ok
}

fn nmrun(options: &[&str]) -> Command {
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(options);
    c
}

/// Runs a case in a mount namespace, launcher and all, in which a command has changed `/dev/shm`.
fn with_dev_shm(change: &str, options: &[&str], netmods: &str, case: &[&str]) -> Outcome {
    let mut c = Command::new("unshare");
    c.args(["--mount", "sh", "-c", &format!("{change} && exec \"$@\"")]).arg("sh");
    let launcher = nmrun(options);
    c.arg(launcher.get_program()).args(launcher.get_args()).arg(JOB).args(case);
    run(c.env("NETMOD", netmods))
}

/// One line of each node says why, TCP is used, and no signal comes later.
#[test]
fn a_folder_without_memory() {
    if !can_unshare("a_folder_without_memory", &["--mount"]) {
        return;
    }
    for (change, reason) in [
        ("mount -t tmpfs -o size=256k tmpfs /dev/shm", "No space left on device"),
        ("mount -t tmpfs -o ro tmpfs /dev/shm", "Read-only file system"),
        ("mount -t proc proc /dev/shm", "cannot make /dev/shm/netmod-"),
        ("export NETMOD_SHM_DIR=/dev/shm/not/there", "No such file or directory"),
    ] {
        let done = with_dev_shm(change, &["-n", "3"], EACH_NETMOD[0], &["choices"]);
        done.expect_ok("choices", 3);
        assert_eq!(done.output.matches(WARNING).count(), 1, "{change}: {done}");
        assert_eq!(done.output.matches(" by tcp: ").count(), 6, "{change}: {done}");
        let line = done.output.lines().find(|l| l.starts_with(WARNING)).unwrap_or_default();
        assert!(line.contains(reason), "{reason} is not in: {line}");
        let done = with_dev_shm(change, &["-n", "4", "--nodes", "2"], EACH_NETMOD[0], &["alltoall"]);
        done.expect_ok("alltoall", 4);
        assert_eq!(done.output.matches(WARNING).count(), 2, "{change}: {done}");
    }
    // Without another netmod it is an error that says what to do.
    let done =
        with_dev_shm("mount -t tmpfs -o size=256k tmpfs /dev/shm", &["-n", "3"], "shm", &["ring", "5"]);
    assert!(!done.status.success(), "{done}");
    for part in [
        "KiB of shared memory for 3 ranks cannot be had",
        "No space left",
        "NETMOD_SHM_DIR",
        "NETMOD allows shm only",
    ] {
        assert!(done.output.contains(part), "no {part} in {done}");
    }
}

/// More ranks than a segment has room for.
#[test]
fn more_ranks_than_there_is_room_for() {
    let mut c = nmrun(&["-n", "4", "--env", "NETMOD_SHM_RANKS=3", JOB, "choices"]);
    let done = run(c.env("NETMOD", EACH_NETMOD[0]));
    done.expect_ok("choices", 4);
    // Three share memory, and the fourth is told what to set.
    assert_eq!(done.output.matches(" by shm: shm: chosen").count(), 6, "{done}");
    assert_eq!(done.output.matches(" by tcp: ").count(), 6, "{done}");
    let told = done.output.matches("as NETMOD_SHM_RANKS says").count();
    assert!(told > 0, "{done}");
}

/// Runs a case with each rank behind a command.
fn behind(command: &[&str], netmods: &str, case: &[&str], ranks: u32) -> Outcome {
    let mut c = nmrun(&["-n", &ranks.to_string()]);
    c.args(command).arg(JOB).args(case);
    run(c.env("NETMOD", netmods))
}

/// Each rank in namespaces of its own, which share `/dev/shm`: they share memory, and nothing else
/// would reach them. Ranks that cannot wake each other are woken by a thread of their own; the
/// death of one is noticed by its lock.
#[test]
fn containers_that_share_a_folder() {
    for options in [
        &["--net"][..],
        &["--pid", "--fork", "--mount-proc"],
        &["--pid", "--fork"],
        &["--user", "--map-root-user"],
        &["--mount", "--ipc", "--uts", "--cgroup"],
        &[
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--net",
            "--ipc",
            "--uts",
        ],
    ] {
        if !can_unshare("containers_that_share_a_folder", options) {
            continue;
        }
        let command = [&["unshare"], options].concat();
        behind(&command, "shm", &["ring", "20"], 3).expect_ok("ring", 3);
        behind(&command, "shm", &["alltoall", "100000"], 3).expect_ok("alltoall", 3);
        behind(&command, "shm", &["idle", "300"], 2).expect_ok("idle", 2);
    }
}

/// Each rank has a `/dev/shm` of its own: all of them are told apart, and talk over TCP.
#[test]
fn containers_that_share_no_folder() {
    if !can_unshare("containers_that_share_no_folder", &["--mount", "--pid", "--fork", "--mount-proc"]) {
        return;
    }
    let script = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";
    let command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"];
    let done = behind(&command, EACH_NETMOD[0], &["choices"], 3);
    done.expect_ok("choices", 3);
    assert_eq!(done.output.matches(" by tcp: ").count(), 6, "{done}");
    assert!(done.output.contains("shm: it is in another segment"), "{done}");
    behind(&command, EACH_NETMOD[0], &["random", "3", "4"], 3).expect_ok("random", 3);
}

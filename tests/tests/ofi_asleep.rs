//! A process that computes for a while, and does not look after its messages: what others do with
//! it over libfabric's providers.
//!
//! shm reads its memory by itself, and sockets has a thread: there transfers come to their end
//! while it sleeps. Otherwise they wait, and go on when it looks again. In no case is anything
//! lost, or is it taken for dead, though it is silent for longer than connecting may take.

use std::process::Command;

use netmod_tests::factory::{NetmodFactory, Ofi};
use netmod_tests::jobs::GO;
use netmod_tests::jobs::launch::{self, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// With 0, the sleeper sleeps until the transfer has come to its end without it.
fn asleep(test: &str, provider: &'static str, mode: &str, milliseconds: &str) {
    if !(Ofi { provider, library: "", max_bytes: 0, many: 0 }).is_available(test) {
        return;
    }
    let go = std::env::temp_dir().join(format!("netmod-{test}-{mode}-{}", std::process::id()));
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", "2", JOB, "asleep", milliseconds]).env(GO, &go);
    c.envs([("NETMOD", "ofi"), ("NETMOD_OFI_PROVIDER", provider), ("FI_SOCKETS_PE_WAITTIME", "0")]);
    c.envs([("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "2048")]);
    c.envs([("NETMOD_OFI_DETECT", "200ms"), ("NETMOD_OFI_CONNECT_TIMEOUT", "1s")]);
    let done = run(&mut c);
    // It is not there if the sleeper has a time.
    let _ = std::fs::remove_file(go);
    done.expect_ok("asleep", 2);
}

#[test]
fn transfers_do_without_the_target() {
    for (provider, mode) in [("shm", "get"), ("sockets", "get"), ("sockets", "put")] {
        asleep("transfers_do_without_the_target", provider, mode, "0");
    }
}

#[test]
fn transfers_wait_for_the_target_over_tcp() {
    for mode in ["get", "put"] {
        asleep("transfers_wait_for_the_target_over_tcp", "tcp", mode, "1500");
    }
}

#[test]
fn transfers_wait_for_the_target_over_net() {
    for mode in ["get", "put"] {
        asleep("transfers_wait_for_the_target_over_net", "net", mode, "1500");
    }
}

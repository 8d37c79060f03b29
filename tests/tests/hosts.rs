//! Jobs on two hosts: two network namespaces with a cable between them, which can be cut.

use netmod_tests::hosts::Hosts;
use netmod_tests::jobs::outage::{CUT, MOVE};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const CUT_OFF: &str = "10.77.0.1 cable";

/// The hosts, or none if the test is skipped.
#[track_caller]
fn hosts(test: &str) -> Option<Hosts> {
    Hosts::or_skip(test, JOB, |h| {
        h.cable(["cable"; 2], ADDRESSES.map(|a| format!("{a}/24")).each_ref().map(|a| &**a))
    })
}

#[test]
fn two_hosts_talk() {
    let Some(hosts) = hosts("two_hosts_talk") else { return };
    hosts.run(&[], &["alltoall"]).expect_ok("alltoall", 2);
    hosts.run(&[], &["random", "5", "6"]).expect_ok("random", 2);
}

#[test]
fn shared_memory_within_each_of_two_hosts() {
    let Some(hosts) = hosts("shared_memory_within_each_of_two_hosts") else { return };
    hosts.run_ranks(2, &[], [&[], &[]], &["alltoall"]).expect_ok("alltoall", 4);
    hosts.run_ranks(2, &[], [&[], &[]], &["random", "6", "6"]).expect_ok("random", 4);
    let done = hosts.run_ranks(2, &[], [&[], &[]], &["choices"]);
    done.expect_ok("choices", 4);
    for (by, times) in [(" by shm: shm: chosen\n", 4), (" by tcp: ", 8)] {
        assert_eq!(done.output.matches(by).count(), times, "{by}: {done}");
    }
}

/// The default: what leaves the host is protected, what stays there by TCP is not.
#[test]
fn connections_between_hosts_are_protected_and_those_within_are_not() {
    let Some(hosts) = hosts("connections_between_hosts_are_protected_and_those_within_are_not") else {
        return;
    };
    let states = |security: &str| {
        let env = [("NETMOD", "tcp"), ("NETMOD_TCP_SECURITY", security)];
        let done = hosts.run_ranks(2, &env, [&[], &[]], &["choices"]);
        done.expect_ok("choices", 4);
        let of_state = |text: &str| {
            done.output
                .lines()
                .filter(|line| line.contains(": state of rank ") && line.contains(text))
                .count()
        };
        ([", encrypted", ", with MACs", ", without MACs"].map(of_state), done.output.clone())
    };
    // Each of four ranks has a peer on its own host, and two on the other.
    let ([encrypted, authenticated, open], output) = states("auto");
    assert_eq!((encrypted + authenticated, open), (8, 4), "{output}");
    assert_eq!(states("auth").0, [0, 12, 0]);
    assert_eq!(states("off").0, [0, 0, 12]);
}

/// A host vanishes, to which data is under way or is not.
fn vanishes(test: &str, sending: &str) {
    let Some(hosts) = hosts(test) else { return };
    let env = [("NETMOD_TCP_DETECT", "4s"), (CUT, CUT_OFF)];
    hosts.run(&env, &["silence", sending, "30"]).expect_ok("silence", 2);
}

#[test]
fn a_host_that_vanishes_is_noticed() {
    vanishes("a_host_that_vanishes_is_noticed", "0");
}

#[test]
fn a_host_that_vanishes_is_noticed_by_who_sends() {
    vanishes("a_host_that_vanishes_is_noticed_by_who_sends", "1");
}

#[test]
fn a_short_outage_goes_unnoticed() {
    let Some(hosts) = hosts("a_short_outage_goes_unnoticed") else { return };
    hosts.run(&[(CUT, CUT_OFF)], &["pause", "1500"]).expect_ok("pause", 2);
}

#[test]
fn a_process_comes_back_from_a_checkpoint_with_another_address() {
    let Some(hosts) = hosts("a_process_comes_back_from_a_checkpoint_with_another_address") else { return };
    let from = ADDRESSES[0];
    let env = [(MOVE, &*format!("cable {from}/24 10.77.0.9/24"))];
    hosts.run(&env, &["moving"]).expect_ok("moving", 2);
}

#[test]
fn two_processes_come_back_from_a_checkpoint_with_other_addresses() {
    let Some(hosts) = hosts("two_processes_come_back_from_a_checkpoint_with_other_addresses") else { return };
    let moves = [0, 1].map(|i| format!("cable {}/24 10.77.0.{}/24", ADDRESSES[i], 8 + i));
    let envs = moves.each_ref().map(|to| [(MOVE, &**to)]);
    hosts
        .run_ranks(1, &[("NETMOD", "tcp")], envs.each_ref().map(|e| &e[..]), &["moving", "2"])
        .expect_ok("moving", 2);
}

//! The client under MPICH's `mpiexec.hydra`: by descriptor, by port, on two virtual nodes.

mod common;

use common::*;
use std::process::Output;

#[test]
fn probe_entry() {
    common::probe_entry();
}

/// Runs the probe; `None` if Hydra is not installed.
fn hydra_probe(test: &str, options: &[&str], part: &str) -> Option<Output> {
    let mut command = hydra(test)?;
    command.args(options);
    probe(&mut command, part);
    Some(run(command))
}

fn check_exchange(test: &str, options: &[&str], ranks: usize, nodes: &[u32], local: u32) {
    let Some(output) = hydra_probe(test, options, "exchange") else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = said(&output);
    assert_eq!(said.len(), ranks, "{}", text(&output));
    for (rank, line) in said.iter().enumerate() {
        let expected = format!("rank {rank:03} of {ranks} nodes {nodes:?} local {local} job ");
        assert!(line.starts_with(&expected), "{line}");
    }
}

#[test]
fn ranks_exchange_by_descriptor() {
    check_exchange("ranks_exchange_by_descriptor", &["-n", "8"], 8, &[0; 8], 8);
}

#[test]
fn ranks_exchange_by_port() {
    check_exchange("ranks_exchange_by_port", &["-pmi-port", "-n", "8"], 8, &[0; 8], 8);
}

#[test]
fn nodes_are_told_apart() {
    let hosts = ["-launcher", "fork", "-hosts", "node-a,node-b"];
    let options = [&hosts[..], &["-ppn", "2", "-n", "4"]].concat();
    check_exchange("nodes_are_told_apart", &options, 4, &[0, 0, 1, 1], 2);
    let options = [&hosts[..], &["-ppn", "1", "-n", "4"]].concat();
    check_exchange("nodes_are_told_apart", &options, 4, &[0, 1, 0, 1], 2);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    for options in [&["-n", "4"][..], &["-pmi-port", "-n", "4"]] {
        let test = "abort_ends_the_job_with_its_code";
        let Some(output) = hydra_probe(test, options, "abort") else { return };
        assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    }
}

#[test]
fn nmrun_below_hydra_serves_its_own_ranks() {
    let Some(mut command) = hydra("nmrun_below_hydra_serves_its_own_ranks") else { return };
    command.args(["-n", "2", env!("CARGO_BIN_EXE_nmrun"), "-n", "2"]);
    probe(&mut command, "exchange");
    let output = run(command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(said(&output).len(), 4, "{}", text(&output));
}

#[test]
fn survivors_notice_a_failure_and_live_on() {
    let test = "survivors_notice_a_failure_and_live_on";
    let options = ["-disable-auto-cleanup", "-n", "3"];
    let Some(output) = hydra_probe(test, &options, "notice") else { return };
    assert_eq!(said(&output), ["rank 0 noticed [1]", "rank 2 noticed [1]"], "{}", text(&output));
}

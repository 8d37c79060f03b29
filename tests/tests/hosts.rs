//! Jobs on two hosts: two network namespaces with a cable between them, which can be cut.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod_tests::jobs::launch::{self, OVER_TCP, Outcome, launcher_or_skip, run};
use netmod_tests::jobs::outage::{CUT, MOVE};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// Two namespaces, removed when dropped.
struct Hosts {
    names: [String; 2],
}

fn ip(args: &[&str]) -> Result<(), String> {
    let out = Command::new("ip").args(args).output().map_err(|e| format!("ip: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim()))
}

impl Hosts {
    const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
    const CUT_OFF: &str = "10.77.0.1 cable";

    fn new() -> Result<Hosts, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|x| format!("netmod-{}-{number}{x}", std::process::id()));
        let hosts = Hosts { names };
        let [a, b] = [&hosts.names[0], &hosts.names[1]];
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&["-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b])?;
        for (name, address) in hosts.names.iter().zip(Hosts::ADDRESSES) {
            ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "cable"])?;
            // Without link-local addresses, by which a session would be resumed when the other way is cut.
            ip(&["-n", name, "link", "set", "cable", "addrgenmode", "none"])?;
            ip(&["-n", name, "link", "set", "cable", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(hosts)
    }

    /// Runs a case over TCP with rank 0 on the first host and rank 1 on the second.
    fn run(&self, env: &[(&str, &str)], case: &[&str]) -> Outcome {
        self.run_ranks(1, &[env, &[OVER_TCP]].concat(), case)
    }

    /// Runs a case with the first `each` ranks on the first host and as many on the second.
    fn run_ranks(&self, each: u32, env: &[(&str, &str)], case: &[&str]) -> Outcome {
        static NMRUN: OnceLock<PathBuf> = OnceLock::new();
        let nmrun = NMRUN.get_or_init(|| launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
        let script = format!(
            "[ $PMI_RANK -lt {each} ] && host={} || host={}; exec ip netns exec $host \"$@\"",
            self.names[0], self.names[1]
        );
        let mut c = Command::new(nmrun);
        c.args(["-n", &(2 * each).to_string(), "--nodes", "2"]);
        for (name, value) in env {
            c.args(["--env", &format!("{name}={value}")]);
        }
        c.args(["sh", "-c", &script, "sh", JOB]).args(case);
        run(&mut c)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(e) = ip(&["netns", "del", name]) {
                eprintln!("{e}");
            }
        }
    }
}

/// The hosts, or none if the test is skipped.
#[track_caller]
fn hosts(test: &str) -> Option<Hosts> {
    launcher_or_skip(test, "ip", "iproute2")?;
    match Hosts::new() {
        Ok(hosts) => Some(hosts),
        Err(why) => {
            launch::skip(&format!("SKIPPED: {test}: no network namespaces ({why}); run it as root"));
            None
        }
    }
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
    hosts.run_ranks(2, &[], &["alltoall"]).expect_ok("alltoall", 4);
    hosts.run_ranks(2, &[], &["random", "6", "6"]).expect_ok("random", 4);
    let done = hosts.run_ranks(2, &[], &["choices"]);
    done.expect_ok("choices", 4);
    for (by, times) in [(" by shm: shm: chosen\n", 4), (" by tcp: ", 8)] {
        assert_eq!(done.output.matches(by).count(), times, "{by}: {done}");
    }
}

#[test]
fn a_host_that_vanishes_is_noticed() {
    for sending in ["0", "1"] {
        let Some(hosts) = hosts("a_host_that_vanishes_is_noticed") else { return };
        let env = [("NETMOD_TCP_DETECT", "4s"), (CUT, Hosts::CUT_OFF)];
        hosts.run(&env, &["silence", sending, "30"]).expect_ok("silence", 2);
    }
}

#[test]
fn a_short_outage_goes_unnoticed() {
    let Some(hosts) = hosts("a_short_outage_goes_unnoticed") else { return };
    hosts.run(&[(CUT, Hosts::CUT_OFF)], &["pause", "1500"]).expect_ok("pause", 2);
}

#[test]
fn a_process_comes_back_from_a_checkpoint_with_another_address() {
    let Some(hosts) = hosts("a_process_comes_back_from_a_checkpoint_with_another_address") else { return };
    let from = Hosts::ADDRESSES[0];
    let env = [(MOVE, &*format!("cable {from}/24 10.77.0.9/24"))];
    hosts.run(&env, &["moving"]).expect_ok("moving", 2);
}

//! Jobs of real processes that are started apart, each by an `nmrun` of its own or by nobody, and
//! meet at a port.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use netmod_tests::jobs::launch::{self, JOB_LIMIT, Outcome, run_within};
use netmod_tests::jobs::meeting::PORT_FILE;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Number of meetings in the long test, 40 by default; `NETMOD_TEST_MEETINGS=1000` is the full
/// length.
const MEETINGS: &str = "NETMOD_TEST_MEETINGS";

/// A name for the file with the port's name, which is not there yet and goes with this.
struct PortFile(PathBuf);

impl PortFile {
    fn new() -> PortFile {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let n = FILES.fetch_add(1, Ordering::Relaxed);
        PortFile(std::env::temp_dir().join(format!("netmod-port-{}-{n}", std::process::id())))
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        // A test that fails early has made no file.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts a case under `nmrun`; of no ranks, as a singleton.
fn start(ranks: u32, file: &Path, limit: Duration, args: &[&str]) -> JoinHandle<Outcome> {
    start_with(ranks, file, limit, args, &[])
}

/// The same with settings.
fn start_with(
    ranks: u32,
    file: &Path,
    limit: Duration,
    args: &[&str],
    settings: &[(&str, &str)],
) -> JoinHandle<Outcome> {
    static NMRUN: OnceLock<PathBuf> = OnceLock::new();
    let mut c = match ranks {
        0 => Command::new(JOB),
        _ => {
            let nmrun = NMRUN.get_or_init(|| launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
            let mut c = Command::new(nmrun);
            c.args(["-n", &ranks.to_string()]).arg(JOB);
            c
        }
    };
    c.args(args).env(PORT_FILE, file).envs(settings.iter().copied());
    // Two jobs at once take as long as two, and longer on a machine that is busy.
    std::thread::spawn(move || run_within(&mut c, limit))
}

fn end(job: JoinHandle<Outcome>) -> Outcome {
    job.join().expect("a job that ends in time")
}

fn meet(hosts: u32, guests: u32, rounds: u32) {
    let file = PortFile::new();
    let (limit, times) = (2 * JOB_LIMIT + rounds * Duration::from_millis(500), rounds.to_string());
    let host = start(hosts, &file.0, limit, &["host", &times]);
    let guest = start(guests, &file.0, limit, &["guest", &times]);
    end(guest).expect_ok("guest", guests.max(1));
    end(host).expect_ok("host", hosts.max(1));
}

#[test]
fn jobs_of_any_size_meet_and_part() {
    for (hosts, guests) in [(0, 0), (2, 3), (4, 1), (1, 0), (0, 3)] {
        meet(hosts, guests, 2);
    }
}

#[test]
fn many_meetings_leave_nothing() {
    let rounds = std::env::var(MEETINGS).map_or(40, |n| n.parse().expect("a number of meetings"));
    meet(2, 2, rounds);
}

/// All of a job is killed while it is connected. The other learns of it, parts from it, and serves
/// the next.
#[test]
fn a_job_that_dies_is_parted_from() {
    let file = PortFile::new();
    let widow = start(3, &file.0, 2 * JOB_LIMIT, &["widow"]);
    let dead = end(start(2, &file.0, 2 * JOB_LIMIT, &["victim"]));
    assert!(!dead.status.success() && dead.ok_ranks("victim") == 0, "{dead}");
    end(start(2, &file.0, 2 * JOB_LIMIT, &["heir"])).expect_ok("heir", 2);
    let widow = end(widow);
    widow.expect_ok("widow", 3);
    assert_eq!(widow.output.matches("a receive from the dead job: rank 0").count(), 3, "{widow}");
    assert_eq!(widow.output.matches("parting from the dead job: ").count(), 3, "{widow}");
}

/// A job is met, and ends before its first message: whoever waits for one is told.
#[test]
fn a_job_that_ends_before_its_first_message_is_noticed() {
    for (hosts, guests) in [(3, 2), (1, 0)] {
        let file = PortFile::new();
        let quick = [("NETMOD_TCP_DETECT", "2s"), ("NETMOD_TCP_CONNECT_TIMEOUT", "4s")];
        let host = start_with(hosts, &file.0, 2 * JOB_LIMIT, &["stood-up"], &quick);
        let dead = end(start(guests, &file.0, 2 * JOB_LIMIT, &["quitter"]));
        assert!(!dead.status.success() && dead.ok_ranks("quitter") == 0, "{dead}");
        let host = end(host);
        host.expect_ok("stood-up", hosts);
        assert!(host.output.contains("has ended, as its host says"), "{host}");
        assert_eq!(host.output.matches("nobody: ").count(), 2 * hosts as usize, "{host}");
    }
}

/// Jobs that die at whatever moment of a meeting hold up nobody: the one that lives is accepted.
#[test]
fn jobs_that_die_while_they_meet_are_passed_over() {
    let file = PortFile::new();
    let quick = [("NETMOD_TCP_DETECT", "2s"), ("NETMOD_TCP_CONNECT_TIMEOUT", "4s")];
    let host = start_with(2, &file.0, 4 * JOB_LIMIT, &["patient"], &quick);
    for delay in ["0", "1", "2", "4", "8", "16", "40"] {
        let dead = end(start_with(2, &file.0, 2 * JOB_LIMIT, &["hasty", delay], &quick));
        assert!(!dead.status.success() && dead.ok_ranks("hasty") == 0, "{dead}");
        assert!(!dead.output.contains("still alive"), "{dead}");
    }
    end(start(2, &file.0, 2 * JOB_LIMIT, &["heir"])).expect_ok("heir", 2);
    end(host).expect_ok("patient", 2);
}

//! Duties of a job under each launcher.

use std::process::Command;
use std::time::Duration;

use super::launch::{MARK, Outcome, run, run_within};

/// Time in which a job must end when a rank has died or has ended it: far longer than it takes, and
/// far below the time after which ranks give up.
const END: Duration = Duration::from_secs(30);

/// Makes the command of a job: a launcher with its options for so many ranks, and the program.
pub type Start<'a> = &'a dyn Fn(u32) -> Command;

fn ok(start: Start<'_>, ranks: u32, case: &str, args: &[&str]) {
    run(start(ranks).arg(case).args(args)).expect_ok(case, ranks);
}

/// Everybody finds everybody, over the launcher's key-value space and barriers.
#[track_caller]
pub fn basics(start: Start<'_>) {
    ok(start, 1, "ring", &[]);
    // Few of each: these say whether the launcher does its part, not what the transport bears.
    for (case, count) in [("ring", "50"), ("alltoall", "20000"), ("barriers", "50"), ("reuse", "3")] {
        ok(start, 4, case, &[count]);
    }
}

/// The process manager alone: `start` makes a job of 4 of the program `netmod-pm`. `nodes` is where
/// its ranks are, `here` how many each of them has on its node.
#[track_caller]
pub fn process_manager(start: Start<'_>, nodes: &str, here: u32) {
    let done = run(&mut start(4));
    assert!(done.status.success(), "{done}");
    for rank in 0..4 {
        let line = format!("rank {rank} of 4: nodes {nodes}, {here} here\n");
        assert!(done.output.contains(&line), "{done}");
    }
}

/// Random messages between all ranks, each byte checked.
#[track_caller]
pub fn random_traffic(start: Start<'_>, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        ok(start, 4, "random", &[&seed.to_string()]);
    }
}

/// A rank that aborts takes the job along, soon and completely.
#[track_caller]
pub fn abort(start: Start<'_>) -> Outcome {
    let done = run_within(start(4).args(["abort", "2", "9"]), END);
    assert!(!done.status.success(), "{done}");
    // A rank's report may be lost with the launcher. Others may still see connections break.
    assert!(!done.output.contains("a message that nobody has sent"), "{done}");
    assert_eq!(done.ok_ranks("abort"), 0, "{done}");
    nobody_is_left(&done);
    done
}

/// A rank that is killed does not leave the others behind: the launcher ends them, or they notice.
#[track_caller]
pub fn death(start: Start<'_>) -> Outcome {
    let done = run_within(start(4).args(["lose", "1"]), END);
    assert!(!done.status.success(), "{done}");
    assert!(!done.output.contains("although rank 1 is dead"), "{done}");
    assert!(!done.output.contains("not with an error that names"), "{done}");
    assert_eq!(done.ok_ranks("lose"), 0, "{done}");
    nobody_is_left(&done);
    done
}

/// No process of the job goes on when its launcher has ended.
#[track_caller]
fn nobody_is_left(done: &Outcome) {
    let mark = format!("{MARK}={}", done.mark);
    let marked = |pid: &str| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let job =
            std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(b"netmod-job"));
        job && environment.split(|b| *b == 0).any(|entry| entry == mark.as_bytes())
    };
    // A process that was killed a moment ago may still be on its way out.
    let end = std::time::Instant::now() + END;
    loop {
        let all = std::fs::read_dir("/proc").expect("the processes");
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let left: Vec<String> =
            names.filter(|name| name.bytes().all(|b| b.is_ascii_digit()) && marked(name)).collect();
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < end, "processes {left:?} were left behind by {done}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

//! One rank of a job over shared memory is killed, at every stage and at any moment: the others go
//! on, nobody gets half a message, and nothing is left in the folder of the segment.
//!
//! `NETMOD_TEST_KILLS` and `NETMOD_TEST_KILLS_SEED` as in `kills`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod_tests::jobs::launch::{self, Outcome, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// A folder for segments.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("/dev/shm/test-netmod-kills-{}-{n}", std::process::id()).into();
        std::fs::create_dir(&path).expect("a folder in /dev/shm");
        Folder(path)
    }

    /// Runs a case of which all ranks but one come to their end; nothing is left behind.
    #[track_caller]
    fn survived(&self, ranks: u32, case: &[&str]) {
        self.survived_with(ranks, case, &[]);
    }

    /// The same with settings.
    #[track_caller]
    fn survived_with(&self, ranks: u32, case: &[&str], settings: &[(&str, &str)]) {
        let done = self.killed(ranks, case, settings);
        assert_eq!(done.ok_ranks(case[0]), ranks as usize - 1, "{case:?} {settings:?}: {done}");
    }

    /// Runs a case in which one rank is killed; nothing is left behind.
    #[track_caller]
    fn killed(&self, ranks: u32, case: &[&str], settings: &[(&str, &str)]) -> Outcome {
        let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
        c.args(["-n", &ranks.to_string(), "--no-kill", JOB]).args(case);
        c.envs(settings.iter().copied());
        let done = run(c.env("NETMOD", "shm").env("NETMOD_SHM_DIR", &self.0));
        done.expect_code(128 + 9);
        let left: Vec<_> = std::fs::read_dir(&self.0).expect("the folder").flatten().collect();
        assert!(left.is_empty(), "{case:?} has left {left:?}");
        done
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Nobody but the netmod can tell: nothing was written, and the process manager is not asked.
#[test]
fn before_the_first_message_if_nobody_else_tells() {
    let folder = Folder::new();
    folder.survived_with(5, &["unmet", "1", "1"], &[("NETMOD_FAILURE_CHECK", "0s")]);
}

#[test]
fn at_each_stage() {
    let folder = Folder::new();
    for stage in 2..=10u32 {
        let ranks = 2 + stage % 4;
        folder.survived(ranks, &["kill", &stage.to_string(), "1", &stage.to_string()]);
    }
}

/// Before the job has started the name of the segment is still there; whoever lives removes it.
#[test]
fn during_init() {
    let folder = Folder::new();
    for seed in 1..=4u32 {
        folder.survived(4, &["kill", "1", "2", &seed.to_string()]);
    }
    folder.survived(3, &["kill", "0", "1", "1"]);
}

/// Rank 0 may not yet have told the job's key: then all say so, and the last one removes the name.
#[test]
fn rank_0_during_init() {
    let folder = Folder::new();
    for seed in 1..=8u32 {
        let done = folder.killed(3, &["kill", "1", "0", &seed.to_string()], &[]);
        let no_key = done.output.matches("has published no job key").count();
        let survived = done.ok_ranks("kill");
        assert!(matches!((survived, no_key), (2, 0) | (0, 2)), "seed {seed}: {done}");
    }
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn at_any_moment_of_random_traffic() {
    let folder = Folder::new();
    let (runs, first) = (number("NETMOD_TEST_KILLS", 6), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let ranks = [2, 3, 4, 6][(seed % 4) as usize];
        println!("random kill: seed {seed}, {ranks} ranks");
        folder.survived(ranks, &["mortal", &seed.to_string()]);
    }
    println!("random kills: {runs}");
}

/// Kills during large messages: announced and not received, in their middle, and at any moment.
/// With so little memory to be registered at once the middle has many windows; with more, a get is
/// copied by both sides.
#[test]
fn in_large_messages_of_each_mode() {
    let folder = Folder::new();
    let (runs, first) = (number("NETMOD_TEST_KILLS", 2), number("NETMOD_TEST_KILLS_SEED", 1));
    let little = ("NETMOD_SHM_REGISTER_MAX", "1M");
    let joint = ("NETMOD_SHM_JOINT", "on");
    for (mode, more) in [("put", little), ("get", little), ("get", joint), ("coop", little), ("auto", little)]
    {
        let settings = [("NETMOD_LMT", mode), ("NETMOD_LMT_MIN", "1"), more];
        for stage in ["3", "10"] {
            folder.survived_with(3, &["kill", stage, "1", "5"], &settings);
        }
        for seed in first..first + runs {
            let ranks = [2, 3, 4][(seed % 3) as usize];
            println!("random kill: {settings:?}, seed {seed}, {ranks} ranks");
            folder.survived_with(ranks, &["mortal", &seed.to_string()], &settings);
        }
    }
}

//! Jobs of real processes under this workspace's own launcher, `nmrun`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use netmod_core::config::SPIN_MANY;
use netmod_tests::jobs::launch::{self, EACH_NETMOD, OVER_TCP, Outcome, run, run_alone};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// `nmrun` with options, then the program; its case and arguments are up to the caller.
fn nmrun(ranks: u32, options: &[&str]) -> Command {
    static NMRUN: OnceLock<PathBuf> = OnceLock::new();
    let mut c = Command::new(NMRUN.get_or_init(|| launch::workspace_program(JOB, "netmod-pmi", "nmrun")));
    c.args(["-n", &ranks.to_string()]).args(options).arg(JOB);
    c
}

/// Starts a job like [`nmrun`], over TCP.
fn over_tcp(ranks: u32, options: &[&str]) -> Command {
    let mut c = nmrun(ranks, options);
    c.env(OVER_TCP.0, OVER_TCP.1);
    c
}

/// Over each netmod.
#[track_caller]
fn ok(ranks: u32, case: &str, args: &[&str]) {
    for netmods in EACH_NETMOD {
        run(nmrun(ranks, &[]).arg(case).args(args).env("NETMOD", netmods)).expect_ok(case, ranks);
    }
}

/// A job that needs much of the machine, over each netmod.
#[track_caller]
fn ok_alone(ranks: u32, options: &[&str], case: &[&str]) -> [Outcome; 2] {
    EACH_NETMOD.map(|netmods| {
        let done = run_alone(nmrun(ranks, options).args(case).env("NETMOD", netmods));
        done.expect_ok(case[0], ranks);
        done
    })
}

/// A job that a scheduler has confined to one core shares it, though the machine has more; ranks
/// that are bound to a core each do not.
#[test]
fn ranks_know_whether_they_share_cores() {
    let Some(taskset) =
        launch::launcher_or_skip("ranks_know_whether_they_share_cores", "taskset", "util-linux")
    else {
        return;
    };
    for netmods in EACH_NETMOD {
        let nmrun = nmrun(2, &[]);
        let mut confined = Command::new(&taskset);
        confined.args(["-c", "0"]).arg(nmrun.get_program()).args(nmrun.get_args());
        run(confined.args(["cores", "1"]).env("NETMOD", netmods)).expect_ok("cores", 2);
        if launch::cores() < 2 {
            launch::skip("SKIPPED: ranks_know_whether_they_share_cores: bound ranks need two cores");
            continue;
        }
        let mut bound = Command::new(nmrun.get_program());
        bound.args(["-n", "2", "sh", "-c", "exec taskset -c $PMI_RANK \"$0\" cores 0", JOB]);
        run(bound.env("NETMOD", netmods)).expect_ok("cores", 2);
        // Ranks that their launcher has let go where they like, and of which each but one has bound
        // itself.
        let mut odd = Command::new(nmrun.get_program());
        let script = "[ $PMI_RANK = 0 ] && set -- taskset -c 0; exec \"$@\" \"$0\" cores $(($PMI_RANK == 0))";
        odd.args(["-bind-to", "none", "-n", "2", "sh", "-c", script, JOB]);
        run(odd.env("NETMOD", netmods)).expect_ok("cores", 2);
    }
}

#[test]
fn ranks_fork() {
    ok(2, "forks", &["2"]);
}

#[test]
fn children_of_ranks_do_nothing_that_others_see() {
    ok(2, "children", &[]);
}

#[test]
fn one_waits_for_the_dead_and_the_others_talk() {
    for netmods in EACH_NETMOD {
        let done = run(nmrun(5, &["--no-kill"]).args(["widowed", "1"]).env("NETMOD", netmods));
        assert_eq!(done.ok_ranks("widowed"), 4, "{done}");
    }
}

/// No message waits for the launcher: neither those of ranks that know each other nor, for it, the
/// first one to a rank whose card is needed.
#[test]
fn a_stopped_launcher_stops_no_ring() {
    for netmods in EACH_NETMOD {
        let done =
            run(nmrun(4, &[]).arg("stopped").env("NETMOD", netmods).env("NETMOD_FAILURE_CHECK", "10ms"));
        done.expect_ok("stopped", 4);
    }
}

/// A job whose launcher is killed, with a shell between it and the ranks: what the ranks have said
/// when all have ended.
fn orphans(options: &str, go_on: u32, netmods: &str) -> Outcome {
    let nmrun = launch::workspace_program(JOB, "netmod-pmi", "nmrun");
    // `cat` ends when nobody can write any more.
    let script =
        format!("{} -n 3 {options} sh -c '{JOB} orphaned {go_on}; true' 2>&1 | cat", nmrun.display());
    run(Command::new("sh").args(["-c", &script]).env("NETMOD", netmods).env("NETMOD_FAILURE_CHECK", "100ms"))
}

#[test]
fn ranks_end_with_a_launcher_that_is_killed() {
    for netmods in EACH_NETMOD {
        let done = orphans("", 0, netmods);
        for rank in 0..3 {
            let told = format!("rank {rank}: the process manager is gone, and rank {rank} ends");
            assert!(done.output.contains(&told), "{done}");
        }
    }
}

#[test]
fn ranks_that_are_told_to_go_on_do_so_without_a_launcher() {
    let done = orphans("--no-kill", 1, "shm,tcp");
    for rank in 0..3 {
        assert!(done.output.contains(&format!("rank {rank} goes on")), "{done}");
    }
}

/// A launcher of PMI-1 for one rank, at a port: it takes its time for the second value and for the
/// goodbye.
fn slow_launcher(pause: Duration) -> std::io::Result<(SocketAddr, JoinHandle<std::io::Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    let serve = move || {
        let mut to = listener.accept()?.0;
        let mut values = HashMap::new();
        for line in BufReader::new(to.try_clone()?).lines() {
            let line = line?;
            let words: HashMap<&str, &str> =
                line.split(' ').filter_map(|word| word.split_once('=')).collect();
            let word = |name| words.get(name).copied().unwrap_or_default();
            let reply = match word("cmd") {
                "initack" => "cmd=initack rc=0\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0",
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
                "get_maxes" => "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
                "get_appnum" => "cmd=appnum rc=0 appnum=0",
                "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=slow",
                "put" => {
                    values.insert(word("key").to_owned(), word("value").to_owned());
                    std::thread::sleep(if values.len() == 2 { pause } else { Duration::ZERO });
                    "cmd=put_result rc=0"
                }
                "get" => match values.get(word("key")) {
                    Some(value) => &format!("cmd=get_result rc=0 value={value}"),
                    None => "cmd=get_result rc=1",
                },
                "barrier_in" => "cmd=barrier_out rc=0",
                "finalize" => {
                    std::thread::sleep(pause);
                    "cmd=finalize_ack rc=0"
                }
                other => return Err(std::io::Error::other(format!("unexpected {other}"))),
            };
            writeln!(to, "{reply}")?;
        }
        Ok(())
    };
    Ok((at, std::thread::spawn(serve)))
}

/// At its start and at its end: it says so after a second, and waits.
#[test]
fn a_rank_says_that_it_waits_for_its_launcher() {
    let (at, server) = slow_launcher(Duration::from_millis(2500)).expect("a port");
    let mut c = Command::new(JOB);
    c.arg("ring").env("PMI_PORT", at.to_string()).env("PMI_ID", "0").env("NETMOD", "tcp");
    let done = run(&mut c);
    done.expect_ok("ring", 1);
    server.join().expect("no panic").expect("it understands its rank");
    for what in ["storing a value (put): the launcher", "finalize: the launcher"] {
        assert_eq!(done.output.matches(&format!("{what} has not answered for 1s")).count(), 1, "{done}");
    }
}

#[test]
fn ring() {
    for ranks in [1, 2, 3, 8] {
        ok(ranks, "ring", &[]);
    }
    ok(2, "ring", &["20", "1000000"]);
}

#[test]
fn all_to_all() {
    for ranks in [1, 2, 5, 16] {
        ok(ranks, "alltoall", &[]);
    }
}

#[test]
fn all_to_all_of_64() {
    ok_alone(64, &[], &["alltoall"]);
}

#[test]
fn many_to_one() {
    for ranks in [2, 3, 9] {
        ok(ranks, "many-to-one", &[]);
    }
}

/// 64 senders, of whose messages the receiver could keep a fraction only.
#[test]
fn a_flood_from_64() {
    for done in ok_alone(65, &["--env", "NETMOD_UNEXPECTED_MAX=16M"], &["flood"]) {
        assert!(done.output.contains("flooded by 64: "), "{done}");
    }
}

/// A few messages never use up the receiver's room.
#[test]
fn a_flood_that_is_none() {
    ok(3, "flood", &["3", "1"]);
    ok(2, "flood", &["0", "1"]);
}

/// Sends as many messages as `NETMOD_TEST_FLOOD` says.
#[test]
fn thousands_of_sends_under_way() {
    let many = std::env::var("NETMOD_TEST_FLOOD").unwrap_or_else(|_| "10000".into());
    ok_alone(2, &[], &["flood", &many]);
}

#[test]
fn random_traffic() {
    for (ranks, seeds) in [(2, 1..6), (3, 6..10), (5, 10..13)] {
        for seed in seeds {
            ok(ranks, "random", &[&seed.to_string()]);
        }
    }
}

#[test]
fn random_traffic_of_16() {
    ok_alone(16, &[], &["random", "77", "6"]);
}

/// Every message is queued somewhere: the kernel takes little at once.
#[test]
fn random_traffic_with_small_buffers() {
    for seed in ["21", "22"] {
        let mut c = over_tcp(3, &["--env", "NETMOD_TCP_SNDBUF=4096", "--env", "NETMOD_TCP_RCVBUF=4096"]);
        run(c.args(["random", seed, "4"])).expect_ok("random", 3);
    }
}

/// Rendezvous for everything, and for nothing.
#[test]
fn random_traffic_with_other_thresholds() {
    for limit in ["NETMOD_EAGER_MAX=0", "NETMOD_EAGER_MAX=1048576"] {
        for netmods in EACH_NETMOD {
            let mut c = nmrun(4, &["--env", limit]);
            run(c.args(["random", "31"]).env("NETMOD", netmods)).expect_ok("random", 4);
        }
    }
}

/// Connections break at random points. `NETMOD_TEST_BREAKS` is how many breaks each pair of ranks
/// goes through at least, if the default is not enough.
#[test]
fn nothing_is_lost_when_connections_break() {
    let more = std::env::var("NETMOD_TEST_BREAKS").unwrap_or_default();
    for (ranks, seed, rounds) in [(2, "1", "12"), (3, "2", "6"), (4, "3", "4")] {
        let rounds = if more.is_empty() { rounds } else { &more };
        let done =
            run(over_tcp(ranks, &["--env", "NETMOD_TCP_RESUME_LOCAL=yes"]).args(["broken", seed, rounds]));
        done.expect_ok("broken", ranks);
    }
}

#[test]
fn checkpoints() {
    for (ranks, seed, checksum) in [(2, "1", "off"), (4, "2", "off"), (3, "3", "on")] {
        let env = ["--env", &format!("NETMOD_CHECKSUM={checksum}")];
        run(over_tcp(ranks, &env).args(["checkpoint", seed])).expect_ok("checkpoint", ranks);
    }
}

/// With the default netmods.
#[test]
fn checkpoints_of_ranks_that_share_memory() {
    for (ranks, seed, lmt) in [
        (2, "1", "get"),
        (4, "2", "get"),
        (3, "3", "auto"),
        (2, "4", "auto"),
        (3, "5", "coop"),
        (4, "6", "coop"),
    ] {
        run(nmrun(ranks, &["--env", &format!("NETMOD_LMT={lmt}")]).args(["checkpoint", seed, "20"]))
            .expect_ok("checkpoint", ranks);
    }
}

/// All at once, to other ports, of which they learn by the process manager.
#[test]
fn ranks_that_all_move_for_a_checkpoint() {
    for (ranks, seed) in [(2, "1"), (4, "2")] {
        run(over_tcp(ranks, &[]).args(["moves", seed])).expect_ok("moves", ranks);
    }
}

#[test]
fn barriers() {
    for ranks in [1, 2, 7] {
        ok(ranks, "barriers", &[]);
    }
}

#[test]
fn disconnect_and_reuse() {
    for ranks in [2, 5, 8] {
        ok(ranks, "reuse", &[]);
    }
}

/// More than the kernel moves, and a 32-bit number counts, at once.
#[test]
fn more_than_two_gib() {
    ok_alone(2, &[], &["large"]);
}

#[test]
fn far_more_ranks_than_cores() {
    ok_alone(64, &[], &["crowd"]);
}

/// Numbers behind words in the line that rank 0 says.
fn told(done: &Outcome, ranks: u32, words: [&str; 3]) -> [u64; 3] {
    let start = format!("{ranks} ranks: ");
    let line = done.output.lines().find(|l| l.starts_with(&start)).unwrap_or_default();
    let all: Vec<&str> = line.split(' ').collect();
    words.map(|word| {
        let at = all.iter().position(|w| *w == word).unwrap_or_else(|| panic!("no {word} in {done}"));
        all[at + 1].parse().expect("a number")
    })
}

/// 64 KiB between each two of 32 ranks: what they share is what is documented, all of it allocated
/// at the start. Ranks that wait yield to others soon, and so are interrupted more often than with
/// as many polls as are made where each rank has a core.
#[test]
fn all_to_all_of_32_without_a_spin_storm() {
    const RANKS: u32 = 32;
    const ROUNDS: u32 = 3;
    let words = ["interrupted", "segment", "allocated"];
    let case = ["crush", "65536", "3"];
    let [shm, tcp] = ok_alone(RANKS, &[], &case);
    let [_, segment, allocated] = told(&shm, RANKS, words);
    assert!(segment > 0 && segment <= u64::from(RANKS) * (2 << 20), "{shm}");
    assert!(allocated >= segment && allocated <= segment + 4096, "{shm}");
    assert_eq!(told(&tcp, RANKS, words)[1..], [0, 0], "{tcp}");
    if launch::cores() >= RANKS {
        return;
    }
    // The kernel counts a yield as an interruption; sleeps depend on who comes late.
    let interrupted = |spin: &str| -> u64 {
        let options = ["--env", &format!("NETMOD_SPIN={spin}"), "--env", "NETMOD=shm"];
        let count = || {
            let done = run_alone(nmrun(RANKS, &options).args(case));
            done.expect_ok(case[0], RANKS);
            told(&done, RANKS, words)[0]
        };
        (0..ROUNDS).map(|_| count()).sum()
    };
    let (yielding, polling) = (interrupted("auto"), interrupted(&SPIN_MANY.to_string()));
    assert!(4 * yielding > 5 * polling, "{yielding} and {polling} times in {ROUNDS} rounds");
}

/// More ranks than this machine has cores, or as many, and those that wait use none of them.
#[test]
fn an_idle_rank_uses_no_processor() {
    for ranks in [2, 5] {
        ok(ranks, "idle", &[]);
    }
}

#[test]
fn a_rank_is_late() {
    ok(4, "late", &[]);
}

#[test]
fn pmi_over_tcp() {
    run(nmrun(8, &["--pmi-port"]).arg("alltoall")).expect_ok("alltoall", 8);
}

#[test]
fn labelled_output() {
    let done = run(nmrun(3, &["--label"]).arg("ring"));
    done.expect_ok("ring", 3);
    for rank in 0..3 {
        assert!(done.output.contains(&format!("[{rank}] rank {rank}: ring ok\n")), "{done}");
    }
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let done = run(nmrun(4, &[]).args(["abort", "2", "9"]));
    done.expect_code(9);
    assert!(done.output.contains("rank 2 aborted the job with code 9"), "{done}");
}

/// A process that nobody ends runs what is registered for its exit, which frees memory.
#[test]
fn memory_of_an_aborting_rank_is_taken_back() {
    let done = run(nmrun(2, &[]).arg("abort-late").env("NETMOD", "shm").env("NETMOD_LMT", "put"));
    if !done.output.contains("SKIPPED") {
        done.expect_code(9);
        assert!(done.output.contains("rank 1: 0 freed bytes were written to"), "{done}");
    }
}

#[test]
fn leaving_without_finalizing_ends_the_job() {
    let done = run(nmrun(4, &[]).args(["leave", "1"]));
    done.expect_code(1);
    assert!(done.output.contains("rank 1 exited with status 0 after PMI init"), "{done}");
    assert_eq!(done.ok_ranks("leave"), 0, "{done}");
}

#[test]
fn a_death_ends_the_job() {
    let done = run(nmrun(4, &[]).args(["die", "1"]));
    done.expect_code(128 + 9);
    assert!(done.output.contains("rank 1 was killed by signal 9"), "{done}");
}

/// The others see the loss, each on the connection with the dead rank alone, and finish their work.
#[test]
fn others_survive_a_death() {
    let jobs = [(2, 1), (3, 0), (5, 4), (8, 3)].map(|job| EACH_NETMOD.map(|netmods| (job, netmods)));
    for ((ranks, victim), netmods) in jobs.into_iter().flatten() {
        let mut c = nmrun(ranks, &["--no-kill"]);
        let done = run(c.args(["die", &victim.to_string()]).env("NETMOD", netmods));
        done.expect_code(128 + 9);
        assert_eq!(
            done.output.matches(&format!(": survived rank {victim}\n")).count(),
            ranks as usize - 1,
            "{done}"
        );
        assert_eq!(done.ok_ranks("die"), ranks as usize - 1, "{done}");
    }
}

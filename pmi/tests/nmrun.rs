//! `nmrun` with real processes: exchange, failures, signals, output, and cleanup.

mod common;

use common::*;
use netmod_pmi::launch::{LaunchError, RankExit};
use netmod_pmi::{Launcher, ProcessManager};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn probe_entry() {
    common::probe_entry();
}

fn nmrun_probe(options: &[&str], part: &str) -> std::process::Output {
    let mut command = nmrun(options);
    probe(&mut command, part);
    run(command)
}

fn nmrun_sh(options: &[&str], script: &str) -> std::process::Output {
    let mut command = nmrun(options);
    command.args(["sh", "-c", script]);
    run(command)
}

fn check_exchange(options: &[&str], ranks: usize) {
    check_exchange_on(options, &vec![0; ranks], |_| ranks);
}

/// Checks that the ranks are on these nodes, and that `here(node)` of them are told to be local.
fn check_exchange_on(options: &[&str], nodes: &[u32], here: impl Fn(u32) -> usize) {
    let output = nmrun_probe(options, "exchange");
    let ranks = nodes.len();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = said(&output);
    assert_eq!(said.len(), ranks, "{}", text(&output));
    let job = said[0].rsplit(' ').next().unwrap().to_owned();
    for (rank, line) in said.iter().enumerate() {
        let expected =
            format!("rank {rank:03} of {ranks} nodes {nodes:?} local {} job {job}", here(nodes[rank]));
        assert_eq!(*line, expected);
    }
}

#[test]
fn sixty_four_ranks_exchange_5_kb_by_descriptor() {
    check_exchange(&["-n", "64"], 64);
}

#[test]
fn sixty_four_ranks_exchange_5_kb_by_port() {
    check_exchange(&["-n", "64", "--pmi-port"], 64);
}

#[test]
fn one_rank_and_three_ranks_exchange() {
    check_exchange(&[], 1);
    check_exchange(&["-n", "3"], 3);
    check_exchange(&["-n", "3", "--pmi-port", "--label"], 3);
}

/// Blocks of equal size, of which the last may be smaller.
#[test]
fn ranks_are_told_of_several_nodes() {
    check_exchange_on(&["-n", "4", "--nodes", "2"], &[0, 0, 1, 1], |_| 2);
    check_exchange_on(&["-n", "5", "--nodes", "2"], &[0, 0, 0, 1, 1], |node| 3 - node as usize);
    check_exchange_on(&["-n", "3", "--nodes", "7", "--pmi-port"], &[0, 1, 2], |_| 1);
    let said = nmrun_sh(&["-n", "3", "--nodes", "2"], "echo $PMI_RANK: $MPI_LOCALRANKID of $MPI_LOCALNRANKS");
    let mut lines: Vec<_> = text(&said).lines().filter(|l| !l.is_empty()).map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0: 0 of 2", "1: 1 of 2", "2: 0 of 1"]);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    for options in [&["-n", "4"][..], &["-n", "4", "--pmi-port"], &["-n", "4", "--no-kill"]] {
        let output = nmrun_probe(options, "abort");
        assert_eq!(output.status.code(), Some(7), "{}", text(&output));
        let text = text(&output);
        assert!(text.contains("nmrun: rank 1 aborted the job with code 7"), "{text}");
        assert!(text.contains("the test wants it"), "{text}");
    }
}

/// An abort ends all ranks, also those that ignore SIGTERM or are stopped, and soon: in a second on
/// an idle machine, in a few here.
#[test]
fn abort_ends_ranks_that_ignore_it() {
    for options in [&["-n", "4"][..], &["-n", "4", "--no-kill", "--pmi-port"]] {
        let scratch = Scratch::new("stubborn");
        let mut command = nmrun(options);
        // An ignored signal stays ignored in the program that the shell executes.
        command.args(["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\""]);
        probe(&mut command, "abort-stubborn");
        command.env("PROBE_DIRECTORY", &scratch.0);
        let output = run(command);
        let ended = since_epoch();
        assert_eq!(output.status.code(), Some(7), "{}", text(&output));
        for rank in 0..4 {
            let pid = std::fs::read_to_string(scratch.0.join(rank.to_string())).unwrap().parse().unwrap();
            assert!(!is_alive(pid), "rank {rank} is left");
        }
        let said = said(&output);
        let begun = said.iter().find_map(|line| line.strip_prefix("rank 1 aborts at ")).unwrap();
        let took = ended.saturating_sub(Duration::from_millis(begun.parse().unwrap()));
        println!("the abort took {took:?}");
        assert!(took < Duration::from_secs(8), "{took:?}");
    }
}

#[test]
fn a_rank_that_dies_by_signal_ends_the_others() {
    let output = nmrun_probe(&["-n", "4"], "die");
    assert_eq!(output.status.code(), Some(128 + 6), "{}", text(&output));
    let text = text(&output);
    assert!(
        text.contains("nmrun: rank 1 was killed by signal 6 (SIGABRT); ending the other 3 ranks"),
        "{text}"
    );
}

#[test]
fn an_end_without_finalize_is_a_failure_even_with_status_0() {
    let output = nmrun_probe(&["-n", "3"], "forget");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let text = text(&output);
    assert!(text.contains("rank 1 exited with status 0") && text.contains("without PMI finalize"), "{text}");
}

#[test]
fn a_barrier_that_cannot_end_is_a_failure() {
    // In either order of the rank's end and the barrier.
    for part in ["leave", "leave-first"] {
        let output = nmrun_probe(&["-n", "3"], part);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        let text = text(&output);
        let told = "waits in a barrier that rank 0, which has ended, cannot enter";
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn malformed_lines_are_the_fault_of_the_rank_that_sent_them() {
    let output = nmrun_probe(&["-n", "3", "--pmi-port"], "malformed");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let text = text(&output);
    assert!(text.contains("nmrun: rank 1 said \"how do you do?\" over PMI"), "{text}");
}

#[test]
fn with_no_kill_the_others_continue() {
    for options in [&["-n", "4", "--no-kill"][..], &["-n", "4", "--no-kill", "--pmi-port"]] {
        let output = nmrun_probe(options, "survive");
        assert_eq!(output.status.code(), Some(5), "{}", text(&output));
        let survivors = ["rank 0 survived", "rank 2 survived", "rank 3 survived"];
        assert_eq!(said(&output), survivors, "{}", text(&output));
        assert!(text(&output).contains("rank 1 exited with status 5; the others go on"));
    }
}

#[test]
fn exit_codes_are_those_of_the_first_failure() {
    for (script, code) in [
        ("exit 0", 0),
        ("[ $PMI_RANK = 2 ] && exit 42; exec sleep 100", 42),
        ("[ $PMI_RANK = 0 ] && kill -TERM $$; exec sleep 100", 128 + 15),
        ("[ $PMI_RANK = 1 ] && exit 255; exec sleep 100", 255),
    ] {
        let output = nmrun_sh(&["-n", "3"], script);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", text(&output));
        let lines = String::from_utf8_lossy(&output.stderr).lines().count();
        assert_eq!(lines, usize::from(code != 0), "{script}: {}", text(&output));
    }
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let output =
        nmrun_sh(&["-n", "3"], "trap '' TERM; [ $PMI_RANK = 1 ] && exit 3; while :; do sleep 1; done");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}

#[test]
fn the_time_limit_ends_the_job() {
    let output = nmrun_sh(&["-n", "2", "--timeout", "0.3"], "exec sleep 100");
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    assert!(text(&output).contains("the time limit of 0.3 s has passed"));
    let output = nmrun_sh(&["-n", "2", "--timeout", "100"], "exit 0");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn labels_stand_before_each_line() {
    let script = "printf 'a\\nb'; printf 'e\\n' >&2";
    let output = nmrun_sh(&["-n", "3", "--label"], script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for (bytes, expected) in [
        (&output.stdout, &["[0] a", "[0] b", "[1] a", "[1] b", "[2] a", "[2] b"][..]),
        (&output.stderr, &["[0] e", "[1] e", "[2] e"]),
    ] {
        let text = String::from_utf8_lossy(bytes);
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected);
    }
}

#[test]
fn much_labelled_output_arrives_whole() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo \"line $i of some length\"; i=$((i+1)); done";
    let output = nmrun_sh(&["-n", "4", "--label"], script);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    for rank in 0..4 {
        let prefix = format!("[{rank}] line ");
        let numbers: Vec<u32> = text
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next()?.parse().ok())
            .collect();
        assert!(numbers.into_iter().eq(0..3000), "rank {rank}");
    }
}

/// Starts `nmrun` whose labelled stdout nobody reads; returns it, its pipe, and the ranks' folder
/// for marker files.
fn unread(
    options: &[&str],
    script: &str,
    scratch: &Scratch,
) -> (std::process::Child, std::process::ChildStdout) {
    let mut command = nmrun(options);
    command.args(["sh", "-c", script]).env("PROBE_DIRECTORY", &scratch.0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

/// Waits for a child without reading what it writes.
fn ends(child: &mut std::process::Child) -> Option<i32> {
    assert!(eventually(|| child.try_wait().unwrap().is_some()), "it does not end");
    child.wait().unwrap().code()
}

/// Rank 0 writes without end; the others exchange values over PMI, and write a little.
#[test]
fn a_reader_that_does_not_read_stops_only_the_rank_that_writes() {
    let scratch = Scratch::new("unread");
    let probe = std::env::current_exe().unwrap();
    let script = format!(
        "export NETMOD_PMI_PROBE=exchange; \
         [ $PMI_RANK = 0 ] && yes & \
         {} --exact probe_entry --nocapture --test-threads=1 > /dev/null && echo x > $PROBE_DIRECTORY/$PMI_RANK; wait",
        probe.display()
    );
    let (mut child, stdout) = unread(&["-n", "3", "--label"], &script, &scratch);
    let done = |rank: u32| scratch.0.join(rank.to_string()).exists();
    assert!(eventually(|| (0..3).all(done)), "PMI is not served");
    // The launcher's buffers are bounded, whatever the rank writes.
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let held = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    assert!(held.is_some_and(|kib: u64| kib < 64 * 1024), "{status}");
    send("-TERM", child.id());
    assert_eq!(ends(&mut child), Some(128 + 15));
    drop(stdout);
}

#[test]
fn the_time_limit_and_the_second_signal_hold_while_nobody_reads() {
    let scratch = Scratch::new("unread-limit");
    let script = "echo x > $PROBE_DIRECTORY/$PMI_RANK; exec yes";
    let (mut child, stdout) = unread(&["-n", "2", "--label", "--timeout", "1"], script, &scratch);
    assert_eq!(ends(&mut child), Some(124));
    drop(stdout);

    let scratch = Scratch::new("unread-second");
    let script = "trap '' INT; echo x > $PROBE_DIRECTORY/$PMI_RANK; yes";
    let (mut child, stdout) = unread(&["-n", "2", "--label"], script, &scratch);
    assert!(eventually(|| (0..2).all(|rank| scratch.0.join(rank.to_string()).exists())));
    send("-INT", child.id());
    std::thread::sleep(Duration::from_millis(100));
    send("-INT", child.id());
    assert_eq!(ends(&mut child), Some(128 + 2));
    drop(stdout);
}

/// The ranks have ended, but their output is unread: the launcher waits for the reader until a
/// signal comes.
#[test]
fn output_that_nobody_reads_does_not_keep_the_launcher_for_ever() {
    let scratch = Scratch::new("unread-end");
    let script =
        "i=0; while [ $i -lt 30 ]; do printf '%4000d\\n' $i; i=$((i+1)); done; echo x > $PROBE_DIRECTORY/end";
    let (mut child, stdout) = unread(&["--label"], script, &scratch);
    assert!(eventually(|| scratch.0.join("end").exists()));
    assert!(child.try_wait().unwrap().is_none(), "output is lost");
    send("-TERM", child.id());
    let code = ends(&mut child);
    assert_eq!(code, Some(128 + 15));
    drop(stdout);
}

#[test]
fn what_cannot_be_written_is_a_failure_with_its_cause() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = nmrun(&["-n", "2", "--label", "sh", "-c", "echo x; sleep 0.2"])
        .stdout(full())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = "nmrun: cannot write the output of the ranks to stdout: No space left on device";
    assert!(said.contains(told), "{said}");
    // No message can be written; the exit code shows the failure.
    let status = nmrun(&["--label", "sh", "-c", "echo x >&2"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    // A reader that closes, and a rank that ignores SIGPIPE.
    let mut command =
        nmrun(&["--label", "sh", "-c", "trap '' PIPE; sleep 0.2; echo x; sleep 0.2; echo y; exit 0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 13), "{said}");
    assert!(said.contains("Broken pipe"), "{said}");
    // The help is output, too.
    let status = nmrun(&["--help"]).stdout(full()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn stdin_goes_to_rank_0_only() {
    let mut command = nmrun(&["-n", "3", "--label", "cat"]);
    let path = Scratch::new("stdin");
    let file = path.0.join("input");
    std::fs::write(&file, "hello\n").unwrap();
    command.stdin(std::fs::File::open(&file).unwrap());
    let output = run(command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[0] hello\n");
}

#[test]
fn variables_reach_the_ranks_and_outer_ones_do_not() {
    let script = "echo $PMI_RANK $PMI_SIZE $MPI_LOCALNRANKS $MPI_LOCALRANKID [$PMI_PORT$PMI_ID$PMI_JOBID$PMIX_NAMESPACE$HYDI_CONTROL_FD] $FRUIT $EMPTY.";
    let mut command = nmrun(&["-n", "2", "--env", "FRUIT=a=b", "--env", "EMPTY=", "sh", "-c", script]);
    for name in ["PMI_FD", "PMI_PORT", "PMI_ID", "PMI_JOBID", "PMIX_NAMESPACE", "HYDI_CONTROL_FD"] {
        command.env(name, "99999");
    }
    command.env("PMI_RANK", "7").env("PMI_SIZE", "8").env("MPI_LOCALNRANKS", "9");
    let output = run(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 2 2 0 [] a=b .", "1 2 2 1 [] a=b ."]);
}

#[test]
fn nmrun_within_nmrun_serves_its_own_ranks() {
    let mut command = nmrun(&["-n", "2", env!("CARGO_BIN_EXE_nmrun"), "-n", "3"]);
    probe(&mut command, "exchange");
    let output = run(command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = said(&output);
    assert_eq!(said.len(), 6, "{}", text(&output));
    assert!(said.iter().all(|line| line.contains(" of 3 ")), "{said:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_reported() {
    let output = run(nmrun(&["-n", "2", "no-such-program-anywhere"]));
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output).contains("cannot start \"no-such-program-anywhere\": there is no such program"));
    let output = run(nmrun(&["-n", "2", "/etc/passwd"]));
    assert_eq!(output.status.code(), Some(126));
    assert!(text(&output).contains("permission denied"));
    for options in [
        &["-n", "0", "true"][..],
        &["-n", "x", "true"],
        &["-n", "5000", "true"],
        &["-n", "2"],
        &["--env", "NOVALUE", "true"],
        &["--timeout", "-1", "true"],
        &["--timeout", "nan", "true"],
    ] {
        let output = run(nmrun(options));
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", text(&output));
    }
}

/// Starts `nmrun` with ranks that hang; returns it and their process ids.
fn hanging(scratch: &Scratch, ranks: u32) -> (std::process::Child, Vec<u32>) {
    let mut command = nmrun(&["-n", &ranks.to_string()]);
    probe(&mut command, "hang");
    command.env("PROBE_DIRECTORY", &scratch.0).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let mut pids = Vec::new();
    assert!(eventually(|| {
        let pid = |rank: u32| std::fs::read_to_string(scratch.0.join(rank.to_string())).ok()?.parse().ok();
        pids = (0..ranks).filter_map(pid).collect();
        pids.len() == ranks as usize
    }));
    (child, pids)
}

#[test]
fn a_killed_nmrun_leaves_no_rank_behind() {
    let scratch = Scratch::new("killed");
    let (mut child, pids) = hanging(&scratch, 4);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| !pids.iter().any(|pid| is_alive(*pid))), "{pids:?}");
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn sigterm_and_sigint_reach_the_ranks() {
    for (signal, code) in [("-TERM", 128 + 15), ("-INT", 128 + 2)] {
        let scratch = Scratch::new("signal");
        let (mut child, pids) = hanging(&scratch, 3);
        send(signal, child.id());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code));
        assert!(!pids.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn the_second_signal_kills() {
    let scratch = Scratch::new("second");
    let path = scratch.0.display();
    let script = format!(
        "trap 'echo x > {path}/got-'$PMI_RANK INT; echo $$ > {path}/$PMI_RANK; while :; do sleep 1; done"
    );
    let mut child = nmrun(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
    let exists = |name: &str| scratch.0.join(name).exists();
    assert!(eventually(|| exists("0") && exists("1")));
    send("-INT", child.id());
    assert!(eventually(|| exists("got-0") && exists("got-1")), "the first is forwarded");
    send("-INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
}

/// The signal of `NETMOD_STATUS_SIGNAL` reaches processes that catch it, even behind a shell that
/// does not, and ends nothing.
///
/// Without the setting it is a signal like others.
#[test]
fn the_status_signal_goes_to_processes_that_catch_it() {
    let scratch = Scratch::new("status");
    let path = scratch.0.display();
    let catches = format!(
        "trap 'echo x > {path}/got-'$PMI_RANK USR2; echo x > {path}/$PMI_RANK; \
         until [ -e {path}/go ]; do sleep 0.05; done"
    );
    let script = format!(
        "if [ $PMI_RANK = 2 ]; then echo x > {path}/2; until [ -e {path}/go ]; do sleep 0.05; done; \
         else sh -c '{}'; true; fi",
        catches.replace('\'', "'\\''")
    );
    let started = |env: &str| {
        let child =
            nmrun(&["-n", "3", "--env", env, "sh", "-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
        let ready = |rank: u32| scratch.0.join(rank.to_string()).exists();
        assert!(eventually(|| (0..3).all(ready)));
        child
    };
    let child = started("NETMOD_STATUS_SIGNAL=usr2");
    send("-USR2", child.id());
    assert!(eventually(|| (0..2).all(|rank| scratch.0.join(format!("got-{rank}")).exists())));
    std::fs::write(scratch.0.join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("nmrun: SIGUSR2 passed on to 2 of 3 ranks; the others do not catch it"), "{text}");

    let mut child = started("NETMOD_STATUS_SIGNAL=none");
    send("-USR2", child.id());
    assert_eq!(child.wait().unwrap().code(), None, "ended by the signal itself");
}

#[test]
fn a_rank_takes_what_it_has_started_with_it() {
    let scratch = Scratch::new("group");
    let file = scratch.0.join("pid");
    let script = format!("sleep 100 & echo $! > {}; exit 0", file.display());
    let output = nmrun_sh(&["-n", "1"], &script);
    assert_eq!(output.status.code(), Some(0));
    let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(eventually(|| !is_alive(pid)));
}

#[test]
fn the_library_reports_what_happened() {
    let report = Launcher::new("sh")
        .args(["-c", "echo out of $PMI_RANK; exit $PMI_RANK"])
        .ranks(2)
        .no_kill(true)
        .inherit_stdin(false)
        .capture_rank0(1000)
        .quiet(true)
        .run()
        .unwrap();
    assert_eq!(report.code, 1);
    assert_eq!(report.stdout, b"out of 0\n");
    assert!(!report.stdout_truncated);
    assert_eq!(report.ranks, [RankExit::Status(0), RankExit::Status(1)]);
    let failure = report.failure.unwrap();
    assert_eq!((failure.rank, failure.code), (Some(1), 1));
    assert_eq!(failure.to_string(), "rank 1 exited with status 1");

    let report = Launcher::new("sh").args(["-c", "echo 0123456789"]).capture_rank0(4).run().unwrap();
    assert_eq!((&report.stdout[..], report.stdout_truncated, report.code), (&b"0123"[..], true, 0));

    let error = Launcher::new("no-such-program-anywhere").ranks(2).run().unwrap_err();
    assert!(matches!(error, LaunchError::NotFound { .. }) && error.exit_code() == 127);
    assert!(matches!(Launcher::new("true").ranks(0).run().unwrap_err(), LaunchError::Ranks { ranks: 0 }));
}

#[test]
fn without_a_launcher_this_process_is_a_singleton() {
    if ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE", "SLURM_NTASKS", "SLURM_NPROCS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        // A launcher started the tests themselves, so this needs a process without one.
        return;
    }
    let mut pm = ProcessManager::from_env().unwrap();
    assert!(pm.is_singleton() && pm.size() == 1);
    pm.finalize().unwrap();
}

#[test]
fn failed_ranks_are_told_to_the_survivors() {
    let output = nmrun_probe(&["-n", "3", "--no-kill"], "notice");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert_eq!(said(&output), ["rank 0 noticed [1]", "rank 2 noticed [1]"], "{}", text(&output));
}

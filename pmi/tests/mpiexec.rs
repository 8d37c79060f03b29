//! `nmrun` as `mpiexec`: several programs, variables, folders, binding, and the process table.

mod common;

use common::*;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Output, Stdio};

#[test]
fn probe_entry() {
    common::probe_entry();
}

/// Runs `nmrun` with these words, of which blanks divide all but the last.
fn job(line: &str, script: &str) -> Output {
    let mut command = nmrun(&line.split_whitespace().collect::<Vec<_>>());
    command.args(["sh", "-c", script]);
    run(command)
}

/// Returns the sorted lines of stdout of a job that ends well.
fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn programs_of_one_job_have_consecutive_ranks() {
    let mut command = nmrun(&["-genv", "ALL", "x", "-n", "1", "-env", "OWN=1"]);
    let script = "echo $PMI_RANK of $PMI_SIZE: $0 $ALL$OWN $MPI_LOCALRANKID of $MPI_LOCALNRANKS";
    command.args(["sh", "-c", script, "a", ":", "-np", "3", "-env", "OWN", "2", "sh", "-c", script, "b"]);
    let expected =
        ["0 of 4: a x1 0 of 4", "1 of 4: b x2 1 of 4", "2 of 4: b x2 2 of 4", "3 of 4: b x2 3 of 4"];
    assert_eq!(lines(&run(command)), expected);
    // Any of the programs ends the job.
    let mut command = nmrun(&["-n", "2", "sleep", "100", ":"]);
    command.args(["sh", "-c", "exit 9"]);
    let output = run(command);
    assert_eq!(output.status.code(), Some(9), "{}", text(&output));
    assert!(text(&output).contains("rank 2 exited with status 9; ending the other 2 ranks"));
    let output = run(nmrun(&["-n", "4000", "true", ":", "-n", "97", "true"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cannot start 4097 ranks"), "{}", text(&output));
}

#[test]
fn ranks_know_their_launcher_and_their_program() {
    let mut command = nmrun(&["-n", "1", "-disable-auto-cleanup"]);
    probe(&mut command, "signals");
    command.arg(":");
    probe(&mut command, "signals");
    let output = run(command);
    let expected = ["rank 0 under nmrun (PMI-1) as program 0", "rank 1 under nmrun (PMI-1) as program 1"];
    assert_eq!(said(&output), expected, "{}", text(&output));
}

#[test]
fn a_file_describes_programs() {
    let folder = Scratch::new("configfile");
    let file = folder.0.join("programs");
    std::fs::write(
        &file,
        "# two\n-n 2 sh -c 'echo a $PMI_RANK'\n-wdir /proc sh -c 'echo b $PMI_RANK; pwd'\n",
    )
    .unwrap();
    let mut command = nmrun(&["-l", "-configfile"]);
    command.arg(&file);
    assert_eq!(lines(&run(command)), ["[0] a 0", "[1] a 1", "[2] /proc", "[2] b 2"]);
}

#[test]
fn ranks_start_in_their_folder() {
    let folder = Scratch::new("wdir");
    let program = folder.0.join("here");
    std::fs::write(&program, "#!/bin/sh\npwd\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    let mut command = nmrun(&["-n", "2", "-wdir"]);
    command.arg(&folder.0).arg("./here");
    let place = std::fs::canonicalize(&folder.0).unwrap().display().to_string();
    assert_eq!(lines(&run(command)), [place.clone(), place]);
}

#[test]
fn variables_of_all_kinds_reach_the_ranks() {
    let script = "echo [$A] [$B] [$C] [$D]";
    let mut command =
        nmrun(&["-genv", "A", "1", "-x", "B=2", "-x", "C", "-genvlist", "C", "-env", "D", "a b"]);
    command.args(["sh", "-c", script]).env("C", "3").env("D", "0");
    assert_eq!(lines(&run(command)), ["[1] [2] [3] [a b]"]);
}

#[test]
fn the_time_limit_may_come_from_the_environment() {
    let mut command = nmrun(&["-n", "2", "sleep", "100"]);
    command.env("MPIEXEC_TIMEOUT", "0.3");
    let output = run(command);
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    // The command line comes first.
    let mut command = nmrun(&["-timeout", "100", "true"]);
    command.env("MPIEXEC_TIMEOUT", "0.000001");
    assert_eq!(run(command).status.code(), Some(0));
    let mut command = nmrun(&["true"]);
    command.env("MPIEXEC_TIMEOUT", "soon");
    let output = run(command);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("MPIEXEC_TIMEOUT: not a number of seconds"), "{}", text(&output));
}

#[test]
fn failures_do_not_end_the_others_if_they_are_not_to() {
    let output = job(
        "-disable-auto-cleanup -print-all-exitcodes -n 3",
        "[ $PMI_RANK = 1 ] && exit 5; sleep 0.2; echo x",
    );
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert_eq!(output.stdout, b"x\nx\n");
    assert!(text(&output).contains("nmrun: exit codes of the ranks: 0, 5, 0"), "{}", text(&output));
}

#[test]
fn other_hosts_are_refused_with_the_way_out() {
    let output = run(nmrun(&["-n", "2", "-hosts", "localhost,192.0.2.1", "true"]));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output);
    assert!(
        said.contains("\"192.0.2.1\" is not this machine") && said.contains("mpiexec.hydra -hosts"),
        "{said}"
    );
    assert_eq!(lines(&job("-hosts localhost -ppn 2", "echo $PMI_SIZE")), ["2", "2"]);
}

/// The processors of a list as in `/proc/PID/status`.
fn count(list: &str) -> usize {
    let ranges = list.trim().split(',').map(|range| match range.split_once('-') {
        Some((first, last)) => last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1,
        None => 1,
    });
    ranges.sum()
}

const ALLOWED: &str = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";

#[test]
fn ranks_are_bound_where_there_are_cores_for_all() {
    let all = lines(&job("-bind-to none -n 1", ALLOWED)).remove(0);
    assert_eq!(lines(&job("-n 1", ALLOWED)), vec![all.clone(); 1], "a rank alone has all");
    let many = count(&all) + 1;
    let said = lines(&job(&format!("-n {many}"), ALLOWED));
    assert_eq!(said, vec![all.clone(); many], "more ranks than cores move freely");
    let output = job(&format!("-bind-to core -n {many}"), "echo started");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && text(&output).contains("-bind-to none"), "{}", text(&output));
    let one = lines(&job("-bind-to core -n 1", ALLOWED)).remove(0);
    assert!(count(&one) <= count(&all));
    // The rest takes two cores.
    let two = job("-v -n 2", ALLOWED);
    let said = text(&two);
    let shares = lines(&two);
    if said.contains("2 ranks are not bound to processors: the launcher may use 1 core") {
        assert_eq!(shares, [all.clone(), all]);
    } else {
        assert!(shares[0] != shares[1], "{shares:?}");
        assert!(shares.iter().map(|list| count(list)).sum::<usize>() <= count(&all), "{shares:?}");
        assert!(
            said.contains("nmrun: ranks are bound to processors (-bind-to none lets them move): rank 0 to "),
            "{said}"
        );
        assert_eq!(lines(&job("-bind-to none -n 2", ALLOWED)), [all.clone(), all]);
    }
}

#[test]
fn the_log_explains_where_ranks_run() {
    let mut command = nmrun(&["true"]);
    command.env("NETMOD_LOG", "info");
    let said = text(&run(command));
    assert!(said.contains("nmrun: 1 rank is not bound to processors: it is alone"), "{said}");
    let mut command = nmrun(&["true"]);
    command.env("NETMOD_LOG", "warn");
    assert_eq!(text(&run(command)).trim(), "");
}

/// The memory of a process, by the symbols of its executable.
struct Memory {
    file: std::fs::File,
    symbols: Vec<(u64, String)>,
    base: u64,
}

impl Memory {
    /// Returns that of a process, or none if `nm` is missing, which is said.
    fn of(pid: u32) -> Option<Memory> {
        let nm = Command::new("nm").arg(env!("CARGO_BIN_EXE_nmrun")).output();
        let Ok(nm) = nm else {
            assert_ne!(std::env::var("NETMOD_TEST_NO_SKIP").as_deref(), Ok("1"), "nm not installed");
            eprintln!("SKIPPED: the process table: nm not installed (apt-get install binutils)");
            return None;
        };
        let symbols = String::from_utf8(nm.stdout).unwrap();
        let symbols = symbols.lines().filter_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, rest.split_whitespace().last()?.to_owned()))
        });
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let base = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
        let file = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        Some(Memory { file, symbols: symbols.collect(), base })
    }

    fn address(&self, name: &str) -> u64 {
        let found = self.symbols.iter().find(|(_, symbol)| symbol == name);
        self.base + found.unwrap_or_else(|| panic!("{name} is not there")).0
    }

    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn int(&self, at: u64) -> i32 {
        i32::from_ne_bytes(self.bytes(at))
    }

    fn text(&self, at: u64) -> String {
        let letters = (at..).map(|at| self.bytes::<1>(at)[0]).take_while(|byte| *byte != 0);
        String::from_utf8(letters.collect()).unwrap()
    }
}

/// The test does what a debugger does that attaches to the launcher.
#[test]
fn debuggers_find_the_ranks_in_the_process_table() {
    let mut command = nmrun(&["-n", "2", "sleep", "99", ":", "tail", "-f", "/dev/null"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let state = |memory: &Memory| memory.int(memory.address("MPIR_debug_state"));
    let memory = Memory::of(child.id());
    if let Some(memory) = memory {
        // 1: the table is filled.
        assert!(eventually(|| state(&memory) == 1));
        assert_eq!(memory.int(memory.address("MPIR_proctable_size")), 3);
        for name in ["MPIR_Breakpoint", "MPIR_being_debugged", "MPIR_i_am_starter", "MPIR_partial_attach_ok"]
        {
            memory.address(name);
        }
        let table = u64::from_ne_bytes(memory.bytes(memory.address("MPIR_proctable")));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for (row, program) in ["sleep", "sleep", "tail"].iter().enumerate() {
            let at = table + 24 * row as u64;
            let pointer = |at| u64::from_ne_bytes(memory.bytes(at));
            assert_eq!(memory.text(pointer(at)), host.trim());
            assert_eq!(memory.text(pointer(at + 8)), *program);
            let pid = memory.int(at + 16);
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let rank = format!("PMI_RANK={row}");
            assert!(environ.split(|byte| *byte == 0).any(|word| word == rank.as_bytes()), "{pid}: {rank}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

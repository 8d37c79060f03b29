//! Shared parts of the launcher tests.
//!
//! These are the probe (the test program itself, started as a rank), the commands, and a helper
//! that skips tests of programs that are not installed.

// Each test program uses only some of it.
#![allow(dead_code)]

use netmod_pmi::ProcessManager;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Far beyond the time that any test takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The variable with the part that a rank plays; not set in the test program itself.
const PART: &str = "NETMOD_PMI_PROBE";

/// Adds the program to start: this test program, playing `part`.
pub fn probe(command: &mut Command, part: &str) {
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "probe_entry", "--nocapture", "--test-threads=1"]);
    command.env(PART, part);
}

/// Returns `nmrun` with these options.
pub fn nmrun(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nmrun"));
    command.args(options).stdin(Stdio::null());
    command
}

/// Returns `mpiexec.hydra`, or `None` with a message if it is not installed.
///
/// With `NETMOD_TEST_NO_SKIP=1` a test that cannot run fails.
pub fn hydra(test: &str) -> Option<Command> {
    const NAME: &str = "mpiexec.hydra";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(found) = std::env::split_paths(&path).map(|dir| dir.join(NAME)).find(|p| p.is_file()) else {
        let text = format!("{test}: {NAME} not installed (apt-get install mpich)");
        if std::env::var("NETMOD_TEST_NO_SKIP").is_ok_and(|v| v == "1") {
            panic!("{text}");
        }
        // The test harness would capture eprintln!, so that nobody reads it.
        std::io::stderr().write_all(format!("SKIPPED: {text}\n").as_bytes()).unwrap();
        return None;
    };
    let mut command = Command::new(found);
    command.stdin(Stdio::null());
    Some(command)
}

/// Runs a command to its end, with a deadline.
pub fn run(mut command: Command) -> Output {
    let shown = format!("{command:?}");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("{shown} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: out.join().unwrap().unwrap(), stderr: err.join().unwrap().unwrap() }
}

/// Returns both streams, for messages and searches.
pub fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Returns the lines that ranks have written with [`say`], sorted.
pub fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> =
        text.lines().filter_map(|line| line.split_once("PROBE ").map(|(_, said)| said.to_owned())).collect();
    lines.sort();
    lines
}

/// Writes a line at once, so that the lines of ranks do not mix.
fn say(text: &str) {
    std::io::stdout().write_all(format!("\nPROBE {text}\n").as_bytes()).unwrap();
}

/// Returns true if `condition` becomes true before the deadline.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > DEADLINE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Returns true if the process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may contain anything.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Returns true if a process is stopped.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Returns a time that all processes of the machine agree on.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// An empty directory that is removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs the test `probe_entry` of each test program: does nothing unless this process was started
/// as a rank.
pub fn probe_entry() {
    let Ok(part) = std::env::var(PART) else { return };
    let code = match play(&part) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("probe {part}: {error}");
            99
        }
    };
    std::process::exit(code);
}

fn value_of(rank: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u32 * 31 + rank * 7 + i as u32 / 256) as u8).collect()
}

fn play(part: &str) -> Result<(), Box<dyn std::error::Error>> {
    if part == "malformed" {
        return malformed();
    }
    let mut pm = ProcessManager::from_env()?;
    let (rank, size) = (pm.rank(), pm.size());
    match part {
        "exchange" => {
            assert!(pm.get_bytes("nobody")?.is_none());
            pm.put_bytes(&format!("card-{rank}"), &value_of(rank, 5000))?;
            pm.put_bytes(&format!("none-{rank}"), b"")?;
            pm.barrier_begin()?;
            // A real program would do other work between the polls.
            if !pm.barrier_poll()? {
                pm.barrier()?;
            }
            for other in 0..size {
                let card = pm.get_bytes(&format!("card-{other}"))?;
                assert!(card == Some(value_of(other, 5000)), "card of {other}");
                assert_eq!(pm.get_bytes(&format!("none-{other}"))?.as_deref(), Some(&[][..]));
            }
            assert!(pm.get_bytes("nobody")?.is_none());
            assert!(ProcessManager::from_env().is_err(), "a second connection");
            pm.barrier()?;
            let nodes: Vec<_> = (0..size).map(|r| pm.node_of(r).unwrap()).collect();
            pm.finalize()?;
            say(&format!(
                "rank {rank:03} of {size} nodes {nodes:?} local {} job {}",
                pm.local_ranks(),
                pm.job_id()
            ));
        }
        "abort" => {
            pm.barrier()?;
            if rank == 1 {
                pm.abort(7, "the test wants it");
            }
            pm.barrier()?;
        }
        // All ranks ignore SIGTERM; rank 2 is stopped as well.
        "abort-stubborn" => {
            let directory = std::env::var("PROBE_DIRECTORY")?;
            let file = |rank: u32| Path::new(&directory).join(rank.to_string());
            let pid = std::process::id();
            std::fs::write(file(rank), pid.to_string())?;
            pm.put_bytes(&format!("pid-{rank}"), &pid.to_le_bytes())?;
            pm.barrier()?;
            if rank == 1 {
                let stopped = pm.get_bytes("pid-2")?.ok_or("no process number")?;
                let stopped = u32::from_le_bytes(stopped.as_slice().try_into()?);
                assert!(eventually(|| is_stopped(stopped)), "rank 2 is not stopped");
                say(&format!("rank 1 aborts at {}", since_epoch().as_millis()));
                pm.abort(7, "the test wants it");
            } else if rank == 2 {
                Command::new("kill").args(["-STOP", &pid.to_string()]).status()?;
            }
            std::thread::sleep(DEADLINE);
        }
        "die" => {
            pm.barrier()?;
            if rank == 1 {
                std::process::abort();
            }
            pm.barrier()?;
        }
        "forget" => {
            pm.barrier()?;
            if rank == 1 {
                std::process::exit(0);
            }
            pm.barrier()?;
        }
        "leave" => {
            pm.barrier()?;
            if rank == 0 {
                return Ok(pm.finalize()?);
            }
            pm.barrier()?;
        }
        "leave-first" => {
            pm.put_bytes(&format!("pid-{rank}"), &std::process::id().to_le_bytes())?;
            pm.barrier()?;
            let first = pm.get_bytes("pid-0")?.ok_or("no process number")?;
            let first = u32::from_le_bytes(first.as_slice().try_into()?);
            if rank == 0 {
                return Ok(pm.finalize()?);
            }
            // The launcher reaps rank 0 when it has recorded its end.
            let gone = || !Path::new(&format!("/proc/{first}")).exists();
            assert!(eventually(gone), "rank 0 is still there");
            pm.barrier()?;
        }
        "survive" => {
            pm.barrier()?;
            if rank == 1 {
                std::process::exit(5);
            }
            // Without rank 1, which is gone or will be.
            pm.barrier()?;
            pm.barrier()?;
            say(&format!("rank {rank} survived"));
            pm.finalize()?;
        }
        "notice" => {
            pm.survive_failures()?;
            pm.barrier()?;
            if rank == 1 {
                std::process::exit(5);
            }
            let mut failed = Vec::new();
            let noticed = eventually(|| {
                failed = pm.failed_ranks().unwrap();
                !failed.is_empty()
            });
            assert!(noticed, "nobody told");
            // Long enough for a signal in flight; that none comes cannot be tested.
            std::thread::sleep(Duration::from_millis(100));
            say(&format!("rank {rank} noticed {failed:?}"));
            pm.finalize()?;
        }
        "signals" => {
            let caught = || {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                status.lines().find(|line| line.starts_with("SigCgt")).map(str::to_owned)
            };
            let before = caught();
            pm.survive_failures()?;
            assert_eq!(caught(), before, "signals are treated differently");
            say(&format!("rank {rank} under {} as program {}", pm.launcher(), pm.appnum()));
            pm.finalize()?;
        }
        "hang" => {
            let directory = std::env::var("PROBE_DIRECTORY")?;
            let path = Path::new(&directory).join(rank.to_string());
            std::fs::write(path, std::process::id().to_string())?;
            if rank == 0 {
                std::thread::sleep(DEADLINE);
            }
            pm.barrier()?;
        }
        other => return Err(format!("no part {other}").into()),
    }
    Ok(())
}

/// A rank with `PMI_PORT` that sends something other than PMI; the others wait in a barrier.
fn malformed() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var("MPI_LOCALRANKID")? != "1" {
        let mut pm = ProcessManager::from_env()?;
        return Ok(pm.barrier()?);
    }
    let mut stream = TcpStream::connect(std::env::var("PMI_PORT")?)?;
    let id = std::env::var("PMI_ID")?;
    stream.write_all(format!("cmd=initack pmiid={id}\nhow do you do?\n").as_bytes())?;
    // Until the launcher closes the connection.
    let mut all = Vec::new();
    stream.read_to_end(&mut all).ok();
    std::thread::sleep(DEADLINE);
    Ok(())
}

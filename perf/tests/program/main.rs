//! Tests of the program as a user runs it: options, JSON, files, errors, launchers. This file has
//! the helpers that run it.

mod alone;
mod info;
mod ranks;
mod shown;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time limit, far longer than any of these runs takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

struct Ended {
    ok: bool,
    out: String,
    err: String,
}

/// Runs a command without the variables of an outer launcher or configuration.
fn run(mut command: Command) -> Ended {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["PMI", "NETMOD", "SLURM", "PERF_"].iter().any(|p| text.starts_with(p))
            && text != "NETMOD_TEST_NO_SKIP"
        {
            command.env_remove(&name);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut p) = pipe {
                p.read_to_string(&mut text).expect("output is UTF-8");
            }
            text
        })
    };
    let out = read(child.stdout.take().map(|p| Box::new(p) as _));
    let err = read(child.stderr.take().map(|p| Box::new(p) as _));
    let limit = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if Instant::now() > limit {
            child.kill().expect("kill");
            panic!("{command:?} takes longer than {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ended { ok: status.success(), out: out.join().expect("stdout"), err: err.join().expect("stderr") }
}

fn perf(line: &str) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_netmod-perf"));
    c.args(line.split_whitespace());
    c
}

/// Returns the JSON lines of a run that must succeed.
fn json(command: Command) -> Vec<Value> {
    let ended = run(command);
    assert!(ended.ok, "failed: {}{}", ended.out, ended.err);
    ended.out.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
}

fn positive(row: &Value, fields: &[&str]) {
    for f in fields {
        assert!(row[f].as_f64().is_some_and(|v| v > 0.0), "{f} in {row}");
    }
}

/// Reports that a test is skipped; fails where no test may be skipped.
fn skipped(test: &str, why: &str) {
    assert!(std::env::var_os("NETMOD_TEST_NO_SKIP").is_none(), "{why}");
    // Not eprintln!, whose output the test harness captures.
    let line = format!("SKIPPED: {test}: {why}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("stderr");
}

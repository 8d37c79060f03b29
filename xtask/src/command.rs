//! Commands that the jobs run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Runs a command, with its output where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("xtask: {shown}");
    let start = Instant::now();
    let status = command.status().map_err(|e| format!("cannot start {shown}: {e}"))?;
    eprintln!("xtask: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Runs a program that must succeed, and returns what it prints.
///
/// # Errors
/// If it cannot start or fails, with its words.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}").replace('"', "");
    let done = command.output().map_err(|e| format!("cannot start {shown}: {e}"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(format!("{shown}: {}: {why}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Returns the cargo that has built this program, in the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut c = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    c.current_dir(root());
    c
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// Writes a script for the shell that can be run at once.
///
/// A child writes it: a descriptor of ours that is open for writing would live on in a program
/// that another thread of the tests starts at that moment, and until its `exec` nobody could run
/// the file (`ETXTBSY`).
#[cfg(test)]
pub(crate) fn write_script(path: &std::path::Path, text: &str) {
    use std::io::Write as _;
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(std::process::Stdio::piped());
    let mut install = install.spawn().expect("install");
    let mut to = install.stdin.take().expect("its input");
    write!(to, "#!/bin/sh\n{text}\n").expect("a script");
    drop(to);
    assert!(install.wait().expect("an end").success(), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_run_at_once_while_other_threads_start_programs() {
        let path = std::env::temp_dir().join(format!("netmod-script-{}", std::process::id()));
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..100).all(|_| Command::new("true").status().is_ok())))
                .collect();
            for i in 0..100 {
                write_script(&path, &format!("exit {i}"));
                let status = Command::new(&path).status().expect("a script that can be run");
                assert_eq!(status.code(), Some(i));
            }
            assert!(others.into_iter().all(|other| other.join().expect("a thread")));
        });
        std::fs::remove_file(path).expect("the script goes");
    }
}

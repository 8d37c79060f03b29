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

//! Runs one test under the launcher, for no longer than it may.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::judge::Ended;
use super::lines::Test;

/// Status of the launcher if the time of a job is over.
const LATE: i32 = 124;
/// The words of Hydra then, whose status does not tell it.
const LATE_WORDS: &str = "APPLICATION TIMED OUT";
/// Time for the launcher to end by itself after that.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes of output that are kept.
const OUTPUT: u64 = 1 << 20;
/// Time between two looks at the launcher.
const STEP: Duration = Duration::from_millis(5);

/// Runs a test in its folder, with its output through a file.
///
/// # Errors
/// If the launcher does not start, or the file cannot be used.
pub(crate) fn launch(
    test: &Test,
    launcher: &Path,
    folder: &Path,
    output: &Path,
    limit: u64,
) -> Result<Ended, String> {
    let fault = |e: std::io::Error| format!("{}: {e}", output.display());
    let log = File::create(output).map_err(fault)?;
    let mut command = Command::new(launcher);
    command
        // The launchers have no option in common for it.
        .env("MPIEXEC_TIMEOUT", limit.to_string())
        .args(["-n", &test.ranks.to_string()])
        .args(&test.launcher)
        .arg(folder.join(&test.program))
        .args(&test.arguments)
        .envs(test.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(fault)?)
        .stderr(log)
        // A signal to the group reaches ranks that the launcher has lost.
        .process_group(0);
    let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", launcher.display()))?;
    let (status, stuck) = wait(&mut child, Duration::from_secs(limit) + GRACE)?;
    let mut bytes = Vec::new();
    File::open(output).and_then(|f| f.take(OUTPUT).read_to_end(&mut bytes)).map_err(fault)?;
    let output = String::from_utf8_lossy(&bytes).into_owned();
    let late = status == Some(LATE) || output.contains(LATE_WORDS);
    Ok(Ended { status, late, stuck, output })
}

/// Waits for the launcher. Ends its group if it takes longer; then the flag is true.
fn wait(child: &mut Child, limit: Duration) -> Result<(Option<i32>, bool), String> {
    let fault = |e: std::io::Error| format!("cannot wait for the launcher: {e}");
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(fault)? {
            return Ok((status.code(), false));
        }
        if start.elapsed() > limit {
            let group = format!("-{}", child.id());
            // A group that has ended meanwhile is no fault.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
            let status = child.wait().map_err(fault)?;
            return Ok((status.code(), true));
        }
        std::thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::read;
    use super::*;

    /// Runs a script that stands for the launcher.
    fn run(name: &str, script: &str, line: &str) -> Ended {
        let folder = std::env::temp_dir().join(format!("netmod-suite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let launcher = folder.join("launcher");
        crate::command::write_script(&launcher, script);
        let test = &read("l", line).expect("a line")[0];
        let ended = launch(test, &launcher, &folder, &folder.join("output"), 60).expect("an end");
        std::fs::remove_dir_all(&folder).expect("the folder goes");
        ended
    }

    #[test]
    fn a_job_gets_its_arguments_and_variables() {
        let script = "echo \"$MPIEXEC_TIMEOUT $1 $2 $3 ${4##*/} $5 $ONE\"; pwd >&2; exit 3";
        let ended = run("words", script, "ring 5 arg=-x mpiexecarg=-go-on env=ONE=two");
        assert_eq!((ended.status, ended.late, ended.stuck), (Some(3), false, false));
        let (words, folder) = ended.output.split_once('\n').expect("two lines");
        assert_eq!(words, "60 -n 5 -go-on ring -x two");
        assert!(folder.contains("netmod-suite-words"), "{folder}");
    }

    #[test]
    fn the_end_for_time_is_told() {
        assert!(run("late", "exit 124", "ring 2").late);
        assert!(run("late-hydra", "echo '[m] APPLICATION TIMED OUT, TIMEOUT = 60s'; exit 15", "ring 2").late);
        assert!(!run("early", "exit 15", "ring 2").late);
    }

    #[test]
    fn a_launcher_that_does_not_end_is_ended_with_what_it_has_started() {
        let mut child = Command::new("sh").args(["-c", "sleep 100 & sleep 100"]).process_group(0).spawn();
        let child = child.as_mut().expect("a shell");
        let start = Instant::now();
        let ended = wait(child, Duration::from_millis(50)).expect("an end");
        assert_eq!(ended, (None, true));
        assert!(start.elapsed() < Duration::from_secs(50));
    }
}

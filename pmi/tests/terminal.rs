//! `nmrun` as a job of an interactive shell, on a pseudo-terminal made by `script`.

mod common;

use common::*;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

const LABELS: [&str; 2] = ["", "--label"];

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// A shell on a terminal of its own.
struct Shell {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
    /// Position in the output up to which it has been searched.
    at: usize,
    scratch: Scratch,
}

impl Shell {
    /// Starts a shell, or reports why not and returns `None`.
    fn start(test: &str) -> Option<Shell> {
        let scratch = Scratch::new(test);
        let mut command = Command::new("script");
        command.args(["-qfc", "exec bash --norc --noprofile -i", "/dev/null"]);
        command.env("PS1", "").env("PS2", "").env("TERM", "dumb").env("D", &scratch.0);
        command.env("PATH", path_with_nmrun());
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = started else {
            let text = format!("{test}: script not installed (apt-get install bsdutils)");
            assert!(!std::env::var("NETMOD_TEST_NO_SKIP").is_ok_and(|v| v == "1"), "{text}");
            // The test harness would capture eprintln!, so that nobody reads it.
            std::io::stderr().write_all(format!("SKIPPED: {text}\n").as_bytes()).unwrap();
            return None;
        };
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let mut shell = Shell { child, keys, seen, at: 0, scratch };
        // Without echo, only the programs' output is found.
        shell.types("stty -echo; set +o histexpand; echo rea''dy\n");
        shell.sees("ready");
        Some(shell)
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits for a text after the last one found.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        let mut found = None;
        let at = self.at;
        let seen = Arc::clone(&self.seen);
        eventually(|| {
            let all = seen.lock().unwrap();
            found = all[at..].windows(text.len()).position(|w| w == text.as_bytes());
            found.is_some()
        });
        let Some(found) = found else { panic!("no \"{text}\" in: {}", self.screen()) };
        self.at += found + text.len();
    }

    /// Waits until all files of these names are in the folder `$D`.
    #[track_caller]
    fn has(&self, names: &[&str]) {
        let there = eventually(|| names.iter().all(|name| self.scratch.0.join(name).exists()));
        assert!(there, "{names:?} are not there: {}", self.screen());
    }

    fn pid(&self, name: &str) -> u32 {
        let mut pid = None;
        eventually(|| {
            let text = std::fs::read_to_string(self.scratch.0.join(name)).unwrap_or_default();
            pid = text.trim().parse().ok();
            pid.is_some()
        });
        pid.unwrap_or_else(|| panic!("no process in {name}: {}", self.screen()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The terminal closes with it, which hangs up all its processes.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn path_with_nmrun() -> std::ffi::OsString {
    let dir = std::path::Path::new(env!("CARGO_BIN_EXE_nmrun")).parent().unwrap();
    let mut path = dir.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

#[test]
fn probe_entry() {
    common::probe_entry();
}

/// Ranks that each have a child process and wait for the file `go`.
const WAITING: &str = "sh -c 'echo $$ > $D/pid$PMI_RANK; sleep 1000 & echo $! > $D/child$PMI_RANK; \
    until [ -e $D/go ]; do sleep 0.05; done; kill $!; echo rank $PMI_RANK is do''ne'";

#[test]
fn in_the_foreground_ranks_may_write_and_change_the_modes() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-modes") else { return };
        shell.types("stty tostop\n");
        shell.types(&format!("nmrun -n 3 {label} sh -c 'echo hel''lo $PMI_RANK'; echo co''de=$?\n"));
        shell.sees("code=0");
        let screen = shell.screen();
        assert!((0..3).all(|rank| screen.contains(&format!("hello {rank}"))), "{screen}");
        shell.types(&format!("nmrun -n 2 {label} sh -c 'stty -ixon < /dev/tty'; echo co''de=$?; stty -a\n"));
        shell.sees("code=0");
        shell.sees(" -ixon");
    }
}

#[test]
fn rank_0_reads_what_is_typed() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-stdin") else { return };
        shell.types(&format!("nmrun -n 2 {label} sh -c 'read line; echo got=$line'; echo co''de=$?\n"));
        // Rank 1 has nothing to read.
        shell.sees("got=");
        shell.types("some words\n");
        shell.sees("got=some words");
        shell.sees("code=0");
    }
}

#[test]
fn the_job_is_stopped_and_continued() {
    for label in LABELS {
        for how in ["fg", "bg; wait"] {
            let Some(mut shell) = Shell::start("tty-stop") else { return };
            shell.types(&format!("nmrun -n 2 {label} {WAITING}\n"));
            shell.has(&["child0", "child1"]);
            shell.types(CTRL_Z);
            shell.sees("Stopped");
            // A shell that waits for its stopped child to exec is in uninterruptible sleep
            // (vfork(2)).
            let pids = ["child0", "child1"].map(|name| shell.pid(name));
            assert!(eventually(|| pids.iter().all(|pid| is_stopped(*pid))), "{}", shell.screen());
            shell.types(&format!("touch $D/go; {how}; echo co''de=$?\n"));
            shell.sees("code=0");
            let screen = shell.screen();
            assert!((0..2).all(|rank| screen.contains(&format!("rank {rank} is done"))), "{screen}");
        }
    }
}

#[test]
fn keys_end_the_job_with_the_code_of_their_signal() {
    for label in LABELS {
        for (key, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
            let Some(mut shell) = Shell::start("tty-keys") else { return };
            // Commands after the job in its list are not run when the key has ended the list.
            shell.types(&format!("ulimit -c 0; nmrun -n 2 {label} {WAITING}\n"));
            shell.has(&["child0", "child1"]);
            shell.types(key);
            shell.types("echo co''de=$?\n");
            shell.sees(&format!("code={code}"));
            let pids = ["pid0", "pid1", "child0", "child1"].map(|name| shell.pid(name));
            assert!(eventually(|| !pids.iter().any(|pid| is_alive(*pid))), "{}", shell.screen());
        }
    }
}

/// A signal of the terminal reaches each rank once.
#[test]
fn the_first_interrupt_is_the_ranks_and_the_second_ends_them() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-second") else { return };
        let script =
            "trap \"echo x >> $D/got$PMI_RANK\" INT; echo $$ > $D/pid$PMI_RANK; while :; do sleep 0.05; done";
        shell.types(&format!("nmrun -n 2 {label} sh -c '{script}'\n"));
        shell.has(&["pid0", "pid1"]);
        shell.types(CTRL_C);
        shell.has(&["got0", "got1"]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        for rank in 0..2 {
            let got = std::fs::read_to_string(shell.scratch.0.join(format!("got{rank}"))).unwrap();
            assert_eq!(got.lines().count(), 1, "rank {rank} was interrupted more than once");
        }
        shell.types(CTRL_C);
        shell.types("echo co''de=$?\n");
        shell.sees("code=130");
    }
}

#[test]
fn in_the_background_output_stops_the_whole_job_if_the_terminal_says_so() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-tostop") else { return };
        shell.types(&format!("stty tostop; nmrun -n 2 {label} {WAITING} &\n"));
        shell.has(&["child0", "child1"]);
        shell.types("touch $D/go; echo on''wards\n");
        shell.sees("onwards");
        let pid = shell.pid("pid0");
        assert!(eventually(|| is_stopped(pid) || !is_alive(pid)), "{}", shell.screen());
        shell.types("fg; echo co''de=$?\n");
        shell.sees("code=0");
        let screen = shell.screen();
        assert!((0..2).all(|rank| screen.contains(&format!("rank {rank} is done"))), "{screen}");
    }
}

#[test]
fn a_hang_up_leaves_nothing_behind() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-hangup") else { return };
        shell.types(&format!("nmrun -n 2 {label} {WAITING}\n"));
        shell.has(&["child0", "child1"]);
        let pids = ["pid0", "pid1", "child0", "child1"].map(|name| shell.pid(name));
        shell.child.kill().unwrap();
        assert!(eventually(|| !pids.iter().any(|pid| is_alive(*pid))), "{pids:?} are left");
    }
}

#[test]
fn what_a_rank_has_started_goes_with_it() {
    for label in LABELS {
        let Some(mut shell) = Shell::start("tty-leftover") else { return };
        // Both have started theirs before the first exit ends the job.
        let script = "sleep 1000 & echo $! > $D/left$PMI_RANK; \
                      until [ -s $D/left0 ] && [ -s $D/left1 ]; do sleep .01; done; exit 3";
        shell.types(&format!("nmrun -n 2 {label} sh -c '{script}'; echo co''de=$?\n"));
        shell.sees("code=3");
        let pids = ["left0", "left1"].map(|name| shell.pid(name));
        assert!(eventually(|| !pids.iter().any(|pid| is_alive(*pid))), "{}", shell.screen());
    }
}

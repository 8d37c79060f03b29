//! Jobs that are looked at, and jobs with faults: captures and their decoder, `netmod-perf top`,
//! the status signal, `NETMOD_FAULTS`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use netmod_tests::jobs::launch::{self, EACH_NETMOD, OVER_TCP, run};
use netmod_tests::jobs::{GO, LIMIT};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn program(package: &'static str, name: &'static str, at: &'static OnceLock<PathBuf>) -> Command {
    Command::new(at.get_or_init(|| launch::workspace_program(JOB, package, name)))
}

/// Over TCP, unless the test sets another netmod: captures and reports tell of connections.
fn nmrun(ranks: u32) -> Command {
    static AT: OnceLock<PathBuf> = OnceLock::new();
    let mut c = program("netmod-pmi", "nmrun", &AT);
    c.args(["-n", &ranks.to_string(), JOB]).env(OVER_TCP.0, OVER_TCP.1);
    c
}

fn perf() -> Command {
    static AT: OnceLock<PathBuf> = OnceLock::new();
    program("netmod-perf", "netmod-perf", &AT)
}

/// Returns the output of `netmod-perf`.
#[track_caller]
fn said(command: &mut Command) -> String {
    let out = command.stdin(Stdio::null()).output().expect("netmod-perf starts");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// A folder of the test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("netmod-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// The files that end so.
    fn files(&self, end: &str) -> Vec<PathBuf> {
        let all = std::fs::read_dir(&self.0).expect("the folder").map(|e| e.expect("an entry").path());
        let mut found: Vec<PathBuf> = all.filter(|p| p.to_string_lossy().ends_with(end)).collect();
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A job that is left running; dropped, it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again and again until there is an answer.
#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
}

#[test]
fn bytes_that_come_late_and_in_pieces() {
    for faults in ["seed=1,split=0.5,delay=0us..300us", "seed=2,split=0.3,send_delay=0us..200us"] {
        for netmods in EACH_NETMOD {
            let mut c = nmrun(3);
            c.args(["random", "3", "4"]).env("NETMOD", netmods);
            run(c.env("NETMOD_FAULTS", faults)).expect_ok("random", 3);
        }
    }
}

#[test]
fn a_bad_plan_is_refused_at_the_start() {
    let done = run(nmrun(2).arg("ring").env("NETMOD_FAULTS", "drop=2"));
    assert!(!done.status.success());
    assert!(done.output.contains("NETMOD_FAULTS: drop=2 is not accepted; expected a probability"), "{done}");
}

/// Links that are given up: the ranks say so, and nobody hangs.
#[test]
fn links_that_are_given_up() {
    let done = run(nmrun(2).args(["ring", "500"]).env("NETMOD_FAULTS", "seed=4,abort=0.02,rank=1"));
    assert!(!done.status.success(), "{done}");
    assert!(done.output.contains("dropped by fault injection (NETMOD_FAULTS)"), "{done}");
    assert!(!done.output.contains("panicked"), "{done}");
}

/// Connections that break in the middle of traffic: with sessions all of it arrives, each byte
/// checked. Without them the same breaks lose peers, which the ranks name.
#[test]
fn connections_that_break_and_resume() {
    let job = |seed: u64, resume: &str| {
        let mut command = nmrun(3);
        command.args(["random", "3", "4"]).env("NETMOD_FAULTS", format!("seed={seed},drop=0.02"));
        run(command.env("NETMOD_TCP_RESUME_LOCAL", resume))
    };
    for seed in 1..4 {
        job(seed, "yes").expect_ok("random", 3);
        let done = job(seed, "no");
        assert!(!done.status.success(), "{done}");
        assert!(done.output.contains(" lost: ") || done.output.contains("was broken"), "{done}");
        assert!(!done.output.contains("panicked"), "{done}");
    }
}

/// A real job has received what it has sent.
#[test]
fn a_capture_is_complete() {
    for (netmods, files) in EACH_NETMOD.into_iter().zip([6, 3]) {
        is_complete(netmods, files);
    }
}

#[track_caller]
fn is_complete(netmods: &str, files_of_all: usize) {
    let folder = Folder::new(&format!("capture-{files_of_all}"));
    let mut c = nmrun(3);
    // The packets that are asked for below are those of the Null mode.
    c.arg("alltoall")
        .env("NETMOD", netmods)
        .env("NETMOD_LMT", "null")
        .env("NETMOD_CAPTURE", folder.0.join("c"));
    let done = run(&mut c);
    done.expect_ok("alltoall", 3);
    let files = folder.files(".pcapng");
    assert_eq!(files.len(), files_of_all, "{netmods}");
    let all = lines(&said(perf().args(["decode", "--json"]).args(&files)));
    let summary = &all.last().expect("a summary")["summary"];
    for list in ["open", "missing", "damage", "failed"] {
        assert_eq!(summary[list], serde_json::json!([]), "{list}: {summary}");
    }
    // Messages that wait for a peer's card go eagerly whatever their length: there may be no short
    // packets.
    for kind in ["Eager", "Rts", "Cts", "RndvData", "Close"] {
        let c = &summary["types"][kind];
        assert!(c["sent"].as_u64() > Some(0) && c["sent"] == c["received"], "{kind}: {summary}");
        assert_eq!(c["payload_sent"], c["payload_received"], "{kind}: {summary}");
    }
    assert_eq!(summary["types"].get("broken"), None, "{summary}");
    let text = said(perf().args(["decode", "--rank", "1", "--type", "Rts,Cts"]).args(&files));
    let shown: Vec<&str> = text.lines().filter(|l| l.contains(" Rts ") || l.contains(" Cts ")).collect();
    assert!(shown.iter().any(|l| l.contains("   1 -> ")), "{text}");
    assert!(!shown.iter().any(|l| l.contains("   0 -> ")), "{text}");
}

/// A capture that cannot be written is told, and the job goes on.
#[test]
fn a_capture_without_a_folder() {
    let done = run(nmrun(2).arg("ring").env("NETMOD_CAPTURE", "/nonexistent/folder/c"));
    done.expect_ok("ring", 2);
    assert_eq!(done.output.matches("the job goes on without it").count(), 2, "{done}");
}

/// The report of a rank in the answer of `top`.
fn report(all: &[serde_json::Value], rank: u64) -> Option<&serde_json::Value> {
    all.iter().find(|v| v["rank"] == rank)?.get("report")
}

/// A job that hangs: `top` tells who waits for whom, a signal does, and so does the capture.
#[test]
fn a_job_that_hangs() {
    // Built before the job starts, so that this takes none of its time.
    said(perf().arg("--version"));
    for netmods in EACH_NETMOD {
        hangs(netmods);
    }
}

#[track_caller]
fn hangs(netmods: &str) {
    let folder = Folder::new(&format!("hang-{}", netmods.len()));
    let go = folder.0.join("go");
    let child = nmrun(4)
        .arg("hang")
        .env("NETMOD", netmods)
        .env("NETMOD_STATUS", &folder.0)
        .env("NETMOD_STATUS_SIGNAL", "usr2")
        .env("NETMOD_CAPTURE", folder.0.join("c"))
        .env(GO, &go)
        .env(LIMIT, "120")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut job = Running(child.expect("nmrun starts"));

    let mut top = perf();
    top.args(["top", "--json"]).arg(&folder.0);
    let waits = |v: &serde_json::Value, what: &str| v["waits"][what] == 1;
    let all = eventually("the ranks wait", || {
        if folder.files(".sock").len() < 4 {
            return None;
        }
        let all = lines(&said(&mut top));
        let waiting = (1..3).all(|r| report(&all, r).is_some_and(|v| waits(v, "a message that matches")));
        let sending = report(&all, 3).is_some_and(|v| waits(v, "its receiver to match it (rendezvous)"));
        // Rank 0 looks again and again whether it may go on, and sleeps in between.
        let silent = all.iter().any(|v| v["rank"] == 0 && v["silent"]["state"] == "S");
        (waiting && sending && silent && report(&all, 0).is_none()).then_some(all)
    });
    let one = &report(&all, 1).expect("a report")["requests"][0];
    let facts = (&one["kind"], &one["peer"], &one["tag"], &one["bytes"]);
    assert_eq!(facts, (&"receive".into(), &0.into(), &5.into(), &16.into()), "{one}");
    let three = &report(&all, 3).expect("a report")["requests"][0];
    assert_eq!(
        (&three["kind"], &three["peer"], &three["tag"]),
        (&"send".into(), &0.into(), &6.into()),
        "{three}"
    );

    let text = said(perf().args(["top", "--once"]).arg(&folder.0));
    assert!(text.contains("4 of 4 ranks here, 3 answer"), "{text}");
    assert!(text.contains("2 ranks (1-2): blocked in a wait; waits for a message that matches"), "{text}");

    let pid = report(&all, 2).expect("a report")["pid"].as_u64().expect("a process");
    netmod_tests::jobs::sys::signal(pid as u32, netmod_tests::jobs::sys::USR2).expect("a signal");
    let told = eventually("the answer to the signal", || {
        let files = folder.files(&format!("-2-{pid}.txt"));
        Some(std::fs::read_to_string(files.first()?).expect("the file"))
    });
    assert!(
        told.contains("receive #") && told.contains("from rank 0, tag 5, context 0, 0 of 16 bytes"),
        "{told}"
    );
    assert!(told.contains("NETMOD_STATUS_SIGNAL=usr2 (environment)"), "{told}");

    // The same signal to the launcher asks all ranks, of which rank 0 is outside of the library.
    netmod_tests::jobs::sys::signal(job.0.id(), netmod_tests::jobs::sys::USR2).expect("a signal");
    eventually("all answers to the signal", || {
        let ends = |rank: u32| format!("-{rank}-{}.txt", report(&all, rank.into()).expect("a report")["pid"]);
        [1, 3].iter().all(|rank| !folder.files(&ends(*rank)).is_empty()).then_some(())
    });

    // The files are complete as far as the job has come: a process that blocks has written all.
    let captured = said(perf().args(["decode", "--summary"]).args(folder.files(".pcapng")));
    let open = "rank 3 with rank 0: sent Rts, received no Cts: the peer has posted no matching receive";
    assert!(captured.contains(open), "{captured}");

    std::fs::write(&go, "").expect("the file");
    let status = eventually("the end of the job", || job.0.try_wait().expect("the state of nmrun"));
    assert!(status.success());
    assert_eq!(folder.files(".sock"), Vec::<PathBuf>::new());
    assert!(Path::new(&go).exists());
}

//! One rank of a running MPI program is killed at a random moment: our `mpiexec` ends the job soon,
//! names the dead rank, and leaves no process and no file of shared memory.
//!
//! `NETMOD_TEST_MPI_KILLS` is the number of moments of each program (few if it is not set),
//! `NETMOD_TEST_KILLS_SEED` the seed of the first; each says its seed, and `NETMOD_TEST_MPI_KILLS=1
//! NETMOD_TEST_KILLS_SEED=<seed>` plays it again. `cargo xtask suite kills` runs 50 of each.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netmod_tests::factory::{NetmodFactory, Ofi};
use netmod_tests::jobs::launch::{JOB_LIMIT, MARK, OVER_TCP, run, skip};
use netmod_tests::jobs::mpi::{Abi, Prefix, Starter, installed, mpi4py, wheel_program};
use netmod_tests::jobs::{pattern, sys};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Time in which the job must have ended after the death of a rank.
const END: Duration = Duration::from_secs(5);
/// Time between two looks at processes.
const STEP: Duration = Duration::from_millis(2);
/// Variable that names the folder of mpi4py's tests.
const PYTHON_TESTS: &str = "NETMOD_TEST_PYTHON_TESTS";

fn prefix() -> &'static Prefix {
    installed(JOB)
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// A death: the rank and the time, all from a seed.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// The program, which keeps jobs of the same seed apart.
    program: &'static str,
    seed: u64,
    ranks: u32,
    victim: u32,
    /// Time from the start of the victim to its death.
    delay: Duration,
    tcp: bool,
}

impl Moment {
    /// Returns the moment of a seed, one in three of them while the job is about to start.
    fn of(program: &'static str, seed: u64, longest: Duration) -> Moment {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let ranks = 2 + (random(1) % 4) as u32;
        let most = if random(2).is_multiple_of(3) { longest / 20 } else { longest };
        Moment {
            program,
            seed,
            ranks,
            victim: (random(3) % u64::from(ranks)) as u32,
            delay: Duration::from_micros(random(4) % most.as_micros() as u64),
            tcp: random(5).is_multiple_of(3),
        }
    }

    /// Returns a name that no other job has.
    fn mark(self) -> String {
        format!("mpi-kills-{}-{}-{}", self.program, std::process::id(), self.seed)
    }
}

/// A folder for shared memory, and one for the output, that are gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &Path, moment: Moment) -> Folder {
        let folder = parent.join(format!("test-netmod-{}", moment.mark()));
        std::fs::create_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        Folder(folder)
    }

    fn files(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.0).expect("the folder").flatten();
        all.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the processes that have a variable with this value.
fn processes(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let all = std::fs::read_dir("/proc").expect("the processes").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|pid| has(*pid, &wanted)).collect()
}

/// Returns true if the environment of a process has this entry.
fn has(pid: u32, entry: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A job that runs.
struct Running {
    launcher: Child,
    mark: String,
    output: PathBuf,
}

impl Running {
    fn start(job: &mut Command, moment: Moment, shared: &Folder, folder: &Folder) -> Running {
        let output = folder.0.join("output.txt");
        let file = File::create(&output).expect("a file for the output");
        let mark = moment.mark();
        job.env(MARK, &mark).env("NETMOD_SHM_DIR", &shared.0);
        if moment.tcp {
            job.env(OVER_TCP.0, OVER_TCP.1);
        }
        job.stdin(Stdio::null()).stdout(file.try_clone().expect("the file once more")).stderr(file);
        let launcher = job.process_group(0).spawn().expect("our launcher");
        Running { launcher, mark, output }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits for the process of a rank.
    fn rank(&mut self, rank: u32) -> u32 {
        let end = Instant::now() + JOB_LIMIT;
        let entry = format!("PMI_RANK={rank}");
        loop {
            let all = processes(MARK, &self.mark);
            let of_launcher = |pid: &u32| parent(*pid) == Some(self.launcher.id());
            if let Some(pid) = all.into_iter().find(|pid| of_launcher(pid) && has(*pid, &entry)) {
                return pid;
            }
            let ended = self.launcher.try_wait().expect("the state of the launcher");
            assert!(ended.is_none() && Instant::now() < end, "no rank {rank}: {ended:?}: {}", self.said());
            std::thread::sleep(STEP);
        }
    }

    /// Waits for the end of the launcher.
    fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            let status = self.launcher.try_wait().expect("the state of the launcher");
            if status.is_some() || Instant::now() > end {
                return status;
            }
            std::thread::sleep(STEP);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failure of the test; each rank leads a group of its own.
        for pid in processes(MARK, &self.mark) {
            let _ = sys::signal(pid, libc::SIGKILL);
        }
        let _ = self.launcher.wait();
    }
}

/// Kills a rank of a job, and looks at its end.
fn kill(job: &mut Command, moment: Moment) {
    let shared = Folder::new(Path::new("/dev/shm"), moment);
    let folder = Folder::new(&std::env::temp_dir(), moment);
    let mut running = Running::start(job, moment, &shared, &folder);
    let victim = running.rank(moment.victim);
    std::thread::sleep(moment.delay);
    let early = running.launcher.try_wait().expect("the state of the launcher");
    assert!(early.is_none(), "{moment:?}: it has ended before: {early:?}: {}", running.said());
    sys::signal(victim, libc::SIGKILL).unwrap_or_else(|e| panic!("{moment:?}: {e}: {}", running.said()));
    let killed = Instant::now();
    let status = running.ended(END);
    let status = status.unwrap_or_else(|| panic!("{moment:?}: not ended in {END:?}: {}", running.said()));
    let said = running.said();
    let last: String = said.lines().rev().take(20).map(|line| format!("{line}\n")).collect();
    assert!(!status.success(), "{moment:?}: {status}: {last}");
    let name = format!("rank {}", moment.victim);
    assert!(said.lines().any(|line| line.contains(&name)), "{moment:?}: {name} is not named: {last}");
    let mut left = processes(MARK, &running.mark);
    while !left.is_empty() && killed.elapsed() < END {
        std::thread::sleep(STEP);
        left = processes(MARK, &running.mark);
    }
    assert!(left.is_empty(), "{moment:?}: processes {left:?} are left: {last}");
    assert_eq!(shared.files(), [""; 0], "{moment:?}: files are left: {last}");
    println!("{moment:?}: {status} after {:?}", killed.elapsed());
}

/// Kills a rank of as many jobs as are asked for.
fn kill_many(
    name: &'static str,
    few: u64,
    longest: Duration,
    program: &Path,
    arguments: impl Fn(&mut Command, u64),
) {
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", few), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let moment = Moment::of(name, seed, longest);
        let mut job = prefix().job(name, Starter::Nmrun, moment.ranks, program).expect("our launcher");
        arguments(&mut job, seed);
        kill(&mut job, moment);
    }
    println!("{name}: {runs} kills");
}

#[test]
fn at_any_moment_of_imb_mpi1() {
    let Some(program) = wheel_program("at_any_moment_of_imb_mpi1", "IMB-MPI1") else { return };
    let tests = ["Sendrecv", "Exchange", "Allreduce", "Reduce", "Allgather", "Alltoall", "Bcast", "Gather"];
    kill_many("imb_mpi1", 6, Duration::from_secs(2), &program, |job, seed| {
        // Another one begins each time; each takes seconds.
        job.args(tests.iter().cycle().skip(seed as usize % tests.len()).take(tests.len()));
        job.args(["-iter", "100000", "-msglog", "0:20", "-time", "2", "-npmin", "64"]);
    });
}

/// Returns a folder for the file that a job writes.
fn data_folder(program: &'static str) -> Folder {
    let longest = Duration::from_secs(1);
    Folder::new(&std::env::temp_dir(), Moment::of(program, 0, longest))
}

#[test]
fn at_any_moment_of_collective_writes() {
    let program = prefix().compiled("writes.c");
    let folder = data_folder("writes");
    let file = folder.0.join("data");
    kill_many("writes", 6, Duration::from_millis(1500), &program, |job, _| {
        job.arg(&file).arg("0");
    });
    assert_eq!(folder.files(), ["data"], "nothing else is left beside the file");
}

#[test]
fn survivors_of_collective_writes_are_told() {
    let of_mpich = (Abi::Mpich, "class 101: ");
    let of_standard = (Abi::Standard, "class 58: ");
    let folder = data_folder("survivors");
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 4), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let moment = Moment::of("survivors", seed, Duration::from_millis(500));
        let (abi, told) = if seed % 2 == 0 { of_standard } else { of_mpich };
        let mut job = surviving(abi, "writes.c", moment.ranks);
        job.arg(folder.0.join("data")).arg((moment.delay.as_micros() + 1).to_string());
        if moment.tcp {
            job.env(OVER_TCP.0, OVER_TCP.1);
        }
        let begun = Instant::now();
        let done = run(&mut job);
        let took = begun.elapsed();
        assert!(took < moment.delay + END, "{moment:?}: {took:?}: {done}");
        assert_eq!(done.ok_ranks("writes") as u32, moment.ranks - 1, "{moment:?}: {done}");
        let lines = done.output.lines().filter(|line| line.contains(told));
        assert_eq!(lines.count() as u32, moment.ranks - 1, "{moment:?}: {done}");
    }
    assert_eq!(folder.files(), ["data"], "nothing else is left beside the file");
}

/// Returns a job of a program of `tests/programs` that goes on when a rank dies.
fn surviving(abi: Abi, source: &str, ranks: u32) -> Command {
    let mut job = Command::new(prefix().file("bin/mpiexec"));
    job.args(["-disable-auto-cleanup", "-n", &ranks.to_string()]);
    job.arg(prefix().compiled_for(abi, source)).env("LD_LIBRARY_PATH", prefix().file("lib"));
    job
}

/// 66 seeds have each collective operation in each form.
#[test]
fn survivors_of_each_collective_operation_have_an_end() {
    let folder = data_folder("deaths");
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 22), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let ranks = 2 + (random(1) % 4) as u32;
        let abi = Abi::ALL[(random(2) % 2) as usize];
        let mut job = surviving(abi, "deaths.c", ranks);
        job.arg(seed.to_string()).arg(folder.0.join(seed.to_string()));
        match random(3) % 4 {
            0 => _ = job.env(OVER_TCP.0, OVER_TCP.1),
            1 => _ = job.env("NETMOD_SHM_RANKS", "2"),
            _ => {}
        }
        let done = run(&mut job);
        assert_eq!(done.ok_ranks("deaths") as u32, ranks - 1, "{seed}: {done}");
    }
}

/// Threads that are ranks wait for those of a process that dies.
#[test]
fn threads_are_told_of_the_death_of_others() {
    for (ranks, variables) in [(2, &[][..]), (3, &[OVER_TCP]), (5, &[("NETMOD_SHM_RANKS", "2")])] {
        let mut job = surviving(Abi::Mpich, "threads_as_ranks.c", ranks);
        let done = run(job.arg("death").envs(variables.iter().copied()));
        assert_eq!(done.ok_ranks("threads") as u32, ranks - 1, "{done}");
    }
}

/// Processes revoke, agree and shrink while others die.
#[test]
fn survivors_go_on_without_the_dead() {
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 20), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let done = run(&mut survivors(seed, 2 + (random(1) % 6) as u32));
        assert!(done.ok_ranks("survivors") > 0, "{seed}: {done}");
        assert!(!done.output.contains("not so"), "{seed}: {done}");
    }
}

/// Returns a job of `survivors.c` with the network of a seed.
fn survivors(seed: u64, ranks: u32) -> Command {
    let mut job = surviving(Abi::Mpich, "survivors.c", ranks);
    job.arg(seed.to_string());
    match pattern::seed(&[seed, 3]) % 4 {
        0 => _ = job.env(OVER_TCP.0, OVER_TCP.1),
        1 => _ = job.env("NETMOD_SHM_RANKS", "2"),
        _ => {}
    }
    job
}

/// Processes of two groups, of one job or of two, revoke, agree and shrink while others die.
#[test]
fn survivors_of_two_groups_go_on_without_the_dead() {
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 16), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let kind = ["inter", "merged"][(seed % 2) as usize];
        let (own, other) = (1 + (random(1) % 3) as u32, 1 + (random(2) % 3) as u32);
        let done = if seed / 2 % 2 == 0 {
            vec![run(survivors(seed, own + other).args([kind, "one"]))]
        } else {
            let file = std::env::temp_dir().join(format!("netmod-survivors-{}-{seed}", std::process::id()));
            let job = |ranks, role: &str| {
                let mut job = survivors(seed, ranks);
                job.args([kind, role]).arg(&file);
                std::thread::spawn(move || run(&mut job))
            };
            let jobs = [job(own, "serve"), job(other, "visit")];
            let done = jobs.map(|job| job.join().expect("the job"));
            std::fs::remove_file(&file).expect("the name of the port");
            done.into()
        };
        assert!(done.iter().any(|job| job.ok_ranks("survivors") > 0), "{kind} {seed}: {done:?}");
        assert!(done.iter().all(|job| !job.output.contains("not so")), "{kind} {seed}: {done:?}");
    }
}

/// Processes start jobs, and meet at ports, while one of them dies, or one of such a job.
#[test]
fn survivors_of_spawn_and_connect_are_told() {
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 10), number("NETMOD_TEST_KILLS_SEED", 1));
    let mut named = 0;
    for seed in first..first + runs {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let ranks = 2 + (random(1) % 3) as u32;
        // Below 0 it is a process of a job that was started.
        let victim = (random(2) % u64::from(ranks + 2)) as i64 - 2;
        let delay = 1 + random(3) % 600_000;
        let mut job = surviving(Abi::Mpich, "meets_kill.c", ranks);
        job.args([seed.to_string(), delay.to_string(), victim.to_string()]);
        // A process that was killed refuses connections; the defaults wait for one that is moved.
        job.env("NETMOD_TCP_CONNECT_TIMEOUT", "2s").env("NETMOD_TCP_DETECT", "2s");
        let done = run(&mut job);
        let living = ranks - u32::from(victim >= 0);
        assert_eq!(done.ok_ranks("meets_kill") as u32, living, "{seed} {victim}: {done}");
        named += done.output.matches("the loss is named").count();
    }
    assert!(named as u64 * 2 >= runs, "of {runs} losses {named} are named");
}

/// `MPI_Finalize` asks the error handler of `MPI_COMM_SELF`, although its communicator is gone.
#[test]
fn losses_in_finalize_go_to_the_handler() {
    for kind in ["return", "call", "known"] {
        let done = run(surviving(Abi::Mpich, "last_words.c", 3).arg(kind));
        assert_eq!(done.ok_ranks("last_words"), 2, "{kind}: {done}");
    }
}

#[test]
fn survivors_of_epochs_are_told() {
    const KINDS: [&str; 6] = ["fence", "group", "lock", "flush", "lock_all", "words"];
    const FLAVORS: [&str; 2] = ["create", "allocate"];
    let ofi = Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 };
    let netmods = [Some("shm,tcp"), ofi.is_available("survivors_of_epochs_are_told").then_some("ofi")];
    let of_mpich = (Abi::Mpich, "class 101: ");
    let of_standard = (Abi::Standard, "class 58: ");
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 12), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let moment = Moment::of("epochs", seed, Duration::from_millis(200));
        let (abi, told) = if seed % 2 == 0 { of_standard } else { of_mpich };
        let (kind, flavor) = (KINDS[seed as usize % 6], FLAVORS[seed as usize / 6 % 2]);
        for netmod in netmods.into_iter().flatten() {
            let netmod = if moment.tcp && netmod != "ofi" { OVER_TCP.1 } else { netmod };
            let mut job = surviving(abi, "windows_kill.c", moment.ranks);
            job.args([kind, flavor]).arg((moment.delay.as_micros() + 1).to_string());
            job.env("NETMOD", netmod).env("NETMOD_OFI_PROVIDER", "tcp");
            let begun = Instant::now();
            let done = run(&mut job);
            let took = begun.elapsed();
            let of = format!("{kind} {flavor} over {netmod}, {moment:?}: {took:?}: {done}");
            assert!(took < moment.delay + END, "{of}");
            assert_eq!(done.ok_ranks("windows_kill") as u32, moment.ranks - 1, "{of}");
            let lines = done.output.lines().filter(|line| line.contains(told));
            assert_eq!(lines.count() as u32, moment.ranks - 1, "{of}");
        }
    }
}

/// Processes make windows and open files, one of them dies meanwhile, and the others make the same
/// without it.
#[test]
fn survivors_of_making_windows_and_files_go_on() {
    const KINDS: [&str; 5] = ["create", "allocate", "dynamic", "file", "shared"];
    let folder = data_folder("makes");
    let (runs, first) = (number("NETMOD_TEST_MPI_KILLS", 20), number("NETMOD_TEST_KILLS_SEED", 1));
    for seed in first..first + runs {
        let random = |what: u64| pattern::seed(&[seed, what]);
        let kind = KINDS[(seed % 5) as usize];
        let ranks = 2 + (random(1) % 5) as u32;
        let (victim, call, delay) = (random(2) % u64::from(ranks), random(3) % 4, 1 + random(4) % 3_000);
        let mut job = surviving(Abi::Mpich, "makes_kill.c", ranks);
        job.args([kind.to_owned(), victim.to_string(), call.to_string(), delay.to_string()]);
        let revokes = if random(6) % 2 == 0 { "soon" } else { "late" };
        job.arg(revokes);
        match random(5) % 4 {
            0 if kind != "shared" => _ = job.env(OVER_TCP.0, OVER_TCP.1),
            1 if kind != "shared" => _ = job.env("NETMOD_SHM_RANKS", "2"),
            _ => {}
        }
        let done = run(job.arg(folder.0.join("data")));
        let of =
            format!("{kind}, {ranks} ranks, {victim} in call {call} after {delay} us, seed {seed}: {done}");
        assert_eq!(done.ok_ranks("makes_kill") as u32, ranks - 1, "{of}");
    }
    assert!(folder.files().iter().all(|file| file == "data"), "left beside the file: {:?}", folder.files());
}

#[test]
fn at_any_moment_of_the_tests_of_mpi4py() {
    let test = "at_any_moment_of_the_tests_of_mpi4py";
    let Some((python, package)) = mpi4py(test) else { return };
    let Some(tests) = std::env::var_os(PYTHON_TESTS).map(PathBuf::from).filter(|f| f.is_dir()) else {
        return skip(&format!("SKIPPED: {test}: {PYTHON_TESTS} names no folder (cargo xtask suite kills)"));
    };
    kill_many("mpi4py", 4, Duration::from_secs(3), &python, |job, _| {
        job.args(["main.py", "--no-builddir", "-i", "^test_(cco|comm|p2p)_(buf|obj|ngh|inter|nb).*\\.py$"]);
        job.env("PYTHONPATH", &package).env("MPI4PY_LIBMPI", prefix().file("lib/libmpi.so.12"));
        job.current_dir(&tests);
    });
}

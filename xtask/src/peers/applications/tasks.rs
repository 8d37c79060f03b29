//! The programs that run, and how they are started with each library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::outputs::{self, Outcome};
use crate::command::{output, root};
use crate::options::Options;
use crate::peers::library::{DEBIAN, Libraries, Library, Netmod, Ranks};
use crate::peers::patterns;
use crate::{lammps, mpi4py};

/// Seconds after which a job is ended.
const LIMIT: &str = "60";
/// The status by which timeout says that it has ended a program.
const ENDED: &str = "exit status: 124";
/// The variable by which the processes of a job are known.
const MARK: &str = "APPLICATIONS_JOB";
/// Folder of the timers of PBLAS on Debian.
const SCALAPACK: &str = "/usr/lib/x86_64-linux-gnu/scalapack";
/// Debian's basis sets of NWChem.
const BASES: &str = "/usr/share/nwchem/libraries/";
/// Order of the matrices of PBLAS, that of their blocks, and how often all routines run.
const PBLAS: (usize, usize, usize) = (128, 16, 16);
const ROUTINES: [&str; 8] =
    ["PDGEMM", "PDSYMM", "PDSYRK", "PDSYR2K", "PDTRMM", "PDTRSM", "PDGEADD", "PDTRADD"];
/// Sizes of mpi4py's ping-pong.
const SIZES: [usize; 3] = [8, 1 << 10, 64 << 10];

/// A program that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Lammps,
    Pblas,
    Nwchem,
    Ring,
    PingPong,
    Pickle,
    Start,
    Memory,
    Idle,
}

impl Task {
    pub(super) fn name(self) -> &'static str {
        match self {
            Task::Lammps => "LAMMPS melt",
            Task::Pblas => "PBLAS 3",
            Task::Nwchem => "NWChem water",
            Task::Ring => "mpi4py ring",
            Task::PingPong => "mpi4py ping-pong",
            Task::Pickle => "mpi4py objects",
            Task::Start => "start and end",
            Task::Memory => "memory",
            Task::Idle => "idle",
        }
    }

    /// Returns the numbers of ranks of its jobs.
    pub(super) fn ranks(self) -> &'static [u32] {
        match self {
            Task::Lammps | Task::Ring => &[2, 8],
            Task::Pblas | Task::Nwchem => &[2, 4],
            Task::PingPong | Task::Pickle => &[2],
            Task::Start => &[2, 8, 32, 128, 256],
            Task::Memory => &[2, 8, 32],
            Task::Idle => &[5],
        }
    }

    /// Returns true if the whole time of the launcher is a figure.
    fn is_timed(self) -> bool {
        matches!(self, Task::Lammps | Task::Nwchem | Task::Start)
    }

    /// Returns true if the time inside MPI is counted; so little is called that counting costs
    /// nothing to speak of.
    fn is_counted(self) -> bool {
        matches!(self, Task::Lammps | Task::Pblas | Task::Nwchem)
    }

    /// Returns the names and units of its figures, in their order.
    pub(super) fn figures(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Task::Lammps => &[("loop", "s"), (WHOLE, "s"), (INSIDE, "s")],
            Task::Pblas => &[("timers", "ms"), (INSIDE, "s")],
            Task::Nwchem => &[(WHOLE, "s"), (INSIDE, "s")],
            Task::Ring => &[("round", "us")],
            Task::PingPong | Task::Pickle => &[("8", "us"), ("1K", "us"), ("64K", "us")],
            Task::Start => &[(WHOLE, "s")],
            Task::Memory => &[("a rank", "KiB")],
            Task::Idle => &[("3 s", "s of CPU")],
        }
    }

    /// Reads what a job prints.
    fn read(self, text: &str) -> Result<Outcome, String> {
        let of_job = |name: &str| {
            let figure = patterns::parse(text)?.pop().ok_or("the job has printed nothing")?;
            Ok(Outcome { figures: vec![(name.to_owned(), figure.value)], answer: String::new() })
        };
        match self {
            Task::Lammps => outputs::lammps(text),
            Task::Pblas => outputs::pblas(text, ROUTINES.len() * PBLAS.2),
            Task::Nwchem => outputs::nwchem(text),
            Task::Ring => outputs::ring(text),
            Task::PingPong | Task::Pickle => outputs::ping_pong(text, &SIZES),
            Task::Start => Ok(Outcome::default()),
            Task::Memory | Task::Idle => of_job(self.figures()[0].0),
        }
    }
}

/// Name of the figure of a job from its start to its end.
pub(super) const WHOLE: &str = "start to end";
/// Name of the figure of the time inside MPI.
pub(super) const INSIDE: &str = "inside MPI";

/// The reason why a job has no figures.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// There is no such program for the library, by a few words.
    Missing(String),
    /// The job has failed, by a few words and by all.
    Failed(String, String),
}

/// The installed and built programs.
#[derive(Debug)]
pub(super) struct Tools<'a> {
    libraries: &'a Libraries,
    lammps: Result<PathBuf, String>,
    python: Result<PathBuf, String>,
    /// `peers/job.c` and `peers/counter.c` for each library.
    jobs: Vec<PathBuf>,
    counters: Vec<PathBuf>,
}

impl<'a> Tools<'a> {
    /// Builds, and fetches what is missing.
    ///
    /// # Errors
    /// If something cannot be built. What cannot be fetched is missing in the table.
    pub(super) fn prepare(libraries: &'a Libraries, options: Options) -> Result<Tools<'a>, String> {
        let of_all = |build: &dyn Fn(Library) -> Result<PathBuf, String>| {
            Library::ALL.into_iter().map(build).collect::<Result<Vec<_>, _>>()
        };
        Ok(Tools {
            libraries,
            lammps: lammps::folder(options),
            python: mpi4py::folder(options),
            jobs: of_all(&|library| patterns::build(libraries, library, "job"))?,
            counters: of_all(&|library| patterns::build_shared(libraries, library, "counter"))?,
        })
    }

    /// Runs a job, and returns its figures. The library is checked.
    pub(super) fn run(&self, task: Task, ranks: u32, library: Library) -> Result<Outcome, Fault> {
        let (folder, counted) = self.folder(task, ranks, library).map_err(|why| failed("no folder", why))?;
        let mut command =
            self.command(task, ranks, library, &folder, task.is_counted().then_some(&*counted))?;
        let begin = Instant::now();
        let text = output(&mut command).map_err(|why| {
            let is_over = why.contains(ENDED);
            end_left();
            failed(if is_over { "over 60 s" } else { "fails" }, why)
        })?;
        let whole = begin.elapsed().as_secs_f64();
        let wrong = |why: String| failed("wrong", why);
        let mut outcome = task.read(&text).map_err(wrong)?;
        if task.is_timed() {
            outcome.figures.push((WHOLE.to_owned(), whole));
        }
        if task.is_counted() {
            let (seconds, version) = outputs::counted(&counted, ranks).map_err(wrong)?;
            check(task, library, &version).map_err(wrong)?;
            outcome.figures.push((INSIDE.to_owned(), seconds));
        }
        Ok(outcome)
    }

    /// Has a library tell its version in two ranks of a task that is not counted, by the counter.
    pub(super) fn ask(&self, task: Task, library: Library) -> Result<(), Fault> {
        if task.is_counted() {
            return Ok(());
        }
        let (folder, counted) = self.folder(task, 2, library).map_err(|why| failed("no folder", why))?;
        let mut command = self.command(task, 2, library, &folder, Some(&counted))?;
        let wrong = |why: String| failed("wrong", why);
        output(&mut command).map_err(wrong)?;
        let (_, version) = outputs::counted(&counted, 2).map_err(wrong)?;
        check(task, library, &version).map_err(wrong)
    }

    /// Makes the folder of a job, with its input. Returns it and where the counter writes.
    fn folder(&self, task: Task, ranks: u32, library: Library) -> Result<(PathBuf, PathBuf), String> {
        let folder = self.libraries.programs().join("applications").join(library.name().replace(' ', "-"));
        std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        if task == Task::Pblas {
            let file = folder.join("PDBLAS3TIM.dat");
            std::fs::write(&file, pblas(ranks))
                .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        }
        let counted = folder.join("counted");
        Ok((folder, counted))
    }

    /// Returns the command of a job, under the counter if that has somewhere to write.
    fn command(
        &self,
        task: Task,
        ranks: u32,
        library: Library,
        folder: &Path,
        counted: Option<&Path>,
    ) -> Result<Command, Fault> {
        let missing = |why: &String| Fault::Missing(why.clone());
        let counter = &self.counters[library as usize];
        let (mut words, mut variables, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        let input = |name: &str| root().join("xtask/peers").join(name).display().to_string();
        match task {
            Task::Lammps => {
                if library == Library::OpenMpi {
                    return Err(Fault::Missing("other ABI".into()));
                }
                let lammps = self.lammps.as_ref().map_err(missing)?;
                words.push(lammps.join("lmp").display().to_string());
                words.extend(["-log", "none", "-in"].map(str::to_owned));
                words.push(input("melt.lammps"));
                paths.push(lammps.display().to_string());
            }
            Task::Pblas => {
                let abi = if library == Library::OpenMpi { "openmpi" } else { "mpich" };
                let program = format!("{SCALAPACK}/{abi}-tests/PBLAS/TIMING/dpb3tim");
                words.push(there(program, "scalapack-mpi-test")?);
            }
            Task::Nwchem => {
                let abi = if library == Library::OpenMpi { "openmpi" } else { "mpich" };
                words.push(there(format!("/usr/bin/nwchem.{abi}"), &format!("nwchem-{abi}"))?);
                words.push(input("water.nwchem"));
                variables.push(("NWCHEM_BASIS_LIBRARY", BASES.to_owned()));
            }
            Task::Ring | Task::PingPong | Task::Pickle => {
                let python = self.python.as_ref().map_err(missing)?;
                variables.push(("PYTHONPATH", python.display().to_string()));
                words.extend(["python3", "-m", "mpi4py.bench"].map(str::to_owned));
                words.extend(bench(task).map_err(|why| failed("wrong", why))?);
                // The extension asks the library by name, whatever is loaded before.
                let file = if library == Library::OpenMpi { "libmpi.so.40" } else { "libmpi.so.12" };
                let of_library = self.libraries.root_of(library).join("lib").join(file);
                let file = if counted.is_some() { counter } else { &of_library };
                variables.push(("MPI4PY_LIBMPI", file.display().to_string()));
            }
            Task::Start | Task::Memory | Task::Idle => {
                words.push(self.jobs[library as usize].display().to_string());
                let what = match task {
                    Task::Memory => "memory",
                    Task::Idle => "idle",
                    _ => "start",
                };
                words.push(what.to_owned());
            }
        }
        let job = if ranks == 2 { Ranks::Pair } else { Ranks::Crowd(ranks) };
        let before = ["timeout", "-k", "5", LIMIT];
        let program = Path::new("env");
        let mut command = if is_debian(task, library) {
            there(DEBIAN.0.into(), "openmpi-bin")?;
            self.libraries.launch_debian(job, &before, program)
        } else {
            let mut command = self.libraries.launch(library, Netmod::Shm, job, &before, program);
            self.libraries.add_paths(&mut command, library, &paths);
            command
        };
        command.current_dir(folder).envs(variables).env(MARK, mark());
        if let Some(path) = counted {
            command.arg(format!("COUNTED_FILE={}", path.display()));
            command.arg(format!("LD_PRELOAD={}", counter.display()));
        }
        command.args(words);
        Ok(command)
    }
}

/// Returns the value of the mark of all jobs of this process.
fn mark() -> String {
    std::process::id().to_string()
}

/// Kills what is left of jobs that were cut: a launcher that is ended may leave ranks that spin.
fn end_left() {
    let wanted = format!("{MARK}={}", mark());
    let Ok(all) = std::fs::read_dir("/proc") else { return };
    for process in all.flatten().map(|entry| entry.path()) {
        let variables = std::fs::read(process.join("environ")).unwrap_or_default();
        let is_left = variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
        if let Some(id) = process.file_name().filter(|_| is_left) {
            // One that has ended meanwhile is no fault.
            let _ = Command::new("kill").arg("-9").arg(id).status();
        }
    }
}

fn failed(short: &str, why: String) -> Fault {
    Fault::Failed(short.to_owned(), why)
}

/// Returns a program, if its package is installed.
fn there(program: String, package: &str) -> Result<String, Fault> {
    if Path::new(&program).is_file() { Ok(program) } else { Err(Fault::Missing(format!("no {package}"))) }
}

/// Returns true for a program that runs with Debian's Open MPI: it is in Fortran, and PyPI's has no
/// library for that.
fn is_debian(task: Task, library: Library) -> bool {
    task == Task::Nwchem && library == Library::OpenMpi
}

/// Checks that a program has run with a library.
fn check(task: Task, library: Library, version: &str) -> Result<(), String> {
    let wanted = if is_debian(task, library) { DEBIAN.2 } else { library.version() };
    if version.contains(wanted) {
        return Ok(());
    }
    Err(format!("the program runs {version}, where {wanted} is wanted"))
}

/// Returns the arguments of mpi4py's benchmarks.
fn bench(task: Task) -> Result<Vec<String>, String> {
    let (first, last) = (SIZES[0].to_string(), SIZES[SIZES.len() - 1].to_string());
    let words: &[&str] = match task {
        Task::Ring => &["ringtest", "-n", "1024", "-s", "100", "-l", "2000"],
        Task::PingPong => &["pingpong", "-m", &first, "-n", &last, "-s", "1000", "-l", "10000"],
        Task::Pickle => &["pingpong", "-p", "-m", &first, "-n", &last, "-s", "1000", "-l", "10000"],
        _ => return Err(format!("{} is not of mpi4py", task.name())),
    };
    Ok(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Returns the input of a timer of PBLAS: a line for each value, the value of each test in it, and
/// words that it does not read.
fn pblas(ranks: u32) -> String {
    let (order, block, tests) = PBLAS;
    let mut lines: Vec<String> =
        ["'Level 3'", "'two cores'", "'PDBLAS3TIM.SUMM'", "6"].map(str::to_owned).into();
    let rows = if ranks >= 4 { 2 } else { 1 };
    let grid = [block.to_string(), "1".into(), rows.to_string(), (ranks / rows).to_string()];
    lines.extend(grid);
    lines.extend(["2.0D0".to_owned(), "3.0D0".to_owned(), tests.to_string()]);
    let mut add = |value: &str| lines.push(vec![value; tests].join(" "));
    ["'N'", "'L'", "'N'", "'N'", "'U'"].into_iter().for_each(&mut add);
    let (order, block) = (order.to_string(), block.to_string());
    (0..3).for_each(|_| add(&order));
    // The matrices A, B and C: rows and columns, blocks, where they begin, and the first element.
    for _ in 0..3 {
        [&order, &order].into_iter().for_each(|value| add(value));
        (0..4).for_each(|_| add(&block));
        ["0", "0", "1", "1"].into_iter().for_each(&mut add);
    }
    lines.extend(ROUTINES.map(|routine| format!("{routine:<8}T")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_of_pblas_has_a_value_for_each_test() {
        let text = pblas(4);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 11 + 5 + 3 + 3 * 10 + ROUTINES.len());
        assert_eq!((lines[6], lines[7], lines[10]), ("2", "2", "16"));
        assert!(lines[11..49].iter().all(|line| line.split_whitespace().count() == PBLAS.2), "{text}");
        assert_eq!((pblas(2).lines().nth(6), pblas(2).lines().nth(7)), (Some("1"), Some("2")));
    }

    #[test]
    fn another_library_is_refused() {
        assert_eq!(check(Task::Start, Library::Mpich, "MPICH Version:      5.0.2"), Ok(()));
        let why = check(Task::Start, Library::Ours, "MPICH Version:      5.0.2").expect_err("MPICH");
        assert!(why.contains("netmod-mpi is wanted"), "{why}");
        assert_eq!(check(Task::Nwchem, Library::OpenMpi, "Open MPI v4.1.4, package: Debian"), Ok(()));
        assert!(check(Task::Pblas, Library::OpenMpi, "Open MPI v4.1.4, package: Debian").is_err());
    }

    #[test]
    fn a_job_prints_its_figure() {
        let outcome = Task::Memory.read("memory 8 1254.5\n").expect("a figure");
        assert_eq!(outcome.figures, [("a rank".to_owned(), 1254.5)]);
        assert!(Task::Idle.read("").is_err());
        assert_eq!(Task::Start.read(""), Ok(Outcome::default()));
    }

    #[test]
    fn what_is_left_of_a_job_is_killed() {
        let mut left = Command::new("sleep").arg("60").env(MARK, mark()).spawn().expect("a process");
        // The parent of a new program goes on before the kernel shows its variables.
        let ended = (0..1000).find_map(|_| {
            end_left();
            std::thread::sleep(std::time::Duration::from_millis(1));
            left.try_wait().expect("a state")
        });
        assert!(!ended.expect("it has ended").success());
    }

    #[test]
    fn only_benchmarks_of_mpi4py_have_its_arguments() {
        assert_eq!(bench(Task::Pickle).map(|words| words[1].clone()), Ok("-p".into()));
        assert!(bench(Task::Idle).is_err());
    }
}

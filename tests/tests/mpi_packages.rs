//! The packages of the MPI library in places that know nothing of it: a wheel in an empty
//! environment of Python, and an archive that is unpacked somewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_tests::jobs::launch::{
    JOB_LIMIT, Outcome, find_program, launcher_or_skip, run, run_within, workspace_program,
};
use netmod_tests::jobs::mpi::{installed, mpi4py};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Variables that could bring another library in.
const OF_OTHERS: [&str; 4] = ["LD_LIBRARY_PATH", "PYTHONPATH", "MPI_HOME", "MPI4PY_LIBMPI"];

fn succeeds(command: &mut Command) -> Outcome {
    let done = run_within(command, 2 * JOB_LIMIT);
    assert!(done.status.success(), "{done}");
    done
}

/// Returns a new folder for a test.
fn folder(test: &str) -> PathBuf {
    let folder = installed(JOB).file("packages").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Makes a package and returns its path.
fn package(kind: &str, to: &Path) -> PathBuf {
    installed(JOB);
    let from = Path::new(JOB).parent().expect("a program in a directory");
    let mut make = Command::new(workspace_program(JOB, "xtask", "xtask"));
    let done = succeeds(make.arg(kind).arg("--from").arg(from).arg("--to").arg(to));
    let path = done.output.lines().find(|line| line.starts_with('/') && Path::new(line).is_file());
    path.unwrap_or_else(|| panic!("no path: {done}")).into()
}

/// Returns a program of a prefix, to be run as in a new shell.
fn program(prefix: &Path, name: &str) -> Command {
    let mut command = Command::new(prefix.join("bin").join(name));
    for name in OF_OTHERS {
        command.env_remove(name);
    }
    command
}

/// Compiles and runs a program of `tests/programs` with the compilers and the launcher of a prefix.
fn compile_and_run(prefix: &Path, compiler: &str, source: &str, to: &Path) {
    let case = source.split('.').next().unwrap_or(source);
    let binary = to.join(format!("{case}-{compiler}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    succeeds(program(prefix, compiler).arg(source).arg("-o").arg(&binary));
    let done = run(program(prefix, "mpiexec").args(["-n", "3"]).arg(binary));
    done.expect_ok(case, 3);
    assert!(!done.output.contains("another MPI library"), "{done}");
}

#[test]
fn pip_brings_the_library_into_an_empty_environment() {
    let test = "pip_brings_the_library_into_an_empty_environment";
    let Some((python, packages)) = mpi4py(test) else { return };
    let Some(pip) = launcher_or_skip(test, "pip3", "python3-pip") else { return };
    let folder = folder(test);
    let wheel = package("wheel", &folder);
    let env = folder.join("env");
    succeeds(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&env));
    let mut install = Command::new(pip);
    install.arg("--python").arg(env.join("bin/python")).args(["install", "--quiet", "--no-index"]);
    succeeds(install.arg("--disable-pip-version-check").arg(wheel));
    // mpi4py, as pip has unpacked it.
    let ask = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let site = succeeds(program(&env, "python").args(["-c", ask])).output.trim().to_owned();
    succeeds(Command::new("cp").arg("-r").arg(packages.join("mpi4py")).arg(site));
    let done = run(program(&env, "mpiexec").args(["-n", "4"]).arg(env.join("bin/python")).args([
        "-m",
        "mpi4py.bench",
        "ringtest",
    ]));
    assert!(done.status.success() && done.output.contains("4 processes"), "{done}");
    let ask = "from mpi4py import MPI; print(MPI.Get_library_version())";
    let done = run(program(&env, "mpirun").args(["-n", "1"]).arg(env.join("bin/python")).args(["-c", ask]));
    assert!(done.output.contains("netmod-mpi"), "{done}");
    for (compiler, source) in [("mpicc", "ring.c"), ("mpicc_abi", "ring.c"), ("mpif90", "ring.f90")] {
        if compiler == "mpif90" && find_program("gfortran").is_none() {
            continue;
        }
        compile_and_run(&env, compiler, source, &folder);
    }
}

#[test]
fn an_archive_is_unpacked_and_its_module_loaded() {
    let test = "an_archive_is_unpacked_and_its_module_loaded";
    let folder = folder(test);
    let archive = package("dist", &folder);
    let place = folder.join("some where");
    std::fs::create_dir_all(&place).expect("a folder");
    succeeds(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place));
    let unpacked = std::fs::read_dir(&place).expect("a folder").flatten().map(|entry| entry.path());
    let [prefix] = &unpacked.collect::<Vec<_>>()[..] else { panic!("one folder") };
    compile_and_run(prefix, "mpicc", "ring.c", &folder);
    let Some(modules) = launcher_or_skip(test, "modulecmd", "environment-modules") else { return };
    let mut load = Command::new(modules);
    load.env("MODULEPATH", prefix.join("share/modulefiles")).args(["sh", "load", "netmod-mpi"]);
    let shell = succeeds(&mut load).output + "\ncommand -v mpiexec; echo $MPI_HOME";
    let said = succeeds(Command::new("sh").args(["-c", &shell])).output;
    let lines: Vec<&str> = said.lines().collect();
    let wanted = [prefix.join("bin/mpiexec").display().to_string(), prefix.display().to_string()];
    assert_eq!(lines, wanted, "{said}");
}

//! The installed MPI library as build tools find it: compilers, CMake, pkg-config, and Fortran.

use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_tests::jobs::launch::{JOB_LIMIT, Outcome, find_program, run, run_within, skip};
use netmod_tests::jobs::mpi::{Prefix, Starter, installed};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn prefix() -> &'static Prefix {
    installed(JOB)
}

/// Returns true if programs of the system are there; says what is missing otherwise.
fn there(test: &str, needs: &[(&str, &str)]) -> bool {
    let missing = needs.iter().find(|(program, _)| find_program(program).is_none());
    if let Some((program, package)) = missing {
        skip(&format!("SKIPPED: {test}: {program} not installed (apt-get install {package})"));
    }
    missing.is_none()
}

/// Returns true if the interface for Fortran is there; says what is missing otherwise.
fn fortran(test: &str) -> bool {
    if !there(test, &[("gfortran", "gfortran")]) {
        return false;
    }
    let asked = run_within(Command::new(prefix().file("bin/mpifort")).arg("-show"), JOB_LIMIT);
    if !asked.status.success() {
        skip(&format!("SKIPPED: {test}: {} (apt-get install libmpich-dev)", asked.output.trim()));
    }
    asked.status.success()
}

fn succeeds(command: &mut Command) -> Outcome {
    let done = run_within(command, 2 * JOB_LIMIT);
    assert!(done.status.success(), "{done}");
    done
}

/// Runs a program as its build left it: it finds the library by its own path.
fn runs(program: &Path, ranks: u32) {
    let mut job = Command::new(prefix().file("bin/mpirun"));
    job.args(["-np", &ranks.to_string()]).arg(program).env_remove("LD_LIBRARY_PATH");
    run(&mut job).expect_ok("ring", ranks);
}

/// Returns the libraries that a program loads.
fn loaded(program: &Path) -> String {
    let mut ask = Command::new("ldd");
    succeeds(ask.arg(program).env_remove("LD_LIBRARY_PATH")).output
}

/// Checks that a program loads this MPI library and no other.
fn loads_ours_alone(program: &Path) {
    let text = loaded(program);
    let ours = prefix().file("lib").display().to_string();
    let of_mpi = text.lines().filter(|line| line.contains("libmpi.so") || line.contains("libmpich.so"));
    let elsewhere: Vec<_> = of_mpi.clone().filter(|line| !line.contains(&ours)).collect();
    assert!(of_mpi.count() > 0 && elsewhere.is_empty(), "{}: {text}", program.display());
}

fn folder(name: &str) -> PathBuf {
    let folder = prefix().file("programs").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

#[test]
fn a_program_in_fortran() {
    if !fortran("a_program_in_fortran") {
        return;
    }
    // Each interface by the compiler of its name: `use mpi`, `mpif.h` and `use mpi_f08`.
    for (compiler, source) in [("mpif90", "ring.f90"), ("mpif77", "ring.f"), ("mpifort", "ring_f08.f90")] {
        let program = folder("fortran").join(compiler);
        let mut compile = Command::new(prefix().file("bin").join(compiler));
        // Functions of the older interfaces take buffers of any type.
        compile.args(["-fallow-argument-mismatch", "-w", "-o"]);
        succeeds(compile.arg(&program).arg(sources().join(source)));
        loads_ours_alone(&program);
        for ranks in [1, 3] {
            runs(&program, ranks);
        }
    }
    // A package has it linked to MPICH; it is run with this library first.
    let Some(foreign) = find_program("mpifort.mpich") else { return };
    let program = folder("fortran").join("ring-mpich");
    succeeds(Command::new(foreign).arg("-o").arg(&program).arg(sources().join("ring.f90")));
    let mut job = prefix().job("a_program_in_fortran", Starter::Nmrun, 3, &program).expect("our launcher");
    run(&mut job).expect_ok("ring", 3);
}

/// Attributes, generalized requests, operations and error handlers are functions of the program.
#[test]
fn functions_in_fortran() {
    let test = "functions_in_fortran";
    if !fortran(test) {
        return;
    }
    let program = folder(test).join("callbacks");
    let mut compile = Command::new(prefix().file("bin/mpif90"));
    // The compiler writes the module there.
    compile.arg("-J").arg(folder(test));
    succeeds(compile.arg("-o").arg(&program).arg(sources().join("callbacks.f90")));
    let mut job = prefix().job(test, Starter::Nmrun, 2, &program).expect("our launcher");
    run(&mut job).expect_ok("callbacks", 2);
}

#[test]
fn cmake_finds_the_library_for_each_language() {
    let test = "cmake_finds_the_library_for_each_language";
    if !there(test, &[("cmake", "cmake"), ("c++", "g++"), ("make", "make")]) || !fortran(test) {
        return;
    }
    let build = folder("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(sources().join("cmake")).arg("-B").arg(&build);
    // CMake looks there before it looks in the system.
    configure.env("MPI_HOME", prefix().file("")).env_remove("LD_LIBRARY_PATH");
    let said = succeeds(&mut configure).output;
    for found in ["bin/mpiexec -n", "lib/libmpi.so"] {
        assert!(said.contains(&prefix().file(found).display().to_string()), "{found}: {said}");
    }
    succeeds(Command::new("cmake").arg("--build").arg(&build));
    for name in ["ring-c", "ring-cc", "ring-f90"] {
        loads_ours_alone(&build.join(name));
        runs(&build.join(name), 2);
    }
}

#[test]
fn pkg_config_knows_the_library() {
    if !there("pkg_config_knows_the_library", &[("pkg-config", "pkg-config")]) {
        return;
    }
    let ask = |arguments: &[&str]| {
        let mut ask = Command::new("pkg-config");
        ask.args(arguments).env("PKG_CONFIG_PATH", prefix().file("lib/pkgconfig"));
        succeeds(&mut ask).output.trim().to_owned()
    };
    // The files find everything from their own place.
    let place = prefix().file("lib/pkgconfig/../..").display().to_string();
    for name in ["mpich", "mpi"] {
        assert_eq!(ask(&["--cflags", name]), format!("-I{place}/include"));
        assert_eq!(ask(&["--libs", name]), format!("-L{place}/lib -lmpi"));
    }
    let program = folder("pkg-config").join("ring");
    let mut compile = Command::new("cc");
    compile.arg("-o").arg(&program).arg(sources().join("ring.c"));
    succeeds(compile.args(ask(&["--cflags", "--libs", "mpich"]).split_whitespace()));
    let mut job = prefix().job("pkg_config", Starter::Nmrun, 2, &program).expect("our launcher");
    run(&mut job).expect_ok("ring", 2);
}

//! The packages of the MPI library in places that know nothing of it: a wheel in an empty
//! environment of Python, an archive that is unpacked somewhere, a Debian package in a system of
//! its own, and an installation that is brought into a container.

use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_tests::jobs::launch::{
    JOB_LIMIT, Outcome, find_program, launcher_or_skip, run, run_within, skip, workspace_program,
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

/// Makes a system of its own, in which nothing that is written stays: folder, then a script that
/// runs before the root changes, then the command. To be run in new namespaces of mounts and
/// processes.
const SYSTEM: &str = "\
set -e
folder=$1 prepare=$2
shift 2
mount --make-rprivate /
mount -t tmpfs system \"$folder\"
mkdir \"$folder/upper\" \"$folder/work\" \"$folder/root\"
mount -t overlay system -o \"lowerdir=/,upperdir=$folder/upper,workdir=$folder/work\" \"$folder/root\"
mount --rbind /dev \"$folder/root/dev\"
mount -t proc proc \"$folder/root/proc\"
cd \"$folder/root\"
eval \"$prepare\"
exec chroot . \"$@\"
";

/// Returns a command in a system of its own, unless this process may not make one.
fn in_own_system(test: &str, folder: &Path, prepare: &str) -> Option<Command> {
    if !std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0) {
        skip(&format!("SKIPPED: {test}: only root can make a system of its own"));
        return None;
    }
    let mut command = Command::new("unshare");
    for name in OF_OTHERS {
        command.env_remove(name);
    }
    command.args(["--mount", "--pid", "--fork", "sh", "-c", SYSTEM, "system"]).arg(folder).arg(prepare);
    Some(command)
}

#[test]
fn a_debian_package_comes_and_goes() {
    let test = "a_debian_package_comes_and_goes";
    let (folder, place) = (folder(test), std::env::temp_dir().join(format!("{test}-{}", std::process::id())));
    std::fs::create_dir_all(&place).expect("a folder");
    let deb = package("deb", &folder);
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let prepare = format!("mkdir root/try; cp '{}' '{}'/*.[ch] root/try", deb.display(), programs.display());
    let Some(mut system) = in_own_system(test, &place, &prepare) else { return };
    let script = "\
set -e
cd /root/try
dpkg --install netmod-mpi_*.deb
arch=$(uname -m)-linux-gnu
own=/usr/lib/$arch/netmod-mpi
update-alternatives --set mpi $own/bin/mpicc
update-alternatives --set mpirun $own/bin/mpirun
update-alternatives --set mpi-$arch $own/include
mpicc ring.c -o ring
mpiexec -n 3 ./ring
cc $(pkg-config --cflags mpi) ring.c -o plain -lmpi
mpiexec -n 2 ./plain
mpicc -show
dpkg --remove netmod-mpi
test ! -e $own/bin/mpicc
test \"$(readlink -f /usr/bin/mpicc)\" != $own/bin/mpicc
echo \"gone: $(update-alternatives --list mpi | grep -c netmod-mpi || :)\"
";
    let done = succeeds(system.args(["sh", "-c", script]));
    assert_eq!(done.ok_ranks("ring"), 5, "{done}");
    assert!(done.output.contains("netmod-mpi/include") && done.output.contains("gone: 0"), "{done}");
    assert!(!done.output.contains("another MPI library"), "{done}");
    std::fs::remove_dir(place).expect("the folder is empty again");
}

/// An image with a program for MPICH, into which the library of the host is brought, as
/// docs/containers.md has it. Each process has namespaces of mounts and processes of its own.
#[test]
fn an_image_for_mpich_runs_with_the_library_of_the_host() {
    let test = "an_image_for_mpich_runs_with_the_library_of_the_host";
    let Some(mpicc) = launcher_or_skip(test, "mpicc.mpich", "libmpich-dev") else { return };
    let (folder, place) = (folder(test), std::env::temp_dir().join(format!("{test}-{}", std::process::id())));
    std::fs::create_dir_all(&place).expect("a folder");
    let program = folder.join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/ring.c");
    succeeds(Command::new(mpicc).arg(source).arg("-o").arg(&program));
    let prefix = installed(JOB).file("");
    let prepare = format!(
        "cp '{}' usr/bin/ring-of-the-image; mkdir opt/netmod-mpi; mount --bind '{}' opt/netmod-mpi",
        program.display(),
        prefix.display()
    );
    let Some(system) = in_own_system(test, &place, &prepare) else { return };
    let mut job = Command::new(prefix.join("bin/mpiexec"));
    job.args(["-n", "3"]).arg(system.get_program()).args(system.get_args());
    let script = "ldd /usr/bin/ring-of-the-image | grep libmpich.so; exec ring-of-the-image";
    job.args(["env", "LD_LIBRARY_PATH=/opt/netmod-mpi/lib", "sh", "-c", script]);
    let done = run(&mut job);
    done.expect_ok("ring", 3);
    assert_eq!(done.output.matches("=> /opt/netmod-mpi/lib/libmpich.so.12").count(), 3, "{done}");
    std::fs::remove_dir(place).expect("the folder is empty again");
}

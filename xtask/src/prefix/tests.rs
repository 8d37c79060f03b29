//! The installation, and what its compilers answer.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use super::*;
use crate::command::write_script;

/// A launcher that prints its options.
const LAUNCHER: &str = "#!/bin/sh\necho \"nmrun $*\"\n";

/// An installation of files without content.
struct Place {
    dir: PathBuf,
    prefix: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("netmod-prefix-{name}-{}", std::process::id()));
        let (from, prefix) = (dir.join("from"), dir.join("to"));
        std::fs::create_dir_all(&from).expect("a folder");
        for name in [MPICH.built, STANDARD.built, "mpivars"] {
            std::fs::write(from.join(name), name).expect("a file");
        }
        put(&from.join("nmrun"), LAUNCHER.as_bytes(), 0o755).expect("a file");
        // The second time everything is there already.
        for _ in 0..2 {
            lay(&from, &prefix).expect("an installation");
        }
        Place { dir, prefix }
    }

    fn run(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let program = self.prefix.join("bin").join(program);
        let mode = std::fs::metadata(&program).expect("the program").permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{}", program.display());
        // The shell reads it also while another thread's child has it open for writing.
        let mut command = Command::new("sh");
        command.arg(&program);
        for name in ["MPICH_CC", "MPICH_CXX", "MPICH_FC", "MPICH_F90", "MPICH_F77"] {
            command.env_remove(name);
        }
        command.args(arguments).envs(variables.iter().copied()).output().expect("sh")
    }

    /// Returns what a compiler prints.
    fn shown(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let said = self.run(program, arguments, variables);
        assert!(said.status.success(), "{program} {arguments:?}: {said:?}");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    }

    /// Returns the error of a compiler that refuses.
    fn refused(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let said = self.run(program, arguments, variables);
        assert!(!said.status.success() && said.stdout.is_empty(), "{program} {arguments:?}: {said:?}");
        String::from_utf8_lossy(&said.stderr).trim().to_owned()
    }

    fn include(&self) -> String {
        format!("-I{}/include", self.prefix.display())
    }

    fn link(&self) -> String {
        let lib = format!("{}/lib", self.prefix.display());
        format!("-L{lib} -Wl,-rpath,{lib} -Wl,--enable-new-dtags -lmpi")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn everything_is_where_programs_look_for_it() {
    let place = Place::new("files");
    for (name, text) in [
        ("lib/libmpi.so.12", MPICH.built),
        ("lib/libmpich.so.12", MPICH.built),
        ("lib/libmpi.so", MPICH.built),
        ("lib/libmpi_abi.so.1", STANDARD.built),
        ("lib/libmpi_abi.so", STANDARD.built),
        ("bin/nmrun", LAUNCHER),
        ("bin/mpivars", "mpivars"),
        ("bin/mpiexec", LAUNCHER),
        ("bin/mpirun", LAUNCHER),
        ("share/man/man1/mpiexec.1", "nmrun -manual\n"),
        ("share/bash-completion/completions/mpirun", "nmrun -completions\n"),
    ] {
        assert_eq!(std::fs::read_to_string(place.prefix.join(name)).expect(name), text);
    }
    for name in [
        "include/mpi.h",
        "include/standard/mpi.h",
        "include/netmod_mpi_io.h",
        "include/standard/netmod_mpi_io.h",
        "lib/pkgconfig/mpich.pc",
        "lib/pkgconfig/mpi.pc",
        "lib/pkgconfig/mpi_abi.pc",
    ] {
        assert!(place.prefix.join(name).is_file(), "{name}");
    }
}

#[test]
fn compilers_show_their_commands() {
    let place = Place::new("shown");
    let shown = |program: &str, arguments: &[&str]| place.shown(program, arguments, &[]);
    let (include, link) = (place.include(), place.link());
    assert_eq!(shown("mpicc", &["-show", "a.c"]), format!("cc {include} a.c {link}"));
    assert_eq!(shown("mpicc", &["-show", "-c", "a.c"]), format!("cc {include} -c a.c"));
    assert_eq!(shown("mpicc", &["-show"]), format!("cc {include} {link}"));
    assert_eq!(shown("mpicc", &["-cc=gcc -m64", "-link_info"]), format!("gcc -m64 {link}"));
    assert_eq!(shown("mpicc", &["-link-info"]), format!("cc {link}"));
    assert_eq!(shown("mpic++", &["-compile_info"]), format!("c++ {include}"));
    assert_eq!(shown("mpicxx", &["-cxx=g++", "-compile-info"]), format!("g++ {include}"));
    assert_eq!(shown("mpicc", &["-show-compile-info"]), include);
    assert_eq!(shown("mpicc", &["-show-link-info"]), link);
    let standard = (format!("{include}/standard"), link.replace("-lmpi", "-lmpi_abi"));
    assert_eq!(shown("mpicc_abi", &["-show", "a.c"]), format!("cc {} a.c {}", standard.0, standard.1));
    assert_eq!(shown("mpic++_abi", &["-compile_info"]), format!("c++ {}", standard.0));
    let profiled = link.replace(" -lmpi", " -ltool -lmpi");
    assert_eq!(shown("mpicc", &["-show", "-profile=tool", "a.o"]), format!("cc {include} a.o {profiled}"));
    for (program, variable) in [("mpicc", "MPICH_CC"), ("mpicxx", "MPICH_CXX")] {
        let said = place.shown(program, &["-compile_info"], &[(variable, "other -x")]);
        assert_eq!(said, format!("other -x {include}"));
    }
    let help = shown("mpicc", &["-help"]);
    for word in ["mpicc", "-show", "-compile_info", "-link_info", "-cc=", "MPICH_CC"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn arguments_reach_the_compiler_as_they_are() {
    let place = Place::new("arguments");
    let compiler = place.prefix.join("bin/print");
    write_script(&compiler, "printf '%s\\n' \"$@\"");
    let compiler = format!("-cc={}", compiler.display());
    let said = place.shown("mpicc", &[&compiler, "-c", "-DX=a \"b\" $c", "*.c", ""], &[]);
    assert_eq!(said, format!("{}\n-c\n-DX=a \"b\" $c\n*.c", place.include()));
    // Questions to the compiler alone are not a program to link.
    assert_eq!(
        place.shown("mpicc", &[&compiler, "--version"], &[]),
        format!("{}\n--version", place.include())
    );
}

#[test]
fn compilers_say_why_they_refuse() {
    let place = Place::new("refused");
    for (arguments, part) in [
        (&[][..], "nothing to compile"),
        (&["-static-mpi", "a.c"], "the MPI library is a shared one only"),
        (&["-config=x", "a.c"], "MPICH_CC"),
    ] {
        let said = place.refused("mpicc", arguments, &[]);
        assert!(said.starts_with("mpicc: ") && said.contains(part), "{said}");
    }
    let own = place.prefix.join("bin/mpicc").display().to_string();
    let said = place.refused("mpicc", &["a.c"], &[("MPICH_CC", &own)]);
    assert!(said.contains("it calls itself") && said.contains("MPICH_CC"), "{said}");
}

#[test]
fn without_the_interface_for_fortran_its_package_is_named() {
    let place = Place::new("fortran");
    let text = script(&MPICH, "fortran").replace("/usr/include/", "/nowhere/");
    write_script(&place.prefix.join("bin/mpif90"), &text);
    let said = place.refused("mpif90", &["-show"], &[]);
    assert!(said.starts_with("mpif90: ") && said.contains("package libmpich-dev"), "{said}");
}

#[test]
fn fortran_links_the_interface_and_the_library() {
    let place = Place::new("interface");
    let said = place.run("mpif77", &["-show", "a.f"], &[("MPICH_F77", "f77")]);
    if !said.status.success() {
        eprintln!("SKIPPED: mpifort: {}", String::from_utf8_lossy(&said.stderr));
        return;
    }
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.starts_with("f77 -I/usr/include/"), "{text}");
    assert!(text.contains("-Wl,--disable-new-dtags -lmpichfort -lmpi"), "{text}");
}

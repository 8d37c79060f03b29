//! The languages of the suite's tests: which lists there are, and how the suite is configured.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::run;

/// The tests in a language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language {
    /// Name of the suite of these tests, and of its folder.
    pub(super) suite: &'static str,
    /// Lists of what the library has.
    pub(super) lists: &'static [&'static str],
    /// Libraries that all tests are linked to.
    pub(super) libraries: &'static [&'static str],
    /// Arguments of the script that configures the suite.
    options: &'static [&'static str],
    /// Compilers: their variable for that script, and our command.
    compilers: &'static [(&'static str, &'static str)],
}

/// Tests in C.
pub(crate) const C: Language = Language {
    suite: "mpich",
    lists: &[
        "pt2pt",
        "datatype",
        "coll",
        "comm",
        "attr",
        "group",
        "errhan",
        "info",
        "init",
        "topo",
        "io",
        "rma",
        "part",
        "spawn",
        "mpi_t",
        "errors/attr",
        "errors/coll",
        "errors/comm",
        "errors/datatype",
        "errors/group",
        "errors/io",
        "errors/pt2pt",
        "errors/rma",
        "errors/spawn",
        "errors/topo",
        "threads/pt2pt",
        "threads/part",
        "threads/comm",
        "threads/coll",
        "threads/rma",
        "threads/init",
        "threads/mpi_t",
        "threads/spawn",
    ],
    libraries: &["util", "dtpools"],
    options: &[
        "--disable-fortran",
        "--disable-cxx",
        "--disable-romio",
        "--enable-large-tests",
        "CFLAGS=-O1 -w",
    ],
    compilers: &[("CC", "mpicc"), ("MPICC", "mpicc")],
};

/// Tests of the three interfaces of Fortran.
pub(crate) const FORTRAN: Language = Language {
    suite: "mpich-fortran",
    lists: &[
        "f77/attr",
        "f77/coll",
        "f77/comm",
        "f77/datatype",
        "f77/ext",
        "f77/info",
        "f77/init",
        "f77/io",
        "f77/profile",
        "f77/pt2pt",
        "f77/rma",
        "f77/spawn",
        "f77/topo",
        "f90/attr",
        "f90/coll",
        "f90/comm",
        "f90/datatype",
        "f90/ext",
        "f90/f90types",
        "f90/info",
        "f90/init",
        "f90/io",
        "f90/misc",
        "f90/profile",
        "f90/pt2pt",
        "f90/rma",
        "f90/spawn",
        "f90/timer",
        "f90/topo",
        "f08/attr",
        "f08/coll",
        "f08/comm",
        "f08/datatype",
        "f08/ext",
        "f08/info",
        "f08/init",
        "f08/io",
        "f08/misc",
        "f08/profile",
        "f08/pt2pt",
        "f08/rma",
        "f08/spawn",
        "f08/subarray",
        "f08/timer",
        "f08/topo",
        "errors/f77/io",
        "errors/f90/io",
        "errors/f08/io",
    ],
    libraries: &["util"],
    options: &[
        "--enable-fortran=all",
        "--disable-cxx",
        "CFLAGS=-O1 -w",
        "FFLAGS=-O1 -w -fallow-argument-mismatch",
        "FCFLAGS=-O1 -w -fallow-argument-mismatch",
    ],
    compilers: &[
        ("CC", "mpicc"),
        ("MPICC", "mpicc"),
        ("F77", "mpif77"),
        ("MPIF77", "mpif77"),
        ("FC", "mpifort"),
        ("MPIFC", "mpifort"),
    ],
};

/// The condition for tests of `mpi_f08` in the script that configures the suite: it has no test of
/// the library's module, and trusts MPICH's own build alone.
const ONLY_WITHIN_MPICH: &str = r#"test "$enable_f08" = "yes" -a "$FROM_MPICH" = "yes""#;

impl Language {
    /// Configures the suite for the installed library, unless it is so configured.
    ///
    /// # Errors
    /// If the script fails.
    pub(super) fn configure(&self, tree: &Path, build: &Path, prefix: &Path) -> Result<(), String> {
        let bin = prefix.join("bin");
        let program = |(name, file): &(&str, &str)| format!("{name}={}", bin.join(file).display());
        let mut arguments = vec![
            format!("--srcdir={}", tree.display()),
            "--disable-dependency-tracking".into(),
            "--quiet".into(),
            program(&("MPIEXEC", "mpiexec")),
        ];
        arguments.extend(self.options.iter().map(|option| (*option).to_owned()));
        arguments.extend(self.compilers.iter().map(program));
        let (done, asked) = (build.join("configured"), arguments.join("\n"));
        if std::fs::read_to_string(&done).is_ok_and(|had| had == asked) {
            return Ok(());
        }
        let fault = |e: std::io::Error| format!("{}: {e}", build.display());
        if build.is_dir() {
            std::fs::remove_dir_all(build).map_err(fault)?;
        }
        std::fs::create_dir_all(build).map_err(fault)?;
        let script = std::fs::read_to_string(tree.join("configure")).map_err(fault)?;
        let own = build.join("configure");
        std::fs::write(&own, script.replace(ONLY_WITHIN_MPICH, r#"test "$enable_f08" = "yes""#))
            .map_err(fault)?;
        run(Command::new("sh").arg(&own).args(&arguments).current_dir(build).stdout(Stdio::null()))?;
        std::fs::write(done, asked).map_err(fault)
    }
}

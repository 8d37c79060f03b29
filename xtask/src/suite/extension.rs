//! mpi4py's source package and its extensions: the one for MPICH's ABI as PyPI has it, and the one
//! for the ABI of the standard, built from the source.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::folder;
use crate::command::run;
use crate::install::has;
use crate::mpi4py::{self, PACKAGE};
use crate::options::Options;

/// The folder of the source, in that of the suite.
const SOURCE: &str = "source";

/// An extension of mpi4py.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// For the ABI of MPICH, from PyPI's wheel.
    Mpich,
    /// For the ABI of the standard, compiled by our compiler.
    Standard,
}

impl Extension {
    /// Returns the name of the suite on it.
    pub(super) fn suite(self) -> &'static str {
        match self {
            Extension::Mpich => "mpi4py",
            Extension::Standard => "mpi4py-standard",
        }
    }

    /// Returns the name of the library that it loads.
    pub(super) fn library(self) -> &'static str {
        match self {
            Extension::Mpich => "libmpi.so.12",
            Extension::Standard => "libmpi_abi.so.1",
        }
    }

    /// Returns the folder of the package, fetched or built first unless it is there.
    ///
    /// # Errors
    /// If it cannot be fetched or built.
    pub(super) fn package(self, folder: &Path, prefix: &Path) -> Result<PathBuf, String> {
        match self {
            Extension::Mpich => {
                mpi4py::folder(Options::default()).map_err(|without| format!("not tested: {without}"))
            }
            Extension::Standard => build(folder, prefix),
        }
    }
}

/// Builds the package for the ABI of the standard. pip fetches what the build needs.
fn build(folder: &Path, prefix: &Path) -> Result<PathBuf, String> {
    let package = folder.join("python");
    if package.is_dir() {
        return Ok(package);
    }
    // Beside its place first: what is there is whole.
    let new = folder.join("python.new");
    let fault = |e: std::io::Error| format!("{}: {e}", new.display());
    if new.is_dir() {
        std::fs::remove_dir_all(&new).map_err(fault)?;
    }
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "--no-cache-dir", "--target"]).arg(&new).arg(source()?);
    pip.env("MPI4PY_BUILD_MPIABI", "1").env("MPI4PY_BUILD_MPICC", prefix.join("bin/mpicc_abi"));
    // One large file.
    pip.env("CFLAGS", "-O1");
    // Configurations and compilers of the user are not what is tested.
    for name in ["MPICC", "MPICFG", "MPI4PY_BUILD_MPICFG", "MPI4PY_BUILD_CONFIGURE", "CC"] {
        pip.env_remove(name);
    }
    run(&mut pip)?;
    std::fs::rename(&new, &package).map_err(fault)?;
    Ok(package)
}

fn source_folder() -> PathBuf {
    folder(Extension::Mpich.suite()).join(SOURCE)
}

/// Returns true if the source package is there.
pub(super) fn is_fetched() -> bool {
    source_folder().join("test").is_dir()
}

/// Returns the folder of the tests, fetched first unless it is there.
///
/// # Errors
/// If they cannot be fetched.
pub(super) fn tests() -> Result<PathBuf, String> {
    Ok(source()?.join("test"))
}

/// Returns the folder of the source package, fetched by pip unless it was.
fn source() -> Result<PathBuf, String> {
    let source = source_folder();
    if is_fetched() {
        return Ok(source);
    }
    for program in ["pip3", "tar"] {
        if !has(program) {
            return Err(format!("the tests of {PACKAGE} are fetched with {program}, which is not installed"));
        }
    }
    let folder = folder(Extension::Mpich.suite());
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let work = folder.join("fetch");
    std::fs::create_dir_all(&work).map_err(fault)?;
    let mut pip = Command::new("pip3");
    // The tools that build the package come as wheels.
    pip.args(["download", "--quiet", "--no-deps", "--no-binary=mpi4py", "--disable-pip-version-check"]);
    run(pip.arg("--dest").arg(&work).arg(PACKAGE))?;
    let found = std::fs::read_dir(&work).map_err(fault)?.flatten().map(|f| f.path());
    let archive = found.into_iter().find(|p| p.to_string_lossy().ends_with(".tar.gz"));
    let archive = archive.ok_or_else(|| format!("pip3 has fetched no archive of {PACKAGE}"))?;
    // Beside its place first: what is there is whole.
    let new = folder.join("new");
    std::fs::create_dir_all(&new).map_err(fault)?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&new).arg("--strip-components=1"))?;
    std::fs::rename(&new, &source).map_err(fault)?;
    std::fs::remove_dir_all(&work).map_err(fault)?;
    Ok(source)
}

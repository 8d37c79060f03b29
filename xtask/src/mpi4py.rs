//! mpi4py for the tests: MPI for Python, as PyPI has it, with its extension for MPICH's ABI.
//!
//! It has a BSD licence. It is fetched when tests run and kept in the target folder.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{root, run};
use crate::install::has;
use crate::options::Options;

/// The variable that names the folder to the tests.
pub(crate) const VARIABLE: &str = "NETMOD_TEST_PYTHON";

pub(crate) const PACKAGE: &str = "mpi4py==4.1.2";

/// Returns the folder: from the environment, from an earlier run, or a new one.
///
/// # Errors
/// If there is none, as what is not tested without it.
pub(crate) fn folder(options: Options) -> Result<PathBuf, String> {
    let without = |why: String| format!("mpi4py on the MPI library ({why})");
    if let Some(path) = std::env::var_os(VARIABLE).filter(|p| !p.is_empty()) {
        return Ok(path.into());
    }
    let folder = root().join("target").join("mpi4py");
    if folder.join("mpi4py").is_dir() {
        return Ok(folder);
    }
    if options.no_install || !has("pip3") {
        return Err(without(format!("{PACKAGE} was not fetched by pip3; {VARIABLE} can name its folder")));
    }
    run(Command::new("pip3")
        .args(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"])
        .args(["--root-user-action=ignore", "--target"])
        .arg(&folder)
        .arg(PACKAGE))
    .map_err(|e| without(e.replace('\n', " ")))?;
    Ok(folder)
}

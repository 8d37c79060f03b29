//! The MPI library, installed for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::launch::{run_within, workspace_library, workspace_program};

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
        workspace_program(neighbour, "netmod-pmi", "nmrun");
        let xtask = workspace_program(neighbour, "xtask", "xtask");
        let prefix = from.join("mpi-prefix");
        let mut install = Command::new(xtask);
        install.arg("install").arg("--prefix").arg(&prefix).arg("--from").arg(from);
        let done = run_within(&mut install, super::launch::JOB_LIMIT);
        assert!(done.status.success(), "{done}");
        Prefix(prefix)
    })
}

impl Prefix {
    /// Returns a file of the installation.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

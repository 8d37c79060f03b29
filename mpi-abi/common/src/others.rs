//! Other MPI libraries in the process: their functions have the same names, and calls may go to
//! either.

use std::path::{Path, PathBuf};

use dl::{Loaded, Shared};
use netmod_mpi::on_stderr;

/// Beginnings of the files that MPI libraries are in, as programs ask for them.
const LIBRARIES: [&str; 3] = ["libmpi.so", "libmpich.so", "libmpi_abi.so"];

/// Returns true if a file has the name of an MPI library.
fn is_mpi(file: &Path) -> bool {
    LIBRARIES.iter().any(|start| dl::begins(file, start))
}

/// Returns the files of the MPI libraries in this process, without the one that this code is in.
pub fn loaded() -> Vec<PathBuf> {
    let here = is_mpi as fn(&Path) -> bool as usize;
    let files = dl::loaded();
    let Some(own) = files.iter().find(|file| file.has(here)) else { return Vec::new() };
    let others = files.iter().filter(|file| is_mpi(file.path()) && !file.has(here) && !is_name_of(file, own));
    others.map(|file| file.path().into()).collect()
}

/// Returns true if a library has no functions but those of another one, which it loads: the wheel
/// has such files for the other names of this library.
fn is_name_of(file: &Loaded, own: &Loaded) -> bool {
    // It is loaded already.
    let init = Shared::open(file.path()).ok().and_then(|library| library.symbol(c"MPI_Init", c""));
    init.is_some_and(|address| own.has(address as usize))
}

/// Tells which MPI libraries are in the process beside this one.
pub fn tell(rank: i32) {
    for file in loaded() {
        on_stderr(&format_args!(
            "rank {rank}: another MPI library is loaded beside this one, {}: calls may go to either, and \
             handles of one mean nothing to the other; see who needs it (ldd, LD_DEBUG=libs)",
            file.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_files() {
        let is_mpi = |name: &str| is_mpi(Path::new(name));
        for name in ["/usr/lib/libmpich.so.12", "libmpi.so.40.30.4", "/opt/lib/libmpi_abi.so.1"] {
            assert!(is_mpi(name), "{name}");
        }
        for name in ["", "/usr/lib/libmpichfort.so.12", "/libmpi.so.d/libm.so.6", "libmpiP.so"] {
            assert!(!is_mpi(name), "{name}");
        }
    }

    #[test]
    fn a_program_without_mpi_has_none() {
        assert_eq!(loaded(), Vec::<PathBuf>::new());
    }
}

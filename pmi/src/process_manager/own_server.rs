//! A launcher for a process that none has started, when it needs one: to start programs, and to
//! keep names.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::Version;
use crate::launch::DETACH;
use crate::{PmiClient, PmiError};

/// The name of the launcher's program.
const PROGRAM: &str = "nmrun";
/// Places of the launcher, seen from the folder of the library or program that has this code:
/// beside it; in an installation; in a build of Rust programs.
const PLACES: [&str; 3] = ["nmrun", "../bin/nmrun", "../nmrun"];

/// Starts a launcher, and connects to it. `call` is what needs it.
///
/// # Errors
///
/// Fails if the launcher is not found, or cannot be started.
pub(super) fn connect(call: &'static str) -> Result<PmiClient, PmiError> {
    const DOING: &str = "starting nmrun, since no launcher has started this process";
    let own = dl::file_at(connect as fn(&'static str) -> Result<PmiClient, PmiError> as usize);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = find(own.as_deref(), &std::env::split_paths(&path).collect::<Vec<_>>()).ok_or_else(|| {
        let why = format!(
            "no launcher has started this process, and {PROGRAM}, which would do it, is neither beside this library nor \
             in a folder of PATH; start the program by mpiexec, for one process, too"
        );
        PmiError::Unsupported { call, why }
    })?;
    let io = |source| PmiError::Io { doing: DOING, source };
    let (ours, theirs) = UnixStream::pair().map_err(io)?;
    let mut command = Command::new(&program);
    match command.arg(DETACH).stdin(Stdio::from(OwnedFd::from(theirs))).status() {
        Ok(status) if status.success() => {}
        // A program that ignores the ends of its children, or waits for all, has got it.
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => {}
        Ok(status) => {
            let why = format!("{} ended with {status}; is it of this library?", program.display());
            return Err(PmiError::Unsupported { call, why });
        }
        Err(source) => {
            return Err(io(io::Error::new(source.kind(), format!("{}: {source}", program.display()))));
        }
    }
    drop(command);
    PmiClient::from_fd(ours.into(), 0, 1, Version::V1, None)
}

/// Returns the launcher beside a file, or in one of these folders.
fn find(own: Option<&Path>, folders: &[PathBuf]) -> Option<PathBuf> {
    let folder = own.and_then(Path::parent);
    let beside = folder.into_iter().flat_map(|folder| PLACES.map(|place| folder.join(place)));
    let named = folders.iter().map(|folder| folder.join(PROGRAM));
    beside.chain(named).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_found_beside_the_library_first() {
        let root = std::env::temp_dir().join(format!("netmod-own-server-{}", std::process::id()));
        for folder in ["bin", "lib", "other"] {
            std::fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        let library = root.join("lib/libmpi.so.12");
        let folders = [root.join("empty"), root.join("other")];
        assert_eq!(find(Some(&library), &folders), None);
        std::fs::write(root.join("other/nmrun"), "").expect("a file");
        assert_eq!(find(Some(&library), &folders), Some(root.join("other/nmrun")));
        assert_eq!(find(None, &folders), Some(root.join("other/nmrun")));
        std::fs::write(root.join("bin/nmrun"), "").expect("a file");
        assert_eq!(find(Some(&library), &folders), Some(root.join("lib/../bin/nmrun")));
        std::fs::remove_dir_all(root).expect("the folder");
    }
}

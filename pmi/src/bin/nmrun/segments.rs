//! Shared memory of a job that died while it was starting: its file still has a name, which the
//! last rank would have removed, had it not been killed.
//!
//! netmod-shm names the file for the user and the job, and its ranks hold locks on it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The setting of ranks that names the folder of the files.
pub(crate) const FOLDER: &str = "NETMOD_SHM_DIR";
/// Its default.
const DEFAULT: &str = "/dev/shm";

/// Removes the files of this user in a folder that no process uses.
pub(crate) fn sweep(folder: Option<&OsStr>) {
    let folder = Path::new(folder.filter(|f| !f.is_empty()).unwrap_or(OsStr::new(DEFAULT)));
    // A folder that is not there has no files.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let Ok(user) = std::fs::metadata("/proc/self").map(|process| process.uid()) else { return };
    let start = format!("netmod-{user}-");
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&start)) {
            // The next job tries again what cannot be removed now.
            let _ = remove_unused(&entry.path(), user);
        }
    }
}

/// Removes a private file of a user unless somebody holds a lock on it.
fn remove_unused(path: &Path, user: u32) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let ours = file.metadata()?;
    if !ours.is_file() || ours.uid() != user || ours.mode() & 0o077 != 0 || file.try_lock().is_err() {
        return Ok(());
    }
    // The name may be that of another file by now.
    let named = std::fs::symlink_metadata(path)?;
    if (named.ino(), named.dev()) == (ours.ino(), ours.dev()) { std::fs::remove_file(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_uses_are_removed_and_no_others() {
        let folder = std::env::temp_dir().join(format!("nmrun-segments-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let user = std::fs::metadata(&folder).expect("its owner").uid();
        let make = |name: String, mode: u32| {
            let file = File::options().write(true).create_new(true).mode(mode).open(folder.join(&name));
            (name, file.expect("a file"))
        };
        let (left, file) = make(format!("netmod-{user}-aa-0"), 0o600);
        drop(file);
        let (used, locked) = make(format!("netmod-{user}-bb-0"), 0o600);
        locked.lock_shared().expect("a lock");
        let (public, _) = make(format!("netmod-{user}-cc"), 0o644);
        let (other, _) = make(format!("another-{user}-dd"), 0o600);
        std::os::unix::fs::symlink(&other, folder.join(format!("netmod-{user}-ee"))).expect("a link");
        sweep(Some(folder.as_os_str()));
        let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
        assert!(!there(&left));
        assert!(there(&used) && there(&public) && there(&other) && there(&format!("netmod-{user}-ee")));
        drop(locked);
        sweep(Some(folder.as_os_str()));
        assert!(!there(&used));
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }
}

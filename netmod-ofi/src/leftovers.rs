//! Removes shared memory that the provider shm leaves behind when a process is killed.
//!
//! The provider makes a file of 16 MiB for each endpoint and removes it when the endpoint is
//! closed. A killed process closes nothing, and the provider holds no lock that would show it. So
//! each of our endpoints gets a second name (hard link) for its file, [`Mark`], and a lock on it,
//! which the kernel releases however the process ends. A marked file without a lock is a leftover.
//! Files of other programs have no mark and are never touched; neither is a file that was made anew
//! under an old name.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of the provider's files.
pub(crate) const FOLDER: &str = "/dev/shm";
/// Prefix of the names of marks; the user's number and the file's name follow.
const PREFIX: &str = "netmod-ofi-";

/// A lock on the shared memory of one of this process's endpoints, and its second name.
#[derive(Debug)]
pub(crate) struct Mark {
    link: PathBuf,
    /// Owner of the files.
    user: u32,
    /// Process that made the mark. A forked child shares the lock, but not the endpoint.
    process: u32,
    /// Holds the lock.
    _file: File,
}

impl Mark {
    /// Marks the file of the endpoint with this address. Returns `None` if it has no file in the
    /// folder.
    ///
    /// # Errors
    /// If the file exists, and cannot be locked or linked.
    pub(crate) fn new(folder: &Path, address: &[u8]) -> io::Result<Option<Mark>> {
        let Some(name) = file_name(address) else { return Ok(None) };
        let path = folder.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        // Locked before it is linked: a mark without a lock would be swept.
        file.lock_shared()?;
        let user = file.metadata()?.uid();
        let link = folder.join(format!("{PREFIX}{user}-{name}"));
        match std::fs::hard_link(&path, &link) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // The mark of a killed process with the same number.
                std::fs::remove_file(&link)?;
                std::fs::hard_link(&path, &link)?;
            }
            result => result?,
        }
        Ok(Some(Mark { link, user, process: std::process::id(), _file: file }))
    }

    /// Removes leftovers of the same user in the folder; returns the number of files.
    pub(crate) fn sweep(&self, folder: &Path) -> usize {
        let prefix = format!("{PREFIX}{}-", self.user);
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let left = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            let marked = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            marked.is_some_and(|name| remove(&entry.path(), &folder.join(name)).is_ok_and(|removed| removed))
        });
        left.count()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If another process has removed it, nothing is left to do.
            let _ = std::fs::remove_file(&self.link);
        }
    }
}

/// Returns the name of an endpoint's file: the part after the scheme of an address such as
/// `fi_shm://4711:0:0`.
fn file_name(address: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(address.split(|b| *b == 0).next()?).ok()?;
    let (_, name) = text.split_once("://")?;
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    plain.then_some(name)
}

/// Removes an unlocked mark, and its file if that is still the same. Returns true if it did.
fn remove(link: &Path, path: &Path) -> io::Result<bool> {
    if !std::fs::symlink_metadata(link)?.is_file() {
        return Ok(false);
    }
    let file = File::open(link)?;
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let dead = file.metadata()?;
    if std::fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == (dead.dev(), dead.ino())) {
        std::fs::remove_file(path)?;
    }
    std::fs::remove_file(link)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("netmod-left-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }

        fn file(&self, name: &str) {
            std::fs::write(self.0.join(name), "memory").expect("a file");
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).expect("the folder");
            let mut names: Vec<String> =
                entries.map(|e| e.expect("an entry").file_name().into_string().expect("text")).collect();
            names.sort();
            names
        }

        fn mark(&self, address: &[u8]) -> Mark {
            Mark::new(&self.0, address).expect("it can be marked").expect("it has a file")
        }

        /// Leaves a mark as a killed process does: unlocked, with its names in place.
        fn kill(&self, mut mark: Mark) {
            mark.process = 0;
            drop(mark);
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("it can be removed");
        }
    }

    #[test]
    fn names_are_those_of_files() {
        assert_eq!(file_name(b"fi_shm://12:0:1\0\0"), Some("12:0:1"));
        for bad in
            [&b"fi_shm://"[..], b"12:0:1", b"fi_shm://../x", b"fi_shm://a/b", b"fi_shm://.x", b"\xff://x"]
        {
            assert_eq!(file_name(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_a_killed_process_leaves_is_removed_and_nothing_else() {
        let f = Folder::new("swept");
        for name in ["1:0:0", "2:0:0", "3:0:0", "4:0:0"] {
            f.file(name);
        }
        let alive = f.mark(b"fi_shm://1:0:0\0");
        f.kill(f.mark(b"fi_shm://2:0:0\0"));
        // Another process reuses the number, and so the name, of a killed one.
        f.kill(f.mark(b"fi_shm://3:0:0\0"));
        std::fs::remove_file(f.0.join("3:0:0")).expect("removed");
        f.file("3:0:0");
        assert_eq!(alive.sweep(&f.0), 2);
        let user = alive.user;
        // The fourth file has no mark: it belongs to another program.
        assert_eq!(f.names(), ["1:0:0", "3:0:0", "4:0:0", &format!("netmod-ofi-{user}-1:0:0")]);
        drop(alive);
        assert_eq!(f.names(), ["1:0:0", "3:0:0", "4:0:0"]);
    }

    #[test]
    fn a_stale_mark_makes_way() {
        let f = Folder::new("stale");
        f.file("1:0:0");
        f.kill(f.mark(b"fi_shm://1:0:0"));
        std::fs::remove_file(f.0.join("1:0:0")).expect("removed");
        f.file("1:0:0");
        let mark = f.mark(b"fi_shm://1:0:0");
        assert_eq!(mark.sweep(&f.0), 0);
        drop(mark);
        assert_eq!(f.names(), ["1:0:0"]);
    }

    #[test]
    fn endpoints_without_a_file_have_no_mark() {
        let f = Folder::new("none");
        assert!(Mark::new(&f.0, b"fi_shm://9:0:0").expect("no error").is_none());
        assert!(Mark::new(&f.0, &[2, 0, 0, 1]).expect("no error").is_none());
    }
}

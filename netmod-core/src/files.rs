//! Files in folders that others may write to.
//!
//! They are created anew, so that no link or pipe in their place is followed or waited for. Only
//! their owner can read them, whatever the umask.

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most names that are tried.
const TRIES: u32 = 16;

/// Creates a file for this user alone.
///
/// # Errors
///
/// Those of the system; [`ErrorKind::AlreadyExists`] if the name exists, even as a dangling link.
pub fn create_new(path: &Path) -> io::Result<File> {
    // O_EXCL: neither follows a link nor opens what is there. The standard library adds O_CLOEXEC.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a folder and its parents, for this user alone. Existing folders are unchanged.
///
/// # Errors
///
/// Those of the system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file for this user alone, atomically replacing an existing one; returns its path.
///
/// If the name cannot be used, because it is another user's file, the new file gets another name.
///
/// # Errors
///
/// Those of the system; then no file is left.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let (mut new, mut file) = create_beside(path)?;
    let written = file.write_all(bytes);
    if let Err(e) = written {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&new);
        return Err(e);
    }
    if std::fs::rename(&new, path).is_ok() {
        new = path.to_owned();
    }
    Ok(new)
}

/// Creates a file whose name is that of `path` plus an unpredictable part.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for n in 0..TRIES {
        let new = path.with_extension(format!("{:016x}.{extension}", RandomState::new().hash_one(n)));
        match create_new(&new) {
            Ok(file) => return Ok((new, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => last = e,
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("netmod-files-{name}-{}", std::process::id()));
            create_folder(&path).expect("a folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_the_user_s_alone() {
        let folder = Folder::new("mode");
        assert_eq!(mode(&folder.0), 0o700);
        let path = folder.0.join("a.txt");
        assert_eq!(replace(&path, b"one").unwrap(), path);
        assert_eq!(replace(&path, b"two").unwrap(), path);
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left");
    }

    /// A link in the file's place is not written through, and a pipe not waited for.
    #[test]
    fn a_link_or_pipe_is_replaced_and_not_used() {
        let folder = Folder::new("laid");
        let (path, victim) = (folder.0.join("a.txt"), folder.0.join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert_eq!(create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(replace(&path, b"new").unwrap(), path);
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");

        let pipe = folder.0.join("b.txt");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(replace(&pipe, b"new").unwrap(), pipe);
        assert_eq!(std::fs::read(&pipe).unwrap(), b"new");

        // A name that cannot be used: the file gets another one.
        let taken = folder.0.join("c.txt");
        std::fs::create_dir(&taken).unwrap();
        let other = replace(&taken, b"new").unwrap();
        assert!(other != taken && mode(&other) == 0o600);
        assert_eq!(std::fs::read(&other).unwrap(), b"new");
    }
}

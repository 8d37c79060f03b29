//! Files that a process leaves in folders which others may write to.
//!
//! They are made new, so that no link or pipe that somebody has laid in their place is followed or waited for, and only their owner can
//! read them, whatever the umask.

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names that are tried.
const TRIES: u32 = 16;

/// Makes a file for this user alone.
///
/// # Errors
/// Of the system; [`ErrorKind::AlreadyExists`] if there is anything of that name, a dangling link included.
pub fn create_new(path: &Path) -> io::Result<File> {
    // O_EXCL: neither follows a link nor opens what is there. The standard library adds O_CLOEXEC.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a folder, and those it is in, for this user alone. Folders that are there stay as they are.
///
/// # Errors
/// Of the system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file for this user alone, which takes the place of one that is there. Whoever reads it finds all of it. If the place cannot be
/// had, because somebody else's file is in it, the new one gets another name. Returns its path.
///
/// # Errors
/// Of the system; then no file is left.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let (mut new, mut file) = create_beside(path)?;
    let written = file.write_all(bytes);
    if let Err(e) = written {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&new);
        return Err(e);
    }
    if std::fs::rename(&new, path).is_ok() {
        new = path.to_owned();
    }
    Ok(new)
}

/// Makes a file whose name is that of `path` and something that nobody can guess.
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

    /// Neither is what a link leads to written to, nor a pipe waited for.
    #[test]
    fn what_lies_in_the_place_of_a_file_is_replaced_and_not_used() {
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

        // A place that cannot be had: the file has another name.
        let taken = folder.0.join("c.txt");
        std::fs::create_dir(&taken).unwrap();
        let other = replace(&taken, b"new").unwrap();
        assert!(other != taken && mode(&other) == 0o600);
        assert_eq!(std::fs::read(&other).unwrap(), b"new");
    }
}

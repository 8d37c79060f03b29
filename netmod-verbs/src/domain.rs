//! The file by which the processes of a job on one node find their XRC domain.
//!
//! Its device and inode identify the domain (`ibv_open_xrcd(3)`); its content is empty. Each member
//! holds a shared lock on it. The last member to leave, who can therefore lock it exclusively,
//! removes it. A file of a killed job has no lock, and is reused.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netmod_core::PeerName;

use crate::error::PortError;

/// Maximum number of retries if the file is removed while this process opens it.
const TRIES: usize = 1000;

/// A process's membership in the domain. Dropping it leaves the domain.
#[derive(Debug)]
pub(crate) struct Member {
    file: File,
    path: PathBuf,
    name: (u64, u64),
}

/// Returns the path of the file for a job's domain on a port.
pub(crate) fn path_of(me: PeerName, device: &str, port: u8) -> PathBuf {
    let job: String = me.group.0.iter().map(|b| format!("{b:02x}")).collect();
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("netmod-verbs-{}-{job}-{device}-{port}", user()))
}

/// Returns this process's user, whose files these are.
fn user() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |m| m.uid())
}

impl Member {
    /// Joins the domain.
    ///
    /// # Errors
    /// If the file cannot be opened, or is not a file of this user alone.
    pub(crate) fn join(path: PathBuf) -> Result<Member, PortError> {
        let wrong = |what| PortError::WrongFile { path: path.clone(), what };
        let failed = |source| PortError::File { path: path.clone(), source };
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file =
                options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path).map_err(failed)?;
            let of = file.metadata().map_err(failed)?;
            if !of.is_file() || of.uid() != user() || of.mode() & 0o077 != 0 {
                return Err(wrong("it is not a file of this user alone"));
            }
            file.lock_shared().map_err(failed)?;
            // A process that has removed the file meanwhile had its lock.
            let name = (of.dev(), of.ino());
            if is_at(&path, name) {
                return Ok(Member { file, path, name });
            }
        }
        Err(wrong("it is removed again and again"))
    }

    /// Returns device and inode.
    pub(crate) fn name(&self) -> (u64, u64) {
        self.name
    }

    /// Returns the file's descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_at(path: &Path, name: (u64, u64)) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == name)
}

impl Drop for Member {
    fn drop(&mut self) {
        // If this fails, other members hold the lock, or are about to, and remove the file later.
        if self.file.try_lock().is_ok()
            && is_at(&self.path, self.name)
            && let Err(why) = std::fs::remove_file(&self.path)
        {
            tracing::info!(%why, path = ?self.path, "the file of an XRC domain stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn path_for(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("netmod-verbs-test-{}-{test}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn members_have_one_name_and_the_last_one_removes_the_file() {
        let path = path_for("members");
        let a = Member::join(path.clone()).unwrap();
        let b = Member::join(path.clone()).unwrap();
        assert_eq!(a.name(), b.name());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(a);
        assert!(path.exists(), "a member is left");
        let c = Member::join(path.clone()).unwrap();
        assert_eq!(c.name(), b.name());
        drop(b);
        drop(c);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_job_has_left_is_used() {
        let path = path_for("left");
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path).unwrap();
        drop(Member::join(path.clone()).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn somebody_elses_file_is_refused() {
        let path = path_for("else");
        symlink("/dev/null", &path).unwrap();
        assert!(Member::join(path.clone()).is_err(), "a link");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Member::join(path.clone()).unwrap_err().to_string().contains("this user alone"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn many_come_and_go_and_nothing_is_left() {
        let path = path_for("many");
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..200).for_each(|_| drop(Member::join(path.clone()).unwrap())));
            }
        });
        assert!(!path.exists());
    }
}

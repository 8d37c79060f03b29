//! A process that no launcher has started, and that needs one: it starts this program, whose
//! standard input is one end of a socket, and speaks PMI-1 over the other.
//!
//! Three processes: the first one starts the second and ends, so that the process that asks gets
//! no child that it does not know. The second is a launcher. Its one rank is the third, which
//! passes on what the two say, and ends with the process outside. So the launcher treats that as
//! any rank.

use std::ffi::OsStr;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::{LaunchError, Launcher};
use crate::sys;

/// The argument with which the process outside starts a launcher.
pub(crate) const DETACH: &str = "--serve-process";
const SERVE: &str = "--serve-process-here";
const RELAY: &str = "--relay-process";

/// Does what the first argument of the command line demands, if a process that was started without
/// a launcher demands something. Returns the exit code.
///
/// # Errors
///
/// Fails if the system refuses what this needs.
pub fn serve_outside(argument: Option<&OsStr>) -> Option<Result<i32, LaunchError>> {
    match argument?.to_str()? {
        DETACH => Some(detach()),
        SERVE => Some(serve()),
        RELAY => Some(relay().map_err(LaunchError::system("passing PMI on"))),
        _ => None,
    }
}

fn own_program() -> Result<std::path::PathBuf, LaunchError> {
    std::env::current_exe().map_err(LaunchError::system("asking for the path of nmrun"))
}

fn detach() -> Result<i32, LaunchError> {
    let started = Command::new(own_program()?).arg(SERVE).spawn();
    started.map(|_| 0).map_err(LaunchError::system("starting nmrun for a process without a launcher"))
}

fn serve() -> Result<i32, LaunchError> {
    let report = Launcher::new(own_program()?).arg(RELAY).forward_signals(true).run()?;
    Ok(report.code)
}

/// Passes on what the process outside and the launcher say, until one of them has ended.
fn relay() -> io::Result<i32> {
    let number = std::env::var("PMI_FD").ok().and_then(|fd| fd.parse().ok());
    let number = number.ok_or_else(|| io::Error::other("PMI_FD is not set"))?;
    let launcher = UnixStream::from(sys::duplicate_inherited(number)?);
    let outside = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    pass(&outside, &launcher).map(|()| 0)
}

fn pass(outside: &UnixStream, launcher: &UnixStream) -> io::Result<()> {
    // An end that has closed already cannot be shut down, nor need it be.
    let close = |end: &UnixStream| drop(end.shutdown(Shutdown::Both));
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let passed = io::copy(&mut &*outside, &mut &*launcher);
            close(launcher);
            passed
        });
        let back = io::copy(&mut &*launcher, &mut &*outside);
        close(outside);
        let there = there.join().unwrap_or_else(|_| Err(io::Error::other("its thread has failed")));
        // The end of a process breaks its connection.
        let ended =
            |e: &io::Error| matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        [there, back]
            .into_iter()
            .filter(|passed| !passed.as_ref().is_err_and(ended))
            .try_for_each(|p| p.map(drop))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn each_side_hears_the_other_and_its_end() {
        let (mut process, outside) = UnixStream::pair().expect("a pair");
        let (mut server, launcher) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || pass(&outside, &launcher));
        let mut word = [0; 4];
        for _ in 0..3 {
            process.write_all(b"ask\n").expect("a request");
            server.read_exact(&mut word).expect("a request");
            server.write_all(b"yes\n").expect("a reply");
            process.read_exact(&mut word).expect("a reply");
            assert_eq!(&word, b"yes\n");
        }
        drop(process);
        assert_eq!(server.read(&mut word).expect("the end"), 0);
        thread.join().expect("the relay").expect("no failure");
    }

    #[test]
    fn other_arguments_are_left_alone() {
        for other in ["-n", "--serve", "program"] {
            assert!(serve_outside(Some(OsStr::new(other))).is_none());
        }
        assert!(serve_outside(None).is_none());
    }
}

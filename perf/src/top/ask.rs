//! Asks this machine's ranks for their state, all at once and with a time limit.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ch3_shim::StatusReport;
use socket2::{Domain, SockAddr, Socket, Type};

/// Maximum length of an answer in bytes.
const LONGEST: usize = 4 << 20;

/// A rank, from the name of its socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) job: String,
    pub(crate) rank: u32,
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
}

impl Name {
    /// Parses a path such as `DIR/0123abcd-5-4711.sock`.
    pub(crate) fn of(path: &Path) -> Option<Name> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        let mut parts = stem.rsplitn(3, '-');
        let (pid, rank, job) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Name { job: job.into(), rank: rank.parse().ok()?, pid: pid.parse().ok()?, path: path.into() })
    }
}

/// Result of asking a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Its report.
    Report(Box<StatusReport>),
    /// The process lives, but has not answered in time.
    Silent {
        /// Process state, a letter as in `ps`.
        state: char,
        /// Kernel function that it waits in, if known.
        wchan: String,
    },
    /// Permission denied: process or socket belongs to another user.
    Denied,
    /// The process has ended.
    Gone,
    /// The answer is not a report.
    Nonsense(String),
}

enum Asking {
    Reading(UnixStream, Vec<u8>),
    Done(Answer),
}

/// Reads the state of a process from `/proc`.
pub(crate) fn process(pid: u32) -> Answer {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Answer::Gone };
    // The name in parentheses may contain anything; the state follows the last parenthesis.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    if matches!(state, 'Z' | 'X') {
        return Answer::Gone;
    }
    let wchan = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    Answer::Silent { state, wchan: wchan.trim_matches('0').to_owned() }
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A rank that is stuck has a full backlog, so a blocking connect would wait.
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
}

fn begin(name: &Name) -> Asking {
    match connect(&name.path) {
        Ok(stream) => Asking::Reading(stream, Vec::new()),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Asking::Done(Answer::Denied),
        Err(_) => Asking::Done(process(name.pid)),
    }
}

/// Reads available data; returns the answer when it is complete.
fn read(stream: &mut UnixStream, text: &mut Vec<u8>, pid: u32) -> Option<Answer> {
    let mut piece = [0; 16 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) if text.is_empty() => return Some(process(pid)),
            Ok(0) => {
                let report = serde_json::from_slice(text);
                return Some(report.map_or_else(
                    |e| Answer::Nonsense(format!("{e}; is the program of another version?")),
                    |r| Answer::Report(Box::new(r)),
                ));
            }
            Ok(n) if text.len() + n <= LONGEST => text.extend_from_slice(&piece[..n]),
            Ok(_) => return Some(Answer::Nonsense("an answer that is too long".into())),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Some(process(pid)),
        }
    }
}

/// Asks all ranks, and waits for their answers up to the time limit.
pub(crate) fn ask(names: Vec<Name>, patience: Duration) -> Vec<(Name, Answer)> {
    let end = Instant::now() + patience;
    let mut asked: Vec<(Name, Asking)> =
        names.into_iter().map(|n| (begin(&n), n)).map(|(a, n)| (n, a)).collect();
    loop {
        let mut left = 0;
        for (name, asking) in &mut asked {
            if let Asking::Reading(stream, text) = asking {
                match read(stream, text, name.pid) {
                    Some(answer) => *asking = Asking::Done(answer),
                    None => left += 1,
                }
            }
        }
        if left == 0 || Instant::now() >= end {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = |name: &Name, asking| match asking {
        Asking::Done(answer) => answer,
        Asking::Reading(..) => process(name.pid),
    };
    asked.into_iter().map(|(name, asking)| (answer(&name, asking), name)).map(|(a, n)| (n, a)).collect()
}

//! Asking the ranks of this machine for their state, all at once and for a limited time.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ch3_shim::StatusReport;
use socket2::{Domain, SockAddr, Socket, Type};

/// Longest answer that is read.
const LONGEST: usize = 4 << 20;

/// A rank, as the name of its socket tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) job: String,
    pub(crate) rank: u32,
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
}

impl Name {
    /// Of a path such as `DIR/0123abcd-5-4711.sock`.
    pub(crate) fn of(path: &Path) -> Option<Name> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        let mut parts = stem.rsplitn(3, '-');
        let (pid, rank, job) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Name { job: job.into(), rank: rank.parse().ok()?, pid: pid.parse().ok()?, path: path.into() })
    }
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Its report.
    Report(Box<StatusReport>),
    /// The process lives, and has said nothing in time; with its state and what the kernel has it wait for.
    Silent {
        /// A letter as in `ps`.
        state: char,
        /// The kernel's function that it waits in, if that is known.
        wchan: String,
    },
    /// It is another user's, or its socket is: nobody else may ask.
    Denied,
    /// The process has ended.
    Gone,
    /// It has said something that is no report.
    Nonsense(String),
}

enum Asking {
    Reading(UnixStream, Vec<u8>),
    Done(Answer),
}

/// What `/proc` says of a process.
pub(crate) fn process(pid: u32) -> Answer {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Answer::Gone };
    // The name in brackets may hold anything; the state follows the last bracket.
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    if matches!(state, 'Z' | 'X') {
        return Answer::Gone;
    }
    let wchan = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    Answer::Silent { state, wchan: wchan.trim_matches('0').to_owned() }
}

fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A rank that has not answered for long has a full queue of askers: connecting to it would wait.
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

/// Reads what is there; the answer when it is whole.
fn read(stream: &mut UnixStream, text: &mut Vec<u8>, pid: u32) -> Option<Answer> {
    let mut piece = [0; 16 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) if text.is_empty() => return Some(process(pid)),
            Ok(0) => {
                let report = serde_json::from_slice(text);
                return Some(report.map_or_else(
                    |e| Answer::Nonsense(format!("{e}; is it of another version?")),
                    |r| Answer::Report(Box::new(r)),
                ));
            }
            Ok(n) if text.len() + n <= LONGEST => text.extend_from_slice(&piece[..n]),
            Ok(_) => return Some(Answer::Nonsense("an answer without end".into())),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Some(process(pid)),
        }
    }
}

/// Asks all, and waits at most so long for the last answer.
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

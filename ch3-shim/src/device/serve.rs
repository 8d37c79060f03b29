//! Answers to those who ask a running device for its state: by a socket, by a file after a signal.
//!
//! With `NETMOD_STATUS=DIR` the process listens on `DIR/JOB-RANK-PID.sock`; whoever connects gets
//! the report as one line of JSON. After the signal of `NETMOD_STATUS_SIGNAL` the report is
//! written, as text, to `JOB-RANK-PID.txt` in the same folder or the system's for temporary files.
//! Both happen within progress and blocked waits, so a process that does not answer is not in the
//! library. Nobody who asks can make the device wait: what a socket does not take at once is sent
//! later.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Config;
use netmod_core::{PeerName, Time, files};

use super::Vci;
use crate::sys;

/// Time between two looks at the socket while the device is polled.
const EVERY: Duration = Duration::from_millis(50);
/// Time between two attempts to send the rest of an answer.
const REST: Duration = Duration::from_millis(10);
/// Most engines of one process.
const ENGINES: u32 = 256;
/// Askers whose answers are under way at once.
const ASKERS: usize = 8;

/// Words of `NETMOD_STATUS_SIGNAL` and what they mean.
fn signal(word: &str) -> Option<i32> {
    match word {
        "usr1" => Some(libc::SIGUSR1),
        "usr2" => Some(libc::SIGUSR2),
        "hup" => Some(libc::SIGHUP),
        "quit" => Some(libc::SIGQUIT),
        _ => None,
    }
}

/// An answer under way.
#[derive(Debug)]
struct Answer {
    to: UnixStream,
    text: Arc<[u8]>,
    sent: usize,
}

/// A signal that was asked for: a flag to be looked at, and a descriptor that ends a blocked wait.
#[derive(Debug)]
struct Signal {
    came: Arc<AtomicBool>,
    wake: UnixStream,
    ids: [signal_hook::SigId; 2],
}

impl Signal {
    fn new(number: i32) -> std::io::Result<Signal> {
        let (wake, pipe) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let came = Arc::new(AtomicBool::new(false));
        // The flag first: who is woken by the descriptor finds it set.
        let flag = signal_hook::flag::register(number, Arc::clone(&came))?;
        let pipe = signal_hook::low_level::pipe::register(number, pipe)?;
        Ok(Signal { came, wake, ids: [flag, pipe] })
    }

    /// Returns true if the signal came since the last time.
    fn take(&mut self) -> bool {
        if !self.came.swap(false, Ordering::Relaxed) {
            return false;
        }
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(n) if n > 0) {}
        true
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        for id in self.ids {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// The socket and the signal by which others ask, and their questions.
#[derive(Debug)]
pub(super) struct Server {
    listener: Option<UnixListener>,
    signal: Option<Signal>,
    /// Files of this process: folder and the name before the dot.
    folder: PathBuf,
    stem: String,
    answers: Vec<Answer>,
    next_look: Time,
}

fn warn(what: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(target: "netmod::status", "{what}");
    } else {
        netmod_core::tell::on_stderr(&format_args!("warning: {what}"));
    }
}

/// Listens at `FOLDER/JOB-RANK-PID.sock`; returns the name before the dot too. Further engines of
/// one process have a number behind the job.
fn listen(folder: &Path, me: PeerName) -> std::io::Result<(UnixListener, String)> {
    files::create_folder(folder)?;
    let mut number = 0;
    loop {
        let stem = stem(me, number);
        match sys::listen_privately(&folder.join(format!("{stem}.sock"))) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok((listener, stem));
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse && number < ENGINES => number += 1,
            Err(e) => return Err(e),
        }
    }
}

fn stem(me: PeerName, number: u32) -> String {
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    format!("{:?}{number}-{}-{}", me.group, me.rank, std::process::id())
}

impl Server {
    /// Makes the server that the configuration asks for; `None` if it asks for none. Warns of a
    /// socket or signal that cannot be had, and goes on without.
    pub(super) fn new(cfg: &Config, me: PeerName) -> Option<Box<Server>> {
        let number = signal(cfg.status_signal);
        if cfg.status.is_empty() && number.is_none() {
            return None;
        }
        let folder = if cfg.status.is_empty() { std::env::temp_dir() } else { PathBuf::from(&cfg.status) };
        let listener = (!cfg.status.is_empty()).then(|| listen(&folder, me));
        let listener = listener.and_then(|l| {
            l.inspect_err(|e| {
                warn(&format!(
                    "rank {} cannot be asked for its state: {}: {e}; is NETMOD_STATUS a local folder with a \
                     short name (a socket's path has at most 107 bytes)?",
                    me.rank,
                    folder.display()
                ));
            })
            .ok()
        });
        let (listener, stem) = listener.map_or_else(|| (None, stem(me, 0)), |(l, stem)| (Some(l), stem));
        let signal = number.and_then(|n| {
            Signal::new(n)
                .inspect_err(|e| warn(&format!("no status on signal {n} (NETMOD_STATUS_SIGNAL): {e}")))
                .ok()
        });
        let server = Server { listener, signal, folder, stem, answers: Vec::new(), next_look: Time::ZERO };
        Some(Box::new(server))
    }

    /// Descriptors that become readable when somebody asks.
    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        let listener = self.listener.as_ref().map(AsRawFd::as_raw_fd);
        listener.into_iter().chain(self.signal.as_ref().map(|s| s.wake.as_raw_fd()))
    }

    /// Returns the time at which the rest of an answer is to be sent.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        (!self.answers.is_empty()).then(|| now + REST)
    }

    /// Those who ask now.
    fn askers(&mut self) -> Vec<UnixStream> {
        let mut askers = Vec::new();
        while let Some(l) = &self.listener
            && self.answers.len() + askers.len() < ASKERS
        {
            match l.accept() {
                Ok((to, _)) if to.set_nonblocking(true).is_ok() => askers.push(to),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nobody; or no descriptor is left, and whoever asks is told nothing for now.
                Err(_) => break,
            }
        }
        askers
    }

    /// Sends on.
    fn send(&mut self) {
        self.answers.retain_mut(|a| {
            while a.sent < a.text.len() {
                match sys::send_quietly(a.to.as_raw_fd(), &a.text[a.sent..]) {
                    Ok(n) => a.sent += n,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return e.kind() == ErrorKind::WouldBlock,
                }
            }
            false
        });
    }

    /// Writes the answer to a signal: whoever reads the file finds a whole one.
    fn write(&self, text: &str) {
        let path = self.folder.join(format!("{}.txt", self.stem));
        let written =
            files::create_folder(&self.folder).and_then(|()| files::replace(&path, text.as_bytes()));
        match written {
            Ok(path) => tracing::info!(target: "netmod::status", path = %path.display(), "state written"),
            Err(e) => warn(&format!(
                "the state of this process cannot be written to {}: {e}; set NETMOD_STATUS to a folder that can be written",
                path.display()
            )),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.listener.is_some() {
            // The process ends; a file that somebody has removed already is no loss.
            let _ = std::fs::remove_file(self.folder.join(format!("{}.sock", self.stem)));
        }
    }
}

/// Answers to programs and signals that ask for the device's state.
#[derive(Debug)]
pub(super) struct Served {
    /// `None` if the configuration wants no answers.
    pub(super) server: Option<Box<Server>>,
    /// Time at which the device was made.
    pub(super) made: Time,
    /// True in a blocked wait.
    pub(super) blocked: bool,
}

impl Vci {
    /// Answers those who ask for the device's state. `woken`: a blocked wait has ended.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_status(&mut self, woken: bool) {
        let Some(mut server) = self.served.server.take() else { return };
        let signalled = server.signal.as_mut().is_some_and(Signal::take);
        if signalled {
            let text = self.status().text();
            server.write(&text);
        }
        if woken || self.now >= server.next_look {
            server.next_look = self.now + EVERY;
            let askers = server.askers();
            if !askers.is_empty() {
                let text: Arc<[u8]> = (self.status().json() + "\n").into_bytes().into();
                server.answers.extend(askers.into_iter().map(|to| Answer {
                    to,
                    text: Arc::clone(&text),
                    sent: 0,
                }));
            }
            server.send();
        }
        self.served.server = Some(server);
    }
}

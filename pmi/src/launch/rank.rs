//! One rank: its start, and its state in the launcher.

use super::connection::Connection;
use super::doorman::Doorman;
use super::group::Grouping;
use super::output::Output;
use super::{LaunchError, Launcher, RankExit};
use crate::spawn::SPAWNED;
use crate::sys::{self, ChildSetup, CpuMask};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

/// Variables of an outer launcher that are not passed on, beside those that begin with `PMI_` or
/// `PMIX_`.
const OUTER: [&str; 4] =
    ["MPI_LOCALNRANKS", "MPI_LOCALRANKID", "HYDI_CONTROL_FD", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"];

#[derive(Debug)]
pub(super) struct Rank {
    child: Child,
    rank: u32,
    /// True if it leads a process group.
    own_group: bool,
    /// Pidfd, readable when the process has ended; `None` on kernels without pidfds.
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) connection: Option<Connection>,
    pub(super) stdout: Option<Output>,
    pub(super) stderr: Option<Output>,
    pub(super) exit: Option<RankExit>,
    /// True if the launcher has killed it for a fault that is already reported.
    pub(super) condemned: bool,
}

impl Rank {
    /// Starts a rank.
    pub(super) fn spawn(
        launcher: &Launcher,
        rank: u32,
        doorman: Option<&Doorman>,
        open_files: Option<u64>,
        grouping: &Grouping,
        cpus: Option<CpuMask>,
    ) -> Result<Rank, LaunchError> {
        let program = launcher.program_of(rank);
        let mut command = Command::new(&program.path);
        command.args(&program.args);
        if let Some(directory) = &program.directory {
            // Otherwise the error of a missing folder looks like that of a missing program.
            if !directory.is_dir() {
                let program = program.path.to_string_lossy().into_owned();
                return Err(LaunchError::Directory { program, directory: directory.clone() });
            }
            command.current_dir(directory);
        }
        for (name, _) in std::env::vars_os() {
            if is_outer(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        for (name, value) in &program.env {
            command.env(name, value);
        }
        let per_node = launcher.ranks_per_node();
        let here = per_node.min(launcher.size() - rank / per_node * per_node);
        command.env("MPI_LOCALNRANKS", here.to_string());
        command.env("MPI_LOCALRANKID", (rank % per_node).to_string());

        if launcher.nested.is_some() {
            command.env(SPAWNED, "1");
        }
        if launcher.no_kill {
            command.env(super::NO_KILL, "1");
        }

        let mut socket = None;
        if let Some(doorman) = doorman {
            command.env("PMI_PORT", doorman.address());
            command.env("PMI_ID", doorman.id(rank));
        } else {
            let (ours, theirs) = UnixStream::pair().map_err(LaunchError::system("making a PMI socket"))?;
            command.env("PMI_FD", theirs.as_raw_fd().to_string());
            command.env("PMI_RANK", rank.to_string());
            command.env("PMI_SIZE", launcher.size().to_string());
            socket = Some((ours, theirs));
        }
        let keep = socket.as_ref().map(|(_, theirs)| theirs.as_raw_fd());
        if let Some((name, value)) = grouping.mark(rank) {
            command.env(name, value);
        }
        let own_group = !grouping.is_shared();
        let setup = ChildSetup { keep, own_group, die_with_parent: !launcher.no_kill, open_files, cpus };
        sys::prepare_child(&mut command, setup);

        command.stdin(match rank {
            0 if launcher.stdin => Stdio::inherit(),
            _ => Stdio::null(),
        });
        let capture = launcher.capture.filter(|_| rank == 0);
        let pipe_or_inherit = |pipe| if pipe { Stdio::piped() } else { Stdio::inherit() };
        command.stdout(pipe_or_inherit(launcher.label || capture.is_some()));
        command.stderr(pipe_or_inherit(launcher.label));

        let mut child = command.spawn().map_err(|source| {
            let program = program.path.to_string_lossy().into_owned();
            match source.kind() {
                io::ErrorKind::NotFound => LaunchError::NotFound { program },
                io::ErrorKind::PermissionDenied => LaunchError::NotExecutable { program },
                _ => LaunchError::Spawn { program, rank, source },
            }
        })?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        // From here on, dropping the rank kills it.
        let mut started = Rank {
            pidfd: sys::open_pidfd(child.id()),
            child,
            rank,
            own_group,
            connection: socket.map(|(ours, _)| Connection::new(OwnedFd::from(ours))),
            stdout: None,
            stderr: None,
            exit: None,
            condemned: false,
        };
        let output = LaunchError::system("preparing the output of a rank");
        started.stdout = match (stdout, capture) {
            (Some(pipe), Some(limit)) => Some(Output::captured(pipe.into(), limit)),
            (Some(pipe), None) => Some(Output::labelled(pipe.into(), rank)),
            (None, _) => None,
        }
        .transpose()
        .map_err(output)?;
        started.stderr = stderr
            .map(|pipe| Output::labelled(pipe.into(), rank))
            .transpose()
            .map_err(LaunchError::system("preparing the output of a rank"))?;
        Ok(started)
    }

    /// Sends a signal to the rank's process group, or to the rank alone if it leads none. Does
    /// nothing after it is reaped.
    pub(super) fn signal(&self, signal: i32) {
        if self.exit.is_none() {
            // It fails only if the process or group is gone, which is detected elsewhere.
            let _ = if self.own_group {
                sys::kill_group(self.child.id(), signal)
            } else {
                sys::kill(self.child.id(), signal)
            };
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.rank
    }

    /// Returns its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the process has ended and waits to be reaped.
    pub(super) fn has_ended(&self) -> bool {
        // An error means that somebody else has reaped it: `reap` finds out.
        self.exit.is_none() && sys::has_ended(self.child.id()).unwrap_or(true)
    }

    /// Reaps an ended process and returns its exit.
    ///
    /// First kills the rest of its process group, if it leads one, while the group's number cannot
    /// be reused.
    pub(super) fn reap(&mut self) -> Result<RankExit, LaunchError> {
        if self.own_group {
            self.signal(libc::SIGKILL);
        }
        let status = self.child.wait().map_err(LaunchError::system("waiting for a rank"))?;
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => RankExit::Status(code),
            (None, signal) => RankExit::Signal(signal.unwrap_or(0)),
        };
        self.exit = Some(exit);
        Ok(exit)
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.signal(libc::SIGKILL);
            // After SIGKILL the wait is short; without it a zombie would stay.
            let _ = self.child.wait();
        }
    }
}

fn is_outer(name: &str) -> bool {
    name.starts_with("PMI_") || name.starts_with("PMIX_") || OUTER.contains(&name)
}

//! The error type of the client side: the operation, the launcher's words, and the way out.

use std::io;
use std::time::Duration;

/// The reason why an operation of the process-manager interface failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmiError {
    /// A variable that the launcher sets is missing or invalid.
    #[error(
        "{var}: {why}; the launcher sets this variable: start the program with mpiexec.hydra, nmrun or srun --mpi=pmi2, or unset PMI_FD and PMI_PORT to run it alone"
    )]
    Environment {
        /// Name of the variable.
        var: &'static str,
        /// The error, with the value.
        why: String,
    },
    /// `NETMOD_PMI` is none of its words.
    #[error("NETMOD_PMI: \"{value}\" is not one of auto, 1, 2, pmix")]
    Choice {
        /// The value (its beginning, escaped).
        value: String,
    },
    /// The protocol that `NETMOD_PMI` demands is not offered.
    #[error(
        "NETMOD_PMI={choice} is set, but {missing}; unset NETMOD_PMI to use what the launcher offers, or to run the program alone"
    )]
    NotOffered {
        /// The word in `NETMOD_PMI`.
        choice: &'static str,
        /// The missing variable.
        missing: &'static str,
    },
    /// There are several processes, but no process-manager interface to find the others.
    #[error(
        "{launcher} runs {count} processes here ({var}) but offers no process-manager interface; start the program with {instead}, or with mpiexec.hydra or nmrun (or unset {var} and its like to run it alone)"
    )]
    WithoutPmi {
        /// Name of the launcher.
        launcher: &'static str,
        /// The variable with the number of processes.
        var: &'static str,
        /// The number of processes.
        count: u64,
        /// Commands to start the program with.
        instead: &'static str,
    },
    /// The launcher speaks PMIx, and libpmix cannot be loaded.
    #[error(
        "the launcher speaks PMIx, but its client library cannot be loaded: {why}; install libpmix (Debian's package libpmix2), or name the library \"{library}\" differently with NETMOD_PMIX_LIBRARY, or start the program with mpiexec.hydra, nmrun or srun --mpi=pmi2"
    )]
    PmixLibrary {
        /// The name or path tried.
        library: String,
        /// The loader's error.
        why: String,
    },
    /// libpmix reports an error.
    #[error(
        "PMIx failed while {doing}: {why}; is the launcher still running, and of a version that libpmix can talk to?"
    )]
    Pmix {
        /// The operation.
        doing: &'static str,
        /// The error of libpmix.
        why: String,
    },
    /// The launcher's PMIx server on this node is gone.
    #[error("PMIx has lost the connection to the launcher's server on this node; was it killed?")]
    Lost,
    /// This process has connected to its launcher before.
    #[error("this process is already connected to its launcher; share the one ProcessManager")]
    AlreadyConnected,
    /// This process is a forked child of the connected one.
    #[error(
        "{call}: this process was forked from the one that is connected to the launcher, which alone may speak to it; call exec in the child, or start it with a launcher of its own"
    )]
    Forked {
        /// The refused call.
        call: &'static str,
    },
    /// The launcher's port cannot be reached.
    #[error(
        "cannot connect to the launcher at PMI_PORT={address}: {source}; is the launcher still running, and is its host name known here?"
    )]
    Connect {
        /// The address as given.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection to the launcher failed.
    #[error("the PMI connection failed while {doing}: {source}; is the launcher still running?")]
    Io {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher closed the connection.
    #[error(
        "the launcher has closed the PMI connection ({doing}); the job has probably been ended, see the launcher's own output"
    )]
    Closed {
        /// The operation.
        doing: &'static str,
    },
    /// The launcher did not reply.
    #[error("no answer from the launcher within {after:?} while {doing}; is it stopped or overloaded?")]
    Timeout {
        /// The operation.
        doing: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The launcher sent an invalid reply.
    #[error(
        "while {doing}, the launcher said \"{line}\": {why}; does it speak PMI (mpiexec.hydra, srun --mpi=pmi2, nmrun)?"
    )]
    Malformed {
        /// The operation.
        doing: &'static str,
        /// The line (its beginning, escaped).
        line: String,
        /// The error in it.
        why: String,
    },
    /// The launcher refused the operation.
    #[error("the launcher refused {doing}: it said \"{line}\"")]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The line (its beginning, escaped).
        line: String,
    },
    /// A key or a value that cannot be stored.
    #[error("cannot store or look up key \"{key}\": {why}")]
    Argument {
        /// The key (its beginning, escaped).
        key: String,
        /// The reason.
        why: String,
    },
    /// A value in the key-value space differs from what its writer stored.
    #[error(
        "the value of key \"{key}\" is damaged: {why}; the launcher lost or cut a part of it, or it was not stored with put_bytes"
    )]
    Corrupt {
        /// The key.
        key: String,
        /// The mismatch.
        why: String,
    },
    /// The launcher, or the protocol that it speaks, cannot do it.
    #[error("{call} is not possible with this launcher: {why}")]
    Unsupported {
        /// The call.
        call: &'static str,
        /// The reason, and a way out.
        why: String,
    },
    /// The call is not allowed in this state.
    #[error("{call} is not possible now: {why}")]
    State {
        /// The refused call.
        call: &'static str,
        /// The reason.
        why: String,
    },
}

impl PmiError {
    /// Returns true if the launcher is gone, rather than wrong.
    pub fn is_lost(&self) -> bool {
        matches!(self, PmiError::Closed { .. } | PmiError::Io { .. } | PmiError::Lost)
    }
}

impl From<PmiError> for io::Error {
    /// Keeps the kind of the cause, so that users of `io::Error` can tell a closed connection from
    /// a malformed reply.
    fn from(error: PmiError) -> io::Error {
        let kind = match &error {
            PmiError::Connect { source, .. } | PmiError::Io { source, .. } => source.kind(),
            PmiError::Closed { .. } => io::ErrorKind::UnexpectedEof,
            PmiError::Timeout { .. } => io::ErrorKind::TimedOut,
            PmiError::Malformed { .. } | PmiError::Corrupt { .. } => io::ErrorKind::InvalidData,
            PmiError::Argument { .. } | PmiError::Environment { .. } => io::ErrorKind::InvalidInput,
            PmiError::Choice { .. } => io::ErrorKind::InvalidInput,
            PmiError::WithoutPmi { .. } | PmiError::NotOffered { .. } | PmiError::PmixLibrary { .. } => {
                io::ErrorKind::Unsupported
            }
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

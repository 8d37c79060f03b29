//! Errors of calls. The outcome of an accepted request is in its completion.

use core::fmt;

/// An error number of verbs (`errno(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Error numbers of Linux that callers distinguish.
#[allow(missing_docs)]
pub mod errno {
    use super::Errno;

    pub const EPERM: Errno = Errno(1);
    pub const EIO: Errno = Errno(5);
    pub const EAGAIN: Errno = Errno(11);
    pub const ENOMEM: Errno = Errno(12);
    pub const EBUSY: Errno = Errno(16);
    pub const ENODEV: Errno = Errno(19);
    pub const EINVAL: Errno = Errno(22);
    pub const EOPNOTSUPP: Errno = Errno(95);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A failed call. It has had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} on {on}: {errno}{}", advice(.call, *.errno))]
pub struct Error {
    /// Name of the libibverbs call.
    pub call: &'static str,
    /// The device, and the arguments.
    pub on: String,
    /// The cause.
    pub errno: Errno,
}

impl Error {
    /// Makes the error of a call on a device or one of its objects.
    #[cold]
    pub fn new(call: &'static str, on: impl Into<String>, errno: Errno) -> Error {
        Error { call, on: on.into(), errno }
    }
}

/// Way out when the limit of locked memory, often far too low, is reached.
const MEMLOCK: &str = "; is the limit of locked memory large enough? `ulimit -l unlimited` raises it, for logins memlock in \
    /etc/security/limits.conf, for services LimitMEMLOCK=infinity of systemd; Slurm passes on that of the login node unless there is \
    PropagateResourceLimitsExcept=MEMLOCK in slurm.conf";

/// Returns the way out of an error, or an empty text if none is known.
fn advice(call: &str, number: Errno) -> &'static str {
    match (call, number) {
        ("ibv_reg_mr", errno::ENOMEM | errno::EAGAIN | errno::EPERM) => MEMLOCK,
        (_, errno::ENOMEM) => {
            "; is there a limit of the device, or of locked memory (ulimit -l), in the way?"
        }
        (_, errno::ENODEV | errno::EIO) => "; the device has failed or was removed",
        (_, errno::EOPNOTSUPP) => "; the device or its driver cannot do this",
        _ => "",
    }
}

/// A list of requests of which one was refused (`bad_wr` of `ibv_post_send(3)`). The requests
/// before it are posted, the rest are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work request {at} of the list: {errno}")]
pub struct PostError {
    /// Index of the refused request, which is also the number of requests posted.
    pub at: usize,
    /// The cause. `ENOMEM`: the queue is full. `EINVAL`: the request or the queue pair's state is
    /// not valid.
    pub errno: Errno,
}

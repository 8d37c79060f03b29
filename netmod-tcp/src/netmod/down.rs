//! The reasons why VCs are down, as errors with a way out.

use netmod_connection::RejectReason;
use netmod_core::{VcError, VcErrorKind, VcId};

use super::TcpNetmod;
use crate::link::{DownCause, Failure};
use crate::sessions::no_such_vc;
use crate::sys;

impl TcpNetmod {
    /// Returns the reason why a VC is down, as readable text: object, cause, way out.
    pub(super) fn explain(&self, vc: VcId, cause: DownCause) -> VcError {
        let Some(v) = self.sessions.vcs.get(vc) else { return no_such_vc() };
        let addr = v.routes.address();
        let (kind, text, after) = match cause {
            DownCause::Lost(f) => (
                VcErrorKind::Lost,
                format!(
                    "connection with {addr} lost: {f}; has the process died, or is a firewall or timeout in between?"
                ),
                None,
            ),
            DownCause::NotResumed { elapsed, last, .. } => (
                VcErrorKind::Lost,
                format!("connection with {addr} {}{cause}; {}", self.sessions.lost_of(vc), hint(last)),
                Some(elapsed),
            ),
            DownCause::Gone { elapsed, .. } => (
                VcErrorKind::Lost,
                format!("connection with {addr} {}{cause}", self.sessions.lost_of(vc)),
                Some(elapsed),
            ),
            DownCause::Replaced => {
                (VcErrorKind::Lost, format!("{cause}; what was under way with the old one is lost"), None)
            }
            DownCause::CutOff => (VcErrorKind::Closed, format!("{cause} (at {addr})"), None),
            DownCause::Connect { attempts, elapsed, last } => {
                let hint = hint(last);
                (
                    kind_of(last, VcErrorKind::Unreachable),
                    format!("connect to {addr}: {last}, {attempts} attempts; {hint}"),
                    Some(elapsed),
                )
            }
            DownCause::Refused(f) => {
                (kind_of(f, VcErrorKind::Refused), format!("connect to {addr}: {f}; {}", hint(f)), None)
            }
        };
        let e = VcError::new(kind, Some(v.peer), text);
        match after {
            Some(d) => e.after(d),
            None => e,
        }
    }
}

fn kind_of(last: Failure, otherwise: VcErrorKind) -> VcErrorKind {
    match last {
        Failure::Errno(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL) => {
            VcErrorKind::Resource
        }
        Failure::Rejected(RejectReason::OtherNetmod) => VcErrorKind::Mismatch,
        Failure::Rejected(_) => VcErrorKind::Refused,
        Failure::WrongKey => VcErrorKind::Refused,
        Failure::Protocol => VcErrorKind::Protocol,
        _ => otherwise,
    }
}

/// Returns the way out of a failed dial.
fn hint(last: Failure) -> String {
    match last {
        Failure::Errno(libc::ECONNREFUSED) => {
            "is the process still alive, and the job's port range open?".into()
        }
        Failure::Errno(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "is there a route from this host? NETMOD_TCP_INTERFACE chooses what is published".into()
        }
        Failure::Errno(libc::EMFILE) => {
            format!(
                "this process may have only {} descriptors; raise it with ulimit -n",
                sys::descriptor_limit()
            )
        }
        Failure::Errno(libc::ENFILE) => "the whole system is out of descriptors; raise fs.file-max".into(),
        Failure::Errno(libc::EADDRNOTAVAIL) => {
            "no local port is left; widen net.ipv4.ip_local_port_range".into()
        }
        Failure::Checkpoint => "was it restarted? NETMOD_CKPT_TIMEOUT is how long that may take".into(),
        Failure::TimedOut | Failure::Silent => {
            "does a firewall drop the packets, or is the process stopped?".into()
        }
        Failure::Rejected(RejectReason::UnknownGroup | RejectReason::WrongPeer) => {
            "another process listens there; is the business card from an earlier job?".into()
        }
        Failure::Rejected(RejectReason::Version) => {
            "do both sides run the same version of this library?".into()
        }
        Failure::Rejected(RejectReason::OtherNetmod) => "have all ranks the same NETMOD?".into(),
        Failure::Rejected(RejectReason::NoSuchPort) => {
            "was the port closed, or is its name from an earlier job?".into()
        }
        Failure::WrongKey => {
            "is the business card, or the port name, from an earlier job whose address another has now?"
                .into()
        }
        Failure::Protocol => "is something else than this library listening there?".into(),
        _ => "NETMOD_LOG=debug shows each attempt".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_dial_has_its_way_out() {
        for (errno, way_out) in [
            (libc::ECONNREFUSED, "still alive"),
            (libc::ENETUNREACH, "NETMOD_TCP_INTERFACE"),
            (libc::EHOSTUNREACH, "NETMOD_TCP_INTERFACE"),
            (libc::EADDRNOTAVAIL, "ip_local_port_range"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EPROTO, "NETMOD_LOG=debug"),
        ] {
            let text = hint(Failure::Errno(errno));
            assert!(text.contains(way_out), "{errno}: {text}");
        }
    }
}

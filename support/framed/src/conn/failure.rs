//! The reasons why dials fail, and their texts.

use core::time::Duration;
use std::borrow::Cow;

use netmod_connection::RejectReason;
use netmod_core::{PeerName, VcError, VcErrorKind};

use crate::device::Words;

/// The reason why an attempt to connect failed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Failure {
    /// There was none.
    None,
    /// No answer in time.
    Silent,
    /// REJECT.
    Rejected(RejectReason),
    /// The peer has another key.
    WrongKey,
    /// This process has no key for the peer's group.
    NoKey,
    /// The handshake was none of this protocol.
    Protocol(String),
    /// The frame could not be sent.
    Sending(String),
    /// The peer gave up its own dial, which had been accepted.
    Goodbye,
}

impl Failure {
    /// Returns true if another dial would fail for the same reason.
    pub(super) fn is_permanent(&self, proved: bool) -> bool {
        match self {
            // Hearsay may be wrong, so it is never final.
            Failure::Rejected(reason) => proved && !reason.is_transient(),
            Failure::NoKey => true,
            _ => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::None => "it was not tried".into(),
            Failure::Silent => "no answer came".into(),
            Failure::Rejected(reason) => format!("refused: {reason}"),
            Failure::WrongKey => "it has not the job's key".into(),
            Failure::NoKey => "this process has no key that the peer would know".into(),
            Failure::Protocol(what) => format!("the handshake went wrong: {what}"),
            Failure::Sending(what) => format!("the dial could not be sent: {what}"),
            Failure::Goodbye => "it gave up its own dial".into(),
        }
    }

    /// The way out.
    fn hint(&self, words: &Words) -> Cow<'static, str> {
        let hint = match self {
            Failure::Silent => {
                return format!(
                    "is the process alive, and does it make progress? {}_CONNECT_TIMEOUT is how long that may take",
                    words.settings
                )
                .into();
            }
            Failure::Rejected(RejectReason::UnknownGroup | RejectReason::WrongPeer) => {
                "another process listens there; is the business card from an earlier job?"
            }
            Failure::Rejected(RejectReason::Version) => "do both sides run the same version of this library?",
            Failure::Rejected(RejectReason::NoSuchPort) => {
                "was the port closed, or is its name from an earlier job?"
            }
            Failure::Rejected(RejectReason::OtherNetmod) => "have all ranks the same NETMOD?",
            Failure::Rejected(RejectReason::Finalized) => "do all processes finalize together?",
            Failure::WrongKey => {
                "is the business card, or the port name, from an earlier job whose address another has now?"
            }
            Failure::NoKey => "does the process manager distribute keys to all processes of the job?",
            Failure::Protocol(_) => "do both sides run the same version of this library?",
            Failure::Sending(_) => words.unsent,
            _ => "NETMOD_LOG=debug shows each attempt",
        };
        hint.into()
    }

    /// The error of a VC whose connection could not be made.
    pub(super) fn error(&self, peer: PeerName, dials: u16, tried: Duration, words: &Words) -> VcError {
        let kind = match self {
            Failure::Rejected(RejectReason::OtherNetmod) => VcErrorKind::Mismatch,
            Failure::Rejected(reason) if !reason.is_transient() => VcErrorKind::Refused,
            Failure::NoKey => VcErrorKind::Unsupported,
            _ => VcErrorKind::Unreachable,
        };
        let dials = if dials == 1 { "1 dial".to_owned() } else { format!("{dials} dials") };
        let text =
            format!("no connection by {} after {dials}: {}; {}", words.what, self.text(), self.hint(words));
        VcError::new(kind, Some(peer), text).after(tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_cause_and_way_out() {
        let peer = PeerName { rank: 3, ..PeerName::default() };
        for (failure, kind, texts) in [
            (Failure::Silent, VcErrorKind::Unreachable, ["2 dials", "NETMOD_SAMPLE_CONNECT_TIMEOUT"]),
            (Failure::Rejected(RejectReason::WrongPeer), VcErrorKind::Refused, ["another process", "card"]),
            (Failure::Rejected(RejectReason::Busy), VcErrorKind::Unreachable, ["too many", "NETMOD_LOG"]),
            (Failure::Rejected(RejectReason::NoSuchPort), VcErrorKind::Refused, ["port", "earlier job"]),
            (Failure::Rejected(RejectReason::Version), VcErrorKind::Refused, ["versions", "same version"]),
            (
                Failure::Rejected(RejectReason::OtherNetmod),
                VcErrorKind::Mismatch,
                ["another netmod", "NETMOD?"],
            ),
            (Failure::Rejected(RejectReason::Finalized), VcErrorKind::Refused, ["finalized", "together"]),
            (Failure::WrongKey, VcErrorKind::Unreachable, ["key", "earlier job"]),
            (Failure::NoKey, VcErrorKind::Unsupported, ["no key", "process manager"]),
            (Failure::Protocol("x y".into()), VcErrorKind::Unreachable, ["x y", "same version"]),
            (Failure::Sending("EAGAIN".into()), VcErrorKind::Unreachable, ["EAGAIN", "cable"]),
        ] {
            let error = failure.error(peer, 2, Duration::from_secs(4), &Words::SAMPLE);
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.starts_with("rank 3: ") && text.ends_with("(after 4.0 s)"), "{text}");
            assert!(texts.iter().all(|t| text.contains(t)), "{text}");
        }
        assert!(Failure::NoKey.is_permanent(false));
        assert!(Failure::Rejected(RejectReason::Finalized).is_permanent(true));
        assert!(!Failure::Rejected(RejectReason::Finalized).is_permanent(false), "hearsay");
        assert!(!Failure::Rejected(RejectReason::Busy).is_permanent(true));
    }
}

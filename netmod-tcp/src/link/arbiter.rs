//! The arbiter of crossing dials: a pure function of two names and one state.

use netmod_connection::RejectReason;
use netmod_core::PeerName;

use super::Phase;

/// What becomes of an incoming connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Promise to take it.
    Accept,
    /// Promise to take it, and give the own dial up.
    AcceptAndAbandon,
    /// Refuse it.
    Reject(RejectReason),
}

/// Whether a dial of `me` to `peer` survives one in the other direction: the greater name's does
/// (Nemesis's rule). Of two different names exactly one is the greater.
pub fn dial_survives(me: &PeerName, peer: &PeerName) -> bool {
    me > peer
}

/// Decides about a connection that `peer` has dialled and proved to be its own.
///
/// `state` is the phase of this process's link to that peer, `shutting` whether it finalizes.
pub fn arbitrate(me: &PeerName, peer: &PeerName, state: Phase, shutting: bool) -> Verdict {
    if me == peer {
        return Verdict::Reject(RejectReason::Itself);
    }
    decide(dial_survives(me, peer), state, shutting)
}

/// The same with the names compared already.
pub(super) fn decide(own_dial_survives: bool, state: Phase, shutting: bool) -> Verdict {
    if shutting {
        return Verdict::Reject(RejectReason::Finalized);
    }
    match state {
        Phase::Idle | Phase::Backoff => Verdict::Accept,
        Phase::Dialing if own_dial_survives => Verdict::Reject(RejectReason::Crossing),
        Phase::Dialing => Verdict::AcceptAndAbandon,
        Phase::Promised | Phase::Up => Verdict::Reject(RejectReason::AlreadyConnected),
        Phase::Parting => Verdict::Reject(RejectReason::Closing),
        Phase::Failed => Verdict::Reject(RejectReason::VcDown),
        Phase::Shut => Verdict::Reject(RejectReason::Finalized),
    }
}

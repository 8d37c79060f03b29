//! Known mistakes that the explorer must catch; in anything but a test build there are none.

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Mutant {
    /// The loser of crossing dials closes its dial without a word.
    SilentLoser,
    /// The loser promises before its own dial is resolved, and keeps that open.
    AcceptBeforeResolved,
    /// A responder takes its promise for an adoption.
    AdoptOnPromise,
    /// A promise survives the end of its connection.
    KeepPromise,
    /// After a REJECT because of finalize, the incoming connection is handled further.
    ContinueAfterReject,
    /// A promised connection that the peer gave up is adopted when there is something to send.
    AdoptDead,
    /// An end of file behind the own GOODBYE is read as the peer's death.
    PartingEofIsDeath,
    /// A promise is taken back with GOODBYE, which the initiator takes for an orderly end.
    GoodbyeForWithdrawn,
    /// Both sides think that the other one's dial survives.
    BothAccept,
    /// Both sides think that their own dial survives.
    BothReject,
    /// The winner refuses, and gives its own dial up too.
    RejectAndAbandon,
    /// The own dial survives, and the incoming one is accepted too.
    AcceptBoth,
    /// A responder forgets the session that it has promised when the connection is lost before READY.
    ForgetPromised,
    /// A session that was promised, and that the peer does not know, is insisted upon.
    InsistOnPromised,
    /// A session is refused as unknown while the ACCEPT that begins it may be under way.
    RefuseUnsure,
    /// A dial that was given up is taken for the peer's latest one.
    StaleDial,
    /// A responder does not say which of its dials it has given up.
    ForgetDials,
    /// A fresh dial is accepted though a session is to be resumed.
    FreshForLost,
    /// A lost connection takes the VC down though its session could go on.
    LostIsDown,
    /// A process that is being checkpointed dials.
    DialAsleep,
    /// A peer that is being checkpointed is taken for dead.
    DeadSleeper,
    /// Who sleeps takes its promise back, and does not say why.
    MuteSleeper,
    /// Only the side that is to be checkpointed begins a session.
    SleeperAlone,
    /// A process that has got the address of a checkpointed peer is taken for that peer.
    TakeTheFirst,
    /// The adopted connection is read on while another one is offered in its place.
    ReadWhileMoving,
    /// A connection that was offered is forgotten when the adopted one is lost or ends.
    ForgetMove,
    /// Where both sides move at once, the greater one accepts, too, and keeps its offer.
    AcceptBothMoves,
    /// A connection is left for a better one before the peer is known to have adopted it.
    MoveUnheard,
    /// The next dial follows the failed one at once.
    RedialAtOnce,
}

#[cfg(test)]
impl Mutant {
    /// Those that exploration finds; pauses are a matter of time, which it does not have.
    pub(super) const IN_THE_PROTOCOL: [Mutant; 28] = [
        Mutant::SilentLoser,
        Mutant::AcceptBeforeResolved,
        Mutant::AdoptOnPromise,
        Mutant::KeepPromise,
        Mutant::ContinueAfterReject,
        Mutant::AdoptDead,
        Mutant::PartingEofIsDeath,
        Mutant::GoodbyeForWithdrawn,
        Mutant::BothAccept,
        Mutant::BothReject,
        Mutant::RejectAndAbandon,
        Mutant::AcceptBoth,
        Mutant::ForgetPromised,
        Mutant::InsistOnPromised,
        Mutant::RefuseUnsure,
        Mutant::StaleDial,
        Mutant::ForgetDials,
        Mutant::FreshForLost,
        Mutant::LostIsDown,
        Mutant::DialAsleep,
        Mutant::DeadSleeper,
        Mutant::MuteSleeper,
        Mutant::SleeperAlone,
        Mutant::TakeTheFirst,
        Mutant::ReadWhileMoving,
        Mutant::ForgetMove,
        Mutant::AcceptBothMoves,
        Mutant::MoveUnheard,
    ];
}

#[cfg(not(test))]
#[inline(always)]
pub(super) const fn mutated(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(super) use testing::{mutated, with};

#[cfg(test)]
mod testing {
    use super::Mutant;
    use std::cell::Cell;

    thread_local!(static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) });

    pub(in super::super) fn mutated(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }

    /// Runs `f` with one mistake being made by this thread's links.
    pub(in super::super) fn with<R>(mutant: Option<Mutant>, f: impl FnOnce() -> R) -> R {
        ACTIVE.set(mutant);
        let r = f();
        ACTIVE.set(None);
        r
    }
}

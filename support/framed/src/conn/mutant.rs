//! Known mistakes that the explorer must catch; in anything but a test build there are none.

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Mutant {
    /// Both sides think that their own dial survives.
    BothInsist,
    /// Both sides think that the other one's dial survives.
    BothYield,
    /// The loser of crossing dials does not say that it gives its own up.
    SilentLoser,
    /// The loser refuses, and gives its own dial up too.
    RejectAndAbandon,
    /// The loser accepts, and keeps its own dial.
    AcceptBoth,
    /// A responder takes its promise for an open connection.
    AdoptOnPromise,
    /// A promise survives the dial that it was given to.
    KeepPromise,
    /// A promise is taken back without a word.
    SilentWithdrawal,
    /// ACCEPT is not answered.
    NoReady,
    /// A dial that was given up is taken for the peer's latest one.
    StaleDial,
    /// What ACCEPT says of the peer's own dials is not kept.
    ForgetDials,
    /// A peer that dials anew is not given the time to end its old connection.
    Impatient,
    /// A connection that is made while its end is wished for is ended though messages wait.
    ForgetWishes,
    /// A slot is not freed.
    KeepSlot,
    /// FIN is not answered.
    NoAck,
    /// FIN is not answered by a side that has said FIN itself.
    NoAckWhileParting,
    /// A VC fails, and its peer is not told.
    SilentAbort,
    /// A promise is said once, in an ACCEPT that may be late.
    SaidOnce,
    /// Who accepts a dial that was given up is not told so again.
    VoidInSilence,
    /// What comes behind a READY that is lost is dropped in silence.
    IgnoreStray,
}

#[cfg(test)]
impl Mutant {
    pub(super) const ALL: [Mutant; 20] = [
        Mutant::BothInsist,
        Mutant::BothYield,
        Mutant::SilentLoser,
        Mutant::RejectAndAbandon,
        Mutant::AcceptBoth,
        Mutant::AdoptOnPromise,
        Mutant::KeepPromise,
        Mutant::SilentWithdrawal,
        Mutant::NoReady,
        Mutant::StaleDial,
        Mutant::ForgetDials,
        Mutant::Impatient,
        Mutant::ForgetWishes,
        Mutant::KeepSlot,
        Mutant::NoAck,
        Mutant::NoAckWhileParting,
        Mutant::SilentAbort,
        Mutant::SaidOnce,
        Mutant::VoidInSilence,
        Mutant::IgnoreStray,
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

    /// Runs `f` with one mistake being made by this thread's machines.
    pub(in super::super) fn with<R>(mutant: Option<Mutant>, f: impl FnOnce() -> R) -> R {
        ACTIVE.set(mutant);
        let r = f();
        ACTIVE.set(None);
        r
    }
}

//! Known mistakes that the explorer must catch; in anything but a test build there are none.

/// A mistake to make on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// Windows are registered that are not due: more memory than was meant to be.
    ExposeAhead,
    /// A window is deregistered when its move begins.
    ReleaseEarly,
    /// No window follows the first one.
    NeverRekey,
    /// DONE before the last window.
    EarlyDone,
    /// A mover that has no window to go on with does not say that it has moved the last one.
    MuteMover,
    /// A move that fails is not told.
    MuteFailure,
    /// Get's offer stays registered though another mode was chosen.
    KeepOffer,
    /// The same, for a message that was taken back.
    KeepWithdrawn,
    /// The same, for one that the other side has given up.
    KeepAborted,
    /// The same, for one that this side has given up.
    KeepAbandoned,
    /// The same, at the end.
    KeepDone,
    /// The same, when the VC was lost.
    KeepLost,
    /// The same, when Put was refused.
    KeepRefused,
    /// The memory is given back while a move is under way.
    NoDrain,
    /// A refused mode is replaced by none.
    MuteRefused,
    /// A refusal that finds its receive gone is dropped.
    MuteGone,
}

#[cfg(test)]
impl Mutant {
    pub(crate) const ALL: [Mutant; 16] = [
        Mutant::ExposeAhead,
        Mutant::ReleaseEarly,
        Mutant::NeverRekey,
        Mutant::EarlyDone,
        Mutant::MuteMover,
        Mutant::MuteFailure,
        Mutant::KeepOffer,
        Mutant::KeepWithdrawn,
        Mutant::KeepAborted,
        Mutant::KeepAbandoned,
        Mutant::KeepDone,
        Mutant::KeepLost,
        Mutant::KeepRefused,
        Mutant::NoDrain,
        Mutant::MuteRefused,
        Mutant::MuteGone,
    ];
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn mutated(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(crate) use testing::{mutated, with};

#[cfg(test)]
mod testing {
    use super::Mutant;
    use std::cell::Cell;

    thread_local!(static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) });

    pub(crate) fn mutated(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }

    /// Runs `f` with one mistake being made by this thread's machines.
    pub(crate) fn with<R>(mutant: Option<Mutant>, f: impl FnOnce() -> R) -> R {
        ACTIVE.set(mutant);
        let r = f();
        ACTIVE.set(None);
        r
    }
}

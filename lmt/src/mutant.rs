//! Known mistakes that the explorer must catch; only test builds have them.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mutant {
    /// Registers windows that are not due: more memory than intended.
    ExposeAhead,
    /// Deregisters a window when its move begins.
    ReleaseEarly,
    /// Sends no window after the first one.
    NeverRekey,
    /// Sends DONE before the last window.
    EarlyDone,
    /// Does not acknowledge the last window if no next one has come.
    MuteMover,
    /// Does not report a failed move.
    MuteFailure,
    /// Keeps Get's offer registered though another mode was chosen.
    KeepOffer,
    /// Keeps it registered for a withdrawn message.
    KeepWithdrawn,
    /// Keeps it registered for a message that the other side has aborted.
    KeepAborted,
    /// Keeps it registered for a message that this side has abandoned.
    KeepAbandoned,
    /// Keeps it registered at the end.
    KeepDone,
    /// Keeps it registered when the VC was lost.
    KeepLost,
    /// Keeps it registered when Put was refused.
    KeepRefused,
    /// Returns the memory while a move is in progress.
    NoDrain,
    /// Does not replace a refused mode.
    MuteRefused,
    /// Drops a refusal whose receive is gone.
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

    /// Runs `f` with one mistake in this thread's machines.
    pub(crate) fn with<R>(mutant: Option<Mutant>, f: impl FnOnce() -> R) -> R {
        ACTIVE.set(mutant);
        let r = f();
        ACTIVE.set(None);
        r
    }
}

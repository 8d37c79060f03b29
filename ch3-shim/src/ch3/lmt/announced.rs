//! The offer of an announced message, in RTS and among unexpected messages.

use netmod_lmt::Modes;
use netmod_lmt::cookie::Keyed;

/// What RTS says of how its message may move.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// The modes that both sides can take part in.
    pub(super) modes: Modes,
    /// For Get, the sender's first window.
    pub(super) first: Option<Keyed>,
}

impl Announced {
    /// Nothing but Null.
    pub(crate) const NULL: Announced = Announced { modes: Modes::NULL, first: None };

    /// The same for an entry among unexpected messages, which stays small: only a window, which few have, takes memory of its own.
    pub(crate) fn keep(self) -> Kept {
        Kept { modes: self.modes, first: self.first.map(Box::new) }
    }
}

/// What RTS has said, for as long as nobody receives its message.
#[derive(Debug)]
pub(crate) struct Kept {
    modes: Modes,
    first: Option<Box<Keyed>>,
}

impl Kept {
    /// What RTS has said.
    pub(crate) fn announced(self) -> Announced {
        Announced { modes: self.modes, first: self.first.map(|keyed| *keyed) }
    }
}

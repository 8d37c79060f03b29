//! The offer of an announced message, in RTS and among unexpected messages.

use netmod_lmt::Modes;
use netmod_lmt::cookie::Keyed;

/// The offer of RTS, as far as this side can take it.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// The modes that both sides can take part in.
    pub(super) modes: Modes,
    /// The sender's first window, for Get.
    pub(super) first: Option<Keyed>,
}

impl Announced {
    /// The offer of Null alone.
    pub(crate) const NULL: Announced = Announced { modes: Modes::NULL, first: None };

    /// Makes the form that is kept among unexpected messages. It is small: only a window, which few
    /// offers have, takes memory of its own.
    pub(crate) fn keep(self) -> Kept {
        Kept { modes: self.modes, first: self.first.map(Box::new) }
    }
}

/// The offer of RTS while its message is unexpected.
#[derive(Debug)]
pub(crate) struct Kept {
    modes: Modes,
    first: Option<Box<Keyed>>,
}

impl Kept {
    /// Returns the offer.
    pub(crate) fn announced(self) -> Announced {
        Announced { modes: self.modes, first: self.first.map(|keyed| *keyed) }
    }
}

//! The choice of a mode: what both sides can, what the program wants, and how long the message is.
//!
//! The two sides decide by turns: the sender what it offers, then the receiver, who knows how much it has room
//! for, among what both can take part in.

use crate::mode::{Mode, Modes};

/// What the program wants (`NETMOD_LMT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The best of what both sides can.
    Auto,
    /// This one for every large message, where both sides can; else Null.
    Only(Mode),
}

impl Wish {
    /// By its name in the configuration.
    pub fn of_name(name: &str) -> Option<Wish> {
        if name == "auto" {
            return Some(Wish::Auto);
        }
        Mode::ALL.into_iter().find(|m| m.name() == name).map(Wish::Only)
    }
}

/// What a side decides by.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// What it can take part in; of a receiver, what both can.
    pub modes: Modes,
    /// What its program wants.
    pub wish: Wish,
    /// With [`Wish::Auto`], shorter messages go in the Null mode, in bytes.
    pub min: u64,
}

/// What a sender offers for a message of `bytes`.
pub fn offer(side: Side, bytes: u64) -> Modes {
    match side.wish {
        _ if bytes == 0 => Modes::NULL,
        Wish::Auto if bytes < side.min => Modes::NULL,
        Wish::Auto => side.modes,
        Wish::Only(mode) if side.modes.has(mode) => Modes::NULL.with(mode),
        Wish::Only(_) => Modes::NULL,
    }
}

/// What a receiver with room for `bytes` chooses.
pub fn grant(side: Side, bytes: u64) -> Mode {
    explain(side, bytes).0
}

/// The choice, and why, in a few words.
pub fn explain(side: Side, bytes: u64) -> (Mode, &'static str) {
    match side.wish {
        _ if bytes == 0 => (Mode::Null, "there is nothing to move"),
        Wish::Only(Mode::Null) => (Mode::Null, "NETMOD_LMT says so"),
        Wish::Only(mode) if side.modes.has(mode) => (mode, "NETMOD_LMT says so, and both sides can"),
        Wish::Only(Mode::Coop) => (Mode::Null, "the processes share no memory"),
        Wish::Only(_) => (Mode::Null, "the network module has no one-sided transfers"),
        Wish::Auto if bytes < side.min => (Mode::Null, "it is shorter than NETMOD_LMT_MIN"),
        // Two copies in caches, at the same time, beat one copy by the kernel, and take data of any layout.
        Wish::Auto if side.modes.has(Mode::Coop) => (Mode::Coop, "the processes share memory"),
        Wish::Auto if side.modes.has(Mode::Get) => (Mode::Get, "the receiver can read the sender's memory"),
        Wish::Auto if side.modes.has(Mode::Put) => (Mode::Put, "the sender can write the receiver's memory"),
        Wish::Auto => (Mode::Null, "both sides can do nothing else"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Modes = Modes::NULL.with(Mode::Coop).with(Mode::Get);

    #[test]
    fn names_are_those_of_the_configuration() {
        assert_eq!(Wish::of_name("auto"), Some(Wish::Auto));
        assert_eq!(Wish::of_name("coop"), Some(Wish::Only(Mode::Coop)));
        assert_eq!(Wish::of_name("magic"), None);
    }

    #[test]
    fn a_wish_holds_where_both_can() {
        let side = |modes, wish| Side { modes, wish, min: 100 };
        let coop = side(BOTH, Wish::Only(Mode::Coop));
        assert_eq!((offer(coop, 1), grant(coop, 1)), (Modes::NULL.with(Mode::Coop), Mode::Coop));
        assert_eq!((offer(coop, 0), grant(coop, 0)), (Modes::NULL, Mode::Null));
        let put = side(BOTH, Wish::Only(Mode::Put));
        assert_eq!((offer(put, 1), grant(put, 1)), (Modes::NULL, Mode::Null));
        let null = side(BOTH, Wish::Only(Mode::Null));
        assert_eq!((offer(null, 1), grant(null, 1)), (Modes::NULL, Mode::Null));
    }

    #[test]
    fn without_a_wish_it_is_the_best_from_a_length_on() {
        let side = |modes| Side { modes, wish: Wish::Auto, min: 100 };
        assert_eq!((offer(side(BOTH), 99), grant(side(BOTH), 99)), (Modes::NULL, Mode::Null));
        assert_eq!((offer(side(BOTH), 100), grant(side(BOTH), 100)), (BOTH, Mode::Coop));
        assert_eq!(grant(side(Modes::NULL.with(Mode::Put)), 100), Mode::Put);
        assert_eq!(explain(side(Modes::NULL), 100), (Mode::Null, "both sides can do nothing else"));
    }
}

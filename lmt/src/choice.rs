//! The choice of a mode: what both sides can, what the program wants, how long the message is, and what copies cost.
//!
//! The two sides decide by turns: the sender what it offers, then the receiver, who knows how much it has room
//! for, among what both can take part in.
//!
//! Between two processes of one node the data can be copied twice, through a ring in caches, by both sides at the same
//! time (Cooperative), or once, by the kernel, while one side does nothing (Put, Get). Which one is faster depends on
//! the machine: so the choice goes by what both cost there ([`Rates`]), and by whether both sides really run at
//! the same time.

use crate::coop::RING;
use crate::mode::{Mode, Modes};
use crate::rates::{FROM, Rates};

/// How many times as long as a copy in its own caches a core needs for a part of a ring that another core has just
/// touched. Measured: 2 between cores that share an L3 cache, 4 between cores further apart.
const CROSSING: u64 = 3;
/// The kernel must be faster by the `LEAD`th part: a message that is longer than what was measured leaves more of the caches, and makes its copy slower, which
/// both sides of a ring share.
const LEAD: u64 = 8;
/// What a get takes that both sides copy, of what it takes alone: numerator and denominator. Measured: 1/2 at 1 MiB and at 64 MiB, 1/3 at 2 MiB.
const JOINT: (u64, u64) = (5, 8);
/// Nanoseconds to wake the other side and to be woken by it, once for each filling of the ring, when the two do not
/// run at the same time. Measured with 4 ranks on 2 cores.
const TURN: u64 = 40_000;
/// Nanoseconds of the calls and packets by which a window of data that is not in one piece moves by Put or Get.
const WINDOW: u64 = 3_000;
/// From how many bytes on it is tried which of two ways is faster: what is shorter would pay too much for being exposed to
/// a get that may not come.
const TRIED: u64 = FROM[1];
/// A way that takes so many times as long as the other one by the model is not tried.
const HOPELESS: u64 = 4;

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
    /// Whether its data is in one piece.
    pub contiguous: bool,
    /// Whether the node has more ranks than cores, so that the two sides may have to take turns.
    pub crowded: bool,
    /// Whether a get of this message is copied by both sides, see [`RmaUse::joint`](netmod_core::RmaUse::joint).
    pub joint: bool,
    /// What copies of about the message's length cost.
    pub rates: Rates,
}

impl Side {
    /// Nanoseconds of two copies through a ring, at the same time. Of what it takes that a message is more than caches hold, each side has half:
    /// the one brings it from there, and the other one back.
    fn by_ring(&self, bytes: u64) -> u64 {
        let cached = nanoseconds(bytes, self.rates.cached);
        let beyond = nanoseconds(bytes, self.rates.copied).saturating_sub(cached) / 2;
        let copy = cached.saturating_mul(CROSSING).saturating_add(beyond);
        let turns = if self.crowded { bytes.div_ceil(RING as u64) * TURN } else { 0 };
        copy.saturating_add(turns)
    }

    /// Nanoseconds of one copy by the kernel, beside which data in pieces is packed or unpacked.
    fn by_kernel(&self, bytes: u64) -> u64 {
        let copy = nanoseconds(bytes, self.rates.kernel);
        if self.contiguous && self.is_joint() {
            copy / JOINT.1 * JOINT.0
        } else if self.contiguous {
            copy
        } else {
            let packed = nanoseconds(bytes, self.rates.cached);
            copy.saturating_add(packed).saturating_add(bytes.div_ceil(RING as u64) * WINDOW)
        }
    }

    /// Whether both sides copy by the kernel, at the same time.
    fn is_joint(&self) -> bool {
        self.joint && !self.crowded && self.modes.has(Mode::Get)
    }

    /// Whether one copy by the kernel is better than two through a ring, where both are possible.
    fn prefers_kernel(&self, bytes: u64) -> bool {
        let by_kernel = self.by_kernel(bytes);
        by_kernel.saturating_add(by_kernel / LEAD) < self.by_ring(bytes)
    }
}

/// Whether it is left to [`Trials`](crate::trials::Trials) if a message goes through a ring or is got, as long as the model finds neither hopeless.
pub fn is_tried(side: Side, bytes: u64) -> bool {
    let can = side.modes.has(Mode::Get) && asks_for_rates(side.modes, side.wish);
    let (ring, kernel) = (side.by_ring(bytes), side.by_kernel(bytes));
    let close = ring.max(kernel) / HOPELESS <= ring.min(kernel);
    can && bytes >= side.min.max(TRIED) && side.contiguous && !side.crowded && close
}

fn nanoseconds(bytes: u64, rate: u32) -> u64 {
    bytes.saturating_mul(1000) / u64::from(rate.max(1))
}

/// Whether a choice would go by [`Side::rates`]: else they need not be known.
pub fn asks_for_rates(modes: Modes, wish: Wish) -> bool {
    wish == Wish::Auto && modes.has(Mode::Coop) && (modes.has(Mode::Get) || modes.has(Mode::Put))
}

/// Whether a message that could go eagerly, which is two copies and no wait, is better announced: one copy by the kernel is so much faster.
pub fn is_got(side: Side, bytes: u64) -> bool {
    let can = side.modes.has(Mode::Get) && asks_for_rates(side.modes, side.wish);
    can && bytes >= side.min && side.contiguous && !side.crowded && side.prefers_kernel(bytes)
}

/// What a sender offers for a message of `bytes`.
pub fn offer(side: Side, bytes: u64) -> Modes {
    match side.wish {
        _ if bytes == 0 => Modes::NULL,
        Wish::Auto if bytes < side.min => Modes::NULL,
        // Only the sender knows that its data is in pieces, which the ring takes as they are.
        Wish::Auto if !side.contiguous && side.modes.has(Mode::Coop) && !side.prefers_kernel(bytes) => {
            Modes::NULL.with(Mode::Coop)
        }
        // To expose data for a get costs something before anybody has asked for it.
        Wish::Auto if side.modes.has(Mode::Coop) && !side.prefers_kernel(bytes) && !is_tried(side, bytes) => {
            side.modes.without(Mode::Get)
        }
        // To expose data in pieces costs a copy, too.
        Wish::Auto if !side.contiguous => side.modes.without(Mode::Get),
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
    let kernel = match side.modes {
        modes if modes.has(Mode::Get) => Some(Mode::Get),
        modes if modes.has(Mode::Put) => Some(Mode::Put),
        _ => None,
    };
    match side.wish {
        _ if bytes == 0 => (Mode::Null, "there is nothing to move"),
        Wish::Only(Mode::Null) => (Mode::Null, "NETMOD_LMT says so"),
        Wish::Only(mode) if side.modes.has(mode) => (mode, "NETMOD_LMT says so, and both sides can"),
        Wish::Only(Mode::Coop) => (Mode::Null, "the processes share no memory"),
        Wish::Only(_) => (Mode::Null, "the network module has no one-sided transfers"),
        Wish::Auto if bytes < side.min => (Mode::Null, "it is shorter than NETMOD_LMT_MIN"),
        Wish::Auto => match (side.modes.has(Mode::Coop), kernel) {
            (true, Some(mode)) if side.prefers_kernel(bytes) => {
                let why = if side.crowded {
                    "ranks share cores: one copy by the kernel is faster than two by turns"
                } else if side.contiguous && side.is_joint() {
                    "one copy by the kernel, of which each side does a part, is faster here than two through a cache"
                } else {
                    "one copy by the kernel is faster here than two through a cache"
                };
                (mode, why)
            }
            (true, Some(_)) => {
                (Mode::Coop, "two copies through a cache are faster here than one by the kernel")
            }
            (true, None) => (Mode::Coop, "both sides copy at the same time, through a cache"),
            (false, Some(Mode::Get)) => (Mode::Get, "the receiver can read the sender's memory"),
            (false, Some(mode)) => (mode, "the sender can write the receiver's memory"),
            (false, None) => (Mode::Null, "both sides can do nothing else"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Modes = Modes::NULL.with(Mode::Coop).with(Mode::Get);
    const MIB: u64 = 1 << 20;

    fn side(modes: Modes, wish: Wish) -> Side {
        Side { modes, wish, min: 100, contiguous: true, crowded: false, joint: false, rates: Rates::ASSUMED }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        assert_eq!(Wish::of_name("auto"), Some(Wish::Auto));
        assert_eq!(Wish::of_name("coop"), Some(Wish::Only(Mode::Coop)));
        assert_eq!(Wish::of_name("magic"), None);
    }

    #[test]
    fn a_wish_holds_where_both_can() {
        let coop = side(BOTH, Wish::Only(Mode::Coop));
        assert_eq!((offer(coop, 1), grant(coop, 1)), (Modes::NULL.with(Mode::Coop), Mode::Coop));
        assert_eq!((offer(coop, 0), grant(coop, 0)), (Modes::NULL, Mode::Null));
        let put = side(BOTH, Wish::Only(Mode::Put));
        assert_eq!((offer(put, 1), grant(put, 1)), (Modes::NULL, Mode::Null));
        let null = side(BOTH, Wish::Only(Mode::Null));
        assert_eq!((offer(null, 1), grant(null, 1)), (Modes::NULL, Mode::Null));
        let get = Side { contiguous: false, ..side(BOTH, Wish::Only(Mode::Get)) };
        assert_eq!((offer(get, 1), grant(get, 1)), (Modes::NULL.with(Mode::Get), Mode::Get));
    }

    #[test]
    fn without_a_wish_it_is_the_best_from_a_length_on() {
        let auto = |modes| side(modes, Wish::Auto);
        assert_eq!((offer(auto(BOTH), 99), grant(auto(BOTH), 99)), (Modes::NULL, Mode::Null));
        assert_eq!(
            (offer(auto(BOTH), 100), grant(auto(BOTH), 100)),
            (Modes::NULL.with(Mode::Coop), Mode::Coop)
        );
        assert_eq!(grant(auto(Modes::NULL.with(Mode::Put)), 100), Mode::Put);
        assert_eq!(explain(auto(Modes::NULL), 100), (Mode::Null, "both sides can do nothing else"));
    }

    #[test]
    fn the_machine_decides_between_two_copies_and_one() {
        let at = |cached, kernel| Side {
            rates: Rates { cached, copied: cached, kernel },
            ..side(BOTH, Wish::Auto)
        };
        assert_eq!(grant(side(BOTH, Wish::Auto), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 9_000), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 11_000), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 12_000), MIB), Mode::Get);
        // Nothing that was measured may make it divide by nothing, or be too large.
        for (contiguous, crowded) in [(true, false), (false, false), (true, true), (false, true)] {
            for (cached, kernel) in [(0, 0), (u32::MAX, u32::MAX), (0, 1), (1, 0)] {
                let odd = Side { contiguous, crowded, ..at(cached, kernel) };
                assert!(matches!(grant(odd, u64::MAX), Mode::Coop | Mode::Get));
            }
        }
    }

    /// As measured on two virtual cores of an Intel Xeon, 2 MiB of L2 cache each: rates, and which of Get and Cooperative was faster.
    #[test]
    fn what_leaves_the_caches_is_copied_by_both() {
        let at = |copied, kernel| Side {
            rates: Rates { cached: 49_000, copied, kernel },
            ..side(BOTH, Wish::Auto)
        };
        assert_eq!(grant(at(49_000, 29_000), 256 << 10), Mode::Get);
        assert_eq!(grant(at(30_000, 21_000), MIB), Mode::Get);
        assert_eq!(grant(at(14_000, 12_000), 4 * MIB), Mode::Coop);
        assert_eq!(grant(at(11_000, 10_500), 64 * MIB), Mode::Coop);
        // Nor is what is not tried exposed for a get.
        assert_eq!(offer(at(49_000, 10_500), 256 << 10), Modes::NULL.with(Mode::Coop));
        assert_eq!(offer(at(49_000, 5_000), 64 * MIB), BOTH);
        assert_eq!(offer(at(49_000, 4_000), 64 * MIB), Modes::NULL.with(Mode::Coop));
    }

    /// The same machine, when the owner of the memory copies its part.
    #[test]
    fn two_that_copy_by_the_kernel_are_faster_than_one() {
        let at = |copied, kernel, joint| Side {
            rates: Rates { cached: 49_000, copied, kernel },
            joint,
            ..side(BOTH, Wish::Auto)
        };
        for (copied, kernel, bytes) in [(14_000, 12_000, 4 * MIB), (14_000, 11_500, 16 * MIB)] {
            assert_eq!(grant(at(copied, kernel, false), bytes), Mode::Coop);
            let (mode, why) = explain(at(copied, kernel, true), bytes);
            assert!(mode == Mode::Get && why.contains("each side"), "{mode}: {why}");
        }
        // Not with data in pieces, nor if there is a core for one of them alone.
        let pieces = Side { contiguous: false, ..at(14_000, 12_000, true) };
        assert_eq!(grant(pieces, 4 * MIB), Mode::Coop);
        let crowded = Side { crowded: true, ..at(14_000, 4_000, true) };
        assert_eq!(grant(crowded, MIB), Mode::Coop);
        // Where a ring's copies are much faster, it stays that.
        let near = Side { rates: Rates::ASSUMED, joint: true, ..side(BOTH, Wish::Auto) };
        assert_eq!(grant(near, MIB), Mode::Coop);
    }

    #[test]
    fn ways_that_may_both_be_the_faster_are_tried() {
        let tried = side(BOTH, Wish::Auto);
        assert!(is_tried(tried, MIB) && !is_tried(tried, 500_000));
        let others = [
            Side { contiguous: false, ..tried },
            Side { crowded: true, ..tried },
            Side { min: 2 * MIB, ..tried },
            Side { modes: Modes::NULL.with(Mode::Coop).with(Mode::Put), ..tried },
            Side { modes: Modes::NULL.with(Mode::Get), ..tried },
            Side { wish: Wish::Only(Mode::Get), ..tried },
            // Hopeless, the one way or the other.
            Side { rates: Rates { kernel: 5_000, ..Rates::ASSUMED }, ..tried },
            Side { rates: Rates { cached: 10_000, copied: 10_000, kernel: 90_000 }, ..tried },
        ];
        for other in others {
            assert!(!is_tried(other, MIB), "{other:?}");
        }
    }

    #[test]
    fn what_is_got_sooner_does_not_go_eagerly() {
        let (near, far) = (Rates::ASSUMED, Rates { cached: 49_000, copied: 49_000, kernel: 29_000 });
        let at = |rates| Side { rates, ..side(BOTH, Wish::Auto) };
        assert!(is_got(at(far), 64 << 10) && !is_got(at(near), 64 << 10));
        let others = [
            Side { contiguous: false, ..at(far) },
            Side { crowded: true, ..at(far) },
            Side { min: 100_000, ..at(far) },
            Side { modes: Modes::NULL.with(Mode::Coop).with(Mode::Put), ..at(far) },
            Side { modes: Modes::NULL.with(Mode::Get), ..at(far) },
            Side { wish: Wish::Only(Mode::Get), ..at(far) },
        ];
        for other in others {
            assert!(!is_got(other, 64 << 10), "{other:?}");
        }
    }

    #[test]
    fn sides_that_take_turns_wake_each_other_often() {
        let crowded = |kernel| {
            let rates = Rates { kernel, ..Rates::ASSUMED };
            Side { crowded: true, rates, ..side(BOTH, Wish::Auto) }
        };
        let (mode, why) = explain(crowded(12_000), MIB);
        assert!(mode == Mode::Get && why.contains("share cores"), "{mode}: {why}");
        assert_eq!(grant(crowded(4_000), MIB), Mode::Coop);
    }

    #[test]
    fn data_in_pieces_goes_through_the_ring() {
        let rates = Rates { cached: 60_000, copied: 60_000, kernel: 24_000 };
        let pieces = Side { contiguous: false, rates, ..side(BOTH, Wish::Auto) };
        let one = Side { contiguous: true, ..pieces };
        assert_eq!((grant(one, MIB), grant(pieces, MIB)), (Mode::Get, Mode::Coop));
        assert_eq!((offer(one, MIB), offer(pieces, MIB)), (BOTH, Modes::NULL.with(Mode::Coop)));
        // Unless the ring costs more than that. They are never exposed before somebody wants them.
        let with_put = BOTH.with(Mode::Put);
        let crowded = Side { crowded: true, modes: with_put, ..pieces };
        assert_eq!((offer(crowded, MIB), grant(crowded, MIB)), (with_put.without(Mode::Get), Mode::Get));
        assert_eq!(offer(Side { crowded: false, ..crowded }, MIB), Modes::NULL.with(Mode::Coop));
        let only_get = Side { modes: Modes::NULL.with(Mode::Get), ..pieces };
        assert_eq!((offer(only_get, MIB), grant(only_get, MIB)), (Modes::NULL, Mode::Get));
    }

    #[test]
    fn rates_matter_only_between_a_ring_and_the_kernel() {
        assert!(asks_for_rates(BOTH, Wish::Auto));
        assert!(asks_for_rates(Modes::NULL.with(Mode::Coop).with(Mode::Put), Wish::Auto));
        for modes in [Modes::NULL, Modes::NULL.with(Mode::Coop), Modes::NULL.with(Mode::Get)] {
            assert!(!asks_for_rates(modes, Wish::Auto));
        }
        assert!(!asks_for_rates(BOTH, Wish::Only(Mode::Get)));
    }
}

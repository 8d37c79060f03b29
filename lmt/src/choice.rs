//! The choice of a mode, by both sides' abilities, the policy, the length, and the cost of copies.
//!
//! First the sender decides which modes it offers. Then the receiver, which knows how much room it
//! has, chooses among the modes that both can use.
//!
//! Between two processes of one node, the data is copied either twice or once. Twice means through
//! a ring in caches, by both sides at the same time (Cooperative). Once means by the kernel, while
//! one side does nothing (Put, Get). Which is faster depends on the machine, so the choice uses the
//! cost of both there ([`Rates`]), and whether both sides really run at the same time.

use crate::coop::RING;
use crate::mode::{Mode, Modes};
use crate::rates::{FROM, LENGTHS, Rates};

/// Cost factor of a copy from a part of a ring that another core has just touched, over one within
/// own caches.
const CROSSING: u64 = 3;
/// Most bytes of a message that are in its sender's caches, from which the kernel's copy takes
/// them. Its measured rate is without that, since there the source is in own caches.
const IN_CACHES: u64 = LENGTHS[1] as u64;
/// Advantage that the kernel's copy must have, as a divisor of its time.
///
/// A message longer than the measured copy leaves the caches and makes its copy slower; the two
/// sides of a ring share that cost.
const LEAD: u64 = 8;
/// Time of a get that both sides copy, over that of one side alone: numerator and denominator.
const JOINT: (u64, u64) = (5, 8);
/// Nanoseconds to wake the peer and be woken by it, once per filling of the ring, if the sides
/// share a core.
const WAKE: u64 = 40_000;
/// Nanoseconds of calls and packets per window of noncontiguous data in Put or Get.
const WINDOW: u64 = 3_000;
/// Least length in bytes at which both strategies are tried; shorter messages would pay too much
/// for exposing their memory.
const TRIED: u64 = FROM[0];
/// Factor in the model's time beyond which the slower strategy is not tried.
const HOPELESS: u64 = 4;

/// The program's policy (`NETMOD_LMT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The best mode that both sides can use.
    Auto,
    /// This mode for every large message if both sides can use it; else Null.
    Only(Mode),
}

impl Policy {
    /// Returns the policy of this name in the configuration.
    pub fn of_name(name: &str) -> Option<Policy> {
        if name == "auto" {
            return Some(Policy::Auto);
        }
        Mode::ALL.into_iter().find(|m| m.name() == name).map(Policy::Only)
    }
}

/// The facts by which a side decides.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Modes that it can use; at a receiver, modes that both sides can use.
    pub modes: Modes,
    /// Policy of its program.
    pub policy: Policy,
    /// Shortest length in bytes for modes other than Null, with [`Policy::Auto`].
    pub min: u64,
    /// True if its data is contiguous.
    pub contiguous: bool,
    /// True if the node has more ranks than cores, so that the two sides may alternate on one core.
    pub crowded: bool,
    /// True if both sides copy in a get of this message, see
    /// [`RmaUse::joint`](netmod_core::RmaUse::joint).
    pub joint: bool,
    /// Cost of copies of about the message's length.
    pub rates: Rates,
}

impl Side {
    /// Returns the nanoseconds of two concurrent copies through a ring.
    ///
    /// For a message larger than the caches, each side pays half of the extra cost: one loads it,
    /// the other stores it.
    fn by_ring(&self, bytes: u64) -> u64 {
        let cached = nanoseconds(bytes, self.rates.cached);
        let beyond = nanoseconds(bytes, self.rates.copied).saturating_sub(cached) / 2;
        let copy = cached.saturating_mul(CROSSING).saturating_add(beyond);
        let wakes = if self.crowded { bytes.div_ceil(RING as u64) * WAKE } else { 0 };
        copy.saturating_add(wakes)
    }

    /// Returns the nanoseconds of one copy by the kernel, plus packing or unpacking of
    /// noncontiguous data.
    fn by_kernel(&self, bytes: u64) -> u64 {
        let crossing = nanoseconds(bytes.min(IN_CACHES), self.rates.cached).saturating_mul(CROSSING - 1);
        let copy = nanoseconds(bytes, self.rates.kernel).saturating_add(crossing);
        if self.contiguous && self.is_joint() {
            copy / JOINT.1 * JOINT.0
        } else if self.contiguous {
            copy
        } else {
            let packed = nanoseconds(bytes, self.rates.cached);
            copy.saturating_add(packed).saturating_add(bytes.div_ceil(RING as u64) * WINDOW)
        }
    }

    /// Returns true if both sides copy by the kernel, at the same time.
    fn is_joint(&self) -> bool {
        self.joint && !self.crowded && self.modes.has(Mode::Get)
    }

    /// Returns true if one copy by the kernel beats two through a ring, where both are possible.
    fn prefers_kernel(&self, bytes: u64) -> bool {
        let by_kernel = self.by_kernel(bytes);
        by_kernel.saturating_add(by_kernel / LEAD) < self.by_ring(bytes)
    }
}

/// Returns true if [`Autotuner`](crate::autotune::Autotuner) decides between ring and kernel.
///
/// It does as long as the model finds neither hopeless.
pub fn is_tried(side: Side, bytes: u64) -> bool {
    let can = side.modes.has(Mode::Get) && asks_for_rates(side.modes, side.policy);
    let (ring, kernel) = (side.by_ring(bytes), side.by_kernel(bytes));
    let close = ring.max(kernel) / HOPELESS <= ring.min(kernel);
    can && bytes >= side.min.max(TRIED) && side.contiguous && !side.crowded && close
}

/// Returns true if a message for which the netmod has room is better announced, so that
/// [`Autotuner`](crate::autotune::Autotuner) finds out whether a get of it is faster.
///
/// The model must find it nearly as fast: an agreement on the mode costs time.
pub fn may_be_got(side: Side, bytes: u64) -> bool {
    let (ring, kernel) = (side.by_ring(bytes), side.by_kernel(bytes));
    is_tried(side, bytes) && kernel.saturating_sub(ring) <= ring / 2
}

fn nanoseconds(bytes: u64, rate: u32) -> u64 {
    bytes.saturating_mul(1000) / u64::from(rate.max(1))
}

/// Returns true if a choice depends on [`Side::rates`], so that they must be measured.
pub fn asks_for_rates(modes: Modes, policy: Policy) -> bool {
    policy == Policy::Auto && modes.has(Mode::Coop) && (modes.has(Mode::Get) || modes.has(Mode::Put))
}

/// Returns the modes that a sender offers for a message of `bytes`.
pub fn offer(side: Side, bytes: u64) -> Modes {
    match side.policy {
        _ if bytes == 0 => Modes::NULL,
        Policy::Auto if bytes < side.min => Modes::NULL,
        // Only the sender knows that its data is noncontiguous; the ring takes it as it is.
        Policy::Auto if !side.contiguous && side.modes.has(Mode::Coop) && !side.prefers_kernel(bytes) => {
            Modes::NULL.with(Mode::Coop)
        }
        // Exposing data for a get has a cost even if nobody reads it.
        Policy::Auto
            if side.modes.has(Mode::Coop) && !side.prefers_kernel(bytes) && !is_tried(side, bytes) =>
        {
            side.modes.without(Mode::Get)
        }
        // Exposing noncontiguous data costs a copy, too.
        Policy::Auto if !side.contiguous => side.modes.without(Mode::Get),
        Policy::Auto => side.modes,
        Policy::Only(mode) if side.modes.has(mode) => Modes::NULL.with(mode),
        Policy::Only(_) => Modes::NULL,
    }
}

/// Returns the mode that a receiver with room for `bytes` chooses.
pub fn grant(side: Side, bytes: u64) -> Mode {
    explain(side, bytes).0
}

/// Returns the choice, and a short reason.
pub fn explain(side: Side, bytes: u64) -> (Mode, &'static str) {
    let kernel = match side.modes {
        modes if modes.has(Mode::Get) => Some(Mode::Get),
        modes if modes.has(Mode::Put) => Some(Mode::Put),
        _ => None,
    };
    match side.policy {
        _ if bytes == 0 => (Mode::Null, "there is nothing to move"),
        Policy::Only(Mode::Null) => (Mode::Null, "NETMOD_LMT says so"),
        Policy::Only(mode) if side.modes.has(mode) => (mode, "NETMOD_LMT says so, and both sides can"),
        Policy::Only(Mode::Coop) => (Mode::Null, "the processes share no memory"),
        Policy::Only(_) => (Mode::Null, "the network module has no one-sided transfers"),
        Policy::Auto if bytes < side.min => (Mode::Null, "it is shorter than NETMOD_LMT_MIN"),
        Policy::Auto => match (side.modes.has(Mode::Coop), kernel) {
            (true, Some(mode)) if side.prefers_kernel(bytes) => {
                let why = if side.crowded {
                    "ranks share cores: one copy by the kernel is faster than two that alternate"
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
            (false, None) => (Mode::Null, "no other mode is possible on both sides"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Modes = Modes::NULL.with(Mode::Coop).with(Mode::Get);
    const MIB: u64 = 1 << 20;

    fn side(modes: Modes, policy: Policy) -> Side {
        Side {
            modes,
            policy,
            min: 100,
            contiguous: true,
            crowded: false,
            joint: false,
            rates: Rates::ASSUMED,
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        assert_eq!(Policy::of_name("auto"), Some(Policy::Auto));
        assert_eq!(Policy::of_name("coop"), Some(Policy::Only(Mode::Coop)));
        assert_eq!(Policy::of_name("magic"), None);
    }

    #[test]
    fn a_forced_mode_holds_where_both_sides_have_it() {
        let coop = side(BOTH, Policy::Only(Mode::Coop));
        assert_eq!((offer(coop, 1), grant(coop, 1)), (Modes::NULL.with(Mode::Coop), Mode::Coop));
        assert_eq!((offer(coop, 0), grant(coop, 0)), (Modes::NULL, Mode::Null));
        let put = side(BOTH, Policy::Only(Mode::Put));
        assert_eq!((offer(put, 1), grant(put, 1)), (Modes::NULL, Mode::Null));
        let null = side(BOTH, Policy::Only(Mode::Null));
        assert_eq!((offer(null, 1), grant(null, 1)), (Modes::NULL, Mode::Null));
        let get = Side { contiguous: false, ..side(BOTH, Policy::Only(Mode::Get)) };
        assert_eq!((offer(get, 1), grant(get, 1)), (Modes::NULL.with(Mode::Get), Mode::Get));
    }

    #[test]
    fn auto_takes_the_best_mode_from_a_length_on() {
        let auto = |modes| side(modes, Policy::Auto);
        assert_eq!((offer(auto(BOTH), 99), grant(auto(BOTH), 99)), (Modes::NULL, Mode::Null));
        assert_eq!(
            (offer(auto(BOTH), 100), grant(auto(BOTH), 100)),
            (Modes::NULL.with(Mode::Coop), Mode::Coop)
        );
        assert_eq!(grant(auto(Modes::NULL.with(Mode::Put)), 100), Mode::Put);
        assert_eq!(explain(auto(Modes::NULL), 100), (Mode::Null, "no other mode is possible on both sides"));
    }

    #[test]
    fn the_machine_decides_between_two_copies_and_one() {
        let at = |cached, kernel| Side {
            rates: Rates { cached, copied: cached, kernel },
            ..side(BOTH, Policy::Auto)
        };
        assert_eq!(grant(side(BOTH, Policy::Auto), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 12_000), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 44_000), MIB), Mode::Coop);
        assert_eq!(grant(at(30_000, 46_000), MIB), Mode::Get);
        // In no cache of the sender's.
        assert_eq!(grant(at(30_000, 12_000), 64 * MIB), Mode::Get);
        // No measured rate may cause a division by zero or an overflow.
        for (contiguous, crowded) in [(true, false), (false, false), (true, true), (false, true)] {
            for (cached, kernel) in [(0, 0), (u32::MAX, u32::MAX), (0, 1), (1, 0)] {
                let odd = Side { contiguous, crowded, ..at(cached, kernel) };
                assert!(matches!(grant(odd, u64::MAX), Mode::Coop | Mode::Get));
            }
        }
    }

    /// Rates of two virtual cores of an Intel Xeon with 2 MiB of L2 cache each. Cooperative is
    /// faster there if the sender has written what it sends.
    #[test]
    fn a_get_takes_lines_from_the_caches_of_the_sender() {
        let at = |copied, kernel| Side {
            rates: Rates { cached: 49_000, copied, kernel },
            ..side(BOTH, Policy::Auto)
        };
        assert_eq!(grant(at(49_000, 29_000), 256 << 10), Mode::Coop);
        assert_eq!(grant(at(30_000, 21_000), MIB), Mode::Coop);
        assert_eq!(grant(at(14_000, 12_000), 4 * MIB), Mode::Coop);
        assert_eq!(grant(at(11_000, 10_500), 64 * MIB), Mode::Coop);
        // Nor is a message exposed for a get if the get is not tried.
        assert_eq!(offer(at(49_000, 10_500), 64 << 10), Modes::NULL.with(Mode::Coop));
        assert_eq!(offer(at(49_000, 5_000), 64 * MIB), BOTH);
        assert_eq!(offer(at(49_000, 4_000), 64 * MIB), Modes::NULL.with(Mode::Coop));
    }

    /// The same machine, when the owner of the memory copies its part.
    #[test]
    fn two_that_copy_by_the_kernel_are_faster_than_one() {
        let at = |copied, kernel, joint| Side {
            rates: Rates { cached: 49_000, copied, kernel },
            joint,
            ..side(BOTH, Policy::Auto)
        };
        for (copied, kernel, bytes) in [(14_000, 12_000, 4 * MIB), (14_000, 11_500, 16 * MIB)] {
            assert_eq!(grant(at(copied, kernel, false), bytes), Mode::Coop);
            let (mode, why) = explain(at(copied, kernel, true), bytes);
            assert!(mode == Mode::Get && why.contains("each side"), "{mode}: {why}");
        }
        // Not with noncontiguous data, nor if the two share cores.
        let pieces = Side { contiguous: false, ..at(14_000, 12_000, true) };
        assert_eq!(grant(pieces, 4 * MIB), Mode::Coop);
        let crowded = Side { crowded: true, ..at(14_000, 4_000, true) };
        assert_eq!(grant(crowded, MIB), Mode::Coop);
        // The ring stays where its copies are much faster.
        let near = Side { rates: Rates::ASSUMED, joint: true, ..side(BOTH, Policy::Auto) };
        assert_eq!(grant(near, MIB), Mode::Coop);
    }

    #[test]
    fn strategies_that_may_both_be_faster_are_tried() {
        let tried = side(BOTH, Policy::Auto);
        assert!(is_tried(tried, MIB) && !is_tried(tried, 130_000));
        let others = [
            Side { contiguous: false, ..tried },
            Side { crowded: true, ..tried },
            Side { min: 2 * MIB, ..tried },
            Side { modes: Modes::NULL.with(Mode::Coop).with(Mode::Put), ..tried },
            Side { modes: Modes::NULL.with(Mode::Get), ..tried },
            Side { policy: Policy::Only(Mode::Get), ..tried },
            // Hopeless by the kernel.
            Side { rates: Rates { kernel: 5_000, ..Rates::ASSUMED }, ..tried },
        ];
        for other in others {
            assert!(!is_tried(other, MIB), "{other:?}");
        }
        // Hopeless through the ring.
        let rates = Rates { cached: 10_000, copied: 10_000, kernel: 90_000 };
        assert!(is_tried(tried, 64 * MIB) && !is_tried(Side { rates, ..tried }, 64 * MIB));
    }

    #[test]
    fn what_may_be_got_sooner_is_announced() {
        let at = |cached, kernel| Side {
            rates: Rates { cached, copied: cached, kernel },
            ..side(BOTH, Policy::Auto)
        };
        assert!(!may_be_got(side(BOTH, Policy::Auto), 256 << 10), "the kernel takes three times as long");
        assert!(may_be_got(at(41_000, 21_000), 256 << 10) && !may_be_got(at(41_000, 12_000), 256 << 10));
        assert!(!may_be_got(at(41_000, 21_000), TRIED - 1));
        let pieces = Side { contiguous: false, ..at(41_000, 21_000) };
        assert!(!may_be_got(pieces, 256 << 10), "it is not tried");
    }

    #[test]
    fn sides_that_share_cores_wake_each_other_often() {
        let crowded = |kernel| {
            let rates = Rates { kernel, ..Rates::ASSUMED };
            Side { crowded: true, rates, ..side(BOTH, Policy::Auto) }
        };
        let (mode, why) = explain(crowded(12_000), MIB);
        assert!(mode == Mode::Get && why.contains("share cores"), "{mode}: {why}");
        assert_eq!(grant(crowded(4_000), MIB), Mode::Coop);
    }

    #[test]
    fn data_in_pieces_goes_through_the_ring() {
        let rates = Rates { cached: 60_000, copied: 60_000, kernel: 30_000 };
        let pieces = Side { contiguous: false, joint: true, rates, ..side(BOTH, Policy::Auto) };
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
        assert!(asks_for_rates(BOTH, Policy::Auto));
        assert!(asks_for_rates(Modes::NULL.with(Mode::Coop).with(Mode::Put), Policy::Auto));
        for modes in [Modes::NULL, Modes::NULL.with(Mode::Coop), Modes::NULL.with(Mode::Get)] {
            assert!(!asks_for_rates(modes, Policy::Auto));
        }
        assert!(!asks_for_rates(BOTH, Policy::Only(Mode::Get)));
    }
}

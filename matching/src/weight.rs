//! What a pair is worth: an ordered type, and its exact packing into the integers that the solver adds.

use crate::route::Answer;

/// Mb/s of an interface that does not tell.
pub const UNKNOWN_SPEED: u32 = 1000;

/// Most endpoints of a side that are considered, and so the most pairs: the packing of weights has room for that many.
pub const MAX_NICS: usize = 32;

/// How packets get from one interface to the other, from worst to best. The worse direction counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// By a gateway to which everything goes that has no route of its own.
    Default,
    /// By a gateway that is meant for such destinations.
    Gateway,
    /// Without a gateway.
    OnLink,
}

impl Class {
    /// What an answer allows; `None` if it allows nothing or says nothing.
    pub fn of(answer: Answer) -> Option<Class> {
        match answer {
            Answer::None | Answer::Unknown => None,
            Answer::Default => Some(Class::Default),
            Answer::Gateway => Some(Class::Gateway),
            Answer::OnLink => Some(Class::OnLink),
        }
    }

    /// A number that stands for it, the same in all versions.
    pub fn code(self) -> u8 {
        match self {
            Class::Default => 1,
            Class::Gateway => 2,
            Class::OnLink => 3,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Default => "default route",
            Class::Gateway => "gateway",
            Class::OnLink => "on-link",
        }
    }
}

/// What a pair is worth. An earlier field outweighs all the later ones, also in sums over all pairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight {
    /// How packets get there.
    pub class: Class,
    /// Mb/s of the slower end; [`UNKNOWN_SPEED`] for one that does not tell.
    pub speed: u32,
    /// Whether both ends are equally fast.
    pub same_speed: bool,
    /// Whether both ends have the same MTU, and it is known.
    pub same_mtu: bool,
}

/// The speed of what says this of itself; never 0, which would be worth nothing.
pub fn effective_speed(said: Option<u32>) -> u32 {
    said.filter(|s| *s > 0).unwrap_or(UNKNOWN_SPEED)
}

/// Bits that a sum of [`MAX_NICS`] flags needs.
const FLAG_BITS: u32 = MAX_NICS.ilog2() + 1;
/// Bits that a sum of [`MAX_NICS`] speeds needs.
const SPEED_BITS: u32 = 32 + MAX_NICS.ilog2();

impl Weight {
    /// Of ends with these speeds (Mb/s) and MTUs (bytes).
    pub fn new(class: Class, speeds: [Option<u32>; 2], mtus: [Option<u32>; 2]) -> Weight {
        let [a, b] = speeds.map(effective_speed);
        Weight {
            class,
            speed: a.min(b),
            same_speed: a == b,
            same_mtu: mtus[0].is_some() && mtus[0] == mtus[1],
        }
    }

    /// As an integer. Sums over up to [`MAX_NICS`] pairs compare like the sums of the fields, one after the other.
    pub fn packed(self) -> u64 {
        // The worst class is worth something, too, although any pair beats none already by being one.
        let class = u64::from(self.class.code());
        let fields = (class << SPEED_BITS) + u64::from(self.speed);
        (((fields << FLAG_BITS) + u64::from(self.same_speed)) << FLAG_BITS) + u64::from(self.same_mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_never_carry_into_the_next_field() {
        let n = MAX_NICS as u64;
        let least = |class| Weight { class, speed: 0, same_speed: false, same_mtu: false };
        let most = |class| Weight { class, speed: u32::MAX, same_speed: true, same_mtu: true };
        // One pair of a better class outweighs anything that the others have.
        let better = least(Class::Gateway).packed() + (n - 1) * least(Class::Default).packed();
        assert!(better > n * most(Class::Default).packed());
        // One Mb/s outweighs all flags.
        let slow = Weight { speed: 9, ..most(Class::OnLink) };
        let fast = Weight { speed: 10, ..least(Class::OnLink) };
        let plain = Weight { speed: 9, ..least(Class::OnLink) };
        assert!(fast.packed() + (n - 1) * plain.packed() > n * slow.packed());
        // An equal speed outweighs all equal MTUs.
        let speed = Weight { same_speed: true, ..least(Class::OnLink) };
        let mtu = Weight { same_mtu: true, ..least(Class::OnLink) };
        assert!(speed.packed() + (n - 1) * least(Class::OnLink).packed() > n * mtu.packed());
        assert!(n * most(Class::OnLink).packed() < 1 << 62);
    }

    #[test]
    fn what_is_unknown_is_neither_fast_nor_nothing() {
        assert_eq!(effective_speed(None), 1000);
        assert_eq!(effective_speed(Some(0)), 1000);
        let w = Weight::new(Class::OnLink, [None, Some(10_000)], [None, None]);
        assert_eq!((w.speed, w.same_speed, w.same_mtu), (1000, false, false));
        let w = Weight::new(Class::OnLink, [Some(25_000), Some(25_000)], [Some(9000), Some(9000)]);
        assert_eq!((w.speed, w.same_speed, w.same_mtu), (25_000, true, true));
    }
}

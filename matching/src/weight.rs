//! The weight of a pair: an ordered type, and its exact packing into the integers that the solver
//! adds.

use crate::route::Answer;

/// Assumed speed in Mb/s of an interface that does not report one.
pub const UNKNOWN_SPEED: u32 = 1000;

/// Most endpoints of a side that are considered; up to here, sums of weights are exact.
///
/// A host's record has no room for as many interfaces ([`crate::wire::MAX_LEN`]).
pub const MAX_ENDPOINTS: usize = 2048;

/// Speed in Mb/s from which on speeds count as equal; no interface is as fast.
const MAX_SPEED: u32 = 1 << 28;

/// The route of packets between two interfaces, from worst to best. The worse direction counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// A gateway, through a default route.
    Default,
    /// A gateway, through a route for such destinations.
    Gateway,
    /// No gateway: the destination is on the link.
    OnLink,
}

impl Class {
    /// Returns the class of an answer; `None` if there is no route, or the answer is unknown.
    pub fn of(answer: Answer) -> Option<Class> {
        match answer {
            Answer::None | Answer::Unknown => None,
            Answer::Default => Some(Class::Default),
            Answer::Gateway => Some(Class::Gateway),
            Answer::OnLink => Some(Class::OnLink),
        }
    }

    /// Returns the number that stands for it, the same in all versions.
    pub fn code(self) -> u8 {
        match self {
            Class::Default => 1,
            Class::Gateway => 2,
            Class::OnLink => 3,
        }
    }

    /// Returns a human-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Class::Default => "default route",
            Class::Gateway => "gateway",
            Class::OnLink => "on-link",
        }
    }
}

/// The weight of a pair. An earlier field outweighs all later ones, also in sums over all pairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight {
    /// Class of the route.
    pub class: Class,
    /// Mb/s of the slower end; [`UNKNOWN_SPEED`] if it does not report one.
    pub speed: u32,
    /// True if both ends have the same speed.
    pub same_speed: bool,
    /// True if both ends have the same known MTU.
    pub same_mtu: bool,
}

/// Returns the speed to assume for what an endpoint reports; never 0, which would be worth nothing.
pub fn effective_speed(said: Option<u32>) -> u32 {
    said.filter(|s| *s > 0).unwrap_or(UNKNOWN_SPEED)
}

/// The packing of weights into the integers that the solver adds.
///
/// Sums over all pairs of a matching compare like the sums of the fields, one after the other: a
/// field's unit is more than all later fields can add up to. The units follow from the weights and
/// their number, so the integers are as narrow as they can be. All matchings that are compared have
/// the same number of pairs, so what all weights have in common is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// The lowest class, and the lowest speed.
    class: u8,
    speed: u32,
    /// The least difference between two speeds, in Mb/s.
    step: u32,
    /// Units of a class step, a speed step and equal speeds; an equal MTU counts 1.
    units: [u64; 3],
}

impl Packing {
    /// Creates the packing for matchings of at most `pairs` of these weights.
    pub fn new(pairs: usize, weights: impl Iterator<Item = Weight> + Clone) -> Packing {
        let pairs = pairs.min(MAX_ENDPOINTS) as u64;
        let class = weights.clone().map(|w| w.class.code()).min().unwrap_or(0);
        let speeds = weights.map(|w| w.speed.min(MAX_SPEED));
        let speed = speeds.clone().min().unwrap_or(0);
        let step = speeds.clone().fold(0, |step, s| gcd(step, s - speed)).max(1);
        let most = u64::from((speeds.max().unwrap_or(0) - speed) / step);
        let same_speed = pairs + 1;
        let per_step = same_speed * (pairs + 1);
        // One more than all speeds together.
        let per_class = per_step * (pairs * most + 1);
        Packing { class, speed, step, units: [per_class, per_step, same_speed] }
    }

    /// Returns one of the weights as an integer.
    pub fn pack(&self, weight: Weight) -> u64 {
        let [per_class, per_step, same_speed] = self.units;
        let class = u64::from(weight.class.code().saturating_sub(self.class));
        let steps = u64::from(weight.speed.min(MAX_SPEED).saturating_sub(self.speed) / self.step);
        class * per_class
            + steps * per_step
            + u64::from(weight.same_speed) * same_speed
            + u64::from(weight.same_mtu)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Weight {
    /// Creates the weight of a pair with these speeds (Mb/s) and MTUs (bytes).
    pub fn new(class: Class, speeds: [Option<u32>; 2], mtus: [Option<u32>; 2]) -> Weight {
        let [a, b] = speeds.map(effective_speed);
        Weight {
            class,
            speed: a.min(b),
            same_speed: a == b,
            same_mtu: mtus[0].is_some() && mtus[0] == mtus[1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a sum, the most important first.
    fn sums(list: &[Weight]) -> [u64; 4] {
        let class = |w: &Weight| u64::from(w.class.code());
        let flag = |f: fn(&Weight) -> bool| list.iter().filter(|w| f(w)).count() as u64;
        let speed = list.iter().map(|w| u64::from(w.speed)).sum();
        [list.iter().map(class).sum(), speed, flag(|w| w.same_speed), flag(|w| w.same_mtu)]
    }

    #[test]
    fn sums_of_packed_weights_compare_like_sums_of_their_fields() {
        let mut state = 1u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % n
        };
        for round in 0..2000 {
            let n = 1 + random(if round % 100 == 0 { 300 } else { 6 }) as usize;
            let fastest = [3, 10_000, u64::from(MAX_SPEED)][round % 3];
            let mut list = || -> Vec<Weight> {
                let class = |k| [Class::Default, Class::Gateway, Class::OnLink][k as usize];
                let one = |_| Weight {
                    class: class(random(3)),
                    speed: 1 + random(fastest) as u32,
                    same_speed: random(2) == 0,
                    same_mtu: random(2) == 0,
                };
                (0..n).map(one).collect()
            };
            let (a, b) = (list(), list());
            let packing = Packing::new(n, a.iter().chain(&b).copied());
            let sum = |list: &[Weight]| list.iter().map(|w| u128::from(packing.pack(*w))).sum::<u128>();
            assert_eq!(sum(&a).cmp(&sum(&b)), sums(&a).cmp(&sums(&b)), "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_largest_weight_fits_and_usual_ones_are_small() {
        let weight = |class, speed| Weight { class, speed, same_speed: true, same_mtu: true };
        let worst = [weight(Class::Default, 1), weight(Class::OnLink, u32::MAX), weight(Class::OnLink, 2)];
        let packing = Packing::new(MAX_ENDPOINTS, worst.iter().copied());
        let [class, step, flag] = packing.units.map(u128::from);
        let most = 2 * class + step * u128::from(MAX_SPEED) + flag + 1;
        assert!(u64::try_from(most).is_ok(), "{most:x}");
        assert_eq!(
            u128::from(packing.pack(worst[1])),
            2 * class + step * u128::from(MAX_SPEED - 1) + flag + 1
        );
        // 300 interfaces of usual speeds and one class: what all have in common takes no bits.
        let usual = [1000, 10_000, 25_000, 100_000].map(|s| weight(Class::OnLink, s));
        let packing = Packing::new(300, usual.iter().copied());
        assert!(packing.pack(usual[3]) < 1 << 24, "{}", packing.pack(usual[3]));
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

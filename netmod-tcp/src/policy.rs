//! The policy of pairing: a connection by a wrong pair of interfaces is refused, and the dialler is
//! told the right ones.
//!
//! Both sides pair the interfaces, from the same records. They may know of different routes, so the
//! process with the lesser name decides; but what the other one cannot use (an interface that is
//! down by now, no route back) is never decided. Who dials proposes what it holds for right, the
//! pair of the connection first. The other one strikes what it cannot use, and takes, of the rest,
//! what it has decided itself if it is the one to decide; or all. A connection by a pair that is
//! not left is refused, and the dialler told what is: its next dial goes by that.

use netmod_connection::RejectReason;

use crate::pairs::Pairs;

/// The answer to a dial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is right; these pairs are agreed on.
    Take(Pairs),
    /// It is not, for this reason; these pairs would be.
    Refuse(RejectReason, Pairs),
}

/// Judges a proposal. `usable` knows which pairs (mine, theirs) this side can use; `decision` is
/// what this side has decided, if it is the one to decide.
pub(crate) fn judge(
    proposed: &Pairs,
    usable: impl Fn((u32, u32)) -> bool,
    decision: Option<&Pairs>,
) -> Verdict {
    let Some(&used) = proposed.as_slice().first() else { return Verdict::Take(Pairs::default()) };
    let possible: Vec<(u32, u32)> = proposed.as_slice().iter().copied().filter(|p| usable(*p)).collect();
    let decided: Vec<(u32, u32)> =
        decision.map_or(&[][..], Pairs::as_slice).iter().copied().filter(|p| possible.contains(p)).collect();
    let left = if decided.is_empty() { &possible } else { &decided };
    let agreement = decision.map_or(proposed.agreement, |d| d.agreement);
    if left.is_empty() {
        // Perhaps there is another pair that the dialler has not thought of.
        let mine = decision.map_or(&[][..], Pairs::as_slice).iter().copied().filter(|p| usable(*p));
        return Verdict::Refuse(RejectReason::NoWayBack, Pairs::new(agreement, mine));
    }
    if !left.contains(&used) {
        let why = if possible.contains(&used) { RejectReason::OtherPair } else { RejectReason::NoWayBack };
        return Verdict::Refuse(why, Pairs::new(agreement, left.iter().copied()));
    }
    let others = left.iter().copied().filter(|p| *p != used);
    Verdict::Take(Pairs::new(agreement, std::iter::once(used).chain(others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(u32, u32)]) -> Pairs {
        Pairs::new(7, list.iter().copied())
    }

    fn turned(p: &Pairs) -> Pairs {
        Pairs::new(p.agreement, p.as_slice().iter().map(|&(a, b)| (b, a)))
    }

    #[test]
    fn who_decides_is_obeyed_as_far_as_the_other_can() {
        use RejectReason::{NoWayBack, OtherPair};
        use Verdict::{Refuse, Take};
        let all = |_| true;
        let not = |mine: u32| move |p: (u32, u32)| p.0 != mine;
        let straight = pairs(&[(1, 1), (2, 2)]);
        let crossed = pairs(&[(1, 2), (2, 1)]);
        // Nothing is said of interfaces within a place.
        assert_eq!(judge(&Pairs::default(), |_| false, Some(&straight)), Take(Pairs::default()));
        // The side that does not decide takes all pairs that it can use.
        assert_eq!(judge(&straight, all, None), Take(straight));
        assert_eq!(judge(&straight, not(2), None), Take(pairs(&[(1, 1)])));
        assert_eq!(judge(&straight, not(1), None), Refuse(NoWayBack, pairs(&[(2, 2)])));
        assert_eq!(judge(&straight, |_| false, None), Refuse(NoWayBack, pairs(&[])));
        // The side that decides gets what it wants, as far as the other one has proposed it.
        assert_eq!(judge(&straight, all, Some(&straight)), Take(straight));
        assert_eq!(
            judge(&pairs(&[(2, 2), (1, 1)]), all, Some(&straight)),
            Take(pairs(&[(2, 2), (1, 1)])),
            "the pair of the connection comes first"
        );
        let half = pairs(&[(1, 1), (3, 3)]);
        assert_eq!(judge(&pairs(&[(2, 2), (1, 1)]), all, Some(&half)), Refuse(OtherPair, pairs(&[(1, 1)])));
        assert_eq!(
            judge(&crossed, all, Some(&straight)),
            Take(crossed),
            "nothing in common: the other one may know why"
        );
        assert_eq!(judge(&crossed, |p| p.0 == p.1, Some(&straight)), Refuse(NoWayBack, straight));
    }

    /// Three dials make a connection if the pairs that either side would take have one in common,
    /// whoever dials and whatever each side prefers. Both sides then know the same pairs.
    #[test]
    fn dials_come_to_an_end_with_both_sides_agreed() {
        let every: Vec<(u32, u32)> = vec![(1, 1), (1, 2), (2, 1), (2, 2)];
        let views: Vec<Vec<(u32, u32)>> = vec![
            vec![],
            vec![(1, 1), (2, 2)],
            vec![(2, 2), (1, 1)],
            vec![(1, 2), (2, 1)],
            vec![(1, 1)],
            vec![(2, 2)],
            vec![(1, 2)],
        ];
        let mut connected = 0;
        for a in &views {
            for b in views.iter().filter(|_| !a.is_empty()) {
                for can in 0u32..16 {
                    for decider_dials in [true, false] {
                        let usable = |p: (u32, u32)| {
                            every.iter().position(|e| *e == p).is_some_and(|i| can & 1 << i != 0)
                        };
                        let mut proposal = pairs(a);
                        let answer = pairs(b);
                        let decision = (!decider_dials).then_some(&answer);
                        let mut end = None;
                        for _ in 0..3 {
                            match judge(
                                &turned(&proposal),
                                |(m, t)| usable((t, m)),
                                decision.map(turned).as_ref(),
                            ) {
                                Verdict::Take(agreed) => {
                                    end = Some(turned(&agreed));
                                    break;
                                }
                                Verdict::Refuse(_, better) => proposal = turned(&better),
                            }
                            if proposal.as_slice().is_empty() {
                                break;
                            }
                        }
                        let reachable = a.iter().any(|p| usable(*p));
                        if reachable {
                            let agreed = end.expect("a pair that both can use");
                            assert!(agreed.as_slice().iter().all(|p| usable(*p)), "{agreed:?}");
                            connected += 1;
                        }
                        assert!(end.is_none_or(|e| e.as_slice().iter().all(|p| usable(*p))));
                    }
                }
            }
        }
        assert!(connected > 500, "{connected}");
    }
}

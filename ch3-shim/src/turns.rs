//! The order in which several netmods are polled.
//!
//! The preferred one comes first, and the others only if it brings nothing. To look at a network in
//! vain may cost a system call, which messages through memory should not pay for; so what has been
//! quiet for long is looked at seldom. And now and then another one comes first, so that none waits
//! for ever while those before it have something in each poll.

/// Polls in vain after which a netmod, but for the preferred one, is looked at seldom.
const QUIET: u32 = 256;
/// Once in so many polls.
const SELDOM: u32 = 256;

/// The turns of some netmods.
#[derive(Debug)]
pub(crate) struct Turns {
    turn: u32,
    /// Polls in vain, of each.
    quiet: Vec<u32>,
}

impl Turns {
    /// Makes a schedule of so many netmods; there may be none.
    pub(crate) fn new(netmods: usize) -> Turns {
        Turns { turn: 0, quiet: vec![0; netmods] }
    }

    /// The next poll: who comes first.
    #[inline]
    pub(crate) fn begin(&mut self) -> usize {
        self.turn = self.turn.wrapping_add(1);
        let first = || (self.turn / SELDOM) as usize % self.quiet.len().max(1);
        if self.turn.is_multiple_of(SELDOM) { first() } else { 0 }
    }

    /// Returns the netmod at a place of this poll's order.
    #[inline]
    pub(crate) fn at(&self, first: usize, place: usize) -> usize {
        let i = first + place;
        if i < self.quiet.len() { i } else { i - self.quiet.len() }
    }

    /// Returns true if it is looked at in this poll.
    #[inline]
    pub(crate) fn is_due(&self, i: usize) -> bool {
        i == 0 || self.quiet[i] < QUIET || self.turn.is_multiple_of(SELDOM)
    }

    /// It was looked at; whether it had anything, or is in the middle of something.
    #[inline]
    pub(crate) fn looked_at(&mut self, i: usize, busy: bool) {
        self.quiet[i] = if busy { 0 } else { self.quiet[i].saturating_add(1) };
    }

    /// Makes the next poll look at all of them.
    pub(crate) fn wake(&mut self) {
        self.quiet.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls in which each was looked at, if those that `busy` names bring something each time,
    /// which ends the poll.
    fn looks(netmods: usize, busy: &[usize], polls: u32) -> Vec<Vec<u32>> {
        let mut turns = Turns::new(netmods);
        let mut looks = vec![vec![]; netmods];
        for poll in 0..polls {
            let first = turns.begin();
            for place in 0..netmods {
                let i = turns.at(first, place);
                if !turns.is_due(i) {
                    continue;
                }
                looks[i].push(poll);
                turns.looked_at(i, busy.contains(&i));
                if busy.contains(&i) {
                    break;
                }
            }
        }
        looks
    }

    fn longest_wait(looks: &[u32], polls: u32) -> u32 {
        let ends = looks.iter().copied().chain([polls]);
        let begins = [0].into_iter().chain(looks.iter().copied());
        ends.zip(begins).map(|(end, begin)| end - begin).max().unwrap_or(polls)
    }

    #[test]
    fn none_waits_for_ever() {
        const POLLS: u32 = 20_000;
        for netmods in 2..5 {
            for busy in 0u32..1 << netmods {
                let busy: Vec<usize> = (0..netmods).filter(|i| busy & 1 << i != 0).collect();
                for (i, looks) in looks(netmods, &busy, POLLS).iter().enumerate() {
                    let waited = longest_wait(looks, POLLS);
                    assert!(
                        waited <= SELDOM * netmods as u32,
                        "{i} of {netmods} waited {waited} polls, {busy:?} busy"
                    );
                }
            }
        }
    }

    #[test]
    fn the_preferred_one_is_nearly_always_first_and_quiet_ones_cost_little() {
        const POLLS: u32 = 100 * SELDOM;
        let quiet = looks(2, &[], POLLS);
        assert_eq!(quiet[0].len(), POLLS as usize);
        assert!(quiet[1].len() < (QUIET + 2 * POLLS / SELDOM) as usize, "{}", quiet[1].len());
        let busy = looks(2, &[0, 1], POLLS);
        assert!(busy[0].len() >= (POLLS - POLLS / SELDOM) as usize);
        assert!(!busy[1].is_empty());
    }
}

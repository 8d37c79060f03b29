//! What copies cost on a machine, by how much is copied: what leaves a core's caches costs more than what stays there.

use crate::coop::RING;

/// Lengths at which copies are measured, each four times the one before: a ring's, and up to far more than a core's own caches hold.
pub const LENGTHS: [usize; 4] = [RING, RING << 2, RING << 4, RING << 6];

/// From which length of a message on each of [`LENGTHS`] counts for it, in bytes: from half as much, so that none is more than twice as long or as short.
pub const FROM: [u64; LENGTHS.len()] = {
    let [a, b, c, d] = LENGTHS;
    [a as u64 / 2, b as u64 / 2, c as u64 / 2, d as u64 / 2]
};

/// What copies cost for messages of about one length, in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// A copy of what a ring holds, which stays in caches.
    pub cached: u32,
    /// A copy of as much as the message has.
    pub copied: u32,
    /// The same from another process by the kernel.
    pub kernel: u32,
}

impl Rates {
    /// Where nothing was measured: two virtual cores of an AMD EPYC that share an L3 cache.
    pub const ASSUMED: Rates = Rates { cached: 90_000, copied: 60_000, kernel: 12_000 };
}

/// The place among [`LENGTHS`] of what counts for a message of `bytes`.
pub(crate) fn nearest(bytes: u64) -> usize {
    FROM.iter().rposition(|from| *from <= bytes).unwrap_or(0)
}

/// What was measured so far: each length when a message has it for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured([Option<Rates>; LENGTHS.len()]);

impl Measured {
    /// The rates for messages of `bytes`; `measure` measures at one of [`LENGTHS`].
    pub fn at(&mut self, bytes: u64, measure: impl FnOnce(usize) -> Rates) -> Rates {
        let at = nearest(bytes);
        match self.0.get_mut(at) {
            Some(known) => *known.get_or_insert_with(|| measure(LENGTHS[at])),
            None => Rates::ASSUMED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_measured_once() {
        let (mut measured, mut asked) = (Measured::default(), Vec::new());
        let second = LENGTHS[1] as u64 / 2;
        for bytes in [0, 1, RING as u64, second - 1, second, u64::MAX, 1 << 30, 5] {
            let rates = measured.at(bytes, |len| {
                asked.push(len);
                Rates { copied: len as u32, ..Rates::ASSUMED }
            });
            assert_eq!(rates.copied as usize, LENGTHS[nearest(bytes)], "{bytes}");
        }
        assert_eq!(asked, [LENGTHS[0], LENGTHS[1], LENGTHS[3]]);
    }
}

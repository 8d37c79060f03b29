//! The cost of copies on a machine, by length: data beyond a core's caches costs more.

use crate::coop::RING;

/// Lengths in bytes at which copies are measured, from a ring's to far more than a core's own
/// caches hold.
pub const LENGTHS: [usize; 4] = [RING, RING << 2, RING << 4, RING << 6];

/// Least message length in bytes for each of [`LENGTHS`]: half of it, so that no message differs by
/// more than a factor of two.
pub const FROM: [u64; LENGTHS.len()] = {
    let [a, b, c, d] = LENGTHS;
    [a as u64 / 2, b as u64 / 2, c as u64 / 2, d as u64 / 2]
};

/// The rates of copies for messages of about one length, in MB/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Rate of a copy as large as a ring, which stays in caches.
    pub cached: u32,
    /// Rate of a copy as large as the message.
    pub copied: u32,
    /// Rate of such a copy from another process by the kernel.
    pub kernel: u32,
}

impl Rates {
    /// Rates assumed without a measurement: two virtual cores of an AMD EPYC that share an L3
    /// cache.
    pub const ASSUMED: Rates = Rates { cached: 90_000, copied: 60_000, kernel: 12_000 };
}

/// Returns the index in [`LENGTHS`] that applies to a message of `bytes`.
pub(crate) fn nearest(bytes: u64) -> usize {
    FROM.iter().rposition(|from| *from <= bytes).unwrap_or(0)
}

/// The rates measured so far, each when a message first needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured([Option<Rates>; LENGTHS.len()]);

impl Measured {
    /// Returns the rates for messages of `bytes`; `measure` measures at one of [`LENGTHS`].
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

//! A set of processors.

use crate::card::{BodyReader, BodyWriter, CardError};

/// Most processors of a machine (`NR_CPUS` of the largest kernels).
pub const MAX_CPUS: usize = 8192;

const WORD: usize = u64::BITS as usize;

/// Processors by their numbers, all below [`MAX_CPUS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet {
    /// One bit per processor; the last word is not 0.
    words: Vec<u64>,
}

impl CpuSet {
    /// Returns the set of the first `n` processors.
    pub fn first(n: usize) -> CpuSet {
        let mut set = CpuSet::default();
        (0..n.min(MAX_CPUS)).for_each(|cpu| set.add(cpu));
        set
    }

    /// Parses a list of ranges such as `0-3,8` (`cpuset(7)`, "List format").
    pub fn parse(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::default();
        for range in list.split(',') {
            let (a, b) = range.split_once('-').unwrap_or((range, range));
            let (a, b): (usize, usize) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
            if a > b || b >= MAX_CPUS {
                return None;
            }
            (a..=b).for_each(|cpu| set.add(cpu));
        }
        Some(set)
    }

    fn add(&mut self, cpu: usize) {
        let word = cpu / WORD;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD);
    }

    /// Returns the number of processors.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Returns true if there are no processors.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns true if the sets have a processor in common.
    pub fn overlaps(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Returns the processors in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() }.trimmed()
    }

    fn trimmed(mut self) -> CpuSet {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        self
    }

    /// Writes the number of leading zero words, the number of words that follow, and these.
    ///
    /// A word stands for 64 processors.
    pub(super) fn emit(&self, body: &mut BodyWriter) {
        let skipped = self.words.iter().take_while(|w| **w == 0).count();
        let rest = &self.words[skipped..];
        // Both are at most `MAX_CPUS` / 64.
        body.u8(skipped as u8).u8(rest.len() as u8);
        for word in rest {
            body.u64(*word);
        }
    }

    /// Reads what [`CpuSet::emit`] writes.
    pub(super) fn read(r: &mut BodyReader<'_>) -> Result<CpuSet, CardError> {
        let skipped = usize::from(r.u8("the set of processors")?);
        let rest = usize::from(r.u8("the set of processors")?);
        if skipped + rest > MAX_CPUS / WORD {
            return Err(CardError::Malformed {
                what: "the set of processors",
                expected: "their numbers must be below 8192",
            });
        }
        let mut words = vec![0; skipped];
        for _ in 0..rest {
            words.push(r.u64("the set of processors")?);
        }
        Ok(CpuSet { words }.trimmed())
    }
}

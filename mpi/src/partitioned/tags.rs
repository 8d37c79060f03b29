//! Tags of partitions: ranges that the receiver reserves and gives back.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

/// Tags of answers; lower ones are those of partitions.
pub(super) const ANSWERS: u32 = 1 << 30;

/// The tags of a process's receives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags(Arc<Mutex<Reserved>>);

#[derive(Debug, Default)]
struct Reserved {
    /// Ends of the ranges, by their beginnings.
    ranges: BTreeMap<u32, u32>,
    /// Tags below this one are tried last, so that one that was given back rests for long.
    next: u32,
}

/// A range of tags, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct TagRange {
    of: Tags,
    tags: Range<u32>,
}

impl TagRange {
    /// Returns the first tag.
    pub(super) fn first(&self) -> u32 {
        self.tags.start
    }
}

impl Drop for TagRange {
    fn drop(&mut self) {
        if !self.tags.is_empty() {
            self.of.0.lock().ranges.remove(&self.tags.start);
        }
    }
}

impl Reserved {
    /// Returns the first place for so many tags from `from` on.
    fn place(&self, from: u32, count: u32) -> Option<u32> {
        let before = self.ranges.range(..from).next_back();
        let mut start = before.map_or(from, |(_, end)| from.max(*end));
        for (&begin, &end) in self.ranges.range(from..) {
            if begin - start >= count {
                break;
            }
            start = end;
        }
        start.checked_add(count).is_some_and(|end| end <= ANSWERS).then_some(start)
    }
}

impl Tags {
    /// Reserves so many tags. `None` if there is no such range.
    pub(super) fn reserve(&self, count: u32) -> Option<TagRange> {
        let mut reserved = self.0.lock();
        if count == 0 {
            return Some(TagRange { of: self.clone(), tags: 0..0 });
        }
        let start = reserved.place(reserved.next, count).or_else(|| reserved.place(0, count))?;
        let tags = start..start + count;
        reserved.next = tags.end;
        reserved.ranges.insert(tags.start, tags.end);
        Some(TagRange { of: self.clone(), tags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_come_back() {
        let tags = Tags::default();
        let (mut held, mut seed): (Vec<TagRange>, _) = (Vec::new(), 1u64);
        for _ in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = (seed >> 40) as u32;
            if value.is_multiple_of(3) && !held.is_empty() {
                held.swap_remove(value as usize % held.len());
                continue;
            }
            // Long ones, so that the space is full now and then.
            let Some(range) = tags.reserve(value % 5 * (ANSWERS / 64)) else { continue };
            assert!(range.tags.end <= ANSWERS);
            let overlaps =
                |other: &TagRange| range.tags.start < other.tags.end && other.tags.start < range.tags.end;
            assert!(!held.iter().any(overlaps), "{range:?}");
            held.push(range);
        }
        held.clear();
        assert!(tags.0.lock().ranges.is_empty());
        let all = tags.reserve(ANSWERS).expect("all tags");
        assert!(tags.reserve(1).is_none());
        drop(all);
        assert!(tags.reserve(1).is_some());
    }
}

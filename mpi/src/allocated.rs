//! Memory that `MPI_Alloc_mem` gives: parts of segments that other processes of the node can open.
//!
//! A window of such memory is accessed by loads and stores. Small parts lie in one segment behind
//! each other; larger ones have a segment of their own. A segment is given back with its last part.
//! Each one costs a descriptor, so their number is bounded. Where there is none to be had, the
//! caller takes ordinary memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use ch3_shim::shared_memory::SharedMemory;

/// Alignment of all parts in bytes, a cache line.
const ALIGNMENT: usize = 64;
/// Largest alignment in bytes that a part can have, that of segments.
const PAGE: usize = 4096;
/// Longest part in bytes that lies in a segment with others, and bytes of such a segment.
const SMALL: usize = 64 << 10;
const SEGMENT: usize = 1 << 20;
/// Most segments.
const MOST: usize = 128;

/// A segment and its parts.
#[derive(Debug)]
struct Segment {
    memory: Arc<SharedMemory>,
    /// Bytes of the parts, by their place in the segment.
    parts: BTreeMap<usize, usize>,
    /// Bytes up to the end of the last part that was given.
    used: usize,
}

/// A place in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub memory: Arc<SharedMemory>,
    pub at: usize,
}

/// The memory of a process that others of its node can open.
#[derive(Debug, Default)]
pub(crate) struct Allocated {
    /// The segments, by their addresses.
    segments: BTreeMap<usize, Segment>,
    /// Address of the segment that small parts are taken of.
    small: Option<usize>,
    /// True once the log has told that no more segments can be had.
    told: bool,
}

impl Allocated {
    /// Returns new memory of so many bytes at a multiple of `alignment`, a power of two; `None` if
    /// no segment can be had for it.
    pub(crate) fn allocate(&mut self, len: usize, alignment: usize) -> Option<*mut u8> {
        if alignment > PAGE {
            return None;
        }
        let room = len.max(1).checked_next_multiple_of(ALIGNMENT)?;
        if room <= SMALL
            && let Some(segment) = self.small.and_then(|at| self.segments.get_mut(&at))
            && let Some(part) = segment.give(room, alignment)
        {
            return Some(part);
        }
        // A segment's own bytes precede the first part.
        let Some(memory) = self.segment(if room <= SMALL { SEGMENT } else { room.checked_add(alignment)? })
        else {
            if !std::mem::replace(&mut self.told, true) {
                tracing::warn!(
                    "windows of memory that MPI_Alloc_mem gives from now on need the target's progress"
                );
            }
            return None;
        };
        let base = memory.at(0, 0).expose_provenance();
        let mut segment = Segment { memory: Arc::new(memory), parts: BTreeMap::new(), used: 0 };
        let part = segment.give(room, alignment)?;
        self.segments.insert(base, segment);
        if room <= SMALL {
            let full = self.small.replace(base);
            full.into_iter().for_each(|base| self.drop_empty(base));
        }
        Some(part)
    }

    /// Makes a segment, or tells the log why there is none.
    fn segment(&self, len: usize) -> Option<SharedMemory> {
        if self.segments.len() >= MOST {
            tracing::info!(
                "{MOST} shared segments of MPI_Alloc_mem are in use, which is all that there can be"
            );
            return None;
        }
        let made = SharedMemory::create(len);
        made.inspect_err(|e| tracing::info!("no shared segment of {len} bytes for MPI_Alloc_mem: {e}")).ok()
    }

    /// Takes memory back. Returns false if it is none of a segment.
    pub(crate) fn free(&mut self, address: usize) -> bool {
        let Some((&base, segment)) = self.segments.range_mut(..=address).next_back() else { return false };
        if segment.parts.remove(&(address - base)).is_none() {
            return false;
        }
        self.drop_empty(base);
        true
    }

    /// Gives a segment back that has no parts; the one for small parts begins again.
    fn drop_empty(&mut self, base: usize) {
        let Some(segment) = self.segments.get_mut(&base) else { return };
        if segment.parts.is_empty() {
            segment.used = 0;
            if self.small != Some(base) {
                self.segments.remove(&base);
            }
        }
    }

    /// Returns the place of `len` bytes that lie in one part.
    pub(crate) fn find(&self, address: usize, len: usize) -> Option<Place> {
        let (base, segment) = self.segments.range(..=address).next_back()?;
        let at = address - base;
        let (start, room) = segment.parts.range(..=at).next_back()?;
        let is_within = at.checked_add(len)? <= start + room;
        is_within.then(|| Place { memory: Arc::clone(&segment.memory), at })
    }
}

impl Segment {
    /// Gives the next bytes at a multiple of an alignment; `None` if there are less than `room`.
    fn give(&mut self, room: usize, alignment: usize) -> Option<*mut u8> {
        let base = self.memory.at(0, 0).addr();
        let at = (base + self.used).next_multiple_of(alignment.max(ALIGNMENT)) - base;
        let used = at.checked_add(room).filter(|end| *end <= self.memory.len())?;
        self.parts.insert(at, room);
        self.used = used;
        Some(self.memory.at(at, room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_given_back() {
        let mut all = Allocated::default();
        let [a, b] = [10, SMALL].map(|len| all.allocate(len, 1).unwrap().addr());
        assert!(a.is_multiple_of(ALIGNMENT) && b == a + ALIGNMENT && all.segments.len() == 1);
        let large = all.allocate(3 * SEGMENT, 1).unwrap().addr();
        assert_eq!(all.segments.len(), 2);
        let place = all.find(b + 8, SMALL - 8).unwrap();
        assert_eq!((place.at, place.memory.len()), (ALIGNMENT + 8, SEGMENT));
        assert!(all.find(b, SMALL + 1).is_none() && all.find(a, 2 * ALIGNMENT).is_none(), "beyond a part");
        assert_eq!(all.find(large, 3 * SEGMENT).unwrap().at, 0);
        assert!(!all.free(b + 8) && !all.free(8) && all.free(large) && !all.free(large));
        assert_eq!(all.segments.len(), 1);
        assert!(all.find(large, 1).is_none() && all.free(a) && all.free(b));
        assert_eq!(all.allocate(1, 1).unwrap().addr(), a, "the segment begins again");
    }

    #[test]
    fn a_full_segment_goes_with_its_last_part() {
        let mut all = Allocated::default();
        let parts: Vec<_> = (0..=SEGMENT / SMALL).map(|_| all.allocate(SMALL, 1).unwrap().addr()).collect();
        assert_eq!(all.segments.len(), 2);
        assert!(parts.iter().all(|at| all.free(*at)));
        assert_eq!(all.segments.len(), 1);
    }

    #[test]
    fn segments_are_bounded() {
        let mut all = Allocated::default();
        let parts: Vec<_> = (0..MOST).map(|_| all.allocate(SMALL + 1, 1).unwrap().addr()).collect();
        assert!(all.allocate(SMALL + 1, 1).is_none() && all.allocate(1, 1).is_none());
        assert!(all.free(parts[7]));
        assert!(all.allocate(1, 1).is_some() && all.allocate(usize::MAX, 1).is_none());
    }

    #[test]
    fn parts_are_aligned_as_asked() {
        let mut all = Allocated::default();
        for alignment in [1, 64, 128, 1024, PAGE] {
            for len in [1, 1000, SMALL, SEGMENT, 2 * PAGE] {
                let at = all.allocate(len, alignment).unwrap().addr();
                assert!(at.is_multiple_of(alignment), "{len} bytes at {at:#x}, not aligned to {alignment}");
                assert!(all.find(at, len).is_some() && (len < PAGE || all.free(at)));
            }
        }
        assert!(all.allocate(1, 2 * PAGE).is_none());
    }
}

//! The completion table: finished requests, for threads that do not hold the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::slab::ReqId;

/// Words of the first block; each further block has twice as many as the one before.
const FIRST: usize = 64;
/// Number of blocks: enough for every index.
const BLOCKS: usize = 27;

/// A word for each slot of the request slab: the generation of the last request that was finished
/// there.
///
/// The engine's owner writes the words; any thread reads them without a lock. Words never move, so
/// the table can grow while others read it.
#[derive(Debug, Default)]
pub struct CompletionTable {
    blocks: [OnceLock<Box<[AtomicU32]>>; BLOCKS],
}

/// Returns the block of an index, and the position in it.
fn position(index: usize) -> (usize, usize) {
    let n = index + FIRST;
    let block = (n / FIRST).ilog2() as usize;
    (block, n - (FIRST << block))
}

impl CompletionTable {
    /// Creates a table without memory; the first request allocates some.
    pub fn new() -> CompletionTable {
        CompletionTable::default()
    }

    /// Publishes that a request is finished. Only the engine's owner may call it.
    pub fn set(&self, req: ReqId) {
        let (block, at) = position(req.index());
        let Some(block_of) = self.blocks.get(block) else { return };
        let words = block_of.get_or_init(|| (0..FIRST << block).map(|_| AtomicU32::new(0)).collect());
        words[at].store(req.generation(), Ordering::Release);
    }

    /// Returns true if a request is finished, or was retired long ago.
    ///
    /// Its results, such as a received message, are visible then.
    #[inline]
    pub fn is_finished(&self, req: ReqId) -> bool {
        let (block, at) = position(req.index());
        let words = self.blocks.get(block).and_then(OnceLock::get);
        let word = words.map_or(0, |w| w[at].load(Ordering::Acquire));
        // Generations wrap; a request of half their number ago belongs to nobody any more.
        word != 0 && word.wrapping_sub(req.generation()) < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn req(index: u32, generation: u32) -> ReqId {
        ReqId::from_wire(u64::from(index) | u64::from(generation) << 32)
    }

    #[test]
    fn indexes_have_places_of_their_own() {
        let mut at = (0, 0);
        assert_eq!(position(0), at);
        for index in 1..10_000 {
            let next = position(index);
            assert!(next == (at.0, at.1 + 1) || next == (at.0 + 1, 0), "{index}: {next:?} after {at:?}");
            assert!(next.1 < FIRST << next.0);
            at = next;
        }
        assert_eq!(position(u32::MAX as usize).0, BLOCKS - 1);
    }

    #[test]
    fn generations_are_told_apart() {
        let words = CompletionTable::new();
        assert!(!words.is_finished(req(70, 1)));
        words.set(req(70, 1));
        assert!(words.is_finished(req(70, 1)));
        assert!(!words.is_finished(req(70, 3)), "the next request of that place");
        assert!(!words.is_finished(req(71, 1)) && !words.is_finished(req(6, 1)));
        words.set(req(70, 3));
        assert!(words.is_finished(req(70, 1)), "used up");
        words.set(req(5, u32::MAX));
        assert!(!words.is_finished(req(5, 1)), "after the generations have wrapped");
    }

    #[test]
    fn readers_see_what_was_written_before() {
        let words = std::sync::Arc::new(CompletionTable::new());
        let data = std::sync::Arc::new(AtomicU32::new(0));
        let (w, d) = (words.clone(), data.clone());
        let writer = std::thread::spawn(move || {
            for i in 0..2000 {
                d.store(i + 1, Ordering::Relaxed);
                w.set(req(i, 1));
            }
        });
        for i in 0..2000 {
            while !words.is_finished(req(i, 1)) {
                std::thread::yield_now();
            }
            assert!(data.load(Ordering::Relaxed) > i);
        }
        writer.join().unwrap();
    }
}

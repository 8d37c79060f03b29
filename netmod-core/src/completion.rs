//! Completion words: which requests are finished, for threads that do not hold the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::slab::ReqId;

/// CompletionTable of the first block; each further block has twice as many as the one before.
const FIRST: usize = 64;
/// Blocks: enough for every index.
const BLOCKS: usize = 27;

/// A word for each place of the request slab: the generation of the request that was finished there last.
///
/// The engine's owner writes them; any thread reads them without a lock. CompletionTable never move, so the table
/// grows beside its readers.
#[derive(Debug, Default)]
pub struct CompletionTable {
    blocks: [OnceLock<Box<[AtomicU32]>>; BLOCKS],
}

/// Block and place in it of an index.
fn place(index: usize) -> (usize, usize) {
    let n = index + FIRST;
    let block = (n / FIRST).ilog2() as usize;
    (block, n - (FIRST << block))
}

impl CompletionTable {
    /// A table without memory; the first request gets it some.
    pub fn new() -> CompletionTable {
        CompletionTable::default()
    }

    /// Says that a request is finished. Only the engine's owner may do so.
    pub fn set(&self, req: ReqId) {
        let (block, at) = place(req.index());
        let Some(block_of) = self.blocks.get(block) else { return };
        let words = block_of.get_or_init(|| (0..FIRST << block).map(|_| AtomicU32::new(0)).collect());
        words[at].store(req.generation(), Ordering::Release);
    }

    /// Whether a request is known to be finished, or was used up long ago. What its end wrote, such as a
    /// received message, is visible then.
    #[inline]
    pub fn is_finished(&self, req: ReqId) -> bool {
        let (block, at) = place(req.index());
        let words = self.blocks.get(block).and_then(OnceLock::get);
        let word = words.map_or(0, |w| w[at].load(Ordering::Acquire));
        // Generations wrap; a request of half their number ago is nobody's any more.
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
        assert_eq!(place(0), at);
        for index in 1..10_000 {
            let next = place(index);
            assert!(next == (at.0, at.1 + 1) || next == (at.0 + 1, 0), "{index}: {next:?} after {at:?}");
            assert!(next.1 < FIRST << next.0);
            at = next;
        }
        assert_eq!(place(u32::MAX as usize).0, BLOCKS - 1);
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

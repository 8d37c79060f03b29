//! Model check of a region's end: all interleavings of an owner and a writer, by loom. The memory
//! of the region is a cell: a write of the peer's behind the end, when the owner has it back, is a
//! race. The file under test is compiled once more, against loom's atomics.

#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "region.rs"]
mod region;

use region::{close, end, enter, is_live, is_quiet, leave, open};

struct Shared {
    word: sync::AtomicU64,
    memory: UnsafeCell<u64>,
}

// Writers of one cell from two threads, which loom checks for races.
fn write(memory: &UnsafeCell<u64>, value: u64) {
    // SAFETY: loom checks that no other thread uses the cell meanwhile, and the cell outlives the
    // threads.
    memory.with_mut(|p| unsafe { *p = value });
}

/// `waits`: whether the owner waits for a writer, as it should.
fn run(waits: bool) {
    if !waits {
        netmod_models::mutant(module_path!(), "the owner does not wait");
    }
    loom::model(netmod_models::interleavings(module_path!(), "owner and writer", move || {
        let shared = Arc::new(Shared { word: sync::AtomicU64::new(0), memory: UnsafeCell::new(0) });
        open(&shared.word, 1);
        let there = Arc::clone(&shared);
        let writer = loom::thread::spawn(move || {
            for part in 1..3 {
                if !enter(&there.word, 1) {
                    return;
                }
                write(&there.memory, part);
                if !leave(&there.word, 1) {
                    return;
                }
            }
        });
        end(&shared.word);
        while waits && !is_quiet(&shared.word) {
            loom::thread::yield_now();
        }
        close(&shared.word);
        write(&shared.memory, 7);
        // The next region in this place is none of the writer's business.
        open(&shared.word, 2);
        assert!(is_live(&shared.word, 2) && !is_live(&shared.word, 1));
        writer.join().expect("the writer does not panic");
        assert!(is_live(&shared.word, 2));
    }));
}

#[test]
fn nobody_writes_behind_the_end() {
    run(true);
}

#[test]
#[should_panic]
fn an_owner_that_does_not_wait_is_written_over() {
    run(false);
}

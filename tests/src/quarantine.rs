//! An allocator that keeps large blocks after they are freed, and sees whether somebody writes to
//! them all the same.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The system's allocator, which never gives back blocks of [`LARGE`] bytes or more: they are
/// filled with a pattern that [`disturbed`] looks for. For `#[global_allocator]`.
#[derive(Debug)]
pub struct Quarantine;

/// Least length of a block that is kept, in bytes.
pub const LARGE: usize = 256 << 10;
/// Most blocks that are looked after.
const PLACES: usize = 1024;
/// The byte that fills freed memory.
const POISON: u8 = 0xDB;

struct Freed {
    at: AtomicPtr<u8>,
    len: AtomicUsize,
}

static FREED: [Freed; PLACES] =
    [const { Freed { at: AtomicPtr::new(ptr::null_mut()), len: AtomicUsize::new(0) } }; PLACES];
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system's allocator's; a block that is not given back to it is given to
// nobody else.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() < LARGE {
            // SAFETY: the caller's promise.
            return unsafe { System.dealloc(at, layout) };
        }
        // SAFETY: the block is `size` bytes long, and its owner has no more use for it.
        unsafe { ptr::write_bytes(at, POISON, layout.size()) };
        if let Some(place) = FREED.get(COUNT.fetch_add(1, Ordering::Relaxed)) {
            place.len.store(layout.size(), Ordering::Relaxed);
            place.at.store(at, Ordering::Release);
        }
    }
}

/// Returns the number of blocks that were written to after they had been freed.
///
/// # Panics
/// If more blocks were freed than are looked after.
pub fn disturbed() -> usize {
    let count = COUNT.load(Ordering::Relaxed);
    assert!(count <= PLACES, "{count} large blocks were freed, and {PLACES} are looked after");
    let is_disturbed = |place: &&Freed| {
        let at = place.at.load(Ordering::Acquire);
        let len = if at.is_null() { 0 } else { place.len.load(Ordering::Relaxed) };
        // SAFETY: the block is never given back. Each byte is read for itself and for real, since
        // somebody may be writing against all rules.
        (0..len).any(|i| unsafe { ptr::read_volatile(at.add(i)) } != POISON)
    };
    FREED[..count].iter().filter(is_disturbed).count()
}

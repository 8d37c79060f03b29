//! A word of memory that is zero in a forked child.

#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();

/// Returns this process's word, which is 0 in a new child.
///
/// The kernel wipes the page in every kind of child (`MADV_WIPEONFORK`, Linux 4.14). A handler of
/// `fork(3)` also clears the word, for older kernels.
pub(crate) fn word() -> &'static AtomicU32 {
    WORD.get_or_init(|| {
        let word = wiped_page().unwrap_or_else(|| Box::leak(Box::new(AtomicU32::new(0))));
        // SAFETY: the handler stores to one word, which is allowed in the child of a multi-threaded
        // process.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        debug_assert_eq!(failed, 0, "no memory for a handler of fork");
        word
    })
}

/// Maps a page that the kernel zeroes in children.
fn wiped_page() -> Option<&'static AtomicU32> {
    let len = size_of::<AtomicU32>();
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, at an address that the kernel chooses.
    let page = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page that was just mapped.
    if unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above; nobody has its address.
        unsafe { libc::munmap(page, len) };
        return None;
    }
    // SAFETY: a whole page of zeros, aligned, never unmapped, and used as this atomic alone.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

extern "C" fn in_child() {
    if let Some(word) = WORD.get() {
        word.store(0, Ordering::Relaxed);
    }
}

//! A file in shared memory that two processes map: words, and bytes that are copied in and out.
//!
//! Both processes run this program. The words tell which process may access which bytes.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Distance between words in bytes: two cache lines, which some processors fetch together.
const APART: usize = 128;

/// The mapping: some words, each on lines of its own, followed by bytes.
#[derive(Debug)]
pub(crate) struct Shared {
    map: MmapRaw,
    words: usize,
    bytes: usize,
}

impl Shared {
    /// Makes the file with all its memory, for this user only, and maps it.
    pub(crate) fn create(path: &Path, words: usize, bytes: usize) -> io::Result<Shared> {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // Written rather than extended: memory that turns out missing on use would kill the
        // process.
        file.write_all(&vec![0; words * APART + bytes]).or_else(|e| {
            std::fs::remove_file(path)?;
            Err(e)
        })?;
        Shared::of(&file, words, bytes)
    }

    /// Maps the file that the other process has made with the same arguments.
    pub(crate) fn open(path: &Path, words: usize, bytes: usize) -> io::Result<Shared> {
        Shared::of(&OpenOptions::new().read(true).write(true).open(path)?, words, bytes)
    }

    fn of(file: &File, words: usize, bytes: usize) -> io::Result<Shared> {
        let len = words * APART + bytes;
        if file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Shared { map: MmapOptions::new().len(len).map_raw(file)?, words, bytes })
    }

    /// Returns a word.
    ///
    /// # Panics
    /// If there is no word of this index.
    #[inline]
    pub(crate) fn word(&self, i: usize) -> &AtomicU64 {
        assert!(i < self.words);
        // SAFETY: within the mapping, which lives as long as `self`, aligned, and an atomic: any
        // bits are valid.
        unsafe { &*self.map.as_mut_ptr().add(i * APART).cast() }
    }

    /// Returns a word among the bytes, at a multiple of 8.
    ///
    /// # Panics
    /// If it is not within the bytes.
    #[inline]
    pub(crate) fn word_at(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes && self.bytes - at >= 8);
        // SAFETY: as above. The bytes begin at a multiple of 128.
        unsafe { &*self.map.as_mut_ptr().add(self.words * APART + at).cast() }
    }

    /// Copies bytes in at offset `at`.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    pub(crate) fn put(&self, at: usize, data: &[u8]) {
        assert!(at <= self.bytes && data.len() <= self.bytes - at);
        // SAFETY: within the mapping; by the words, the other process does not access these bytes
        // now.
        unsafe {
            let to = self.map.as_mut_ptr().add(self.words * APART + at);
            to.copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
    }

    /// Copies bytes out from offset `at`.
    ///
    /// # Panics
    /// If there are too few bytes.
    #[inline]
    pub(crate) fn get(&self, at: usize, data: &mut [u8]) {
        assert!(at <= self.bytes && data.len() <= self.bytes - at);
        // SAFETY: as for `put`.
        unsafe {
            let from = self.map.as_mut_ptr().add(self.words * APART + at);
            from.copy_to_nonoverlapping(data.as_mut_ptr(), data.len());
        }
    }
}

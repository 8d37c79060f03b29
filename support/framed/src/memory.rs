//! Memory of the netmod's own that a device reads and writes: buffers for frames.

#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

pub use crate::error::BlockError;

/// Alignment of buffers.
const ALIGN: usize = 4096;

/// A block of memory that does not move, cut into buffers of one length.
pub struct Block {
    base: NonNull<u8>,
    layout: Layout,
    /// Bytes of a buffer.
    each: usize,
    /// Number of buffers: not divided for anew whenever one is used.
    count: usize,
}

// SAFETY: the block is plain memory that the value owns.
unsafe impl Send for Block {}

impl Block {
    /// `count` buffers of `each` bytes, neither zero.
    ///
    /// # Errors
    /// If so much cannot be.
    pub fn new(each: usize, count: usize) -> Result<Block, BlockError> {
        let bytes = each.checked_mul(count).filter(|n| *n > 0);
        let layout = bytes.and_then(|n| Layout::from_size_align(n, ALIGN).ok());
        let layout = layout.ok_or(BlockError { each, count })?;
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Ok(Block { base, layout, each, count })
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Bytes of a buffer.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Number of buffers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// First byte of a buffer.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count());
        // SAFETY: within the block, by the check.
        unsafe { self.base.as_ptr().add(index * self.each) }
    }

    /// A buffer that no operation uses, to be filled.
    ///
    /// # Safety
    /// No operation under way reads or writes the buffer.
    #[inline]
    pub unsafe fn slice_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: within the block; nobody else uses it, by the contract and because the block is
        // borrowed.
        unsafe { core::slice::from_raw_parts_mut(self.at(index), self.each) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout. Whoever owns the block closes what uses it first.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl core::fmt::Debug for Block {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Block({} x {} bytes)", self.count(), self.each)
    }
}

//! A value that is not dropped in forked children.

#![allow(unsafe_code)]

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

use crate::Origin;

/// A value that only the process that made it drops. A child leaks what it inherits of it.
#[derive(Debug)]
pub struct Local<T> {
    value: ManuallyDrop<T>,
    origin: Origin,
}

impl<T> Local<T> {
    /// Wraps a value of the calling process.
    pub fn new(value: T) -> Local<T> {
        Local { value: ManuallyDrop::new(value), origin: Origin::here() }
    }

    /// Returns the process that made this value.
    #[inline]
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl<T> Deref for Local<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Local<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if self.origin.is_here() {
            // SAFETY: this happens once, and nobody uses the value afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

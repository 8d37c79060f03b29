//! Storage that operations lend to the provider until their completion (`FI_CONTEXT`,
//! `FI_CONTEXT2`), and a description of each.
//!
//! Storage never moves, and is freed only after the endpoint. So a completion that is late,
//! repeated, or has an unknown pointer does no harm: [`Ops::find`] returns no operation for it.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_void;

use libfabric_sys::attr::fi_context2;

/// Index of an operation in flight.
pub(crate) type OpIndex = u32;

/// Storage for a fixed number of operations.
pub(crate) struct Contexts(Box<[UnsafeCell<fi_context2>]>);

// SAFETY: only the provider writes the storage, in calls that the owner of this value makes.
unsafe impl Send for Contexts {}

impl Contexts {
    pub(crate) fn new(most: usize) -> Contexts {
        Contexts((0..most).map(|_| UnsafeCell::new(fi_context2::ZERO)).collect())
    }

    /// Returns the pointer to pass to libfabric as an operation's context.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> *mut c_void {
        self.0[index].get().cast()
    }

    /// Returns the index of the operation with this context, if it is one of these.
    #[inline]
    pub(crate) fn find(&self, context: *mut c_void) -> Option<usize> {
        let at = (context as usize).checked_sub(self.0.as_ptr() as usize)?;
        let size = size_of::<fi_context2>();
        let index = at / size;
        (at.is_multiple_of(size) && index < self.0.len()).then_some(index)
    }
}

impl core::fmt::Debug for Contexts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Contexts({})", self.0.len())
    }
}

/// Operations in flight; `T` describes one.
pub(crate) struct Ops<T> {
    contexts: Contexts,
    what: Vec<Option<T>>,
    free: Vec<OpIndex>,
}

impl<T> Ops<T> {
    /// Makes room for `most` operations.
    pub(crate) fn new(most: usize) -> Ops<T> {
        let mut what = Vec::new();
        what.resize_with(most, || None);
        Ops { contexts: Contexts::new(most), what, free: (0..most as OpIndex).rev().collect() }
    }

    /// Begins an operation; returns `None` if there are too many.
    #[inline]
    pub(crate) fn begin(&mut self, what: T) -> Option<OpIndex> {
        let index = self.free.pop()?;
        self.what[index as usize] = Some(what);
        Some(index)
    }

    /// Returns the pointer to pass to libfabric as the operation's context.
    #[inline]
    pub(crate) fn context(&self, index: OpIndex) -> *mut c_void {
        self.contexts.at(index as usize)
    }

    /// Removes an operation that has ended or was not started.
    #[inline]
    pub(crate) fn end(&mut self, index: OpIndex) -> Option<T> {
        let what = self.what.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(what)
    }

    /// Returns the operation of a completion's context, if it is in flight.
    #[inline]
    pub(crate) fn find(&self, context: *mut c_void) -> Option<OpIndex> {
        let index = self.contexts.find(context)?;
        self.what.get(index)?.as_ref()?;
        OpIndex::try_from(index).ok()
    }

    /// Returns the operations in flight.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpIndex, &T)> {
        self.what.iter().enumerate().filter_map(|(i, w)| Some((i as OpIndex, w.as_ref()?)))
    }

    /// Returns the number of operations in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.what.len() - self.free.len()
    }
}

impl<T> core::fmt::Debug for Ops<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ops({} of {} under way)", self.under_way(), self.what.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_find_their_operations_and_nothing_else() {
        let mut ops = Ops::new(3);
        let [a, b, c] = ["a", "b", "c"].map(|w| ops.begin(w).unwrap());
        assert_eq!(ops.begin("d"), None);
        for (i, w) in [(a, "a"), (b, "b"), (c, "c")] {
            let context = ops.context(i);
            assert_eq!(ops.find(context), Some(i));
            assert_eq!(ops.find(context.wrapping_byte_add(1)), None);
            assert!(ops.iter().any(|it| it == (i, &w)));
        }
        let first = ops.context(0);
        assert_eq!(ops.find(core::ptr::null_mut()), None);
        assert_eq!(ops.find(first.wrapping_byte_sub(64)), None);
        assert_eq!(ops.find(first.wrapping_byte_add(3 * 64)), None);
        let late = ops.context(b);
        assert_eq!(ops.end(b), Some("b"));
        assert_eq!((ops.end(b), ops.find(late), ops.under_way()), (None, None, 2));
        assert_eq!(ops.begin("e"), Some(b));
    }
}

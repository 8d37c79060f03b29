//! The receive buffers of a port: which are posted, and which have lent bytes.

use core::ffi::c_void;

use crate::fi::endpoint::Takes;
use crate::fi::ops::Contexts;

/// A receive buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Receive {
    /// True if the provider has it.
    posted: bool,
    /// True if it is posted for one message, although the provider supports multi-receive buffers.
    alone: bool,
    /// True if it was cancelled in order to count the provider's buffers.
    counted: bool,
    /// Number of frames in it that are lent or about to be.
    lent: u32,
}

/// The receive buffers of a port, numbered from 0.
#[derive(Debug)]
pub(super) struct Receives {
    /// Context storage of the buffers.
    contexts: Contexts,
    states: Vec<Receive>,
    /// Buffers that are not posted and have nothing lent.
    idle: Vec<u32>,
}

impl Receives {
    /// Makes `count` idle buffers.
    pub(super) fn new(count: usize) -> Receives {
        Receives {
            contexts: Contexts::new(count),
            states: vec![Receive::default(); count],
            idle: (0..count as u32).rev().collect(),
        }
    }

    /// Returns a buffer that may be posted.
    pub(super) fn idle(&self) -> Option<u32> {
        self.idle.last().copied()
    }

    /// Returns true if there is an idle buffer.
    #[inline]
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Returns the pointer to pass to libfabric as the context of a buffer.
    pub(super) fn context(&self, buffer: u32) -> *mut c_void {
        self.contexts.at(buffer as usize)
    }

    /// Records that the buffer returned by [`Receives::idle`] was posted.
    pub(super) fn posted(&mut self, takes: Takes) {
        let Some(buffer) = self.idle.pop() else { return };
        if let Some(state) = self.states.get_mut(buffer as usize) {
            (state.posted, state.alone) = (true, takes == Takes::One);
        }
    }

    /// Returns the buffer of a completion's context, if it is posted.
    #[inline]
    pub(super) fn find(&self, context: *mut c_void) -> Option<u32> {
        let buffer = self.contexts.find(context)?;
        self.states.get(buffer)?.posted.then_some(buffer as u32)
    }

    /// Returns true if a buffer was posted for one message where others take several.
    #[inline]
    pub(super) fn is_alone(&self, buffer: u32) -> bool {
        self.states.get(buffer as usize).is_some_and(|s| s.alone)
    }

    /// Records a message in a buffer. `is_frame`: a frame, which must be released; `is_last`: the
    /// buffer takes no more.
    #[inline(always)]
    pub(super) fn came(&mut self, buffer: u32, is_frame: bool, is_last: bool) {
        let Some(state) = self.states.get_mut(buffer as usize) else { return };
        state.lent += u32::from(is_frame);
        if is_last {
            self.retire(buffer);
        }
    }

    /// Records that the provider has finished with a buffer.
    #[inline(always)]
    pub(super) fn retire(&mut self, buffer: u32) {
        let Some(state) = self.states.get_mut(buffer as usize) else { return };
        (state.posted, state.counted) = (false, false);
        if state.lent == 0 {
            self.idle.push(buffer);
        }
    }

    /// Releases a frame in a buffer.
    #[inline(always)]
    pub(super) fn release(&mut self, buffer: u32) {
        let Some(state) = self.states.get_mut(buffer as usize) else { return };
        state.lent = state.lent.saturating_sub(1);
        if state.lent == 0 && !state.posted {
            self.idle.push(buffer);
        }
    }

    /// Returns the posted buffers.
    pub(super) fn under_way(&self) -> impl Iterator<Item = u32> {
        self.states.iter().zip(0..).filter(|(s, _)| s.posted).map(|(_, i)| i)
    }

    /// Starts counting: [`Receives::missing`] are the posted buffers that do not come back from now
    /// on.
    pub(super) fn count(&mut self) {
        self.states.iter_mut().for_each(|s| s.counted = s.posted);
    }

    /// Returns the missing buffers, see [`Receives::count`].
    pub(super) fn missing(&self) -> Vec<u32> {
        self.under_way().filter(|i| self.states[*i as usize].counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_idle_when_nobody_has_it() {
        let mut all = Receives::new(2);
        let [first, second] = [0, 1].map(|i| all.context(i));
        assert_eq!((all.idle(), all.find(first)), (Some(0), None));
        all.posted(Takes::Several);
        all.posted(Takes::One);
        assert!(!all.has_idle());
        assert_eq!([first, second].map(|c| all.find(c)), [Some(0), Some(1)]);
        assert_eq!(all.find(first.wrapping_byte_add(1)), None);
        assert_eq!([0, 1].map(|i| all.is_alone(i)), [false, true]);

        all.came(0, true, false);
        all.came(0, true, true);
        assert_eq!((all.find(first), all.has_idle()), (None, false));
        all.release(0);
        assert!(!all.has_idle(), "a frame of two is lent still");
        all.release(0);
        assert_eq!(all.idle(), Some(0));
        all.came(1, false, true);
        assert_eq!((all.idle(), all.under_way().count()), (Some(1), 0));
    }

    #[test]
    fn what_is_counted_and_does_not_come_back_is_missing() {
        let mut all = Receives::new(3);
        (0..3).for_each(|_| all.posted(Takes::Several));
        all.retire(1);
        all.count();
        all.posted(Takes::Several);
        assert_eq!(all.missing(), [0, 2], "posted since");
        all.retire(2);
        assert_eq!(all.missing(), [0]);
    }
}

//! Lists of VCs for which something is to be done.

use netmod_core::VcId;

/// The work lists that a VC is in, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed(u8);

/// VCs with one kind of work, each once.
///
/// Membership is a bit in the VC, so that adding one needs no further look-up. An entry outlives
/// its VC; whoever serves the list skips it.
#[derive(Debug, Default)]
pub(crate) struct WorkList<const KIND: u8> {
    vcs: Vec<VcId>,
}

impl<const KIND: u8> WorkList<KIND> {
    const BIT: u8 = 1 << KIND;

    /// Appends a VC with these marks, unless it is in the list.
    #[inline]
    pub(crate) fn add(&mut self, vc: VcId, listed: &mut Listed) {
        if listed.0 & Self::BIT == 0 {
            listed.0 |= Self::BIT;
            self.vcs.push(vc);
        }
    }

    /// Returns true if the marks say that their VC is in this list.
    #[inline]
    pub(crate) fn has(&self, listed: Listed) -> bool {
        listed.0 & Self::BIT != 0
    }

    /// Clears the mark of a VC; its entry is skipped or removed by the caller. Returns true if the
    /// mark was set.
    #[inline]
    pub(crate) fn unmark(&self, listed: &mut Listed) -> bool {
        let was = self.has(*listed);
        listed.0 &= !Self::BIT;
        was
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.vcs.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.vcs.len()
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<VcId> {
        self.vcs.get(i).copied()
    }

    /// Removes and returns the VC that was added last; its mark is up to the caller.
    pub(crate) fn pop(&mut self) -> Option<VcId> {
        self.vcs.pop()
    }

    /// Removes an entry by putting the last one in its place, and clears its VC's mark.
    pub(crate) fn remove(&mut self, i: usize, listed: Option<&mut Listed>) {
        self.vcs.swap_remove(i);
        if let Some(listed) = listed {
            self.unmark(listed);
        }
    }

    /// Removes the first `n` entries; their marks are up to the caller.
    pub(crate) fn remove_first(&mut self, n: usize) {
        self.vcs.drain(..n);
    }

    /// Keeps the entries whose VCs are marked, in their order. `listed` returns the marks of a VC.
    pub(crate) fn keep_marked(&mut self, mut listed: impl FnMut(VcId) -> Option<Listed>) {
        self.vcs.retain(|vc| listed(*vc).is_some_and(|l| l.0 & Self::BIT != 0));
    }

    /// Removes the entry of a VC that is no more.
    pub(crate) fn forget(&mut self, vc: VcId) {
        self.vcs.retain(|v| *v != vc);
    }
}

/// The work lists of a netmod.
#[derive(Debug, Default)]
pub(crate) struct WorkLists {
    /// VCs with staged bytes, to be written at the next flush.
    pub(crate) dirty: WorkList<0>,
    /// Blocked VCs: a flush asks the kernel again for them.
    pub(crate) stuck: WorkList<1>,
    /// VCs that want a connection.
    pub(crate) wanting: WorkList<2>,
    /// VCs whose connection machine has a deadline.
    pub(crate) timed: WorkList<3>,
    /// VCs whose connection is to go over to a better pair of interfaces.
    pub(crate) movers: WorkList<4>,
    /// VCs with outstanding acknowledgements.
    pub(crate) owing: WorkList<5>,
    /// VCs with data of sent messages in the senders' memory.
    pub(crate) lending: WorkList<6>,
    /// VCs that hold memory they may have no use for.
    pub(crate) untidy: WorkList<7>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(n: u64) -> VcId {
        VcId::from_wire(n | 1 << 32)
    }

    #[test]
    fn a_vc_is_in_each_list_at_most_once() {
        let mut work = WorkLists::default();
        let mut listed = [Listed::default(); 2];
        for _ in 0..3 {
            for (n, marks) in listed.iter_mut().enumerate() {
                work.dirty.add(vc(n as u64), marks);
                work.untidy.add(vc(n as u64), marks);
            }
        }
        assert_eq!((work.dirty.len(), work.untidy.len(), work.stuck.len()), (2, 2, 0));
        assert!(work.dirty.has(listed[0]) && !work.stuck.has(listed[0]));
        work.dirty.remove(0, Some(&mut listed[0]));
        assert_eq!((work.dirty.get(0), work.dirty.get(1)), (Some(vc(1)), None));
        assert!(!work.dirty.has(listed[0]) && work.untidy.has(listed[0]));
        work.dirty.add(vc(0), &mut listed[0]);
        assert_eq!(work.dirty.len(), 2, "it may come back");
        assert!(work.untidy.unmark(&mut listed[1]) && !work.untidy.unmark(&mut listed[1]));
    }
}

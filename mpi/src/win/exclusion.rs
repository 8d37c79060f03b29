//! The lock of elements that the processor has no atomic operation for.

use std::sync::Arc;

use ch3_shim::Vci;

use super::apply::Exclusion;
use super::control::Control;
use super::object::Window;
use crate::error::Result;

/// Looks at the lock before a waiting thread lets another one have its core, and before it looks
/// whether the holder is lost.
const LOOKS: u32 = 64;
const PATIENCE: u32 = 4096;

/// The lock in the words of a process of the node.
pub(super) struct InNode<'a> {
    vci: &'a mut Vci,
    control: Arc<Control>,
    process: usize,
    me: u32,
    /// Places in the job of the ranks of the window.
    places: Arc<[u32]>,
}

impl InNode<'_> {
    /// Returns the lock of the elements of a rank of the node.
    pub(super) fn of<'a>(window: &Window, vci: &'a mut Vci, rank: u32) -> InNode<'a> {
        InNode {
            vci,
            control: Arc::clone(&window.control),
            process: window.targets[rank as usize].neighbour.unwrap_or(0),
            me: window.me(),
            places: Arc::clone(window.core.group().places()),
        }
    }

    /// Takes the lock over if the process that has it has failed. What it was at is changed or not.
    fn take_over(&mut self, holder: u32) -> Result<bool> {
        self.vci.progress()?;
        let place = self.places.get(holder as usize).copied();
        let is_lost = self.vci.failed().iter().any(|f| Some(f.peer.rank) == place);
        Ok(is_lost && self.control.take_elements_from(self.process, holder, self.me))
    }
}

impl Exclusion for InNode<'_> {
    fn lock(&mut self) -> Result<()> {
        let mut looks = 0u32;
        while let Err(holder) = self.control.try_lock_elements(self.process, self.me) {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(PATIENCE) && self.take_over(holder)? {
                break;
            }
            if looks.is_multiple_of(LOOKS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn unlock(&mut self) {
        self.control.unlock_elements(self.process);
    }
}

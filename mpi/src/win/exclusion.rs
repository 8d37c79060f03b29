//! The exclusion of accumulations on memory that several processes access.

use ch3_shim::Vci;

use super::apply::Exclusion;
use super::object::Window;
use crate::error::Result;

/// Looks before a waiting thread lets another one have its core, and before it looks whether the
/// process that it waits for is lost. Where cores are busy, each of the former takes milliseconds.
const LOOKS: u32 = 64;
const PATIENCE: u32 = 1024;

/// Bytes that are changed by atomic operations in the time of a look at a process's words.
const LOOK: usize = 4;

/// The exclusion by the words of the processes of the node.
pub(super) struct InNode<'a> {
    vci: &'a mut Vci,
    window: &'a Window,
    /// Place in the node of the process whose memory it is.
    process: usize,
    /// Place in the node of this process.
    here: usize,
}

impl InNode<'_> {
    /// Returns the exclusion on the memory of a rank of the node.
    #[inline]
    pub(super) fn of<'a>(window: &'a Window, vci: &'a mut Vci, rank: u32) -> InNode<'a> {
        let process = window.targets[rank as usize].neighbour.unwrap_or(0);
        InNode { vci, window, process, here: window.own_place() }
    }

    /// Waits until `done`, which is asked for a process that is lost, too, from time to time.
    #[cold]
    fn wait(&mut self, mut done: impl FnMut(&mut Self, Option<u32>) -> bool) -> Result<()> {
        let mut looks = 0u32;
        while !done(self, None) {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(PATIENCE) {
                self.vci.progress_by_clock()?;
                let members = self.window.core.group();
                let failed = self.vci.failed();
                let places = failed.iter().filter_map(|f| self.vci.place_of_peer(&f.peer));
                let lost: Vec<u32> = places.filter_map(|place| members.rank(place)).collect();
                if lost.into_iter().any(|rank| done(self, Some(rank))) {
                    return Ok(());
                }
            }
            if looks.is_multiple_of(LOOKS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// Waits until the others are at no short accumulation on the memory.
    fn wait_for_quiet(&mut self) -> Result<()> {
        for process in 0..self.window.neighbours.len() {
            if !self.window.control.is_quiet(process, self.process) {
                let rank = self.window.neighbours[process];
                self.wait(|this, lost| {
                    lost == Some(rank) || this.window.control.is_quiet(process, this.process)
                })?;
            }
        }
        Ok(())
    }
}

impl Exclusion for InNode<'_> {
    #[inline]
    fn short_bytes(&self) -> usize {
        // To be alone needs a look at the words of each process.
        self.window.neighbours.len() * LOOK
    }

    #[inline]
    fn begin_short(&mut self) -> Result<()> {
        if self.window.control.begin_short(self.here, self.process) {
            return Ok(());
        }
        let me = self.window.me();
        self.wait(|this, lost| {
            let control = &this.window.control;
            if let Some(lost) = lost
                && control.take_elements_from(this.process, lost, me)
            {
                // The elements that it was at are changed or not.
                control.unlock_elements(this.process);
            }
            control.begin_short(this.here, this.process)
        })
    }

    #[inline]
    fn end_short(&mut self) {
        self.window.control.end_short(self.here);
    }

    fn lock(&mut self) -> Result<()> {
        let me = self.window.me();
        if self.window.control.try_lock_elements(self.process, me).is_err() {
            self.wait(|this, lost| {
                let control = &this.window.control;
                match lost {
                    // The elements that it was at are changed or not.
                    Some(lost) => control.take_elements_from(this.process, lost, me),
                    None => control.try_lock_elements(this.process, me).is_ok(),
                }
            })?;
        }
        self.wait_for_quiet().inspect_err(|_| self.window.control.unlock_elements(self.process))
    }

    fn unlock(&mut self) {
        self.window.control.unlock_elements(self.process);
    }
}

//! Active targets: fences, and the epochs of groups.

use super::epoch::{Access, wrong};
use super::moves::raised;
use super::object::Window;
use super::wire::{Kind, Request};
use crate::coll::{Call, Form, Running};
use crate::consts::{MODE_NOCHECK, MODE_NOPRECEDE, MODE_NOPUT, MODE_NOSTORE, MODE_NOSUCCEED};
use crate::error::{Class, MpiError, Result};
use crate::exchange::{AndAll, Party};
use crate::handle::{Group, Win};
use crate::instance::{Mpi, State};
use crate::task::{Progress, Task};
use ch3_shim::Vci;

/// Checks the bits of an assertion.
fn check(assertion: i32, allowed: i32, what: &str) -> Result<()> {
    if assertion & !allowed == 0 {
        return Ok(());
    }
    let text = format!("{what}: the assertion {assertion:#x} has bits that are no assertion of this call");
    Err(MpiError::new(Class::ASSERT, text))
}

impl Window {
    /// Tells a process of a group something; this one by itself.
    fn tell_member(&mut self, vci: &mut Vci, rank: u32, kind: Kind) -> Result<()> {
        if rank != self.me() {
            return self.send(vci, rank, Request::bare(kind), &[], &[]);
        }
        let count = match kind {
            Kind::Post => &mut self.epochs.posts,
            _ => &mut self.epochs.completes,
        };
        count[rank as usize] += 1;
        Ok(())
    }

    /// Returns true, and takes one of each, if all of a group are counted.
    fn take_all(counts: &mut [u32], group: &[u32]) -> bool {
        let all = group.iter().all(|rank| counts[*rank as usize] > 0);
        if all {
            group.iter().for_each(|rank| counts[*rank as usize] -= 1);
        }
        all
    }
}

impl Mpi {
    /// Waits for all processes of a window.
    pub(super) fn win_barrier(&self, win: Win) -> Result<()> {
        let core = self.with(|s| Ok(std::sync::Arc::clone(&s.objects.wins.get(win)?.core)))?;
        let mut barrier = self.with(|s| Running::new(&s.objects, Form::Blocking, &core, &Call::Barrier))?;
        let met = self.wait_until(|vci, objects, _| match barrier.task().advance(vci, objects) {
            Progress::Done(done) => Some(done),
            // A barrier calls no function of the program. One that has lost a process has no end.
            Progress::Blocked | Progress::Call(_) => {
                let window = objects.wins.get(win).ok()?;
                window.lost(vci, |_| true).map(Err)
            }
        });
        met.map(|_| ()).map_err(|e| raised(e, win))
    }

    /// Waits for all processes of a window that is about to be freed: by messages, unless they have
    /// made the memory for collective operations, which nothing else would use.
    pub(super) fn last_barrier(&self, win: Win) -> Result<()> {
        let core = self.with(|s| Ok(std::sync::Arc::clone(&s.objects.wins.get(win)?.core)))?;
        if core.node.is_decided() {
            return self.win_barrier(win);
        }
        let mut all = AndAll::new(Party::of_all(&core), Vec::new());
        let met = self.wait_until(|vci, objects, _| match all.advance(vci) {
            Ok(Some(_)) => Some(Ok(())),
            // One in which the making of the window has failed takes no part.
            Ok(None) => objects.wins.get(win).ok()?.lost(vci, |_| true).map(Err),
            Err(e) => Some(Err(e)),
        });
        met.map_err(|e| raised(e, win))
    }

    /// Ends the epoch that the last fence has begun, and begins another one (`MPI_Win_fence`).
    ///
    /// # Errors
    /// A bad handle or assertion; an epoch of another kind; an operation that has failed; a process
    /// that is lost.
    pub fn win_fence(&self, assertion: i32, win: Win) -> Result<()> {
        let ranks = self.on_window(win, |window, _| {
            check(assertion, MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED, "MPI_Win_fence")?;
            let fits = matches!(window.epochs.access, Access::None | Access::Fence(_));
            if !fits || window.epochs.exposure.is_some() {
                return Err(window.epochs.conflict("MPI_Win_fence"));
            }
            Ok(window.used_targets())
        })?;
        let done = self.flush_ranks(win, &ranks);
        let met = self.win_barrier(win);
        self.on_window(win, |window, _| {
            let ends = assertion & MODE_NOSUCCEED != 0;
            window.epochs.access = if ends { Access::None } else { Access::Fence(false) };
            Ok(())
        })?;
        done.and(met)
    }

    /// Returns the ranks of a group in a window.
    fn window_ranks(&self, group: Group, win: Win) -> Result<Vec<u32>> {
        self.with(|s| {
            let State { objects, .. } = s;
            let window = objects.wins.get(win)?;
            let members = objects.groups.members(group).map_err(|e| raised(e, win))?;
            let ranks = members.iter().map(|place| window.core.group().rank(*place));
            ranks.collect::<Option<Vec<u32>>>().ok_or_else(|| {
                let text = "a process of the group is not one of the window's group";
                raised(MpiError::new(Class::GROUP, text), win)
            })
        })
    }

    /// Exposes this process's memory to a group (`MPI_Win_post`).
    ///
    /// # Errors
    /// A bad handle, group or assertion; memory that is exposed.
    pub fn win_post(&self, group: Group, assertion: i32, win: Win) -> Result<()> {
        let ranks = self.window_ranks(group, win)?;
        self.on_window(win, |window, vci| {
            check(assertion, MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT, "MPI_Win_post")?;
            if window.epochs.exposure.is_some() {
                return Err(wrong("MPI_Win_post: the memory is exposed already; call MPI_Win_wait first"));
            }
            if matches!(window.epochs.access, Access::Fence(true)) {
                return Err(window.epochs.conflict("MPI_Win_post"));
            }
            if window.epochs.access == Access::Fence(false) {
                window.epochs.access = Access::None;
            }
            if assertion & MODE_NOCHECK == 0 {
                ranks.iter().try_for_each(|rank| window.tell_member(vci, *rank, Kind::Post))?;
            }
            window.epochs.exposure = Some(ranks);
            vci.flush();
            Ok(())
        })
    }

    /// Begins to access the memory of a group, when all of it have exposed theirs
    /// (`MPI_Win_start`).
    ///
    /// # Errors
    /// A bad handle, group or assertion; an epoch that does not allow it; a process of the group
    /// that is lost.
    pub fn win_start(&self, group: Group, assertion: i32, win: Win) -> Result<()> {
        let ranks = self.window_ranks(group, win)?;
        self.on_window(win, |window, _| {
            check(assertion, MODE_NOCHECK, "MPI_Win_start")?;
            window.epochs.check_begin("MPI_Win_start")
        })?;
        if assertion & MODE_NOCHECK == 0 {
            self.wait_on_window(win, |window, _| {
                Window::take_all(&mut window.epochs.posts, &ranks).then_some(Ok(()))
            })?;
        }
        self.on_window(win, |window, _| {
            window.epochs.access = Access::Start(ranks);
            Ok(())
        })
    }

    /// Ends the epoch that a start has begun (`MPI_Win_complete`).
    ///
    /// # Errors
    /// A bad handle; no such epoch; an operation that has failed.
    pub fn win_complete(&self, win: Win) -> Result<()> {
        let ranks = self.on_window(win, |window, _| match &window.epochs.access {
            Access::Start(ranks) => Ok(ranks.clone()),
            _ => Err(window.epochs.conflict("MPI_Win_complete")),
        })?;
        let done = self.flush_ranks(win, &ranks);
        self.on_window(win, |window, vci| {
            window.epochs.access = Access::None;
            let told: Vec<Result<()>> =
                ranks.iter().map(|rank| window.tell_member(vci, *rank, Kind::Complete)).collect();
            ranks.iter().for_each(|rank| window.targets[*rank as usize].is_dirty = false);
            vci.flush();
            told.into_iter().fold(done, Result::and)
        })
    }

    /// Waits until those that this process's memory is exposed to have ended their epochs
    /// (`MPI_Win_wait`).
    ///
    /// # Errors
    /// A bad handle; memory that is not exposed; a process of the group that is lost.
    pub fn win_wait(&self, win: Win) -> Result<()> {
        let ranks = self.exposed(win, "MPI_Win_wait")?;
        let done = self.wait_on_window(win, |window, vci| window.all_completed(vci, &ranks));
        self.end_exposure(win)?;
        done
    }

    /// Returns true, and ends the exposure, if those that this process's memory is exposed to have
    /// ended their epochs (`MPI_Win_test`).
    ///
    /// # Errors
    /// As [`Mpi::win_wait`].
    pub fn win_test(&self, win: Win) -> Result<bool> {
        let ranks = self.exposed(win, "MPI_Win_test")?;
        let done = self.test_until(|vci, objects, _| match objects.wins.get_mut(win) {
            Ok(window) => window.all_completed(vci, &ranks).map(|done| done.map_err(|e| raised(e, win))),
            Err(e) => Some(Err(e)),
        });
        if !matches!(done, Ok(None)) {
            self.end_exposure(win)?;
        }
        done.map(|done| done.is_some())
    }

    fn exposed(&self, win: Win, what: &str) -> Result<Vec<u32>> {
        self.on_window(win, |window, _| {
            let missing = || wrong(format!("{what}: the memory is not exposed; call MPI_Win_post first"));
            window.epochs.exposure.clone().ok_or_else(missing)
        })
    }

    fn end_exposure(&self, win: Win) -> Result<()> {
        self.on_window(win, |window, _| {
            window.epochs.exposure = None;
            Ok(())
        })
    }
}

impl Window {
    /// Returns a result if a group has ended its accesses, or cannot any more.
    fn all_completed(&mut self, vci: &Vci, ranks: &[u32]) -> Option<Result<()>> {
        if Window::take_all(&mut self.epochs.completes, ranks) {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            return Some(Ok(()));
        }
        self.lost(vci, |_| true).map(Err)
    }

    /// Returns the targets at which something is under way.
    pub(super) fn used_targets(&mut self) -> Vec<u32> {
        if !self.epochs.in_use {
            return Vec::new();
        }
        let used: Vec<u32> = (0..self.targets.len() as u32).filter(|rank| !self.is_idle(*rank)).collect();
        self.epochs.in_use = !used.is_empty();
        used
    }
}

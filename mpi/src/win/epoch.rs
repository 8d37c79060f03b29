//! Epochs: which accesses of this process a window allows.

use super::tickets::LockKind;
use crate::error::{Class, MpiError, Result};

/// The access epoch of a process on a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Access {
    /// There is none.
    #[default]
    None,
    /// It began with a fence; true once there was an access.
    Fence(bool),
    /// It began with a start, to these ranks.
    Start(Vec<u32>),
    /// Locks of single targets; so many are held.
    Lock(u32),
    /// It began with `MPI_Win_lock_all`.
    LockAll,
}

/// A lock that this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub kind: LockKind,
    /// False if the program has promised that no lock is needed.
    pub is_real: bool,
}

/// The epochs of a process on a window.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    pub access: Access,
    /// The group that this process exposes its memory to.
    pub exposure: Option<Vec<u32>>,
    /// The locks that this process has, by rank.
    pub held: Vec<Option<Held>>,
    /// Posts of each rank that no start has taken, and completes that no wait has.
    pub posts: Vec<u32>,
    pub completes: Vec<u32>,
    /// Calls that have ended without a wait.
    pub quick: u32,
    /// False if nothing was sent to any target since all were found idle.
    pub in_use: bool,
}

/// Returns the error of a call that does not fit the epoch.
#[cold]
pub(super) fn wrong(text: impl Into<String>) -> Box<MpiError> {
    MpiError::new(Class::RMA_SYNC, text)
}

impl Access {
    /// Returns what it is called in messages.
    fn name(&self) -> &'static str {
        match self {
            Access::None => "none",
            Access::Fence(_) => "one that MPI_Win_fence has begun",
            Access::Start(_) => "one that MPI_Win_start has begun",
            Access::Lock(_) => "one that MPI_Win_lock has begun",
            Access::LockAll => "one that MPI_Win_lock_all has begun",
        }
    }
}

impl Epochs {
    /// Creates the epochs on a window of `n` processes.
    pub(super) fn new(n: usize) -> Epochs {
        let (held, posts, completes) = (vec![None; n], vec![0; n], vec![0; n]);
        Epochs { access: Access::None, exposure: None, held, posts, completes, quick: 0, in_use: false }
    }

    /// Checks that the memory of a rank may be accessed, and notes that it is.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] if not.
    #[inline]
    pub(super) fn check_access(&mut self, target: u32) -> Result<()> {
        match &mut self.access {
            Access::LockAll => return Ok(()),
            Access::Lock(_) if self.held[target as usize].is_some() => return Ok(()),
            Access::Fence(used) => {
                *used = true;
                return Ok(());
            }
            Access::Start(group) if group.contains(&target) => return Ok(()),
            _ => {}
        }
        let text = format!(
            "rank {target} of the window cannot be accessed in the access epoch of this process, which is {}; \
             begin one with that rank by MPI_Win_fence, MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all",
            self.access.name()
        );
        Err(wrong(text))
    }

    /// Checks that an epoch of another kind may begin; ends one of fences that was not used.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] if there is one.
    pub(super) fn check_begin(&mut self, what: &str) -> Result<()> {
        match self.access {
            Access::None | Access::Fence(false) => {
                self.access = Access::None;
                Ok(())
            }
            _ => Err(self.conflict(what)),
        }
    }

    /// Returns the error of a call that this epoch forbids.
    #[cold]
    pub(super) fn conflict(&self, what: &str) -> Box<MpiError> {
        wrong(format!(
            "{what}: the access epoch of this process on the window is {}; end or begin one as {what} needs it",
            self.access.name()
        ))
    }

    /// Checks a lock, and returns true if it is the first one.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] in an epoch of another kind, or if this process has the lock.
    pub(super) fn check_lock(&mut self, target: u32) -> Result<()> {
        if !matches!(self.access, Access::Lock(_)) {
            self.check_begin("MPI_Win_lock")?;
        }
        if self.held[target as usize].is_some() {
            return Err(wrong(format!(
                "MPI_Win_lock: this process has the lock of rank {target} already; call MPI_Win_unlock first"
            )));
        }
        Ok(())
    }

    /// Notes a lock.
    pub(super) fn hold(&mut self, target: u32, held: Held) {
        self.held[target as usize] = Some(held);
        self.access = match self.access {
            Access::Lock(n) => Access::Lock(n + 1),
            _ => Access::Lock(1),
        };
    }

    /// Returns the lock of a rank that is to be given back.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] if this process does not have it.
    pub(super) fn check_unlock(&self, target: u32) -> Result<Held> {
        let held = self.held[target as usize].filter(|_| matches!(self.access, Access::Lock(_)));
        held.ok_or_else(|| {
            wrong(format!(
                "MPI_Win_unlock: this process has no lock of rank {target}; call MPI_Win_lock first"
            ))
        })
    }

    /// Notes that a lock was given back.
    pub(super) fn let_go(&mut self, target: u32) {
        self.held[target as usize] = None;
        self.access = match self.access {
            Access::Lock(n) if n > 1 => Access::Lock(n - 1),
            _ => Access::None,
        };
    }

    /// Checks that a target is locked, for a flush.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] if not.
    #[inline]
    pub(super) fn check_flush(&self, target: Option<u32>, what: &str) -> Result<()> {
        match (&self.access, target) {
            (Access::LockAll, _) | (Access::Lock(_), None) => Ok(()),
            (Access::Lock(_), Some(rank)) if self.held[rank as usize].is_some() => Ok(()),
            _ => Err(self.conflict(what)),
        }
    }

    /// Checks that the window may be freed.
    ///
    /// # Errors
    /// [`Class::RMA_SYNC`] if an epoch has not ended.
    pub(super) fn check_free(&self) -> Result<()> {
        if !matches!(self.access, Access::None | Access::Fence(_)) {
            return Err(self.conflict("MPI_Win_free"));
        }
        if self.exposure.is_some() {
            return Err(wrong(
                "MPI_Win_free: the memory is exposed by MPI_Win_post; call MPI_Win_wait first",
            ));
        }
        Ok(())
    }
}

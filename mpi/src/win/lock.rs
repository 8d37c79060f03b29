//! Passive targets: locks and flushes.

use ch3_shim::{Request as Message, Vci};

use super::epoch::{Access, Held};
use super::moves::raised;
use super::object::{LateLock, Window};
use super::origin::judged;
use super::tickets::{LockKind, Ticket};
use super::wire::{Kind, Request};
use crate::consts::{LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOCHECK, PROC_NULL};
use crate::error::{Class, MpiError, Result};
use crate::handle::Win;
use crate::instance::{Mpi, State};

impl Window {
    /// Gives back the lock of a process of the node, and wakes those that sleep for it.
    pub(super) fn unlock_word(&mut self, vci: &mut Vci, rank: u32, kind: LockKind) {
        let Some(process) = self.targets[rank as usize].neighbour else { return };
        if self.control.unlock(process, kind) {
            self.wake_sleepers(vci);
        }
    }

    #[cold]
    fn wake_sleepers(&mut self, vci: &mut Vci) {
        for process in self.control.take_sleepers(self.neighbours.len()) {
            let rank = self.neighbours[process];
            if rank == self.me() {
                self.server.woken += 1;
            } else if let Err(e) = self.send(vci, rank, Request::bare(Kind::Wake), &[], &[]) {
                tracing::debug!("waking rank {rank} of a window: {}", e.text);
            }
        }
    }

    /// Takes the lock of a process of the node if it is a ticket's turn. Those behind it that share
    /// the lock may have it then, too, and are woken.
    pub(super) fn try_enter(
        &mut self,
        vci: &mut Vci,
        process: usize,
        kind: LockKind,
        ticket: Ticket,
    ) -> bool {
        let done = self.control.try_enter(process, kind, ticket);
        if done && kind == LockKind::Shared && self.control.has_sleepers(process) {
            self.wake_sleepers(vci);
        }
        done
    }

    /// Tries to lock a process of the node that is waited for. Returns true if it is locked.
    fn try_lock(&mut self, vci: &mut Vci, waiting: &mut InNodeLock) -> bool {
        let InNodeLock { process, kind, ticket, .. } = *waiting;
        if self.try_enter(vci, process, kind, ticket) {
            if waiting.sleeps {
                self.control.end_sleep(process);
            }
            return true;
        }
        if vci.is_going_to_sleep() {
            if !std::mem::replace(&mut waiting.sleeps, true) {
                self.control.begin_sleep(process);
            }
            if self.control.note_sleep(self.own_place()) {
                vci.stay_awake();
            }
        }
        false
    }

    /// Asks those of the targets that were sent requests how these have ended.
    pub(super) fn begin_flush(&mut self, vci: &mut Vci, ranks: &[u32]) -> Result<Vec<(u32, Message)>> {
        let mut asked = Vec::new();
        for &rank in ranks {
            if self.targets[rank as usize].is_dirty {
                asked.push((rank, self.ask(vci, rank, Kind::Flush)?));
                self.targets[rank as usize].is_dirty = false;
            }
        }
        Ok(asked)
    }

    /// Returns true if all answers of targets have come.
    pub(super) fn have_answers(&mut self, vci: &mut Vci, ranks: &[u32]) -> bool {
        // Each is asked, so that what has come is used up.
        ranks.iter().filter(|rank| !self.has_answers(vci, **rank)).count() == 0
    }

    /// Returns the first failure of targets, which are forgotten.
    pub(super) fn take_failures(&mut self, ranks: &[u32]) -> Result<()> {
        let mut first = Ok(());
        for rank in ranks {
            if let Some(e) = self.targets[*rank as usize].failure.take() {
                first = first.and(Err(e));
            }
        }
        first
    }

    /// Counts a call about some targets that has ended at once. Returns true if it is time to make
    /// progress: requests of others are to be served, and the death of a target is to be seen.
    ///
    /// # Errors
    /// A target that is lost.
    #[inline]
    fn ended_quickly(&mut self, vci: &Vci, concerns: impl Fn(u32) -> bool) -> Result<bool> {
        if let Some(e) = self.lost(vci, concerns) {
            return Err(e);
        }
        self.epochs.quick = self.epochs.quick.wrapping_add(1);
        Ok(self.epochs.quick.is_multiple_of(QUICK))
    }

    /// Returns true if nothing is under way to a target.
    #[inline]
    pub(super) fn is_idle(&self, rank: u32) -> bool {
        let target = &self.targets[rank as usize];
        !target.is_dirty && target.pending.is_empty() && target.failure.is_none()
    }
}

fn lock_kind(kind: i32) -> Result<LockKind> {
    match kind {
        LOCK_EXCLUSIVE => Ok(LockKind::Exclusive),
        LOCK_SHARED => Ok(LockKind::Shared),
        _ => {
            let text = format!("lock type {kind} is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED");
            Err(MpiError::new(Class::LOCKTYPE, text))
        }
    }
}

fn check_assertion(assertion: i32) -> Result<()> {
    if assertion & !MODE_NOCHECK == 0 {
        return Ok(());
    }
    let text = format!("assertion {assertion:#x} of a lock has bits other than MPI_MODE_NOCHECK");
    Err(MpiError::new(Class::ASSERT, text))
}

impl Mpi {
    /// Runs `f` on a window under the library's lock.
    #[inline]
    pub(super) fn on_window<T>(
        &self,
        win: Win,
        f: impl FnOnce(&mut Window, &mut Vci) -> Result<T>,
    ) -> Result<T> {
        self.with(|s| {
            let State { dev, objects, .. } = s;
            f(objects.wins.get_mut(win)?, dev).map_err(|e| raised(e, win))
        })
    }

    /// Waits until `ready` returns something of a window.
    ///
    /// # Errors
    /// The error of `ready`; a process of the window that has failed: others may have given up
    /// since, and do not go on with their epochs.
    pub(super) fn wait_on_window<T>(
        &self,
        win: Win,
        mut ready: impl FnMut(&mut Window, &mut Vci) -> Option<Result<T>>,
    ) -> Result<T> {
        self.wait_until(|vci, objects, _| match objects.wins.get_mut(win) {
            Ok(window) => {
                let done = ready(window, vci).or_else(|| window.lost(vci, |_| true).map(Err));
                done.map(|done| done.map_err(|e| raised(e, win)))
            }
            Err(e) => Some(Err(e)),
        })
    }

    /// Waits for answers about how requests have ended.
    pub(super) fn wait_for_verdicts(&self, win: Win, asked: Vec<(u32, Message)>) -> Result<()> {
        let mut asked = Some(asked);
        self.wait_on_window(win, |_, vci| {
            let all = asked.take()?;
            if !all.iter().all(|(_, answer)| vci.is_finished(answer.raw())) {
                asked = Some(all);
                return None;
            }
            let ended = all.into_iter().map(|(rank, answer)| judged(vci, answer, rank));
            Some(ended.fold(Ok(()), Result::and))
        })
    }

    /// Waits until the operations on these targets have ended there and here.
    pub(super) fn flush_ranks(&self, win: Win, ranks: &[u32]) -> Result<()> {
        let asked = self.on_window(win, |window, vci| window.begin_flush(vci, ranks))?;
        let judged = if asked.is_empty() { Ok(()) } else { self.wait_for_verdicts(win, asked) };
        self.end_answers(win, ranks).and(judged)
    }

    /// Waits until the results of operations on these targets are here.
    pub(super) fn end_answers(&self, win: Win, ranks: &[u32]) -> Result<()> {
        let done = self.on_window(win, |window, vci| Ok(window.have_answers(vci, ranks)))?;
        if !done {
            let waited =
                self.wait_on_window(win, |window, vci| window.have_answers(vci, ranks).then_some(Ok(())));
            if let Err(e) = waited {
                self.on_window(win, |window, vci| {
                    window.give_up_answers(vci);
                    Ok(())
                })?;
                return Err(e);
            }
        }
        self.on_window(win, |window, _| window.take_failures(ranks))
    }

    /// Waits until the network has executed the operations on these targets.
    fn end_moves(&self, win: Win, ranks: &[u32]) -> Result<()> {
        let done = self.on_window(win, |window, vci| Ok(window.have_moved(vci, ranks)))?;
        if done {
            return Ok(());
        }
        let waited = self.wait_on_window(win, |window, vci| window.have_moved(vci, ranks).then_some(Ok(())));
        waited.or_else(|e| {
            self.on_window(win, |window, vci| {
                window.give_up_answers(vci);
                Err(e)
            })
        })
    }

    /// Locks a target (`MPI_Win_lock`).
    ///
    /// # Errors
    /// A bad handle, lock type, rank or assertion; an epoch that does not allow it; a process that
    /// is lost.
    pub fn win_lock(&self, kind: i32, rank: i32, assertion: i32, win: Win) -> Result<()> {
        let begun = self.on_window(win, |window, vci| {
            let kind = lock_kind(kind)?;
            check_assertion(assertion)?;
            if rank == PROC_NULL {
                return Ok(None);
            }
            let target = window.check_rank(rank)?;
            window.epochs.check_lock(target)?;
            let begun = window.begin_lock(vci, target, kind, assertion & MODE_NOCHECK != 0)?;
            Ok(begun.map(|begun| (target, kind, begun)))
        })?;
        match begun {
            None => Ok(()),
            Some((target, kind, begun)) => {
                self.end_locks(win, vec![begun])?;
                self.on_window(win, |window, _| {
                    window.epochs.hold(target, Held { kind, is_real: true });
                    Ok(())
                })
            }
        }
    }

    /// Waits for locks that could not be had at once. Each one is taken when it is its turn, so
    /// that none holds up others.
    fn end_locks(&self, win: Win, all: Vec<Begun>) -> Result<()> {
        let (mut near, mut asked) = (Vec::new(), Vec::new());
        for begun in all {
            match begun {
                Begun::InNode(lock) => near.push(lock),
                Begun::Asked(target, answer) => asked.push((target, answer)),
            }
        }
        if !near.is_empty() {
            self.wait_on_window(win, |window, vci| {
                near.retain_mut(|lock| !window.try_lock(vci, lock));
                near.is_empty().then_some(Ok(()))
            })?;
        }
        if asked.is_empty() { Ok(()) } else { self.wait_for_verdicts(win, asked) }
    }

    /// Gives the lock of a target back, when all operations on it have ended (`MPI_Win_unlock`).
    ///
    /// # Errors
    /// A bad handle or rank; a lock that this process does not have; an operation that has failed.
    pub fn win_unlock(&self, rank: i32, win: Win) -> Result<()> {
        let target = self.on_window(win, |window, vci| {
            if rank == PROC_NULL {
                return Ok(Unlocked::Now(false));
            }
            let target = window.check_rank(rank)?;
            let held = window.epochs.check_unlock(target)?;
            if window.is_idle(target) && window.targets[target as usize].neighbour.is_some() {
                window.give_back(vci, target, held);
                return window.ended_quickly(vci, |rank| rank == target).map(Unlocked::Now);
            }
            Ok(Unlocked::Later(target, held))
        })?;
        let (target, held) = match target {
            Unlocked::Now(is_due) => return if is_due { self.step() } else { Ok(()) },
            Unlocked::Later(target, held) => (target, held),
        };
        let done = self.end_passive(win, &[(target, held)]);
        self.on_window(win, |window, _| {
            window.epochs.let_go(target);
            Ok(())
        })?;
        done
    }

    /// Ends the operations on targets, and gives their locks back.
    fn end_passive(&self, win: Win, all: &[(u32, Held)]) -> Result<()> {
        let ranks: Vec<u32> = all.iter().map(|(rank, _)| *rank).collect();
        let is_near = |window: &Window, rank: u32| window.targets[rank as usize].neighbour.is_some();
        // A target gives a lock to the next one at once.
        self.end_moves(win, &ranks)?;
        let asked = self.on_window(win, |window, vci| {
            let mut asked = Vec::new();
            for &(rank, held) in all {
                let is_far = !is_near(window, rank);
                let late = std::mem::take(&mut window.targets[rank as usize].late);
                let is_given = !matches!(late, LateLock::Unasked);
                if let LateLock::Asked(answer) = late {
                    asked.push((rank, answer));
                }
                if is_far && held.is_real && is_given {
                    let kind = match held.kind {
                        LockKind::Exclusive => Kind::UnlockExclusive,
                        LockKind::Shared => Kind::UnlockShared,
                    };
                    asked.push((rank, window.ask(vci, rank, kind)?));
                    window.targets[rank as usize].is_dirty = false;
                } else {
                    asked.extend(window.begin_flush(vci, &[rank])?);
                }
            }
            Ok(asked)
        });
        let judged = asked
            .and_then(|asked| if asked.is_empty() { Ok(()) } else { self.wait_for_verdicts(win, asked) });
        let done = self.end_answers(win, &ranks).and(judged);
        self.on_window(win, |window, vci| {
            for &(rank, held) in all {
                if is_near(window, rank) && held.is_real {
                    window.unlock_word(vci, rank, held.kind);
                }
            }
            Ok(())
        })?;
        done
    }

    /// Locks all processes, shared (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// As [`Mpi::win_lock`].
    pub fn win_lock_all(&self, assertion: i32, win: Win) -> Result<()> {
        let is_real = assertion & MODE_NOCHECK == 0;
        let begun = self.on_window(win, |window, vci| {
            check_assertion(assertion)?;
            window.epochs.check_begin("MPI_Win_lock_all")?;
            let mut begun = Vec::new();
            let held = Held { kind: LockKind::Shared, is_real };
            for rank in 0..window.targets.len() as u32 {
                // The first access waits for such a process anyway.
                if is_real && window.is_served(vci, rank) {
                    window.targets[rank as usize].late = LateLock::Unasked;
                } else if is_real {
                    begun.extend(window.ask_lock(vci, rank, LockKind::Shared)?);
                }
                window.epochs.held[rank as usize] = Some(held);
            }
            window.epochs.access = Access::LockAll;
            Ok(begun)
        })?;
        if begun.is_empty() { Ok(()) } else { self.end_locks(win, begun) }
    }

    /// Gives the locks of all processes back (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// As [`Mpi::win_unlock`].
    pub fn win_unlock_all(&self, win: Win) -> Result<()> {
        let all = self.on_window(win, |window, _| {
            if window.epochs.access != Access::LockAll {
                return Err(window.epochs.conflict("MPI_Win_unlock_all"));
            }
            let held = window.epochs.held.iter().enumerate();
            Ok(held.filter_map(|(rank, held)| held.map(|held| (rank as u32, held))).collect::<Vec<_>>())
        })?;
        let done = self.end_passive(win, &all);
        let is_due = self.on_window(win, |window, vci| {
            window.epochs.held.fill(None);
            window.epochs.access = Access::None;
            window.ended_quickly(vci, |_| true)
        });
        done?;
        self.step_if(is_due?)
    }

    /// Ends the operations on a target, there and here (`MPI_Win_flush`).
    ///
    /// # Errors
    /// A bad handle or rank; a target that is not locked; an operation that has failed.
    #[inline]
    pub fn win_flush(&self, rank: i32, win: Win) -> Result<()> {
        match self.flushed(rank, win, "MPI_Win_flush")? {
            Flushed::Busy(target) => self.flush_ranks(win, &[target]),
            Flushed::Idle(is_due) => self.step_if(is_due),
        }
    }

    /// Ends the operations on a target here (`MPI_Win_flush_local`).
    ///
    /// # Errors
    /// As [`Mpi::win_flush`].
    #[inline]
    pub fn win_flush_local(&self, rank: i32, win: Win) -> Result<()> {
        match self.flushed(rank, win, "MPI_Win_flush_local")? {
            Flushed::Busy(target) => self.end_answers(win, &[target]),
            Flushed::Idle(is_due) => self.step_if(is_due),
        }
    }

    /// Checks a flush, and returns its target if something is under way there.
    #[inline]
    fn flushed(&self, rank: i32, win: Win, what: &str) -> Result<Flushed<u32>> {
        self.on_window(win, |window, vci| {
            if rank == PROC_NULL {
                return Ok(Flushed::Idle(false));
            }
            let target = window.check_rank(rank)?;
            window.epochs.check_flush(Some(target), what)?;
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            if !window.is_idle(target) {
                return Ok(Flushed::Busy(target));
            }
            window.ended_quickly(vci, |rank| rank == target).map(Flushed::Idle)
        })
    }

    /// Makes progress once: a program may wait for something by calls that end at once.
    #[cold]
    fn step(&self) -> Result<()> {
        self.test_until(|_, _, _| None::<Result<()>>).map(|_| ())
    }

    #[inline]
    fn step_if(&self, is_due: bool) -> Result<()> {
        if is_due { self.step() } else { Ok(()) }
    }

    /// Checks a flush of all targets, and returns those at which something is under way.
    fn flushed_all(&self, win: Win, what: &str) -> Result<Flushed<Vec<u32>>> {
        self.on_window(win, |window, vci| {
            window.epochs.check_flush(None, what)?;
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let busy = window.used_targets();
            if !busy.is_empty() {
                return Ok(Flushed::Busy(busy));
            }
            window.ended_quickly(vci, |_| true).map(Flushed::Idle)
        })
    }

    /// Ends the operations on all targets, there and here (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// As [`Mpi::win_flush`].
    pub fn win_flush_all(&self, win: Win) -> Result<()> {
        match self.flushed_all(win, "MPI_Win_flush_all")? {
            Flushed::Busy(ranks) => self.flush_ranks(win, &ranks),
            Flushed::Idle(is_due) => self.step_if(is_due),
        }
    }

    /// Ends the operations on all targets here (`MPI_Win_flush_local_all`).
    ///
    /// # Errors
    /// As [`Mpi::win_flush`].
    pub fn win_flush_local_all(&self, win: Win) -> Result<()> {
        match self.flushed_all(win, "MPI_Win_flush_local_all")? {
            Flushed::Busy(ranks) => self.end_answers(win, &ranks),
            Flushed::Idle(is_due) => self.step_if(is_due),
        }
    }

    /// Orders this process's loads and stores with those of others (`MPI_Win_sync`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn win_sync(&self, win: Win) -> Result<()> {
        let is_due = self.on_window(win, |window, vci| {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            window.ended_quickly(vci, |_| false)
        })?;
        if is_due { self.step() } else { Ok(()) }
    }
}

/// The state of what is flushed: one target, or all.
enum Flushed<T> {
    /// Something is under way there.
    Busy(T),
    /// Nothing is; true if it is time to make progress.
    Idle(bool),
}

/// The end of a lock.
enum Unlocked {
    /// It was given back; true if it is time to make progress.
    Now(bool),
    /// Something has to end first.
    Later(u32, Held),
}

/// Calls that end at once after which one makes progress.
const QUICK: u32 = 16;

/// A lock that could not be had at once.
enum Begun {
    /// It is a word of the node.
    InNode(InNodeLock),
    /// The target was asked for it.
    Asked(u32, Message),
}

/// A lock of the node that is waited for.
struct InNodeLock {
    /// Place in the node of the process whose lock it is.
    process: usize,
    kind: LockKind,
    ticket: Ticket,
    /// True if this process is counted among those that sleep for it.
    sleeps: bool,
}

impl Window {
    /// Takes a lock, or begins to wait for it.
    fn begin_lock(
        &mut self,
        vci: &mut Vci,
        target: u32,
        kind: LockKind,
        nocheck: bool,
    ) -> Result<Option<Begun>> {
        let begun = if nocheck { None } else { self.ask_lock(vci, target, kind)? };
        if begun.is_none() {
            self.epochs.hold(target, Held { kind, is_real: !nocheck });
        }
        Ok(begun)
    }

    fn ask_lock(&mut self, vci: &mut Vci, target: u32, kind: LockKind) -> Result<Option<Begun>> {
        if let Some(process) = self.targets[target as usize].neighbour {
            let ticket = self.control.lock(process, kind).err();
            return Ok(
                ticket.map(|ticket| Begun::InNode(InNodeLock { process, kind, ticket, sleeps: false }))
            );
        }
        let asked = match kind {
            LockKind::Exclusive => Kind::LockExclusive,
            LockKind::Shared => Kind::LockShared,
        };
        let answer = self.ask(vci, target, asked)?;
        self.targets[target as usize].is_dirty = false;
        Ok(Some(Begun::Asked(target, answer)))
    }

    /// Asks for the lock of a rank at the first access to it, if it was not asked for before.
    #[inline]
    pub(super) fn ask_late_lock(&mut self, vci: &mut Vci, rank: u32) -> Result<()> {
        if !matches!(self.targets[rank as usize].late, LateLock::Unasked) {
            return Ok(());
        }
        if let Some(Begun::Asked(_, answer)) = self.ask_lock(vci, rank, LockKind::Shared)? {
            self.targets[rank as usize].late = LateLock::Asked(answer);
        }
        Ok(())
    }

    /// Gives back a lock in the node.
    fn give_back(&mut self, vci: &mut Vci, target: u32, held: Held) {
        self.epochs.let_go(target);
        if held.is_real {
            self.unlock_word(vci, target, held.kind);
        }
    }
}

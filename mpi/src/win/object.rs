//! Windows of a process, and the handles that name them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use ch3_shim::{Failure, RawReq, Request as Message, Vci};

use super::control::Control;
use super::directory::{Attachments, Parts};
use super::epoch::Epochs;
use super::memory::{SharedParts, Span};
use super::queue::Server;
use super::reach::{Agent, Network, Reach};
use crate::attr::Attrs;
use crate::comm::CommCore;
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Errhandler, Table, Win};
use crate::ranks::Ranks;

/// The way in which a window was made (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    /// `MPI_Win_create`: memory of the program.
    Create = 1,
    /// `MPI_Win_allocate`: memory that the window allocates.
    Allocate,
    /// `MPI_Win_create_dynamic`: memory is attached.
    Dynamic,
    /// `MPI_Win_allocate_shared`: memory that all processes load from and store to.
    Shared,
}

/// An answer of a target that has not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub raw: RawReq,
    /// False if a request of the program takes the result.
    pub is_ours: bool,
    /// True if the network executes the operation, not the target.
    pub is_far: bool,
}

/// The shared lock of a process that is asked for at the first access.
#[derive(Debug, Default)]
pub(super) enum LateLock {
    /// There is none.
    #[default]
    None,
    /// It has not been asked for.
    Unasked,
    /// It has. The process executes what follows when it has given the lock, and answers then.
    Asked(Message),
}

/// A process of the window, as this one sees it.
#[derive(Debug)]
pub(super) struct Target {
    /// The way to its memory.
    pub reach: Reach,
    /// The agent of accumulations on its memory.
    pub agent: Agent,
    /// Memory attached to a dynamic window by another process of the node.
    pub parts: Option<Box<Parts>>,
    /// The network's way to its memory, if the reach is by requests.
    pub network: Network,
    /// Bytes of its memory.
    pub size: u64,
    /// Bytes of a unit of displacement.
    pub unit: i64,
    /// Its place among the processes of the node, whose words this process sees.
    pub neighbour: Option<usize>,
    /// Its lock in an epoch of `MPI_Win_lock_all`.
    pub late: LateLock,
    /// Answers to this process's requests.
    pub pending: VecDeque<Pending>,
    /// True if it has been sent requests since the last flush.
    pub is_dirty: bool,
    /// The first failure since the last flush.
    pub failure: Option<Box<MpiError>>,
}

impl Target {
    /// Its memory, if this process loads from and stores to it.
    #[inline]
    pub(super) fn span(&self) -> Option<Span> {
        match self.reach {
            Reach::Memory(span) => Some(span),
            Reach::Attach(..) | Reach::Requests => None,
        }
    }
}

/// A window of a group of processes.
pub(crate) struct Window {
    /// The group, with a context of its own.
    pub(super) core: Arc<CommCore>,
    pub(super) handle: Win,
    pub(super) flavor: Flavor,
    pub(crate) name: String,
    pub(crate) errhandler: Errhandler,
    pub(crate) attrs: Attrs,
    /// Hints, by key.
    pub(super) hints: Vec<(String, String)>,
    pub(super) targets: Vec<Target>,
    /// Ranks of the processes of the node.
    pub(super) neighbours: Vec<u32>,
    pub(super) control: Arc<Control>,
    /// Memory that processes of the node share, which spans of the targets are of.
    pub(super) memory: SharedParts,
    pub(super) epochs: Epochs,
    /// Memory that was attached.
    pub(super) attached: Attachments,
    pub(super) server: Server,
    /// Requests that were sent.
    pub(super) sent: u32,
    /// Places of the numbers that its attributes point to.
    pub(super) told: Box<[AtomicI64; 4]>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("handle", &self.handle)
            .field("flavor", &self.flavor)
            .finish_non_exhaustive()
    }
}

impl Window {
    /// This process's rank.
    #[inline]
    pub(super) fn me(&self) -> u32 {
        self.core.rank()
    }

    /// This process's place among those of its node.
    pub(super) fn own_place(&self) -> usize {
        self.targets[self.me() as usize].neighbour.unwrap_or(0)
    }

    /// Returns the rank in the job of a process.
    pub(super) fn place(&self, rank: u32) -> i32 {
        self.core.group().place(rank).unwrap_or(0).cast_signed()
    }

    /// Checks a rank.
    ///
    /// # Errors
    /// [`Class::RANK`] if the window has no such process.
    #[inline]
    pub(super) fn check_rank(&self, rank: i32) -> Result<u32> {
        let n = self.targets.len();
        match usize::try_from(rank) {
            Ok(r) if r < n => Ok(r as u32),
            _ => Err(no_rank(rank, n)),
        }
    }

    /// Returns the memory of this process that elements at a place belong to: of a dynamic window
    /// that which is attached there. The place is in bytes from its beginning.
    ///
    /// # Errors
    /// [`Class::RMA_RANGE`] if nothing is attached there.
    pub(super) fn own_memory(&self, at: i64) -> Result<(Span, i64)> {
        if self.flavor != Flavor::Dynamic {
            return Ok((self.targets[self.me() as usize].span().unwrap_or(Span::EMPTY), at));
        }
        let missing = || {
            let text = format!(
                "no memory is attached to the dynamic window at address {at:#x} of the target; call \
                 MPI_Win_attach there, and give the address of MPI_Get_address as displacement"
            );
            MpiError::new(Class::RMA_RANGE, text)
        };
        let mut spans = self.attached.all.iter().map(|attached| attached.span);
        let mut span = spans.find(|span| span.holds(at)).ok_or_else(missing)?;
        // Elements may lie in several parts that follow each other.
        while let Some(longer) = self.attached.all.iter().find_map(|other| span.joined(&other.span)) {
            span = longer;
        }
        Ok((span, at.wrapping_sub(span.address() as i64)))
    }

    /// Returns true if places are displacements, not addresses.
    #[inline]
    pub(super) fn is_based(&self) -> bool {
        self.flavor != Flavor::Dynamic
    }

    /// Returns the address of this process's memory; 0 if it has none.
    pub(super) fn base(&self) -> usize {
        let span = self.targets[self.me() as usize].span().unwrap_or(Span::EMPTY);
        // An empty window of the program has the address that it gave.
        if span.len() == 0 && self.flavor != Flavor::Create { 0 } else { span.address() }
    }

    /// Returns the error of a process that has failed, if it is one of those that are asked for.
    pub(super) fn lost(&self, vci: &Vci, concerns: impl Fn(u32) -> bool) -> Option<Box<MpiError>> {
        let lost = loss(vci, self.core.group(), concerns)?;
        let text = format!("{}: the epoch of the window has failed; free the window", lost.cause);
        Some(MpiError::new(Class::PROC_FAILED, text))
    }

    /// Returns true if accumulations on the memory of a rank are the processor's.
    pub(super) fn is_direct(&self, rank: u32) -> bool {
        self.targets[rank as usize].agent == Agent::Processor
    }
}

/// Returns the failure of a process of a group, if it is one of the ranks that are asked for.
pub(super) fn loss(vci: &Vci, members: &Ranks, concerns: impl Fn(u32) -> bool) -> Option<Failure> {
    let rank = |f: &Failure| members.rank(vci.place_of_peer(&f.peer)?);
    vci.failed().into_iter().find(|f| rank(f).is_some_and(&concerns))
}

#[cold]
fn no_rank(rank: i32, n: usize) -> Box<MpiError> {
    MpiError::new(Class::RANK, format!("rank {rank} is not one of the {n} processes of the window"))
}

/// The windows of a process.
#[derive(Debug, Default)]
pub(crate) struct Wins {
    pub table: Table<Win, Window>,
    /// The window whose freeing has failed last, and its error handler.
    pub(super) freed: Option<(Win, Handler)>,
}

impl Wins {
    /// Returns a window.
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub(crate) fn get_mut(&mut self, win: Win) -> Result<&mut Window> {
        self.table.get_mut(win)
    }

    /// Returns a window.
    ///
    /// # Errors
    /// A bad handle.
    pub(crate) fn get(&self, win: Win) -> Result<&Window> {
        self.table.get(win)
    }

    /// The communicators of all windows.
    pub(crate) fn cores(&self) -> impl Iterator<Item = &CommCore> {
        self.table.iter().map(|(_, window)| &*window.core)
    }

    /// Serves the requests that have come to all windows.
    #[inline]
    pub(crate) fn serve(&mut self, vci: &mut Vci) {
        if !self.table.is_empty() {
            self.serve_all(vci);
        }
    }

    fn serve_all(&mut self, vci: &mut Vci) {
        for window in self.table.values_mut() {
            window.serve(vci);
        }
    }
}

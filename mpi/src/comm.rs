//! Communicators: a group of processes with contexts of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ch3_shim::Comm as Channel;

use crate::attr::Attrs;
use crate::coll::{LANES, Lane, NodeState};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Errhandler, Session, Table};
use crate::ranks::Ranks;
use crate::streams::CommStreams;
use crate::topo::Topology;

/// Tags of collective operations; higher ones belong to the making of communicators.
const TAGS: u32 = 1 << 30;
/// Tags of each half of them that no operation is given.
const RESERVED: u32 = LANES as u32;

/// The tag of the agreement on shared memory.
pub(crate) const SETUP_TAG: i32 = (TAGS / 2 - 1).cast_signed();

/// Returns the tag of the messages that wake a process in an operation of a lane.
pub(crate) fn wake_tag(lane: Lane) -> i32 {
    (TAGS - 1 - lane.index() as u32).cast_signed()
}

/// The part of a communicator that its messages need. Operations under way hold it, so that its
/// contexts are not given away while they last.
#[derive(Debug)]
pub(crate) struct CommCore {
    /// Context id in this process.
    pub id: u32,
    /// The name by which all of its processes know it, which another communicator of one of them
    /// hardly has. Agreements are ordered by it.
    pub name: u64,
    /// Channel of messages that leave.
    pub out: Channel,
    /// Channel of messages that come.
    pub inn: Channel,
    /// Channel of collective operations within the local group.
    pub coll: Channel,
    /// Channel of collective operations to the peers.
    pub coll_out: Channel,
    /// A number that no other communicator of the process has or had.
    pub serial: u64,
    me: u32,
    group: Arc<Ranks>,
    remote: Option<Arc<Ranks>>,
    /// The local group comes first, in an order that both groups know.
    first: bool,
    begun: Begun,
    /// The memory that its processes share for collective operations.
    pub node: NodeState,
    /// Number of the communicator's handle; 0 while it has none.
    handle: AtomicU32,
    /// The session that it was made of, or null.
    pub session: Session,
    revoked: AtomicBool,
}

/// The numbers of operations on a communicator that have begun.
#[derive(Debug)]
struct Begun {
    /// Collective operations: blocking calls, and those with requests.
    operations: [AtomicU32; 2],
    /// Agreements of the processes that live, also since the communicator was revoked.
    agreements: Arc<AtomicU32>,
}

impl Begun {
    /// Begins to count, for a communicator with this name.
    ///
    /// After a failure messages may come that nobody receives, and the context id is used again: so
    /// communicators hardly begin with the same tags.
    fn new(name: u64) -> Begun {
        let first = (name >> 32) as u32;
        Begun { operations: [AtomicU32::new(first), AtomicU32::new(first)], agreements: Arc::default() }
    }

    /// Returns the numbers for what stands for the communicator once it is revoked.
    fn of_revoked(&self) -> Begun {
        let count = |n: &AtomicU32| AtomicU32::new(n.load(Ordering::Relaxed));
        let operations = self.operations.each_ref().map(count);
        Begun { operations, agreements: Arc::clone(&self.agreements) }
    }
}

/// An agreed context id, and the name of what is made with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub id: u32,
    pub name: u64,
}

impl Agreed {
    /// The id of a communicator that is there from the beginning.
    pub(crate) fn from_start(id: u32) -> Agreed {
        Agreed { id, name: id.into() }
    }
}

/// Scrambles a number (the finalizer of SplitMix64).
fn scrambled(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Mixes a number into a name; either may be small.
fn mix(name: u64, number: u64) -> u64 {
    scrambled(scrambled(name) ^ number)
}

/// Returns the name of a communicator that was made of one with the name `parent`, in an operation
/// with this tag, and has this context id.
pub(crate) fn name_of(parent: u64, tag: i32, id: u32) -> u64 {
    mix(parent, u64::from(tag.cast_unsigned()) << 32 ^ u64::from(id))
}

/// Returns the name of an intercommunicator, by the ids of both groups.
///
/// An id is of one communicator in each of its processes. The other group's id may be that of
/// another one there, and so may both ids, the other way round. So `origin` differs for those that
/// have no process in the same group: it is the name of the intercommunicator that this one was
/// made of, or of the first process of the first group ([`crate::dynamic::among_jobs`]).
fn inter_name(origin: u64, [own, other]: [u32; 2], first: bool) -> u64 {
    let [one, two] = if first { [own, other] } else { [other, own] };
    mix(origin, u64::from(one) << 32 | u64::from(two))
}

fn new_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl CommCore {
    /// Creates the core of an intracommunicator, in which this process has the rank `me`.
    pub(crate) fn intra(agreed: Agreed, channels: [Channel; 2], group: Arc<Ranks>, me: u32) -> CommCore {
        let Agreed { id, name } = agreed;
        let [messages, coll] = channels;
        let (begun, node, handle) = (Begun::new(name), NodeState::default(), AtomicU32::new(0));
        CommCore {
            id,
            name,
            out: messages,
            inn: messages,
            coll,
            coll_out: coll,
            serial: new_serial(),
            me,
            group,
            remote: None,
            first: true,
            begun,
            node,
            handle,
            session: Session::NULL,
            revoked: AtomicBool::new(false),
        }
    }

    /// Creates the core of an intercommunicator, with the ids of both groups. Messages come in the
    /// channels `inn`, and leave in those of the remote group, `out`. `first`: the local group
    /// comes first, in an order that both groups know. `origin` is as [`inter_name`] wants it.
    pub(crate) fn inter(
        origin: u64,
        ids: [u32; 2],
        [inn, out]: [[Channel; 2]; 2],
        (group, me): (Arc<Ranks>, u32),
        remote: Arc<Ranks>,
        first: bool,
    ) -> CommCore {
        let ([inn, coll], [out, coll_out]) = (inn, out);
        let (id, name, remote) = (ids[0], inter_name(origin, ids, first), Some(remote));
        let (begun, node) = (Begun::new(name), NodeState::default());
        let (handle, session) = (AtomicU32::new(0), Session::NULL);
        let serial = new_serial();
        CommCore {
            id,
            name,
            out,
            inn,
            coll,
            coll_out,
            serial,
            me,
            group,
            remote,
            first,
            begun,
            node,
            handle,
            session,
            revoked: AtomicBool::new(false),
        }
    }

    /// Returns true if it was revoked, as far as this process knows.
    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// Notes that it was revoked, for the operations that are under way on it.
    pub(crate) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    /// Returns what stands for it once it is revoked: nothing can be started on it.
    pub(crate) fn unusable(&self) -> CommCore {
        let count = |n: &AtomicU32| AtomicU32::new(n.load(Ordering::Relaxed));
        CommCore {
            id: self.id,
            name: self.name,
            out: Channel::REVOKED,
            inn: Channel::REVOKED,
            coll: Channel::REVOKED,
            coll_out: Channel::REVOKED,
            serial: new_serial(),
            me: self.me,
            group: Arc::clone(&self.group),
            remote: self.remote.clone(),
            first: self.first,
            begun: self.begun.of_revoked(),
            node: NodeState::default(),
            handle: count(&self.handle),
            session: self.session,
            revoked: AtomicBool::new(true),
        }
    }

    /// Returns the number of the next agreement of its processes.
    pub(crate) fn next_agreement(&self) -> u32 {
        self.begun.agreements.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the handle of the communicator.
    pub(crate) fn set_handle(&self, comm: Comm) {
        self.handle.store(comm.0, Ordering::Relaxed);
    }

    /// The handle of the communicator, which may have been freed.
    pub(crate) fn handle(&self) -> Option<Comm> {
        Some(Comm(self.handle.load(Ordering::Relaxed))).filter(|comm| comm.0 != 0)
    }

    /// Notes in an error that it is one of this communicator.
    #[cold]
    pub(crate) fn raised(&self, error: Box<MpiError>) -> Box<MpiError> {
        raised(error, self.handle())
    }

    /// Returns the channel of collective operations to a process of either group.
    #[inline]
    pub(crate) fn coll_to(&self, place: u32) -> Channel {
        let is_remote = self.remote.as_ref().is_some_and(|remote| remote.rank(place).is_some());
        if is_remote { self.coll_out } else { self.coll }
    }

    /// This process's rank in the local group.
    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        self.me
    }

    /// Number of processes of the local group.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.group.size()
    }

    /// The local group.
    #[inline]
    pub(crate) fn group(&self) -> &Arc<Ranks> {
        &self.group
    }

    /// The remote group of an intercommunicator.
    #[inline]
    pub(crate) fn remote(&self) -> Option<&Arc<Ranks>> {
        self.remote.as_ref()
    }

    /// Returns true if the local group comes first in an order that both groups know.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// Returns true if it has processes of other jobs; `size` is the number of those of this one.
    pub(crate) fn spans_jobs(&self, size: u32) -> bool {
        self.others(size).next().is_some()
    }

    /// Iterates over the places of its processes of other jobs.
    pub(crate) fn others(&self, size: u32) -> impl Iterator<Item = u32> {
        let remote = self.remote.iter().flat_map(|remote| remote.places().iter());
        // Places of threads are high, too, and of this job.
        let all = if self.group.are_threads() { &[] } else { &**self.group.places() };
        all.iter().chain(remote).copied().filter(move |place| *place >= size)
    }

    /// The processes that messages go to.
    #[inline]
    pub(crate) fn peers(&self) -> &Ranks {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// Returns the tag of the next blocking collective operation.
    ///
    /// It is the same in all processes, since these begin them in the same order.
    #[inline]
    pub(crate) fn next_tag(&self) -> i32 {
        self.next_number(0).cast_signed()
    }

    /// Returns the tag of the next collective operation with a request.
    ///
    /// They do not match blocking ones, and programs exist that mix the order of both.
    #[inline]
    pub(crate) fn next_request_tag(&self) -> i32 {
        (TAGS / 2 + self.next_number(1)).cast_signed()
    }

    /// Counts an operation. One thread at a time begins one of a kind, so it is no atomic addition,
    /// which would wait for all stores before it.
    #[inline]
    fn next_number(&self, kind: usize) -> u32 {
        let number = self.begun.operations[kind].load(Ordering::Relaxed);
        self.begun.operations[kind].store(number.wrapping_add(1), Ordering::Relaxed);
        number % (TAGS / 2 - RESERVED)
    }

    /// Returns the tag of the making of a communicator by a part of the group, which the program
    /// tells apart by a tag of its own.
    pub(crate) fn group_tag(tag: i32) -> i32 {
        (TAGS | (tag.cast_unsigned() % TAGS)).cast_signed()
    }
}

/// Notes in an error that it is one of this communicator, unless it is one of another.
#[cold]
pub(crate) fn raised(mut error: Box<MpiError>, comm: Option<Comm>) -> Box<MpiError> {
    error.comm = error.comm.or(comm.map(|comm| comm.0));
    error
}

/// The communicator of a request: its handle, which costs nothing to keep, until it is freed.
#[derive(Clone, Debug)]
pub(crate) enum CommRef {
    Named(Comm),
    Held(Arc<CommCore>),
}

impl CommRef {
    /// Names the communicator of a call.
    #[inline]
    pub(crate) fn of_call(comm: Comm) -> CommRef {
        CommRef::Named(comm.in_tables())
    }

    /// Holds the communicator, if it is this one, since its handle names nothing from now on.
    pub(crate) fn hold(&mut self, comm: Comm, core: &Arc<CommCore>) {
        if matches!(self, CommRef::Named(named) if *named == comm) {
            *self = CommRef::Held(Arc::clone(core));
        }
    }

    /// Returns true if it is the communicator `core`.
    pub(crate) fn is(&self, core: &Arc<CommCore>) -> bool {
        match self {
            CommRef::Named(comm) => core.handle() == Some(*comm),
            CommRef::Held(held) => Arc::ptr_eq(held, core),
        }
    }

    /// The handle of the communicator, which may have been freed.
    pub(crate) fn handle(&self) -> Option<Comm> {
        match self {
            CommRef::Named(comm) => Some(*comm),
            CommRef::Held(core) => core.handle(),
        }
    }
}

/// A communicator.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub core: Arc<CommCore>,
    pub name: String,
    pub errhandler: Errhandler,
    pub attrs: Attrs,
    /// Hints, by key.
    pub hints: Vec<(String, String)>,
    pub topology: Option<Arc<Topology>>,
    /// The streams that it belongs to.
    pub streams: Option<Box<CommStreams>>,
    /// It is that with the processes that have asked for this job.
    pub is_parent: bool,
}

impl Communicator {
    pub(crate) fn new(core: CommCore, name: &str, errhandler: Errhandler) -> Communicator {
        Communicator::with_core(Arc::new(core), name, errhandler)
    }

    /// Makes one of a core that others may hold.
    pub(crate) fn with_core(core: Arc<CommCore>, name: &str, errhandler: Errhandler) -> Communicator {
        Communicator {
            core,
            name: name.to_owned(),
            errhandler,
            attrs: Attrs::default(),
            hints: Vec::new(),
            topology: None,
            streams: None,
            is_parent: false,
        }
    }
}

/// The communicators of a process.
pub(crate) type Comms = Table<Comm, Communicator>;

impl Comms {
    /// Returns the core of a communicator.
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub(crate) fn core(&self, comm: Comm) -> Result<Arc<CommCore>> {
        self.core_of(comm).map(Arc::clone)
    }

    /// Lends the core of a communicator.
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub(crate) fn core_of(&self, comm: Comm) -> Result<&Arc<CommCore>> {
        self.get(comm).map(|c| &c.core)
    }

    /// Returns true if it is the core of a communicator that was not freed.
    #[inline]
    pub(crate) fn have(&self, core: &Arc<CommCore>) -> bool {
        core.handle().and_then(|comm| self.find(comm)).is_some_and(|c| Arc::ptr_eq(&c.core, core))
    }

    /// Returns the core of a request's communicator.
    ///
    /// # Panics
    /// If a communicator was freed and its requests do not hold it.
    #[inline]
    pub(crate) fn of<'a>(&'a self, comm: &'a CommRef) -> &'a CommCore {
        let named = match comm {
            CommRef::Named(comm) => self.find(*comm).map(|c| &*c.core),
            CommRef::Held(core) => Some(&**core),
        };
        named.expect("requests hold a communicator that is freed")
    }

    /// Returns the core of a communicator whose ranks are processes.
    ///
    /// # Errors
    /// A bad handle, or that of a communicator of threads.
    pub(crate) fn process_core(&self, comm: Comm) -> Result<Arc<CommCore>> {
        let core = self.core(comm)?;
        if core.group.are_threads() {
            let text = format!(
                "the ranks of {:#010x} are threads (MPIX_Threadcomm_init), which have messages, collective operations, \
                 MPI_Comm_dup and MPI_Comm_split; give this call a communicator of processes",
                comm.0
            );
            return Err(MpiError::new(Class::COMM, text));
        }
        Ok(core)
    }

    /// Returns the core of an intracommunicator of processes.
    ///
    /// # Errors
    /// A bad handle, or that of an intercommunicator or of threads.
    pub(crate) fn intra_core(&self, comm: Comm) -> Result<Arc<CommCore>> {
        let core = self.process_core(comm)?;
        if core.remote.is_some() {
            let text = format!("{:#010x} is an intercommunicator; an intracommunicator is needed", comm.0);
            return Err(MpiError::new(Class::COMM, text));
        }
        Ok(core)
    }

    /// Returns the name by which errors call a communicator.
    pub(crate) fn title(&self, comm: Comm) -> String {
        match self.find(comm) {
            Some(c) if !c.name.is_empty() => c.name.clone(),
            _ => format!("communicator {:#010x}", comm.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A communicator of a model: its two groups, which are one in an intracommunicator, and ids.
    struct Made {
        groups: [Vec<u32>; 2],
        ids: [u32; 2],
    }

    /// Groups take the lowest id that is free in all their processes, and communicators are freed
    /// in any order.
    #[test]
    fn names_tell_the_communicators_of_a_process_apart_and_are_the_same_in_all() {
        const PROCESSES: u32 = 6;
        let mut random = 1u64;
        let mut below = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % n
        };
        let (mut taken, mut made) = (vec![HashSet::new(); PROCESSES as usize], Vec::<Made>::new());
        for _ in 0..3000 {
            if made.len() > 12 {
                let gone = made.swap_remove(below(made.len()));
                for (group, id) in gone.groups.iter().zip(gone.ids) {
                    for process in group {
                        taken[*process as usize].remove(&id);
                    }
                }
            }
            // A third of the processes is in none of both groups.
            let mut groups: [Vec<u32>; 2] = Default::default();
            for process in 0..PROCESSES {
                if let Some(group) = groups.get_mut(below(3)) {
                    group.push(process);
                }
            }
            if groups.iter().any(Vec::is_empty) {
                groups = [vec![0, 1, 2], vec![0, 1, 2]];
            }
            let mut take = |group: &Vec<u32>| {
                let id = (0..).find(|id| group.iter().all(|p| !taken[*p as usize].contains(id))).unwrap_or(0);
                for process in group {
                    taken[*process as usize].insert(id);
                }
                id
            };
            let own = take(&groups[0]);
            let ids = if groups[0] == groups[1] { [own; 2] } else { [own, take(&groups[1])] };
            made.push(Made { groups, ids });
            for process in 0..PROCESSES {
                let mut names = HashSet::new();
                for Made { groups: [a, b], ids: [x, y] } in &made {
                    let origin = u64::from(a[0]);
                    let seen = inter_name(origin, [*x, *y], true);
                    assert_eq!(inter_name(origin, [*y, *x], false), seen, "both groups have the same");
                    if a.contains(&process) || b.contains(&process) {
                        assert!(names.insert(seen), "{seen:x} is of two communicators");
                    }
                }
            }
        }
    }
}

//! Communicators: a group of processes with contexts of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ch3_shim::Comm as Channel;

use crate::attr::Attrs;
use crate::consts::{CONGRUENT, IDENT, MAX_OBJECT_NAME, SIMILAR, UNEQUAL};
use crate::error::{Class, MpiError, Result};
use crate::group;
use crate::handle::{Comm, Errhandler, Group, Handle as _, Info, Table};
use crate::instance::{Mpi, Objects};
use crate::ranks::Ranks;
use crate::topo::Topology;

/// Tags of collective operations; higher ones belong to the making of communicators.
const TAGS: u32 = 1 << 30;

/// The beginning of all keys of hints that MPI defines.
const STANDARD_HINTS: &str = "mpi_";

/// The part of a communicator that its messages need. Operations under way hold it, so that its
/// contexts are not given away while they last.
#[derive(Debug)]
pub(crate) struct CommCore {
    /// Context id in this process.
    pub id: u32,
    /// The number by which agreements are ordered, the same in all processes.
    pub order: u32,
    /// Channel of messages that leave.
    pub out: Channel,
    /// Channel of messages that come.
    pub inn: Channel,
    /// Channel of collective operations within the local group.
    pub coll: Channel,
    /// Channel of collective operations to the peers.
    pub coll_out: Channel,
    me: u32,
    group: Arc<Ranks>,
    remote: Option<Arc<Ranks>>,
    /// Collective operations that have begun: blocking calls, and those with requests.
    begun: [AtomicU32; 2],
    /// Number of the communicator's handle; 0 while it has none.
    handle: AtomicU32,
}

impl CommCore {
    /// Creates the core of an intracommunicator, in which this process has the rank `me`.
    pub(crate) fn intra(id: u32, channels: [Channel; 2], group: Arc<Ranks>, me: u32) -> CommCore {
        let [messages, coll] = channels;
        let (begun, handle) = (Default::default(), AtomicU32::new(0));
        CommCore {
            id,
            order: id,
            out: messages,
            inn: messages,
            coll,
            coll_out: coll,
            me,
            group,
            remote: None,
            begun,
            handle,
        }
    }

    /// Creates the core of an intercommunicator, with the ids of both groups. Messages come in the
    /// channels `inn`, and leave in those of the remote group, `out`.
    pub(crate) fn inter(
        [id, other]: [u32; 2],
        inn: [Channel; 2],
        out: [Channel; 2],
        group: Arc<Ranks>,
        me: u32,
        remote: Arc<Ranks>,
    ) -> CommCore {
        let ([inn, coll], [out, coll_out]) = (inn, out);
        let (order, remote) = (id.min(other), Some(remote));
        let (begun, handle) = (Default::default(), AtomicU32::new(0));
        CommCore { id, order, out, inn, coll, coll_out, me, group, remote, begun, handle }
    }

    /// Notes the handle of the communicator.
    pub(crate) fn set_handle(&self, comm: Comm) {
        self.handle.store(comm.0, Ordering::Relaxed);
    }

    /// The handle of the communicator, which may have been freed.
    pub(crate) fn handle(&self) -> Option<Comm> {
        Some(Comm(self.handle.load(Ordering::Relaxed))).filter(|comm| comm.0 != 0)
    }

    /// Notes in an error that it is one of this communicator, unless it is one of another.
    #[cold]
    pub(crate) fn raised(&self, mut error: Box<MpiError>) -> Box<MpiError> {
        error.comm = error.comm.or_else(|| self.handle().map(|comm| comm.0));
        error
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
        (self.begun[0].fetch_add(1, Ordering::Relaxed) % (TAGS / 2)).cast_signed()
    }

    /// Returns the tag of the next collective operation with a request.
    ///
    /// They do not match blocking ones, and programs exist that mix the order of both.
    #[inline]
    pub(crate) fn next_request_tag(&self) -> i32 {
        (TAGS / 2 + self.begun[1].fetch_add(1, Ordering::Relaxed) % (TAGS / 2)).cast_signed()
    }

    /// Returns the tag of the making of a communicator by a part of the group, which the program
    /// tells apart by a tag of its own.
    pub(crate) fn group_tag(tag: i32) -> i32 {
        (TAGS | (tag.cast_unsigned() % TAGS)).cast_signed()
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
}

impl Communicator {
    pub(crate) fn new(core: CommCore, name: &str, errhandler: Errhandler) -> Communicator {
        Communicator {
            core: Arc::new(core),
            name: name.to_owned(),
            errhandler,
            attrs: Attrs::default(),
            hints: Vec::new(),
            topology: None,
        }
    }
}

/// The communicators of a process.
pub(crate) type Comms = Table<Comm, Communicator>;

impl Objects {
    /// Returns the core of a communicator.
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub(crate) fn core(&self, comm: Comm) -> Result<Arc<CommCore>> {
        self.comms.get(comm).map(|c| Arc::clone(&c.core))
    }

    /// Returns the core of an intracommunicator.
    ///
    /// # Errors
    /// A bad handle, or that of an intercommunicator.
    pub(crate) fn intra_core(&self, comm: Comm) -> Result<Arc<CommCore>> {
        let core = self.core(comm)?;
        if core.remote.is_some() {
            let text = format!("{:#010x} is an intercommunicator; an intracommunicator is needed", comm.0);
            return Err(MpiError::new(Class::COMM, text));
        }
        Ok(core)
    }

    /// Returns the name by which errors call a communicator.
    pub(crate) fn comm_title(&self, comm: Comm) -> String {
        match self.comms.find(comm) {
            Some(c) if !c.name.is_empty() => c.name.clone(),
            _ => format!("communicator {:#010x}", comm.0),
        }
    }
}

impl Mpi {
    /// Returns this process's rank (`MPI_Comm_rank`).
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub fn comm_rank(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.rank().cast_signed()))
    }

    /// Returns the number of processes of the local group (`MPI_Comm_size`).
    ///
    /// # Errors
    /// A bad handle.
    #[inline]
    pub fn comm_size(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.size().cast_signed()))
    }

    /// Returns the number of processes of the remote group (`MPI_Comm_remote_size`).
    ///
    /// # Errors
    /// A bad handle, or that of an intracommunicator.
    pub fn comm_remote_size(&self, comm: Comm) -> Result<i32> {
        self.with(|s| Ok(remote(&s.objects, comm)?.size().cast_signed()))
    }

    /// Returns true for an intercommunicator (`MPI_Comm_test_inter`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_test_inter(&self, comm: Comm) -> Result<bool> {
        self.with(|s| Ok(s.objects.comms.get(comm)?.core.remote().is_some()))
    }

    /// Returns the local group (`MPI_Comm_group`), to be freed.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_group(&self, comm: Comm) -> Result<Group> {
        self.with(|s| {
            let core = s.objects.core(comm)?;
            s.objects.groups.insert(Arc::clone(core.group().places()))
        })
    }

    /// Returns the remote group (`MPI_Comm_remote_group`), to be freed.
    ///
    /// # Errors
    /// A bad handle, or that of an intracommunicator.
    pub fn comm_remote_group(&self, comm: Comm) -> Result<Group> {
        self.with(|s| {
            let remote = remote(&s.objects, comm)?;
            s.objects.groups.insert(Arc::clone(remote.places()))
        })
    }

    /// Compares two communicators (`MPI_Comm_compare`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_compare(&self, a: Comm, b: Comm) -> Result<i32> {
        self.with(|s| {
            let (x, y) = (s.objects.core(a)?, s.objects.core(b)?);
            if a == b {
                return Ok(IDENT);
            }
            let local = group::compare(x.group().places(), y.group().places());
            let both = match (x.remote(), y.remote()) {
                (None, None) => local,
                (Some(x), Some(y)) => worse(local, group::compare(x.places(), y.places())),
                _ => UNEQUAL,
            };
            // Two handles have different contexts.
            Ok(if both == IDENT { CONGRUENT } else { both })
        })
    }

    /// Sets the name of a communicator, which is cut at what MPI allows (`MPI_Comm_set_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_set_name(&self, comm: Comm, name: &str) -> Result<()> {
        self.with(|s| {
            let mut end = name.len().min(MAX_OBJECT_NAME - 1);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name[..end].clone_into(&mut s.objects.comms.get_mut(comm)?.name);
            Ok(())
        })
    }

    /// Returns the name of a communicator; empty if it has none (`MPI_Comm_get_name`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_name(&self, comm: Comm) -> Result<String> {
        // MPI names the null communicator, though it is none.
        if comm.is_null() {
            return Ok(Comm::NULL_NAME.to_owned());
        }
        self.with(|s| Ok(s.objects.comms.get(comm)?.name.clone()))
    }

    /// Returns the name of a communicator for the text of an error, also if it does not exist.
    pub fn comm_title(&self, comm: Comm) -> String {
        self.with(|s| Ok(s.objects.comm_title(comm)))
            .unwrap_or_else(|_| format!("communicator {:#010x}", comm.0))
    }

    /// Adds hints to a communicator (`MPI_Comm_set_info`). Keys that MPI does not define are
    /// ignored, as it wants it of keys that a library does not know.
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_set_info(&self, comm: Comm, info: Info) -> Result<()> {
        self.with(|s| {
            let pairs: Vec<_> = s.objects.infos.pairs(info)?.to_vec();
            let known = pairs.into_iter().filter(|(key, _)| key.starts_with(STANDARD_HINTS));
            let hints = &mut s.objects.comms.get_mut(comm)?.hints;
            for (key, value) in known {
                match hints.iter_mut().find(|(k, _)| *k == key) {
                    Some((_, old)) => *old = value,
                    None => hints.push((key, value)),
                }
            }
            Ok(())
        })
    }

    /// Returns the hints of a communicator as an info, to be freed (`MPI_Comm_get_info`).
    ///
    /// # Errors
    /// A bad handle.
    pub fn comm_get_info(&self, comm: Comm) -> Result<Info> {
        self.with(|s| {
            let hints = s.objects.comms.get(comm)?.hints.clone();
            let info = s.objects.infos.create()?;
            hints.iter().try_for_each(|(key, value)| s.objects.infos.set(info, key, value))?;
            Ok(info)
        })
    }

    /// Returns the communicator with the processes that have started this one: none
    /// (`MPI_Comm_get_parent`).
    ///
    /// # Errors
    /// None; the signature is that of all functions.
    pub fn comm_get_parent(&self) -> Result<Comm> {
        Ok(Comm::NULL)
    }
}

fn remote(objects: &Objects, comm: Comm) -> Result<Arc<Ranks>> {
    let core = objects.core(comm)?;
    core.remote().cloned().ok_or_else(|| {
        let text = format!("{:#010x} is an intracommunicator; an intercommunicator is needed", comm.0);
        MpiError::new(Class::COMM, text)
    })
}

/// Returns the lesser similarity of two.
fn worse(a: i32, b: i32) -> i32 {
    if [a, b].contains(&UNEQUAL) {
        UNEQUAL
    } else if [a, b].contains(&SIMILAR) {
        SIMILAR
    } else {
        IDENT
    }
}

//! The making and freeing of communicators.

use std::collections::HashSet;
use std::sync::Arc;

use ch3_shim::Vci;

use super::inter::other_id;
use super::session::PSETS;
use crate::buffers::Owner;
use crate::comm::{Agreed, CommCore, Communicator, name_of};
use crate::consts::{
    COMM_TYPE_HW_GUIDED, COMM_TYPE_HW_UNGUIDED, COMM_TYPE_NEIGHBORHOOD, COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED, UNDEFINED,
};
use crate::context::{Agreement, channels, own_channels};
use crate::dynamic::among_jobs;
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::exchange::{AndAll, GatherAll, Party};
use crate::handle::{Comm, Errhandler, Group, Info, Request};
use crate::instance::{Mpi, State};
use crate::objects::Objects;
use crate::ranks::Ranks;
use crate::request::Kind;
use crate::status::Status;
use crate::streams::CommStreams;
use crate::task::{Progress, Task};
use crate::wish::Wish;

/// A communicator whose context id is not agreed yet has these: nobody agrees on them.
const INCOMPLETE: u32 = 2048;
/// Key of an info that names a kind of hardware, and its value for shared memory.
const RESOURCE: &str = "mpi_hw_resource_type";
/// The key of an info that names a set of processes.
const PSET: &str = "mpi_pset_name";
/// The kinds of splits of `MPI_Comm_split_type`.
const SPLIT_TYPES: [i32; 6] = [
    COMM_TYPE_SHARED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_NEIGHBORHOOD,
    UNDEFINED,
];
const SHARED_MEMORY: &str = "mpi_shared_memory";

impl Objects {
    /// Adds a communicator with the error handler and the session of its parent.
    ///
    /// # Errors
    /// A parent that was freed meanwhile; too many communicators.
    pub(crate) fn add_comm(&mut self, parent: Comm, mut core: CommCore) -> Result<Comm> {
        let parent = self.comms.get(parent)?;
        let errhandler = parent.errhandler;
        core.session = parent.core.session;
        self.add_comm_with(errhandler, core)
    }

    /// Adds a communicator.
    ///
    /// # Errors
    /// A bad error handler; too many communicators.
    pub(crate) fn add_comm_with(&mut self, errhandler: Errhandler, core: CommCore) -> Result<Comm> {
        self.anytime.errhandlers().hold(errhandler)?;
        self.ft.note_made(&core);
        let comm = self.comms.insert(Communicator::new(core, "", errhandler))?;
        self.comms.get(comm)?.core.set_handle(comm);
        Ok(comm)
    }

    /// Gives a duplicate the streams of its parent.
    fn copy_streams(&mut self, from: Comm, to: Comm) -> Result<()> {
        let streams = self.comms.get(from)?.streams.as_ref().map(|streams| Box::new(streams.copy()));
        self.comms.get_mut(to)?.streams = streams;
        Ok(())
    }
}

impl State {
    /// Removes a communicator, whose attributes were deleted.
    fn drop_comm(&mut self, comm: Comm) -> Result<()> {
        let (core, handler) = self.retire(comm)?;
        self.objects.spares.forget(&core);
        self.objects.contexts.give_back(core, handler);
        self.leave_unused_jobs();
        Ok(())
    }

    /// Takes a communicator, whose attributes were deleted, out of its table; its core goes on.
    pub(super) fn retire(&mut self, comm: Comm) -> Result<(Arc<CommCore>, Handler)> {
        let State { objects, requests, .. } = self;
        let gone = objects.comms.remove(comm)?;
        requests.hold(comm, &gone.core);
        objects.ft.note_freed(&gone.core);
        let handler = objects.anytime.errhandlers().get(gone.errhandler)?;
        objects.anytime.errhandlers().release(gone.errhandler);
        objects.buffers.end(Owner::Comm(comm));
        Ok((gone.core, handler))
    }
}

/// A nonblocking duplication.
struct Duplication {
    stage: Stage,
    parent: Arc<CommCore>,
    /// Both groups of an intercommunicator, which tell each other their ids.
    both: Option<Party>,
    /// The communicator that is made.
    comm: Comm,
}

/// The stage of a duplication.
enum Stage {
    /// The local group agrees on an id.
    Agree(Agreement),
    /// Both groups tell each other theirs.
    Tell(u32, GatherAll),
}

impl Duplication {
    /// Goes as far as it can; true once the communicator is complete.
    fn go_on(&mut self, vci: &mut Vci, objects: &mut Objects) -> Result<bool> {
        if let Stage::Agree(agreement) = &mut self.stage {
            let agreed = match agreement.advance(vci, &mut objects.contexts) {
                Ok(Some(agreed)) => agreed,
                Ok(None) => return Ok(false),
                Err(e) => {
                    self.both.iter().for_each(|both| GatherAll::refuse(vci, both));
                    return Err(e);
                }
            };
            let id = agreed.id;
            match self.both.take() {
                Some(both) => {
                    self.stage = Stage::Tell(id, GatherAll::new(both, id.to_le_bytes().to_vec()));
                }
                None => return self.complete(vci, objects, agreed, id).map(|()| true),
            }
        }
        let Stage::Tell(id, told) = &mut self.stage else { return Ok(false) };
        let Some(ids) = told.advance(vci)? else { return Ok(false) };
        let (id, other) = (*id, other_id(&self.parent, *id, &ids));
        self.complete(vci, objects, Agreed::from_start(id), other).map(|()| true)
    }

    fn complete(&self, vci: &mut Vci, objects: &mut Objects, agreed: Agreed, other: u32) -> Result<()> {
        let core = like(vci, &self.parent, agreed, other)?;
        core.set_handle(self.comm);
        objects.ft.note_made(&core);
        objects.comms.get_mut(self.comm)?.core = Arc::new(core);
        Ok(())
    }
}

/// Makes the core of a communicator with the groups of another one.
fn like(vci: &mut Vci, parent: &CommCore, agreed: Agreed, other: u32) -> Result<CommCore> {
    let id = agreed.id;
    let (group, me) = (parent.group().for_another(parent.rank()), parent.rank());
    let mut core = match parent.remote() {
        Some(remote) => {
            let both = [channels(vci, id, remote)?, channels(vci, other, remote)?];
            CommCore::inter(
                parent.name,
                [id, other],
                both,
                (group, me),
                Arc::clone(remote),
                parent.is_first(),
            )
        }
        None => CommCore::intra(agreed, own_channels(vci, id, &group, me)?, group, me),
    };
    core.session = parent.session;
    Ok(core)
}

impl Task for Duplication {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        match self.go_on(vci, objects) {
            Ok(false) => Progress::Blocked,
            Ok(true) => Progress::Done(Ok(Status::EMPTY)),
            Err(e) => Progress::Done(Err(e)),
        }
    }

    fn core(&self) -> Option<&CommCore> {
        Some(&self.parent)
    }

    fn restart(&mut self, _: &mut Objects) -> Result<()> {
        Err(MpiError::new(Class::REQUEST, "a duplication is not persistent"))
    }
}

/// The part of a communicator that a process asks for.
enum Part {
    /// The processes of its node, the only kind of hardware that is known.
    Node,
    /// The processes of its job.
    Job,
    /// It alone.
    Process,
}

impl Part {
    /// Returns what a kind of split and an info ask for; `None` for nothing, or what is not known.
    fn wanted(split_type: i32, pairs: &[(String, String)]) -> Option<Part> {
        let of = |key| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let hardware = || (of(RESOURCE) == Some(SHARED_MEMORY)).then_some(Part::Node);
        match split_type {
            COMM_TYPE_SHARED | COMM_TYPE_HW_UNGUIDED => Some(Part::Node),
            COMM_TYPE_HW_GUIDED => hardware(),
            COMM_TYPE_RESOURCE_GUIDED => match of(PSET) {
                Some(name) if name == PSETS[0] => Some(Part::Job),
                Some(name) if name == PSETS[1] => Some(Part::Process),
                Some(_) => None,
                None => hardware(),
            },
            _ => None,
        }
    }
}

impl Mpi {
    /// Waits for an agreement.
    pub(crate) fn agree(&self, mut agreement: Agreement) -> Result<Agreed> {
        self.wait_until(|vci, objects, _| agreement.advance(vci, &mut objects.contexts).transpose())
    }

    /// Returns the records of all members of a party.
    pub(crate) fn gather_records(&self, party: Party, record: Vec<u8>) -> Result<Vec<u8>> {
        let mut gathering = GatherAll::new(party, record);
        self.wait_until(|vci, _, _| gathering.advance(vci).transpose())
    }

    /// Makes an intracommunicator of an agreed id, in which this process is.
    pub(crate) fn make(&self, parent: Comm, agreed: Agreed, group: Arc<Ranks>, me: u32) -> Result<Comm> {
        self.with(|s| {
            let channels = own_channels(&mut s.dev, agreed.id, &group, me)?;
            s.objects.add_comm(parent, CommCore::intra(agreed, channels, group, me))
        })
    }

    /// Duplicates a communicator with its attributes (`MPI_Comm_dup`).
    ///
    /// # Errors
    /// A bad handle; what a copy function returns; no context id.
    pub fn comm_dup(&self, comm: Comm) -> Result<Comm> {
        let (new, mut request) = self.start_dup(comm)?;
        // Attributes only then, since the others would wait for one whose copy function fails.
        let end = self.wait(&mut request).and_then(|_| {
            let copies = self.copied_attrs(comm)?;
            self.with(|s| s.objects.adopt_attrs(new, copies))
        });
        if let Err(e) = end {
            self.with(|s| s.drop_comm(new))?;
            return Err(e);
        }
        Ok(new)
    }

    /// Starts to duplicate a communicator without its attributes. It is a task even if the caller
    /// waits, so that each thread that polls advances it.
    fn start_dup(&self, comm: Comm) -> Result<(Comm, Request)> {
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let parent = objects.comms.core(comm)?;
            let core = like(dev, &parent, Agreed::from_start(INCOMPLETE), INCOMPLETE)?;
            let new = objects.add_comm(comm, core)?;
            objects.copy_topology(comm, new)?;
            objects.copy_streams(comm, new)?;
            let takes = parent.group().leads(parent.rank(), |_| true);
            let stage = Stage::Agree(Agreement::new(Party::of_all(&parent), takes));
            let both = parent.remote().map(|remote| Party::of_both(&parent, remote));
            let task = Duplication { stage, parent, both, comm: new };
            let request = requests.insert(Kind::Task(Some(Box::new(task))))?;
            Ok((new, request))
        })
    }

    /// Duplicates a communicator without its attributes, for streams.
    ///
    /// # Errors
    /// A bad handle; no context id.
    pub(super) fn dup_for(&self, comm: Comm, streams: CommStreams) -> Result<Comm> {
        let (new, mut request) = self.start_dup(comm)?;
        if let Err(e) = self.wait(&mut request) {
            self.with(|s| s.drop_comm(new))?;
            return Err(e);
        }
        self.with(|s| {
            s.objects.comms.get_mut(new)?.streams = Some(Box::new(streams));
            Ok(new)
        })
    }

    /// Duplicates a communicator, with hints (`MPI_Comm_dup_with_info`).
    ///
    /// # Errors
    /// As [`Mpi::comm_dup`]; a bad info.
    pub fn comm_dup_with_info(&self, comm: Comm, info: Info) -> Result<Comm> {
        self.with(|s| s.objects.anytime.infos().pairs(info).map(|_| ()))?;
        let new = self.comm_dup(comm)?;
        self.comm_set_info(new, info)?;
        Ok(new)
    }

    /// Starts to duplicate a communicator (`MPI_Comm_idup`), which may be used when the request is
    /// over. Attributes are copied at once.
    ///
    /// # Errors
    /// A bad handle; what a copy function returns.
    pub fn comm_idup(&self, comm: Comm) -> Result<(Comm, Request)> {
        let copies = self.copied_attrs(comm)?;
        let (new, request) = self.start_dup(comm)?;
        self.with(|s| s.objects.adopt_attrs(new, copies))?;
        Ok((new, request))
    }

    /// Starts to duplicate a communicator, with hints (`MPI_Comm_idup_with_info`).
    ///
    /// # Errors
    /// As [`Mpi::comm_idup`]; a bad info.
    pub fn comm_idup_with_info(&self, comm: Comm, info: Info) -> Result<(Comm, Request)> {
        self.with(|s| s.objects.anytime.infos().pairs(info).map(|_| ()))?;
        let (new, request) = self.comm_idup(comm)?;
        self.comm_set_info(new, info)?;
        Ok((new, request))
    }

    /// Makes communicators of those processes that give the same color, in the order of keys
    /// (`MPI_Comm_split`). Null for a process with the color [`UNDEFINED`], and for one of an
    /// intercommunicator whose color nobody in the other group gives.
    ///
    /// # Errors
    /// A bad handle or color; no context id.
    pub fn comm_split(&self, comm: Comm, color: i32, key: i32) -> Result<Comm> {
        if color < 0 && color != UNDEFINED {
            let text = format!("color is {color}; it is 0 or more, or MPI_UNDEFINED ({UNDEFINED})");
            return Err(MpiError::new(Class::ARG, text));
        }
        let core = self.with(|s| s.objects.comms.core(comm))?;
        let wish = Wish { color: u64::try_from(color).ok(), key };
        if core.remote().is_some() {
            return self.split_inter(comm, &core, wish);
        }
        let wishes = self.wishes(&core, wish)?;
        self.split(comm, &core, wish.color, &wishes)
    }

    fn wishes(&self, core: &Arc<CommCore>, own: Wish) -> Result<Vec<Wish>> {
        let records = self.gather_records(Party::of_all(core), own.emit());
        if records.is_err() {
            self.refuse_agreement(&Party::of_all(core))?;
        }
        records.map(|records| Wish::parse(&records))
    }

    /// Lets the others, which may go on to an agreement, know that this process has failed.
    pub(super) fn refuse_agreement(&self, party: &Party) -> Result<()> {
        self.with(|s| {
            AndAll::refuse(&mut s.dev, party);
            Ok(())
        })
    }

    /// Lets the others, which may go on to gather records, know that this process has failed.
    pub(crate) fn refuse_records(&self, party: &Party) -> Result<()> {
        self.with(|s| {
            GatherAll::refuse(&mut s.dev, party);
            Ok(())
        })
    }

    fn split(&self, comm: Comm, core: &Arc<CommCore>, color: Option<u64>, wishes: &[Wish]) -> Result<Comm> {
        let group = core.group();
        let takes_part = |rank: u32| wishes.get(rank as usize).is_some_and(|wish| wish.color.is_some());
        let takes = color.is_some() && group.leads(core.rank(), takes_part);
        let mut agreed = self.agree(Agreement::new(Party::of_all(core), takes))?;
        let Some(chosen) = color else { return Ok(Comm::NULL) };
        if group.are_threads() {
            // A process may be in several of them, and names tell its communicators apart.
            agreed.name = name_of(agreed.name, 0, chosen as u32);
        }
        let places = Wish::places(wishes, color, core.group());
        let sharers = group.siblings(core.rank()).filter(|rank| takes_part(*rank)).count() as u32;
        let own = core.group().place(core.rank());
        let me = places.iter().position(|p| Some(*p) == own).unwrap_or(0) as u32;
        let is_of_threads = group.are_threads();
        let ranks = if is_of_threads { Ranks::of_threads(places, sharers) } else { Ranks::new(places) };
        self.make(comm, agreed, Arc::new(ranks), me)
    }

    /// Makes communicators of processes that share hardware (`MPI_Comm_split_type`). Null for a
    /// process that asks for nothing, or where the communicator cannot be split further.
    ///
    /// # Errors
    /// As [`Mpi::comm_split`]; a kind that MPI does not have.
    pub fn comm_split_type(&self, comm: Comm, split_type: i32, key: i32, info: Info) -> Result<Comm> {
        if !SPLIT_TYPES.contains(&split_type) {
            let text = format!("split_type is {split_type}; it is one of MPI_COMM_TYPE_ or MPI_UNDEFINED");
            return Err(MpiError::new(Class::ARG, text));
        }
        let (core, color) = self.with(|s| {
            let State { dev, objects, .. } = s;
            let core = objects.comms.core(comm)?;
            let infos = objects.anytime.infos();
            let (rank, spans) = (dev.rank(), core.spans_jobs(dev.size()));
            let color = match Part::wanted(split_type, infos.pairs(info)?) {
                None => None,
                // Jobs number their nodes apart, and share no memory.
                Some(Part::Node | Part::Process) if spans => Some(among_jobs(dev, rank)),
                Some(Part::Job) if spans => Some(among_jobs(dev, 0)),
                Some(Part::Node) => Some(dev.node_of(rank)?),
                Some(Part::Process) => Some(u64::from(rank)),
                Some(Part::Job) => Some(0),
            };
            Ok((core, color))
        })?;
        if let Some(remote) = core.remote() {
            let mut places = core.group().places().iter().chain(remote.places().iter());
            let further = split_type != COMM_TYPE_HW_UNGUIDED
                || self.with(|s| {
                    if core.spans_jobs(s.dev.size()) {
                        return Ok(true);
                    }
                    let first = places.next().map(|p| s.dev.node_of(*p)).transpose()?;
                    let mut is_same = true;
                    for place in places {
                        is_same &= Some(s.dev.node_of(*place)?) == first;
                    }
                    Ok(!is_same)
                })?;
            return self.split_inter(comm, &core, Wish { color: color.filter(|_| further), key });
        }
        let wishes = self.wishes(&core, Wish { color, key })?;
        let nodes: HashSet<u64> = wishes.iter().filter_map(|w| w.color).collect();
        let further = split_type != COMM_TYPE_HW_UNGUIDED || nodes.len() > 1;
        self.split(comm, &core, color.filter(|_| further), &wishes)
    }

    /// Returns the kinds of hardware by which communicators are split, each with "true" since this
    /// process is in one of them, as an info to be freed (`MPI_Get_hw_resource_info`).
    ///
    /// # Errors
    /// If there are too many infos.
    pub fn get_hw_resource_info(&self) -> Result<Info> {
        self.with(|s| {
            let known = vec![(SHARED_MEMORY.to_owned(), "true".to_owned())];
            s.objects.anytime.infos().create_of(known)
        })
    }

    /// Returns the places of a group that is part of a communicator, and this process's rank in it.
    fn part_of(&self, core: &CommCore, group: Group) -> Result<(Arc<[u32]>, Option<u32>)> {
        self.with(|s| {
            let places = Arc::clone(s.objects.groups.members(group)?);
            if let Some(alien) = places.iter().position(|p| core.group().rank(*p).is_none()) {
                let text = format!(
                    "rank {alien} of the group is not in the communicator; make a group of its processes"
                );
                return Err(MpiError::new(Class::GROUP, text));
            }
            let me = s.dev.rank();
            let rank = places.iter().position(|p| *p == me).map(|r| r as u32);
            Ok((places, rank))
        })
    }

    /// Makes a communicator of a part of the processes; all call it (`MPI_Comm_create`). Null for a
    /// process that is not in the group.
    ///
    /// # Errors
    /// A bad handle; a group that is not part of the communicator; no context id.
    pub fn comm_create(&self, comm: Comm, group: Group) -> Result<Comm> {
        let core = self.with(|s| s.objects.comms.process_core(comm))?;
        let (places, rank) = self.part_of(&core, group)?;
        if core.remote().is_some() {
            let wish = Wish { color: rank.map(|_| 0), key: rank.unwrap_or(0).cast_signed() };
            return self.split_inter(comm, &core, wish);
        }
        let agreed = self.agree(Agreement::new(Party::of_all(&core), rank.is_some()))?;
        match rank {
            Some(me) => self.make(comm, agreed, Arc::new(Ranks::new(places)), me),
            None => Ok(Comm::NULL),
        }
    }

    /// Makes a communicator of a part of the processes, which alone call it
    /// (`MPI_Comm_create_group`).
    ///
    /// # Errors
    /// As [`Mpi::comm_create`]; a bad tag.
    pub fn comm_create_group(&self, comm: Comm, group: Group, tag: i32) -> Result<Comm> {
        if tag < 0 {
            let text = format!("tag is {tag}; it must be 0 or more");
            return Err(MpiError::new(Class::TAG, text));
        }
        let core = self.with(|s| s.objects.comms.intra_core(comm))?;
        let (places, rank) = self.part_of(&core, group)?;
        let Some(me) = rank else { return Ok(Comm::NULL) };
        let party = Party {
            core: Arc::clone(&core),
            places: Arc::clone(&places),
            me: me as usize,
            tag: CommCore::group_tag(tag),
        };
        let agreed = self.agree(Agreement::new(party, true))?;
        self.make(comm, agreed, Arc::new(Ranks::new(places)), me)
    }

    /// Frees a communicator and sets the handle to null (`MPI_Comm_free`). Operations on it that
    /// are under way end as usual.
    ///
    /// # Errors
    /// A bad or predefined handle; what the function that deletes an attribute returns: then it is
    /// not freed.
    pub fn comm_free(&self, comm: &mut Comm) -> Result<()> {
        if [Comm::WORLD, Comm::SELF].contains(comm) {
            let text =
                format!("{} cannot be freed; free communicators that were made", self.comm_title(*comm));
            return Err(MpiError::new(Class::COMM, text));
        }
        if self.regions().get_mut(*comm).is_ok() {
            let text = format!("the ranks of {:#010x} are threads; MPIX_Threadcomm_free frees it", comm.0);
            return Err(MpiError::new(Class::COMM, text));
        }
        self.delete_all_attrs(*comm)?;
        self.with(|s| s.drop_comm(*comm))?;
        *comm = Comm::NULL;
        Ok(())
    }
}

//! The making and freeing of windows, by all processes of a group.

use std::array;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ch3_shim::Vci;
use ch3_shim::shared_memory::{SharedMemory, Ticket};

use super::control::{self, Control};
use super::directory::{self, Attachments, Directory, Parts};
use super::epoch::Epochs;
use super::memory::Span;
use super::moves::raised;
use super::object::{Flavor, LateLock, Target, Window, loss};
use super::queue::Server;
use super::reach::{self, Agent, Reach, Told};
use crate::accelerator;
use crate::allocated::Place;
use crate::attr::Attrs;
use crate::comm::CommCore;
use crate::context::{Agreement, channels};
use crate::datatype::Buf;
use crate::dynamic::among_jobs;
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::exchange::Party;
use crate::handle::{Comm, Errhandler, Info, Win};
use crate::instance::{Mpi, State};

/// Bytes of a page, at whose beginning allocated memory of a process lies.
const PAGE: usize = 4096;
/// Bytes that the memory of a node has before what this module uses, in a page.
const BEFORE: usize = 64;

/// Longest wait for the news that a process has ended, whose memory is not there.
const NEWS: Duration = Duration::from_secs(2);

/// Words of a process's record: what the others are to know of it.
const RECORD: usize = 4 + reach::WORDS;
/// Words that tell how memory of a node was made: class of the failure, and a ticket.
const OFFER: usize = 3;

/// Exchanges by which a window is made: the agreement on a context, and four that gather words.
const EXCHANGES: usize = 5;

/// The exchanges that are still to come while a window is made.
///
/// All are on the communicator that it is made of, and their tags are taken before the first one.
/// So a process in which one has failed can refuse the next one, to which others may go on.
struct Exchanges(array::IntoIter<Party, EXCHANGES>);

impl Exchanges {
    fn of(parent: &Arc<CommCore>) -> Exchanges {
        Exchanges(array::from_fn(|_| Party::of_all(parent)).into_iter())
    }

    fn next(&mut self) -> Result<Party> {
        self.0.next().ok_or_else(no_exchange)
    }
}

/// The arguments of a call that makes a window.
struct Wanted {
    flavor: Flavor,
    /// Memory of the program.
    base: Option<Buf>,
    size: i64,
    unit: i64,
    hints: Vec<(String, String)>,
}

/// A process, as all know it.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Class of the failure of its arguments; 0 is none.
    class: i32,
    /// The node whose memory it shares.
    node: Option<u64>,
    size: u64,
    unit: i64,
    /// True if its memory follows that of the process before it without a gap.
    joined: bool,
    /// Memory of the program.
    told: Option<Told>,
}

/// The memory of a node, as far as it concerns a window.
#[derive(Debug)]
struct Plan {
    /// Ranks of its processes, the one that makes the memory first.
    ranks: Vec<u32>,
    /// Places of their memory; in a dynamic window that of their directories.
    places: Vec<usize>,
    /// All bytes.
    bytes: usize,
}

impl Plan {
    /// Lays out the memory of the node of process `me`.
    ///
    /// # Errors
    /// More memory than addresses.
    fn of(members: &[Member], me: usize, flavor: Flavor) -> Result<Plan> {
        let is_near = |rank: &usize| {
            *rank == me || members[*rank].node.is_some() && members[*rank].node == members[me].node
        };
        let ranks: Vec<usize> = (0..members.len()).filter(is_near).collect();
        let start = (ranks.len() * control::BYTES + BEFORE).next_multiple_of(PAGE) - BEFORE;
        let allocates = matches!(flavor, Flavor::Allocate | Flavor::Shared);
        let joined = flavor == Flavor::Shared && ranks.iter().all(|rank| members[*rank].joined);
        let too_large =
            || MpiError::new(Class::NO_MEM, "the window's memory is larger than an address space");
        let (mut end, mut places) = (start, Vec::with_capacity(ranks.len()));
        for rank in &ranks {
            places.push(end);
            let size = if allocates { members[*rank].size } else { 0 };
            let size = usize::try_from(size).ok().filter(|size| *size <= isize::MAX as usize);
            let size = size.ok_or_else(too_large)?;
            let size = if joined { Some(size) } else { size.checked_next_multiple_of(PAGE) };
            end = size.and_then(|size| end.checked_add(size)).ok_or_else(too_large)?;
        }
        if flavor == Flavor::Dynamic {
            end += ranks.len() * directory::BYTES;
        }
        let bytes = end.checked_next_multiple_of(8).filter(|n| *n <= isize::MAX as usize / 2);
        let ranks = ranks.into_iter().map(|rank| rank as u32).collect();
        Ok(Plan { ranks, places, bytes: bytes.ok_or_else(too_large)? })
    }
}

fn words(record: &[i64]) -> Vec<u8> {
    record.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn read(record: &[u8]) -> Vec<i64> {
    record.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

#[cold]
fn no_exchange() -> Box<MpiError> {
    MpiError::new(Class::INTERN, "a window is made by more exchanges than it has")
}

/// Keeps a context id from being used again if messages may still come there that nobody receives.
fn keep_context(core: &CommCore, e: &MpiError) {
    if matches!(e.class, Class::PROC_FAILED | Class::REVOKED) {
        core.set_revoked();
    }
}

/// Returns the error that one process's failure is for another.
#[cold]
fn failed_elsewhere(rank: usize, class: i32) -> Box<MpiError> {
    let text =
        format!("the window is not made, since rank {rank} of the group has failed; its error says why");
    MpiError::new(Class(class), text)
}

fn is_true(hints: &[(String, String)], key: &str) -> bool {
    hints.iter().any(|(k, v)| k == key && v == "true")
}

impl Wanted {
    fn check(&self) -> Result<()> {
        if self.size < 0 {
            let text = format!("the size of the window's memory is {}, and less than 0", self.size);
            return Err(MpiError::new(Class::SIZE, text));
        }
        if self.unit <= 0 {
            let text = format!("the displacement unit is {} bytes; give 1 or more", self.unit);
            return Err(MpiError::new(Class::DISP, text));
        }
        if self.base.is_some_and(|base| base.base().is_null()) && self.size > 0 {
            let text = format!("the address of the window's {} bytes is NULL", self.size);
            return Err(MpiError::new(Class::ARG, text));
        }
        match self.base.filter(|_| self.size > 0) {
            Some(base) => accelerator::check(base.base()),
            None => Ok(()),
        }
    }
}

impl Mpi {
    /// Makes the group of a window, with a context of its own.
    fn win_core(&self, parent: &CommCore, exchanges: &mut Exchanges) -> Result<Arc<CommCore>> {
        let core = self.agree(Agreement::new(exchanges.next()?, true)).and_then(|agreed| {
            self.with(|s| {
                let channels = channels(&mut s.dev, agreed.id, parent.group())?;
                Ok(CommCore::intra(agreed, channels, Arc::clone(parent.group()), parent.rank()))
            })
        });
        if core.is_err() {
            self.refuse_next(exchanges)?;
        }
        core.map(Arc::new)
    }

    /// Lets the others, which may go on to the next exchange, know that this process has failed.
    fn refuse_next(&self, exchanges: &mut Exchanges) -> Result<()> {
        exchanges.0.next().map_or(Ok(()), |party| self.refuse_records(&party))
    }

    /// Gathers everybody's words by the next exchange.
    fn gather_words(&self, exchanges: &mut Exchanges, own: &[i64]) -> Result<Vec<Vec<i64>>> {
        let record = words(own);
        let len = record.len();
        let all = self.gather_records(exchanges.next()?, record);
        if all.is_err() {
            self.refuse_next(exchanges)?;
        }
        Ok(all?.chunks_exact(len).map(read).collect())
    }

    /// Makes a window in all processes of a communicator.
    fn make_win(&self, comm: Comm, wanted: Wanted) -> Result<Win> {
        let parent = self.with(|s| s.objects.comms.intra_core(comm))?;
        let mut exchanges = Exchanges::of(&parent);
        let core = self.win_core(&parent, &mut exchanges)?;
        let made = self.make_on(&core, &mut exchanges, wanted);
        if let Err(e) = &made {
            self.with(|s| {
                keep_context(&core, e);
                s.objects.contexts.give_back(core, Handler::Return);
                Ok(())
            })?;
        }
        made
    }

    fn make_on(&self, core: &Arc<CommCore>, exchanges: &mut Exchanges, wanted: Wanted) -> Result<Win> {
        let own = wanted.check();
        let node = self.with(|s| Ok(own_node(&mut s.dev, core)));
        let class = own.as_ref().map_or_else(|e| e.class.0, |()| 0);
        let joined = !is_true(&wanted.hints, "alloc_shared_noncontig");
        let (has_node, node) = node?.map_or((0, 0), |node| (1, node.cast_signed()));
        let place = wanted.base.and_then(|base| self.place_of(&base, wanted.size));
        let mut record = [0; RECORD];
        record[0] = i64::from(class) << 2 | i64::from(joined) << 1 | has_node;
        record[1..4].copy_from_slice(&[node, wanted.size, wanted.unit]);
        let base = wanted.base.filter(|_| wanted.size > 0);
        let told = base.and_then(|base| Told::of(base.base().expose_provenance(), place.as_ref()));
        record[4..].copy_from_slice(&Told::words(told));
        let all = self.gather_words(exchanges, &record)?;
        let members: Vec<Member> = all.iter().map(|words| Member::of(words)).collect();
        own?;
        if let Some(rank) = members.iter().position(|member| member.class != 0) {
            return Err(failed_elsewhere(rank, members[rank].class));
        }
        if wanted.flavor == Flavor::Shared && !same_node(&members) {
            let text = "the processes of the communicator do not share memory: split it by MPI_Comm_split_type with \
                        MPI_COMM_TYPE_SHARED, or use MPI_Win_allocate";
            return Err(MpiError::new(Class::RMA_SHARED, text));
        }
        let (plan, memory) = self.node_memory(core, exchanges, &members, wanted.flavor)?;
        let own = place.map(|place| place.memory);
        let memory = (memory.map(Arc::new), own);
        self.win_made(core, exchanges, wanted, &members, plan, memory)
    }

    /// Returns the place of `size` bytes of the program, if others of the node can open them.
    pub(super) fn place_of(&self, memory: &Buf, size: i64) -> Option<Place> {
        let len = usize::try_from(size).ok().filter(|len| *len > 0)?;
        self.anytime().allocated().find(memory.base().expose_provenance(), len)
    }

    /// Makes or opens the memory of this process's node.
    fn node_memory(
        &self,
        core: &CommCore,
        exchanges: &mut Exchanges,
        members: &[Member],
        flavor: Flavor,
    ) -> Result<(Plan, Option<SharedMemory>)> {
        let me = core.rank() as usize;
        let plan = Plan::of(members, me, flavor);
        // A process that is alone and allocates nothing needs no shared memory.
        let needs = |plan: &Plan| plan.ranks.len() > 1 || matches!(flavor, Flavor::Allocate | Flavor::Shared);
        let leads = |plan: &Plan| plan.ranks[0] as usize == me && needs(plan);
        let made = match &plan {
            Ok(plan) if leads(plan) => {
                SharedMemory::create(plan.bytes).map(Some).map_err(|e| no_memory(plan.bytes, &e))
            }
            Ok(_) => Ok(None),
            Err(e) => Err(e.clone()),
        };
        let mut offer = [0; OFFER];
        offer[0] = made.as_ref().map_or_else(|e| e.class.0.into(), |_| 0);
        if let Some(ticket) = made.as_ref().ok().and_then(|made| made.as_ref()?.ticket()) {
            offer[1..].copy_from_slice(&read(&ticket.to_bytes()));
        }
        let offers = self.gather_words(exchanges, &offer)?;
        let (plan, mut memory) = (plan?, made?);
        let failed = |all: &[Vec<i64>]| {
            let rank = all.iter().position(|words| words[0] != 0)?;
            Some(failed_elsewhere(rank, all[rank][0] as i32))
        };
        if let Some(e) = failed(&offers) {
            return Err(e);
        }
        let mut opened = Ok(());
        if memory.is_none() && needs(&plan) {
            match self.open(core, &offers[plan.ranks[0] as usize][1..], plan.bytes) {
                Ok(shared) => memory = Some(shared),
                Err(e) => opened = Err(e),
            }
        }
        let done =
            self.gather_words(exchanges, &[opened.as_ref().map_or_else(|e| e.class.0.into(), |()| 0)])?;
        opened?;
        if let Some(e) = failed(&done) {
            return Err(e);
        }
        if let Some(memory) = &mut memory {
            memory.close();
        }
        Ok((plan, memory))
    }

    /// Opens the memory that another process of the node has made.
    fn open(&self, core: &CommCore, ticket: &[i64], bytes: usize) -> Result<SharedMemory> {
        let ticket = words(ticket).first_chunk().copied().unwrap_or([0; Ticket::LEN]);
        SharedMemory::open(&Ticket::from_bytes(ticket), bytes).or_else(|e| {
            // Its memory is gone with a process; the news of that may be under way.
            let deadline = Some(Instant::now() + NEWS).filter(|_| e.kind() == ErrorKind::NotFound);
            let lost = |vci: &mut Vci, _: &mut _| {
                let lost = loss(vci, core.group(), |_| true)?;
                Some(Ok(MpiError::new(Class::PROC_FAILED, format!("{}: there is no window", lost.cause))))
            };
            let lost = deadline.map_or(Ok(None), |deadline| self.wait_until_time(Some(deadline), lost))?;
            Err(lost.unwrap_or_else(|| no_memory(bytes, &e)))
        })
    }

    /// Adds a window whose memory is there.
    fn win_made(
        &self,
        core: &Arc<CommCore>,
        exchanges: &mut Exchanges,
        wanted: Wanted,
        members: &[Member],
        plan: Plan,
        (memory, own): (Option<Arc<SharedMemory>>, Option<Arc<SharedMemory>>),
    ) -> Result<Win> {
        let is_dynamic = wanted.flavor == Flavor::Dynamic;
        let directory = memory.as_ref().filter(|_| is_dynamic);
        let directory = directory.map(|memory| Directory::new(Arc::clone(memory), plan.places[0]));
        let control = match &memory {
            Some(memory) => Control::Shared(Arc::clone(memory), 0),
            None => Control::own(),
        };
        let me = core.rank();
        let neighbours: HashMap<u32, usize> =
            plan.ranks.iter().enumerate().map(|(i, rank)| (*rank, i)).collect();
        let mut kept: Vec<_> = memory.iter().cloned().chain(own).collect();
        let target = |(rank, member): (usize, &Member)| {
            let rank = rank as u32;
            let neighbour = neighbours.get(&rank).copied();
            let parts = neighbour.map(|process| Box::new(Parts::of(process, rank)));
            let own = wanted.base.filter(|_| rank == me);
            let reach = match (wanted.flavor, own, neighbour) {
                (Flavor::Create, Some(base), _) => Reach::Memory(Span::of_program(&base, member.size)),
                (Flavor::Create, None, Some(_)) => {
                    let (reach, opened) = member
                        .told
                        .map_or((Reach::Requests, None), |told| told.reach(rank, member.size, reach::open));
                    kept.extend(opened);
                    reach
                }
                (Flavor::Allocate | Flavor::Shared, _, Some(n)) => {
                    memory.as_ref().map_or(Reach::Requests, |memory| {
                        Reach::Memory(Span::of_shared(memory, plan.places[n], member.size as usize))
                    })
                }
                _ => Reach::Requests,
            };
            Target {
                reach,
                agent: match wanted.flavor {
                    Flavor::Create => Told::agent(member.told),
                    // Accumulations on attached memory exclude each other so, even at the target.
                    _ => Agent::Processor,
                },
                parts: parts.filter(|_| is_dynamic && rank != me),
                network: reach::Network::default(),
                size: member.size,
                unit: member.unit,
                neighbour,
                late: LateLock::None,
                pending: VecDeque::new(),
                is_dirty: false,
                failure: None,
            }
        };
        let targets: Vec<Target> = members.iter().enumerate().map(target).collect();
        let n = targets.len();
        let mut window = Window {
            core: Arc::clone(core),
            handle: Win::NULL,
            flavor: wanted.flavor,
            name: String::new(),
            errhandler: Errhandler::ARE_FATAL,
            attrs: Attrs::default(),
            hints: wanted.hints,
            targets,
            neighbours: plan.ranks,
            control: Arc::new(control),
            memory: kept.into(),
            epochs: Epochs::new(n),
            attached: Attachments { all: Vec::new(), directory },
            server: Server::default(),
            sent: 0,
            told: Box::default(),
        };
        let mut all_want = false;
        if !same_node(members) && window.flavor != Flavor::Dynamic {
            let wants = self.with(|s| Ok(window.wants_keys(&mut s.dev)))?;
            all_want = self.gather_words(exchanges, &[i64::from(wants)])?.iter().all(|words| words[0] != 0);
        }
        let win = self.with(|s| {
            let State { dev, objects, requests } = s;
            window.begin_service(dev)?;
            let win = objects.wins.table.insert(window)?;
            requests.windows += 1;
            objects.wins.get_mut(win)?.handle = win;
            Ok(win)
        })?;
        if all_want {
            // The operations of the window tell of processes that have failed.
            let met = self.learn_keys(win).and_then(|()| self.win_barrier(win));
            met.unwrap_or_else(|e| tracing::debug!("keys of a window: {}", e.text));
        }
        Ok(win)
    }

    /// Learns the keys of the processes on other nodes. All of them do so, and answer meanwhile.
    fn learn_keys(&self, win: Win) -> Result<()> {
        self.on_window(win, |window, vci| window.ask_for_keys(vci))?;
        self.wait_on_window(win, |window, vci| window.has_keys(vci).then_some(Ok(())))
    }

    fn hint_pairs(&self, info: Info) -> Result<Vec<(String, String)>> {
        self.with(|s| Ok(super::hints::known(s.objects.anytime.infos().pairs(info)?)))
    }

    /// Makes a window of the program's memory, whose bytes the buffer has (`MPI_Win_create`).
    ///
    /// # Errors
    /// In all processes, whichever has failed: a bad handle, size, unit or info.
    pub fn win_create(&self, memory: Buf, unit: i64, info: Info, comm: Comm) -> Result<Win> {
        let hints = self.hint_pairs(info)?;
        let size = memory.count();
        self.make_win(comm, Wanted { flavor: Flavor::Create, base: Some(memory), size, unit, hints })
    }

    /// Makes a window of memory that it allocates (`MPI_Win_allocate`). Returns the address, too.
    ///
    /// # Errors
    /// As [`Mpi::win_create`]; no memory.
    pub fn win_allocate(&self, size: i64, unit: i64, info: Info, comm: Comm) -> Result<(usize, Win)> {
        self.make_with_memory(Flavor::Allocate, size, unit, info, comm)
    }

    /// Makes a window of memory that all processes load from and store to
    /// (`MPI_Win_allocate_shared`). Returns the address, too.
    ///
    /// # Errors
    /// As [`Mpi::win_allocate`]; processes that do not share memory.
    pub fn win_allocate_shared(&self, size: i64, unit: i64, info: Info, comm: Comm) -> Result<(usize, Win)> {
        self.make_with_memory(Flavor::Shared, size, unit, info, comm)
    }

    fn make_with_memory(
        &self,
        flavor: Flavor,
        size: i64,
        unit: i64,
        info: Info,
        comm: Comm,
    ) -> Result<(usize, Win)> {
        let hints = self.hint_pairs(info)?;
        let win = self.make_win(comm, Wanted { flavor, base: None, size, unit, hints })?;
        let base = self.with(|s| Ok(s.objects.wins.get(win)?.base()))?;
        Ok((base, win))
    }

    /// Makes a window to which memory is attached (`MPI_Win_create_dynamic`).
    ///
    /// # Errors
    /// A bad handle or info.
    pub fn win_create_dynamic(&self, info: Info, comm: Comm) -> Result<Win> {
        let hints = self.hint_pairs(info)?;
        self.make_win(comm, Wanted { flavor: Flavor::Dynamic, base: None, size: 0, unit: 1, hints })
    }

    /// Frees a window and sets the handle to null (`MPI_Win_free`).
    ///
    /// # Errors
    /// A bad handle; an epoch that has not ended; what a function that deletes an attribute
    /// returns; a process that is lost: the window is freed all the same.
    pub fn win_free(&self, win: &mut Win) -> Result<()> {
        let handle = *win;
        self.on_window(handle, |window, _| window.epochs.check_free())?;
        self.delete_all_attrs(handle)?;
        let ranks =
            self.on_window(handle, |window, _| Ok((0..window.targets.len() as u32).collect::<Vec<_>>()))?;
        let done = self.flush_ranks(handle, &ranks);
        let met = self.last_barrier(handle).and_then(|()| self.wait_for_wakes(handle));
        self.with(|s| {
            let State { dev, objects, requests } = s;
            let mut window = objects.wins.table.remove(handle)?;
            requests.windows -= 1;
            window.give_up_answers(dev);
            window.conceal(dev);
            window.end_service(dev);
            if let Err(e) = done.as_ref().and(met.as_ref()) {
                keep_context(&window.core, e);
                // The error goes to the handler of the window, which is gone.
                let handler = objects.anytime.errhandlers().get(window.errhandler)?;
                objects.wins.freed = Some((handle, handler));
            }
            objects.anytime.errhandlers().release(window.errhandler);
            let Window { core, .. } = window;
            objects.contexts.give_back(core, Handler::Return);
            Ok(())
        })?;
        *win = Win::NULL;
        done.and(met).map_err(|e| raised(e, handle))
    }

    /// Waits for the messages that were sent to wake this process, so that none is left.
    fn wait_for_wakes(&self, win: Win) -> Result<()> {
        self.wait_on_window(win, |window, _| {
            let all = window.control.wakes(window.own_place());
            (window.server.woken >= all).then_some(Ok(()))
        })
        .map_err(|e| raised(e, win))
    }
}

impl Member {
    fn of(words: &[i64]) -> Member {
        let (flags, node) = (words[0], words[1]);
        Member {
            class: (flags >> 2) as i32,
            node: (flags & 1 != 0).then_some(node.cast_unsigned()),
            size: words[2].max(0).cast_unsigned(),
            unit: words[3],
            joined: flags & 2 != 0,
            told: Told::read(&words[4..]),
        }
    }
}

/// Returns true if all processes share memory.
fn same_node(members: &[Member]) -> bool {
    members.len() == 1 || members.iter().all(|m| m.node.is_some() && m.node == members[0].node)
}

/// Returns the node of this process, if it shares memory with others there.
fn own_node(vci: &mut Vci, core: &CommCore) -> Option<u64> {
    let place = core.group().place(core.rank())?;
    if !vci.shares_memory() {
        return None;
    }
    // Jobs number their nodes apart, and share no memory.
    if core.spans_jobs(vci.size()) { Some(among_jobs(vci, place)) } else { vci.node_of(place).ok() }
}

#[cold]
fn no_memory(bytes: usize, e: &std::io::Error) -> Box<MpiError> {
    let text =
        format!("{bytes} bytes that the processes of the node share: {e}; make the window's memory smaller");
    MpiError::new(Class::NO_MEM, text)
}

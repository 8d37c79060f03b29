//! Context ids: which ones this process has free, and how the processes of a group agree on one.
//!
//! Each process has a mask of free ids. A group takes the lowest id that is free in all its
//! processes, by a word-wise "and" of the masks. Several agreements may be under way in a process
//! at once, by threads or nonblocking calls. Two must not offer the same ids at the same time, or
//! both would take one. So who finds ids offered already offers none, and the attempt is repeated,
//! in all processes of its group.
//!
//! The first attempt may wait for a process that calls late, so it offers only half of the ids, and
//! none if another first attempt has them: the other half is never held by who waits for a call.
//! Later attempts offer that half, and the first too if it is there. Of these the one with the
//! lowest key (parent and tag) has precedence in each process. So of all agreements in the job
//! the lowest finds its processes agreed at last, and then the next one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ch3_shim::{Comm as Channel, Device, Vci, thread_of};

use crate::coll::NodePool;
use crate::comm::{Agreed, CommCore, Comms, Communicator, name_of};
use crate::errh::Handler;
use crate::error::{Class, MpiError, Result};
use crate::exchange::{AndAll, Party};
use crate::handle::{Comm, Errhandler, Table};
use crate::ranks::Ranks;

/// Ids that there are.
const IDS: u32 = 2048;
/// Words of a mask.
const WORDS: usize = IDS as usize / 64;
/// Ids of the predefined communicators.
const WORLD: u32 = 0;
const SELF: u32 = 1;
/// Id of the agreements of processes that have no communicator.
const SESSIONS: u32 = 2;

/// An agreement's place in an order that all processes have: the parent's name, then the tag.
type Key = (u64, i32);

/// The context ids of a process.
#[derive(Debug)]
pub(crate) struct Contexts {
    free: [u64; WORDS],
    /// Agreements past their first attempt. The lowest may offer ids.
    waiting: Vec<Key>,
    /// Halves of the ids that an agreement offers.
    offered: [bool; 2],
    /// Communicators that were freed while operations on them were under way, with their error
    /// handlers.
    ending: Vec<(Arc<CommCore>, Handler)>,
    /// Processes of other jobs that are met for communicators under way: until these are made,
    /// nothing else shows that the jobs are used.
    met: Vec<Weak<[u32]>>,
    /// All processes of the job, for agreements of processes that have no communicator.
    sessions: Arc<CommCore>,
    /// Memory of communicators that were freed.
    pool: NodePool,
    /// Ids that several threads have: how many have given them back.
    returned: HashMap<u32, u32>,
}

/// Contexts of the device for each id.
const CONTEXTS: u32 = 4;

/// Returns the channels of an id: for messages, and for collective operations. `members` are the
/// processes that send in them.
///
/// # Errors
/// Those of the device.
pub(crate) fn channels(vci: &mut Vci, id: u32, members: &Ranks) -> Result<[Channel; 2]> {
    let (first, size) = (CONTEXTS * id, vci.size());
    let others: Vec<u32> = members.places().iter().copied().filter(|place| *place >= size).collect();
    Ok([vci.comm_with_jobs(first, &others)?, vci.comm_with_jobs(first + 1, &others)?])
}

/// Returns the channels of an id for a communicator of this group, in which this process or thread
/// has the rank `me`.
///
/// # Errors
/// Those of the device.
pub(crate) fn own_channels(vci: &mut Vci, id: u32, group: &Ranks, me: u32) -> Result<[Channel; 2]> {
    // Nobody sends in a communicator whose id is not agreed yet.
    let place = group.place(me).filter(|_| group.are_threads() && id < IDS);
    let Some(thread) = place.and_then(thread_of) else { return channels(vci, id, group) };
    let first = CONTEXTS * id;
    Ok([vci.comm_of_thread(first, thread)?, vci.comm_of_thread(first + 1, thread)?])
}

/// Returns the channel of messages of agreements that outlast failures.
///
/// # Errors
/// Those of the device.
pub(crate) fn of_failures(vci: &mut Vci) -> Result<Channel> {
    Ok(vci.comm_of_context(CONTEXTS * SESSIONS + 2)?)
}

/// Returns the channels for partitioned communication that belong to one for messages: for offers,
/// and for the rest.
///
/// # Errors
/// Those of the device.
pub(crate) fn partitioned(vci: &mut Vci, messages: Channel) -> Result<[Channel; 2]> {
    let first = messages.context();
    Ok([vci.comm_of_context(first + 2)?, vci.comm_of_context(first + 3)?])
}

impl Contexts {
    /// Creates the ids of a process, and the communicators that it has from the beginning.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn at_init(dev: &mut Device) -> Result<(Comms, Contexts)> {
        let mut free = [u64::MAX; WORDS];
        free[0] &= !(1 << WORLD | 1 << SELF | 1 << SESSIONS);
        let (me, size) = (dev.rank(), dev.size());
        let all = Arc::new(Ranks::new((0..size).collect()));
        let sessions =
            Arc::new(CommCore::intra(Agreed::from_start(SESSIONS), channels(dev, SESSIONS, &all)?, all, me));
        let (waiting, ending) = (Vec::new(), Vec::new());
        let contexts = Contexts {
            free,
            waiting,
            offered: [false; 2],
            ending,
            met: Vec::new(),
            sessions,
            pool: NodePool::default(),
            returned: HashMap::new(),
        };
        let mut comm = |id, places: Vec<u32>, rank, name, handle| -> Result<Option<Communicator>> {
            let group = Arc::new(Ranks::new(places.into()));
            let core = CommCore::intra(Agreed::from_start(id), channels(dev, id, &group)?, group, rank);
            core.set_handle(handle);
            Ok(Some(Communicator::new(core, name, Errhandler::ARE_FATAL)))
        };
        let world = comm(WORLD, (0..size).collect(), me, "MPI_COMM_WORLD", Comm::WORLD)?;
        let own = comm(SELF, vec![me], 0, "MPI_COMM_SELF", Comm::SELF)?;
        Ok((Table::with_predefined([world, own]), contexts))
    }

    /// Returns all processes of the job in a context of agreements.
    pub(crate) fn sessions(&self) -> &Arc<CommCore> {
        &self.sessions
    }

    fn take(&mut self, id: u32) {
        self.free[id as usize / 64] &= !(1 << (id % 64));
    }

    /// Returns the memory of communicators that were freed.
    pub(crate) fn pool(&mut self) -> &mut NodePool {
        &mut self.pool
    }

    /// Takes back the id of a communicator when the operations that use it are over.
    pub(crate) fn give_back(&mut self, core: Arc<CommCore>, handler: Handler) {
        self.ending.push((core, handler));
        self.reap();
    }

    /// Returns the error handler of a communicator that was freed while operations on it were under
    /// way.
    pub(crate) fn handler(&self, comm: Comm) -> Option<Handler> {
        let found = self.ending.iter().find(|(core, _)| core.handle() == Some(comm));
        found.map(|(_, handler)| handler.clone())
    }

    /// Communicators that were freed while operations on them were under way.
    pub(crate) fn ending(&self) -> impl Iterator<Item = &CommCore> {
        self.ending.iter().map(|(core, _)| &**core)
    }

    /// Notes processes that are met for a communicator under way. They count as used as long as the
    /// caller keeps what this returns.
    pub(crate) fn hold(&mut self, places: &[u32]) -> Arc<[u32]> {
        let held: Arc<[u32]> = places.into();
        self.met.push(Arc::downgrade(&held));
        held
    }

    /// Returns the processes that are met for communicators under way.
    pub(crate) fn held(&mut self) -> Vec<Arc<[u32]>> {
        self.met.retain(|met| met.strong_count() > 0);
        self.met.iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes back an id that no communicator was made of.
    pub(crate) fn release(&mut self, id: u32) {
        // A communicator that was never complete has an id that nobody agrees on.
        if let Some(word) = self.free.get_mut(id as usize / 64) {
            *word |= 1 << (id % 64);
        }
    }

    fn reap(&mut self) {
        for (core, handler) in std::mem::take(&mut self.ending) {
            match Arc::try_unwrap(core) {
                Err(core) => self.ending.push((core, handler)),
                // In a revoked context messages may still come that nobody receives.
                Ok(core) if core.is_revoked() => {}
                Ok(core) => {
                    if self.is_last(&core) {
                        self.release(core.id);
                    }
                    self.pool.keep(core);
                }
            }
        }
    }

    /// Returns true if no other thread of this process has the id of a communicator that ends.
    fn is_last(&mut self, core: &CommCore) -> bool {
        let sharers = core.group().sharers();
        if sharers <= 1 {
            return true;
        }
        let returned = self.returned.entry(core.id).or_default();
        *returned += 1;
        let is_last = *returned == sharers;
        if is_last {
            self.returned.remove(&core.id);
        }
        is_last
    }

    /// Returns the number of ids that are free.
    pub(crate) fn left(&mut self) -> u32 {
        self.reap();
        self.free.iter().map(|word| word.count_ones()).sum()
    }

    /// Offers all ids that no agreement offers; returns the words of an attempt, and the halves.
    pub(crate) fn offer_rest(&mut self) -> (Vec<u64>, [bool; 2]) {
        let offers = self.offered.map(|offered| !offered);
        (self.offer(offers), offers)
    }

    /// Returns the words of an attempt that offers these halves.
    fn offer(&mut self, offers: [bool; 2]) -> Vec<u64> {
        self.reap();
        let mut words = vec![0; WORDS + 1];
        for (half, _) in offers.iter().enumerate().filter(|(_, offers)| **offers) {
            self.offered[half] = true;
            let ids = half * WORDS / 2..(half + 1) * WORDS / 2;
            words[ids.clone()].copy_from_slice(&self.free[ids]);
        }
        words[WORDS] = if offers == [true; 2] { u64::MAX } else { 0 };
        words
    }

    /// Takes the id on which all agree, if there is one.
    ///
    /// # Errors
    /// If there is none although all have offered all that they have; `processes` did.
    pub(crate) fn settle(&mut self, words: &[u64], processes: usize) -> Result<Option<u32>> {
        let id = self.judge(words, processes)?;
        id.into_iter().for_each(|id| self.take(id));
        Ok(id)
    }

    /// Returns the id on which all agree, if there is one.
    pub(crate) fn judge(&mut self, words: &[u64], processes: usize) -> Result<Option<u32>> {
        if let Some(at) = words[..WORDS].iter().position(|word| *word != 0) {
            return Ok(Some(at as u32 * 64 + words[at].trailing_zeros()));
        }
        if words[WORDS] == 0 {
            return Ok(None);
        }
        let text = format!(
            "no context id is left that all {processes} processes have free: of {IDS} communicators this process has {} \
             left; free some",
            self.left()
        );
        Err(MpiError::new(Class::OTHER, text))
    }

    /// Ends an attempt that has offered these halves.
    pub(crate) fn withdraw(&mut self, halves: [bool; 2]) {
        for (offered, by_this) in self.offered.iter_mut().zip(halves) {
            *offered &= !by_this;
        }
    }

    fn leave(&mut self, key: Key) {
        if let Some(at) = self.waiting.iter().position(|k| *k == key) {
            self.waiting.swap_remove(at);
        }
    }
}

/// The agreement of a party on a context id.
#[derive(Debug)]
pub(crate) struct Agreement {
    party: Party,
    key: Key,
    /// False for a process that will not be in the communicator: any id suits it.
    member: bool,
    /// Halves of the ids that the present attempt offers.
    offers: [bool; 2],
    attempt: Option<AndAll>,
    attempts: u32,
}

impl Agreement {
    /// Prepares an agreement. `member`: this process will be in the communicator.
    pub(crate) fn new(party: Party, member: bool) -> Agreement {
        let key = (party.core.name, party.tag);
        Agreement { party, key, member, offers: [false; 2], attempt: None, attempts: 0 }
    }

    /// Begins an attempt. Returns the ids that this process offers, and a word that says whether
    /// these are all it has.
    fn offer(&mut self, contexts: &mut Contexts) -> Vec<u64> {
        self.attempts += 1;
        if !self.member {
            return vec![u64::MAX; WORDS + 1];
        }
        if self.attempts == 2 {
            contexts.waiting.push(self.key);
        }
        let [early, late] = contexts.offered;
        self.offers = match self.attempts {
            1 => [!early, false],
            _ if !late && contexts.waiting.iter().min() == Some(&self.key) => [!early, true],
            _ => [false; 2],
        };
        contexts.offer(self.offers)
    }

    /// Goes as far as it can; the id once it is agreed. It is this process's then.
    ///
    /// # Errors
    /// A peer that is lost; no id that is free in all processes.
    pub(crate) fn advance(&mut self, vci: &mut Vci, contexts: &mut Contexts) -> Result<Option<Agreed>> {
        let mut attempt = match self.attempt.take() {
            Some(attempt) => attempt,
            None => AndAll::new(self.party.clone(), self.offer(contexts)),
        };
        let processes = self.party.places.len();
        let result = match attempt.advance(vci) {
            Ok(None) => {
                self.attempt = Some(attempt);
                return Ok(None);
            }
            Ok(Some(words)) if self.member => contexts.settle(words, processes),
            Ok(Some(words)) => contexts.judge(words, processes),
            Err(e) => {
                // Others may go on to another attempt.
                AndAll::refuse(vci, &self.party);
                Err(e)
            }
        };
        contexts.withdraw(std::mem::take(&mut self.offers));
        match result {
            // The next attempt begins when this is asked again.
            Ok(None) => vci.stay_awake(),
            _ => contexts.leave(self.key),
        }
        let name = |id| name_of(self.party.core.name, self.party.tag, id);
        Ok(result?.map(|id| Agreed { id, name: name(id) }))
    }
}

//! The agreement of a communicator's processes on where they are, what is set, and memory that they
//! share.
//!
//! The first operation of a communicator makes it. All tell each other their node, the kind of
//! their paths and the algorithms that are set; of these all must have the same. On one node rank 0
//! creates memory, all open it, and agree whether all have it. If one is lost meanwhile, some may
//! know the result and others not: then what the first of those that have it writes into it counts.
//!
//! If all have kept the memory of a communicator that was freed they use that again, and none is
//! made. If only some have, all give it up and begin anew.

use std::collections::HashMap;
use std::sync::Arc;

use ch3_shim::shared_memory::{self, SharedMemory, Ticket};
use ch3_shim::{Vci, process_of};

use super::choice::{self, Forced, Machine, Operation, PATHS, Setting};
use super::node_memory::{Lease, MAX_PROCESSES, NodeMemory};
use super::node_pool::NodePool;
use super::node_state::{Agreement, Decision};
use crate::comm::{CommCore, SETUP_TAG};
use crate::dynamic::among_jobs;
use crate::error::{Class, MpiError, Result};
use crate::exchange::{AndAll, GatherAll, Party};

/// Bytes of a record: what a process can do, the row of its path, what is set, its node, the digest
/// of memory that it has kept or 0, its ticket.
const RECORD: usize = KEPT + 8 + Ticket::LEN;
/// Bytes before the node.
const HEAD: usize = 2 + Operation::ALL.len();
/// Bytes before the digest.
const KEPT: usize = HEAD + 8;
/// The process is ready to share memory.
const WILLING: u8 = 1;
/// It is registered for fences.
const FENCED: u8 = 2;
/// It shares memory with others of its node, for messages.
const SHARES: u8 = 4;

/// The agreement, as far as it has come.
#[derive(Debug)]
enum Setup {
    Tickets {
        tickets: GatherAll,
        own: Own,
        lease: Option<Lease>,
    },
    Agreed {
        all: AndAll,
        memory: Option<Box<NodeMemory>>,
        setting: Setting,
    },
    /// Only some have kept memory: all know that before they begin anew.
    Anew {
        all: AndAll,
    },
}

/// The memory that a process has before the agreement.
#[derive(Debug)]
enum Own {
    None,
    /// Rank 0 has made it.
    Made(SharedMemory),
    /// It was that of a communicator that was freed.
    Kept(Box<NodeMemory>),
}

/// Returns true if the processes of a communicator agree before they choose.
#[inline]
pub(super) fn agrees(core: &CommCore) -> bool {
    core.remote().is_none() && core.size() > 1
}

/// Begins the agreement of a communicator's processes.
pub(super) fn begin(
    vci: &mut Vci,
    core: &Arc<CommCore>,
    forced: Forced,
    pool: &mut NodePool,
) -> Box<dyn Agreement> {
    let state = Some(Setup::begin(vci, core, forced, Some(pool)));
    Box::new(Agreeing { core: Arc::clone(core), forced, state })
}

/// An agreement that is under way.
#[derive(Debug)]
struct Agreeing {
    core: Arc<CommCore>,
    forced: Forced,
    state: Option<Setup>,
}

impl Agreement for Agreeing {
    fn advance(&mut self, vci: &mut Vci) -> Result<Option<Decision>> {
        let Some(state) = self.state.take() else {
            return Err(MpiError::new(Class::INTERN, "an agreement is asked after its end"));
        };
        match state.advance(vci, &self.core, self.forced)? {
            Step::Goes(on) => {
                self.state = Some(*on);
                Ok(None)
            }
            Step::Over(decision) => Ok(Some(decision)),
        }
    }

    fn assumed(&self, vci: &mut Vci) -> Setting {
        let places = Arc::clone(self.core.group().places());
        let records = places.iter().map(|place| record_of(vci, &self.core, self.forced, *place));
        agreed(&records.collect::<Vec<_>>()).0
    }
}

/// An agreement after a step.
enum Step {
    Goes(Box<Setup>),
    Over(Decision),
}

fn party(core: &Arc<CommCore>) -> Party {
    Party {
        places: Arc::clone(core.group().places()),
        me: core.rank() as usize,
        tag: SETUP_TAG,
        core: Arc::clone(core),
    }
}

impl Setup {
    /// Begins, with memory of the pool if there is some and it has any.
    fn begin(vci: &mut Vci, core: &Arc<CommCore>, forced: Forced, pool: Option<&mut NodePool>) -> Setup {
        let n = core.size() as usize;
        let place = core.group().place(core.rank()).unwrap_or(0);
        let mut record = record_of(vci, core, forced, place);
        if shared_memory::register_for_fences() {
            record[0] |= FENCED;
        }
        let (mut own, mut lease) = (Own::None, None);
        if record[0] & WILLING != 0 {
            // Another job's processes may have got the ranks of those that have left.
            let mut pool = pool.filter(|_| !core.spans_jobs(vci.size()));
            let most = vci.config().coll_memory;
            match pool.as_mut().and_then(|pool| pool.take(core.group().places())) {
                Some(kept) => own = Own::Kept(Box::new(kept)),
                None => {
                    lease = Lease::take(n, most).or_else(|| {
                        pool?.clear();
                        Lease::take(n, most)
                    });
                }
            }
        }
        if core.rank() == 0 && lease.is_some() {
            let made = SharedMemory::create(NodeMemory::bytes(n)).inspect_err(|e| {
                tracing::warn!("memory that the processes of a node share: {e}; they use messages");
            });
            own = made.map_or(Own::None, Own::Made);
        }
        let is_ready = match &own {
            Own::None => core.rank() != 0 && lease.is_some(),
            Own::Made(memory) => memory.ticket().is_some_and(|ticket| {
                record[KEPT + 8..].copy_from_slice(&ticket.to_bytes());
                true
            }),
            Own::Kept(memory) => {
                record[KEPT..KEPT + 8].copy_from_slice(&memory.digest().to_le_bytes());
                true
            }
        };
        if !is_ready {
            record[0] &= !WILLING;
        }
        Setup::Tickets { tickets: GatherAll::new(party(core), record.to_vec()), own, lease }
    }

    fn advance(self, vci: &mut Vci, core: &Arc<CommCore>, forced: Forced) -> Result<Step> {
        match self {
            Setup::Tickets { mut tickets, own, lease } => match tickets.advance(vci) {
                Ok(Some(records)) => match Setup::judge(records.as_chunks().0, core, own, lease) {
                    Step::Goes(next) => next.advance(vci, core, forced),
                    over @ Step::Over(_) => Ok(over),
                },
                Ok(None) => Ok(Step::Goes(Box::new(Setup::Tickets { tickets, own, lease }))),
                Err(e) => {
                    AndAll::refuse(vci, &party(core));
                    Err(e)
                }
            },
            Setup::Anew { mut all } => match all.advance(vci) {
                Ok(Some(_)) => Setup::begin(vci, core, forced, None).advance(vci, core, forced),
                Ok(None) => Ok(Step::Goes(Box::new(Setup::Anew { all }))),
                Err(e) => {
                    GatherAll::refuse(vci, &party(core));
                    Err(e)
                }
            },
            Setup::Agreed { mut all, memory, mut setting } => {
                let all_have = match all.advance(vci) {
                    Ok(Some(words)) => Ok(words[0] & 1 == 1),
                    Ok(None) => return Ok(Step::Goes(Box::new(Setup::Agreed { all, memory, setting }))),
                    Err(e) => Err(e),
                };
                let shared = memory.filter(|memory| memory.settle(*all_have.as_ref().unwrap_or(&false)));
                // Without memory all know as little as those who have lost a peer.
                if shared.is_none() && all_have? {
                    let text = "another process of the communicator has lost a peer";
                    return Err(MpiError::new(Class::PROC_FAILED, text));
                }
                setting.shared = shared.is_some();
                let memory = shared.map(|mut memory| {
                    memory.close();
                    Arc::new(*memory)
                });
                Ok(Step::Over(Decision { memory, setting, fault: None }))
            }
        }
    }

    /// Decides how to go on when the records of all are there.
    fn judge(records: &[[u8; RECORD]], core: &Arc<CommCore>, own: Own, lease: Option<Lease>) -> Step {
        let flags = records.iter().fold(u8::MAX, |all, record| all & record[0]);
        let (setting, fault) = agreed(records);
        if fault.is_some() || flags & WILLING == 0 || setting.machine.nodes > 1 {
            return Step::Over(Decision { memory: None, setting, fault });
        }
        let all_same = records.iter().all(|r| r[KEPT..KEPT + 8] == records[0][KEPT..KEPT + 8]);
        if !all_same {
            return Step::Goes(Box::new(Setup::Anew { all: AndAll::new(party(core), Vec::new()) }));
        }
        let fences = flags & FENCED == 0;
        let place = (core.rank() as usize, core.size() as usize);
        let new = |memory| NodeMemory::new(memory, place, fences).with(lease);
        let memory = match own {
            Own::None => open(core, &records[0]).map(|opened| Box::new(new(opened))),
            Own::Made(made) => Some(Box::new(new(made))),
            Own::Kept(mut memory) => {
                memory.reuse();
                Some(memory)
            }
        };
        let words = vec![if memory.is_some() { u64::MAX } else { 0 }];
        Step::Goes(Box::new(Setup::Agreed { all: AndAll::new(party(core), words), memory, setting }))
    }
}

/// Returns the row of the path between nodes, or between all processes if they share no memory.
fn path_of(vci: &Vci) -> u8 {
    let names = &vci.config().netmods;
    match names.iter().find(|name| *name != "shm").map(String::as_str) {
        Some("ofi") => choice::costs::row_of_provider(vci.config().providers()),
        Some(name) => choice::costs::row(name),
        None => choice::costs::row("shm"),
    }
}

/// Returns the record of a process of the job, without a ticket: this process knows its node, and
/// takes it for one like itself.
fn record_of(vci: &mut Vci, core: &CommCore, forced: Forced, place: u32) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let (head, rest) = record.split_at_mut(HEAD);
    if vci.shares_memory() {
        head[0] = SHARES;
        let can = core.size() as usize <= MAX_PROCESSES && !core.group().are_threads();
        head[0] |= if can { WILLING } else { 0 };
    }
    head[1] = path_of(vci);
    head[2..].copy_from_slice(&forced.0);
    rest[..8].copy_from_slice(&node_of(vci, core, place).to_le_bytes());
    record
}

/// Returns the number of a process's node: processes of one node share memory.
fn node_of(vci: &mut Vci, core: &CommCore, place: u32) -> u64 {
    if core.spans_jobs(vci.size()) {
        // Jobs number their nodes apart, and share no memory.
        return among_jobs(vci, place);
    }
    let place = if core.group().are_threads() { process_of(place) } else { place };
    match vci.config().shm_ranks() {
        // A process that does not know its node is alone.
        0 => vci.node_of(place).unwrap_or(1 << 63 | u64::from(place)),
        ranks => u64::from(place) / ranks as u64,
    }
}

/// Returns what all know of each other by their records, and the fault if they are set differently.
fn agreed(records: &[[u8; RECORD]]) -> (Setting, Option<Box<MpiError>>) {
    let node = |record: &[u8; RECORD]| -> [u8; 8] {
        let mut node = [0; 8];
        node.copy_from_slice(&record[HEAD..HEAD + 8]);
        node
    };
    let mut members = HashMap::<[u8; 8], usize>::new();
    for record in records {
        *members.entry(node(record)).or_default() += 1;
    }
    // All wait for the slowest path.
    let rows = records.iter().map(|r| PATHS[usize::from(r[1]).min(PATHS.len() - 1)]);
    let far = rows.reduce(|a, b| if b.latency > a.latency { b } else { a });
    let far = far.unwrap_or(PATHS[0]);
    let all_share = records.iter().all(|r| r[0] & SHARES != 0);
    let near = if all_share { PATHS[usize::from(choice::costs::row("shm"))] } else { far };
    let per_node = members.values().copied().max().unwrap_or(1);
    let machine = Machine { near, far, nodes: members.len(), per_node };
    let forced = |record: &[u8; RECORD]| {
        let mut forced = Forced::default();
        forced.0.copy_from_slice(&record[2..HEAD]);
        forced
    };
    let first = records.first().map(forced).unwrap_or_default();
    let other = records.iter().map(forced).enumerate().find(|(_, other)| *other != first);
    let fault = other.map(|(rank, other)| differing(first, rank, other));
    let starts: Vec<u32> = (0..records.len())
        .filter(|i| *i == 0 || node(&records[*i]) != node(&records[*i - 1]))
        .map(|i| i as u32)
        .collect();
    let have_leaders = starts.len() == members.len() && members.len() > 1 && per_node > 1;
    let starts = have_leaders.then(|| starts.into());
    (Setting { machine, forced: first, shared: false, starts }, fault)
}

/// The fault of two processes with different settings.
fn differing(first: Forced, rank: usize, other: Forced) -> Box<MpiError> {
    let name = |forced: &Forced, operation: Operation| {
        let at = usize::from(forced.0[operation as usize]);
        operation.values().get(at).copied().unwrap_or("unknown")
    };
    let differs = |o: &&Operation| name(&first, **o) != name(&other, **o);
    let operation = Operation::ALL.iter().find(differs).copied().unwrap_or(Operation::Barrier);
    let text = format!(
        "{} is {} at rank 0 of the communicator and {} at rank {rank}; give all processes the same value",
        operation.setting(),
        name(&first, operation),
        name(&other, operation)
    );
    MpiError::new(Class::OTHER, text)
}

fn open(core: &CommCore, record: &[u8; RECORD]) -> Option<SharedMemory> {
    let mut ticket = [0; Ticket::LEN];
    ticket.copy_from_slice(&record[KEPT + 8..]);
    let opened = SharedMemory::open(&Ticket::from_bytes(ticket), NodeMemory::bytes(core.size() as usize));
    // Processes on other nodes have no such memory.
    opened.inspect_err(|e| tracing::debug!("no memory shared with rank 0 of a communicator: {e}")).ok()
}

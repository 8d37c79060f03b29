//! The agreement of a communicator's processes on memory that they share.
//!
//! The first operation of a communicator makes the memory: rank 0 creates it, all learn by messages
//! how to open it, and agree whether all have it.

use std::sync::Arc;

use ch3_shim::Vci;
use ch3_shim::shared_memory::{self, SharedMemory, Ticket};

use super::node_memory::{MAX_PROCESSES, NodeMemory};
use super::node_state::Agreement;
use crate::comm::{CommCore, SETUP_TAG};
use crate::error::Result;
use crate::exchange::{AndAll, GatherAll, Party};

/// Bytes of a record: what a process can do, then its ticket.
const RECORD: usize = 8 + Ticket::LEN;
/// The process is ready to share memory.
const WILLING: u8 = 1;
/// It is registered for fences.
const FENCED: u8 = 2;

/// The agreement, as far as it has come.
#[derive(Debug)]
enum Setup {
    Tickets { tickets: GatherAll, made: Option<SharedMemory> },
    Agreed { all: AndAll, opened: Option<SharedMemory>, fences: bool },
}

/// Returns true if the processes of a communicator may come to share memory.
#[inline]
pub(super) fn may_share(core: &CommCore) -> bool {
    core.remote().is_none() && (2..=MAX_PROCESSES).contains(&(core.size() as usize))
}

/// Begins the agreement of a communicator's processes.
pub(super) fn begin(vci: &mut Vci, core: &Arc<CommCore>) -> Box<dyn Agreement> {
    let state = Some(Setup::begin(vci, core));
    Box::new(Agreeing { core: Arc::clone(core), state })
}

/// An agreement that is under way.
#[derive(Debug)]
struct Agreeing {
    core: Arc<CommCore>,
    state: Option<Setup>,
}

impl Agreement for Agreeing {
    fn advance(&mut self, vci: &mut Vci) -> Result<Option<Option<NodeMemory>>> {
        let Some(state) = self.state.take() else { return Ok(Some(None)) };
        match state.advance(vci, &self.core)? {
            Step::Goes(on) => {
                self.state = Some(on);
                Ok(None)
            }
            Step::Over(memory) => Ok(Some(memory)),
        }
    }
}

/// An agreement after a step.
enum Step {
    Goes(Setup),
    Over(Option<NodeMemory>),
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
    fn begin(vci: &mut Vci, core: &Arc<CommCore>) -> Setup {
        let mut record = [0; RECORD];
        let (flags, room) = record.split_at_mut(8);
        flags[0] = if vci.shares_memory() { WILLING } else { 0 };
        if shared_memory::register_for_fences() {
            flags[0] |= FENCED;
        }
        let mut made = None;
        if core.rank() == 0 && flags[0] & WILLING != 0 {
            made = SharedMemory::create(NodeMemory::bytes(core.size() as usize))
                .inspect_err(|e| {
                    tracing::warn!("memory that the processes of a node share: {e}; they use messages")
                })
                .ok();
        }
        match made.as_ref().and_then(SharedMemory::ticket) {
            Some(ticket) => room.copy_from_slice(&ticket.to_bytes()),
            None if core.rank() == 0 => flags[0] &= !WILLING,
            None => {}
        }
        Setup::Tickets { tickets: GatherAll::new(party(core), record.to_vec()), made }
    }

    fn advance(self, vci: &mut Vci, core: &Arc<CommCore>) -> Result<Step> {
        match self {
            Setup::Tickets { mut tickets, made } => {
                let Some(records) = tickets.advance(vci)? else {
                    return Ok(Step::Goes(Setup::Tickets { tickets, made }));
                };
                let records = records.as_chunks::<RECORD>().0;
                let flags = records.iter().fold(u8::MAX, |all, record| all & record[0]);
                if flags & WILLING == 0 {
                    return Ok(Step::Over(None));
                }
                let opened = made.or_else(|| open(core, &records[0]));
                let words = vec![if opened.is_some() { u64::MAX } else { 0 }];
                let all = AndAll::new(party(core), words);
                Setup::Agreed { all, opened, fences: flags & FENCED == 0 }.advance(vci, core)
            }
            Setup::Agreed { mut all, opened, fences } => {
                let Some(words) = all.advance(vci)? else {
                    return Ok(Step::Goes(Setup::Agreed { all, opened, fences }));
                };
                let shared = opened.filter(|_| words[0] != 0);
                let place = (core.rank() as usize, core.size() as usize);
                Ok(Step::Over(shared.map(|mut memory| {
                    memory.close();
                    NodeMemory::new(memory, place, fences)
                })))
            }
        }
    }
}

fn open(core: &CommCore, record: &[u8; RECORD]) -> Option<SharedMemory> {
    let mut ticket = [0; Ticket::LEN];
    ticket.copy_from_slice(&record[8..]);
    let opened = SharedMemory::open(&Ticket::from_bytes(ticket), NodeMemory::bytes(core.size() as usize));
    // Processes on other nodes have no such memory.
    opened.inspect_err(|e| tracing::debug!("no memory shared with rank 0 of a communicator: {e}")).ok()
}

//! The PMIx client, for Open MPI's `mpirun`, PRRTE and `srun --mpi=pmix`.
//!
//! It uses libpmix, since the protocol between that library and the launcher is private.
//! Differences to PMI:
//!
//! - Values belong to the rank that put them. Keys of this project name their owner, so a lookup
//!   asks that rank first, then rank 0, then the others. A fence exchanges all values, so each of
//!   these queries is answered on the node.
//! - A lookup of a key that nobody has put waits for it, unless told not to.
//! - The launcher chooses the type of a value, even for numbers that the standard types.
//! - Callbacks run on a thread of libpmix, and only mark an operation as ended.

mod event;
mod ffi;
mod jobs;
mod questions;
#[cfg(test)]
mod tests;
mod value;

use crate::codec::MAX_VALUE;
use crate::process_manager::Backend;
use crate::spawn::PARENT_PORT;
use crate::state::State;
use crate::{Answer, PmiError, Spawn, tell, wire::quote};
use event::Operation;
use ffi::{Library, RANK_WILDCARD};
use questions::Questions;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use value::{Datum, ERR_NOT_FOUND, NoNumber, Status};

/// A process of a job whose launcher speaks PMIx.
#[derive(Debug)]
pub(crate) struct PmixClient {
    library: Arc<Library>,
    namespace: String,
    rank: u32,
    size: u32,
    appnum: i32,
    universe: Option<u32>,
    local_ranks: u32,
    /// Node of each rank, once asked for; inner `None` if the launcher does not tell.
    nodes: OnceCell<Option<Vec<u32>>>,
    /// Keys that this process has put.
    own: HashSet<String>,
    /// The fence or lookup in progress.
    operation: Arc<Operation>,
    questions: Questions,
    /// True if the launcher lets this job continue after failures.
    recoverable: bool,
    /// True if the launcher says that another job has asked for this one.
    spawned: bool,
    /// The thread that runs PMIx_Finalize.
    goodbye: Option<JoinHandle<Result<(), Status>>>,
    state: State,
}

impl PmixClient {
    /// Connects to the launcher through the library of that name or path.
    ///
    /// # Errors
    ///
    /// Fails if the library cannot be loaded, or cannot connect to the launcher.
    pub(crate) fn connect(library: &str) -> Result<PmixClient, PmiError> {
        let library = Library::load(library)
            .map_err(|e| PmiError::PmixLibrary { library: library.to_owned(), why: e.to_string() })?;
        let doing = |doing| move |e: NoNumber| PmiError::Pmix { doing, why: e.to_string() };
        let (namespace, rank) = library.init().map_err(|status| PmiError::Pmix {
            doing: "starting PMIx (PMIx_Init)",
            why: library.describe(status),
        })?;
        let number = |rank, key| number_of(&library, &namespace, rank, key);
        let size =
            number(RANK_WILDCARD, c"pmix.job.size").map_err(doing("asking for the size of the job"))?;
        let size = u32::try_from(size).ok().filter(|size| *size > rank).ok_or_else(|| PmiError::Pmix {
            doing: "asking for the size of the job",
            why: format!("the answer is {size} for rank {rank}"),
        })?;
        // A launcher may not know these.
        let appnum = number(rank, c"pmix.appnum").ok().and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
        let universe = number(RANK_WILDCARD, c"pmix.univ.size").ok().and_then(|n| u32::try_from(n).ok());
        let local = number(RANK_WILDCARD, c"pmix.local.size").ok().and_then(|n| u32::try_from(n).ok());
        let local_ranks = local.unwrap_or(1).clamp(1, size);
        let recoverable = number(RANK_WILDCARD, c"pmix.recover").is_ok_and(|yes| yes != 0);
        let spawned = number(RANK_WILDCARD, c"pmix.spawned").is_ok_and(|yes| yes != 0);
        let operation =
            Operation::new().map_err(|source| PmiError::Io { doing: "making an eventfd", source })?;
        let operation = Arc::new(operation);
        event::wake_by(&operation);
        library.watch_failures();
        Ok(PmixClient {
            library: Arc::new(library),
            namespace,
            rank,
            size,
            appnum,
            universe,
            local_ranks,
            nodes: OnceCell::new(),
            own: HashSet::new(),
            operation,
            questions: Questions::default(),
            recoverable,
            spawned,
            goodbye: None,
            state: State::Idle,
        })
    }

    fn error(&self, doing: &'static str, status: Status) -> PmiError {
        PmiError::Pmix { doing, why: self.library.describe(status) }
    }

    fn key(text: &str) -> Result<CString, PmiError> {
        let argument = |why| PmiError::Argument { key: quote(text.as_bytes()), why };
        if !crate::client::is_key(text) {
            return Err(argument(crate::client::KEY_RULE.to_owned()));
        }
        ffi::key(text).ok_or_else(|| argument(format!("it is longer than {} characters", ffi::MAX_KEY)))
    }

    /// Returns the node of each rank, by the names of their hosts, numbered as they first occur.
    fn find_nodes(&self) -> Option<Vec<u32>> {
        let mut numbers = HashMap::new();
        let mut nodes = Vec::new();
        for rank in 0..self.size {
            let Ok(Datum::Text(host)) = self.library.get(&self.namespace, rank, c"pmix.hname", false) else {
                tracing::warn!(rank, "nodes of the ranks are unknown: PMIx does not tell the host of a rank");
                return None;
            };
            let next = numbers.len() as u32;
            nodes.push(*numbers.entry(host).or_insert(next));
        }
        Some(nodes)
    }
}

/// Returns true if a lookup's status says that nobody has put the key.
fn is_miss(status: Status) -> bool {
    // The status of older versions in that case.
    const DATA_VALUE_NOT_FOUND: Status = -30;
    const PROC_ENTRY_NOT_FOUND: Status = -17;
    const INVALID_NAMESPACE: Status = -44;
    matches!(status, ERR_NOT_FOUND | DATA_VALUE_NOT_FOUND | PROC_ENTRY_NOT_FOUND | INVALID_NAMESPACE)
}

fn number_of(library: &Library, namespace: &str, rank: u32, key: &CStr) -> Result<i128, NoNumber> {
    match library.get(namespace, rank, key, true) {
        Ok(Datum::Number(number)) => Ok(number),
        Ok(found) => Err(NoNumber::OtherType { key: format!("{key:?}"), found }),
        Err(status) => Err(NoNumber::Status(library.describe(status))),
    }
}

/// Returns the ranks to ask for a key, the likely ones first.
///
/// These are the number at the end of the key, this rank, rank 0, and all others.
fn owners(key: &str, me: u32, size: u32) -> impl Iterator<Item = u32> {
    let digits = key.bytes().rev().take_while(u8::is_ascii_digit).count();
    let named = key[key.len() - digits..].parse().ok().filter(|rank| *rank < size);
    let mut likely: Vec<u32> = named.into_iter().collect();
    for rank in [0, me] {
        if !likely.contains(&rank) {
            likely.push(rank);
        }
    }
    let first = likely.clone();
    first.into_iter().chain((0..size).filter(move |rank| !likely.contains(rank)))
}

impl Backend for PmixClient {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job_id(&self) -> &str {
        &self.namespace
    }

    fn appnum(&self) -> i32 {
        self.appnum
    }

    fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        Ok(self.universe)
    }

    fn launcher(&self) -> &'static str {
        "PMIx"
    }

    fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.state.check_idle("put")?;
        let name = PmixClient::key(key)?;
        let argument = |why| PmiError::Argument { key: quote(key.as_bytes()), why };
        if value.len() > MAX_VALUE {
            return Err(argument(format!("{} bytes are more than the limit of {MAX_VALUE}", value.len())));
        }
        if !self.own.insert(key.to_owned()) {
            return Err(argument("it exists".to_owned()));
        }
        // Some versions lose an empty value, so all values have a first byte without a meaning.
        let stored: Vec<u8> = [&[FORM], value].concat();
        self.library.put(&name, &stored).map_err(|status| self.error("storing a value (PMIx_Put)", status))
    }

    fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.state.check_idle("get")?;
        self.wait_value(key)
    }

    fn barrier_begin(&mut self) -> Result<(), PmiError> {
        const COMMIT: &str = "handing over what was stored (PMIx_Commit)";
        self.state.check_idle("barrier_begin")?;
        self.library.commit().map_err(|status| self.error(COMMIT, status))?;
        self.state = State::InBarrier;
        self.ask_barrier()
    }

    fn barrier_poll(&mut self) -> Result<bool, PmiError> {
        self.state.check_in_barrier()?;
        self.drive()?;
        let over = self.state == State::BarrierOver;
        if over {
            self.state = State::Idle;
        }
        Ok(over)
    }

    fn barrier(&mut self) -> Result<(), PmiError> {
        if !matches!(self.state, State::InBarrier | State::BarrierOver) {
            self.barrier_begin()?;
        }
        self.settle("waiting in a barrier (PMIx_Fence_nb)")?;
        self.state = State::Idle;
        Ok(())
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.operation.fd())
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        let mut told = false;
        while !self.finalize_poll()? {
            let waited = if told {
                self.operation.wait().map(|()| true)
            } else {
                self.operation.wait_for(tell::PATIENCE)
            };
            let ended = waited.map_err(|source| PmiError::Io { doing: GOODBYE, source })?;
            if !ended && !told {
                told = true;
                tell::waits(&GOODBYE);
            }
        }
        Ok(())
    }

    /// Finalizes on a thread of its own, since PMIx_Finalize waits for the launcher's reply.
    fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        match self.state {
            State::Finalized => return Ok(true),
            State::Leaving => {}
            _ => {
                self.state.check_idle("finalize")?;
                self.state = State::Leaving;
                self.drop_unstarted();
            }
        }
        if self.goodbye.is_none() {
            // A lookup in progress ends first, unless the server that would end it is lost.
            if !event::server_is_lost(&self.namespace) {
                self.drive()?;
                if self.has_started() {
                    return Ok(false);
                }
            }
            let (library, operation) = (Arc::clone(&self.library), Arc::clone(&self.operation));
            let goodbye = std::thread::Builder::new().name("pmix-finalize".to_owned()).spawn(move || {
                let left = library.finalize();
                operation.wake();
                left
            });
            self.goodbye = Some(goodbye.map_err(|source| PmiError::Io { doing: GOODBYE, source })?);
        }
        let Some(goodbye) = self.goodbye.take_if(|goodbye| goodbye.is_finished()) else { return Ok(false) };
        self.operation.hush();
        self.state = State::Finalized;
        match goodbye.join() {
            Ok(left) => left.map(|()| true).map_err(|status| self.error(GOODBYE, status)),
            Err(_) => Err(PmiError::Pmix { doing: GOODBYE, why: "its thread has panicked".to_owned() }),
        }
    }

    /// Aborts on a thread of its own, since PMIx_Abort waits for the launcher's reply, which may
    /// never come.
    fn abort(&mut self, code: i32, message: &str, limit: Duration) -> Result<(), PmiError> {
        const DOING: &str = "aborting the job (PMIx_Abort)";
        let library = Arc::clone(&self.library);
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        let (sender, answer) = mpsc::channel();
        std::thread::Builder::new()
            .name("pmix-abort".to_owned())
            .spawn(move || sender.send(library.abort(code, &message)))
            .map_err(|source| PmiError::Io { doing: DOING, source })?;
        match answer.recv_timeout(limit) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => Err(self.error(DOING, status)),
            Err(_) => Err(PmiError::Timeout { doing: DOING, after: limit }),
        }
    }

    fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        Ok(event::failed(&self.namespace, self.size))
    }

    fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        self.ask_for_value(key)
    }

    fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.ask_for_failed();
        Ok(())
    }

    fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        self.next_answer()
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), PmiError> {
        self.state.check_idle("publish_name")?;
        self.publish(service, port)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        self.state.check_idle("lookup_name")?;
        self.lookup(service)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<(), PmiError> {
        self.state.check_idle("unpublish_name")?;
        self.unpublish(service)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        self.state.check_idle("spawn")?;
        self.start(spawn)
    }

    fn is_spawned(&self) -> bool {
        (self.spawned || jobs::is_asked_for(&self.namespace))
            && jobs::value_from_parent(PARENT_PORT).is_some()
    }

    fn parent_port(&mut self) -> Result<Option<String>, PmiError> {
        Ok(if self.is_spawned() { jobs::value_from_parent(PARENT_PORT) } else { None })
    }

    fn outlives_launcher(&self) -> bool {
        self.recoverable
    }

    fn survive_failures(&self) -> io::Result<()> {
        Ok(())
    }

    fn node_of(&self, rank: u32) -> Option<u32> {
        let nodes = self.nodes.get_or_init(|| self.find_nodes()).as_ref()?;
        nodes.get(rank as usize).copied()
    }

    /// Returns the launcher's own number, without a query for each rank.
    fn own_node(&self) -> Option<u32> {
        number_of(&self.library, &self.namespace, self.rank, c"pmix.nodeid").ok()?.try_into().ok()
    }

    fn local_rank(&self) -> Option<u32> {
        number_of(&self.library, &self.namespace, self.rank, c"pmix.lrank").ok()?.try_into().ok()
    }

    fn local_ranks(&self) -> u32 {
        self.local_ranks
    }
}

/// Description of finalize in errors.
const GOODBYE: &str = "saying goodbye (PMIx_Finalize)";

/// First byte of each value.
const FORM: u8 = 1;

//! The facade over PMI-1 and the singleton: what a program needs of its process manager.

use crate::client::{KEY_RULE, is_key};
use crate::codec::MAX_VALUE;
use crate::detect::{Detected, detect};
use crate::{PmiClient, PmiError, ProcessMapping};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(test)]
mod tests;

/// The launcher's line can have one user in a process.
static CONNECTED: AtomicBool = AtomicBool::new(false);

/// How long an aborting process waits to be ended by the launcher.
const ABORT_WAIT: Duration = Duration::from_secs(2);

/// This process's place in its job: rank and size, the key-value space, barriers, the end.
///
/// `Send`, so that it can move to the thread that needs it; one thread uses it at a time.
#[derive(Debug)]
pub struct ProcessManager {
    backend: Backend,
    mapping_text: Option<String>,
    mapping: Option<ProcessMapping>,
    local_ranks: u32,
    /// The answer to the last question for failed ranks.
    failed: Vec<u32>,
}

#[derive(Debug)]
enum Backend {
    Pmi1(PmiClient),
    Singleton(Singleton),
}

/// A job of one process.
#[derive(Debug)]
struct Singleton {
    name: String,
    kvs: HashMap<String, Vec<u8>>,
    in_barrier: bool,
    finalized: bool,
}

impl Singleton {
    fn check(&self, call: &'static str) -> Result<(), PmiError> {
        let why = if self.finalized {
            "the process manager was finalized"
        } else if self.in_barrier {
            "a barrier has begun and is not over; poll it to its end"
        } else {
            return Ok(());
        };
        Err(PmiError::State { call, why: why.to_owned() })
    }
}

impl ProcessManager {
    /// Connects to what started this process; without a launcher it is a job of one process.
    ///
    /// See [`detect`](crate::detect::detect) for how the launcher is found.
    ///
    /// # Errors
    /// The environment contradicts itself or describes a launcher that cannot be spoken to; the
    /// launcher does not answer; this process has connected before.
    pub fn from_env() -> Result<ProcessManager, PmiError> {
        let lookup = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        let detected = detect(lookup)?;
        if detected == Detected::Singleton {
            return Ok(ProcessManager::singleton());
        }
        if CONNECTED.swap(true, Ordering::SeqCst) {
            return Err(PmiError::AlreadyConnected);
        }
        let client = match detected {
            Detected::Descriptor { fd, rank, size } => PmiClient::from_inherited_fd(fd, rank, size),
            Detected::Port { address, id } => PmiClient::connect_port(&address, &id),
            Detected::Singleton => return Ok(ProcessManager::singleton()),
        };
        let hint = lookup("MPI_LOCALNRANKS").and_then(|n| n.parse().ok());
        client
            .and_then(|client| ProcessManager::over(client, hint))
            .inspect_err(|_| CONNECTED.store(false, Ordering::SeqCst))
    }

    /// A job over a connected client. `local_ranks` is the launcher's own word on how many
    /// ranks are on this node, if it gave one (`MPI_LOCALNRANKS`).
    ///
    /// # Errors
    /// The process mapping cannot be asked for.
    pub fn over(mut client: PmiClient, local_ranks: Option<u32>) -> Result<ProcessManager, PmiError> {
        let (rank, size) = (client.rank(), client.size());
        let mapping_text = client.get_str("PMI_process_mapping")?;
        let mapping = mapping_text.as_deref().and_then(|text| {
            ProcessMapping::parse(text)
                .inspect_err(|error| tracing::warn!(%error, "nodes of the ranks are unknown"))
                .ok()
        });
        let local_ranks = match (&mapping, local_ranks) {
            (Some(mapping), _) => mapping.ranks_on(mapping.node_of(rank), size),
            (None, Some(told)) => told.clamp(1, size),
            (None, None) => 1,
        };
        Ok(ProcessManager {
            backend: Backend::Pmi1(client),
            mapping_text,
            mapping,
            local_ranks,
            failed: Vec::new(),
        })
    }

    /// A job of this process alone.
    pub fn singleton() -> ProcessManager {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("singleton_{}_{}", std::process::id(), since_epoch.as_nanos());
        ProcessManager {
            backend: Backend::Singleton(Singleton {
                name,
                kvs: HashMap::new(),
                in_barrier: false,
                finalized: false,
            }),
            mapping_text: None,
            mapping: None,
            local_ranks: 1,
            failed: Vec::new(),
        }
    }

    /// This process's rank, from 0.
    pub fn rank(&self) -> u32 {
        match &self.backend {
            Backend::Pmi1(client) => client.rank(),
            Backend::Singleton(_) => 0,
        }
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        match &self.backend {
            Backend::Pmi1(client) => client.size(),
            Backend::Singleton(_) => 1,
        }
    }

    /// The name of the job, which no other job at the same time has.
    pub fn job_id(&self) -> &str {
        match &self.backend {
            Backend::Pmi1(client) => client.kvsname(),
            Backend::Singleton(alone) => &alone.name,
        }
    }

    /// The number of this program in a job of several programs (MPI_APPNUM); -1 if unknown.
    pub fn appnum(&self) -> i32 {
        match &self.backend {
            Backend::Pmi1(client) => client.appnum(),
            Backend::Singleton(_) => 0,
        }
    }

    /// Whether there is no launcher and this process is the whole job.
    pub fn is_singleton(&self) -> bool {
        matches!(self.backend, Backend::Singleton(_))
    }

    /// Stores up to 1 MiB under a key; every rank, this one included, can look it up after a
    /// barrier.
    ///
    /// # Errors
    /// The key exists, is too long (57 characters always fit) or not printable; the value is too
    /// large; the launcher fails.
    pub fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.put_bytes(key, value),
            Backend::Singleton(alone) => {
                alone.check("put")?;
                let why = if !is_key(key) {
                    KEY_RULE.to_owned()
                } else if value.len() > MAX_VALUE {
                    format!("{} bytes are more than the limit of {MAX_VALUE}", value.len())
                } else if alone.kvs.contains_key(key) {
                    "it exists".to_owned()
                } else {
                    alone.kvs.insert(key.to_owned(), value.to_vec());
                    return Ok(());
                };
                Err(PmiError::Argument { key: crate::wire::quote(key.as_bytes()), why })
            }
        }
    }

    /// Looks up what a rank stored before the last barrier; `Ok(None)` if the key is missing.
    ///
    /// # Errors
    /// The launcher has lost or cut a part of the value, or fails.
    pub fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.get_bytes(key),
            Backend::Singleton(alone) => {
                alone.check("get")?;
                Ok(alone.kvs.get(key).cloned())
            }
        }
    }

    /// Enters a barrier without waiting; then call [`barrier_poll`](Self::barrier_poll) until
    /// it says `true`, making progress elsewhere meanwhile.
    ///
    /// # Errors
    /// A barrier has begun already, or the launcher fails.
    pub fn barrier_begin(&mut self) -> Result<(), PmiError> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.barrier_begin(),
            Backend::Singleton(alone) => {
                alone.check("barrier_begin")?;
                alone.in_barrier = true;
                Ok(())
            }
        }
    }

    /// Whether the barrier is over; never waits.
    ///
    /// # Errors
    /// No barrier has begun, or the launcher fails; the cause inside is a [`PmiError`].
    pub fn barrier_poll(&mut self) -> io::Result<bool> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.barrier_poll(),
            Backend::Singleton(alone) => {
                if !std::mem::take(&mut alone.in_barrier) {
                    let why = "no barrier has begun".to_owned();
                    return Err(PmiError::State { call: "barrier_poll", why }.into());
                }
                Ok(true)
            }
        }
    }

    /// A whole barrier, waiting for all ranks; continues one that has begun.
    ///
    /// # Errors
    /// The launcher fails.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.barrier(),
            Backend::Singleton(alone) => {
                alone.in_barrier = false;
                alone.check("barrier")
            }
        }
    }

    /// The descriptor that becomes readable when a barrier may be over, for poll(2); `None` for
    /// a singleton, whose barriers are over at once.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.backend {
            Backend::Pmi1(client) => Some(client.fd()),
            Backend::Singleton(_) => None,
        }
    }

    /// Tells the launcher that this process is done; without it, the end of this process counts
    /// as a failure of the job. A second call does nothing.
    ///
    /// # Errors
    /// A barrier is not over, or the launcher fails.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        match &mut self.backend {
            Backend::Pmi1(client) => client.finalize(),
            Backend::Singleton(alone) => {
                if !alone.finalized {
                    alone.check("finalize")?;
                    alone.finalized = true;
                }
                Ok(())
            }
        }
    }

    /// Ends the whole job: says why on stderr, tells the launcher, and exits.
    ///
    /// The exit status is `code`; a code whose lowest eight bits are zero, which would look
    /// like success, becomes 1.
    pub fn abort(&mut self, code: i32, message: &str) -> ! {
        let code = if code & 0xff == 0 { 1 } else { code };
        // A closed stderr must not keep the job from ending.
        let mut stderr = io::stderr();
        let (rank, job) = (self.rank(), self.job_id());
        let _ = writeln!(stderr, "rank {rank} of {job} aborts the job with code {code}: {message}");
        if let Backend::Pmi1(client) = &mut self.backend {
            match client.abort(code) {
                Ok(()) => client.wait_closed(ABORT_WAIT),
                Err(error) => {
                    let _ = writeln!(stderr, "rank {rank}: {error}");
                }
            }
        }
        std::process::exit(code)
    }

    /// `PMI_process_mapping` as the launcher gave it.
    pub fn process_mapping(&self) -> Option<String> {
        self.mapping_text.clone()
    }

    /// The node a rank runs on, as a number from 0; `None` if the launcher does not tell, or
    /// there is no such rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        if rank >= self.size() {
            return None;
        }
        match &self.backend {
            Backend::Pmi1(_) => self.mapping.as_ref().map(|mapping| mapping.node_of(rank)),
            Backend::Singleton(_) => Some(0),
        }
    }

    /// Prepares this process for jobs that go on when a rank fails (`mpiexec.hydra
    /// -disable-auto-cleanup`, `nmrun --no-kill`): Hydra tells the others by SIGUSR1, which would
    /// kill them. Afterwards that signal does nothing, unless the process has a handler for it;
    /// ask [`failed_ranks`](Self::failed_ranks).
    ///
    /// # Errors
    /// The system refuses.
    pub fn survive_failures(&self) -> io::Result<()> {
        crate::sys::defuse_sigusr1()
    }

    /// The ranks that the launcher knows to have failed (`PMI_dead_processes`), in ascending
    /// order. Launchers that end the job on a failure never tell any.
    ///
    /// While a barrier is under way PMI takes no question; then the list is that of the last one.
    ///
    /// # Errors
    /// The launcher fails or tells nonsense.
    pub fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        const KEY: &str = "PMI_dead_processes";
        let size = self.size();
        let Backend::Pmi1(client) = &mut self.backend else { return Ok(Vec::new()) };
        if client.in_barrier() {
            return Ok(self.failed.clone());
        }
        if let Some(text) = client.get_str(KEY)? {
            self.failed = parse_ranks(&text, size).ok_or_else(|| PmiError::Corrupt {
                key: KEY.to_owned(),
                why: format!("\"{}\" is no list of ranks", crate::wire::quote(text.as_bytes())),
            })?;
        }
        Ok(self.failed.clone())
    }

    /// How many ranks of the job are on this node, this one included; 1 if the launcher does
    /// not tell.
    pub fn local_ranks(&self) -> u32 {
        self.local_ranks
    }
}

/// Reads a list like `1,3-5`.
fn parse_ranks(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut ranks = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= size {
            return None;
        }
        ranks.extend(first..=last);
        // A list cannot be longer than the job, however often it names a rank.
        ranks.sort_unstable();
        ranks.dedup();
    }
    Some(ranks)
}

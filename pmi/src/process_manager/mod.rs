//! The facade: what a program needs of its process manager, whichever that is.

mod pmi;
mod singleton;
#[cfg(test)]
mod tests;

use crate::detect::{Detected, Settings, detect};
use crate::pmix::PmixClient;
use crate::{PmiClient, PmiError, sys};
use forks::Local;
use pmi::Pmi;
use singleton::Singleton;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The launcher's line can have one user in a process.
static CONNECTED: AtomicBool = AtomicBool::new(false);

/// How long an aborting process waits to be ended by the launcher.
const ABORT_WAIT: Duration = Duration::from_secs(2);

/// How long it waits before that, until the launcher has read why.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Between two looks whether it has.
const PAUSE: Duration = Duration::from_millis(1);

/// Writes a text in one piece, and waits until a pipe that it goes by has been read, but no longer than `limit`: a launcher that is told to end
/// the job (Hydra) does not look for what it has not read yet.
fn last_words(out: &mut (impl io::Write + AsFd), text: &str, limit: Duration) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    let end = Instant::now() + limit;
    while sys::holds_unread(out.as_fd())? && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// What each kind of process manager does in its own way; see [`ProcessManager`].
pub(crate) trait Backend: std::fmt::Debug + Send {
    fn rank(&self) -> u32;
    fn size(&self) -> u32;
    fn job_id(&self) -> &str;
    fn appnum(&self) -> i32;
    fn is_singleton(&self) -> bool {
        false
    }
    fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError>;
    fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError>;
    fn barrier_begin(&mut self) -> Result<(), PmiError>;
    fn barrier_poll(&mut self) -> Result<bool, PmiError>;
    fn barrier(&mut self) -> Result<(), PmiError>;
    fn fd(&self) -> Option<RawFd>;
    fn finalize(&mut self) -> Result<(), PmiError>;
    fn finalize_poll(&mut self) -> Result<bool, PmiError>;
    /// Asks for the end of the job, and waits for it for at most `limit`.
    fn abort(&mut self, code: i32, message: &str, limit: Duration) -> Result<(), PmiError>;
    fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError>;
    fn ask_value(&mut self, key: &str) -> Result<(), PmiError>;
    fn ask_failed(&mut self) -> Result<(), PmiError>;
    fn answer(&mut self) -> Result<Option<Answer>, PmiError>;
    fn outlives_launcher(&self) -> bool;
    fn survive_failures(&self) -> io::Result<()>;
    fn process_mapping(&self) -> Option<&str> {
        None
    }
    /// The rank is below the size.
    fn node_of(&self, rank: u32) -> Option<u32>;
    fn own_node(&self) -> Option<u32> {
        self.node_of(self.rank())
    }
    fn local_rank(&self) -> Option<u32> {
        let node = self.node_of(self.rank())?;
        let before = (0..self.rank()).filter(|rank| self.node_of(*rank) == Some(node));
        u32::try_from(before.count()).ok()
    }
    fn local_ranks(&self) -> u32;
}

/// The answer to a question that was asked without waiting.
#[derive(Debug)]
pub enum Answer {
    /// To [`ProcessManager::ask_value`].
    Value {
        /// The key.
        key: String,
        /// As [`ProcessManager::get_bytes`] gives it.
        value: Result<Option<Vec<u8>>, PmiError>,
    },
    /// To [`ProcessManager::ask_failed`]: the ranks, in ascending order.
    Failed(Vec<u32>),
}

/// This process's place in its job: rank and size, the key-value space, barriers, the end.
///
/// `Send`, so that it can move to the thread that needs it; one thread uses it at a time.
#[derive(Debug)]
pub struct ProcessManager {
    backend: Local<Box<dyn Backend>>,
}

impl ProcessManager {
    /// Connects to what started this process, with the settings of the environment; without a
    /// launcher it is a job of one process.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); a setting that is not accepted.
    pub fn from_env() -> Result<ProcessManager, PmiError> {
        ProcessManager::connect(&Settings::from_lookup(variable)?)
    }

    /// Connects to what started this process; without a launcher it is a job of one process.
    ///
    /// See [`detect`](crate::detect) for how the launcher is found.
    ///
    /// # Errors
    /// The environment contradicts itself or describes a launcher that cannot be spoken to; the
    /// launcher does not answer; this process has connected before.
    pub fn connect(settings: &Settings) -> Result<ProcessManager, PmiError> {
        let detected = detect(settings.choice, variable)?;
        if detected == Detected::Singleton {
            return Ok(ProcessManager::singleton());
        }
        if CONNECTED.swap(true, Ordering::SeqCst) {
            return Err(PmiError::AlreadyConnected);
        }
        open(detected, settings).inspect_err(|_| CONNECTED.store(false, Ordering::SeqCst))
    }

    /// A job over a connected client. `local_ranks` is the launcher's own word on how many
    /// ranks are on this node, if it gave one (`MPI_LOCALNRANKS`).
    ///
    /// # Errors
    /// The process mapping cannot be asked for.
    pub fn over(client: PmiClient, local_ranks: Option<u32>) -> Result<ProcessManager, PmiError> {
        Ok(ProcessManager::of(Box::new(Pmi::new(client, local_ranks)?)))
    }

    /// A job of this process alone.
    pub fn singleton() -> ProcessManager {
        ProcessManager::of(Box::new(Singleton::new()))
    }

    fn of(backend: Box<dyn Backend>) -> ProcessManager {
        ProcessManager { backend: Local::new(backend) }
    }

    /// What speaks to the launcher.
    ///
    /// # Errors
    /// [`PmiError::Forked`] in a forked child.
    fn speak(&mut self, call: &'static str) -> Result<&mut dyn Backend, PmiError> {
        if self.backend.origin().is_here() { Ok(&mut **self.backend) } else { Err(PmiError::Forked { call }) }
    }

    /// This process's rank, from 0.
    pub fn rank(&self) -> u32 {
        self.backend.rank()
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.backend.size()
    }

    /// The name of the job, which no other job at the same time has.
    pub fn job_id(&self) -> &str {
        self.backend.job_id()
    }

    /// The number of this program in a job of several programs (MPI_APPNUM); -1 if unknown.
    pub fn appnum(&self) -> i32 {
        self.backend.appnum()
    }

    /// Whether there is no launcher and this process is the whole job.
    pub fn is_singleton(&self) -> bool {
        self.backend.is_singleton()
    }

    /// Stores up to 1 MiB under a key; every rank, this one included, can look it up after a
    /// barrier. Keys are the job's: no two ranks may use the same. Some launchers refuse a key that
    /// exists, others replace its value.
    ///
    /// # Errors
    /// The key is too long (57 characters always fit) or not printable, or it exists; the value is
    /// too large; the launcher fails.
    pub fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.speak("put_bytes")?.put_bytes(key, value)
    }

    /// Looks up what a rank stored before the last barrier; `Ok(None)` if the key is missing.
    ///
    /// # Errors
    /// The launcher has lost or cut a part of the value, or fails.
    pub fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.speak("get_bytes")?.get_bytes(key)
    }

    /// Enters a barrier without waiting; then call [`barrier_poll`](Self::barrier_poll) until
    /// it says `true`, making progress elsewhere meanwhile.
    ///
    /// # Errors
    /// A barrier has begun already, or the launcher fails.
    pub fn barrier_begin(&mut self) -> Result<(), PmiError> {
        self.speak("barrier_begin")?.barrier_begin()
    }

    /// Whether the barrier is over; never waits.
    ///
    /// # Errors
    /// No barrier has begun, or the launcher fails; the cause inside is a [`PmiError`].
    pub fn barrier_poll(&mut self) -> io::Result<bool> {
        Ok(self.speak("barrier_poll")?.barrier_poll()?)
    }

    /// A whole barrier, waiting for all ranks; continues one that has begun.
    ///
    /// # Errors
    /// The launcher fails.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        self.speak("barrier")?.barrier()
    }

    /// The descriptor that becomes readable when a barrier may be over, an answer may be there, or the launcher
    /// is gone, for poll(2); not any more when that was told. `None` for a singleton, whose barriers are over at
    /// once.
    pub fn fd(&self) -> Option<RawFd> {
        self.backend.fd()
    }

    /// Tells the launcher that this process is done; without it, the end of this process counts
    /// as a failure of the job. A second call does nothing.
    ///
    /// # Errors
    /// A barrier is not over, or the launcher fails.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        self.speak("finalize")?.finalize()
    }

    /// As [`finalize`](Self::finalize), without waiting: the first call tells the launcher. Returns
    /// true if it has answered; [`fd`](Self::fd) is readable when it may have.
    ///
    /// # Errors
    /// A barrier is not over, or the launcher fails.
    pub fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        self.speak("finalize")?.finalize_poll()
    }

    /// Ends the whole job: says why on stderr, tells the launcher, and exits. A forked child ends itself alone.
    ///
    /// The exit status of this process is `code`; a code whose lowest eight bits are zero, which
    /// would look like success, becomes 1. That of the launcher is up to it: Slurm's is 137.
    pub fn abort(&mut self, code: i32, message: &str) -> ! {
        std::process::exit(self.ask_abort(code, message))
    }

    /// As [`abort`](Self::abort), for who has something to do before it exits. Returns the status
    /// to exit with, if the launcher has not ended this process within a few seconds.
    pub fn ask_abort(&mut self, code: i32, message: &str) -> i32 {
        let code = if code & 0xff == 0 { 1 } else { code };
        if let Err(error) = self.speak("abort") {
            let _ = last_words(&mut io::stderr(), &format!("{message}: {error}\n"), READ_WAIT);
            // Not what the parent has registered for its own exit.
            sys::exit_now(code);
        }
        let (rank, job) = (self.rank(), self.job_id());
        let why = format!("rank {rank} of {job} aborts the job with code {code}: {message}\n");
        // A closed stderr must not keep the job from ending.
        let _ = last_words(&mut io::stderr(), &why, READ_WAIT);
        if let Err(error) = self.backend.abort(code, message, ABORT_WAIT) {
            let _ = last_words(&mut io::stderr(), &format!("rank {rank}: {error}\n"), READ_WAIT);
        }
        code
    }

    /// `PMI_process_mapping` as the launcher gave it.
    pub fn process_mapping(&self) -> Option<String> {
        self.backend.process_mapping().map(str::to_owned)
    }

    /// The node a rank runs on, as a number from 0; `None` if the launcher does not tell, or
    /// there is no such rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        if rank < self.size() { self.backend.node_of(rank) } else { None }
    }

    /// A number that tells the node of this process from the other nodes of the job, not always that of
    /// [`node_of`](Self::node_of), but soon found out; `None` if the launcher does not tell.
    pub fn own_node(&self) -> Option<u32> {
        self.backend.own_node()
    }

    /// How many ranks before this one are on its node; `None` if the launcher does not tell.
    pub fn local_rank(&self) -> Option<u32> {
        self.backend.local_rank()
    }

    /// Prepares this process for jobs that go on when a rank fails (`mpiexec.hydra
    /// -disable-auto-cleanup`, `nmrun --no-kill`): Hydra tells the others by SIGUSR1, which would
    /// kill them. Afterwards that signal does nothing, unless the process has a handler for it;
    /// ask [`failed_ranks`](Self::failed_ranks).
    ///
    /// # Errors
    /// The system refuses.
    pub fn survive_failures(&self) -> io::Result<()> {
        self.backend.survive_failures()
    }

    /// The ranks that the launcher knows to have failed (`PMI_dead_processes`, or events of PMIx),
    /// in ascending order. Launchers that end the job on a failure never tell any.
    ///
    /// While a barrier is under way PMI takes no question; then the list is that of the last one.
    ///
    /// # Errors
    /// The launcher fails or tells nonsense.
    pub fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        self.speak("failed_ranks")?.failed_ranks()
    }

    /// Asks for what [`get_bytes`](Self::get_bytes) looks up, without waiting; the answer comes by
    /// [`answer`](Self::answer). What is asked during a barrier is answered after it.
    ///
    /// # Errors
    /// The key is no key; the launcher fails.
    pub fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        self.backend.ask_value(key)
    }

    /// Asks for [`failed_ranks`](Self::failed_ranks), without waiting; the answer comes by [`answer`](Self::answer).
    ///
    /// # Errors
    /// The launcher fails.
    pub fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.backend.ask_failed()
    }

    /// The next answer, in the order of the questions; never waits. It is the call that notices that the
    /// launcher is gone, also if nothing was asked.
    ///
    /// # Errors
    /// The launcher fails; [`PmiError::is_lost`] tells whether it is gone.
    pub fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        self.backend.answer()
    }

    /// Returns true if this process is to go on when the launcher is gone: `nmrun --no-kill` was told so, or PMIx
    /// says that the job is recoverable.
    pub fn outlives_launcher(&self) -> bool {
        self.backend.outlives_launcher()
    }

    /// How many ranks of the job are on this node, this one included; 1 if the launcher does
    /// not tell.
    pub fn local_ranks(&self) -> u32 {
        self.backend.local_ranks()
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn open(detected: Detected, settings: &Settings) -> Result<ProcessManager, PmiError> {
    let client = match detected {
        Detected::Descriptor { fd, rank, size, version, job } => {
            PmiClient::from_inherited_fd(fd, rank, size, version, job.as_deref())?
        }
        Detected::Port { address, id, version } => PmiClient::connect_port(&address, &id, version)?,
        Detected::Pmix { .. } => {
            return Ok(ProcessManager::of(Box::new(PmixClient::connect(&settings.pmix_library)?)));
        }
        Detected::Singleton => return Ok(ProcessManager::singleton()),
    };
    ProcessManager::over(client, variable("MPI_LOCALNRANKS").and_then(|n| n.parse().ok()))
}

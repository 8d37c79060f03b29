//! The interface for programs, independent of the kind of process manager.

mod backend;
mod own_server;
mod pmi;
mod singleton;
#[cfg(test)]
mod tests;

use crate::detect::{Detected, Settings, detect};
use crate::pmix::PmixClient;
use crate::{PmiClient, PmiError, Spawn, sys};
pub use backend::Answer;
pub(crate) use backend::Backend;
use forks::Local;
use pmi::Pmi;
use singleton::Singleton;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set once connected: a process has one connection to its launcher.
static CONNECTED: AtomicBool = AtomicBool::new(false);

/// Time that an aborting process waits to be ended by the launcher.
const ABORT_WAIT: Duration = Duration::from_secs(2);

/// Time that it waits before that for the launcher to read its message.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Time between two checks for that.
const PAUSE: Duration = Duration::from_millis(1);

/// Writes a text at once, and waits until it has been read if it goes by a pipe, at most for
/// `limit`.
///
/// A launcher that is told to end the job (Hydra) does not read what is still in the pipe.
fn last_words(out: &mut (impl io::Write + AsFd), text: &str, limit: Duration) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    let end = Instant::now() + limit;
    while sys::holds_unread(out.as_fd())? && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A process's membership in its job: rank and size, key-value space, barriers, finalize and abort.
///
/// It is `Send`, so it can move to the thread that needs it; one thread uses it at a time.
#[derive(Debug)]
pub struct ProcessManager {
    backend: Local<Box<dyn Backend>>,
}

impl ProcessManager {
    /// Connects to the launcher with the environment's settings; without one, this is a job of one
    /// process.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and if a setting is not accepted.
    pub fn from_env() -> Result<ProcessManager, PmiError> {
        ProcessManager::connect(&Settings::from_lookup(variable)?)
    }

    /// Connects to the launcher; without one, this is a job of one process.
    ///
    /// See [`detect`](crate::detect) for the detection of the launcher.
    ///
    /// # Errors
    ///
    /// Fails if the environment contradicts itself or describes a launcher whose protocol is not
    /// supported, if the launcher does not reply, or if this process has connected before.
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

    /// Creates a job over a connected client.
    ///
    /// `local_ranks` is the launcher's own count of ranks on this node, if it gave one
    /// (`MPI_LOCALNRANKS`).
    ///
    /// # Errors
    ///
    /// Fails if the process mapping cannot be requested.
    pub fn over(client: PmiClient, local_ranks: Option<u32>) -> Result<ProcessManager, PmiError> {
        Ok(ProcessManager::of(Box::new(Pmi::new(client, local_ranks)?)))
    }

    /// Creates a job of this process alone.
    pub fn singleton() -> ProcessManager {
        ProcessManager::of(Box::new(Singleton::new()))
    }

    fn of(backend: Box<dyn Backend>) -> ProcessManager {
        ProcessManager { backend: Local::new(backend) }
    }

    /// Returns the backend.
    ///
    /// # Errors
    ///
    /// Returns [`PmiError::Forked`] in a forked child.
    fn speak(&mut self, call: &'static str) -> Result<&mut dyn Backend, PmiError> {
        if self.backend.origin().is_here() { Ok(&mut **self.backend) } else { Err(PmiError::Forked { call }) }
    }

    /// Returns this process's rank, from 0.
    pub fn rank(&self) -> u32 {
        self.backend.rank()
    }

    /// Returns the number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.backend.size()
    }

    /// Returns the name of the job, which no other job at the same time has.
    pub fn job_id(&self) -> &str {
        self.backend.job_id()
    }

    /// Returns the number of this program in a job of several programs (MPI_APPNUM); -1 if unknown.
    pub fn appnum(&self) -> i32 {
        self.backend.appnum()
    }

    /// Returns the most ranks that the launcher expects (MPI_UNIVERSE_SIZE); `None` if it does not
    /// tell, or sets no limit.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        self.speak("universe_size")?.universe_size()
    }

    /// Returns true if there is no launcher and this process is the whole job.
    pub fn is_singleton(&self) -> bool {
        self.backend.is_singleton()
    }

    /// Stores up to 1 MiB under a key; every rank, this one included, can look it up after a
    /// barrier.
    ///
    /// Keys are the job's: no two ranks may use the same. Some launchers refuse a key that exists,
    /// others replace its value.
    ///
    /// # Errors
    ///
    /// Fails if the key is too long (57 characters always fit), not printable, or in use, if the
    /// value is too large, or if the launcher fails.
    pub fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.speak("put_bytes")?.put_bytes(key, value)
    }

    /// Looks up what a rank stored before the last barrier; `Ok(None)` if the key is missing.
    ///
    /// # Errors
    ///
    /// Fails if the launcher has lost or truncated the value, or fails.
    pub fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.speak("get_bytes")?.get_bytes(key)
    }

    /// Enters a barrier without waiting.
    ///
    /// Call [`barrier_poll`](Self::barrier_poll) until it returns true, and make progress elsewhere
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has begun already, or if the launcher fails.
    pub fn barrier_begin(&mut self) -> Result<(), PmiError> {
        self.speak("barrier_begin")?.barrier_begin()
    }

    /// Returns true if the barrier has ended; never waits.
    ///
    /// # Errors
    ///
    /// Fails if no barrier has begun, or if the launcher fails; the cause inside is a [`PmiError`].
    pub fn barrier_poll(&mut self) -> io::Result<bool> {
        Ok(self.speak("barrier_poll")?.barrier_poll()?)
    }

    /// Enters a barrier and waits for all ranks; continues one that has begun.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn barrier(&mut self) -> Result<(), PmiError> {
        self.speak("barrier")?.barrier()
    }

    /// Returns a descriptor for poll(2); `None` for a singleton, whose barriers end at once.
    ///
    /// It is readable when a barrier may have ended, when an answer may be there, or when the
    /// launcher is gone, until that has been reported.
    pub fn fd(&self) -> Option<RawFd> {
        self.backend.fd()
    }

    /// Tells the launcher that this process no longer needs it.
    ///
    /// Without it, the end of this process counts as a failure of the job. A second call does
    /// nothing.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has not ended, or if the launcher fails.
    pub fn finalize(&mut self) -> Result<(), PmiError> {
        self.speak("finalize")?.finalize()
    }

    /// Does the same as [`finalize`](Self::finalize) without waiting: the first call sends the
    /// request.
    ///
    /// Returns true if the launcher has replied; [`fd`](Self::fd) is readable when it may have.
    ///
    /// # Errors
    ///
    /// Fails if a barrier has not ended, or if the launcher fails.
    pub fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        self.speak("finalize")?.finalize_poll()
    }

    /// Ends the whole job: reports the reason on stderr, tells the launcher, and exits.
    ///
    /// A forked child ends only itself. The exit status of this process is `code`; a code whose
    /// lowest eight bits are zero, which would look like success, becomes 1. The launcher chooses
    /// its own: Slurm's is 137.
    pub fn abort(&mut self, code: i32, message: &str) -> ! {
        std::process::exit(self.ask_abort(code, message))
    }

    /// Does the same as [`abort`](Self::abort) without exiting, for callers that have to clean up.
    ///
    /// Returns the status to exit with, if the launcher has not ended this process within a few
    /// seconds.
    pub fn ask_abort(&mut self, code: i32, message: &str) -> i32 {
        let code = if code & 0xff == 0 { 1 } else { code };
        if let Err(error) = self.speak("abort") {
            let _ = last_words(&mut io::stderr(), &format!("{message}: {error}\n"), READ_WAIT);
            // Skips the parent's exit handlers.
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

    /// Names the launcher, as far as it is known, and the protocol that it speaks; "none" without
    /// one.
    pub fn launcher(&self) -> &'static str {
        self.backend.launcher()
    }

    /// Returns the launcher's `PMI_process_mapping`.
    pub fn process_mapping(&self) -> Option<String> {
        self.backend.process_mapping().map(str::to_owned)
    }

    /// Returns the node of a rank, as a number from 0; `None` if the launcher does not tell, or
    /// there is no such rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        if rank < self.size() { self.backend.node_of(rank) } else { None }
    }

    /// Returns a number that identifies this process's node in the job; `None` if the launcher does
    /// not tell.
    ///
    /// It may differ from [`node_of`](Self::node_of), and is cheaper.
    pub fn own_node(&self) -> Option<u32> {
        self.backend.own_node()
    }

    /// Returns the number of lower ranks on this node; `None` if the launcher does not tell.
    pub fn local_rank(&self) -> Option<u32> {
        self.backend.local_rank()
    }

    /// Prepares this process for jobs that continue when a rank fails.
    ///
    /// Examples are `mpiexec.hydra -disable-auto-cleanup` and `nmrun --no-kill`. Hydra then tells
    /// the others by SIGUSR1, which would kill them. This call makes the signal do nothing, unless
    /// the process has a handler for it, or `nmrun` has started it. Ask
    /// [`failed_ranks`](Self::failed_ranks).
    ///
    /// # Errors
    ///
    /// Fails if the system refuses.
    pub fn survive_failures(&self) -> io::Result<()> {
        self.backend.survive_failures()
    }

    /// Returns the ranks that the launcher knows to have failed, in ascending order.
    ///
    /// They come from `PMI_dead_processes`, or from events of PMIx. Launchers that end the job on a
    /// failure never report any. PMI takes no request during a barrier; then the last known list is
    /// returned.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails or replies with an invalid list.
    pub fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        self.speak("failed_ranks")?.failed_ranks()
    }

    /// Asks for the value of [`get_bytes`](Self::get_bytes) without waiting.
    ///
    /// [`answer`](Self::answer) returns it. Requests made during a barrier are answered after it.
    ///
    /// # Errors
    ///
    /// Fails if the key is invalid, or if the launcher fails.
    pub fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        self.backend.ask_value(key)
    }

    /// Asks for [`failed_ranks`](Self::failed_ranks) without waiting; [`answer`](Self::answer)
    /// returns them.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.backend.ask_failed()
    }

    /// Returns the next answer, in the order of the requests; never waits.
    ///
    /// This call also detects that the launcher is gone, even without any requests.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails; [`PmiError::is_lost`] tells whether it is gone.
    pub fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        self.backend.answer()
    }

    /// Publishes a port under the name of a service, for all jobs of the launcher.
    ///
    /// # Errors
    ///
    /// Fails if the name is published already, or if the launcher does not serve it.
    pub fn publish_name(&mut self, service: &str, port: &str) -> Result<(), PmiError> {
        self.speak("publish_name")?.publish_name(service, port)
    }

    /// Looks up the port of a service; `Ok(None)` if none is published.
    ///
    /// # Errors
    ///
    /// Fails if the launcher does not serve it.
    pub fn lookup_name(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        self.speak("lookup_name")?.lookup_name(service)
    }

    /// Takes back the name of a service.
    ///
    /// # Errors
    ///
    /// Fails if nothing is published under it, or if the launcher does not serve it.
    pub fn unpublish_name(&mut self, service: &str) -> Result<(), PmiError> {
        self.speak("unpublish_name")?.unpublish_name(service)
    }

    /// Starts programs as a job of their own. Returns its name, if the launcher tells.
    ///
    /// # Errors
    ///
    /// Fails if the launcher cannot start them, with its reason, or does not serve it.
    pub fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        self.speak("spawn")?.spawn(spawn)
    }

    /// Returns the port at which those who have asked for this job await it; `None` if nobody has.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn parent_port(&mut self) -> Result<Option<String>, PmiError> {
        self.speak("parent_port")?.parent_port()
    }

    /// Returns true if other processes have asked for this job.
    pub fn is_spawned(&self) -> bool {
        self.backend.is_spawned()
    }

    /// Returns the exit code of a job that was started by [`spawn`](Self::spawn), if the launcher
    /// says that it has ended.
    ///
    /// # Errors
    ///
    /// Fails if the launcher fails.
    pub fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, PmiError> {
        self.speak("end_of_job")?.end_of_job(job)
    }

    /// Returns true if this process is to continue when the launcher is gone.
    ///
    /// `nmrun --no-kill` says so by a variable, PMIx by marking the job as recoverable.
    pub fn outlives_launcher(&self) -> bool {
        self.backend.outlives_launcher()
    }

    /// Returns the number of ranks on this node, this one included; 1 if the launcher does not
    /// tell.
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

//! The process manager, as the device needs it.

use std::io;
use std::os::fd::RawFd;

use crate::Config;
use netmod_pmi::{PmiError, ProcessManager, Settings, Spawn};

/// The state of a question to the process manager.
#[derive(Debug)]
pub enum Asked<T> {
    /// It is answered.
    Now(T),
    /// Its answer comes by [`Bootstrap::answer`].
    Later,
}

/// The reason why the process manager does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The launcher, or the way to it, has failed.
    #[error(transparent)]
    Launcher(#[from] PmiError),
    /// The signal by which the launcher tells of a failed process cannot be set to do nothing.
    #[error("survive_failures: {0}")]
    Signal(io::Error),
    /// The system refuses something to a process manager that is not a launcher.
    #[error(transparent)]
    System(#[from] io::Error),
    /// No answer will come any more, as [`Silence`] has told: the reason.
    #[error("{0}")]
    Silent(String),
    /// A process manager that is not a launcher, such as one in memory, refuses: the reason.
    #[error("{0}")]
    Refused(String),
}

impl BootstrapError {
    fn lacks(what: &str) -> BootstrapError {
        BootstrapError::Refused(format!("the process manager does not serve {what}"))
    }
}

/// A later answer of the process manager.
#[derive(Debug)]
pub enum Answer {
    /// To [`Bootstrap::ask_value`]: the key and its value, or why it cannot be had.
    Value(String, Result<Option<Vec<u8>>, BootstrapError>),
    /// To [`Bootstrap::ask_failed`].
    Failed(Vec<u32>),
}

/// The reason for which the process manager answers no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It is gone, and the job is to end with it.
    Gone(String),
    /// It is gone, but the job is to go on; or it says what nobody understands.
    Mute(String),
}

/// A process manager, as the device sees it: who am I, a key-value space, a barrier.
///
/// Implemented by [`ProcessManager`] (the launchers, and the singleton); tests implement it in
/// memory.
pub trait Bootstrap: Send {
    /// This process's rank.
    fn rank(&self) -> u32;
    /// Number of processes.
    fn size(&self) -> u32;
    /// Name of the job, the same in all its processes and different from every other job's.
    fn job_id(&self) -> String;
    /// Processes of the job on this node, this one included.
    fn local_size(&self) -> u32;
    /// A number that tells the node of this process from the other nodes of the job. None if the
    /// process manager does not tell.
    fn node(&self) -> Option<u32> {
        None
    }
    /// The number, as [`Bootstrap::node`] has it, of the node of a rank of the job.
    fn node_of(&self, rank: u32) -> Option<u32> {
        let _ = rank;
        None
    }
    /// Returns the number of ranks before this one on its node; `None` if the process manager does
    /// not tell.
    fn local_rank(&self) -> Option<u32> {
        None
    }
    /// Publishes a value.
    ///
    /// # Errors
    /// What the process manager says.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError>;
    /// A value published before the last barrier. It may wait for the process manager, so that only
    /// those ask who are starting, or would wait for it anyhow.
    ///
    /// # Errors
    /// What the process manager says.
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError>;
    /// Asks for a value published before the last barrier; never waits. What is asked during a
    /// barrier may be answered after it.
    ///
    /// # Errors
    /// What the process manager says.
    fn ask_value(&mut self, key: &str) -> Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        self.get(key).map(Asked::Now)
    }
    /// Enters a barrier without waiting.
    ///
    /// # Errors
    /// What the process manager says.
    fn barrier_begin(&mut self) -> Result<(), BootstrapError>;
    /// Returns true if all processes have entered.
    ///
    /// # Errors
    /// What the process manager says.
    fn barrier_poll(&mut self) -> Result<bool, BootstrapError>;
    /// A descriptor that becomes readable when a barrier may have ended, an answer may be there, or
    /// the process manager is gone, until that was told.
    fn fd(&self) -> Option<RawFd>;
    /// Asks for the ranks that the process manager knows to have failed, in ascending order, each
    /// once; never waits. None of them if it ends the job on a failure, or does not tell.
    ///
    /// # Errors
    /// What the process manager says.
    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        Ok(Asked::Now(Vec::new()))
    }
    /// The next answer to a question that was to be answered later; never waits. Notices, too, when
    /// the process manager is gone.
    ///
    /// # Errors
    /// No answer will come any more.
    fn answer(&mut self) -> Result<Option<Answer>, Silence> {
        Ok(None)
    }
    /// The number of this process's program in the job, if the process manager counts programs.
    fn appnum(&self) -> Option<i32> {
        None
    }
    /// Returns the most processes that the launcher expects, if it tells and limits them.
    ///
    /// # Errors
    /// What the process manager says.
    fn universe_size(&mut self) -> Result<Option<u32>, BootstrapError> {
        Ok(Some(self.size()))
    }
    /// Publishes a port under the name of a service.
    ///
    /// # Errors
    /// What the process manager says.
    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), BootstrapError> {
        let _ = (service, port);
        Err(BootstrapError::lacks("published names"))
    }
    /// Looks up the port of a service.
    ///
    /// # Errors
    /// What the process manager says.
    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, BootstrapError> {
        let _ = service;
        Err(BootstrapError::lacks("published names"))
    }
    /// Takes back the name of a service.
    ///
    /// # Errors
    /// What the process manager says.
    fn unpublish_name(&mut self, service: &str) -> Result<(), BootstrapError> {
        let _ = service;
        Err(BootstrapError::lacks("published names"))
    }
    /// Starts programs as a job of their own. Returns its name, if the process manager tells.
    ///
    /// # Errors
    /// What the process manager says.
    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, BootstrapError> {
        let _ = spawn;
        Err(BootstrapError::lacks("the start of programs"))
    }
    /// Returns true if other processes have asked for this job.
    fn is_spawned(&self) -> bool {
        false
    }
    /// Returns the port at which those await it.
    ///
    /// # Errors
    /// What the process manager says.
    fn parent_port(&mut self) -> Result<Option<String>, BootstrapError> {
        Ok(None)
    }
    /// Returns the exit code of a job that was started by [`Bootstrap::spawn`], if the process
    /// manager says that it has ended.
    ///
    /// # Errors
    /// What the process manager says.
    fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, BootstrapError> {
        let _ = job;
        Ok(None)
    }
    /// Names the launcher and its protocol, for people.
    fn launcher(&self) -> &'static str {
        "not known"
    }
    /// Prepares this process to go on when another one fails: no signal by which the launcher tells
    /// of it kills this process. The launcher must have been told not to end the job.
    ///
    /// # Errors
    /// What the system says.
    fn survive_failures(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }
    /// Leaves the process manager, without waiting: the first call tells it, later ones ask for its
    /// answer. Returns true when it has answered; [`Bootstrap::fd`] is readable when it may have.
    ///
    /// # Errors
    /// What the process manager says.
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError>;
    /// Asks for the end of the whole job, says why, and waits for a limited time to be ended.
    /// Returns the status with which this process exits if it is not.
    fn abort(&mut self, code: i32, message: &str) -> i32;
}

/// Connects to what started this process, as the configuration says.
///
/// # Errors
/// A launcher that cannot be spoken to.
pub fn process_manager(cfg: &Config) -> Result<ProcessManager, PmiError> {
    let settings = Settings::parse(cfg.pmi, &cfg.pmix_library)?;
    ProcessManager::connect(&settings)
}

impl Bootstrap for ProcessManager {
    fn rank(&self) -> u32 {
        ProcessManager::rank(self)
    }
    fn size(&self) -> u32 {
        ProcessManager::size(self)
    }
    fn job_id(&self) -> String {
        ProcessManager::job_id(self).to_owned()
    }
    fn local_size(&self) -> u32 {
        self.local_ranks()
    }
    fn node(&self) -> Option<u32> {
        self.own_node()
    }
    fn node_of(&self, rank: u32) -> Option<u32> {
        ProcessManager::node_of(self, rank)
    }
    fn local_rank(&self) -> Option<u32> {
        ProcessManager::local_rank(self)
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        Ok(self.put_bytes(key, value)?)
    }
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        Ok(self.get_bytes(key)?)
    }
    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        Ok(ProcessManager::barrier_begin(self)?)
    }
    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(ProcessManager::barrier_poll(self)?)
    }
    fn fd(&self) -> Option<RawFd> {
        ProcessManager::fd(self)
    }
    fn ask_value(&mut self, key: &str) -> Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        ProcessManager::ask_value(self, key)?;
        Ok(Asked::Later)
    }
    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        ProcessManager::ask_failed(self)?;
        Ok(Asked::Later)
    }
    fn answer(&mut self) -> Result<Option<Answer>, Silence> {
        match ProcessManager::answer(self) {
            Ok(None) => Ok(None),
            Ok(Some(netmod_pmi::Answer::Failed(ranks))) => Ok(Some(Answer::Failed(ranks))),
            Ok(Some(netmod_pmi::Answer::Value { key, value })) => {
                Ok(Some(Answer::Value(key, value.map_err(BootstrapError::Launcher))))
            }
            Err(e) if e.is_lost() && !self.outlives_launcher() => Err(Silence::Gone(e.to_string())),
            Err(e) => Err(Silence::Mute(e.to_string())),
        }
    }
    fn appnum(&self) -> Option<i32> {
        Some(ProcessManager::appnum(self))
    }
    fn universe_size(&mut self) -> Result<Option<u32>, BootstrapError> {
        Ok(ProcessManager::universe_size(self)?)
    }
    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), BootstrapError> {
        Ok(ProcessManager::publish_name(self, service, port)?)
    }
    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, BootstrapError> {
        Ok(ProcessManager::lookup_name(self, service)?)
    }
    fn unpublish_name(&mut self, service: &str) -> Result<(), BootstrapError> {
        Ok(ProcessManager::unpublish_name(self, service)?)
    }
    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, BootstrapError> {
        Ok(ProcessManager::spawn(self, spawn)?)
    }
    fn is_spawned(&self) -> bool {
        ProcessManager::is_spawned(self)
    }
    fn parent_port(&mut self) -> Result<Option<String>, BootstrapError> {
        Ok(ProcessManager::parent_port(self)?)
    }
    fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, BootstrapError> {
        Ok(ProcessManager::end_of_job(self, job)?)
    }
    fn launcher(&self) -> &'static str {
        ProcessManager::launcher(self)
    }
    fn survive_failures(&mut self) -> Result<(), BootstrapError> {
        ProcessManager::survive_failures(self).map_err(BootstrapError::Signal)
    }
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(ProcessManager::finalize_poll(self)?)
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        self.ask_abort(code, message)
    }
}

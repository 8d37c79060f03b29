//! The interface of the kinds of process managers.

use crate::{PmiError, Spawn};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The operations of one kind of process manager; see [`ProcessManager`](crate::ProcessManager).
pub(crate) trait Backend: std::fmt::Debug + Send {
    fn rank(&self) -> u32;
    fn size(&self) -> u32;
    fn job_id(&self) -> &str;
    fn appnum(&self) -> i32;
    /// Returns the size of the universe, if the launcher tells and limits it.
    fn universe_size(&mut self) -> Result<Option<u32>, PmiError>;
    /// Names the launcher, as far as it is known, and its protocol.
    fn launcher(&self) -> &'static str;
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
    /// Requests the end of the job, and waits for it, at most for `limit`.
    fn abort(&mut self, code: i32, message: &str, limit: Duration) -> Result<(), PmiError>;
    fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError>;
    fn ask_value(&mut self, key: &str) -> Result<(), PmiError>;
    fn ask_failed(&mut self) -> Result<(), PmiError>;
    fn answer(&mut self) -> Result<Option<Answer>, PmiError>;
    fn publish_name(&mut self, _service: &str, _port: &str) -> Result<(), PmiError> {
        Err(self.lacks("publish_name"))
    }
    fn lookup_name(&mut self, _service: &str) -> Result<Option<String>, PmiError> {
        Err(self.lacks("lookup_name"))
    }
    fn unpublish_name(&mut self, _service: &str) -> Result<(), PmiError> {
        Err(self.lacks("unpublish_name"))
    }
    /// Starts programs as a job of their own; returns its name, if the launcher tells.
    fn spawn(&mut self, _spawn: &Spawn) -> Result<Option<String>, PmiError> {
        Err(self.lacks("spawn"))
    }
    /// Returns true if another job has asked for this one.
    fn is_spawned(&self) -> bool {
        false
    }
    /// Returns the port at which those who have asked for this job await it.
    fn parent_port(&mut self) -> Result<Option<String>, PmiError> {
        Ok(None)
    }
    /// Returns the exit code of a job that was started by [`Backend::spawn`], if it is known to
    /// have ended.
    fn end_of_job(&mut self, _job: &str) -> Result<Option<i32>, PmiError> {
        Ok(None)
    }
    /// Returns the error of a call that the launcher does not serve.
    fn lacks(&self, call: &'static str) -> PmiError {
        let why = format!(
            "{} does not serve it; start the program by mpiexec (nmrun) or mpiexec.hydra, for one process, too",
            self.launcher()
        );
        PmiError::Unsupported { call, why }
    }
    fn outlives_launcher(&self) -> bool;
    fn survive_failures(&self) -> io::Result<()>;
    fn process_mapping(&self) -> Option<&str> {
        None
    }
    /// Returns the node of a rank, which is below the size.
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

/// The answer to an asynchronous request.
#[derive(Debug)]
pub enum Answer {
    /// The answer to [`ProcessManager::ask_value`](crate::ProcessManager::ask_value).
    Value {
        /// The key.
        key: String,
        /// The result, as of [`ProcessManager::get_bytes`](crate::ProcessManager::get_bytes).
        value: Result<Option<Vec<u8>>, PmiError>,
    },
    /// The ranks, in ascending order; answers
    /// [`ask_failed`](crate::ProcessManager::ask_failed).
    Failed(Vec<u32>),
}

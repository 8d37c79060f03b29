//! A process manager in memory, for devices beside the job's own.
//!
//! Values can be read as soon as they are published. A barrier waits if there is a
//! [`StartBarrier`]. Without one, rank 0 must be made first, since it publishes what all others
//! need.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ch3_shim::{Bootstrap, BootstrapError};

/// Published values by name.
pub(crate) type Values = HashMap<String, Vec<u8>>;

/// Barrier of the start, for ranks in several processes. The device waits in it while its creator
/// exchanges the published values with the other processes.
#[derive(Debug, Default)]
pub(crate) struct StartBarrier(Mutex<(bool, bool)>, Condvar);

impl StartBarrier {
    fn lock(&self) -> MutexGuard<'_, (bool, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks that the device has published all its values, or has failed.
    pub(crate) fn enter(&self) {
        self.lock().0 = true;
        self.1.notify_all();
    }

    /// Waits until the device has entered.
    pub(crate) fn entered(&self) {
        drop(self.1.wait_while(self.lock(), |(entered, _)| !*entered));
    }

    /// Ends this barrier and all later ones: the values of all ranks are there.
    pub(crate) fn open(&self) {
        self.lock().1 = true;
    }

    fn is_open(&self) -> bool {
        self.lock().1
    }
}

/// One rank's connection to the process manager.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPm {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) job: String,
    /// Number of processes that the device believes to share the node, which decides how long it
    /// spins.
    pub(crate) local_size: u32,
    pub(crate) values: Arc<Mutex<Values>>,
    /// A rank whose values stand for those of ranks that do not exist.
    pub(crate) stand_in: Option<u32>,
    pub(crate) barrier: Option<Arc<StartBarrier>>,
}

impl MemoryPm {
    pub(crate) fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bootstrap for MemoryPm {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job_id(&self) -> String {
        self.job.clone()
    }

    fn local_size(&self) -> u32 {
        self.local_size
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.values().insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let values = self.values();
        let other = || {
            let (name, _) = key.rsplit_once('-')?;
            values.get(&format!("{name}-{}", self.stand_in?))
        };
        Ok(values.get(key).or_else(other).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        if let Some(barrier) = &self.barrier {
            barrier.enter();
        }
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(self.barrier.as_ref().is_none_or(|barrier| barrier.is_open()))
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        eprintln!("netmod-perf: rank {} of {} ends with code {code}: {message}", self.rank, self.job);
        code
    }
}

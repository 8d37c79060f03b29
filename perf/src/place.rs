//! A process manager in memory, for devices that are made beside the job's own.
//!
//! Values can be read as soon as they are published. A barrier waits if the place has a [`Gate`]; without one rank 0,
//! which publishes what all need, is made first.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ch3_shim::Bootstrap;

/// What was published, by name.
pub(crate) type Values = HashMap<String, Vec<u8>>;

/// The barrier of the start, for a place whose other ranks are in other processes: who made the device exchanges
/// with them what was published, while the device waits.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<(bool, bool)>, Condvar);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, (bool, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device has published all, or has failed.
    pub(crate) fn enter(&self) {
        self.lock().0 = true;
        self.1.notify_all();
    }

    /// Waits until the device has entered.
    pub(crate) fn entered(&self) {
        drop(self.1.wait_while(self.lock(), |(entered, _)| !*entered));
    }

    /// The values of all ranks are there: this barrier ends, and so does each later one at once.
    pub(crate) fn open(&self) {
        self.lock().1 = true;
    }

    fn is_open(&self) -> bool {
        self.lock().1
    }
}

/// One rank's part.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) job: String,
    /// Processes that it is told to share the node with, which decides how long its device spins.
    pub(crate) local_size: u32,
    pub(crate) values: Arc<Mutex<Values>>,
    /// The rank whose value stands for those that other ranks would have published.
    pub(crate) stand_in: Option<u32>,
    pub(crate) gate: Option<Arc<Gate>>,
}

impl Place {
    pub(crate) fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bootstrap for Place {
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

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.values().insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let values = self.values();
        let other = || {
            let (name, _) = key.rsplit_once('-')?;
            values.get(&format!("{name}-{}", self.stand_in?))
        };
        Ok(values.get(key).or_else(other).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), String> {
        if let Some(gate) = &self.gate {
            gate.enter();
        }
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, String> {
        Ok(self.gate.as_ref().is_none_or(|gate| gate.is_open()))
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn finalize_poll(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        eprintln!("netmod-perf: rank {} of {} ends with code {code}: {message}", self.rank, self.job);
        code
    }
}

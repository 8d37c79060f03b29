//! The simulated process manager: key-value space, barriers, and failed ranks.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ch3_shim::{Asked, Bootstrap, BootstrapError};

use crate::net::Net;

/// State of the process manager.
#[derive(Debug)]
pub(crate) struct PmState {
    size: u32,
    job: String,
    values: HashMap<String, Vec<u8>>,
    /// Number of values that each rank has asked for.
    pub(crate) fetched: Vec<u64>,
    /// Number of barriers that each rank has entered; the first is for joining the job.
    entered: Vec<u32>,
    /// Number of ranks that have entered the barrier for leaving.
    waiting: u32,
    failed: Vec<u32>,
    net: Arc<Mutex<Net>>,
}

impl PmState {
    pub(crate) fn new(size: u32, net: Arc<Mutex<Net>>) -> PmState {
        PmState {
            size,
            job: format!("simulated job of {size}"),
            values: HashMap::new(),
            fetched: vec![0; size as usize],
            entered: vec![0; size as usize],
            waiting: 0,
            failed: Vec::new(),
            net,
        }
    }

    /// Returns true if all live ranks want to leave.
    fn is_complete(&self) -> bool {
        self.waiting + self.failed.len() as u32 >= self.size
    }

    fn wake_if_complete(&self) {
        if self.is_complete() {
            self.net.lock().unwrap_or_else(PoisonError::into_inner).wake_all();
        }
    }

    /// Records the death of a rank.
    pub(crate) fn fail(&mut self, rank: u32) {
        if self.failed.contains(&rank) {
            return;
        }
        if self.entered[rank as usize] > 1 {
            self.waiting -= 1;
        }
        self.failed.push(rank);
        self.failed.sort_unstable();
        self.wake_if_complete();
    }
}

/// One rank's connection to the process manager.
///
/// Values can be read as soon as they are published, and the barrier for joining does not wait: a
/// simulation makes its ranks one after another, first the one that publishes the job key.
#[derive(Debug)]
pub(crate) struct RankPm {
    pub(crate) rank: u32,
    pub(crate) pm: Arc<Mutex<PmState>>,
}

impl RankPm {
    fn pm(&self) -> MutexGuard<'_, PmState> {
        self.pm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bootstrap for RankPm {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.pm().size
    }

    fn job_id(&self) -> String {
        self.pm().job.clone()
    }

    fn local_size(&self) -> u32 {
        1
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        self.pm().values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let mut pm = self.pm();
        pm.fetched[self.rank as usize] += 1;
        Ok(pm.values.get(key).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        let mut pm = self.pm();
        pm.entered[self.rank as usize] += 1;
        if pm.entered[self.rank as usize] > 1 {
            pm.waiting += 1;
            pm.wake_if_complete();
        }
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        let pm = self.pm();
        Ok(pm.entered[self.rank as usize] <= 1 || pm.is_complete())
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        Ok(Asked::Now(self.pm().failed.clone()))
    }

    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("rank {} aborted the simulated job with code {code}: {message}", self.rank);
    }
}

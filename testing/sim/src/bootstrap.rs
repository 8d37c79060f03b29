//! The simulated process manager: key-value space, barriers, and who has failed.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ch3_shim::{Asked, Bootstrap};

use crate::net::Net;

/// What the process manager knows.
#[derive(Debug)]
pub(crate) struct Office {
    size: u32,
    job: String,
    values: HashMap<String, Vec<u8>>,
    /// Values asked for, by rank.
    pub(crate) fetched: Vec<u64>,
    /// Barriers that each rank has entered; the first is that of joining the job.
    entered: Vec<u32>,
    /// Ranks that have entered the barrier of leaving.
    waiting: u32,
    failed: Vec<u32>,
    net: Arc<Mutex<Net>>,
}

impl Office {
    pub(crate) fn new(size: u32, net: Arc<Mutex<Net>>) -> Office {
        Office {
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

    /// Whether all that live want to leave.
    fn is_complete(&self) -> bool {
        self.waiting + self.failed.len() as u32 >= self.size
    }

    fn wake_if_complete(&self) {
        if self.is_complete() {
            self.net.lock().unwrap_or_else(PoisonError::into_inner).wake_all();
        }
    }

    /// A rank has died.
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

/// One rank's part of the process manager.
///
/// Values can be read as soon as they are published, and the barrier of joining does not wait: the ranks
/// of a simulation are made one after another, the one that publishes the job key first.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) office: Arc<Mutex<Office>>,
}

impl Place {
    fn office(&self) -> MutexGuard<'_, Office> {
        self.office.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bootstrap for Place {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.office().size
    }

    fn job_id(&self) -> String {
        self.office().job.clone()
    }

    fn local_size(&self) -> u32 {
        1
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.office().values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let mut office = self.office();
        office.fetched[self.rank as usize] += 1;
        Ok(office.values.get(key).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), String> {
        let mut office = self.office();
        office.entered[self.rank as usize] += 1;
        if office.entered[self.rank as usize] > 1 {
            office.waiting += 1;
            office.wake_if_complete();
        }
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, String> {
        let office = self.office();
        Ok(office.entered[self.rank as usize] <= 1 || office.is_complete())
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, String> {
        Ok(Asked::Now(self.office().failed.clone()))
    }

    fn finalize_poll(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("rank {} aborted the simulated job with code {code}: {message}", self.rank);
    }
}

//! One process manager for several engines: each has keys of its own; what the process does once,
//! such as a barrier, is done when all engines have asked for it.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use parking_lot::Mutex;

use netmod_pmi::Spawn;

use crate::bootstrap::{Answer, Asked, Bootstrap, BootstrapError, Silence};

/// The process manager and how far its engines are.
pub(super) struct Party {
    boot: Box<dyn Bootstrap>,
    engines: u32,
    /// Barriers that the engines have entered, added up.
    entered: u32,
    /// Barriers that the process has left.
    left: u32,
    /// Engines that have finalized.
    finalized: u32,
    /// Engines whose questions are open, in the order of the answers.
    asked: VecDeque<u32>,
    /// Answers that their engine has not taken.
    answers: Vec<VecDeque<Answer>>,
    /// Reason for which no answer will come any more.
    silence: Option<Silence>,
}

impl Party {
    /// The process manager's share of each engine.
    pub(super) fn of(boot: Box<dyn Bootstrap>, engines: u8) -> Vec<EngineBoot> {
        let engines = u32::from(engines);
        let answers = (0..engines).map(|_| VecDeque::new()).collect();
        let party = Party {
            boot,
            engines,
            entered: 0,
            left: 0,
            finalized: 0,
            asked: VecDeque::new(),
            answers,
            silence: None,
        };
        let party = Arc::new(Mutex::new(party));
        let boot = |engine| {
            let party = Arc::clone(&party);
            EngineBoot { party, engine, entered: 0, leaves: false, last: false }
        };
        (0..engines).map(boot).collect()
    }
}

impl Party {
    /// Gives each answer that has come to the engine that has asked.
    fn collect(&mut self) {
        while self.silence.is_none() {
            match self.boot.answer() {
                Ok(None) => return,
                Ok(Some(answer)) => {
                    let engine = self.asked.pop_front().unwrap_or(0);
                    if let Some(queue) = self.answers.get_mut(engine as usize) {
                        queue.push_back(answer);
                    }
                }
                Err(silence) => self.silence = Some(silence),
            }
        }
    }
}

/// The process manager, as one engine sees it.
pub(super) struct EngineBoot {
    party: Arc<Mutex<Party>>,
    engine: u32,
    /// Barriers that this engine has entered.
    entered: u32,
    /// This engine has left.
    leaves: bool,
    /// All others have left before.
    last: bool,
}

impl EngineBoot {
    /// The first engine's keys are those of a process with one engine.
    fn key(&self, key: &str) -> String {
        if self.engine == 0 { key.to_owned() } else { format!("{key}-engine-{}", self.engine) }
    }
}

impl Bootstrap for EngineBoot {
    fn rank(&self) -> u32 {
        self.party.lock().boot.rank()
    }

    fn size(&self) -> u32 {
        self.party.lock().boot.size()
    }

    /// Each engine number has a job of its own, so that none takes another's connections for its
    /// own.
    fn job_id(&self) -> String {
        self.key(&self.party.lock().boot.job_id())
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), BootstrapError> {
        self.party.lock().boot.publish_name(service, port)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, BootstrapError> {
        self.party.lock().boot.lookup_name(service)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<(), BootstrapError> {
        self.party.lock().boot.unpublish_name(service)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, BootstrapError> {
        self.party.lock().boot.spawn(spawn)
    }

    fn is_spawned(&self) -> bool {
        self.party.lock().boot.is_spawned()
    }

    fn parent_port(&mut self) -> Result<Option<String>, BootstrapError> {
        self.party.lock().boot.parent_port()
    }

    fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, BootstrapError> {
        self.party.lock().boot.end_of_job(job)
    }

    fn local_size(&self) -> u32 {
        self.party.lock().boot.local_size()
    }

    fn node(&self) -> Option<u32> {
        self.party.lock().boot.node()
    }

    fn node_of(&self, rank: u32) -> Option<u32> {
        self.party.lock().boot.node_of(rank)
    }

    fn local_rank(&self) -> Option<u32> {
        self.party.lock().boot.local_rank()
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let key = self.key(key);
        self.party.lock().boot.put(&key, value)
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let key = self.key(key);
        self.party.lock().boot.get(&key)
    }

    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        let mut p = self.party.lock();
        self.entered += 1;
        p.entered += 1;
        if p.entered.is_multiple_of(p.engines) { p.boot.barrier_begin() } else { Ok(()) }
    }

    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        let mut p = self.party.lock();
        if p.left < self.entered && p.entered >= self.entered * p.engines && p.boot.barrier_poll()? {
            p.left += 1;
        }
        Ok(p.left >= self.entered)
    }

    fn fd(&self) -> Option<RawFd> {
        self.party.lock().boot.fd()
    }

    fn ask_value(&mut self, key: &str) -> Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        let key = self.key(key);
        let mut p = self.party.lock();
        let asked = p.boot.ask_value(&key)?;
        if matches!(asked, Asked::Later) {
            p.asked.push_back(self.engine);
        }
        Ok(asked)
    }

    fn ask_failed(&mut self) -> Result<Asked<Vec<u32>>, BootstrapError> {
        let mut p = self.party.lock();
        let asked = p.boot.ask_failed()?;
        if matches!(asked, Asked::Later) {
            p.asked.push_back(self.engine);
        }
        Ok(asked)
    }

    fn answer(&mut self) -> Result<Option<Answer>, Silence> {
        let mut p = self.party.lock();
        p.collect();
        let next = p.answers.get_mut(self.engine as usize).and_then(VecDeque::pop_front);
        match (next, &p.silence) {
            (Some(Answer::Value(key, value)), _) => {
                let own = key.strip_suffix(&self.key("")).unwrap_or(&key).to_owned();
                Ok(Some(Answer::Value(own, value)))
            }
            (None, Some(silence)) => Err(silence.clone()),
            (next, _) => Ok(next),
        }
    }

    fn survive_failures(&mut self) -> Result<(), BootstrapError> {
        self.party.lock().boot.survive_failures()
    }

    /// The last engine tells the process manager.
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        let mut p = self.party.lock();
        if !std::mem::replace(&mut self.leaves, true) {
            p.finalized += 1;
            self.last = p.finalized == p.engines;
        }
        if self.last { p.boot.finalize_poll() } else { Ok(true) }
    }

    fn abort(&mut self, code: i32, message: &str) -> i32 {
        self.party.lock().boot.abort(code, message)
    }
}

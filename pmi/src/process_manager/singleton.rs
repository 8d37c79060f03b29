//! The process manager of a process without a launcher: a job of one.
//!
//! It starts a launcher of its own when it is asked for what concerns other jobs.

use super::{Backend, own_server};
use crate::client::{KEY_RULE, is_key};
use crate::codec::MAX_VALUE;
use crate::state::State;
use crate::{Answer, PmiClient, PmiError, Spawn, wire::quote};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(super) struct Singleton {
    name: String,
    kvs: HashMap<String, Vec<u8>>,
    state: State,
    answers: VecDeque<Answer>,
    /// The launcher that this process has started, if it has needed one.
    server: Option<PmiClient>,
}

impl Singleton {
    pub(super) fn new() -> Singleton {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("singleton_{}_{}", std::process::id(), since_epoch.as_nanos());
        let (kvs, answers) = (HashMap::new(), VecDeque::new());
        Singleton { name, kvs, state: State::Idle, answers, server: None }
    }

    /// Returns the launcher that this process has started, which it does now if it has not.
    fn server(&mut self, call: &'static str) -> Result<&mut PmiClient, PmiError> {
        self.state.check_idle(call)?;
        match &mut self.server {
            Some(server) => Ok(server),
            none => Ok(none.insert(own_server::connect(call)?)),
        }
    }
}

impl Backend for Singleton {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn job_id(&self) -> &str {
        &self.name
    }

    fn appnum(&self) -> i32 {
        0
    }

    fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        Ok(Some(1))
    }

    fn launcher(&self) -> &'static str {
        "none"
    }

    fn is_singleton(&self) -> bool {
        true
    }

    fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.state.check_idle("put")?;
        let why = if !is_key(key) {
            KEY_RULE.to_owned()
        } else if value.len() > MAX_VALUE {
            format!("{} bytes are more than the limit of {MAX_VALUE}", value.len())
        } else if self.kvs.contains_key(key) {
            "it exists".to_owned()
        } else {
            self.kvs.insert(key.to_owned(), value.to_vec());
            return Ok(());
        };
        Err(PmiError::Argument { key: quote(key.as_bytes()), why })
    }

    fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.state.check_idle("get")?;
        Ok(self.kvs.get(key).cloned())
    }

    fn barrier_begin(&mut self) -> Result<(), PmiError> {
        self.state.check_idle("barrier_begin")?;
        self.state = State::InBarrier;
        Ok(())
    }

    fn barrier_poll(&mut self) -> Result<bool, PmiError> {
        self.state.check_in_barrier()?;
        self.state = State::Idle;
        Ok(true)
    }

    fn barrier(&mut self) -> Result<(), PmiError> {
        if self.state == State::InBarrier {
            self.state = State::Idle;
        }
        self.state.check_idle("barrier")
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        if self.state != State::Finalized {
            self.state.check_idle("finalize")?;
            if let Some(server) = &mut self.server {
                server.finalize()?;
            }
            self.state = State::Finalized;
        }
        Ok(())
    }

    fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        self.finalize().map(|()| true)
    }

    fn abort(&mut self, code: i32, _message: &str, limit: Duration) -> Result<(), PmiError> {
        if let Some(server) = &mut self.server {
            server.abort(code)?;
            server.wait_closed(limit);
        }
        Ok(())
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), PmiError> {
        self.server("publish_name")?.publish_name(service, port)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        self.server("lookup_name")?.lookup_name(service)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<(), PmiError> {
        self.server("unpublish_name")?.unpublish_name(service)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        self.server("spawn")?.spawn(spawn)
    }

    fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, PmiError> {
        self.server("spawn")?.end_of_job(job)
    }

    fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        Ok(Vec::new())
    }

    fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        let value = self.get_bytes(key)?;
        self.answers.push_back(Answer::Value { key: key.to_owned(), value: Ok(value) });
        Ok(())
    }

    fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.answers.push_back(Answer::Failed(Vec::new()));
        Ok(())
    }

    fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        Ok(self.answers.pop_front())
    }

    fn outlives_launcher(&self) -> bool {
        true
    }

    fn survive_failures(&self) -> io::Result<()> {
        Ok(())
    }

    fn node_of(&self, _rank: u32) -> Option<u32> {
        Some(0)
    }

    fn local_ranks(&self) -> u32 {
        1
    }
}

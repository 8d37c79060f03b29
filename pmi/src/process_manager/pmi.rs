//! The process manager over PMI-1 or PMI-2: placement, failed ranks, abort.

use super::Backend;
use crate::client::Version;
use crate::launch::{JOB_NAME, NO_KILL};
use crate::{Answer, PmiClient, PmiError, ProcessMapping, Spawn};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Pmi {
    client: PmiClient,
    mapping_text: Option<String>,
    mapping: Option<ProcessMapping>,
    local_ranks: u32,
    /// The answer to the last query for failed ranks.
    failed: Vec<u32>,
}

impl Pmi {
    pub(super) fn new(mut client: PmiClient, local_ranks: Option<u32>) -> Result<Pmi, PmiError> {
        let (rank, size) = (client.rank(), client.size());
        let mapping_text = client.attribute("PMI_process_mapping")?;
        let mapping = mapping_text.as_deref().and_then(|text| {
            ProcessMapping::parse(text)
                .inspect_err(|error| tracing::warn!(%error, "nodes of the ranks are unknown"))
                .ok()
        });
        let local_ranks = match (&mapping, local_ranks) {
            (Some(mapping), _) => mapping.ranks_on(mapping.node_of(rank), size),
            (None, Some(told)) => told.clamp(1, size),
            (None, None) => 1,
        };
        Ok(Pmi { client, mapping_text, mapping, local_ranks, failed: Vec::new() })
    }

    /// Returns true if the embedded launcher has started this process.
    fn is_of_nmrun(&self) -> bool {
        self.client.kvsname().starts_with(JOB_NAME)
    }
}

impl Backend for Pmi {
    fn rank(&self) -> u32 {
        self.client.rank()
    }

    fn size(&self) -> u32 {
        self.client.size()
    }

    fn job_id(&self) -> &str {
        self.client.kvsname()
    }

    fn appnum(&self) -> i32 {
        self.client.appnum()
    }

    fn universe_size(&mut self) -> Result<Option<u32>, PmiError> {
        self.client.universe_size()
    }

    fn launcher(&self) -> &'static str {
        match self.client.version() {
            Version::V1 if self.is_of_nmrun() => "nmrun (PMI-1)",
            Version::V1 => "PMI-1",
            Version::V2 => "PMI-2",
        }
    }

    fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.client.put_bytes(key, value)
    }

    fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        self.client.get_bytes(key)
    }

    fn barrier_begin(&mut self) -> Result<(), PmiError> {
        self.client.barrier_begin()
    }

    fn barrier_poll(&mut self) -> Result<bool, PmiError> {
        self.client.poll_barrier(false)
    }

    fn barrier(&mut self) -> Result<(), PmiError> {
        self.client.barrier()
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.client.fd())
    }

    fn finalize(&mut self) -> Result<(), PmiError> {
        self.client.finalize()
    }

    fn finalize_poll(&mut self) -> Result<bool, PmiError> {
        self.client.finalize_poll()
    }

    fn abort(&mut self, code: i32, _message: &str, limit: Duration) -> Result<(), PmiError> {
        self.client.abort(code)?;
        self.client.wait_closed(limit);
        Ok(())
    }

    fn failed_ranks(&mut self) -> Result<Vec<u32>, PmiError> {
        if self.client.in_barrier() {
            return Ok(self.failed.clone());
        }
        self.failed = self.client.wait_failed()?;
        Ok(self.failed.clone())
    }

    fn ask_value(&mut self, key: &str) -> Result<(), PmiError> {
        self.client.ask_value(key)
    }

    fn ask_failed(&mut self) -> Result<(), PmiError> {
        self.client.ask_failed()
    }

    fn answer(&mut self) -> Result<Option<Answer>, PmiError> {
        self.client.answer()
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<(), PmiError> {
        self.client.publish_name(service, port)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>, PmiError> {
        self.client.lookup_name(service)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<(), PmiError> {
        self.client.unpublish_name(service)
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<Option<String>, PmiError> {
        self.client.spawn(spawn)
    }

    fn is_spawned(&self) -> bool {
        self.client.is_spawned()
    }

    fn parent_port(&mut self) -> Result<Option<String>, PmiError> {
        self.client.parent_port()
    }

    fn end_of_job(&mut self, job: &str) -> Result<Option<i32>, PmiError> {
        // Other launchers do not tell.
        if self.is_of_nmrun() { self.client.end_of_job(job) } else { Ok(None) }
    }

    fn outlives_launcher(&self) -> bool {
        std::env::var_os(NO_KILL).is_some_and(|v| v == "1")
    }

    fn survive_failures(&self) -> io::Result<()> {
        // Only other launchers tell of a death by a signal; the program's signals stay its own.
        if self.is_of_nmrun() { Ok(()) } else { crate::sys::defuse_sigusr1() }
    }

    fn process_mapping(&self) -> Option<&str> {
        self.mapping_text.as_deref()
    }

    fn node_of(&self, rank: u32) -> Option<u32> {
        self.mapping.as_ref().map(|mapping| mapping.node_of(rank))
    }

    fn local_ranks(&self) -> u32 {
        self.local_ranks
    }
}

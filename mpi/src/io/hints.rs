//! Hints: settings of an open file, by the keys of infos.

use super::group::{ALWAYS, AUTOMATIC, NEVER};

/// Whether holes between the parts of a read, or of a write, are transferred, too.
const SIEVE_READS: &str = "romio_ds_read";
const SIEVE_WRITES: &str = "romio_ds_write";
/// Most bytes of a file that are transferred at once with their holes.
const READ_BUFFER: &str = "ind_rd_buffer_size";
const WRITE_BUFFER: &str = "ind_wr_buffer_size";

/// Whether reads, or writes, of all processes go in two phases.
const COLLECT_READS: &str = "romio_cb_read";
const COLLECT_WRITES: &str = "romio_cb_write";
/// Aggregators, and the bytes that one has in memory at once.
const NODES: &str = "cb_nodes";
const WINDOW: &str = "cb_buffer_size";

/// The hints of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    pub sieve_reads: bool,
    pub sieve_writes: bool,
    pub read_buffer: u64,
    pub write_buffer: u64,
    collect_reads: i64,
    collect_writes: i64,
    pub nodes: u64,
    pub window: u64,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            sieve_reads: true,
            sieve_writes: false,
            read_buffer: 4 << 20,
            write_buffer: 512 << 10,
            collect_reads: AUTOMATIC,
            collect_writes: AUTOMATIC,
            nodes: 1,
            window: 16 << 20,
        }
    }
}

/// Returns a number of bytes that a buffer may have.
fn bytes(value: &str) -> Option<u64> {
    value.trim().parse().ok().filter(|n| (1..=1 << 40).contains(n))
}

impl Hints {
    /// Takes what pairs say. Unknown keys and values are passed over, as MPI wants it.
    pub(super) fn take(&mut self, pairs: &[(String, String)]) {
        for (key, value) in pairs {
            let switch = |now: bool, automatic: bool| match value.as_str() {
                "enable" => true,
                "disable" => false,
                "automatic" => automatic,
                _ => now,
            };
            let choice = |now: i64| match value.as_str() {
                "enable" => ALWAYS,
                "disable" => NEVER,
                "automatic" => AUTOMATIC,
                _ => now,
            };
            match key.as_str() {
                COLLECT_READS => self.collect_reads = choice(self.collect_reads),
                COLLECT_WRITES => self.collect_writes = choice(self.collect_writes),
                NODES => self.nodes = bytes(value).unwrap_or(self.nodes),
                WINDOW => self.window = bytes(value).unwrap_or(self.window),
                SIEVE_READS => self.sieve_reads = switch(self.sieve_reads, true),
                SIEVE_WRITES => self.sieve_writes = switch(self.sieve_writes, false),
                READ_BUFFER => self.read_buffer = bytes(value).unwrap_or(self.read_buffer),
                WRITE_BUFFER => self.write_buffer = bytes(value).unwrap_or(self.write_buffer),
                _ => {}
            }
        }
    }

    /// Returns whether accesses of all processes go in two phases.
    pub(super) fn two_phases(&self, reads: bool) -> i64 {
        if reads { self.collect_reads } else { self.collect_writes }
    }

    /// Returns the pairs of what is used.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let switch = |on: bool| if on { "enable" } else { "disable" }.to_owned();
        let choice = |mode: i64| match mode {
            ALWAYS => "enable",
            NEVER => "disable",
            _ => "automatic",
        };
        [
            (COLLECT_READS, choice(self.collect_reads).to_owned()),
            (COLLECT_WRITES, choice(self.collect_writes).to_owned()),
            (NODES, self.nodes.to_string()),
            (WINDOW, self.window.to_string()),
            (SIEVE_READS, switch(self.sieve_reads)),
            (SIEVE_WRITES, switch(self.sieve_writes)),
            (READ_BUFFER, self.read_buffer.to_string()),
            (WRITE_BUFFER, self.write_buffer.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }
}

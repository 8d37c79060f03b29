//! Hints: settings of an open file, by the keys of infos.

/// Keys of the transfer of holes between the parts of a read, or of a write.
const SIEVE_READS: &str = "romio_ds_read";
const SIEVE_WRITES: &str = "romio_ds_write";
/// Most bytes of a file that are transferred at once with their holes.
const READ_BUFFER: &str = "ind_rd_buffer_size";
const WRITE_BUFFER: &str = "ind_wr_buffer_size";

/// Keys of the phases of reads, or writes, of all processes.
const COLLECT_READS: &str = "romio_cb_read";
const COLLECT_WRITES: &str = "romio_cb_write";
/// Aggregators, and the bytes that one has in memory at once.
const NODES: &str = "cb_nodes";
const WINDOW: &str = "cb_buffer_size";

/// The phases of an access of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phases {
    /// Two if the parts of different processes lie between each other.
    Automatic,
    /// Data goes through aggregators.
    Two,
    /// Each process makes its access alone.
    One,
}

impl Phases {
    /// Returns a number for messages.
    pub(super) fn emit(self) -> u64 {
        match self {
            Phases::Automatic => 0,
            Phases::Two => 1,
            Phases::One => 2,
        }
    }

    /// Returns the phases of a number.
    pub(super) fn parse(number: u64) -> Phases {
        match number {
            1 => Phases::Two,
            2 => Phases::One,
            _ => Phases::Automatic,
        }
    }
}

/// The hints of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    pub sieve_reads: bool,
    pub sieve_writes: bool,
    pub read_buffer: u64,
    pub write_buffer: u64,
    collect_reads: Phases,
    collect_writes: Phases,
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
            collect_reads: Phases::Automatic,
            collect_writes: Phases::Automatic,
            nodes: 1,
            window: 1 << 20,
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
            let choice = |now: Phases| match value.as_str() {
                "enable" => Phases::Two,
                "disable" => Phases::One,
                "automatic" => Phases::Automatic,
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

    /// Returns the phases of reads, or of writes, of all processes.
    pub(super) fn phases(&self, reads: bool) -> Phases {
        if reads { self.collect_reads } else { self.collect_writes }
    }

    /// Returns the pairs of what is used.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let switch = |on: bool| if on { "enable" } else { "disable" }.to_owned();
        let choice = |phases: Phases| match phases {
            Phases::Two => "enable",
            Phases::One => "disable",
            Phases::Automatic => "automatic",
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

//! The costs of messages, as a table of constants with their date and source.
//!
//! They take part in choices, so they must be the same in all processes of a job: they change with
//! a version of the library, never by a measurement at run time.

/// The costs of one message on a kind of path, in nanoseconds.
///
/// A message of `b` bytes occupies the sender's port, and later the receiver's, for `gap + b *
/// byte`, and arrives `latency` after it has left. Within a node each process has a port; between
/// nodes all processes of a node share one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Its name: a netmod, and for `ofi` a provider.
    pub name: &'static str,
    /// Time from the start of a message to its arrival, without its bytes.
    pub latency: f64,
    /// Time for which a message without bytes occupies a port.
    pub gap: f64,
    /// Time for a byte.
    pub byte: f64,
    /// Origin of the figures.
    pub source: &'static str,
}

/// Time to copy a byte, in nanoseconds (27 November 2026).
pub const COPY: f64 = 0.03;
/// Time to combine a byte of two operands, in nanoseconds (27 November 2026).
pub const REDUCE: f64 = 0.06;
/// Factor on the time of bytes if all messages of an all-to-all are under way at once.
pub const CROWD: f64 = 1.25;

const OURS: &str = "docs/benchmarks, 27 November 2026";
const ETHERNET: &str = "Ethernet of 25 Gb/s, by its rate; latency of a data centre";
const HUNDRED: &str = "adapter of 100 Gb/s, by its rate; latency as vendors publish it";
const OTHER: &str = "assumed: like TCP";

const fn path(name: &'static str, latency: f64, gap: f64, byte: f64, source: &'static str) -> Path {
    Path { name, latency, gap, byte, source }
}

/// The kinds of paths, on 27 November 2026. A process tells others its row by its number.
pub const PATHS: [Path; 15] = [
    path("shm", 150.0, 40.0, 0.03, OURS),
    path("tcp", 12_000.0, 500.0, 0.35, ETHERNET),
    path("verbs", 1300.0, 60.0, 0.085, HUNDRED),
    path("ofi", 14_000.0, 700.0, 0.35, OTHER),
    path("ofi/shm", 400.0, 80.0, 0.06, "assumed: twice the time of shm"),
    path("ofi/tcp", 14_000.0, 700.0, 0.35, ETHERNET),
    path("ofi/sockets", 25_000.0, 1500.0, 0.5, ETHERNET),
    path("ofi/udp", 25_000.0, 1500.0, 0.5, ETHERNET),
    path("ofi/verbs", 1600.0, 100.0, 0.085, HUNDRED),
    path("ofi/efa", 16_000.0, 300.0, 0.085, HUNDRED),
    path("ofi/psm3", 2500.0, 200.0, 0.085, HUNDRED),
    path("ofi/psm2", 1200.0, 100.0, 0.085, HUNDRED),
    path("ofi/cxi", 1900.0, 80.0, 0.045, "adapter of 200 Gb/s, by its rate; latency as vendors publish it"),
    path("ofi/opx", 1300.0, 100.0, 0.085, HUNDRED),
    path("unknown", 14_000.0, 700.0, 0.35, OTHER),
];

/// Returns the row of a kind of path; that of `unknown` if there is none.
pub fn row(name: &str) -> u8 {
    let at = PATHS.iter().position(|p| p.name == name).unwrap_or(PATHS.len() - 1);
    at as u8
}

/// Returns the row of libfabric with the first provider that a list prefers.
pub fn row_of_provider(list: &str) -> u8 {
    let first = list.split([',', ';']).map(str::trim).find(|p| !p.is_empty() && !p.starts_with('!'));
    let known = first.map(|p| format!("ofi/{p}")).filter(|name| PATHS.iter().any(|p| p.name == *name));
    row(known.as_deref().unwrap_or("ofi"))
}

/// The places of a communicator's processes, and the paths between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Path within a node.
    pub near: Path,
    /// Path between nodes.
    pub far: Path,
    /// Number of nodes.
    pub nodes: usize,
    /// The most processes on a node.
    pub per_node: usize,
}

impl Machine {
    /// Processes of one node.
    pub fn of_one_node(near: Path, n: usize) -> Machine {
        Machine { near, far: near, nodes: 1, per_node: n }
    }
}

/// The cost of an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Rounds in which a process sends one message and receives one.
    pub steps: u64,
    /// The most bytes that one process sends or receives.
    pub bytes: f64,
    /// Time in nanoseconds.
    pub time: f64,
}

impl Cost {
    /// Returns the cost of one after the other.
    pub fn and(self, other: Cost) -> Cost {
        Cost {
            steps: self.steps + other.steps,
            bytes: self.bytes + other.bytes,
            time: self.time + other.time,
        }
    }
}

/// The places of the partners of a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// Each process sends to the one so many ranks away, around the end.
    Shift(usize),
    /// Each exchanges with the one whose rank differs in these bits.
    Swap(usize),
    /// Like `Swap`, but of each group of that size only one process takes part.
    Lone(usize),
}

/// Adds up the cost of an algorithm.
pub(super) struct Sum<'a> {
    machine: &'a Machine,
    cost: Cost,
}

impl Sum<'_> {
    pub(super) fn new(machine: &Machine) -> Sum<'_> {
        Sum { machine, cost: Cost::default() }
    }

    pub(super) fn cost(self) -> Cost {
        self.cost
    }

    /// The processes of a node whose messages leave it in a round.
    fn leaving(&self, reach: Reach) -> usize {
        let k = self.machine.per_node;
        match reach {
            _ if self.machine.nodes == 1 => 0,
            Reach::Shift(by) => by.min(k),
            Reach::Swap(by) => by.min(k) * usize::from(by >= k),
            Reach::Lone(by) => usize::from(by >= k),
        }
    }

    /// Adds rounds of messages of so many bytes each.
    pub(super) fn rounds(&mut self, times: usize, bytes: f64, reach: Reach) {
        let all = times as f64;
        let Machine { near, far, .. } = self.machine;
        let one = match self.leaving(reach) {
            0 => near.latency + near.gap + bytes * near.byte,
            ports => far.latency + ports as f64 * (far.gap + bytes * far.byte),
        };
        self.cost.steps += times as u64;
        self.cost.bytes += all * bytes;
        self.cost.time += all * one;
    }

    pub(super) fn round(&mut self, bytes: f64, reach: Reach) {
        self.rounds(1, bytes, reach);
    }

    /// Adds a round in which those send that have received more than they have sent.
    pub(super) fn back(&mut self, bytes: f64, reach: Reach) {
        self.round(bytes, reach);
        self.cost.bytes -= bytes;
    }

    /// Adds a message that leaves together with that of the round before.
    pub(super) fn second(&mut self, reach: Reach) {
        self.cost.steps += 1;
        self.cost.time += match self.leaving(reach) {
            0 => self.machine.near.gap,
            // At most one process of a node has its ranks around the end.
            _ => self.machine.far.gap,
        };
    }

    /// Adds messages between a process and all others, all under way at once. `crowd`: the factor
    /// on the time of bytes. `ports`: processes of a node that do so.
    pub(super) fn fan(&mut self, n: usize, bytes: f64, batch: usize, (crowd, ports): (f64, usize)) {
        let Machine { near, far, nodes, per_node } = self.machine;
        let own = if *nodes == 1 { n - 1 } else { per_node - 1 };
        let others = n - 1 - own;
        let inside = own as f64 * (near.gap + bytes * near.byte * crowd);
        let outside = (others * ports) as f64 * (far.gap + bytes * far.byte * crowd);
        let latency = if others > 0 { far.latency } else { near.latency };
        self.cost.steps += n as u64 - 1;
        self.cost.bytes += (n - 1) as f64 * bytes;
        self.cost.time += n.saturating_sub(1).div_ceil(batch) as f64 * latency + inside.max(outside);
    }

    pub(super) fn reduce(&mut self, bytes: f64) {
        self.cost.time += bytes * REDUCE;
    }

    pub(super) fn copy(&mut self, bytes: f64) {
        self.cost.time += bytes * COPY;
    }

    pub(super) fn add(&mut self, other: Cost) {
        self.cost = self.cost.and(other);
    }
}

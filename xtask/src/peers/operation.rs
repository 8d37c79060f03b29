//! The operations that are compared.

/// The meaning of an operation's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Microseconds.
    Time,
    /// Messages a second, shown as megabytes a second.
    Bandwidth,
    /// Messages a second.
    Rate,
}

impl Kind {
    /// Returns true if less is better.
    pub(crate) fn is_time(self) -> bool {
        self == Kind::Time
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Kind::Time => "us",
            Kind::Bandwidth => "MB/s",
            Kind::Rate => "msg/s",
        }
    }

    /// Returns a figure in the unit.
    pub(crate) fn in_unit(self, value: f64, bytes: usize) -> f64 {
        if self == Kind::Bandwidth { value * bytes as f64 / 1e6 } else { value }
    }
}

/// An operation that is compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

impl Operation {
    /// Returns true for two ranks with messages of all sizes.
    pub(crate) fn is_pair(&self) -> bool {
        ![RATE, "Barrier", "Allreduce", START].contains(&self.name)
    }
}

const fn operation(name: &'static str, kind: Kind) -> Operation {
    Operation { name, kind }
}

/// All operations, in the order of the tables.
pub(crate) const OPERATIONS: [Operation; 10] = [
    operation("PingPong", Kind::Time),
    operation("PingPing", Kind::Time),
    operation("Sendrecv", Kind::Time),
    operation("Exchange", Kind::Time),
    operation("Uniband", Kind::Bandwidth),
    operation("Biband", Kind::Bandwidth),
    operation(RATE, Kind::Rate),
    operation("Barrier", Kind::Time),
    operation("Allreduce", Kind::Time),
    operation(START, Kind::Time),
];
/// Two of them whose ranks write what they send and read what has come. No benchmark of Intel's
/// does so.
pub(crate) const WRITTEN: [Operation; 2] =
    [operation("PingPong-written", Kind::Time), operation("Sendrecv-written", Kind::Time)];
/// The rate of one pair, in windows of 64 messages.
pub(crate) const RATE: &str = "Rate";
/// The time in which a job starts, has one barrier, and ends.
pub(crate) const START: &str = "Start";

//! Counts of the events in schedules.

/// Counts of events.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub messages: usize,
    pub cancelled: usize,
    pub puts: usize,
    pub gets: usize,
    pub failed: usize,
    pub early: usize,
    pub downs: usize,
    pub terminated: usize,
    pub aborted: usize,
    pub killed: usize,
    pub revived: usize,
    pub refused: u64,
    pub full: u64,
    pub injected: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.messages += other.messages;
        self.cancelled += other.cancelled;
        self.puts += other.puts;
        self.gets += other.gets;
        self.failed += other.failed;
        self.early += other.early;
        self.downs += other.downs;
        self.terminated += other.terminated;
        self.aborted += other.aborted;
        self.killed += other.killed;
        self.revived += other.revived;
        self.refused += other.refused;
        self.full += other.full;
        self.injected += other.injected;
    }

    /// Returns true if every kind of event has happened.
    pub fn is_full(&self) -> bool {
        let counts = [
            self.messages,
            self.cancelled,
            self.puts,
            self.gets,
            self.failed,
            self.early,
            self.downs,
            self.terminated,
            self.aborted,
            self.killed,
            self.revived,
        ];
        counts.iter().all(|n| *n > 0) && self.refused > 0 && self.full > 0 && self.injected > 0
    }
}
